/* What streams.py needs of Quern, in a shared object: a session of a model whose inputs are buffers or states. */
#include <quern/extra.h>
#include <quern/graph.h>
#include <string.h>

const char* message(void) { return qn_last_message(); }

/* Loads a model and makes a session. Returns NULL if that fails. */
qn_session* open_session(const char* path) {
  qn_model* model;
  qn_session* session;
  if (qn_extra_register() || qn_model_load_file(path, NULL, &model)) return NULL;
  const qn_status status = qn_session_create(model, NULL, &session);
  qn_model_release(model);
  return status ? NULL : session;
}

/* Finds an input or output by its name; -1: there is none. */
int find_port(const char* path, int output, const char* name) {
  qn_model* model;
  int found = -1;
  if (qn_extra_register() || qn_model_load_file(path, NULL, &model)) return -1;
  const size_t count = output ? qn_model_output_count(model) : qn_model_input_count(model);
  for (size_t i = 0; i < count; ++i) {
    qn_port port;
    qn_port_init(&port);
    if ((output ? qn_model_output : qn_model_input)(model, i, &port)) continue;
    if (strcmp(port.name, name) == 0) found = (int)i;
  }
  qn_model_release(model);
  return found;
}

/* Gives an input its shape and its buffer. */
int set_input(qn_session* session, int index, unsigned rank, const size_t* shape, const void* data, size_t bytes) {
  const qn_status status = qn_session_resize(session, (size_t)index, rank, shape);
  return status ? (int)status : (int)qn_session_bind_input(session, (size_t)index, data, bytes);
}

int run(qn_session* session) { return (int)qn_session_run(session, NULL); }

const void* output(qn_session* session, int index) {
  const void* data = NULL;
  return qn_session_output(session, (size_t)index, &data) ? NULL : data;
}
