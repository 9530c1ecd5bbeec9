/* The model API as a C program uses it. Returns NULL, or what went wrong. */
#include "c_api.h"

#include <quern/quern.h>
#include <stdlib.h>
#include <string.h>

#define NEED(condition)                  \
  do {                                   \
    if (!(condition)) return #condition; \
  } while (0)

static const char* use_session(qn_model* model) {
  qn_session_options options;
  qn_session_options_init(&options);
  options.threads = 2;
  options.profile = 1;
  NEED(qn_arena_create(NULL, 0, &options.arena) == QN_OK);
  qn_session* session = NULL;
  NEED(qn_session_create(model, &options, &session) == QN_OK);
  qn_arena_release(options.arena); /* the session keeps it */

  qn_tensor in, out;
  NEED(qn_session_input_tensor(session, 0, &in) == QN_OK);
  const size_t shape[2] = {5, in.shape[1]};
  NEED(qn_session_resize(session, 0, 2, shape) == QN_OK);
  NEED(qn_session_input_tensor(session, 0, &in) == QN_OK);
  NEED(qn_session_output_tensor(session, 0, &out) == QN_OK);
  NEED(in.shape[0] == 5 && out.shape[0] == 5);

  float* x = malloc(qn_tensor_bytes(&in));
  NEED(x != NULL);
  for (size_t i = 0; i < qn_tensor_bytes(&in) / sizeof *x; ++i) x[i] = (float)i - 4;
  const void* inputs[1] = {x};
  const void* data = NULL;
  const qn_status ran = qn_session_run(session, inputs);
  free(x);
  NEED(ran == QN_OK);
  NEED(qn_session_output(session, 0, &data) == QN_OK);
  const float* y = data;
  NEED(y[0] == 0 && y[9] == 5); /* relu */
  NEED(qn_session_memory(session) >= qn_tensor_bytes(&out));
  NEED(qn_session_profile_count(session) == 1);
  qn_profile_entry entry;
  qn_profile_entry_init(&entry);
  NEED(qn_session_profile(session, 0, &entry) == QN_OK);
  NEED(strcmp(entry.op, "clamp") == 0);

  float again[20] = {-1, 1};
  NEED(qn_tensor_bytes(&in) == sizeof again);
  NEED(qn_session_bind_input(session, 0, again, sizeof again) == QN_OK);
  float result[20] = {9, 9};
  NEED(qn_session_bind_output(session, 0, result, sizeof result) == QN_OK);
  NEED(qn_session_run(session, NULL) == QN_OK);
  NEED(result[0] == 0 && result[1] == 1 && result[2] == 0);
  qn_session_release(session);
  return NULL;
}

const char* use_model_from_c(const char* path) {
  qn_model_options options;
  qn_model_options_init(&options);
  qn_model* model = NULL;
  NEED(qn_model_load_file("/nonexistent.qn", &options, &model) == QN_IO_ERROR);
  NEED(strstr(qn_last_message(), "/nonexistent.qn") != NULL);
  NEED(qn_model_load_file(path, &options, &model) == QN_OK);
  NEED(qn_model_input_count(model) == 1 && qn_model_output_count(model) == 1);
  qn_port port;
  qn_port_init(&port);
  NEED(qn_model_output(model, 0, &port) == QN_OK);
  NEED(strcmp(port.name, "y") == 0 && port.tensor.rank == 2);
  const char* problem = use_session(model);
  qn_model_release(model);
  return problem;
}
