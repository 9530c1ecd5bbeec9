// Matrix products of bytes in one call: those of a fully-connected operator that lives as long as the call.
#include "base/parallel.h"
#include "base/tensor.h"
#include "op/conv/conv.h"
#include "op/core/matrix.h"
#include "op/weights/quantized.h"

namespace quern {
namespace {

struct GemmBytes {
  const char* who;
  Matrix a, b, c;
  bool transpose_b;
  const float* scales;
  size_t scale_count, block_length;
  const void* bias;
  qn_minmax_f32 clamp;
  qn_quantization a_steps, c_steps;  // not used with floats
  bool quantize;                     // are rows of A, which are floats, quantized?

  size_t n() const { return c.columns; }
  size_t k() const { return a.columns; }
  bool of_floats() const { return a.type == QN_F32; }
};

qn_status check(const GemmBytes& g) {
  QN_TRY(check_clamp(g.who, g.clamp.min, g.clamp.max));
  QN_TRY(check_aligned(g.who, "bias", g.bias));
  QN_TRY(check_aligned(g.who, "scales", g.scales));
  for (const Matrix& matrix : {g.a, g.b, g.c}) QN_TRY(check_matrix(g.who, matrix));
  return check_apart(
      g.who, g.c, {g.a, g.b, {"scales", g.scales, 1, g.scale_count, g.scale_count}, {"bias", g.bias, 1, g.n(), g.n()}});
}

void only_bias(const GemmBytes& g) {
  const auto* bias = static_cast<const float*>(g.bias);
  auto* c = static_cast<float*>(const_cast<void*>(g.c.data));
  for (size_t i = 0; i < g.c.rows; ++i) {
    for (size_t j = 0; j < g.n(); ++j) c[i * g.c.ld + j] = clamp(bias == nullptr ? 0.0f : bias[j], g.clamp);
  }
}

// Without columns of A only the bias remains: a column of zero points stands for them, and weights of 0.
qn_status no_columns(void*, size_t, size_t count, void* to) {
  std::memset(to, 0, count);
  return QN_OK;
}

// Writes columns of B as the rows of output channels that weights have.
qn_status columns_of_b(void* context, size_t first, size_t count, void* to) {
  const auto& g = *static_cast<const GemmBytes*>(context);
  const auto* b = static_cast<const int8_t*>(g.b.data);
  auto* row = static_cast<int8_t*>(to);
  for (size_t j = first; j < first + count; ++j) {
    for (size_t i = 0; i < g.k(); ++i) *row++ = g.transpose_b ? b[j * g.b.ld + i] : b[i * g.b.ld + j];
  }
  return QN_OK;
}

qn_status run_checked(const GemmBytes& g, qn_status (*decode)(void*, size_t, size_t, void*),
                      const qn_parallel* parallel) {
  const WeightsShape shape = {1, g.n(), g.k(), {1, 1}};
  qn_weights user, checked;
  qn_weights_init(&user);
  user.type = QN_S8;
  user.encoding = QN_WEIGHTS_DECODED;
  user.decode = decode;
  user.context = const_cast<GemmBytes*>(&g);
  user.scales = g.scales;
  user.scale_count = g.scale_count;
  user.block_length = g.block_length;
  user.bias_type = g.of_floats() ? QN_F32 : QN_S32;
  const bool real = g.of_floats() && !g.quantize;
  const bool in_order = g.transpose_b && g.b.ld == g.k();
  const Buffer rows(real && !in_order ? g.n() * g.k() : 0);  // operators of floats need them as those of weights
  if (real) {
    if (!in_order) QN_TRY(columns_of_b(user.context, 0, g.n(), rows.data()));
    user.encoding = QN_WEIGHTS_DENSE;
    user.data = in_order ? g.b.data : rows.data();
  }
  const Activations activations = g.quantize ? Activations::by_the_row : Activations::given;
  QN_TRY(read_weights(g.who, &user, g.a.type, shape, &checked, activations));
  SumFacts facts;
  if (g.quantize) QN_TRY(check_dynamic_sums(g.who, checked, shape, &facts));
  if (!g.of_floats()) facts = facts_of_sums(checked, shape, g.bias);
  if (real) facts.fit_4_bits = fit_4_bits(checked, shape);
  Weights weights(checked, shape, g.bias, nullptr, activations);
  weights.set_facts(facts);

  qn_tensor in = g.a.tensor();
  Request request = {{&in, 1}, g.c.tensor(), {}};
  in.quantization = g.a_steps;
  request.out.quantization = g.c_steps;
  QN_TRY(check_quantization(in, g.who));
  QN_TRY(check_quantization(request.out, g.who));
  qn_plan_options_init(&request.options);
  request.options.tasks = tasks_of(parallel);
  PlanPointer plan;
  QN_TRY(plan_matrix(g.who, request, weights, g.clamp, &plan));
  const Buffer workspace(plan->workspace_size());
  return run_plan(*plan, &g.a.data, const_cast<void*>(g.c.data), workspace.data(), parallel);
}

qn_status run(const GemmBytes& g, const qn_parallel* parallel) {
  QN_TRY(check(g));
  if (g.c.rows == 0 || g.n() == 0) return QN_OK;
  if (g.k() != 0) return run_checked(g, columns_of_b, parallel);
  if (g.of_floats()) {
    only_bias(g);
    return QN_OK;
  }
  const auto zero = static_cast<int8_t>(g.a_steps.zero_point);
  GemmBytes one = g;
  one.a.data = &zero;
  one.a.columns = 1;
  one.a.ld = 0;  // all rows are the same
  one.b.rows = one.b.columns = 1;
  return run_checked(one, no_columns, parallel);
}

// A small build has no code for these products.
qn_status without(const char* who) {
  return guarded([=] { return fail_without("function", who); });
}

qn_status guarded_run(const GemmBytes& g, const qn_parallel* parallel) {
  return guarded([&] { return run(g, parallel); });
}

// B is k x n, or its transpose.
Matrix matrix_b(const int8_t* b, size_t k, size_t n, size_t ldb, bool transpose_b) {
  return {"b", b, transpose_b ? n : k, transpose_b ? k : n, ldb, QN_S8};
}

qn_status floats_by_bytes(const char* who, bool quantize, size_t m, size_t n, size_t k, const float* a, size_t lda,
                          const int8_t* b, size_t ldb, bool transpose_b, const float* scales, size_t scale_count,
                          size_t block_length, const float* bias, const qn_minmax_f32& clamp, float* c, size_t ldc,
                          const qn_parallel* parallel) {
  return guarded_run({.who = who,
                      .a = {"a", a, m, k, lda},
                      .b = matrix_b(b, k, n, ldb, transpose_b),
                      .c = {"c", c, m, n, ldc},
                      .transpose_b = transpose_b,
                      .scales = scales,
                      .scale_count = scale_count,
                      .block_length = block_length,
                      .bias = bias,
                      .clamp = clamp,
                      .a_steps = {},
                      .c_steps = {},
                      .quantize = quantize},
                     parallel);
}

}  // namespace
}  // namespace quern

extern "C" {

qn_status qn_gemm_qd8(size_t m, size_t n, size_t k, const float* a, size_t lda, const int8_t* b, size_t ldb,
                      int transpose_b, const float* scales, size_t scale_count, size_t block_length, const float* bias,
                      float min, float max, float* c, size_t ldc, const qn_parallel* parallel) {
  if (quern::small) return quern::without("qn_gemm_qd8");
  return quern::floats_by_bytes("qn_gemm_qd8", true, m, n, k, a, lda, b, ldb, transpose_b != 0, scales, scale_count,
                                block_length, bias, {min, max}, c, ldc, parallel);
}

qn_status qn_gemm_qw8(size_t m, size_t n, size_t k, const float* a, size_t lda, const int8_t* b, size_t ldb,
                      int transpose_b, const float* scales, size_t scale_count, size_t block_length, const float* bias,
                      float min, float max, float* c, size_t ldc, const qn_parallel* parallel) {
  if (quern::small) return quern::without("qn_gemm_qw8");
  return quern::floats_by_bytes("qn_gemm_qw8", false, m, n, k, a, lda, b, ldb, transpose_b != 0, scales, scale_count,
                                block_length, bias, {min, max}, c, ldc, parallel);
}

qn_status qn_gemm_qs8(size_t m, size_t n, size_t k, const int8_t* a, size_t lda, float a_scale, int32_t a_zero,
                      const int8_t* b, size_t ldb, int transpose_b, const float* scales, size_t scale_count,
                      const int32_t* bias, float min, float max, int8_t* c, size_t ldc, float c_scale, int32_t c_zero,
                      const qn_parallel* parallel) {
  if (quern::small) return quern::without("qn_gemm_qs8");
  const bool t = transpose_b != 0;
  qn_quantization a_steps = {}, c_steps = {};
  a_steps.scale = a_scale, a_steps.zero_point = a_zero;
  c_steps.scale = c_scale, c_steps.zero_point = c_zero;
  return quern::guarded_run({.who = "qn_gemm_qs8",
                             .a = {"a", a, m, k, lda, QN_S8},
                             .b = quern::matrix_b(b, k, n, ldb, t),
                             .c = {"c", c, m, n, ldc, QN_S8},
                             .transpose_b = t,
                             .scales = scales,
                             .scale_count = scale_count,
                             .block_length = 0,
                             .bias = bias,
                             .clamp = {min, max},
                             .a_steps = a_steps,
                             .c_steps = c_steps,
                             .quantize = false},
                            parallel);
}

}  // extern "C"
