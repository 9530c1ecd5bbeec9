/* A program as a user would write it: asks for a version, multiplies two matrices, runs a 3x3 convolution; compiled
   WITH_EXTRA, it registers the operators of libquern-extra. */
#ifdef WITH_EXTRA
#include <quern/extra.h>
#endif
#include <quern/quern.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, qn_last_message());
  return 1;
}

static int check_gemm(void) {
  const float a[2 * 3] = {1, 2, 3, 4, 5, 6}, b[3 * 2] = {1, 0, 0, 1, 2, -1}, bias[2] = {0.5f, -3};
  const float want[2 * 2] = {7.5f, -4, 16.5f, -4};
  float c[2 * 2];
  if (qn_gemm_f32(2, 2, 3, a, 3, b, 2, 0, bias, -4, INFINITY, c, 2, NULL)) return fail("qn_gemm_f32");
  return memcmp(c, want, sizeof c) ? fail("wrong product") : 0;
}

static int check_conv(void) {
  float image[4 * 4], weights[9], result[4 * 4];
  for (int i = 0; i < 16; i++) image[i] = (float)i;
  for (int i = 0; i < 9; i++) weights[i] = 1;

  qn_conv2d_params params;
  qn_conv2d_params_init(&params);
  params.in_channels = params.out_channels = 1;
  params.kernel = (qn_hw){3, 3};
  params.padding = (qn_padding){1, 1, 1, 1};
  qn_weights w;
  qn_weights_init(&w);
  w.data = weights;
  qn_operator* conv;
  if (qn_conv2d_create(&params, &w, NULL, NULL, &conv)) return fail("qn_conv2d_create");

  const size_t shape[4] = {1, 4, 4, 1};
  qn_tensor in;
  if (qn_tensor_init(&in, QN_F32, 4, shape)) return fail("qn_tensor_init");
  qn_plan* plan;
  if (qn_operator_plan(conv, &in, 1, NULL, 0, NULL, &plan)) return fail("qn_operator_plan");
  qn_operator_release(conv);

  static _Alignas(64) unsigned char workspace[1 << 16];
  const void* inputs[1] = {image};
  void* outputs[1] = {result};
  if (qn_plan_run(plan, inputs, outputs, workspace, sizeof workspace, NULL)) return fail("qn_plan_run");
  qn_plan_release(plan);

  for (int y = 0; y < 4; y++)
    for (int x = 0; x < 4; x++) {
      float sum = 0;
      for (int v = y - 1; v <= y + 1; v++)
        for (int u = x - 1; u <= x + 1; u++)
          if (v >= 0 && v < 4 && u >= 0 && u < 4) sum += image[v * 4 + u];
      if (result[y * 4 + x] != sum) return fail("wrong convolution");
    }
  return 0;
}

int main(void) {
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", QN_VERSION_MAJOR, QN_VERSION_MINOR, QN_VERSION_PATCH);
  if (strcmp(version, qn_version()) != 0) return fail("header and library are of different versions");
  if (check_gemm() || check_conv()) return 1;
#ifdef WITH_EXTRA
  if (qn_extra_register()) return fail("qn_extra_register");
#endif
  printf("quern %s\n", qn_version());
  return 0;
}
