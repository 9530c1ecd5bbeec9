// Binary, unary and per-channel operators against naive references.
#include "kernel/eltwise.h"

#include <cmath>
#include <limits>

#include "harness.h"

namespace quern::test {
namespace eltwise_test {

float apply(qn_binary_kind kind, float a, float b) {
  switch (kind) {
    case QN_ADD: return a + b;
    case QN_SUB: return a - b;
    case QN_MUL: return a * b;
    case QN_DIV: return a / b;
  }
  return 0;
}

float clamp_value(float v, float min, float max) { return v < min ? min : v > max ? max : v; }

// NumPy's rule, element by element.
struct Broadcast {
  Shape shape;
  std::vector<size_t> a, b;  // which element of each input an output takes
};

Broadcast broadcast(const Shape& a, const Shape& b) {
  Broadcast result;
  const size_t rank = std::max(a.size(), b.size());
  const auto size = [&](const Shape& s, size_t i) { return i + s.size() < rank ? 1 : s[i + s.size() - rank]; };
  for (size_t i = 0; i < rank; ++i) result.shape.push_back(std::max(size(a, i), size(b, i)));
  for (size_t i = 0; i < count_of(result.shape); ++i) {
    size_t rest = i, at_a = 0, at_b = 0, step_a = 1, step_b = 1;
    for (size_t d = rank; d-- > 0;) {
      const size_t at = rest % result.shape[d];
      rest /= result.shape[d];
      at_a += size(a, d) == 1 ? 0 : at * step_a;
      at_b += size(b, d) == 1 ? 0 : at * step_b;
      step_a *= size(a, d);
      step_b *= size(b, d);
    }
    result.a.push_back(at_a);
    result.b.push_back(at_b);
  }
  return result;
}

TEST(Binary, BroadcastsAsNumPy) {
  const std::pair<Shape, Shape> cases[] = {
      {{2, 3, 4, 5}, {2, 3, 4, 5}},
      {{7}, {7}},
      {{3, 5}, {1}},
      {{1}, {3, 5}},
      {{}, {4, 3}},
      {{4, 3}, {}},
      {{}, {}},
      {{2, 5, 6, 17}, {17}},
      {{17}, {2, 5, 6, 17}},
      {{2, 1, 1, 9}, {2, 4, 5, 9}},
      {{2, 4, 5, 1}, {2, 4, 5, 9}},
      {{4, 1, 5}, {1, 3, 1}},
      {{3, 1}, {1, 4}},
      {{1, 1, 1, 1, 1, 1}, {2, 1, 3, 1, 2, 1}},
      {{6, 1, 67}, {1, 5, 1}},
  };
  for (const auto& [a, b] : cases) {
    const Broadcast map = broadcast(a, b);
    const std::vector<float> x = reals(count_of(a), 1), y = reals(count_of(b), 2, 0.5f, 2);
    for (const qn_binary_kind kind : {QN_ADD, QN_SUB, QN_MUL, QN_DIV}) {
      qn_binary_params p;
      qn_binary_params_init(&p);
      p.kind = kind;
      p.min = -0.75f;
      p.max = 1.25f;
      Op op;
      ASSERT_QN_OK(qn_binary_create(&p, &op));
      std::vector<float> expected;
      for (size_t i = 0; i < map.a.size(); ++i) {
        expected.push_back(clamp_value(apply(kind, x[map.a[i]], y[map.b[i]]), p.min, p.max));
      }
      for (const size_t gap : {0, 2}) {
        const Result r = run(op, {{a, x}, {b, y}}, {.in_gap = gap, .out_gap = gap});
        ASSERT_EQ(r.status, QN_OK) << r.message;
        EXPECT_EQ(r.shape, map.shape);
        EXPECT_TRUE(same_bits(r.values, expected)) << "case " << &a - &cases[0].first << " kind " << kind;
      }
      for (const BinaryRow& row : binary_rows()) {
        if (!runs_on(row, cpu().isa)) continue;
        const Result r = run(op, {{a, x}, {b, y}}, {.kernel = row.name});
        EXPECT_TRUE(r.status != QN_OK || same_bits(r.values, expected)) << row.name;
      }
    }
  }
}

// Elementwise operators do not care where elements lie, as long as it is the same place in all tensors.
TEST(Elementwise, PixelBlocked) {
  const Shape shape = {2, 9, 11, 7};
  const std::vector<float> x = reals(count_of(shape), 1, -6, 6), y = reals(count_of(shape), 2, 1, 2);
  qn_binary_params b;
  qn_binary_params_init(&b);
  b.kind = QN_MUL;
  qn_unary_params u;
  qn_unary_params_init(&u);
  u.kind = QN_SIGMOID;
  Op binary, unary;
  ASSERT_QN_OK(qn_binary_create(&b, &binary));
  ASSERT_QN_OK(qn_unary_create(&u, &unary));
  constexpr qn_layout blocked = QN_LAYOUT_PIXEL_BLOCKED;
  for (const size_t tasks : {1, 3}) {
    for (const size_t gap : {0, 5}) {
      const Options options = {
          .tasks = tasks, .in_gap = gap, .out_gap = gap, .in_layout = blocked, .out_layout = blocked};
      EXPECT_TRUE(same_bits(run(binary, {{shape, x}, {shape, y}}).values,
                            run(binary, {{shape, x}, {shape, y}}, options).values));
      EXPECT_TRUE(same_bits(run(unary, {{shape, x}}).values, run(unary, {{shape, x}}, options).values));
    }
  }
  EXPECT_EQ(run(unary, {{shape, x}}, {.in_layout = blocked}).status, QN_UNSUPPORTED);
  const Shape channels = {1, 1, 1, 7};
  EXPECT_EQ(run(binary, {{shape, x}, {channels, reals(7, 3)}}, {.in_layout = blocked, .out_layout = blocked}).status,
            QN_UNSUPPORTED);
}

TEST(Binary, EveryRowIsReached) {
  // Both vectors; a scalar on the right; a scalar on the left.
  const std::pair<Shape, Shape> forms[] = {{{33}, {33}}, {{33}, {1}}, {{1}, {33}}};
  for (const BinaryRow& row : binary_rows()) {
    if (!runs_on(row, cpu().isa) || row.type != KernelType::f32) continue;
    bool reached = false;
    for (const qn_binary_kind kind : {QN_ADD, QN_SUB, QN_MUL, QN_DIV}) {
      qn_binary_params p;
      qn_binary_params_init(&p);
      p.kind = kind;
      Op op;
      ASSERT_QN_OK(qn_binary_create(&p, &op));
      for (const auto& [a, b] : forms) {
        const Result r = run(op, {{a, reals(count_of(a), 1)}, {b, reals(count_of(b), 2)}}, {.kernel = row.name});
        reached = reached || (r.status == QN_OK && r.kernel == row.name);
      }
    }
    EXPECT_TRUE(reached) << row.name;
  }
}

TEST(Binary, BitsDoNotDependOnTasksAndInPlaceWorks) {
  const Shape shape = {2, 50, 60, 40};
  const std::vector<float> x = reals(count_of(shape), 1), y = reals(count_of(shape), 2), channel = reals(40, 3);
  qn_binary_params p;
  qn_binary_params_init(&p);
  Op op;
  ASSERT_QN_OK(qn_binary_create(&p, &op));
  for (const auto& [other, values] :
       {std::pair(shape, y), std::pair(Shape{40}, channel), std::pair(Shape{}, std::vector<float>{3})}) {
    const Result one = run(op, {{shape, x}, {other, values}});
    for (const size_t tasks : {2, 4}) {
      EXPECT_TRUE(same_bits(one.values, run(op, {{shape, x}, {other, values}}, {.tasks = tasks}).values));
    }
    // The output in the buffer of the first input, then of the second.
    for (const bool swap : {false, true}) {
      std::vector<float> buffer = x;
      const qn_tensor tensors[] = {dense(swap ? other : shape), dense(swap ? shape : other)};
      const void* inputs[] = {swap ? values.data() : buffer.data(), swap ? buffer.data() : values.data()};
      void* outputs[] = {buffer.data()};
      qn_plan* plan;
      ASSERT_QN_OK(qn_operator_plan(op, tensors, 2, nullptr, 0, nullptr, &plan));
      ASSERT_QN_OK(qn_plan_run(plan, inputs, outputs, nullptr, 0, nullptr));
      qn_plan_release(plan);
      EXPECT_TRUE(same_bits(buffer, one.values));
    }
  }
}

double apply(qn_unary_kind kind, double x, double alpha, double beta, double gamma) {
  switch (kind) {
    case QN_CLAMP: return x < alpha ? alpha : x > beta ? beta : x;
    case QN_SIGMOID: return 1 / (1 + std::exp(-x));
    case QN_TANH: return std::tanh(x);
    case QN_HARD_SWISH: return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case QN_POWER: return std::pow(alpha * x + beta, gamma);
    case QN_EXP: return std::exp(x);
  }
  return 0;
}

constexpr qn_unary_kind unary_kinds[] = {QN_CLAMP, QN_SIGMOID, QN_TANH, QN_HARD_SWISH, QN_POWER, QN_EXP};

// For power: a base that is positive for the inputs here.
qn_unary_params unary_params(qn_unary_kind kind) {
  qn_unary_params p;
  qn_unary_params_init(&p);
  p.kind = kind;
  p.alpha = kind == QN_CLAMP ? -0.5f : 0.5f;
  p.beta = kind == QN_CLAMP ? 1.5f : 5;
  p.gamma = 1.7f;
  return p;
}

TEST(Unary, AgreesWithReference) {
  for (const qn_unary_kind kind : unary_kinds) {
    const qn_unary_params p = unary_params(kind);
    Op op;
    ASSERT_QN_OK(qn_unary_create(&p, &op));
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{67}, Shape{2, 3, 4, 5}, Shape{5, 1, 3, 1}, Shape{2, 1, 3, 2, 1, 7}}) {
      const std::vector<float> x = reals(count_of(shape), 1, -6, 6);
      for (const size_t gap : {0, 3}) {
        const auto check = [&](const Result& r) {
          ASSERT_EQ(r.status, QN_OK) << r.message;
          ASSERT_EQ(r.shape, shape);
          for (size_t i = 0; i < x.size(); ++i) {
            const double expected = apply(kind, static_cast<double>(x[i]), static_cast<double>(p.alpha),
                                          static_cast<double>(p.beta), static_cast<double>(p.gamma));
            ASSERT_NEAR(static_cast<double>(r.values[i]), expected, 1e-6 * std::abs(expected) + 1e-7) << r.kernel;
          }
        };
        check(run(op, {{shape, x}}, {.in_gap = gap, .out_gap = gap}));
        size_t reached = 0;
        for (const UnaryRow& row : unary_rows()) {
          if (!runs_on(row, cpu().isa)) continue;
          const Result r = run(op, {{shape, x}}, {.kernel = row.name, .in_gap = gap, .out_gap = gap});
          if (r.status == QN_OK) check(r), ++reached;
        }
        EXPECT_GE(reached, 1u);
      }
    }
  }
}

TEST(Unary, PowersKeepTheSignOfZero) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  const struct {
    float alpha, gamma, of_minus_0, of_0;
  } cases[] = {{1, 1, -0.0f, 0},
               {-1, 1, 0, -0.0f},
               {1, 0.5f, -0.0f, 0},
               {1, 2, 0, 0},
               {2, 3, -0.0f, 0},
               {1, -1, -infinite, infinite},
               {1, -3, -infinite, infinite}};
  for (const auto& c : cases) {
    qn_unary_params p = unary_params(QN_POWER);
    p.alpha = c.alpha;
    p.beta = 0;
    p.gamma = c.gamma;
    Op op;
    ASSERT_QN_OK(qn_unary_create(&p, &op));
    const std::vector<float> x(16, -0.0f), y(16, 0.0f);
    for (const UnaryRow& row : unary_rows()) {
      if (row.kind != UnaryKind::power || !runs_on(row, cpu().isa)) continue;
      const Result of_minus_0 = run(op, {{{16}, x}}, {.kernel = row.name}),
                   of_0 = run(op, {{{16}, y}}, {.kernel = row.name});
      EXPECT_TRUE(same_bits(of_minus_0.values, std::vector<float>(16, c.of_minus_0))) << row.name << " " << c.gamma;
      EXPECT_TRUE(same_bits(of_0.values, std::vector<float>(16, c.of_0))) << row.name << " " << c.gamma;
    }
  }
}

TEST(Unary, NanTasksAndInPlace) {
  for (const qn_unary_kind kind : unary_kinds) {
    const qn_unary_params p = unary_params(kind);
    Op op;
    ASSERT_QN_OK(qn_unary_create(&p, &op));
    const Shape shape = {3, 17001};
    std::vector<float> x = reals(count_of(shape), 1, -6, 6);
    x[5] = std::nanf("");
    const Result one = run(op, {{shape, x}});
    EXPECT_TRUE(std::isnan(one.values[5]));
    for (const size_t tasks : {2, 4}) {
      EXPECT_TRUE(same_bits(one.values, run(op, {{shape, x}}, {.tasks = tasks}).values));
      EXPECT_TRUE(same_bits(one.values, run(op, {{shape, x}}, {.tasks = tasks, .in_gap = 1, .out_gap = 2}).values));
    }
    const qn_tensor tensor = dense(shape);
    qn_plan* plan;
    ASSERT_QN_OK(qn_operator_plan(op, &tensor, 1, nullptr, 0, nullptr, &plan));
    const void* inputs[] = {x.data()};
    void* outputs[] = {x.data()};
    ASSERT_QN_OK(qn_plan_run(plan, inputs, outputs, nullptr, 0, nullptr));
    qn_plan_release(plan);
    EXPECT_TRUE(same_bits(one.values, x));
  }
}

enum class Kind { prelu, scale, scale_only, bias_only, batch_norm, plain_batch_norm };

// Creates the operator and says what it should give.
void channel_case(Kind kind, size_t channels, qn_operator** op, std::function<float(float x, size_t c)>* function) {
  qn_channel_params p;
  qn_channel_params_init(&p);
  p.channels = channels;
  const std::vector<float> a = reals(channels, 11), b = reals(channels, 12), mean = reals(channels, 13),
                           variance = reals(channels, 14, 0.1f, 2);
  constexpr float epsilon = 1e-3f;
  const auto normalize = [=](bool affine, float x, size_t c) {
    const double scale = (affine ? static_cast<double>(a[c]) : 1) /
                         std::sqrt(static_cast<double>(variance[c]) + static_cast<double>(epsilon));
    const double bias = (affine ? static_cast<double>(b[c]) : 0) - static_cast<double>(mean[c]) * scale;
    return x * static_cast<float>(scale) + static_cast<float>(bias);
  };
  switch (kind) {
    case Kind::prelu:
      ASSERT_QN_OK(qn_prelu_create(&p, a.data(), op));
      *function = [=](float x, size_t c) { return x < 0 ? x * a[c] : x; };
      break;
    case Kind::scale:
      p.min = -0.5f;
      p.max = 0.75f;
      ASSERT_QN_OK(qn_scale_create(&p, a.data(), b.data(), op));
      *function = [=](float x, size_t c) { return clamp_value(x * a[c] + b[c], -0.5f, 0.75f); };
      break;
    case Kind::scale_only:
      ASSERT_QN_OK(qn_scale_create(&p, a.data(), nullptr, op));
      *function = [=](float x, size_t c) { return x * a[c] + 0; };
      break;
    case Kind::bias_only:
      ASSERT_QN_OK(qn_scale_create(&p, nullptr, b.data(), op));
      *function = [=](float x, size_t c) { return x + b[c]; };
      break;
    case Kind::batch_norm:
      ASSERT_QN_OK(qn_batch_norm_create(&p, mean.data(), variance.data(), a.data(), b.data(), epsilon, op));
      *function = [=](float x, size_t c) { return normalize(true, x, c); };
      break;
    case Kind::plain_batch_norm:
      ASSERT_QN_OK(qn_batch_norm_create(&p, mean.data(), variance.data(), nullptr, nullptr, epsilon, op));
      *function = [=](float x, size_t c) { return normalize(false, x, c); };
      break;
  }
}

TEST(Channel, GivesTheBitsOfTheFormula) {
  for (const Kind kind :
       {Kind::prelu, Kind::scale, Kind::scale_only, Kind::bias_only, Kind::batch_norm, Kind::plain_batch_norm}) {
    for (const Shape& shape :
         {Shape{1}, Shape{67}, Shape{3, 16}, Shape{2, 5, 7, 33}, Shape{1, 90, 90, 3}, Shape{2, 1, 3, 1, 2, 5}}) {
      const size_t channels = shape.back();
      Op op;
      std::function<float(float, size_t)> function;
      channel_case(kind, channels, &op, &function);
      if (HasFatalFailure()) return;
      const std::vector<float> x = reals(count_of(shape), 1);
      std::vector<float> expected;
      for (size_t i = 0; i < x.size(); ++i) expected.push_back(function(x[i], i % channels));
      for (const size_t gap : {0, 2}) {
        for (const size_t tasks : {1, 2, 4}) {
          const Result r = run(op, {{shape, x}}, {.tasks = tasks, .in_gap = gap, .out_gap = 2 * gap});
          ASSERT_EQ(r.status, QN_OK) << r.message;
          EXPECT_EQ(r.shape, shape);
          EXPECT_TRUE(same_bits(r.values, expected)) << static_cast<int>(kind) << " gap " << gap;
        }
      }
      if (shape.size() == 4) {
        for (const size_t tasks : {1, 3}) {
          const Result r = run(op, {{shape, x}},
                               {.tasks = tasks,
                                .in_gap = tasks,
                                .out_gap = 2 * tasks,
                                .in_layout = QN_LAYOUT_PIXEL_BLOCKED,
                                .out_layout = QN_LAYOUT_PIXEL_BLOCKED});
          EXPECT_TRUE(same_bits(r.values, expected)) << static_cast<int>(kind) << " pixel-blocked";
        }
      }
      for (const ChannelRow& row : channel_rows()) {
        if (!runs_on(row, cpu().isa)) continue;
        const Result r = run(op, {{shape, x}}, {.kernel = row.name});
        EXPECT_EQ(r.status == QN_OK,
                  row.layout == QN_LAYOUT_NHWC && (row.kind == ChannelKind::prelu) == (kind == Kind::prelu))
            << row.name;
        EXPECT_TRUE(r.status != QN_OK || same_bits(r.values, expected)) << row.name;
      }
    }
  }
}

TEST(Channel, InPlace) {
  Op op;
  std::function<float(float, size_t)> function;
  channel_case(Kind::scale, 5, &op, &function);
  std::vector<float> x = reals(40, 1);
  const Result r = run(op, {{{8, 5}, x}});
  const qn_tensor tensor = dense({8, 5});
  qn_plan* plan;
  ASSERT_QN_OK(qn_operator_plan(op, &tensor, 1, nullptr, 0, nullptr, &plan));
  const void* inputs[] = {x.data()};
  void* outputs[] = {x.data()};
  ASSERT_QN_OK(qn_plan_run(plan, inputs, outputs, nullptr, 0, nullptr));
  qn_plan_release(plan);
  EXPECT_TRUE(same_bits(x, r.values));
}

// Runs by all rows that apply, in both layouts, with the output in the place of each input that has its shape.
template <class Row>
size_t check_in_place(const qn_operator* op, const std::vector<Input>& inputs, std::span<const Row> rows) {
  const Threads threads(3);
  size_t compared = 0;
  for (const Row& row : rows) {
    for (const qn_layout layout : {QN_LAYOUT_NHWC, QN_LAYOUT_PIXEL_BLOCKED}) {
      for (const size_t gap : {0, 3}) {
        SCOPED_TRACE(std::string(row.name) + ", " + layout_text(layout) + ", gap " + std::to_string(gap));
        const bool images =
            std::all_of(inputs.begin(), inputs.end(), [](const Input& i) { return i.shape.size() == 4; });
        if (!runs_on(row, cpu().isa) || (layout == QN_LAYOUT_PIXEL_BLOCKED && !images)) continue;
        Options options = {
            .kernel = row.name, .in_gap = gap, .out_gap = gap, .in_layout = layout, .out_layout = layout};
        const Result expected = run(op, inputs, options);
        if (expected.status != QN_OK) continue;  // a row of another kind or layout
        for (size_t i = 0; i < inputs.size(); ++i) {
          if (inputs[i].shape != expected.shape) continue;
          options.in_place = i;
          for (const size_t tasks : {1, 3}) {
            options.tasks = tasks;
            options.parallel = threads.parallel();
            const Result r = run(op, inputs, options);
            EXPECT_EQ(r.status, QN_OK) << r.message;
            EXPECT_TRUE(same_bits(r.values, expected.values)) << "input " << i << ", tasks " << tasks;
            ++compared;
          }
        }
      }
    }
  }
  return compared;
}

TEST(InPlace, EveryKernelGivesTheBitsOfAnotherOutput) {
  const Shape shape = {1, 23, 20, 37};  // two tasks
  const Input x = {shape, reals(count_of(shape), 1)};
  for (const qn_binary_kind kind : {QN_ADD, QN_SUB, QN_MUL, QN_DIV}) {
    for (const Shape& other : {shape, Shape{37}, Shape{1}}) {
      qn_binary_params p;
      qn_binary_params_init(&p);
      p.kind = kind;
      Op op;
      ASSERT_QN_OK(qn_binary_create(&p, &op));
      const Input y = {other, reals(count_of(other), 2, 0.5f, 2)};
      EXPECT_GE(check_in_place(op, {x, y}, binary_rows()), 4u);
      EXPECT_GE(check_in_place(op, {y, x}, binary_rows()), 4u);
    }
  }
  for (const qn_unary_kind kind : unary_kinds) {
    const qn_unary_params p = unary_params(kind);
    Op op;
    ASSERT_QN_OK(qn_unary_create(&p, &op));
    EXPECT_GE(check_in_place(op, {x}, unary_rows()), 8u);
  }
  for (const Kind kind : {Kind::prelu, Kind::scale, Kind::batch_norm}) {
    Op op;
    std::function<float(float, size_t)> function;
    channel_case(kind, shape[3], &op, &function);
    EXPECT_GE(check_in_place(op, {x}, channel_rows()), 8u);
  }
}

}  // namespace eltwise_test
}  // namespace quern::test
