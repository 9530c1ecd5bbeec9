// qn_spmm_f32 against a naive product of small integers, which is exact in any order.
#include <cmath>
#include <limits>

#include "harness.h"

namespace quern::test {
namespace spmm_test {

constexpr float infinity = std::numeric_limits<float>::infinity();

// m x k small integers, of which about this part is zero, in blocks of so many rows.
std::vector<float> sparse(size_t m, size_t k, size_t block, float zeros) {
  std::vector<float> a = integers(m * k, 1);
  for (size_t i = 0; i < m; ++i) {
    const std::vector<float> keep = reals(k, static_cast<uint32_t>(10 + i / block), 0, 1);
    for (size_t l = 0; l < k; ++l) a[i * k + l] = keep[l] < zeros ? 0 : a[i * k + l];
  }
  return a;
}

qn_weights dense_weights(const std::vector<float>& a) {
  qn_weights w;
  qn_weights_init(&w);
  w.data = a.data();
  return w;
}

TEST(Spmm, OddSizesAndEveryEncoding) {
  const Threads threads(3);
  for (const size_t m : {1, 17, 70}) {
    for (const size_t n : {1, 15, 131}) {
      for (const size_t k : {1, 64, 301}) {
        for (const size_t block : {1, 2, 4, 8, 16}) {
          const size_t ldb = n + 2, ldc = n + 5;
          const std::vector<float> a = sparse(m, k, block, 0.8f), b = integers(k * ldb, 2), bias = integers(m, 3);
          std::vector<float> expected(m * ldc, 1234);
          for (size_t i = 0; i < m; ++i) {
            for (size_t j = 0; j < n; ++j) {
              float sum = bias[i];
              for (size_t l = 0; l < k; ++l) sum += a[i * k + l] * b[l * ldb + j];
              expected[i * ldc + j] = std::min(std::max(sum, -50.0f), 60.0f);
            }
          }
          const SparseWeights stored(a, 1, m, k, static_cast<uint32_t>(block));
          for (const qn_weights& weights : {dense_weights(a), stored.get()}) {
            for (const qn_parallel* parallel : {static_cast<const qn_parallel*>(nullptr), threads.parallel()}) {
              std::vector<float> c(m * ldc, 1234);
              ASSERT_QN_OK(
                  qn_spmm_f32(m, n, k, &weights, b.data(), ldb, bias.data(), -50, 60, c.data(), ldc, parallel));
              ASSERT_TRUE(same_bits(c, expected)) << m << " " << n << " " << k << " " << block;
            }
          }
        }
      }
    }
  }
}

TEST(Spmm, InfinitiesGoNoFurtherThanInADenseProduct) {
  const std::vector<float> a = {1, 0, 0, 2}, b = {3, 4, infinity, 5};
  const qn_weights weights = dense_weights(a);
  std::vector<float> c(4);
  ASSERT_QN_OK(qn_spmm_f32(2, 2, 2, &weights, b.data(), 2, nullptr, -infinity, infinity, c.data(), 2, nullptr));
  for (const size_t i : {0, 2}) EXPECT_TRUE(!std::isfinite(c[i]) || c[i] == 3) << c[i];
  EXPECT_FALSE(std::isfinite(c[2]));
  EXPECT_EQ(c[1], 4);
  EXPECT_EQ(c[3], 10);
}

TEST(Spmm, EmptyMatricesAndRefusedArguments) {
  float x[16] = {1, 2, 3, 4};
  qn_weights w;
  qn_weights_init(&w);
  w.data = x;
  const auto call = [&](size_t m, size_t n, size_t k, const qn_weights* a, const float* b, size_t ldb, float min,
                        float max, float* c,
                        size_t ldc) { return qn_spmm_f32(m, n, k, a, b, ldb, nullptr, min, max, c, ldc, nullptr); };
  float c[16] = {};
  EXPECT_EQ(call(0, 4, 4, nullptr, x, 4, 0, 1, nullptr, 0), QN_OK);
  EXPECT_EQ(call(4, 0, 4, &w, nullptr, 0, 0, 1, nullptr, 0), QN_OK);
  EXPECT_EQ(call(2, 2, 0, nullptr, nullptr, 0, 0, 1, c, 2), QN_OK);
  EXPECT_EQ(call(2, 2, 2, nullptr, x, 2, 0, 1, c, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, 2, &w, nullptr, 2, 0, 1, c, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, 2, &w, x, 2, 0, 1, nullptr, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 3, 2, &w, x, 2, 0, 1, c, 3), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 3, 2, &w, x, 3, 0, 1, c, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, 2, &w, x, 2, 1, 0, c, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, 2, &w, x, 2, std::nanf(""), 0, c, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, 2, &w, x, SIZE_MAX / 2, 0, 1, c, 2), QN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(qn_last_message()).find("qn_spmm_f32"), std::string::npos);
}

}  // namespace spmm_test
}  // namespace quern::test
