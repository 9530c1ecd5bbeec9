// When the sparse algorithm is chosen, and which pattern.
#include <algorithm>
#include <cmath>

#include "harness.h"
#include "op/conv/choose.h"
#include "op/core/machine.h"

namespace quern::test {
namespace sparse_test {

struct Chosen {
  qn_algorithm algorithm;
  std::string kernel;
};

Chosen choice_for(size_t size, size_t channels, size_t kernel, const std::vector<float>& weights,
                  qn_algorithm algorithm = QN_ALGORITHM_AUTO, size_t stride = 1) {
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = channels;
  p.out_channels = weights.size() / (channels * kernel * kernel);
  p.stride = {stride, stride};
  p.kernel = {kernel, kernel};
  p.padding = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
  qn_weights w;
  qn_weights_init(&w);
  w.data = weights.data();
  Op op;
  EXPECT_QN_OK(qn_conv2d_create(&p, &w, nullptr, nullptr, &op));
  const qn_tensor in = dense({1, size, size, channels});
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.algorithm = algorithm;
  qn_plan* plan = nullptr;
  EXPECT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, &options, &plan));
  const Chosen chosen = {qn_plan_algorithm(plan), qn_plan_kernel(plan)};
  qn_plan_release(plan);
  return chosen;
}

// Of the 1xN kernels, the N.
size_t block_of(const std::string& kernel) {
  for (const SpmmRow& row : spmm_rows()) {
    if (kernel == row.name) return row.block;
  }
  return 0;
}

// Levels that have references alone for it had better multiply everything with vectors.
bool has_vectors(SpmmPacking packing = SpmmPacking::pairs) {
  return std::any_of(spmm_rows().begin(), spmm_rows().end(), [&](const SpmmRow& row) {
    return row.packing == packing && row.isa != isa_ref && runs_on(row, cpu().isa);
  });
}

TEST(Sparse, IsChosenWhereEnoughIsZero) {
  if (!has_vectors()) GTEST_SKIP() << "this level has no kernels for it";
  EXPECT_EQ(choice_for(28, 128, 1, weights_with(128, 128, 1, 0)).algorithm, QN_ALGORITHM_GEMM);
  EXPECT_EQ(choice_for(28, 128, 1, weights_with(128, 128, 1, 0.9f)).algorithm, QN_ALGORITHM_SPARSE);
  EXPECT_EQ(choice_for(28, 128, 3, weights_with(128, 9 * 128, 4, 0.95f)).algorithm, QN_ALGORITHM_SPARSE);
  // Winograd multiplies so much less that half of the weights are too many.
  EXPECT_NE(choice_for(28, 128, 3, weights_with(128, 9 * 128, 1, 0.5f)).algorithm, QN_ALGORITHM_SPARSE);
}

// Vectors of pixels are full where output channels would fill a part of a vector.
TEST(Sparse, IsChosenForFewOutputChannels) {
  if (!has_vectors()) GTEST_SKIP() << "this level has no kernels for it";
  if (QN_ARCH_X86_64) {  // elsewhere vectors are so short that it depends on the core
    EXPECT_EQ(choice_for(28, 64, 1, weights_with(2, 64, 1, 0)).algorithm, QN_ALGORITHM_SPARSE);
    EXPECT_EQ(choice_for(28, 64, 3, weights_with(2, 9 * 64, 1, 0)).algorithm, QN_ALGORITHM_SPARSE);
  }
  EXPECT_NE(choice_for(28, 64, 3, weights_with(2, 9 * 64, 1, 0), QN_ALGORITHM_AUTO, 2).algorithm, QN_ALGORITHM_SPARSE);
  EXPECT_NE(choice_for(1, 64, 1, weights_with(2, 64, 1, 0)).algorithm, QN_ALGORITHM_SPARSE) << "one pixel";
  EXPECT_NE(choice_for(28, 64, 1, weights_with(16, 64, 1, 0)).algorithm, QN_ALGORITHM_SPARSE);
}

TEST(Sparse, TilesOfTheBestRowsLieWithinABlockOfPixels) {
  for (const size_t block : {1, 2, 4, 8, 16}) {
    const SpmmRow* row =
        select(spmm_rows(), KernelType::f32, nullptr, [&](const SpmmRow& r) { return r.block == block; });
    EXPECT_EQ(qn_pixel_block() % row->pixels, 0u) << row->name;
  }
}

TEST(Sparse, TakesThePatternOfTheWeights) {
  if (!has_vectors()) GTEST_SKIP() << "this level has no kernels for it";
  for (const size_t block : {1, 2, 4}) {
    const Chosen chosen = choice_for(28, 128, 1, weights_with(128, 128, block, 0.9f));
    EXPECT_EQ(block_of(chosen.kernel), block) << chosen.kernel;
  }
  EXPECT_GE(block_of(choice_for(28, 128, 1, weights_with(128, 128, 16, 0.9f)).kernel), 4u);
  EXPECT_EQ(block_of(choice_for(28, 128, 1, weights_with(128, 128, 4, 0.9f, 0.05f)).kernel), 4u) << "mostly full";
  EXPECT_LT(block_of(choice_for(28, 128, 1, weights_with(128, 128, 4, 0.9f, 0.5f)).kernel), 4u) << "half full";
}

TEST(Sparse, FewZerosAreLeftOutFourChannelsAtATime) {
  if (!has_vectors(SpmmPacking::fours)) GTEST_SKIP() << "this level has no kernels for it";
  const MachineRow costs;  // at how many zeros pairs win depends on the machine
  replace_machine(&costs);
  for (const float zeros : {0.15f, 0.9f}) {
    const Chosen chosen = choice_for(28, 256, 1, weights_with(256, 256, 1, zeros), QN_ALGORITHM_SPARSE);
    const auto row = std::find_if(spmm_rows().begin(), spmm_rows().end(),
                                  [&](const SpmmRow& each) { return chosen.kernel == each.name; });
    EXPECT_NE(row, spmm_rows().end());
    if (row == spmm_rows().end()) continue;
    EXPECT_EQ(row->packing, zeros < 0.5f ? SpmmPacking::fours : SpmmPacking::pairs) << chosen.kernel;
  }
  replace_machine(nullptr);
}

TEST(Sparse, PatternsAreTheLargestThatAreMostlyFull) {
  WeightsDensity density = {1000, {{100, 52, 27, 17, 12}, {}}};
  Problem problem;
  EXPECT_EQ(pattern_of(problem).percent, 100u) << "nobody has looked";
  problem.density = &density;
  EXPECT_EQ(pattern_of(problem).percent, 10u);
  EXPECT_EQ(pattern_of(problem).block, 4u);  // 100 of 104, of 108, of 136, of 192
  density.blocks[0][3] = 13;
  EXPECT_EQ(pattern_of(problem).block, 8u);  // 100 of 104
}

// One pixel of the input has an infinity, the next one a NaN, in a channel of its own for every other pixel.
class NotFinite {
 public:
  static constexpr size_t out = 32;

  explicit NotFinite(size_t channels, const std::vector<float>& weights) : channels_(channels), weights_(weights) {
    x_.shape = {1, 2, channels, channels};
    x_.values = reals(count_of(x_.shape), 3, 1, 2);
    for (size_t k = 0; k < channels; ++k) at(0, k) = INFINITY, at(1, k) = NAN;
    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.in_channels = channels;
    p.out_channels = out;
    qn_weights w;
    qn_weights_init(&w);
    w.data = weights_.data();
    EXPECT_QN_OK(qn_conv2d_create(&p, &w, nullptr, nullptr, &conv_));
  }

  Result run(const Options& options) const { return test::run(conv_, {x_}, options); }

  // What a weight that is 0 does: makes NaN of both, or nothing.
  enum Zero { multiplies, left_out, either };

  void expect(const Result& result, const std::function<Zero(size_t o, size_t k)>& zero) const {
    ASSERT_EQ(result.status, QN_OK) << result.message;
    for (size_t k = 0; k < channels_; ++k) {
      for (size_t o = 0; o < out; ++o) {
        SCOPED_TRACE(testing::Message() << k << " to " << o);
        const float infinite = of_infinity(result, o, k), nan = of_nan(result, o, k);
        if (weights_[o * channels_ + k] != 0) {
          EXPECT_TRUE(infinite == INFINITY || (std::isnan(infinite) && is_full(o)));
          EXPECT_TRUE(std::isnan(nan));
        } else if (const Zero kind = zero(o, k); kind == left_out) {
          EXPECT_TRUE(std::isfinite(infinite) && std::isfinite(nan));
        } else {
          EXPECT_TRUE(std::isnan(infinite) || (kind == either && std::isfinite(infinite)));
          EXPECT_TRUE(std::isnan(nan) || (kind == either && std::isfinite(nan)));
        }
      }
    }
  }

  // Outputs that are finite, of both kinds.
  size_t count_finite(const Result& result) const {
    return static_cast<size_t>(
        std::count_if(result.values.begin(), result.values.end(), [](float y) { return std::isfinite(y); }));
  }

  // Does no channel of the block have a weight there?
  bool block_is_zero(size_t o, size_t k, size_t block) const {
    for (size_t i = o / block * block; i < (o / block + 1) * block; ++i) {
      if (weights_[i * channels_ + k] != 0) return false;
    }
    return true;
  }

 private:
  float of_infinity(const Result& result, size_t o, size_t k) const { return result.values[k * out + o]; }
  float of_nan(const Result& result, size_t o, size_t k) const { return result.values[(channels_ + k) * out + o]; }
  // Pairs find no zero of such a channel to fill a step with.
  bool is_full(size_t o) const {
    const auto row = weights_.begin() + static_cast<ptrdiff_t>(o * channels_);
    return std::find(row, row + static_cast<ptrdiff_t>(channels_), 0.f) == row + static_cast<ptrdiff_t>(channels_);
  }
  float& at(size_t y, size_t k) { return x_.values[(y * channels_ + k) * channels_ + k]; }

  size_t channels_;
  std::vector<float> weights_;
  Input x_;
  Op conv_;
};

TEST(Sparse, ZerosAreLeftOutButDoNoMoreThanInADenseProduct) {
  for (const size_t channels : {30, 31}) {
    for (const float zeros : {0.1f, 0.5f, 0.95f}) {
      for (const size_t block : {1, 4}) {
        SCOPED_TRACE(testing::Message() << channels << " channels, " << zeros << " zero in blocks of " << block);
        const NotFinite conv(channels, weights_with(NotFinite::out, channels, block, zeros));
        conv.expect(conv.run({.algorithm = QN_ALGORITHM_DENSE}), [](size_t, size_t) { return NotFinite::multiplies; });
        for (const SpmmRow& row : spmm_rows()) {
          if (row.type != KernelType::f32 || !runs_on(row, cpu().isa)) continue;
          SCOPED_TRACE(row.name);
          conv.expect(conv.run({.algorithm = QN_ALGORITHM_SPARSE, .kernel = row.name}), [&](size_t o, size_t k) {
            if (row.pairs()) return NotFinite::either;
            return conv.block_is_zero(o, k, row.block) ? NotFinite::left_out : NotFinite::multiplies;
          });
        }
      }
    }
  }
}

TEST(Sparse, AutoLeavesOutZerosAndDenseDoesNot) {
  if (!has_vectors()) GTEST_SKIP() << "this level has no kernels for it";
  const NotFinite conv(31, weights_with(NotFinite::out, 31, 1, 0.95f));
  const Result chosen = conv.run({}), dense = conv.run({.algorithm = QN_ALGORITHM_DENSE});
  EXPECT_EQ(chosen.algorithm, QN_ALGORITHM_SPARSE);
  EXPECT_GT(conv.count_finite(chosen), chosen.values.size() / 2);
  EXPECT_NE(dense.algorithm, QN_ALGORITHM_SPARSE);
  EXPECT_EQ(conv.count_finite(dense), 0u);
}

// Packed weights at 90% zeros, biases and all, in bytes of the dense ones.
TEST(Sparse, PackedWeightsTakeLittle) {
  if (!has_vectors()) GTEST_SKIP() << "this level has no kernels for it";
  constexpr size_t channels = 512;
  for (const auto& [block, most] : {std::pair<size_t, double>(1, 0.16), {4, 0.125}, {8, 0.12}, {16, 0.12}}) {
    const std::vector<float> weights = weights_with(channels, channels, block, 0.9f);
    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.in_channels = p.out_channels = channels;
    qn_weights w;
    qn_weights_init(&w);
    w.data = weights.data();
    qn_weights_cache* cache;
    ASSERT_QN_OK(qn_weights_cache_create(&cache));
    Op op;
    ASSERT_QN_OK(qn_conv2d_create(&p, &w, nullptr, cache, &op));
    const qn_tensor in = dense({1, 14, 14, channels});
    qn_plan* plan = nullptr;
    ASSERT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, nullptr, &plan));
    EXPECT_EQ(qn_plan_algorithm(plan), QN_ALGORITHM_SPARSE);
    const double bytes = static_cast<double>(qn_weights_cache_bytes(cache));
    EXPECT_LE(bytes, most * channels * channels * sizeof(float)) << "blocks of " << block;
    qn_plan_release(plan);
    qn_weights_cache_release(cache);
  }
}

// Fully connected layers, of one row and of many.
TEST(Sparse, FullyConnected) {
  const MachineRow one_machine;  // whose costs make sparse the choice at 90% zeros
  replace_machine(&one_machine);
  constexpr size_t in = 1000, out = 520;
  const std::vector<float> weights = weights_with(out, in, 1, 0.9f), x = reals(3 * in, 5);
  qn_fully_connected_params p;
  qn_fully_connected_params_init(&p);
  p.in_channels = in;
  p.out_channels = out;
  qn_weights w;
  qn_weights_init(&w);
  w.data = weights.data();
  Op op;
  ASSERT_QN_OK(qn_fully_connected_create(&p, &w, nullptr, nullptr, &op));
  for (const size_t rows : {1, 3}) {
    const std::vector<float> input(x.begin(), x.begin() + static_cast<ptrdiff_t>(rows * in));
    const Result sparse = run(op, {{{rows, in}, input}}, {.algorithm = QN_ALGORITHM_SPARSE});
    const Result gemm = run(op, {{{rows, in}, input}}, {.algorithm = QN_ALGORITHM_GEMM});
    ASSERT_EQ(sparse.status, QN_OK) << sparse.message;
    EXPECT_EQ(sparse.algorithm, QN_ALGORITHM_SPARSE);
    for (size_t i = 0; i < sparse.values.size(); ++i) EXPECT_NEAR(sparse.values[i], gemm.values[i], 1e-5f);
  }
  if (has_vectors()) {
    EXPECT_EQ(run(op, {{{1, in}, reals(in, 5)}}).algorithm, QN_ALGORITHM_SPARSE);
  }
  EXPECT_EQ(run(op, {{{1, in}, reals(in, 5)}}, {.algorithm = QN_ALGORITHM_IGEMM}).status, QN_UNSUPPORTED);
  replace_machine(nullptr);
}

}  // namespace sparse_test
}  // namespace quern::test
