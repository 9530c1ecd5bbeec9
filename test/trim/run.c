/* run MODEL INPUT OUTPUT: runs a model with one input and one output once, through the public interface alone. On
   failure the library's message goes to stderr, and the exit status is 1. */
#include <quern/graph.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, qn_last_message());
  return 1;
}

int main(int count, char** arguments) {
  qn_model* model;
  qn_session* session;
  qn_session_options options;
  qn_tensor tensor;
  if (count != 4) return 2;
  qn_session_options_init(&options);
  if (qn_model_load_file(arguments[1], NULL, &model) || qn_session_create(model, &options, &session))
    return fail("load");
  qn_session_input_tensor(session, 0, &tensor);
  const size_t input_bytes = qn_tensor_bytes(&tensor);
  void* input = malloc(input_bytes);
  FILE* file = fopen(arguments[2], "rb");
  if (file == NULL || fread(input, 1, input_bytes, file) != input_bytes) return fail(arguments[2]);
  fclose(file);

  const void *inputs[] = {input}, *output;
  if (qn_session_run(session, inputs) || qn_session_output(session, 0, &output)) return fail("run");
  if (*qn_last_message() != '\0') return fail("nothing failed, but the library says");
  qn_session_output_tensor(session, 0, &tensor);
  file = fopen(arguments[3], "wb");
  if (file == NULL || fwrite(output, 1, qn_tensor_bytes(&tensor), file) != qn_tensor_bytes(&tensor))
    return fail("write");
  fclose(file);
  free(input);
  qn_session_release(session);
  qn_model_release(model);
  return 0;
}
