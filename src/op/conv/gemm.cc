#include "base/math.h"
#include "base/parallel.h"
#include "op/conv/choose.h"
#include "op/core/matrix.h"
#include "op/core/tiling.h"
#include "op/weights/pack.h"

namespace quern {
namespace {

constexpr char gemm[] = "qn_gemm_f32";
struct Gemm {
  size_t m, n, k;
  const float* a;
  size_t lda;
  const float* b;
  size_t ldb;
  bool transpose_b;
  const float* bias;
  qn_minmax_f32 clamp;
  float* c;
  size_t ldc;
};

qn_status check(const Gemm& g) {
  QN_TRY(check_clamp(gemm, g.clamp.min, g.clamp.max));
  QN_TRY(check_aligned(gemm, "bias", g.bias));
  const Matrix a = {"a", g.a, g.m, g.k, g.lda}, c = {"c", g.c, g.m, g.n, g.ldc};
  const Matrix b = {"b", g.b, g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n, g.ldb};
  for (const Matrix& matrix : {a, b, c}) QN_TRY(check_matrix(gemm, matrix));
  return check_apart(gemm, c, {a, b, {"bias", g.bias, 1, g.n, g.n}});
}

void only_bias(const Gemm& g) {
  for (size_t i = 0; i < g.m; ++i) {
    for (size_t j = 0; j < g.n; ++j) {
      g.c[i * g.ldc + j] = quern::clamp(g.bias == nullptr ? 0.0f : g.bias[j], g.clamp);
    }
  }
}

qn_status run(const Gemm& g, const qn_parallel* parallel) {
  QN_TRY(check(g));
  if (g.m == 0 || g.n == 0) return QN_OK;
  if (g.k == 0) {
    only_bias(g);
    return QN_OK;
  }
  Problem problem;
  problem.pixels = g.m;
  problem.row_stride = g.lda * sizeof(float);
  problem.in = g.k;
  problem.out = g.n;
  problem.pointwise = true;
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.algorithm = QN_ALGORITHM_GEMM;
  Choice choice;
  QN_TRY(choose(gemm, problem, options, &choice));
  const auto& row = choice.as<GemmRow>();

  size_t rows, panels;
  if (!checked_add(g.k, size_t{1}, &rows) || !checked_mul(rows, round_up(g.n, row.nr), &panels) ||
      !checked_mul(panels, sizeof(float), &panels)) {
    return fail(QN_INVALID_ARGUMENT, "%s: the size of packed b overflows", gemm);
  }
  const Buffer packed(panels);
  const size_t k_stride = g.transpose_b ? 1 : g.ldb, n_stride = g.transpose_b ? g.ldb : 1;
  const size_t k_bytes = g.k * sizeof(float), panel_bytes = row.nr * rows * sizeof(float);
  Watch watch(parallel);
  for (size_t n = 0; n < g.n && !watch.stops(row.nr * g.k); n += row.nr) {
    auto* const panel = reinterpret_cast<float*>(static_cast<char*>(packed.data()) + n / row.nr * panel_bytes);
    pack_panels(std::min<size_t>(row.nr, g.n - n), g.k, row.nr, g.b + n * n_stride, k_stride, n_stride,
                g.bias == nullptr ? nullptr : g.bias + n, panel);
  }
  const Tiling tiling(
      {.m = g.m, .n = g.n, .mr = row.mr, .nr = row.nr, .row_bytes = k_bytes, .panel_bytes = panel_bytes},
      tasks_of(parallel));
  auto task = [&](size_t index) {
    tiling.run(parallel, index, [&](size_t, size_t begin, size_t end, size_t n, size_t channels) {
      const char* const w = static_cast<const char*>(packed.data()) + n / row.nr * panel_bytes;
      tiling.tiles(begin, end, [&](size_t m, size_t count) {
        row.run(count, channels, k_bytes, g.a + m * g.lda, g.lda * sizeof(float), w, g.c + m * g.ldc + n,
                g.ldc * sizeof(float), &g.clamp);
      });
    });
  };
  run_tasks(parallel, tiling.tasks(), task);
  return check_cancelled(parallel);
}

}  // namespace
}  // namespace quern

extern "C" qn_status qn_gemm_f32(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b, size_t ldb,
                                 int transpose_b, const float* bias, float min, float max, float* c, size_t ldc,
                                 const qn_parallel* parallel) {
  return quern::guarded([=] {
    return quern::run({m, n, k, a, lda, b, ldb, transpose_b != 0, bias, {min, max}, c, ldc}, parallel);
  });
}
