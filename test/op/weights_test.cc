// Weights that are not dense: the same bits as their dense matrix, which is never made; and how many are not 0.
#include "op/weights/weights.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "harness.h"

namespace quern::test {
namespace weights_test {

constexpr uint32_t blocks[] = {1, 2, 4, 8, 16};

// Ordinary weights, of which a part are 0, a few -0.
std::vector<float> with_zeros(size_t count, double zeros, uint32_t seed) {
  std::vector<float> values = reals(count, seed);
  const std::vector<float> dice = reals(count, seed + 1, 0, 1);
  for (size_t i = 0; i < count; ++i) {
    if (static_cast<double>(dice[i]) < zeros) values[i] = i % 16 == 3 ? -0.0f : 0.0f;
  }
  return values;
}

struct Layer {
  const char* name;
  size_t in, out, groups;  // all of them together
  qn_hw kernel;
  std::vector<qn_algorithm> algorithms;
  bool matrix = false;

  size_t depth() const { return in / groups * kernel.h * kernel.w; }

  qn_status create(const qn_weights& w, const float* bias, qn_weights_cache* cache, qn_operator** op) const {
    if (matrix) {
      qn_fully_connected_params p;
      qn_fully_connected_params_init(&p);
      p.in_channels = in;
      p.out_channels = out;
      return qn_fully_connected_create(&p, &w, bias, cache, op);
    }
    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.in_channels = in;
    p.out_channels = out;
    p.groups = groups;
    p.kernel = kernel;
    return qn_conv2d_create(&p, &w, bias, cache, op);
  }
  Input input() const {
    const Shape shape = matrix ? Shape{3, in} : Shape{1, 8, 9, in};
    return {shape, reals(count_of(shape), 5)};
  }
};

const std::vector<Layer>& layers() {
  static const std::vector<Layer> list = {
      {"1x1", 37, 75, 1, {1, 1}, {QN_ALGORITHM_GEMM, QN_ALGORITHM_IGEMM, QN_ALGORITHM_DIRECT}},
      {"3x3", 5, 70, 1, {3, 3}, {QN_ALGORITHM_IGEMM, QN_ALGORITHM_DIRECT, QN_ALGORITHM_WINOGRAD}},
      {"3x2 in groups", 12, 57, 3, {3, 2}, {QN_ALGORITHM_IGEMM, QN_ALGORITHM_DIRECT}},
      {"depthwise", 70, 70, 70, {3, 3}, {QN_ALGORITHM_DEPTHWISE, QN_ALGORITHM_IGEMM}},
      {"depthwise, 2 for each", 9, 18, 9, {3, 3}, {QN_ALGORITHM_IGEMM, QN_ALGORITHM_DIRECT}},
      {"fully connected", 90, 41, 1, {1, 1}, {QN_ALGORITHM_GEMM}, true},
  };
  return list;
}

TEST(EncodedWeights, GiveTheBitsOfDenseOnes) {
  for (const Layer& layer : layers()) {
    const std::vector<float> bias = reals(layer.out, 3);
    for (const double zeros : {0.0, 0.6, 1.0}) {
      const std::vector<float> dense = with_zeros(layer.out * layer.depth(), zeros, 9);
      qn_weights plain;
      qn_weights_init(&plain);
      plain.data = dense.data();
      Op expected_op;
      ASSERT_QN_OK(layer.create(plain, bias.data(), nullptr, &expected_op));
      const auto check = [&](const qn_weights& w) {
        Op op;
        ASSERT_QN_OK(layer.create(w, bias.data(), nullptr, &op));
        for (const qn_algorithm algorithm : layer.algorithms) {
          SCOPED_TRACE(qn_algorithm_string(algorithm));
          const Options options = {.algorithm = algorithm};
          const Result expected = run(expected_op, {layer.input()}, options);
          const Result result = run(op, {layer.input()}, options);
          ASSERT_EQ(expected.status, QN_OK) << expected.message;
          ASSERT_EQ(result.status, QN_OK) << result.message;
          EXPECT_EQ(result.kernel, expected.kernel);
          EXPECT_TRUE(same_bits(result.values, expected.values));
        }
      };
      SCOPED_TRACE(testing::Message() << layer.name << ", zeros " << zeros);
      for (const uint32_t block : blocks) {
        SCOPED_TRACE(block);
        check(SparseWeights(dense, layer.groups, layer.out / layer.groups, layer.depth(), block).get());
      }
      SCOPED_TRACE("decoded");
      DecodedWeights decoded(dense, layer.depth());
      check(decoded.get());
      EXPECT_LT(decoded.longest, layer.out) << "all was decoded at once";
    }
  }
}

TEST(EncodedWeights, ShareTheirPackings) {
  const Layer& layer = layers()[0];
  const std::vector<float> dense = with_zeros(layer.out * layer.depth(), 0.5, 9);
  const SparseWeights sparse(dense, 1, layer.out, layer.depth(), 4), other(dense, 1, layer.out, layer.depth(), 4);
  DecodedWeights decoded(dense, layer.depth()), another(dense, layer.depth());
  qn_weights_cache* cache;
  ASSERT_QN_OK(qn_weights_cache_create(&cache));
  {
    Op ops[6];
    const qn_weights all[] = {sparse.get(), sparse.get(), other.get(), decoded.get(), decoded.get(), another.get()};
    size_t bytes[6];
    for (size_t i = 0; i < 6; ++i) {
      ASSERT_QN_OK(layer.create(all[i], nullptr, cache, &ops[i]));
      ASSERT_EQ(run(ops[i], {layer.input()}, {.algorithm = QN_ALGORITHM_GEMM}).status, QN_OK);
      bytes[i] = qn_weights_cache_bytes(cache);
    }
    EXPECT_EQ(bytes[1], bytes[0]);
    EXPECT_EQ(bytes[2], 2 * bytes[0]);
    EXPECT_EQ(bytes[3], 3 * bytes[0]);
    EXPECT_EQ(bytes[4], 3 * bytes[0]);
    EXPECT_EQ(bytes[5], 4 * bytes[0]);
  }
  qn_weights_cache_release(cache);
}

// Wherever decoding fails the plan does, with its status; the operator can be planned again.
TEST(EncodedWeights, AFailingDecoderFailsThePlan) {
  for (const Layer& layer : layers()) {
    const std::vector<float> dense = with_zeros(layer.out * layer.depth(), 0.5, 9);
    for (const qn_algorithm algorithm : layer.algorithms) {
      SCOPED_TRACE(testing::Message() << layer.name << " by " << qn_algorithm_string(algorithm));
      DecodedWeights decoded(dense, layer.depth());
      Op op;
      ASSERT_QN_OK(layer.create(decoded.get(), nullptr, nullptr, &op));
      EXPECT_EQ(decoded.calls, 0u) << "decoded before a plan needs it";
      Result result;
      for (decoded.left = 0;; ++decoded.left) {
        decoded.calls = 0;
        result = run(op, {layer.input()}, {.algorithm = algorithm});
        if (result.status == QN_OK) break;
        ASSERT_EQ(result.status, QN_IO_ERROR);
        ASSERT_NE(result.message.find("decoding the weights failed: input/output error"), std::string::npos)
            << result.message;
        ASSERT_LT(decoded.left, 100u);
      }
      EXPECT_GE(decoded.left, 1u);
    }
  }
}

WeightsDensity count(const std::vector<float>& dense, const WeightsShape& s) {
  WeightsDensity density;
  density.elements = dense.size();
  for (size_t kind = 0; kind < density.kinds; ++kind) {
    for (size_t g = 0; g < s.groups; ++g) {
      for (size_t c = 0; c < s.out; c += size_t{1} << kind) {
        for (size_t p = 0; p < s.depth(); ++p) {
          bool any = false;
          for (size_t o = c; o < std::min(s.out, c + (size_t{1} << kind)); ++o) {
            any = any || dense[(g * s.out + o) * s.depth() + p] != 0;
          }
          density.blocks[0][kind] += any;
        }
      }
    }
  }
  return density;
}

void expect_density(const WeightsDensity& a, const WeightsDensity& b) {
  EXPECT_EQ(a.elements, b.elements);
  for (size_t kind = 0; kind < a.kinds; ++kind)
    EXPECT_EQ(a.blocks[0][kind], b.blocks[0][kind]) << "blocks of " << (1 << kind);
}

TEST(Density, IsExactForEveryEncodingAndOrder) {
  const WeightsShape shapes[] = {{1, 75, 37, {1, 1}}, {3, 19, 300, {3, 2}}, {70, 1, 1, {3, 3}}, {1, 1, 1, {1, 1}}};
  for (const WeightsShape& shape : shapes) {
    for (const double zeros : {0.0, 0.05, 0.5, 0.9, 1.0}) {
      SCOPED_TRACE(testing::Message() << shape.groups << " groups, " << zeros << " zeros");
      const std::vector<float> dense = with_zeros(shape.groups * shape.out * shape.depth(), zeros, 4);
      const WeightsDensity expected = count(dense, shape);
      const auto check = [&](const qn_weights& w) {
        expect_density(Weights(w, shape, nullptr, nullptr).density(), expected);
      };
      for (const qn_weights_layout layout : {QN_WEIGHTS_OHWI, QN_WEIGHTS_OIHW, QN_WEIGHTS_HWIO}) {
        const std::vector<float> values = reordered(dense, shape.groups * shape.out, shape.in, layout);
        qn_weights w;
        qn_weights_init(&w);
        w.layout = layout;
        w.data = values.data();
        check(w);
      }
      for (const uint32_t block : blocks)
        check(SparseWeights(dense, shape.groups, shape.out, shape.depth(), block).get());
      DecodedWeights decoded(dense, shape.depth());
      check(decoded.get());
    }
  }
}

// Counting reads all; a few zeros in many weights are not worth that.
TEST(Density, WeightsWithHardlyAnyZerosAreFull) {
  const WeightsShape shape = {1, 96, 1024, {1, 1}};
  std::vector<float> dense = reals(96 * 1024, 7);
  for (size_t i = 0; i < dense.size(); i += 199) dense[i] = 0;
  qn_weights w;
  qn_weights_init(&w);
  w.data = dense.data();
  EXPECT_EQ(Weights(w, shape, nullptr, nullptr).density().blocks[0][0], dense.size());
  for (size_t i = 0; i < dense.size(); i += 50) dense[i] = 0;
  expect_density(Weights(w, shape, nullptr, nullptr).density(), count(dense, shape));
}

// Of integers, more are 0 anyway.
TEST(Density, IntegersWithFewZerosAreFull) {
  const WeightsShape shape = {1, 96, 1024, {1, 1}};
  std::vector<int8_t> bytes(96 * 1024, 3);
  qn_weights w;
  qn_weights_init(&w);
  w.type = QN_S8;
  w.data = bytes.data();
  for (size_t i = 0; i < bytes.size(); i += 19) bytes[i] = 0;
  EXPECT_EQ(Weights(w, shape, nullptr, nullptr).density().blocks[0][0], bytes.size());
  for (size_t i = 0; i < bytes.size(); i += 5) bytes[i] = 0;
  expect_density(Weights(w, shape, nullptr, nullptr).density(), count({bytes.begin(), bytes.end()}, shape));
}

TEST(Density, IsCountedOnceWhoeverAsks) {
  const WeightsShape shape = {1, 70, 40, {3, 3}};
  const std::vector<float> dense = with_zeros(70 * 360, 0.7, 4);
  DecodedWeights decoded(dense, 360);
  const Weights weights(decoded.get(), shape, nullptr, nullptr);
  const Weights copy = weights.unshared();
  EXPECT_EQ(decoded.calls, 0u);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] { expect_density((i % 2 == 0 ? weights : copy).density(), count(dense, shape)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(decoded.calls, (70u + 15) / 16);
}

}  // namespace weights_test
}  // namespace quern::test
