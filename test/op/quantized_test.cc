// Quantized convolutions and matrix products: every algorithm and every row of a kernel table against sums in 64 bits,
// of which 32 count, over odd shapes.
#include <quern/quern.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/math.h"
#include "base/memory.h"
#include "harness.h"
#include "kernel/dwconv.h"
#include "kernel/gemm.h"
#include "kernel/igemm.h"
#include "kernel/spmm.h"
#include "kernel/tapgemm.h"

namespace quern::test {
namespace quantized_test {

using Bytes = std::vector<int8_t>;
using Random = std::mt19937;

int8_t byte(Random& random, int least = -128) {
  return static_cast<int8_t>(least + static_cast<int>(random() % static_cast<unsigned>(128 - least)));
}

// A tensor of bytes whose rows of channels lie `gap` bytes apart.
struct Quantized {
  Shape shape;
  float scale;
  int32_t zero;
  size_t gap = 0;

  qn_tensor tensor() const {
    qn_tensor t;
    EXPECT_EQ(QN_OK, qn_tensor_init(&t, QN_S8, static_cast<uint32_t>(shape.size()), shape.data()));
    size_t stride = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      t.stride[i] = stride;
      stride = i + 1 == shape.size() ? shape[i] + gap : stride * shape[i];
    }
    t.quantization.scale = scale;
    t.quantization.zero_point = zero;
    return t;
  }
  size_t bytes() const {
    size_t pixels = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) pixels *= shape[i];
    return pixels * (shape.back() + gap);
  }
};

struct Case {
  qn_conv2d_params p;
  Shape in_shape;
  bool per_channel, bias;
  size_t zeros;     // blocks of weights that are 0, of eight
  bool after_relu;  // the input stands for no negative numbers: padding may be left out
  bool wraps;       // some biases are so close to the limits of 32 bits that sums exceed them
};

std::string text(const Case& c) {
  std::string list;
  for (const size_t x : {c.in_shape[0], c.in_shape[1], c.in_shape[2], c.p.in_channels, c.p.out_channels, c.p.groups,
                         c.p.kernel.h, c.p.kernel.w, c.p.stride.h, c.p.dilation.w, c.p.padding.top}) {
    list.append(std::to_string(x)).append(" ");
  }
  return list;
}

Case draw(Random& random) {
  Case c = {};
  qn_conv2d_params_init(&c.p);
  const auto below = [&](size_t n) { return random() % n; };
  c.p.type = QN_S8;
  const size_t kind = below(6);  // pointwise, grouped, depthwise, any, few channels, depthwise of the usual kind
  const bool depthwise = kind == 2 || kind == 5;
  c.p.groups = depthwise ? 1 + below(kind == 5 ? 150 : 40) : kind == 1 ? 1 + below(3) : 1;
  c.p.in_channels = c.p.groups * (depthwise ? 1 : 1 + below(kind == 4 ? 7 : 20));
  c.p.out_channels = c.p.groups * (depthwise ? 1 : 1 + below(20));
  if (kind != 0) {
    c.p.kernel = {1 + below(4), 1 + below(4)};
    c.p.stride = {1 + below(3), 1 + below(3)};
    c.p.dilation = {1 + below(2), 1 + below(2)};
    c.p.padding = {below(3), below(3), below(3), below(3)};
  }
  if (kind == 4) {
    c.p.kernel = {1 + below(7), 2 + below(6)};
    c.p.dilation = {1, 1};
  }
  if (kind == 5) {
    c.p.kernel.h = c.p.kernel.w = 3 + 2 * below(2);
    c.p.stride.h = c.p.stride.w;
    c.p.dilation = {1, 1};
  }
  c.in_shape = {1 + below(2), 7 + below(6), 7 + below(6), c.p.in_channels};
  if (below(8) == 0) c.in_shape[1] += below(30), c.in_shape[2] += below(30);
  c.per_channel = below(2) == 0;
  c.bias = below(3) != 0;
  if (below(2) == 0) c.p.min = 0, c.p.max = 6;
  if (kind == 0 && below(4) == 0) c.in_shape[3] = c.p.in_channels = 1 + below(300), c.p.out_channels = 1 + below(80);
  c.zeros = below(2) * below(9);
  c.after_relu = below(2) == 0;
  c.wraps = below(4) == 0;
  return c;
}

// A convolution with its operands, and what has to come out.
class Convolution {
 public:
  Convolution(const Case& c, Random& random)
      : p_(c.p),
        in_{c.in_shape, 0.05f, c.after_relu ? int8_t{-128} : byte(random), random() % 3},
        input_(in_.bytes()),
        out_{{}, 0.11f, byte(random)} {
    const size_t depth = p_.kernel.h * p_.kernel.w * p_.in_channels / p_.groups;
    for (int8_t& x : input_) x = byte(random);
    weights_.resize(p_.out_channels * depth);
    for (size_t i = 0; i < weights_.size(); ++i) {
      const size_t block = i / depth / 4 * 77 + i % depth / 4;
      weights_[i] = block * 2654435761u % 97 % 8 < c.zeros ? int8_t{0} : byte(random, random() % 4 == 0 ? -128 : -127);
    }
    scales_.resize(c.per_channel ? p_.out_channels : 1);
    for (float& x : scales_) x = 0.01f + 1e-4f * static_cast<float>(random() % 100);
    if (c.bias) bias_.resize(p_.out_channels);
    for (int32_t& x : bias_) x = static_cast<int32_t>(random() % 20001) - 10000;
    for (size_t o = 0; o < bias_.size() && c.wraps; o += 1 + random() % 4) bias_[o] = wrapping_add(bias_[o], INT32_MIN);
    const auto size = [](size_t in, size_t kernel, size_t stride, size_t dilation, size_t padding) {
      return (in + padding - ((kernel - 1) * dilation + 1)) / stride + 1;
    };
    const auto& [top, left, bottom, right] = p_.padding;
    out_.shape = {in_.shape[0], size(in_.shape[1], p_.kernel.h, p_.stride.h, p_.dilation.h, top + bottom),
                  size(in_.shape[2], p_.kernel.w, p_.stride.w, p_.dilation.w, left + right), p_.out_channels};
    out_.gap = random() % 3;
  }

  qn_status create(qn_operator** op) const {
    qn_weights w;
    qn_weights_init(&w);
    w.type = QN_S8;
    w.data = weights_.data();
    w.scales = scales_.data();
    w.scale_count = scales_.size();
    w.bias_type = QN_S32;
    return qn_conv2d_create(&p_, &w, bias_.empty() ? nullptr : bias_.data(), nullptr, op);
  }

  // The output is `gap` where nothing is written.
  Bytes expected(int8_t gap) const {
    Bytes out(out_.bytes(), gap);
    const Shape& s = out_.shape;
    for (size_t pixel = 0; pixel < s[0] * s[1] * s[2]; ++pixel) {
      for (size_t o = 0; o < s[3]; ++o) {
        out[pixel * (s[3] + out_.gap) + o] = one(pixel / s[2] / s[1], pixel / s[2] % s[1], pixel % s[2], o);
      }
    }
    return out;
  }

  const Quantized& in() const { return in_; }
  const Quantized& out() const { return out_; }
  const Bytes& input() const { return input_; }

 private:
  int8_t one(size_t n, size_t y, size_t x, size_t o) const {
    const size_t in = p_.in_channels / p_.groups, group = o / (p_.out_channels / p_.groups);
    int64_t sum = bias_.empty() ? 0 : bias_[o];
    for (size_t i = 0; i < p_.kernel.h; ++i) {
      for (size_t j = 0; j < p_.kernel.w; ++j) {
        const size_t iy = y * p_.stride.h + i * p_.dilation.h - p_.padding.top;
        const size_t ix = x * p_.stride.w + j * p_.dilation.w - p_.padding.left;
        if (iy >= in_.shape[1] || ix >= in_.shape[2]) continue;  // padding is 0
        const size_t pixel = (n * in_.shape[1] + iy) * in_.shape[2] + ix;
        for (size_t k = 0; k < in; ++k) {
          const int a = input_[pixel * (in_.shape[3] + in_.gap) + group * in + k] - in_.zero;
          sum += a * weights_[((o * p_.kernel.h + i) * p_.kernel.w + j) * in + k];
        }
      }
    }
    const float scale = in_.scale * scales_[scales_.size() == 1 ? 0 : o] / out_.scale;
    const double steps =
        std::nearbyint(static_cast<double>(static_cast<float>(static_cast<int32_t>(sum)) * scale)) + out_.zero;
    return static_cast<int8_t>(std::clamp(steps, bound(p_.min), bound(p_.max)));
  }
  double bound(float real) const {
    return std::clamp<double>(std::nearbyint(static_cast<double>(real / out_.scale)) + out_.zero, -128, 127);
  }

  qn_conv2d_params p_;
  Quantized in_;
  Bytes input_, weights_;
  std::vector<float> scales_;
  std::vector<int32_t> bias_;
  Quantized out_;
};

constexpr int8_t untouched = 0x55;

// Plans and runs, with this output to begin with; returns the plan's status, and leaves the plan's kernel in `kernel`.
qn_status run(const qn_operator* op, const qn_plan_options& options, const std::vector<qn_tensor>& ins,
              const std::vector<const void*>& inputs, const qn_tensor& out, Bytes* output, std::string* kernel) {
  qn_plan* plan = nullptr;
  const qn_status status = qn_operator_plan(op, ins.data(), ins.size(), &out, 1, &options, &plan);
  if (status != QN_OK) return status;
  const Buffer workspace(qn_plan_workspace_size(plan));
  void* const outputs[] = {output->data()};
  EXPECT_QN_OK(qn_plan_run(plan, inputs.data(), outputs, workspace.data(), workspace.size(), nullptr));
  *kernel = qn_plan_kernel(plan);
  qn_plan_release(plan);
  return QN_OK;
}

qn_plan_options options_of(qn_algorithm algorithm, size_t tasks) {
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.algorithm = algorithm;
  options.tasks = tasks;
  return options;
}

// Returns the plan's status. Expects the output.
qn_status run(const Convolution& c, const qn_operator* op, qn_algorithm algorithm, const char* kernel, size_t tasks,
              const Bytes& expected) {
  qn_plan_options options = options_of(algorithm, tasks);
  options.kernel = kernel;
  Bytes output(c.out().bytes(), untouched);
  std::string name;
  const qn_status status = run(op, options, {c.in().tensor()}, {c.input().data()}, c.out().tensor(), &output, &name);
  if (status != QN_OK) return status;
  EXPECT_EQ(output, expected) << name << ", tasks " << tasks;
  EXPECT_EQ(name, kernel != nullptr ? kernel : name);
  return QN_OK;
}

template <class Table>
void run_rows(const Convolution& c, const qn_operator* op, const Table& rows, const Bytes& expected, size_t* runs) {
  for (const auto& row : rows) {
    for (const qn_algorithm algorithm :
         {QN_ALGORITHM_GEMM, QN_ALGORITHM_IGEMM, QN_ALGORITHM_DIRECT, QN_ALGORITHM_DEPTHWISE, QN_ALGORITHM_SPARSE}) {
      const qn_status status = run(c, op, algorithm, row.name, 1, expected);
      EXPECT_TRUE(status == QN_OK || status == QN_UNSUPPORTED) << qn_last_message();
      EXPECT_TRUE(status == QN_UNSUPPORTED || row.type == KernelType::qs8c) << row.name;
      *runs += status == QN_OK;
    }
  }
}

TEST(Quantized, ConvolutionsAreExact) {
  Random random(3);
  size_t runs = 0;
  for (int round = 0; round < 300; ++round) {
    const Case drawn = draw(random);
    SCOPED_TRACE(text(drawn));
    const Convolution c(drawn, random);
    qn_operator* op = nullptr;
    ASSERT_EQ(c.create(&op), QN_OK) << qn_last_message();
    const Bytes expected = c.expected(untouched);
    for (const size_t tasks : {1, 2, 4}) {
      EXPECT_EQ(run(c, op, QN_ALGORITHM_AUTO, nullptr, tasks, expected), QN_OK) << qn_last_message();
    }
    run_rows(c, op, gemm_rows(), expected, &runs);
    run_rows(c, op, igemm_rows(), expected, &runs);
    run_rows(c, op, tapgemm_rows(), expected, &runs);
    run_rows(c, op, dwconv_rows(), expected, &runs);
    run_rows(c, op, dwconv_tile_rows(), expected, &runs);
    run_rows(c, op, spmm_rows(), expected, &runs);
    qn_operator_release(op);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(runs, 300u);
}

TEST(Quantized, MatrixProductsAreExact) {
  Random random(4);
  for (int round = 0; round < 60; ++round) {
    const size_t rows = 1 + random() % 9, in = 1 + random() % 70, out = 1 + random() % 40;
    SCOPED_TRACE(std::to_string(rows) + " " + std::to_string(in) + " " + std::to_string(out));
    Case drawn = {};
    qn_conv2d_params_init(&drawn.p);
    drawn.p.type = QN_S8;
    drawn.p.in_channels = in;
    drawn.p.out_channels = out;
    drawn.in_shape = {1, 1, rows, in};
    drawn.per_channel = drawn.bias = true;
    const Convolution c(drawn, random);  // a pointwise convolution is the same product
    qn_operator* op = nullptr;
    ASSERT_EQ(c.create(&op), QN_OK) << qn_last_message();
    EXPECT_EQ(run(c, op, QN_ALGORITHM_GEMM, nullptr, 1 + random() % 3, c.expected(untouched)), QN_OK);
    qn_operator_release(op);
  }
}

// ---- residuals

// What a convolution's bytes and a residual add up to.
struct Sum {
  Quantized addend, residual, sum;  // of equal shapes and gaps
  Bytes residual_bytes;
  float min = -std::numeric_limits<float>::infinity(), max = -min;

  Sum(const Quantized& convolution, Random& random) : addend(convolution), residual(convolution), sum(convolution) {
    residual.scale = 0.03f, residual.zero = byte(random);
    sum.scale = 0.17f, sum.zero = byte(random);
    residual_bytes.resize(residual.bytes());
    for (int8_t& x : residual_bytes) x = byte(random);
    if (random() % 2 == 0) min = 0, max = 6;
  }

  Bytes expected(Bytes bytes) const {
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (i % (sum.shape[3] + sum.gap) >= sum.shape[3]) continue;
      const float a = static_cast<float>(bytes[i] - addend.zero) * (addend.scale / sum.scale);
      const float b = static_cast<float>(residual_bytes[i] - residual.zero) * (residual.scale / sum.scale);
      bytes[i] =
          static_cast<int8_t>(std::clamp(std::nearbyint(a + b) + static_cast<float>(sum.zero), step(min), step(max)));
    }
    return bytes;
  }

 private:
  float step(float real) const {
    return std::clamp(std::nearbyint(real / sum.scale) + static_cast<float>(sum.zero), -128.0f, 127.0f);
  }
};

// Returns the plan's status. Expects the sum.
qn_status run(const Convolution& c, const Sum& s, const qn_operator* op, qn_algorithm algorithm, const char* kernel,
              size_t tasks, bool in_place, const Bytes& expected) {
  qn_plan_options options = options_of(algorithm, tasks);
  options.kernel = kernel;
  options.residual_min = s.min, options.residual_max = s.max;
  options.addend_scale = s.addend.scale, options.addend_zero_point = s.addend.zero;
  Bytes output = in_place ? s.residual_bytes : Bytes(s.sum.bytes(), untouched);
  std::string name;
  const qn_status status =
      run(op, options, {c.in().tensor(), s.residual.tensor()},
          {c.input().data(), in_place ? output.data() : s.residual_bytes.data()}, s.sum.tensor(), &output, &name);
  if (status != QN_OK) return status;
  for (size_t i = 0; i < output.size(); ++i) {
    const bool gap = i % (s.sum.shape[3] + s.sum.gap) >= s.sum.shape[3];
    EXPECT_EQ(output[i], in_place && gap ? s.residual_bytes[i] : expected[i]) << name << ", " << i;
  }
  return QN_OK;
}

TEST(Quantized, ResidualsAreAddedToTheBytesOfTheConvolution) {
  Random random(9);
  size_t runs = 0;
  for (int round = 0; round < 60; ++round) {
    const Case drawn = draw(random);
    SCOPED_TRACE(text(drawn));
    const Convolution c(drawn, random);
    Op op;
    ASSERT_EQ(c.create(&op), QN_OK) << qn_last_message();
    const Sum s(c.out(), random);
    const Bytes expected = s.expected(c.expected(untouched));
    for (const qn_algorithm algorithm :
         {QN_ALGORITHM_AUTO, QN_ALGORITHM_GEMM, QN_ALGORITHM_IGEMM, QN_ALGORITHM_DIRECT, QN_ALGORITHM_SPARSE}) {
      for (const bool in_place : {false, true}) {
        const qn_status status = run(c, s, op, algorithm, nullptr, 1 + random() % 3, in_place, expected);
        if (algorithm == QN_ALGORITHM_AUTO) {
          EXPECT_QN_OK(status);
        }
        EXPECT_TRUE(status == QN_OK || status == QN_UNSUPPORTED) << qn_last_message();
        runs += status == QN_OK;
      }
    }
    for (const TapgemmRow& row : tapgemm_rows()) {
      for (const bool in_place : {false, true})
        run(c, s, op, QN_ALGORITHM_DIRECT, row.name, 1 + random() % 3, in_place, expected);
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(runs, 200u);
}

TEST(Quantized, ResidualsNeedScales) {
  Random random(10);
  Case drawn = {};
  qn_conv2d_params_init(&drawn.p);
  drawn.p.type = QN_S8;
  drawn.p.in_channels = drawn.p.out_channels = 5;
  drawn.in_shape = {1, 3, 4, 5};
  const Convolution c(drawn, random);
  Op op;
  ASSERT_EQ(c.create(&op), QN_OK) << qn_last_message();
  Sum s(c.out(), random);
  EXPECT_QN_OK(run(c, s, op, QN_ALGORITHM_AUTO, nullptr, 1, false, s.expected(c.expected(untouched))));
  const auto plan = [&](const Sum& changed) { return run(c, changed, op, QN_ALGORITHM_AUTO, nullptr, 1, false, {}); };
  Sum other = s;
  other.residual.scale = 0;
  EXPECT_EQ(plan(other), QN_INVALID_ARGUMENT) << "no scale";
  other = s;
  other.residual.scale = 1e30f, other.sum.scale = 1e-30f;
  EXPECT_EQ(plan(other), QN_UNSUPPORTED) << "the quotient is infinite";
  for (const float scale : {-1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    other = s;
    other.addend.scale = scale;
    EXPECT_EQ(plan(other), QN_INVALID_ARGUMENT) << scale;
  }
  other = s;
  other.addend.zero = 128;
  EXPECT_EQ(plan(other), QN_INVALID_ARGUMENT);
}

// ---- conversions

size_t bytes_of(const qn_tensor& t) { return qn_tensor_bytes(&t); }

// A tensor of a row of elements after another, which lie apart.
qn_tensor row_tensor(qn_type type, size_t rows, size_t columns, size_t gap, float scale, int32_t zero) {
  const size_t shape[] = {rows, columns};
  qn_tensor t;
  EXPECT_EQ(qn_tensor_init(&t, type, 2, shape), QN_OK);
  t.stride[1] = qn_type_size(type);
  t.stride[0] = (columns + gap) * t.stride[1];
  if (type != QN_F32) t.quantization.scale = scale, t.quantization.zero_point = zero;
  return t;
}

// Runs a conversion; returns all bytes of the output, which begins as `untouched`.
std::vector<char> convert(const qn_tensor& in, const void* input, const qn_tensor& out, size_t tasks) {
  qn_quantize_params p;
  qn_quantize_params_init(&p);
  p.type = in.type;
  p.to = out.type;
  qn_operator* op = nullptr;
  EXPECT_EQ(qn_quantize_create(&p, &op), QN_OK) << qn_last_message();
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.tasks = tasks;
  qn_plan* plan = nullptr;
  EXPECT_EQ(qn_operator_plan(op, &in, 1, &out, 1, &options, &plan), QN_OK) << qn_last_message();
  std::vector<char> output(bytes_of(out), untouched);
  const void* const inputs[] = {input};
  void* const outputs[] = {output.data()};
  EXPECT_EQ(qn_plan_run(plan, inputs, outputs, nullptr, 0, nullptr), QN_OK) << qn_last_message();
  qn_plan_release(plan);
  qn_operator_release(op);
  return output;
}

int value_of(qn_type type, char byte) { return type == QN_U8 ? static_cast<uint8_t>(byte) : static_cast<int8_t>(byte); }
int limited(double steps, qn_type type) {
  const int low = type == QN_U8 ? 0 : -128;
  return std::isnan(steps) ? low : static_cast<int>(std::clamp<double>(steps, low, low + 255));
}

// An operator of floats gives the same bits as with weights that were made real numbers before.
TEST(Quantized, BytesAsWeightsOfFloats) {
  for (const auto& [groups, kernel, channels] :
       {std::tuple{1u, 1u, 20u}, {1u, 3u, 20u}, {20u, 3u, 20u}, {4u, 2u, 12u}}) {
    SCOPED_TRACE(std::to_string(groups) + " groups, kernel " + std::to_string(kernel));
    const size_t out = 2 * channels, depth = kernel * kernel * channels / groups;
    Random random(5);
    Bytes bytes(out * depth);
    for (int8_t& x : bytes) x = byte(random);
    const std::vector<float> scales = reals(out, 6, 0.01f, 0.02f), bias = reals(out, 7);
    std::vector<float> real(bytes.size());
    for (size_t i = 0; i < real.size(); ++i) real[i] = static_cast<float>(bytes[i]) * scales[i / depth];
    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.in_channels = channels, p.out_channels = out, p.groups = groups, p.kernel = {kernel, kernel};
    qn_weights weights;
    qn_weights_init(&weights);
    weights.data = real.data();
    Op of_floats, of_bytes;
    ASSERT_QN_OK(qn_conv2d_create(&p, &weights, bias.data(), nullptr, &of_floats));
    weights.type = QN_S8, weights.data = bytes.data(), weights.scales = scales.data(), weights.scale_count = out;
    ASSERT_QN_OK(qn_conv2d_create(&p, &weights, bias.data(), nullptr, &of_bytes));
    const Shape shape = {2, 6, 7, channels};
    const std::vector<float> x = reals(count_of(shape), 8);
    const Result expected = run(of_floats, {{shape, x}}), actual = run(of_bytes, {{shape, x}});
    ASSERT_EQ(actual.status, QN_OK) << actual.message;
    EXPECT_EQ(actual.kernel, expected.kernel);
    EXPECT_TRUE(same_bits(actual.values, expected.values));
  }
}

TEST(Quantized, ConvertsFloats) {
  Random random(6);
  constexpr float inf = std::numeric_limits<float>::infinity();
  const float special[] = {0, -0.0f, inf, -inf, std::nanf(""), 1e30f, -1e30f, 1e-40f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f};
  for (const qn_type type : {QN_S8, QN_U8}) {
    for (const size_t columns : {1, 13, 300, 40000}) {
      const float scale = columns == 13 ? 1 : 0.037f;
      const int32_t zero = type == QN_U8 ? 128 : -3;
      const qn_tensor in = row_tensor(QN_F32, 3, columns, 2, 0, 0), out = row_tensor(type, 3, columns, 1, scale, zero);
      std::vector<float> x(bytes_of(in) / sizeof(float));
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = i < std::size(special) ? special[i] : static_cast<float>(random() % 4001) * 0.005f - 10;
      }
      for (const size_t tasks : {1, 3}) {
        const std::vector<char> y = convert(in, x.data(), out, tasks);
        for (size_t i = 0; i < y.size(); ++i) {
          const size_t row = i / (columns + 1), column = i % (columns + 1);
          const double steps = std::nearbyint(double{x[row * (columns + 2) + column] / scale}) + zero;
          const int expected = column == columns ? untouched : limited(steps, type);
          ASSERT_EQ(value_of(type, y[i]), expected) << i << ": " << x[row * (columns + 2) + column];
        }
      }
      const qn_tensor back = row_tensor(QN_F32, 3, columns, 0, 0, 0);
      const std::vector<char> y = convert(in, x.data(), out, 1), z = convert(out, y.data(), back, 2);
      for (size_t i = 0; i < 3 * columns; ++i) {
        float real;
        std::memcpy(&real, &z[i * sizeof real], sizeof real);
        ASSERT_EQ(real,
                  static_cast<float>(value_of(type, y[i / columns * (columns + 1) + i % columns]) - zero) * scale);
      }
    }
  }
}

TEST(Quantized, ConvertsBetweenQuantizations) {
  std::vector<char> x(256);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<char>(i);
  for (const qn_type from : {QN_S8, QN_U8}) {
    for (const qn_type to : {QN_S8, QN_U8}) {
      for (const float scale : {0.01f, 0.05f, 0.4f}) {
        const qn_tensor in = row_tensor(from, 1, 256, 0, 0.05f, 7), out = row_tensor(to, 1, 256, 0, scale, 11);
        const std::vector<char> y = convert(in, x.data(), out, 1);
        for (size_t i = 0; i < x.size(); ++i) {
          const float steps = static_cast<float>(value_of(from, x[i]) - 7) * 0.05f / scale;
          EXPECT_EQ(value_of(to, y[i]), limited(std::nearbyint(double{steps}) + 11, to)) << i;
        }
      }
    }
  }
}

TEST(Quantized, ConversionsAreChecked) {
  qn_operator* op = nullptr;
  qn_quantize_params p;
  qn_quantize_params_init(&p);
  p.to = QN_F32;
  EXPECT_EQ(qn_quantize_create(&p, &op), QN_INVALID_ARGUMENT);
  p.to = QN_S32;
  EXPECT_EQ(qn_quantize_create(&p, &op), QN_UNSUPPORTED);
  p.to = QN_S8;
  ASSERT_EQ(qn_quantize_create(&p, &op), QN_OK);
  const qn_tensor in = row_tensor(QN_F32, 2, 2, 0, 0, 0), good = row_tensor(QN_S8, 2, 2, 0, 1, 0);
  qn_plan* plan = nullptr;
  for (qn_tensor bad : {good, row_tensor(QN_U8, 2, 2, 0, 1, 0), row_tensor(QN_S8, 2, 3, 0, 1, 0)}) {
    if (bad.type == QN_S8 && bad.shape[1] == 2) bad.quantization = {};
    EXPECT_NE(qn_operator_plan(op, &in, 1, &bad, 1, nullptr, &plan), QN_OK);
  }
  EXPECT_NE(qn_operator_plan(op, &in, 1, nullptr, 0, nullptr, &plan), QN_OK);
  qn_operator_release(op);
}

TEST(Quantized, RefusesTensorsWithoutAScale) {
  Random random(5);
  Case drawn = draw(random);
  const Convolution c(drawn, random);
  qn_operator* op = nullptr;
  ASSERT_EQ(c.create(&op), QN_OK) << qn_last_message();
  const auto refused = [&](const char* words, const qn_tensor& in, const qn_tensor* out) {
    qn_plan* plan = nullptr;
    EXPECT_NE(qn_operator_plan(op, &in, 1, out, out == nullptr ? 0 : 1, nullptr, &plan), QN_OK);
    EXPECT_NE(std::string(qn_last_message()).find(words), std::string::npos) << qn_last_message();
  };
  const qn_tensor in = c.in().tensor(), out = c.out().tensor();
  qn_tensor bare = in;
  bare.quantization = {};
  refused("the input has no single scale", bare, &out);
  bare = out;
  bare.quantization = {};
  refused("the output has no single scale", in, &bare);
  refused("the output has no single scale", in, nullptr);
  bare = out;
  bare.quantization.scale = 1e-38f;
  qn_tensor other = in;
  other.quantization.scale = 1e30f;
  refused("too far apart", other, &bare);
  // A quotient of scales that underflows is no fault.
  other.quantization.scale = 1e-30f;
  bare.quantization.scale = 1e30f;
  qn_plan* plan = nullptr;
  EXPECT_QN_OK(qn_operator_plan(op, &other, 1, &bare, 1, nullptr, &plan));
  qn_plan_release(plan);
  qn_operator_release(op);
}

}  // namespace quantized_test
}  // namespace quern::test
