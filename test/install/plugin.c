/* A shared library that has Quern inside: exports one function of its own. */
#include <quern/quern.h>

__attribute__((visibility("default"))) int plugin_version(void);

int plugin_version(void) {
  const float one = 1;
  float product;
  if (qn_gemm_f32(1, 1, 1, &one, 1, &one, 1, 0, NULL, 0, 2, &product, 1, NULL) || product != 1) return -1;
  qn_model* model = NULL;
  if (qn_model_load_memory(&one, sizeof one, NULL, &model) != QN_BAD_MODEL) return -1;
  return qn_version_number();
}
