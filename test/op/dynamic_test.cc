// Operators of floats with weights of bytes: those that quantize the rows of their input while they run (quantize_input),
// and those that multiply floats by weights of bytes or of 4 bits. And the products of bytes that are one call. Every row
// of the kernel tables, and every path through the plan, against sums in 64 bits or their formula.
#include <quern/quern.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/cpu.h"
#include "base/math.h"
#include "harness.h"
#include "kernel/gemm.h"

namespace quern::test {
namespace dynamic_test {

constexpr float infinity = std::numeric_limits<float>::infinity();
using Bytes = std::vector<int8_t>;

// A layer, and what it makes of rows.
struct Layer {
  size_t in, out;
  Bytes weights;              // a row for each output channel
  std::vector<float> scales;  // one, or one for each output channel
  std::vector<float> bias;    // may be empty
  float min = -infinity, max = infinity;
  size_t block = 0;  // so many weights of an output channel share a scale

  Layer(size_t in_channels, size_t out_channels, std::mt19937& random, int least = -128, int most = 127)
      : in(in_channels), out(out_channels), weights(in * out), scales(random() % 2 == 0 ? 1 : out) {
    draw(random, least, most);
  }
  // With a scale for each block of weights.
  Layer(size_t in_channels, size_t out_channels, size_t of_block, std::mt19937& random)
      : in(in_channels), out(out_channels), weights(in * out), scales(out * divide_up(in, of_block)), block(of_block) {
    draw(random, -8, 7);
  }
  void draw(std::mt19937& random, int least, int most) {
    for (int8_t& w : weights) {
      w = static_cast<int8_t>(least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1)));
    }
    for (float& s : scales) s = 0.001f * (1 + static_cast<float>(random() % 100));
    for (float& s : scales) s *= block == 0 ? 1 : static_cast<float>(static_cast<int>(random() % 3) - 1);
    if (random() % 3 != 0) bias = reals(out, random(), -5, 5);
    if (random() % 3 == 0) min = -3, max = 6;
  }

  qn_weights given() const {
    qn_weights w;
    qn_weights_init(&w);
    w.type = QN_S8;
    w.data = weights.data();
    w.scales = scales.data();
    w.scale_count = scales.size();
    w.block_length = block;
    return w;
  }

  // The weights as the matrix B of a product, or its transpose.
  Bytes matrix(size_t ld, bool transposed) const {
    Bytes b((transposed ? out : in) * ld, 77);
    for (size_t o = 0; o < out; ++o) {
      for (size_t i = 0; i < in; ++i) b[transposed ? o * ld + i : i * ld + o] = weights[o * in + i];
    }
    return b;
  }

  std::vector<float> expected(const std::vector<float>& x) const {
    std::vector<float> y;
    for (size_t row = 0; row < x.size(); row += in) {
      float least = 0, most = 0;
      bool finite = true;
      for (size_t i = row; i < row + in; ++i) {
        finite = finite && std::isfinite(x[i]);
        least = std::min(least, x[i]), most = std::max(most, x[i]);
      }
      const float scale = (most - least) / 255, inverse = 1 / scale;
      const bool zeros = most - least < 0x1p-100f;
      const float zero = zeros ? 0 : std::nearbyint(-least * inverse) - 128;
      for (size_t o = 0; o < out; ++o) {
        std::vector<int> q(in);  // less the zero point
        for (size_t i = 0; i < in && finite && !zeros; ++i) {
          q[i] = static_cast<int>(std::clamp(std::nearbyint(x[row + i] * inverse) + zero, -128.0f, 127.0f) - zero);
        }
        const float of_row = finite ? zeros ? 1 : scale : std::nanf(""), b = bias.empty() ? 0 : bias[o];
        const float real = (block == 0 ? sum(q, o, of_row) : sum_of_blocks(q, zero, o) * of_row) + b;
        y.push_back(std::isnan(real) ? real : std::min(std::max(real, min), max));
      }
    }
    return y;
  }
  // Of one row that stays floats.
  std::vector<float> expected_of_floats(const float* x, bool fused) const {
    std::vector<float> y;
    for (size_t o = 0; o < out; ++o) {
      float sums[4] = {};
      for (size_t i = 0; i < in; ++i) {
        const float w = weights[o * in + i], product = x[i] * w;
        sums[i % 4] = fused ? std::fma(x[i], w, sums[i % 4]) : sums[i % 4] + product;
      }
      const float real = ((sums[0] + sums[1]) + (sums[2] + sums[3])) * scales[scales.size() == 1 ? 0 : o];
      y.push_back(std::min(std::max(real + (bias.empty() ? 0 : bias[o]), min), max));
    }
    return y;
  }
  // Of rows that stay floats, by weights of 4 bits.
  std::vector<float> expected_of_halves(const std::vector<float>& x, bool fused) const {
    const auto add = [&](float a, float b, float sum) {
      const float product = a * b;
      return fused ? std::fma(a, b, sum) : sum + product;
    };
    std::vector<float> y;
    for (size_t row = 0; row < x.size(); row += in) {
      for (size_t o = 0; o < out; ++o) {
        float all = bias.empty() ? 0 : bias[o];
        for (size_t i = 0; i < in; i += 32) {
          float of_block = 0;
          for (size_t j = i; j < std::min(i + 32, in); ++j) of_block = add(x[row + j], weights[o * in + j], of_block);
          all = add(of_block, scales[o * divide_up(in, block) + i / block], all);
        }
        y.push_back(std::min(std::max(all, min), max));
      }
    }
    return y;
  }
  float sum(const std::vector<int>& q, size_t o, float of_row) const {
    int64_t all = 0;
    for (size_t i = 0; i < in; ++i) all += int64_t{q[i]} * weights[o * in + i];
    return static_cast<float>(all) * of_row * scales[scales.size() == 1 ? 0 : o];
  }
  // All zeros of q are those of a row that is not finite, or of zeros: their zero point is 0.
  float sum_of_blocks(const std::vector<int>& q, float zero, size_t o) const {
    if (std::all_of(q.begin(), q.end(), [](int x) { return x == 0; })) zero = 0;
    const auto offset = static_cast<int>(zero);
    float products = 0, of_weights = 0;
    for (size_t i = 0; i < in; i += 32) {
      int64_t product = 0, weight = 0;
      for (size_t j = i; j < std::min(i + 32, in); ++j) {
        product += int64_t{q[j] + offset} * weights[o * in + j];
        weight += weights[o * in + j];
      }
      const float s = scales[o * divide_up(in, block) + i / block];
      products += static_cast<float>(product) * s;
      of_weights += static_cast<float>(weight) * s;
    }
    return products - zero * of_weights;
  }
};

void expect_same(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(std::memcmp(&got[i], &expected[i], sizeof(float)), 0) << i << ": " << got[i] << ", not " << expected[i];
  }
}

class Op {
 public:
  ~Op() { qn_operator_release(op_); }
  qn_status fully_connected(const Layer& layer, const qn_weights& weights, int quantize_input = 1,
                            qn_weights_cache* cache = nullptr) {
    qn_fully_connected_params p;
    qn_fully_connected_params_init(&p);
    p.in_channels = layer.in, p.out_channels = layer.out;
    p.min = layer.min, p.max = layer.max;
    p.quantize_input = quantize_input;
    return qn_fully_connected_create(&p, &weights, layer.bias.empty() ? nullptr : layer.bias.data(), cache, &op_);
  }
  qn_status conv2d(const Layer& layer, qn_conv2d_params p, int quantize_input = 1) {
    p.in_channels = layer.in * p.groups, p.out_channels = layer.out;
    p.min = layer.min, p.max = layer.max;
    p.quantize_input = quantize_input;
    const qn_weights w = layer.given();
    return qn_conv2d_create(&p, &w, layer.bias.empty() ? nullptr : layer.bias.data(), nullptr, &op_);
  }
  operator const qn_operator*() const { return op_; }

 private:
  qn_operator* op_ = nullptr;
};

// Weights of bytes, of 4 bits, and of 4 bits with scales for blocks, of small layers of any size.
Layer any_layer(size_t kind, std::mt19937& random) {
  const size_t in = 1 + random() % 70, out = 1 + random() % 90;
  if (kind == 2) return Layer(in + random() % 200, out, 32 * (1 + random() % 3), random);
  return kind == 0 ? Layer(in, out, random) : Layer(in, out, random, -8, 7);
}

TEST(Dynamic, EveryKernelGivesTheBitsOfTheFormula) {
  std::mt19937 random(1);
  size_t runs = 0;
  for (const size_t kind : {0, 1, 2}) {
    for (int round = 0; round < 30; ++round) {
      const size_t rows = 1 + random() % 40;
      const Layer layer = any_layer(kind, random);
      Op op;
      ASSERT_QN_OK(op.fully_connected(layer, layer.given()));
      const auto x = reals(rows * layer.in, random(), -2, 3);
      const auto expected = layer.expected(x);
      for (const GemmRow& row : gemm_rows()) {
        Options options;
        options.kernel = row.name;
        options.tasks = 1 + random() % 4;
        options.in_gap = random() % 3, options.out_gap = random() % 3;
        const Result result = run(op, {{{rows, layer.in}, x}}, options);
        if (result.status == QN_UNSUPPORTED) continue;
        ASSERT_EQ(result.status, QN_OK) << result.message;
        SCOPED_TRACE(row.name);
        EXPECT_EQ(result.kernel, row.name);
        expect_same(result.values, expected);
        ++runs;
      }
      const Result result = run(op, {{{rows, layer.in}, x}});
      ASSERT_EQ(result.status, QN_OK) << result.message;
      expect_same(result.values, expected);
    }
  }
  EXPECT_GE(runs, 30u);
}

// Sums of weights as large as an operator takes them, and the zero points -128 and 127.
TEST(Dynamic, EveryKernelTakesTheLargestSumsOfWeights) {
  std::mt19937 random(12);
  constexpr size_t in = 66048, out = 2;
  Layer layer(in, out, random);
  std::fill_n(layer.weights.begin(), in, int8_t{127});
  std::fill_n(layer.weights.begin() + in, in, int8_t{-127});
  Op op;
  ASSERT_QN_OK(op.fully_connected(layer, layer.given()));
  std::vector<float> x = reals(in, 1, 0, 3);
  for (const float real : reals(in, 2, -2, 0)) x.push_back(real);
  const auto expected = layer.expected(x);
  for (const GemmRow& row : gemm_rows()) {
    Options options;
    options.kernel = row.name;
    const Result result = run(op, {{{2, in}, x}}, options);
    if (result.status == QN_UNSUPPORTED) continue;
    ASSERT_EQ(result.status, QN_OK) << result.message;
    SCOPED_TRACE(row.name);
    expect_same(result.values, expected);
  }
}

TEST(Dynamic, RowsOfManyDimensions) {
  std::mt19937 random(2);
  for (const Layer& layer : {Layer(33, 47, random), Layer(33, 47, 32, random)}) {
    Op op;
    ASSERT_QN_OK(op.fully_connected(layer, layer.given()));
    const Shape shape = {3, 5, 7, layer.in};
    const auto x = reals(count_of(shape), 3);
    for (const size_t tasks : {1, 2, 5}) {
      for (const size_t gap : {0, 2}) {
        Options options;
        options.tasks = tasks;
        options.in_gap = options.out_gap = gap;
        const Result result = run(op, {{shape, x}}, options);
        ASSERT_EQ(result.status, QN_OK) << result.message;
        expect_same(result.values, layer.expected(x));
      }
    }
  }
}

void check_special_numbers(const Layer& layer) {
  Op op;
  ASSERT_QN_OK(op.fully_connected(layer, layer.given()));
  std::vector<float> x(8 * layer.in, 0);
  const auto row = [&](size_t i) { return x.begin() + static_cast<ptrdiff_t>(i * layer.in); };
  std::fill_n(row(1), layer.in, 3.7f);
  std::fill_n(row(2), layer.in, -3.7f);
  std::fill_n(row(3), layer.in, 1e-38f);
  for (size_t i = 4; i < 7; ++i) std::fill_n(row(i), layer.in, 1.0f);
  row(4)[3] = std::nanf("");
  row(5)[19] = infinity;
  row(6)[0] = 3e38f, row(6)[1] = -3e38f;
  std::fill_n(row(7), layer.in, 3e38f);
  const Result result = run(op, {{{8, layer.in}, x}});
  ASSERT_EQ(result.status, QN_OK) << result.message;
  expect_same(result.values, layer.expected(x));
  for (size_t o = 0; o < layer.out; ++o) {
    const float bias = layer.bias.empty() ? 0 : layer.bias[o];
    EXPECT_EQ(result.values[o], std::min(std::max(bias, layer.min), layer.max));
    for (size_t i = 4; i < 7; ++i) EXPECT_TRUE(std::isnan(result.values[i * layer.out + o])) << i;
  }
}

TEST(Dynamic, RowsOfSpecialNumbers) {
  std::mt19937 random(4);
  check_special_numbers(Layer(20, 9, random));
  check_special_numbers(Layer(70, 9, 64, random));
}

// Operators of floats take them with blocks of any length.
TEST(Dynamic, BlocksAsRealNumbers) {
  std::mt19937 random(14);
  const Layer layer(50, 12, 16, random);
  std::vector<float> real;
  for (size_t o = 0; o < layer.out; ++o) {
    for (size_t i = 0; i < layer.in; ++i) {
      real.push_back(static_cast<float>(layer.weights[o * layer.in + i]) * layer.scales[o * 4 + i / 16]);
    }
  }
  qn_weights of_floats;
  qn_weights_init(&of_floats);
  of_floats.data = real.data();
  const auto x = reals(3 * layer.in, 15);
  Op bytes, floats;
  ASSERT_QN_OK(bytes.fully_connected(layer, layer.given(), 0));
  ASSERT_QN_OK(floats.fully_connected(layer, of_floats, 0));
  const auto expected = run(floats, {{{3, layer.in}, x}});
  expect_same(run(bytes, {{{3, layer.in}, x}}).values, expected.values);
}

TEST(Dynamic, WeightsOfOtherLayoutsAndDecodedOnes) {
  std::mt19937 random(5);
  const Layer layer(31, 40, random);
  const auto x = reals(7 * layer.in, 6);
  Bytes transposed;
  for (size_t i = 0; i < layer.in; ++i) {
    for (size_t o = 0; o < layer.out; ++o) transposed.push_back(layer.weights[o * layer.in + i]);
  }
  qn_weights given = layer.given();
  given.layout = QN_WEIGHTS_HWIO;
  given.data = transposed.data();
  qn_weights decoded = layer.given();
  decoded.encoding = QN_WEIGHTS_DECODED;
  decoded.data = nullptr;
  decoded.context = const_cast<Layer*>(&layer);
  decoded.decode = [](void* context, size_t first, size_t count, void* to) {
    const auto& of = *static_cast<const Layer*>(context);
    std::memcpy(to, of.weights.data() + first * of.in, count * of.in);
    return QN_OK;
  };
  for (const qn_weights& weights : {given, decoded}) {
    Op op;
    ASSERT_QN_OK(op.fully_connected(layer, weights));
    const Result result = run(op, {{{7, layer.in}, x}});
    ASSERT_EQ(result.status, QN_OK) << result.message;
    expect_same(result.values, layer.expected(x));
  }
}

TEST(Dynamic, PointwiseConvolutionWithAResidual) {
  std::mt19937 random(7);
  Layer layer(24, 36, random);
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  Op op;
  ASSERT_QN_OK(op.conv2d(layer, p));
  const Shape shape = {2, 5, 3, layer.in}, out = {2, 5, 3, layer.out};
  const auto x = reals(count_of(shape), 8), residual = reals(count_of(out), 9);
  for (const size_t tasks : {1, 3}) {
    for (const size_t in_place : {SIZE_MAX, size_t{1}}) {
      Options options;
      options.tasks = tasks;
      options.in_place = in_place;
      const Result result = run(op, {{shape, x}, {out, residual}}, options);
      ASSERT_EQ(result.status, QN_OK) << result.message;
      auto expected = layer.expected(x);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += residual[i];
      expect_same(result.values, expected);
    }
  }
  p.stride = {2, 2};
  Op refused;
  EXPECT_EQ(refused.conv2d(layer, p), QN_UNSUPPORTED);
  EXPECT_STREQ(qn_last_message(), "conv2d: quantize_input with a kernel, stride or padding, or several groups");
}

TEST(Dynamic, NeedsBytesWithScales) {
  std::mt19937 random(10);
  const Layer layer(5, 4, random);
  const auto message = [&](void (*change)(qn_weights*)) {
    qn_weights w = layer.given();
    change(&w);
    Op op;
    EXPECT_NE(op.fully_connected(layer, w), QN_OK);
    return std::string(qn_last_message());
  };
  EXPECT_EQ(message([](qn_weights* w) { w->type = QN_F32; }),
            "fully_connected: quantize_input with weights of type f32, not s8");
  EXPECT_EQ(message([](qn_weights* w) { w->scales = nullptr; }),
            "fully_connected: weights of type s8 without weights.scales");
  EXPECT_EQ(message([](qn_weights* w) { w->bias_type = QN_S32; }),
            "fully_connected: weights.bias_type is s32, not f32");
  EXPECT_EQ(message([](qn_weights* w) { w->block_length = 16; }),
            "fully_connected: weights.block_length is 16, not a multiple of 32");
  EXPECT_EQ(message([](qn_weights* w) { w->block_length = 32, w->scale_count = 3; }),
            "fully_connected: weights.scale_count is 3, not 4");
}

TEST(Dynamic, WeightsOfBlocksFitFourBits) {
  std::mt19937 random(16);
  for (const int8_t outlier : {-9, 8}) {
    Layer layer(65, 4, 32, random);
    layer.weights[100] = outlier;
    Op op;
    EXPECT_EQ(op.fully_connected(layer, layer.given()), QN_UNSUPPORTED);
    EXPECT_STREQ(qn_last_message(), "fully_connected: weights with scales for blocks are not all in -8 .. 7");
  }
}

TEST(Dynamic, SumsThatMayOverflowAreRefused) {
  std::mt19937 random(11);
  Layer layer(66000, 1, random, -128, -128);
  Op op;
  EXPECT_EQ(op.fully_connected(layer, layer.given()), QN_UNSUPPORTED);
  EXPECT_STREQ(qn_last_message(), "fully_connected: sums of an output channel may overflow 32 bits");
  // Sums of weights of 4 bits fit, but 16 times them do not.
  std::fill(layer.weights.begin(), layer.weights.end(), int8_t{-8});
  ASSERT_QN_OK(op.fully_connected(layer, layer.given()));
  const std::vector<float> x(layer.in, 1);
  const Result result = run(op, {{{1, layer.in}, x}});
  ASSERT_EQ(result.status, QN_OK) << result.message;
  expect_same(result.values, layer.expected(x));
}

// ---- one call

// The rows of C. What lies between them has kept its 99.
std::vector<float> rows_of(const std::vector<float>& c, size_t ld, size_t columns) {
  std::vector<float> rows;
  for (size_t i = 0; i < c.size(); ++i) {
    if (i % ld < columns)
      rows.push_back(c[i]);
    else
      EXPECT_EQ(c[i], 99);
  }
  return rows;
}

// ---- floats by bytes

bool is_fused(const GemmRow& row) { return (row.isa & fused_levels) != 0; }
// The row of this type that a result names; fails if it names another one.
const GemmRow& row_of_bytes(const Result& result, KernelType type = KernelType::qw8c) {
  const auto rows = gemm_rows();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const GemmRow& row) { return result.kernel == row.name; });
  EXPECT_TRUE(found != rows.end() && found->type == type) << result.kernel;
  return found != rows.end() ? *found : rows.front();
}

TEST(ByteWeights, EveryKernelOfOneRowGivesTheBitsOfTheFormula) {
  std::mt19937 random(21);
  size_t runs = 0;
  for (int round = 0; round < 40; ++round) {
    Layer layer(1 + random() % 70, 1 + random() % 150, random);
    for (int8_t& w : layer.weights) w = w == 0 ? int8_t{1} : w;  // sparse kernels may be faster for tiny layers
    Op op;
    ASSERT_QN_OK(op.fully_connected(layer, layer.given(), 0));
    const auto x = reals(layer.in, random(), -2, 3);
    for (const GemmRow& row : gemm_rows()) {
      if (row.type != KernelType::qw8c || !runs_on(row, cpu().isa)) continue;
      Options options;
      options.kernel = row.name;
      options.tasks = 1 + random() % 4;
      options.out_gap = random() % 3;
      const Result result = run(op, {{{layer.in}, x}}, options);
      ASSERT_EQ(result.status, QN_OK) << result.message;
      EXPECT_EQ(result.kernel, row.name);
      expect_same(result.values, layer.expected_of_floats(x.data(), is_fused(row)));
      ++runs;
    }
    const Result result = run(op, {{{1, 1, layer.in}, x}});
    ASSERT_EQ(result.status, QN_OK) << result.message;
    expect_same(result.values, layer.expected_of_floats(x.data(), is_fused(row_of_bytes(result))));
  }
  EXPECT_GE(runs, 40u);
}

// Many panels, which tasks share.
TEST(ByteWeights, TasksShareTheChannels) {
  std::mt19937 random(28);
  const Layer layer(701, 1003, random);
  Op op;
  ASSERT_QN_OK(op.fully_connected(layer, layer.given(), 0));
  const auto x = reals(layer.in, 29);
  for (const GemmRow& row : gemm_rows()) {
    if (row.type != KernelType::qw8c || !runs_on(row, cpu().isa)) continue;
    const auto expected = layer.expected_of_floats(x.data(), is_fused(row));
    for (const size_t tasks : {1, 2, 4}) {
      SCOPED_TRACE(std::string(row.name) + ", tasks " + std::to_string(tasks));
      Options options;
      options.kernel = row.name;
      options.tasks = tasks;
      const Result result = run(op, {{{layer.in}, x}}, options);
      ASSERT_EQ(result.status, QN_OK) << result.message;
      expect_same(result.values, expected);
    }
  }
}

// One operator keeps both packings, a second one shares them, and the owner hears of the bytes that have been read.
TEST(ByteWeights, OneRowAndSeveralInTurn) {
  std::mt19937 random(30);
  Layer layer(64, 96, random);
  layer.scales.assign(layer.out, 0.25f);
  qn_weights weights = layer.given();
  size_t read = 0;
  weights.context = &read;
  weights.was_read = [](void* context, const void*, size_t bytes) { *static_cast<size_t*>(context) += bytes; };
  qn_weights_cache* cache = nullptr;
  ASSERT_QN_OK(qn_weights_cache_create(&cache));
  {
    Op first, second;
    ASSERT_QN_OK(first.fully_connected(layer, weights, 0, cache));
    ASSERT_QN_OK(second.fully_connected(layer, weights, 0, cache));
    const auto x = reals(2 * layer.in, 31);
    const std::vector<float> row(x.begin(), x.begin() + static_cast<ptrdiff_t>(layer.in));
    const auto one = run(first, {{{layer.in}, row}}).values, two = run(first, {{{2, layer.in}, x}}).values;
    EXPECT_EQ(read, layer.weights.size());  // floats are decoded ones, of which nobody is told
    const size_t bytes = qn_weights_cache_bytes(cache);
    EXPECT_GE(bytes, 5 * layer.weights.size());
    expect_same(run(second, {{{layer.in}, row}}).values, one);
    expect_same(run(second, {{{2, layer.in}, x}}).values, two);
    expect_same(run(first, {{{layer.in}, row}}).values, one);
    EXPECT_EQ(qn_weights_cache_bytes(cache), bytes);
  }
  qn_weights_cache_release(cache);
}

// Kernels of floats leave out zeros, which pays where most weights are 0; and depthwise ones do not multiply rows.
TEST(ByteWeights, SparseAndDepthwiseLayersStayFloats) {
  std::mt19937 random(32);
  Layer layer(1024, 1024, random);
  for (size_t i = 0; i < layer.weights.size(); ++i) layer.weights[i] *= i / 64 % 50 == 0;
  Op sparse;
  ASSERT_QN_OK(sparse.fully_connected(layer, layer.given(), 0));
  const Result few = run(sparse, {{{layer.in}, reals(layer.in, 33)}});
  EXPECT_EQ(few.kernel.find("qw8c"), std::string::npos) << few.kernel;
  Layer channels(1, 40, random);
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.groups = 40;
  Op depthwise;
  ASSERT_QN_OK(depthwise.conv2d(channels, p, 0));
  const Result each = run(depthwise, {{{1, 1, 1, 40}, reals(40, 34)}});
  ASSERT_EQ(each.status, QN_OK) << each.message;
  EXPECT_EQ(each.kernel.find("qw8c"), std::string::npos) << each.kernel;
}

// Several rows, and kernels of floats that are asked for, read the weights as real numbers.
TEST(ByteWeights, SeveralRowsAndKernelsOfFloats) {
  std::mt19937 random(22);
  const Layer layer(33, 40, random);
  Op op;
  ASSERT_QN_OK(op.fully_connected(layer, layer.given(), 0));
  const auto x = reals(2 * layer.in, 23);
  const Result two = run(op, {{{2, layer.in}, x}});
  ASSERT_EQ(two.status, QN_OK) << two.message;
  EXPECT_EQ(two.kernel.rfind("qn_gemm_f32", 0), 0u) << two.kernel;
  Options options;
  options.kernel = "qn_gemm_qw8c_1x8_ref";
  EXPECT_EQ(run(op, {{{2, layer.in}, x}}, options).status, QN_UNSUPPORTED);
  options.kernel = "qn_gemm_f32_4x8_ref";
  const Result one = run(op, {{{layer.in}, {x.begin(), x.begin() + 33}}}, options);
  ASSERT_EQ(one.status, QN_OK) << one.message;
  const auto expected = layer.expected_of_floats(x.data(), true);
  for (size_t o = 0; o < layer.out; ++o) {
    EXPECT_NEAR(one.values[o], expected[o], 1e-3f) << o;
    EXPECT_NEAR(two.values[o], expected[o], 1e-3f) << o;
  }
}

TEST(ByteWeights, PixelsOfGroupsWithAResidual) {
  std::mt19937 random(24);
  Layer layer(12, 60, random);  // three groups of 20 channels each
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.groups = 3;
  Op op;
  ASSERT_QN_OK(op.conv2d(layer, p, 0));
  const auto x = reals(36, 25), residual = reals(60, 26);
  for (const size_t in_place : {SIZE_MAX, size_t{1}}) {
    Options options;
    options.in_place = in_place;
    const Result result = run(op, {{{1, 1, 1, 36}, x}, {{1, 1, 1, 60}, residual}}, options);
    ASSERT_EQ(result.status, QN_OK) << result.message;
    const bool fused = is_fused(row_of_bytes(result));
    std::vector<float> expected;
    for (size_t g = 0; g < 3; ++g) {
      const auto all = layer.expected_of_floats(&x[g * 12], fused);
      for (size_t o = g * 20; o < (g + 1) * 20; ++o) expected.push_back(all[o] + residual[o]);
    }
    expect_same(result.values, expected);
  }
}

// ---- floats by weights of 4 bits

// A layer whose weights have scales for blocks, without zeros: sparse kernels may be faster for tiny layers.
Layer layer_of_blocks(size_t in, size_t out, size_t block, std::mt19937& random) {
  Layer layer(in, out, block, random);
  for (int8_t& w : layer.weights) w = w == 0 ? int8_t{1} : w;
  for (float& s : layer.scales) s = s == 0 ? -0.03f : s;
  return layer;
}

TEST(HalfWeights, EveryKernelGivesTheBitsOfTheFormula) {
  std::mt19937 random(41);
  size_t runs = 0;
  for (int round = 0; round < 40; ++round) {
    const size_t rows = round % 3 == 0 ? 1 : 1 + random() % 70;
    const Layer layer = layer_of_blocks(1 + random() % 200, 1 + random() % 90, 32 * (1 + random() % 3), random);
    Op op;
    ASSERT_QN_OK(op.fully_connected(layer, layer.given(), 0));
    const auto x = reals(rows * layer.in, random(), -2, 3);
    for (const GemmRow& row : gemm_rows()) {
      if (row.type != KernelType::qw4b || !runs_on(row, cpu().isa)) continue;
      Options options;
      options.kernel = row.name;
      options.tasks = 1 + random() % 4;
      options.in_gap = random() % 3, options.out_gap = random() % 3;
      const Result result = run(op, {{{rows, layer.in}, x}}, options);
      ASSERT_EQ(result.status, QN_OK) << result.message;
      EXPECT_EQ(result.kernel, row.name);
      expect_same(result.values, layer.expected_of_halves(x, is_fused(row)));
      ++runs;
    }
    const Result result = run(op, {{{1, rows, layer.in}, x}});
    ASSERT_EQ(result.status, QN_OK) << result.message;
    expect_same(result.values, layer.expected_of_halves(x, is_fused(row_of_bytes(result, KernelType::qw4b))));
  }
  EXPECT_GE(runs, 40u);
}

// Of one row, of several, and of pixels with a residual: four bits and an eighth of a scale for each weight.
TEST(HalfWeights, KeepFourBitsForAnyNumberOfRows) {
  std::mt19937 random(42);
  const Layer layer = layer_of_blocks(96, 64, 32, random);
  qn_weights_cache* cache = nullptr;
  ASSERT_QN_OK(qn_weights_cache_create(&cache));
  {
    Op op;
    ASSERT_QN_OK(op.fully_connected(layer, layer.given(), 0, cache));
    const auto x = reals(7 * layer.in, 43);
    const Result seven = run(op, {{{7, layer.in}, x}});
    const bool fused = is_fused(row_of_bytes(seven, KernelType::qw4b));
    expect_same(seven.values, layer.expected_of_halves(x, fused));
    const std::vector<float> first(x.begin(), x.begin() + 96);
    expect_same(run(op, {{{layer.in}, first}}).values, layer.expected_of_halves(first, fused));
    EXPECT_EQ(qn_weights_cache_bytes(cache), layer.out * (layer.in / 2 + layer.in / 32 * 4 + 4));
  }
  qn_weights_cache_release(cache);
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  Op pixels;
  ASSERT_QN_OK(pixels.conv2d(layer, p, 0));
  const auto x = reals(6 * layer.in, 44), residual = reals(6 * layer.out, 45);
  const Result result = run(pixels, {{{1, 2, 3, layer.in}, x}, {{1, 2, 3, layer.out}, residual}});
  ASSERT_EQ(result.status, QN_OK) << result.message;
  auto expected = layer.expected_of_halves(x, is_fused(row_of_bytes(result, KernelType::qw4b)));
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += residual[i];
  expect_same(result.values, expected);
}

// Elements that need more than 4 bits, blocks of another length, and kernels of floats that are asked for.
TEST(HalfWeights, OthersAreReadAsFloats) {
  std::mt19937 random(46);
  const auto expect_floats = [](const Layer& layer, const char* kernel = "") {
    Op op;
    ASSERT_QN_OK(op.fully_connected(layer, layer.given(), 0));
    const auto x = reals(3 * layer.in, 47);
    Options options;
    options.kernel = kernel;
    const Result result = run(op, {{{3, layer.in}, x}}, options);
    ASSERT_EQ(result.status, QN_OK) << result.message;
    EXPECT_EQ(result.kernel.rfind("qn_gemm_f32", 0), 0u) << result.kernel;
    for (size_t i = 0; i < result.values.size(); ++i) {
      float sum = layer.bias.empty() ? 0 : layer.bias[i % layer.out];
      for (size_t k = 0; k < layer.in; ++k) {
        const size_t o = i % layer.out, blocks = divide_up(layer.in, layer.block);
        const float scale = layer.scales[o * blocks + k / layer.block];
        sum += x[i / layer.out * layer.in + k] * static_cast<float>(layer.weights[o * layer.in + k]) * scale;
      }
      EXPECT_NEAR(result.values[i], std::min(std::max(sum, layer.min), layer.max), 1e-4f) << i;
    }
  };
  expect_floats(layer_of_blocks(70, 9, 48, random));
  Layer layer = layer_of_blocks(70, 9, 32, random);
  expect_floats(layer, "qn_gemm_f32_4x8_ref");
  for (const int8_t outlier : {-9, 8}) {
    layer.weights[100] = outlier;
    expect_floats(layer);
  }
}

// A product in one call, and what has to come out for a layer's weights.
using OneCall = decltype(&qn_gemm_qd8);
template <class Expected>
void expect_products(OneCall gemm, unsigned seed, Expected&& expected) {
  std::mt19937 random(seed);
  for (const bool transpose : {false, true}) {
    for (const size_t m : {1, 17}) {
      for (const size_t gap : {0, 1}) {  // behind rows of B
        const Layer layer = m == 1 ? Layer(29, 35, random) : any_layer(random() % 3, random);
        const size_t lda = layer.in + 2, ldc = layer.out + 3, ldb = (transpose ? layer.in : layer.out) + gap;
        const auto x = reals(m * layer.in, random());
        std::vector<float> a(m * lda, NAN), c(m * ldc, 99);
        for (size_t i = 0; i < m; ++i) std::copy_n(&x[i * layer.in], layer.in, &a[i * lda]);
        const Bytes b = layer.matrix(ldb, transpose);
        ASSERT_QN_OK(gemm(m, layer.out, layer.in, a.data(), lda, b.data(), ldb, transpose, layer.scales.data(),
                          layer.scales.size(), layer.block, layer.bias.empty() ? nullptr : layer.bias.data(), layer.min,
                          layer.max, c.data(), ldc, nullptr));
        expect_same(rows_of(c, ldc, layer.out), expected(layer, m, x));
      }
    }
  }
}

void expect_refusals(OneCall gemm) {
  float a[4] = {}, c[4] = {};
  const float scale = 1, bias[2] = {5, -5};
  const int8_t b[4] = {};
  const auto call = [&](size_t k, size_t lda, const float* scales, size_t count, float min, float* to) {
    return gemm(2, 2, k, a, lda, b, 2, 0, scales, count, 0, bias, min, 4, to, 2, nullptr);
  };
  EXPECT_EQ(call(2, 1, &scale, 1, 0, c), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, nullptr, 1, 0, c), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, &scale, 3, 0, c), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, &scale, 1, 9, c), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, &scale, 1, 0, a), QN_INVALID_ARGUMENT);
  ASSERT_QN_OK(call(0, 0, &scale, 1, -3, c));  // only the bias
  EXPECT_EQ(c[0], 4);
  EXPECT_EQ(c[3], -3);
}

TEST(GemmQw8, IsTheOperator) {
  expect_products(qn_gemm_qw8, 27, [](const Layer& layer, size_t m, const std::vector<float>& x) {
    Op op;
    EXPECT_QN_OK(op.fully_connected(layer, layer.given(), 0));
    return run(op, {{{m, layer.in}, x}}).values;
  });
}

TEST(GemmQw8, RefusesWhatItCannotDo) { expect_refusals(qn_gemm_qw8); }

TEST(GemmQd8, IsTheOperator) {
  expect_products(qn_gemm_qd8, 12,
                  [](const Layer& layer, size_t, const std::vector<float>& x) { return layer.expected(x); });
}

TEST(GemmQd8, RefusesWhatItCannotDo) { expect_refusals(qn_gemm_qd8); }

TEST(GemmQs8, IsTheFormula) {
  std::mt19937 random(13);
  const size_t m = 9, n = 21, k = 18;
  Bytes a(m * k), b(k * n), c(m * n);
  for (Bytes* x : {&a, &b}) {
    for (int8_t& v : *x) v = static_cast<int8_t>(static_cast<int>(random() % 256) - 128);
  }
  std::vector<float> scales;
  std::vector<int32_t> bias;
  for (size_t j = 0; j < n; ++j) {
    scales.push_back(0.01f * static_cast<float>(1 + j));
    bias.push_back(static_cast<int32_t>(random() % 2000) - 1000);
  }
  const float a_scale = 0.05f, c_scale = 1.5f;
  ASSERT_QN_OK(qn_gemm_qs8(m, n, k, a.data(), k, a_scale, 3, b.data(), n, 0, scales.data(), n, bias.data(), -100,
                           infinity, c.data(), n, c_scale, -7, nullptr));
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      int32_t sum = bias[j];
      for (size_t l = 0; l < k; ++l) sum += (a[i * k + l] - 3) * b[l * n + j];
      const float steps = std::nearbyint(static_cast<float>(sum) * (a_scale * scales[j] / c_scale)) - 7;
      EXPECT_EQ(c[i * n + j], std::clamp(steps, std::nearbyint(-100 / c_scale) - 7, 127.0f));
    }
  }
  EXPECT_EQ(qn_gemm_qs8(m, n, k, a.data(), k, 0, 3, b.data(), n, 0, scales.data(), n, nullptr, 0, 1, c.data(), n,
                        c_scale, -7, nullptr),
            QN_INVALID_ARGUMENT);
}

}  // namespace dynamic_test
}  // namespace quern::test
