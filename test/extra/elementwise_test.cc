// Kinds that compute elements, reduce tensors, convert types and multiply bytes.
#include <cmath>
#include <functional>
#include <limits>

#include "run_node.h"

namespace quern::test {
namespace elementwise_test {

constexpr double infinity = std::numeric_limits<double>::infinity(), not_a_number = NAN;

Elements tensor(qn_type type, std::vector<size_t> shape, std::vector<double> values) {
  return {type, std::move(shape), std::move(values)};
}
Elements f32(std::vector<size_t> shape, std::vector<double> values) { return tensor(QN_F32, shape, values); }
Elements f32(std::vector<double> values) { return f32({values.size()}, values); }
Elements s8(std::vector<double> values) { return list(values, QN_S8); }
Elements u8(std::vector<double> values) { return list(values, QN_U8); }
Elements s32(std::vector<double> values) { return list(values, QN_S32); }
Elements s64(std::vector<double> values) { return list(values, QN_S64); }
Elements truth(std::vector<double> values) { return list(values, QN_BOOL); }
Parameter number(const char* name, float value) { return {name, {}, {value}}; }

// As expect_node(), but floats may differ in their last bits, and NaN is equal to itself.
void expect_close(const NodeCase& node) {
  for (const size_t computed : {node.inputs.size(), size_t{1}}) {
    SCOPED_TRACE(std::string(node.kind) + ", " + std::to_string(computed) + " inputs are computed");
    std::vector<Elements> outputs;
    EXPECT_EQ(NodeModel(node, computed).run(&outputs), "");
    ASSERT_EQ(outputs.size(), node.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Elements &got = outputs[i], &wanted = node.outputs[i];
      EXPECT_EQ(got.type, wanted.type);
      ASSERT_EQ(got.shape, wanted.shape);
      ASSERT_EQ(got.values.size(), wanted.values.size());
      for (size_t k = 0; k < got.values.size(); ++k) {
        const double x = got.values[k], y = wanted.values[k];
        const bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= 1e-7 + 3e-6 * std::fabs(y);
        EXPECT_TRUE(same) << "output " << i << ", element " << k << ": " << x << " instead of " << y;
      }
    }
  }
}
void expect_all(const std::vector<NodeCase>& cases) {
  for (const NodeCase& node : cases) expect_close(node);
}

// ---- functions of one number

TEST(ExtraElements, FunctionsOfFloats) {
  struct Case {
    const char* kind;
    double (*function)(double);
    std::vector<double> x;
    std::vector<Parameter> parameters = {};
  };
  const std::vector<double> all = {-3, -1, -0.25, 0, 0.25, 1, 3}, unit = {-1, -0.5, 0, 0.75, 1},
                            positive = {0.25, 1, 9};
  const Case cases[] = {
      {"acos", std::acos, unit},
      {"acosh", std::acosh, {1, 2.5}},
      {"any_exp", std::exp, all},
      {"any_hard_swish", [](double x) { return x * std::min(1.0, std::max(0.0, x / 6 + 0.5)); }, {-4, -1, 2, 5}},
      {"any_sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, {-200, -1, 0, 1, 200}},
      {"any_tanh", std::tanh, all},
      {"asin", std::asin, unit},
      {"asinh", std::asinh, all},
      {"atan", std::atan, all},
      {"atanh", std::atanh, {-0.5, 0, 0.75}},
      {"ceil", std::ceil, {-1.5, 0.25, 2}},
      {"celu", [](double x) { return x < 0 ? 2 * std::expm1(x / 2) : x; }, all, {number("alpha", 2)}},
      {"cos", std::cos, all},
      {"cosh", std::cosh, all},
      {"elu", [](double x) { return x < 0 ? 0.5 * std::expm1(x) : x; }, all, {number("alpha", 0.5f)}},
      {"erf", std::erf, all},
      {"floor", std::floor, {-1.5, 0.25, 2}},
      {"gelu", [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }, {-6, -1, 0, 1, 6}},
      {"gelu_tanh",
       [](double x) { return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); },
       {-1, 0, 1, 6}},
      {"hard_sigmoid",
       [](double x) { return std::min(1.0, std::max(0.0, 0.5 * x + 0.25)); },
       all,
       {number("alpha", 0.5f), number("beta", 0.25f)}},
      {"leaky_relu", [](double x) { return x < 0 ? 0.125 * x : x; }, all, {number("alpha", 0.125f)}},
      {"log", std::log, positive},
      {"mish", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }, all},
      {"reciprocal", [](double x) { return 1 / x; }, positive},
      {"round", std::nearbyint, {-2.5, -1.5, 0.5, 1.5, 2.25}},
      {"selu", [](double x) { return 1.05070102 * (x > 0 ? x : 1.67326319 * std::expm1(x)); }, all},
      {"shrink",
       [](double x) { return x < -0.5  ? x + 0.25
                             : x > 0.5 ? x - 0.25
                                       : 0; },
       all,
       {number("bias", 0.25f), number("lambd", 0.5f)}},
      {"sin", std::sin, all},
      {"sinh", std::sinh, all},
      {"softplus", [](double x) { return x > 50 ? x : std::log1p(std::exp(x)); }, {-200, -1, 0, 1, 200}},
      {"softsign", [](double x) { return x / (1 + std::fabs(x)); }, all},
      {"sqrt", std::sqrt, positive},
      {"swish", [](double x) { return x / (1 + std::exp(-2 * x)); }, all, {number("alpha", 2)}},
      {"tan", std::tan, all},
      {"thresholded_relu",
       [](double x) { return x > 0.25 ? x : 0; },
       {-2, 0, 0.25, 0.5, 3, std::nan("")},
       {number("alpha", 0.25f)}},
  };
  for (const Case& c : cases) {
    std::vector<double> y;
    for (const double x : c.x) y.push_back(c.function(x));
    expect_close({c.kind, {f32(c.x)}, {f32(y)}, c.parameters});
    expect_close({c.kind, {f32({2, 0}, {})}, {f32({2, 0}, {})}, c.parameters});
    expect_close({c.kind, {scalar(c.x.back(), QN_F32)}, {scalar(y.back(), QN_F32)}, c.parameters});
    if (std::string(c.kind) != "shrink") {  // which takes integers, too
      expect_refused({c.kind, {s32({1})}, {s32({1})}, c.parameters}, "input 0 is s32, not f32");
    }
  }
}

// Of many elements, which are computed in blocks: each function with its largest relative error.
TEST(ExtraElements, FunctionsOfManyFloats) {
  struct Case {
    const char* kind;
    double (*function)(double);
    double error, from = -9, to = 9;
  };
  const Case cases[] = {
      {"any_exp", std::exp, 1e-6, -80, 80},
      {"any_sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 1e-6, -80, 80},
      {"any_tanh", std::tanh, 1e-6},
      {"elu", [](double x) { return x < 0 ? std::expm1(x) : x; }, 1e-6, -30, 3},
      {"erf", std::erf, 4e-7},
      {"gelu", [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }, 4e-6},
      {"gelu_tanh", [](double x) { return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); },
       1e-5},
      {"mish", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }, 1e-6, -80, 80},
      {"reciprocal", [](double x) { return 1 / x; }, 1e-7, 1, 9},
      {"softplus", [](double x) { return x > 50 ? x : std::log1p(std::exp(x)); }, 1e-6, -80, 80},
      {"swish", [](double x) { return x / (1 + std::exp(-x)); }, 1e-6, -80, 80},
  };
  constexpr size_t n = 40001;
  for (const Case& c : cases) {
    std::vector<double> x, y;
    for (size_t i = 0; i < n; ++i) {
      x.push_back(static_cast<float>(c.from + (c.to - c.from) * static_cast<double>(i) / (n - 1)));
      y.push_back(c.function(x.back()));
    }
    std::vector<Elements> outputs;
    ASSERT_EQ(NodeModel({c.kind, {f32(x)}, {f32(y)}}, 1).run(&outputs), "");
    for (size_t i = 0; i < n; ++i) {
      ASSERT_LE(std::fabs(outputs[0].values[i] - y[i]), c.error * std::fabs(y[i])) << c.kind << " of " << x[i];
    }
  }
}

// What stands at the ends of the numbers, and NaN.
TEST(ExtraElements, FunctionsOfInfinities) {
  const auto at_ends = [](const char* kind, const std::vector<double>& y) {
    expect_close({kind, {f32({-infinity, -1e30, 1e30, infinity, not_a_number})}, {f32(y)}});
  };
  at_ends("any_exp", {0, 0, infinity, infinity, not_a_number});
  at_ends("any_sigmoid", {0, 0, 1, 1, not_a_number});
  at_ends("any_tanh", {-1, -1, 1, 1, not_a_number});
  at_ends("celu", {-1, -1, 1e30f, infinity, not_a_number});
  at_ends("elu", {-1, -1, 1e30f, infinity, not_a_number});
  at_ends("erf", {-1, -1, 1, 1, not_a_number});
  at_ends("gelu", {not_a_number, 0, 1e30f, infinity, not_a_number});
  at_ends("gelu_tanh", {not_a_number, 0, 1e30f, infinity, not_a_number});
  at_ends("mish", {not_a_number, 0, 1e30f, infinity, not_a_number});
  at_ends("softplus", {0, 0, 1e30f, infinity, not_a_number});
  at_ends("swish", {not_a_number, 0, 1e30f, infinity, not_a_number});
}

TEST(ExtraElements, FunctionsOfIntegersAndBooleans) {
  expect_all({
      {"abs", {s8({-128, -3, 3})}, {s8({-128, 3, 3})}},  // the least integer stays
      {"abs", {f32({-3, -infinity, not_a_number})}, {f32({3, infinity, not_a_number})}},
      {"neg", {s32({INT32_MIN, -1, 2})}, {s32({INT32_MIN, 1, -2})}},
      {"relu", {s64({-5, 0, 5})}, {s64({0, 0, 5})}},
      {"relu", {f32({-5, not_a_number, 5})}, {f32({0, not_a_number, 5})}},
      {"shrink", {s8({-2, -1, 0, 2})}, {s8({-1, 0, 0, 1})}, {number("bias", 1), number("lambd", 1.5f)}},
      {"sign", {s64({-9, 0, 9})}, {s64({-1, 0, 1})}},
      {"sign", {f32({-9, not_a_number, 9})}, {f32({-1, not_a_number, 1})}},
      {"bitwise_not", {u8({0, 0xf0})}, {u8({0xff, 0x0f})}},
      {"bitwise_not", {s64({0, -5})}, {s64({-1, 4})}},
      {"not", {truth({0, 1})}, {truth({1, 0})}},
      {"is_nan", {f32({1, not_a_number, infinity})}, {truth({0, 1, 0})}},
      {"is_inf", {f32({1, not_a_number, infinity, -infinity})}, {truth({0, 0, 1, 1})}},
      {"is_inf", {f32({infinity, -infinity})}, {truth({0, 1})}, {integers("positive", {0})}},
      {"is_inf", {f32({infinity, -infinity})}, {truth({1, 0})}, {integers("negative", {0})}},
      {"all_true", {f32({0, 2})}, {truth({1, 1})}},
  });
  expect_refused({"neg", {truth({1})}, {truth({1})}}, "input 0 is bool");
  expect_refused({"bitwise_not", {f32({1})}, {f32({1})}}, "input 0 is f32");
  expect_refused({"is_nan", {f32({1})}, {f32({1})}}, "f32, not bool");
}

// ---- several numbers

TEST(ExtraElements, Arithmetic) {
  expect_all({
      {"any_add", {s8({100, -100}), s8({100, -100})}, {s8({-56, 56})}},  // integers wrap around
      {"any_sub", {u8({1, 5}), u8({2, 3})}, {u8({255, 2})}},
      {"any_mul", {s32({0x10001, -3}), s32({0x10001, 4})}, {s32({0x20001, -12})}},
      {"any_div", {s32({-7, 7, 5, INT32_MIN}), s32({2, -2, 0, -1})}, {s32({-3, -3, 0, INT32_MIN})}},
      {"any_div", {f32({1, -1, 0}), f32({0, 4, 0})}, {f32({infinity, -0.25, not_a_number})}},
      {"any_prelu", {f32({2, 2}, {-1, 2, -3, -4}), f32({2, 3})}, {f32({2, 2}, {-2, 2, -6, -12})}},
      {"any_prelu", {s32({-4, 4}), s32({3})}, {s32({-12, 4})}},
      {"mod", {s32({-4, 7, 5, INT32_MIN, 1}), s32({3, -3, 8, -1, 0})}, {s32({2, -2, 5, 0, 0})}},
      {"mod", {s8({-4, 7}), s8({3, -3})}, {s8({-1, 1})}, {integers("truncates", {1})}},
      {"mod", {f32({-4.5, 7}), f32({2, -2.5})}, {f32({-0.5, 2})}, {integers("truncates", {1})}},
      {"pow", {f32({2, 4, 9}), f32({3, -1, 0.5})}, {f32({8, 0.25, 3})}},
      {"pow", {f32({2, 3}), s64({10, 2})}, {f32({1024, 9})}},
      {"pow", {s32({2, 3}), f32({0.5, 2})}, {s32({1, 9})}},
      {"pow",
       {s64({3, -1, -1, 0, 2, 1}), s64({40, -3, -2, -1, 70, -9})},
       {s64({12157665459056928801.0 - 0x1p64, -1, 1, 0, 0, 1})}},
  });
  expect_refused({"any_add", {f32({1}), s32({1})}, {f32({1})}}, "input 1 is s32, not f32");
  expect_refused({"any_add", {truth({1}), truth({1})}, {truth({1})}}, "input 0 is bool");
  expect_refused({"any_mul", {f32({1, 2}), f32({1, 2, 3})}, {f32({1})}}, "dimensions 2 and 3 do not broadcast");
  expect_refused({"any_prelu", {f32({1}), f32({1, 2})}, {f32({1})}}, "the slope has a larger shape than x");
  expect_refused({"mod", {f32({1}), f32({1})}, {f32({1})}}, "needs integers");
  expect_refused({"pow", {s8({1}), s8({1})}, {s8({1})}}, "input 0 is s8, not s64");
}

// All ways in which rows of two operands can repeat.
TEST(ExtraElements, Broadcasts) {
  const std::vector<std::vector<size_t>> shapes = {{},        {1},       {4},       {3, 1},    {3, 4},
                                                   {2, 1, 1}, {2, 1, 4}, {2, 3, 1}, {1, 3, 4}, {2, 3, 4}};
  const auto at = [](const std::vector<size_t>& shape, size_t i, size_t j, size_t k) {
    const size_t index[3] = {i, j, k};
    size_t place = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      place = place * shape[d] + (shape[d] == 1 ? 0 : index[3 - shape.size() + d]);
    }
    return static_cast<double>(place);
  };
  for (const auto& a : shapes) {
    for (const auto& b : shapes) {
      NodeCase node = {"any_sub", {{QN_F32, a, {}}, {QN_F32, b, {}}}, {{QN_F32, {}, {}}}};
      for (Elements& input : node.inputs) {
        size_t n = 1;
        for (const size_t d : input.shape) n *= d;
        for (size_t i = 0; i < n; ++i) input.values.push_back((&input == &node.inputs[0] ? 100.0 : 1.0) * double(i));
      }
      std::vector<size_t>& y = node.outputs[0].shape;
      y.assign(std::max(a.size(), b.size()), 1);
      for (const auto* shape : {&a, &b}) {
        for (size_t d = 0; d < shape->size(); ++d) {
          size_t& size = y[y.size() - shape->size() + d];
          size = std::max(size, (*shape)[d]);
        }
      }
      const auto size = [&](size_t d) { return y.size() + d < 3 ? 1 : y[y.size() + d - 3]; };
      for (size_t i = 0; i < size(0); ++i) {
        for (size_t j = 0; j < size(1); ++j) {
          for (size_t k = 0; k < size(2); ++k) {
            node.outputs[0].values.push_back(100 * at(a, i, j, k) - at(b, i, j, k));
          }
        }
      }
      expect_close(node);
      for (Elements* operand : {&node.inputs[0], &node.inputs[1], &node.outputs[0]}) operand->type = QN_S64;
      expect_close(node);
    }
  }
  expect_close({"any_add", {f32({2, 0}, {}), f32({1})}, {f32({2, 0}, {})}});
}

TEST(ExtraElements, BitsComparisonsChoices) {
  const Elements a = f32({1, 2, 3, not_a_number}), b = f32({2, 2, 2, 2});
  expect_all({
      {"bitwise_and", {u8({12, 10}), u8({10})}, {u8({8, 10})}},
      {"bitwise_or", {s32({12, -8}), s32({3})}, {s32({15, -5})}},
      {"bitwise_xor", {s64({12, -1}), s64({10})}, {s64({6, -11})}},
      {"bitwise_and", {truth({0, 1, 1}), truth({1, 0, 1})}, {truth({0, 0, 1})}},
      {"bit_shift", {u8({129, 129, 129}), u8({1, 7, 8})}, {u8({2, 128, 0})}, {integers("left", {1})}},
      {"bit_shift", {u8({129, 129, 129}), u8({1, 7, 8})}, {u8({64, 1, 0})}},
      {"equal", {a, b}, {truth({0, 1, 0, 0})}},
      {"greater", {a, b}, {truth({0, 0, 1, 0})}},
      {"greater_or_equal", {a, b}, {truth({0, 1, 1, 0})}},
      {"less", {a, b}, {truth({1, 0, 0, 0})}},
      {"less_or_equal", {a, b}, {truth({1, 1, 0, 0})}},
      {"less", {u8({200}), u8({100})}, {truth({0})}},
      {"less", {s8({-100}), s8({100})}, {truth({1})}},
      {"equal", {truth({1, 0}), truth({1})}, {truth({1, 0})}},
      {"where", {truth({1, 0}), tensor(QN_S8, {2, 1}, {1, 2}), s8({-5})}, {tensor(QN_S8, {2, 2}, {1, -5, 2, -5})}},
      {"where", {truth({1}), s64({1, 2}), s64({3})}, {s64({1, 2})}},
      {"where", {truth({0, 1}), f32({1, 2}), scalar(9, QN_F32)}, {f32({9, 2})}},
      {"clip",
       {f32({-5, 0.5, 5, not_a_number}), scalar(-1, QN_F32), scalar(1, QN_F32)},
       {f32({-1, 0.5, 1, not_a_number})}},
      {"clip", {s8({-5, 5}), absent, scalar(1, QN_S8)}, {s8({-5, 1})}},
      {"clip", {u8({2, 7}), scalar(5, QN_U8)}, {u8({5, 7})}},
      {"clip", {f32({-infinity, infinity})}, {f32({-infinity, infinity})}},
      {"clip", {s32({0, 9}), scalar(6, QN_S32), scalar(3, QN_S32)}, {s32({3, 3})}},  // the upper bound wins
  });
  expect_refused({"bit_shift", {s8({1}), s8({1})}, {s8({1})}}, "input 0 is s8, not u8");
  expect_refused({"where", {u8({1}), s8({1}), s8({1})}, {s8({1})}}, "input 0 is u8, not bool");
  expect_refused({"where", {truth({1}), s8({1}), u8({1})}, {s8({1})}}, "input 2 is u8, not s8");
  expect_refused({"clip", {f32({1}), f32({1, 2})}, {f32({1})}}, "input 1 is not one number");
}

TEST(ExtraElements, AnyNumberOfTensors) {
  const Elements a = f32({2, 1}, {1, 8}), b = f32({2, 6}), c = scalar(3, QN_F32);
  expect_all({
      {"max", {a, b, c}, {f32({2, 2}, {3, 6, 8, 8})}},
      {"min", {a, b, c}, {f32({2, 2}, {1, 1, 2, 3})}},
      {"sum", {a, b, c}, {f32({2, 2}, {6, 10, 13, 17})}},
      {"mean", {a, b, c}, {f32({2, 2}, {2, 10.0 / 3, 13.0 / 3, 17.0 / 3})}},
      {"max", {a}, {a}},
      {"max", {f32({1, not_a_number}), f32({not_a_number, 1})}, {f32({not_a_number, not_a_number})}},
      {"min", {s8({-3, 4}), s8({3, -4})}, {s8({-3, -4})}},
      {"max", {s64({-3, 4}), s64({3}), s64({-9})}, {s64({3, 4})}},
  });
  expect_refused({"mean", {s32({1})}, {s32({1})}}, "input 0 is s32, not f32");
  expect_refused({"max", {s32({1}), s32({1}), s8({1})}, {s32({1})}}, "input 2 is s8, not s32");
}

// ---- reductions

TEST(ExtraReductions, OfAllAxes) {
  const Elements x = f32({2, 2}, {1, -2, 3, 4});
  const auto number_of = [](double value) { return f32({1, 1}, {value}); };
  const double sum_exp = std::exp(1) + std::exp(-2) + std::exp(3) + std::exp(4);
  expect_all({
      {"reduce_l1", {x}, {number_of(10)}},
      {"reduce_l2", {x}, {number_of(std::sqrt(30))}},
      {"reduce_log_sum", {x}, {number_of(std::log(6))}},
      {"reduce_log_sum_exp", {x}, {number_of(std::log(sum_exp))}},
      {"reduce_log_sum_exp", {f32({1000, 1000})}, {f32({1000 + std::log(2)})}},
      {"reduce_max", {x}, {number_of(4)}},
      {"reduce_mean", {x}, {number_of(1.5)}},
      {"reduce_min", {x}, {number_of(-2)}},
      {"reduce_prod", {x}, {number_of(-24)}},
      {"reduce_sum", {x}, {number_of(6)}},
      {"reduce_sum_square", {x}, {number_of(30)}},
      {"reduce_max", {f32({1, not_a_number, 2})}, {f32({not_a_number})}},
      {"reduce_min", {u8({3, 200})}, {u8({3})}},
      {"reduce_max", {truth({0, 1})}, {truth({1})}},
      {"reduce_min", {truth({0, 1})}, {truth({0})}},
      {"reduce_mean", {s32({-7, 2})}, {s32({-2})}},  // truncates
      {"reduce_sum", {s32({INT32_MAX, 1})}, {s32({INT32_MIN})}},
      {"reduce_l1", {s64({-3, 4})}, {s64({7})}},
      {"reduce_l2", {s64({-3, 4})}, {s64({5})}},
      {"reduce_sum", {scalar(7, QN_F32)}, {scalar(7, QN_F32)}},
  });
  expect_refused({"reduce_sum", {s8({1})}, {s8({1})}}, "input 0 is s8, not s64");
}

// The result for no elements.
TEST(ExtraReductions, OfNothing) {
  const std::pair<const char*, double> cases[] = {{"reduce_l1", 0},
                                                  {"reduce_l2", 0},
                                                  {"reduce_log_sum", -infinity},
                                                  {"reduce_log_sum_exp", -infinity},
                                                  {"reduce_max", -infinity},
                                                  {"reduce_mean", not_a_number},
                                                  {"reduce_min", infinity},
                                                  {"reduce_prod", 1},
                                                  {"reduce_sum", 0},
                                                  {"reduce_sum_square", 0}};
  for (const auto& [kind, value] : cases) {
    expect_close({kind, {f32({2, 0, 3}, {}), s64({1})}, {f32({2, 1, 3}, std::vector<double>(6, value))}});
    expect_close({kind, {f32({2, 0, 3}, {}), s64({2})}, {f32({2, 0, 1}, {})}});
    expect_close({kind, {f32({2, 3, 0}, {}), s64({1, 2})}, {f32({2, 1, 1}, {value, value})}});
  }
  expect_close({"reduce_max", {tensor(QN_BOOL, {0}, {})}, {truth({0})}});
  expect_close({"reduce_min", {tensor(QN_S8, {0}, {})}, {s8({127})}});
  expect_close({"reduce_mean", {tensor(QN_S32, {0}, {})}, {s32({0})}});
}

// Each set of axes of a tensor that has more elements in a row than are reduced at once.
TEST(ExtraReductions, OfSomeAxes) {
  const size_t shape[4] = {2, 3, 2, 70};
  Elements x = {QN_F32, {2, 3, 2, 70}, {}};
  for (size_t i = 0; i < 840; ++i) x.values.push_back(static_cast<double>(i * 7 % 31));
  for (size_t set = 0; set < 16; ++set) {
    std::vector<double> axes;
    Elements sums = {QN_F32, {}, {}}, flat = {QN_F32, {}, {}};
    size_t n = 1;
    for (size_t d = 0; d < 4; ++d) {
      const bool reduces = (set >> d & 1) != 0;
      if (reduces) axes.push_back(d % 2 == 0 ? double(d) : double(d) - 4);
      sums.shape.push_back(reduces ? 1 : shape[d]);
      if (!reduces) flat.shape.push_back(shape[d]);
      n *= sums.shape.back();
    }
    sums.values.assign(n, 0);
    for (size_t i = 0; i < 840; ++i) {
      size_t place = 0, left = i, step = 1;
      for (size_t d = 4; d-- > 0; left /= shape[d]) {
        if ((set >> d & 1) != 0) continue;
        place += left % shape[d] * step;
        step *= shape[d];
      }
      sums.values[place] += x.values[i];
    }
    flat.values = sums.values;
    const Parameter none = integers("none_without_axes", {1}), drop = integers("keep_dimensions", {0});
    expect_close({"reduce_sum", {x, s64(axes)}, {sums}, {none}});
    expect_close({"reduce_sum", {x, s64(axes)}, {flat}, {none, drop}});
    if (set == 0) continue;
    const Vector<int64_t> list(axes.begin(), axes.end());
    expect_close({"reduce_sum", {x}, {sums}, {integers("axes", list)}});
  }
  expect_refused({"reduce_sum", {x, s64({4})}, {x}}, "axis 4 of a tensor of rank 4");
  expect_refused({"reduce_sum", {x, s64({1, -3})}, {x}}, "an axis is given twice");
}

TEST(ExtraReductions, PlacesOfExtremes) {
  const Elements x = f32({2, 3}, {5, 5, 1, 2, 0, 0});
  expect_all({
      {"arg_max", {x}, {tensor(QN_S64, {1, 3}, {0, 0, 0})}},
      {"arg_max", {x}, {tensor(QN_S64, {2, 1}, {0, 0})}, {integers("axis", {1})}},
      {"arg_max",
       {x},
       {s64({1, 0})},
       {integers("axis", {-1}), integers("keep_dimensions", {0}), integers("last", {1})}},
      {"arg_min", {x}, {s64({2, 1})}, {integers("axis", {1}), integers("keep_dimensions", {0})}},
      {"arg_min", {x}, {s64({2, 2})}, {integers("axis", {1}), integers("keep_dimensions", {0}), integers("last", {1})}},
      {"arg_max", {f32({1, not_a_number, 9, not_a_number})}, {s64({1})}},
      {"arg_max", {u8({3, 200, 9})}, {s64({1})}},
      {"arg_max", {f32({0, 3}, {})}, {tensor(QN_S64, {0, 1}, {})}, {integers("axis", {1})}},
  });
  expect_refused({"arg_max", {f32({0, 3}, {})}, {s64({0})}}, "expected 1 element or more along the axis, got 0");
  expect_refused({"arg_max", {x}, {s64({0})}, {integers("axis", {2})}}, "axis 2 of a tensor of rank 2");
}

TEST(ExtraReductions, Determinants) {
  expect_all({
      {"det", {f32({2, 2}, {1, 2, 3, 4})}, {scalar(-2, QN_F32)}},
      {"det", {f32({2, 2, 2}, {0, 2, 3, 4, 1, 2, 2, 4})}, {f32({-6, 0})}},
      {"det", {f32({3, 3}, {2, 0, 1, 1, 3, 2, 1, 1, 4})}, {scalar(18, QN_F32)}},
      {"det", {f32({0, 0}, {})}, {scalar(1, QN_F32)}},
  });
  expect_refused({"det", {f32({2, 3}, {1, 2, 3, 4, 5, 6})}, {f32({1})}}, "square");
}

// ---- along an axis

TEST(ExtraAlong, Softmax) {
  const double a = 1 / (1 + std::exp(-1)), b = 1 - a, x = std::exp(1), sum = 2 + 2 * x;
  const Elements lines = f32({2, 2}, {1000, 1001, 3, 2}), same = f32({2, 2}, {1, 0, 0, 1});
  const Parameter first = integers("axis", {0}), to_end = integers("to_end", {1});
  expect_all({
      {"any_softmax", {lines}, {f32({2, 2}, {b, a, a, b})}},
      {"any_softmax", {same}, {f32({2, 2}, {a, b, b, a})}, {first}},
      {"any_softmax", {same}, {f32({2, 2}, {x / sum, 1 / sum, 1 / sum, x / sum})}, {first, to_end}},
      {"log_softmax", {lines}, {f32({2, 2}, {std::log(b), std::log(a), std::log(a), std::log(b)})}},
      {"hardmax", {f32({2, 3}, {1, 3, 3, 5, 4, 5})}, {f32({2, 3}, {0, 1, 0, 1, 0, 0})}},
      {"hardmax", {f32({2, 3}, {1, 3, 3, 5, 4, 3})}, {f32({2, 3}, {0, 0, 1, 1, 1, 0})}, {first}},
      {"any_softmax", {f32({2, 0}, {})}, {f32({2, 0}, {})}},
  });
  expect_refused({"any_softmax", {same}, {same}, {integers("axis", {2})}}, "axis 2 of a tensor of rank 2");
}

TEST(ExtraAlong, RunningSums) {
  const Elements x = f32({2, 3}, {1, 2, 3, 4, 5, 6}), last = scalar(1), first = scalar(0, QN_S32);
  const Parameter exclusive = integers("exclusive", {1}), reverse = integers("reverse", {1});
  expect_all({
      {"cumulative_sum", {x, last}, {f32({2, 3}, {1, 3, 6, 4, 9, 15})}},
      {"cumulative_sum", {x, s64({-2})}, {f32({2, 3}, {1, 2, 3, 5, 7, 9})}},
      {"cumulative_sum", {x, last}, {f32({2, 3}, {0, 1, 3, 0, 4, 9})}, {exclusive}},
      {"cumulative_sum", {x, last}, {f32({2, 3}, {6, 5, 3, 15, 11, 6})}, {reverse}},
      {"cumulative_sum", {x, last}, {f32({2, 3}, {5, 3, 0, 11, 6, 0})}, {exclusive, reverse}},
      {"cumulative_product", {x, first}, {f32({2, 3}, {1, 2, 3, 4, 10, 18})}},
      {"cumulative_product", {x, last}, {f32({2, 3}, {1, 1, 2, 1, 4, 20})}, {exclusive}},
      {"cumulative_sum", {s8({100, 100}), first}, {s8({100, -56})}},
  });
  expect_refused({"cumulative_sum", {x, scalar(2)}, {x}}, "axis 2 of a tensor of rank 2");
  expect_refused({"cumulative_sum", {x, s64({0, 1})}, {x}}, "the axis is not one number");
}

TEST(ExtraAlong, LrnAndWindows) {
  const double power = 0.5;
  const auto divided = [&](double x, double squares) { return x / std::pow(2 + 0.5 * squares, power); };
  const std::vector<Parameter> four = {integers("size", {4}), number("alpha", 2), number("beta", 0.5f),
                                       number("bias", 2)};
  const std::vector<Parameter> three = {integers("size", {3}), number("alpha", 1.5f), number("beta", 0.5f),
                                        number("bias", 2)};
  expect_all({
      // Four channels are one before and two behind.
      {"any_lrn",
       {f32({1, 4, 1}, {1, 2, 3, 4})},
       {f32({1, 4, 1}, {divided(1, 14), divided(2, 30), divided(3, 29), divided(4, 25)})},
       four},
      {"any_lrn",
       {f32({1, 6, 1}, {1, 2, 3, 4, 5, 6})},
       {f32({1, 6, 1},
            {divided(1, 5), divided(2, 14), divided(3, 29), divided(4, 50), divided(5, 77), divided(6, 61)})},
       three},
      {"window", {scalar(4)}, {f32({0, 0.5, 1, 0.5})}},
      {"window", {scalar(3, QN_S32)}, {f32({0, 1, 0})}, {integers("periodic", {0})}},
      {"window", {s64({2})}, {s32({0, 84})}, {number("a0", 42), number("a1", 42), number("a2", 0)}},
      {"window", {scalar(0)}, {f32({})}},
  });
  expect_refused({"any_lrn", {f32({1})}, {f32({1})}, four}, "rank 1");
  expect_refused({"any_lrn", {f32({1, 1}, {1})}, {f32({1})}}, "size is not positive");
  expect_refused({"window", {scalar(-1)}, {f32({})}}, "the size is negative");
}

// ---- conversions

TEST(ExtraConversions, Casts) {
  expect_all({
      {"cast", {f32({-1.75, 300, not_a_number, 3e9})}, {s32({-1, 300, 0, INT32_MAX})}},
      {"cast", {f32({-1.75, 300, 2.5})}, {u8({0, 255, 2})}},
      {"cast", {f32({0, -0.0, 0.1, not_a_number})}, {truth({0, 0, 1, 1})}},
      {"cast", {f32({1e20, -1e20})}, {s64({0x1p63, -0x1p63})}},
      {"cast", {s64({300, -1, 0x1p32})}, {u8({44, 255, 0})}},
      {"cast", {s32({-3, 3})}, {f32({-3, 3})}},
      {"cast", {truth({0, 1})}, {s8({0, 1})}},
      {"cast", {u8({0, 7})}, {truth({0, 1})}},
      {"cast",
       {f32({1.0 / 3, 65519, 65520, -70000, 0x1p-25, 0x1.8p-25, 2049, 2051, not_a_number})},
       {f32({0.333251953125, 65504, infinity, -infinity, 0, 0x1p-24, 2048, 2052, not_a_number})},
       {integers("half", {1})}},
      {"cast", {s32({100000})}, {f32({infinity})}, {integers("half", {1})}},
  });
}

TEST(ExtraConversions, Quantized) {
  const Elements x = f32({2, 3}, {-1, 0.5, 1.5, 2.5, 100, not_a_number}), two = scalar(2, QN_F32);
  const Elements rows = f32({1, 2}), columns = f32({1, 2, 4}), blocks = f32({2, 2}, {1, 2, 4, 8});
  const Parameter axis = integers("axis", {0}), block = integers("block_size", {2});
  expect_all({
      {"quantize_linear", {f32({-3, 1, 3, 5, 1e9}), two}, {u8({0, 0, 2, 2, 255})}},
      {"quantize_linear", {f32({-3, 1, 3, 5, -1e9}), two, scalar(-3, QN_S8)}, {s8({-5, -3, -1, -1, -128})}},
      {"quantize_linear", {x, rows}, {tensor(QN_U8, {2, 3}, {0, 0, 2, 1, 50, 0})}, {axis}},
      {"quantize_linear", {x, columns, u8({1, 2, 3})}, {tensor(QN_U8, {2, 3}, {0, 2, 3, 3, 52, 0})}},
      {"quantize_linear", {x, blocks}, {tensor(QN_U8, {2, 3}, {0, 0, 1, 1, 25, 0})}, {block}},
      {"quantize_linear", {s32({-3, 6}), two}, {u8({0, 3})}},
      {"dequantize_linear", {u8({0, 255}), two, scalar(128, QN_U8)}, {f32({-256, 254})}},
      {"dequantize_linear", {s32({-3, 1 << 30}), two}, {f32({-6, 0x1p31})}},
      {"dequantize_linear",
       {tensor(QN_S8, {2, 2}, {1, 2, 3, 4}), rows, s8({1, 2})},
       {f32({2, 2}, {0, 1, 2, 4})},
       {axis}},
      {"dequantize_linear",
       {tensor(QN_S8, {2, 3}, {1, 2, 3, 4, 5, 6}), blocks},
       {f32({2, 3}, {1, 2, 6, 16, 20, 48})},
       {block}},
      {"dynamic_quantize_linear",
       {f32({0, 2, -3, -2.5, 1.34, 0.5})},
       {u8({153, 255, 0, 26, 221, 179}), scalar(5.0f / 255, QN_F32), scalar(153, QN_U8)}},
      {"dynamic_quantize_linear", {f32({-1, -2})}, {u8({128, 0}), scalar(2.0f / 255, QN_F32), scalar(255, QN_U8)}},
      {"dynamic_quantize_linear", {f32({0, 0})}, {u8({0, 0}), scalar(1, QN_F32), scalar(0, QN_U8)}},
      {"dynamic_quantize_linear", {f32({})}, {u8({}), scalar(1, QN_F32), scalar(0, QN_U8)}},
  });
  const Elements y = tensor(QN_U8, {2, 3}, {});
  expect_refused({"quantize_linear", {x, f32({1, 2, 3, 4})}, {y}}, "not one scale for each index of the axis");
  expect_refused({"quantize_linear", {x, rows, u8({1})}, {y}, {axis}}, "not as many zero points as scales");
  expect_refused({"quantize_linear", {x, blocks, s8({1})}, {y}, {block}}, "input 2 is s8, not u8");
  expect_refused({"quantize_linear", {x, blocks}, {y}, {integers("block_size", {1})}}, "and block_size");
  expect_refused({"quantize_linear", {x, blocks}, {y}, {integers("block_size", {-1})}}, "block_size is negative");
  expect_refused({"quantize_linear", {x, two}, {f32({})}}, "neither s8 nor u8");
}

// ---- products of bytes

TEST(ExtraIntegers, MatrixProducts) {
  const Elements a = tensor(QN_U8, {2, 3}, {11, 7, 3, 10, 6, 2}), b = tensor(QN_S8, {3, 2}, {1, 4, 2, -5, 3, 6});
  const Elements c = tensor(QN_S32, {2, 2}, {-38 + 48, -83 + 123, -44 + 48, -88 + 123});
  const Elements product = tensor(QN_S32, {2, 2}, {11 + 14 + 9, 44 - 35 + 18, 10 + 12 + 6, 40 - 30 + 12});
  expect_all({
      {"mat_mul_integer", {a, b}, {product}},
      // (a - 12) * (b - {0, 1})
      {"mat_mul_integer",
       {a, b, scalar(12, QN_U8), s8({0, 1})},
       {tensor(QN_S32, {2, 2}, {-1 - 10 - 27, -3 + 30 - 45, -2 - 12 - 30, -6 + 36 - 50})}},
      // a zero point for each row of a
      {"mat_mul_integer", {a, b, u8({11, 10})}, {tensor(QN_S32, {2, 2}, {-8 - 24, 20 - 48, -8 - 24, 20 - 48})}},
      {"mat_mul_integer", {u8({1, 2, 3}), b}, {s32({14, 12})}},
      {"mat_mul_integer", {a, s8({1, 1, 1})}, {s32({21, 18})}},
      {"mat_mul_integer",
       {tensor(QN_U8, {2, 1, 2}, {1, 2, 3, 4}), tensor(QN_U8, {2, 1}, {1, 10})},
       {tensor(QN_S32, {2, 1, 1}, {21, 43})}},
      {"mat_mul_integer", {tensor(QN_U8, {2, 0}, {}), tensor(QN_U8, {0, 1}, {})}, {tensor(QN_S32, {2, 1}, {0, 0})}},
  });
  const auto quantized = [&](Elements scale_b, Elements y_zero, Elements y) {
    return NodeCase{"mat_mul_quantized",
                    {a, scalar(0.5, QN_F32), scalar(0, QN_U8), b, std::move(scale_b), scalar(0, QN_S8),
                     scalar(2, QN_F32), std::move(y_zero)},
                    {std::move(y)}};
  };
  expect_all({
      quantized(scalar(1, QN_F32), scalar(1, QN_U8), tensor(QN_U8, {2, 2}, {8 + 1, 7 + 1, 7 + 1, 6 + 1})),
      quantized(f32({1, 100}), scalar(-1, QN_S8), tensor(QN_S8, {2, 2}, {8 - 1, 127, 7 - 1, 127})),
  });
  expect_refused({"mat_mul_integer", {a, a}, {c}}, "rows of 3 and columns of 2 do not fit");
  expect_refused({"mat_mul_integer", {a, b, s8({1})}, {c}}, "input 2 is s8, not u8");
  expect_refused({"mat_mul_integer", {a, b, u8({1, 2, 3})}, {c}}, "do not broadcast");
  expect_refused({"mat_mul_integer", {f32({2, 3}, {1, 1, 1, 1, 1, 1}), b}, {c}}, "input 0 is f32, not u8");
  expect_refused({"mat_mul_integer", {scalar(1, QN_U8), b}, {c}}, "an operand is a scalar");
}

TEST(ExtraIntegers, Convolutions) {
  const Elements x = tensor(QN_U8, {1, 1, 3, 3}, {2, 3, 4, 5, 6, 7, 8, 9, 10}),
                 ones = tensor(QN_U8, {1, 1, 2, 2}, {1, 1, 1, 1});
  const Elements one = scalar(1, QN_U8), sums = tensor(QN_S32, {1, 1, 2, 2}, {12, 16, 24, 28});
  const Elements same = tensor(QN_S32, {1, 1, 3, 3}, {12, 16, 9, 24, 28, 15, 15, 17, 9});
  const Elements lower = tensor(QN_S32, {1, 1, 3, 3}, {1, 3, 5, 5, 12, 16, 11, 24, 28});
  expect_all({
      {"conv_integer", {x, ones, one}, {sums}},
      {"conv_integer", {x, ones, one}, {same}, {integers("same", {1})}},
      {"conv_integer", {x, ones, one}, {lower}, {integers("same", {2})}},
      {"conv_integer", {x, ones, one}, {same}, {integers("pads", {0, 0, 1, 1})}},
      {"conv_integer", {x, ones, one}, {tensor(QN_S32, {1, 1, 1, 1}, {20})}, {integers("dilations", {2, 2})}},
      {"conv_integer", {x, ones, one}, {tensor(QN_S32, {1, 1, 1, 1}, {12})}, {integers("strides", {2, 2})}},
      // two groups of one dimension, with a zero point for each output
      {"conv_integer",
       {tensor(QN_S8, {1, 2, 3}, {1, 2, 3, -1, -2, -3}), tensor(QN_S8, {2, 1, 2}, {2, 3, 5, 6}), absent, s8({1, 4})},
       {tensor(QN_S32, {1, 2, 2}, {5, 8, -5, -8})},
       {integers("groups", {2})}},
      {"conv_quantized",
       {x, scalar(0.5, QN_F32), one, tensor(QN_U8, {2, 1, 2, 2}, {1, 1, 1, 1, 2, 2, 2, 2}), f32({1, 0.25}), u8({0, 0}),
        scalar(2, QN_F32), scalar(3, QN_U8), s32({4, -8})},
       {tensor(QN_U8, {1, 2, 2, 2}, {7, 8, 10, 11, 4, 5, 5, 6})}},
  });
  expect_refused({"conv_integer", {x, ones}, {sums}, {integers("strides", {0, 1})}}, "strides");
  expect_refused({"conv_integer", {x, ones}, {sums}, {integers("pads", {1})}}, "pads");
  expect_refused({"conv_integer", {x, ones}, {sums}, {integers("kernel", {3, 2})}}, "kernel differs from the weights");
  expect_refused({"conv_integer", {x, ones}, {sums}, {integers("groups", {0})}}, "groups is out of range");
  expect_refused({"conv_integer", {x, ones}, {sums}, {integers("groups", {2})}}, "channels of input and weights");
  expect_refused({"conv_integer", {x, ones, u8({1, 2})}, {sums}}, "input 2 does not fit");
}

// Each place sees the image's only pixel by one tap; all other taps, 2^36 in sum, are padding and must cost nothing.
TEST(ExtraIntegers, KernelsFarLargerThanTheImage) {
  constexpr size_t size = size_t{1} << 18;
  std::vector<double> taps(size), sums(size);
  for (size_t i = 0; i < size; ++i) taps[i] = static_cast<double>(i % 251);
  for (size_t i = 0; i < size; ++i) sums[i] = 3 * taps[size - 1 - i];
  expect_node({"conv_integer",
               {tensor(QN_U8, {1, 1, 1}, {3}), tensor(QN_U8, {1, 1, size}, taps)},
               {tensor(QN_S32, {1, 1, size}, sums)},
               {integers("pads", {size - 1, size - 1})}});
}

}  // namespace elementwise_test
}  // namespace quern::test
