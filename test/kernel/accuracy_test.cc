// Real errors of exp, sigmoid and tanh on every level, against double precision, over the whole range of floats.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernel/eltwise.h"

namespace quern {
namespace accuracy_test {

constexpr uint32_t step = 997;  // 4.3 million values
constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// Distance of two neighbouring floats at |x|.
double ulp_at(double x) {
  const int exponent = x == 0 ? -126 : std::max(std::ilogb(x), -126);
  return std::ldexp(1.0, exponent - 23);
}

// Finite floats of both signs, every `distance`-th bit pattern (a prime, so that the low bits vary).
std::vector<float> sweep(uint32_t distance) {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < 0x7f800000u; bits += distance) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    values.push_back(-values.back());
  }
  return values;
}

// Is a result too small for the row, because its level flushes denormals?
bool loses(const Row& row, double exact) {
  return (row.isa & flushing_levels) != 0 && std::abs(exact) < std::numeric_limits<float>::min();
}

struct Case {
  UnaryKind kind;
  double (*exact)(double);
  double bound_ulp;  // as in eltwise.h
};

const Case cases[] = {
    {UnaryKind::exp, [](double x) { return std::exp(x); }, 1.1},
    {UnaryKind::sigmoid, [](double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }, 3},
    {UnaryKind::tanh, [](double x) { return std::tanh(x); }, 3},
};

std::vector<float> evaluate(const UnaryRow& row, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  const qn_unary_f32 p = {-inf, inf, 1};
  row.run(x.size(), x.data(), y.data(), &p);
  return y;
}

class Accuracy : public testing::TestWithParam<Case> {};

TEST_P(Accuracy, ErrorIsBelowTheBoundOfTheContract) {
  const std::vector<float> x = sweep(step);
  for (const UnaryRow& row : unary_rows()) {
    if (row.kind != GetParam().kind || !runs_on(row, cpu().isa)) continue;
    const std::vector<float> y = evaluate(row, x);
    double worst = 0;
    float where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = GetParam().exact(x[i]);
      if (std::isinf(static_cast<float>(exact))) {
        ASSERT_EQ(y[i], static_cast<float>(exact)) << row.name << " at " << x[i];
        continue;
      }
      if (loses(row, exact)) {
        ASSERT_LT(std::abs(y[i]), std::numeric_limits<float>::min()) << row.name << " at " << x[i];
        continue;
      }
      const double error = std::abs(y[i] - exact) / ulp_at(exact);
      ASSERT_FALSE(std::isnan(error)) << row.name << " at " << x[i];
      if (error > worst) worst = error, where = x[i];
    }
    EXPECT_LT(worst, GetParam().bound_ulp) << row.name << " at " << where;
    std::printf("%-24s %zu values, largest error %.3f ulp, at %.9g\n", row.name, x.size(), worst,
                static_cast<double>(where));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Accuracy, testing::ValuesIn(cases));

TEST(Accuracy, SpecialValues) {
  const std::vector<float> x = {0.f, -0.f, inf, -inf, 89.5f, -104.5f, 1e-42f, -1e-42f};
  for (const UnaryRow& row : unary_rows()) {
    if (!runs_on(row, cpu().isa) || row.type != KernelType::f32) continue;
    SCOPED_TRACE(row.name);
    const std::vector<float> y = evaluate(row, x);
    if (row.kind == UnaryKind::exp) {
      EXPECT_EQ(y, (std::vector<float>{1, 1, inf, 0, inf, 0, 1, 1}));
    } else if (row.kind == UnaryKind::sigmoid) {
      EXPECT_EQ(y, (std::vector<float>{0.5, 0.5, 1, 0, 1, 0, 0.5, 0.5}));
    } else if (row.kind == UnaryKind::tanh) {
      const float tiny = loses(row, 1e-42f) ? 0 : 1e-42f;
      EXPECT_EQ(y, (std::vector<float>{0, 0, 1, -1, 1, -1, tiny, -tiny}));
      EXPECT_TRUE(std::signbit(y[1]));
    }
    for (float value : evaluate(row, std::vector<float>(37, nan))) EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace accuracy_test
}  // namespace quern
