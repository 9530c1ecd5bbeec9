#include "base/parallel.h"
#include "op/conv/choose.h"
#include "op/core/matrix.h"
#include "op/weights/pack_sparse.h"

namespace quern {
namespace {

constexpr char spmm[] = "qn_spmm_f32";

struct Spmm {
  size_t m, n, k;
  const qn_weights* a;
  const float* b;
  size_t ldb;
  const float* bias;
  qn_minmax_f32 clamp;
  float* c;
  size_t ldc;
};

qn_status check(const Spmm& s) {
  QN_TRY(check_clamp(spmm, s.clamp.min, s.clamp.max));
  QN_TRY(check_aligned(spmm, "bias", s.bias));
  const Matrix b = {"b", s.b, s.k, s.n, s.ldb}, c = {"c", s.c, s.m, s.n, s.ldc};
  for (const Matrix& matrix : {b, c}) QN_TRY(check_matrix(spmm, matrix));
  return check_apart(spmm, c, {b, {"bias", s.bias, 1, s.m, s.m}});
}

void only_bias(const Spmm& s) {
  for (size_t i = 0; i < s.m; ++i) {
    const float value = clamp(s.bias == nullptr ? 0.0f : s.bias[i], s.clamp);
    std::fill_n(s.c + i * s.ldc, s.n, value);
  }
}

// Multiplies some columns of B at a time, as many as the kernel takes pixels. The columns of B and C are copied to and
// from scratch memory, because the kernel reads and writes whole vectors.
class Columns {
 public:
  Columns(const Spmm& s, const SpmmRow& row, const SparseWeights& weights) : s_(s), row_(row), weights_(weights) {}

  size_t scratch_floats() const { return (weights_.depth + weights_.blocks * sparse_channels) * row_.pixels; }

  void run(size_t first, size_t count, float* scratch) const {
    const size_t width = spmm_width(row_, count), stride = width * sizeof(float);
    float* const c = scratch + weights_.depth * row_.pixels;
    for (size_t chunk = 0; chunk < weights_.chunks; ++chunk) {
      const size_t begin = chunk * weights_.depth, end = std::min(begin + weights_.depth, s_.k);
      for (size_t k = begin; k < end; ++k) std::copy_n(s_.b + k * s_.ldb + first, count, scratch + (k - begin) * width);
      for (size_t block = 0; block < weights_.blocks; ++block) {
        multiply_sparse(row_, weights_, 0, chunk, block, count, reinterpret_cast<const char*>(scratch), stride,
                        reinterpret_cast<char*>(c + block * sparse_channels * width), stride, &s_.clamp);
      }
    }
    for (size_t i = 0; i < s_.m; ++i) std::copy_n(c + i * width, count, s_.c + i * s_.ldc + first);
  }

 private:
  const Spmm& s_;
  const SpmmRow& row_;
  const SparseWeights& weights_;
};

qn_status run(const Spmm& s, const qn_parallel* parallel) {
  QN_TRY(check(s));
  if (s.m == 0 || s.n == 0) return QN_OK;
  if (s.k == 0) {
    only_bias(s);
    return QN_OK;
  }
  const WeightsShape shape = {1, s.m, s.k, {1, 1}};
  qn_weights user;
  QN_TRY(read_weights(spmm, s.a, QN_F32, shape, &user));
  const Weights weights(user, shape, s.bias, nullptr);
  Problem problem;
  problem.pixels = s.n;
  problem.in = s.k;
  problem.out = s.m;
  problem.pointwise = problem.matrix = true;
  problem.density = &weights.density();
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.algorithm = QN_ALGORITHM_SPARSE;
  Choice choice;
  QN_TRY(choose(spmm, problem, options, &choice));
  const auto& row = choice.as<SpmmRow>();
  const Packed packed = weights.pack(sparse_packing(row), sparse_block(row),
                                     sparse_depth(row, s.n, s.k, problem.density->part(row.block, row.inputs)));
  const Columns columns(s, row, static_cast<const SparseWeights&>(*packed));

  const size_t tiles = divide_up(s.n, row.pixels);
  const Split tasks = split(tiles, tasks_of(parallel), 1);
  const size_t slot = round_up(columns.scratch_floats() * sizeof(float), cache_line);
  const Buffer scratch(slot * tasks.chunks);
  auto task = [&](size_t index) {
    auto* mine = reinterpret_cast<float*>(static_cast<char*>(scratch.data()) + index * slot);
    Watch watch(parallel);
    for (size_t tile = tasks.begin(index); tile < tasks.end(index); ++tile) {
      if (watch.stops(Watch::interval)) return;
      const size_t first = tile * row.pixels;
      columns.run(first, std::min<size_t>(row.pixels, s.n - first), mine);
    }
  };
  run_tasks(parallel, tasks.chunks, task);
  return check_cancelled(parallel);
}

}  // namespace
}  // namespace quern

extern "C" qn_status qn_spmm_f32(size_t m, size_t n, size_t k, const qn_weights* a, const float* b, size_t ldb,
                                 const float* bias, float min, float max, float* c, size_t ldc,
                                 const qn_parallel* parallel) {
  return quern::guarded([=] { return quern::run({m, n, k, a, b, ldb, bias, {min, max}, c, ldc}, parallel); });
}
