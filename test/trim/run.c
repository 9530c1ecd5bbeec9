/* run MODEL INPUT OUTPUT [ALGORITHM THREADS]: runs a model with one input and one output once, through the public
   interface alone, with libquern-extra if it is compiled WITH_EXTRA. ALGORITHM is a number, a qn_algorithm; with it, the algorithm and the kernel of each node are printed.
   On failure the library's message goes to stderr, and the exit status is 1. */
#include <quern/extra.h>
#include <quern/graph.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, qn_last_message());
  return 1;
}

static int print_kernels(const qn_session* session) {
  for (size_t i = 0; i < qn_session_profile_count(session); ++i) {
    qn_profile_entry entry;
    qn_profile_entry_init(&entry);
    if (qn_session_profile(session, i, &entry)) return 1;
    printf("%s\t%s\t%s\n", entry.name, entry.algorithm, entry.kernel);
  }
  return 0;
}

int main(int count, char** arguments) {
  qn_model* model;
  qn_session* session;
  qn_session_options options;
  qn_tensor tensor;
  if (count != 4 && count != 6) return 2;
  qn_session_options_init(&options);
  if (count == 6) {
    options.algorithm = (qn_algorithm)atoi(arguments[4]);
    options.threads = (size_t)atoi(arguments[5]);
    options.profile = 1;
  }
#ifdef WITH_EXTRA
  if (qn_extra_register()) return fail("register");
#endif
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
  if (print_kernels(session)) return fail("profile");
  free(input);
  qn_session_release(session);
  qn_model_release(model);
  return 0;
}
