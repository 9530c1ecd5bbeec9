// run_times MODEL.qn N [ALGORITHM]: runs a model N times on zeros, on one thread, and does nothing else, so that
// count.py can find the instructions of a run. ALGORITHM is a number of qn_algorithm.
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>

static void check(qn_status status) {
  if (status == QN_OK) return;
  fprintf(stderr, "run_times: %s\n", qn_status_string(status));
  exit(1);
}

static void* zeros_of(const qn_session* session, size_t index) {
  qn_tensor tensor;
  check(qn_session_input_tensor(session, index, &tensor));
  size_t elements = 1;
  for (uint32_t i = 0; i < tensor.rank; ++i) elements *= tensor.shape[i];
  void* data = calloc(elements, sizeof(float));
  if (data == NULL) check(QN_OUT_OF_MEMORY);
  return data;
}

int main(int argc, char** argv) {
  enum { most_inputs = 8 };
  if (argc < 3) return 2;
  qn_model* model;
  check(qn_model_load_file(argv[1], NULL, &model));
  qn_session_options options;
  qn_session_options_init(&options);
  if (argc > 3) options.algorithm = (qn_algorithm)atoi(argv[3]);
  qn_session* session;
  check(qn_session_create(model, &options, &session));
  const void* inputs[most_inputs];
  const size_t count = qn_model_input_count(model);
  if (count > most_inputs) return 2;
  for (size_t i = 0; i < count; ++i) inputs[i] = zeros_of(session, i);
  for (int run = 0; run < atoi(argv[2]); ++run) check(qn_session_run(session, inputs));
  for (size_t i = 0; i < count; ++i) free((void*)inputs[i]);
  qn_session_release(session);
  qn_model_release(model);
  return 0;
}
