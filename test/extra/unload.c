/* Loads libquern-extra and closes it again: its kinds are still there, and models can be loaded.
 *
 *     quern_extra_unload libquern-extra.so MODEL.qn           a model with a node of the kind example_moving_average */
#include <dlfcn.h>
#include <quern/quern.h>
#include <stdio.h>

static qn_status infer(const qn_node* node, const qn_operand* inputs, size_t input_count, qn_tensor* outputs,
                       size_t output_count) {
  (void)node, (void)input_count, (void)output_count;
  outputs[0] = inputs[0].tensor;
  return QN_OK;
}

static qn_status run(const qn_node_run* node) {
  (void)node;
  return QN_OK;
}

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, qn_last_message());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "expected 2 arguments, got %d\n", argc - 1), 1;
  for (int i = 0; i < 2; i++) {
    void* const extra = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (extra == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
    dlclose(extra);
  }
  qn_kind kind = {0};
  kind.struct_size = sizeof kind;
  kind.min_inputs = kind.max_inputs = kind.max_outputs = 1;
  kind.infer = infer;
  kind.run = run;
  kind.name = "gather";
  if (qn_register_kinds(&kind, 1) != QN_INVALID_ARGUMENT) return fail("expected that the kind 'gather' is registered");
  kind.name = "example_moving_average";
  if (qn_register_kinds(&kind, 1)) return fail("qn_register_kinds");
  qn_model* model;
  if (qn_model_load_file(argv[2], NULL, &model)) return fail(argv[2]);
  qn_model_release(model);
  if (qn_unregister_kinds(&kind)) return fail("qn_unregister_kinds");
  return 0;
}
