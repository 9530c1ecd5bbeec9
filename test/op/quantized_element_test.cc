// Elementwise operators, pooling and resizing of bytes against formulas in double precision, over odd shapes. Scales are
// powers of two, so that the formulas are exact and halves are halves.
#include <quern/quern.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "base/memory.h"
#include "harness.h"

namespace quern::test {
namespace quantized_element_test {

using Bytes = std::vector<int8_t>;

// How bytes stand for real numbers.
struct Steps {
  double scale;
  int zero;
  double real(int8_t step) const { return scale * (step - zero); }
  int8_t step(double x, double min = -1e30, double max = 1e30) const {
    return static_cast<int8_t>(limited(std::clamp(std::nearbyint(x / scale), limited_steps(min), limited_steps(max))));
  }

 private:
  double limited_steps(double bound) const { return std::nearbyint(std::clamp(bound / scale, -1000.0, 1000.0)); }
  double limited(double steps) const { return std::clamp(steps + zero, -128.0, 127.0); }
};

qn_tensor tensor_of(const Shape& shape, const Steps& steps, qn_type type = QN_S8) {
  qn_tensor t;
  EXPECT_EQ(QN_OK, qn_tensor_init(&t, type, static_cast<uint32_t>(shape.size()), shape.data()));
  t.quantization.scale = static_cast<float>(steps.scale);
  t.quantization.zero_point = steps.zero;
  return t;
}

size_t elements(const Shape& shape) {
  size_t count = 1;
  for (const size_t d : shape) count *= d;
  return count;
}

class Drawn {
 public:
  explicit Drawn(uint32_t seed) : random_(seed) {}
  Bytes bytes(size_t count) {
    Bytes list(count);
    for (int8_t& x : list) x = static_cast<int8_t>(random_());
    return list;
  }
  size_t below(size_t n) { return random_() % n; }

 private:
  std::mt19937 random_;
};

template <class Params>
class Made : public Op {
 public:
  Made(qn_status (*create)(const Params*, qn_operator**), const Params& p) {
    EXPECT_EQ(QN_OK, create(&p, &handle)) << qn_last_message();
  }
};

// Plans and runs for one thread and for several; the results must be equal. Poisons what is not written.
Bytes run(const qn_operator* op, const std::vector<qn_tensor>& ins, const std::vector<const void*>& buffers,
          const qn_tensor& out, const char* kernel = nullptr) {
  Bytes first;
  for (const size_t tasks : {1, 3}) {
    qn_plan_options options;
    qn_plan_options_init(&options);
    options.tasks = tasks;
    options.kernel = kernel;
    qn_plan* plan = nullptr;
    EXPECT_EQ(QN_OK, qn_operator_plan(op, ins.data(), ins.size(), &out, 1, &options, &plan)) << qn_last_message();
    if (plan == nullptr) return {};
    Bytes y(qn_tensor_bytes(&out), 0x55);
    void* outputs[] = {y.data()};
    const Buffer workspace(qn_plan_workspace_size(plan));
    EXPECT_EQ(QN_OK, qn_plan_run(plan, buffers.data(), outputs, workspace.data(), workspace.size(), nullptr));
    qn_plan_release(plan);
    if (tasks == 1) first = y;
    EXPECT_EQ(y, first);
  }
  return first;
}

// ---- binary

struct Broadcast {
  Shape a, b, out;
};
const Broadcast broadcasts[] = {
    {{2, 3, 5, 7}, {2, 3, 5, 7}, {2, 3, 5, 7}},
    {{1, 4, 4, 33}, {1}, {1, 4, 4, 33}},
    {{1}, {67}, {67}},
    {{3, 1, 5}, {4, 1}, {3, 4, 5}},
    {{19}, {2, 19}, {2, 19}},
    {{}, {}, {}},
    {{300, 100}, {300, 1}, {300, 100}},
};

TEST(QuantizedElement, Binary) {
  Drawn drawn(1);
  const Steps a = {0.5, -3}, b = {0.25, 11}, out = {1, 5};
  const std::function<double(double, double)> functions[] = {[](double x, double y) { return x + y; },
                                                             [](double x, double y) { return x - y; },
                                                             [](double x, double y) { return x * y; }};
  for (const qn_binary_kind kind : {QN_ADD, QN_SUB, QN_MUL}) {
    for (const Broadcast& shape : broadcasts) {
      qn_binary_params p;
      qn_binary_params_init(&p);
      p.type = QN_S8;
      p.kind = kind;
      if (drawn.below(2) == 0) p.min = -20, p.max = 40;
      const Made op(qn_binary_create, p);
      const qn_tensor ins[] = {tensor_of(shape.a, a), tensor_of(shape.b, b)}, result = tensor_of(shape.out, out);
      const Bytes x = drawn.bytes(elements(shape.a)), y = drawn.bytes(elements(shape.b));
      const Bytes got = run(op, {ins[0], ins[1]}, {x.data(), y.data()}, result);
      ASSERT_EQ(got.size(), elements(shape.out));
      const auto at = [](const Shape& in, const Shape& of, size_t i) {  // the element that belongs to element i
        size_t index = 0, stride = 1;
        for (size_t d = of.size(); d-- > 0; i /= of[d]) {
          const size_t missing = of.size() - in.size();
          if (d < missing) continue;
          if (in[d - missing] != 1) index += i % of[d] * stride;
          stride *= in[d - missing];
        }
        return index;
      };
      for (size_t i = 0; i < got.size(); ++i) {
        const double real = functions[kind](a.real(x[at(shape.a, shape.out, i)]), b.real(y[at(shape.b, shape.out, i)]));
        ASSERT_EQ(got[i], out.step(real, double{p.min}, double{p.max})) << "kind " << kind << ", element " << i;
      }
    }
  }
}

TEST(QuantizedElement, OutputsMayReplaceInputs) {
  Drawn drawn(2);
  qn_binary_params p;
  qn_binary_params_init(&p);
  p.type = QN_S8;
  const Made op(qn_binary_create, p);
  const qn_tensor ins[] = {tensor_of({5, 77}, {0.5, 1}), tensor_of({5, 77}, {0.25, 0})};
  const qn_tensor out = tensor_of({5, 77}, {1, -9});
  Bytes x = drawn.bytes(385);
  const Bytes y = drawn.bytes(385), expected = run(op, {ins[0], ins[1]}, {x.data(), y.data()}, out);
  qn_plan* plan = nullptr;
  ASSERT_EQ(QN_OK, qn_operator_plan(op, ins, 2, &out, 1, nullptr, &plan));
  const void* inputs[] = {x.data(), y.data()};
  void* outputs[] = {x.data()};
  EXPECT_EQ(QN_OK, qn_plan_run(plan, inputs, outputs, nullptr, 0, nullptr)) << qn_last_message();
  qn_plan_release(plan);
  EXPECT_EQ(x, expected);
}

// ---- unary

TEST(QuantizedElement, Unary) {
  const Steps in = {0.0625, 3};
  const struct {
    qn_unary_kind kind;
    float alpha, beta, gamma;
    std::function<double(double)> function;
    Steps out;
  } cases[] = {
      {QN_CLAMP, 0, 6, 1, [](double x) { return std::clamp(x, 0.0, 6.0); }, {0.03125, -128}},
      {QN_SIGMOID, 0, 0, 1, [](double x) { return 1 / (1 + std::exp(-x)); }, {0.00390625, -128}},
      {QN_TANH, 0, 0, 1, [](double x) { return std::tanh(x); }, {0.0078125, 0}},
      {QN_HARD_SWISH, 0, 0, 1, [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }, {0.0625, -100}},
      {QN_EXP, 0, 0, 1, [](double x) { return std::exp(x); }, {0.125, -128}},
      {QN_POWER, 2, 1, 2, [](double x) { return (2 * x + 1) * (2 * x + 1); }, {0.5, -128}},
      {QN_POWER, 1, 0, -1, [](double x) { return 1 / x; }, {0.125, 0}},
  };
  Shape shape = {2, 5, 64};
  Bytes x(elements(shape));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int8_t>(i);
  for (const auto& c : cases) {
    qn_unary_params p;
    qn_unary_params_init(&p);
    p.type = QN_S8;
    p.kind = c.kind, p.alpha = c.alpha, p.beta = c.beta, p.gamma = c.gamma;
    const Made op(qn_unary_create, p);
    const Bytes got = run(op, {tensor_of(shape, in)}, {x.data()}, tensor_of(shape, c.out));
    ASSERT_EQ(got.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const double real = c.function(in.real(x[i]));
      if (std::abs(real / c.out.scale - std::floor(real / c.out.scale) - 0.5) < 1e-5 && c.kind != QN_CLAMP) continue;
      ASSERT_EQ(got[i], c.out.step(std::isinf(real) ? 1e20 : real)) << "kind " << c.kind << ", byte " << int{x[i]};
    }
  }
}

// ---- softmax

// Probabilities that differ from the exact ones by half a step and by what single precision leaves of halves.
TEST(QuantizedElement, Softmax) {
  Drawn drawn(6);
  const Steps out = {1.0 / 256, -128};
  for (const Steps& in : {Steps{0.0625, 3}, Steps{0.5, -100}, Steps{1e-3, 0}}) {
    for (const Shape& shape : {Shape{1}, Shape{2, 1000}, Shape{3, 5, 7}, Shape{1, 4, 17, 21}}) {
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        qn_softmax_params p;
        qn_softmax_params_init(&p);
        p.type = QN_S8;
        p.axis = static_cast<int>(axis);
        const Made op(qn_softmax_create, p);
        const Bytes x = drawn.bytes(elements(shape));
        const Bytes got = run(op, {tensor_of(shape, in)}, {x.data()}, tensor_of(shape, out));
        ASSERT_EQ(got.size(), x.size());
        size_t inner = 1;
        for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
        for (size_t i = 0; i < x.size(); ++i) {
          const size_t first = i / (inner * shape[axis]) * (inner * shape[axis]) + i % inner;
          double sum = 0;
          for (size_t j = 0; j < shape[axis]; ++j) sum += std::exp(in.real(x[first + j * inner]) - in.real(x[i]));
          const double expected = std::min(1 / sum / out.scale + out.zero, 127.0);
          ASSERT_NEAR(got[i], expected, 0.5 + 1e-4) << i;
        }
      }
    }
  }
}

TEST(QuantizedElement, SoftmaxHasNoKernels) {
  qn_softmax_params p;
  qn_softmax_params_init(&p);
  p.type = QN_S8;
  const Made op(qn_softmax_create, p);
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.kernel = "qn_vexpsum_f32_ref";
  const qn_tensor t = tensor_of({2, 3}, {1, 0});
  qn_plan* plan = nullptr;
  EXPECT_EQ(qn_operator_plan(op, &t, 1, &t, 1, &options, &plan), QN_UNSUPPORTED);
}

// ---- pooling

struct PoolCase {
  qn_pool_kind kind;
  Shape in;
  qn_hw kernel, stride, dilation;
  qn_padding padding;
  int global, count_padding, ceil_mode;
};

TEST(QuantizedElement, Pool) {
  Drawn drawn(3);
  for (int round = 0; round < 120; ++round) {
    PoolCase c = {};
    c.kind = round % 2 == 0 ? QN_POOL_MAX : QN_POOL_AVERAGE;
    c.in = {1 + drawn.below(2), 5 + drawn.below(6), 5 + drawn.below(6), 1 + drawn.below(70)};
    c.kernel = {1 + drawn.below(3), 1 + drawn.below(3)};
    c.stride = {1 + drawn.below(2), 1 + drawn.below(2)};
    c.dilation = {1 + drawn.below(2), 1 + drawn.below(2)};
    const auto padding = [&](size_t kernel, size_t dilation) { return drawn.below((kernel - 1) * dilation + 1); };
    c.padding = {padding(c.kernel.h, c.dilation.h), padding(c.kernel.w, c.dilation.w),
                 padding(c.kernel.h, c.dilation.h), padding(c.kernel.w, c.dilation.w)};
    c.global = drawn.below(4) == 0;
    c.count_padding = drawn.below(2) == 0;
    qn_pool2d_params p;
    qn_pool2d_params_init(&p);
    p.type = QN_S8;
    p.kind = c.kind, p.kernel = c.kernel, p.stride = c.stride, p.dilation = c.dilation, p.padding = c.padding;
    p.global = c.global, p.count_padding = c.count_padding;
    if (drawn.below(2) == 0) p.min = -3, p.max = 6;
    const Steps in = {0.25, -7}, out = c.kind == QN_POOL_MAX ? in : Steps{0.125, 20};
    const Made op(qn_pool2d_create, p);
    const Bytes x = drawn.bytes(elements(c.in));
    const auto size = [&](size_t length, size_t kernel, size_t stride, size_t dilation, size_t pad) {
      return c.global ? 1 : (length + pad - ((kernel - 1) * dilation + 1)) / stride + 1;
    };
    const auto& [top, left, bottom, right] = c.padding;
    const Shape shape = {c.in[0], size(c.in[1], c.kernel.h, c.stride.h, c.dilation.h, top + bottom),
                         size(c.in[2], c.kernel.w, c.stride.w, c.dilation.w, left + right), c.in[3]};
    const Bytes got = run(op, {tensor_of(c.in, in)}, {x.data()}, tensor_of(shape, out));
    ASSERT_EQ(got.size(), elements(shape));
    if (c.global) c.kernel = {c.in[1], c.in[2]}, c.stride = c.dilation = {1, 1}, c.padding = {};
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t channel = i % shape[3], px = i / shape[3] % shape[2], py = i / shape[3] / shape[2] % shape[1];
      const size_t image = i / shape[3] / shape[2] / shape[1];
      int sum = 0, most = -128, inside = 0;
      for (size_t ky = 0; ky < c.kernel.h; ++ky) {
        for (size_t kx = 0; kx < c.kernel.w; ++kx) {
          const size_t y = py * c.stride.h + ky * c.dilation.h - c.padding.top;
          const size_t xx = px * c.stride.w + kx * c.dilation.w - c.padding.left;
          if (y >= c.in[1] || xx >= c.in[2]) continue;
          const int8_t value = x[((image * c.in[1] + y) * c.in[2] + xx) * c.in[3] + channel];
          ++inside, sum += value - in.zero, most = std::max(most, int{value});
        }
      }
      const int counted = c.count_padding && !c.global ? static_cast<int>(c.kernel.h * c.kernel.w) : inside;
      const auto scale = static_cast<float>(in.scale) / (static_cast<float>(out.scale) * static_cast<float>(counted));
      const double real = c.kind == QN_POOL_MAX ? in.real(static_cast<int8_t>(most))
                          : counted == 0        ? 0
                                                : double{static_cast<float>(sum) * scale} * out.scale;
      ASSERT_EQ(got[i], out.step(real, double{p.min}, double{p.max})) << "round " << round << ", element " << i;
    }
  }
}

// TensorFlow Lite's averages: of bytes with a sign or without, halves away from 0.
int8_t average_of_bytes(qn_pool_rounding rounding, int sum, int count) {
  const int offset = rounding == QN_POOL_ROUND_U8 ? 128 : 0, shifted = sum + offset * count;
  const int rounded = (shifted > 0 ? shifted + count / 2 : shifted - count / 2) / count;
  return static_cast<int8_t>(rounded - offset);
}

qn_pool2d_params average(qn_pool_rounding rounding) {
  qn_pool2d_params p;
  qn_pool2d_params_init(&p);
  p.type = QN_S8;
  p.kind = QN_POOL_AVERAGE;
  p.rounding = rounding;
  return p;
}

// Every sum that windows of these numbers of pixels can have, or, of large windows, those near each half: a channel has
// one sum.
TEST(QuantizedElement, AveragesOfBytesHaveEverySum) {
  for (const qn_pool_rounding rounding : {QN_POOL_ROUND_S8, QN_POOL_ROUND_U8}) {
    for (const auto& [height, width] : {std::pair<size_t, size_t>{1, 1},
                                        {1, 2},
                                        {2, 2},
                                        {3, 3},
                                        {2, 5},
                                        {7, 7},
                                        {6, 6},
                                        {16, 16},
                                        {32, 64},
                                        {63, 65},
                                        {64, 64}}) {
      const int count = static_cast<int>(height * width);
      std::vector<int> sums;
      for (int half = -128 * 2; half <= 127 * 2; ++half) {  // halves of steps
        for (int near = -1; near <= 1; ++near) {
          const int sum = half * count / 2 + near;
          if (sum >= -128 * count && sum <= 127 * count) sums.push_back(sum);
        }
      }
      if (count < 40) {
        sums.clear();
        for (int sum = -128 * count; sum <= 127 * count; ++sum) sums.push_back(sum);
      }
      const size_t channels = sums.size();
      Bytes x(height * width * channels);
      for (size_t c = 0; c < channels; ++c) {
        int left = sums[c];
        for (int i = 0; i < count; ++i) {
          const auto share = static_cast<int>(std::floor(double(left) / (count - i)));
          x[static_cast<size_t>(i) * channels + c] = static_cast<int8_t>(share);
          left -= share;
        }
      }
      qn_pool2d_params p = average(rounding);
      p.global = 1;
      const Steps steps = {0.3, 17};
      const Made op(qn_pool2d_create, p);
      const Bytes got =
          run(op, {tensor_of({1, height, width, channels}, steps)}, {x.data()}, tensor_of({1, 1, 1, channels}, steps));
      ASSERT_EQ(got.size(), channels);
      for (size_t c = 0; c < channels; ++c) {
        ASSERT_EQ(got[c], average_of_bytes(rounding, sums[c], count)) << sums[c] << " / " << count << ", " << rounding;
      }
    }
  }
}

// Windows at the edges average the pixels inside the image alone; bounds are real numbers.
TEST(QuantizedElement, AveragesOfBytesInWindows) {
  Drawn drawn(7);
  for (int round = 0; round < 80; ++round) {
    const qn_pool_rounding rounding = round % 2 == 0 ? QN_POOL_ROUND_S8 : QN_POOL_ROUND_U8;
    const Shape in = {1 + drawn.below(2), 4 + drawn.below(6), 4 + drawn.below(6), 1 + drawn.below(70)};
    qn_pool2d_params p = average(rounding);
    p.kernel = {1 + drawn.below(3), 1 + drawn.below(3)};
    p.stride = {1 + drawn.below(2), 1 + drawn.below(2)};
    p.padding = {drawn.below(p.kernel.h), drawn.below(p.kernel.w), drawn.below(p.kernel.h), drawn.below(p.kernel.w)};
    if (drawn.below(2) == 0) p.min = -3, p.max = 6;
    const Steps steps = {0.25, static_cast<int>(drawn.below(256)) - 128};
    const Made op(qn_pool2d_create, p);
    const Bytes x = drawn.bytes(elements(in));
    const Shape out = {in[0], (in[1] + p.padding.top + p.padding.bottom - p.kernel.h) / p.stride.h + 1,
                       (in[2] + p.padding.left + p.padding.right - p.kernel.w) / p.stride.w + 1, in[3]};
    const Bytes got = run(op, {tensor_of(in, steps)}, {x.data()}, tensor_of(out, steps));
    ASSERT_EQ(got.size(), elements(out));
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t px = i / out[3] % out[2], py = i / out[3] / out[2] % out[1], image = i / out[3] / out[2] / out[1];
      int sum = 0, count = 0;
      for (size_t k = 0; k < p.kernel.h * p.kernel.w; ++k) {
        const size_t row = py * p.stride.h + k / p.kernel.w - p.padding.top;
        const size_t column = px * p.stride.w + k % p.kernel.w - p.padding.left;
        if (row >= in[1] || column >= in[2]) continue;
        sum += x[((image * in[1] + row) * in[2] + column) * in[3] + i % out[3]], ++count;
      }
      const double real = steps.real(average_of_bytes(rounding, sum, count));
      ASSERT_EQ(got[i], steps.step(real, double{p.min}, double{p.max})) << "round " << round << ", element " << i;
    }
  }
}

// ---- resizing

TEST(QuantizedElement, ResizeNearest) {
  Drawn drawn(4);
  qn_resize2d_params p;
  qn_resize2d_params_init(&p);
  p.type = QN_S8;
  p.size = {6, 10};
  p.coordinates = QN_COORDINATES_ASYMMETRIC;
  p.rounding = QN_ROUND_FLOOR;
  const Made op(qn_resize2d_create, p);
  const Bytes x = drawn.bytes(3 * 5 * 7);
  const qn_tensor in = tensor_of({1, 3, 5, 7}, {0.5, 3}), out = tensor_of({1, 6, 10, 7}, {0.5, 3});
  const Bytes got = run(op, {in}, {x.data()}, out);
  ASSERT_EQ(got.size(), 420u);
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], x[(i / 70 / 2 * 5 + i / 7 % 10 / 2) * 7 + i % 7]) << i;
  }
}

// ---- what is refused

template <class Params>
void refused(const char* words, qn_status status, qn_status (*create)(const Params*, qn_operator**), const Params& p) {
  qn_operator* op = nullptr;
  EXPECT_EQ(status, create(&p, &op));
  EXPECT_NE(std::string(qn_last_message()).find(words), std::string::npos) << qn_last_message();
}

TEST(QuantizedElement, RefusesWhatHasNoKernel) {
  qn_binary_params divide;
  qn_binary_params_init(&divide);
  divide.type = QN_S8;
  divide.kind = QN_DIV;
  refused("QN_DIV of QN_S8", QN_UNSUPPORTED, qn_binary_create, divide);
  divide.type = QN_U8;
  refused("only QN_F32 and QN_S8", QN_UNSUPPORTED, qn_binary_create, divide);
  qn_unary_params power;
  qn_unary_params_init(&power);
  power.type = QN_S8;
  power.kind = QN_POWER;
  power.gamma = 3;
  refused("with the exponent 3", QN_UNSUPPORTED, qn_unary_create, power);
  qn_resize2d_params linear;
  qn_resize2d_params_init(&linear);
  linear.type = QN_S8;
  linear.kind = QN_RESIZE_BILINEAR;
  refused("QN_RESIZE_BILINEAR", QN_UNSUPPORTED, qn_resize2d_create, linear);
}

TEST(QuantizedElement, RefusesScales) {
  const auto refuse = [](const char* words, const qn_operator* op, const std::vector<qn_tensor>& ins, qn_tensor out) {
    qn_plan* plan = nullptr;
    EXPECT_NE(qn_operator_plan(op, ins.data(), ins.size(), &out, 1, nullptr, &plan), QN_OK);
    EXPECT_NE(std::string(qn_last_message()).find(words), std::string::npos) << qn_last_message();
  };
  const qn_tensor good = tensor_of({1, 4, 4, 3}, {0.5, 3}), other = tensor_of({1, 4, 4, 3}, {0.5, 4});
  qn_tensor bare = good, tiny = good;
  bare.quantization = {};
  tiny.quantization.scale = 1e-38f;
  qn_tensor huge = good;
  huge.quantization.scale = 1e30f;
  qn_binary_params add;
  qn_binary_params_init(&add);
  add.type = QN_S8;
  const Made sum(qn_binary_create, add);
  refuse("the input has no single scale", sum, {good, bare}, good);
  refuse("the output has no single scale", sum, {good, good}, bare);
  refuse("too far apart", sum, {good, huge}, tiny);
  qn_unary_params relu;
  qn_unary_params_init(&relu);
  relu.type = QN_S8;
  refuse("the input has no single scale", Made(qn_unary_create, relu), {bare}, good);
  qn_pool2d_params pool;
  qn_pool2d_params_init(&pool);
  pool.type = QN_S8;
  refuse("different scales or zero points", Made(qn_pool2d_create, pool), {good}, other);
  pool.kind = QN_POOL_AVERAGE;
  refuse("too far apart", Made(qn_pool2d_create, pool), {huge}, tiny);
  pool.rounding = QN_POOL_ROUND_S8;
  refuse("different scales or zero points", Made(qn_pool2d_create, pool), {good}, other);
}

}  // namespace quantized_element_test
}  // namespace quern::test
