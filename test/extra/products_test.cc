// Products of matrices: matmul, gemm, einsum.
#include <limits>

#include "near.h"

namespace quern::test {
namespace products_test {

Elements of(qn_type type, std::vector<size_t> shape, std::vector<double> values) {
  return {type, std::move(shape), std::move(values)};
}

// A stack of products: a [stack, m, k], b [stack, k, n]. `a_repeats`: there is one a for all of the stack.
std::vector<double> product(const Elements& a, const Elements& b, size_t stack, size_t m, size_t n, size_t k,
                            bool a_repeats = false, bool b_repeats = false) {
  std::vector<double> c;
  for (size_t s = 0; s < stack; ++s) {
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (size_t l = 0; l < k; ++l) {
          sum += a.values[(a_repeats ? 0 : s * m * k) + i * k + l] * b.values[(b_repeats ? 0 : s * k * n) + l * n + j];
        }
        c.push_back(sum);
      }
    }
  }
  return c;
}

TEST(ExtraMatmul, StacksOfMatrices) {
  struct Case {
    std::vector<size_t> a, b, c;
    size_t stack, m, n, k;
    bool a_repeats = false, b_repeats = false;
  };
  const Case cases[] = {
      {{3, 4}, {4, 5}, {3, 5}, 1, 3, 5, 4},
      {{7, 20}, {20, 33}, {7, 33}, 1, 7, 33, 20},
      {{4}, {4, 5}, {5}, 1, 1, 5, 4},
      {{3, 4}, {4}, {3}, 1, 3, 1, 4},
      {{4}, {4}, {}, 1, 1, 1, 4},
      {{2, 3, 4}, {2, 4, 5}, {2, 3, 5}, 2, 3, 5, 4},
      {{6, 3, 4}, {4, 5}, {6, 3, 5}, 6, 3, 5, 4, false, true},
      {{6, 3, 4}, {1, 4, 5}, {6, 3, 5}, 6, 3, 5, 4, false, true},
      {{5, 4}, {6, 4, 3}, {6, 5, 3}, 6, 5, 3, 4, true},
      {{2, 1, 9, 4}, {2, 1, 4, 8}, {2, 1, 9, 8}, 2, 9, 8, 4},
  };
  for (const Case& c : cases) {
    for (const qn_type type : {QN_F32, QN_S32, QN_S64}) {
      Elements a = random_floats(c.a, 1), b = random_floats(c.b, 2);
      for (Elements* x : {&a, &b}) {
        for (double& value : x->values) value *= 128;  // integers
        x->type = type;
      }
      expect_near({"matmul", {a, b}, {of(type, c.c, product(a, b, c.stack, c.m, c.n, c.k, c.a_repeats, c.b_repeats))}});
    }
  }
}

TEST(ExtraMatmul, SumsOfIntegersWrapAround) {
  const double big = std::numeric_limits<int32_t>::max();
  expect_node(
      {"matmul", {of(QN_S32, {1, 2}, {big, big}), of(QN_S32, {2, 1}, {2, 1})}, {of(QN_S32, {1, 1}, {big - 2})}});
}

TEST(ExtraMatmul, Refusals) {
  expect_refused({"matmul", {random_floats({3, 4}), random_floats({5, 4})}, {floats({3, 4}, {})}}, "differ in length");
  expect_refused({"matmul", {random_floats({}), random_floats({4})}, {floats({}, {})}}, "a factor is a scalar");
  expect_refused({"matmul", {random_floats({2, 3, 4}), random_floats({3, 4, 5})}, {floats({}, {})}},
                 "do not broadcast");
  expect_refused({"matmul", {random_floats({3, 4}), of(QN_S32, {4, 1}, {1, 1, 1, 1})}, {floats({}, {})}},
                 "input 1 is s32, not f32");
  expect_refused({"matmul", {of(QN_S8, {1, 1}, {1}), of(QN_S8, {1, 1}, {1})}, {of(QN_S8, {}, {})}}, "products of s8");
}

TEST(ExtraGemm, TransposesScalesAndAdds) {
  const size_t m = 7, n = 6, k = 9;
  const Elements a = random_floats({m, k}, 1), b = random_floats({k, n}, 2);
  const auto transposed = [](const Elements& x) {
    Elements out = floats({x.shape[1], x.shape[0]}, {});
    for (size_t j = 0; j < x.shape[1]; ++j) {
      for (size_t i = 0; i < x.shape[0]; ++i) out.values.push_back(x.values[i * x.shape[1] + j]);
    }
    return out;
  };
  for (const std::vector<size_t>& shape : std::vector<std::vector<size_t>>{{}, {1}, {n}, {m, 1}, {1, n}, {m, n}}) {
    const Elements c = random_floats(shape, 3);
    std::vector<double> expected = product(a, b, 1, m, n, k);
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        const bool rows = shape.size() == 2 && shape[0] == m, columns = !shape.empty() && shape.back() == n;
        const size_t at = (rows ? i * (columns ? n : 1) : 0) + (columns ? j : 0);
        expected[i * n + j] = 0.5 * expected[i * n + j] + 2 * c.values[at];
      }
    }
    for (const int64_t variant : {0, 1, 2, 3}) {
      const int64_t ta = variant & 1, tb = variant >> 1;
      expect_near(
          {"gemm",
           {ta ? transposed(a) : a, tb ? transposed(b) : b, c},
           {floats({m, n}, expected)},
           {integers("trans_a", {ta}), integers("trans_b", {tb}), numbers("alpha", {0.5f}), numbers("beta", {2})}});
    }
  }
  expect_near({"gemm", {a, b}, {floats({m, n}, product(a, b, 1, m, n, k))}});
}

TEST(ExtraGemm, Integers) {
  const Elements a = of(QN_S32, {1, 2}, {3, -2}), b = of(QN_S32, {2, 2}, {1, 2, 3, 4}), c = of(QN_S32, {2}, {5, -5});
  expect_node({"gemm", {a, b, c}, {of(QN_S32, {1, 2}, {2, -7})}});
  expect_node({"gemm", {a, b, c}, {of(QN_S32, {1, 2}, {4, -6})}, {numbers("alpha", {0.5f}), numbers("beta", {1})}});
}

TEST(ExtraGemm, Refusals) {
  const Elements a = random_floats({3, 4}), b = random_floats({4, 5}), y = floats({}, {});
  expect_refused({"gemm", {a, random_floats({5, 4})}, {y}}, "differ in length");
  expect_refused({"gemm", {a, random_floats({4})}, {y}}, "not matrices");
  expect_refused({"gemm", {a, b, random_floats({2, 5})}, {y}}, "do not broadcast");
  expect_refused({"gemm", {a, b, random_floats({1, 3, 5})}, {y}}, "does not broadcast to the product");
}

Parameter equation(const std::string& text) { return integers("equation", {text.begin(), text.end()}); }

TEST(ExtraEinsum, Equations) {
  const Elements a = random_floats({2, 3}, 1), b = random_floats({3, 4}, 2), square = floats({2, 2}, {1, 2, 3, 4});
  const Elements v = floats({2}, {1, 10}), w = floats({3}, {1, 2, 3}), one = floats({1, 3}, {1, 2, 3});
  const std::vector<double> ab = product(a, b, 1, 2, 4, 3);
  const auto expect = [](const char* text, const std::vector<Elements>& inputs, const Elements& y) {
    SCOPED_TRACE(text);
    expect_near({"einsum", inputs, {y}, {equation(text)}});
  };
  expect("ij,jk->ik", {a, b}, floats({2, 4}, ab));
  expect(" ij , jk ", {a, b}, floats({2, 4}, ab));  // the output follows
  expect("...j,jk->...k", {a, b}, floats({2, 4}, ab));
  expect("ij->ji", {square}, floats({2, 2}, {1, 3, 2, 4}));
  expect("ba", {square}, floats({2, 2}, {1, 3, 2, 4}));
  expect("ii->i", {square}, floats({2}, {1, 4}));
  expect("ii", {square}, floats({}, {5}));
  expect("ij->", {square}, floats({}, {10}));
  expect("...j->...", {square}, floats({2}, {3, 7}));
  expect("i,j->ij", {v, w}, floats({2, 3}, {1, 2, 3, 10, 20, 30}));
  expect("i,i", {v, v}, floats({}, {101}));
  expect("i,j->i", {v, w}, floats({2}, {6, 60}));
  expect("i,ij,j->", {v, square, v}, floats({}, {451}));
  expect("ij,ij->ij", {one, floats({2, 3}, {1, 1, 1, 2, 2, 2})}, floats({2, 3}, {1, 2, 3, 2, 4, 6}));  // 1 repeats
  expect("ij,jk->ik", {floats({2, 0}, {}), floats({0, 2}, {})}, floats({2, 2}, {0, 0, 0, 0}));
  expect("i,i->i", {of(QN_S64, {2}, {3, -4}), of(QN_S64, {2}, {5, 6})}, of(QN_S64, {2}, {15, -24}));
}

TEST(ExtraEinsum, Refusals) {
  const Elements a = random_floats({2, 3}), y = floats({}, {});
  const auto refused = [&](const std::string& text, const std::vector<Elements>& inputs, const char* why) {
    expect_refused({"einsum", inputs, {y}, {equation(text)}}, why);
  };
  refused("ijk->i", {a}, "'ijk' for 2 dimensions");
  refused("i->i", {a}, "'i' for 2 dimensions");
  refused("i1->i", {a}, "expected letters and one ellipsis at most, got term 'i1'");
  refused("ij,jk->ik", {a}, "more terms than");
  refused("ij->ij", {a, a}, "fewer terms than");
  refused("ij,jk->ik", {a, a}, "a label has the sizes 3 and 2");
  refused("ij->k", {a}, "a label of the output is in no term");
  refused("ij->ii", {a}, "a label is twice in the output");
  refused("......->", {a}, "'......' for 2 dimensions");
  refused("", {a}, "'' for 2 dimensions");
  refused("i\x01", {a}, "expected letters and one ellipsis at most, got term");
}

}  // namespace products_test
}  // namespace quern::test
