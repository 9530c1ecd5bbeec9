// qn_gemm_f32 against a naive product of small integers, which is exact in any order.
#include <cmath>
#include <limits>

#include "harness.h"

namespace quern::test {
namespace gemm_test {

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(Gemm, OddSizes) {
  const Threads threads(3);
  for (const size_t m : {1, 2, 13, 15, 67}) {
    for (const size_t n : {1, 3, 16, 33, 65}) {
      for (const size_t k : {0, 1, 7, 64, 101}) {
        const size_t lda = k + 3, ldc = n + 5;
        const std::vector<float> bias = integers(n, 3);
        for (const bool transpose : {false, true}) {
          const size_t ldb = (transpose ? k : n) + 2;
          const std::vector<float> a = integers(m * lda, 1), b = integers((transpose ? n : k) * ldb + 1, 2);
          for (const bool with_bias : {false, true}) {
            std::vector<float> expected(m * ldc, 1234);
            for (size_t i = 0; i < m; ++i) {
              for (size_t j = 0; j < n; ++j) {
                float sum = with_bias ? bias[j] : 0;
                for (size_t l = 0; l < k; ++l) sum += a[i * lda + l] * b[transpose ? j * ldb + l : l * ldb + j];
                expected[i * ldc + j] = std::min(std::max(sum, -50.0f), 60.0f);
              }
            }
            for (const qn_parallel* parallel : {static_cast<const qn_parallel*>(nullptr), threads.parallel()}) {
              std::vector<float> c(m * ldc, 1234);
              ASSERT_QN_OK(qn_gemm_f32(m, n, k, a.data(), lda, b.data(), ldb, transpose,
                                       with_bias ? bias.data() : nullptr, -50, 60, c.data(), ldc, parallel));
              ASSERT_TRUE(same_bits(c, expected)) << m << " " << n << " " << k << " " << transpose;
            }
          }
        }
      }
    }
  }
}

TEST(Gemm, BitsDoNotDependOnThreads) {
  const size_t m = 150, n = 170, k = 130;
  const std::vector<float> a = reals(m * k, 1), b = reals(k * n, 2);
  std::vector<float> one(m * n), many(m * n);
  const Threads threads(4);
  ASSERT_QN_OK(qn_gemm_f32(m, n, k, a.data(), k, b.data(), n, 0, nullptr, -infinity, infinity, one.data(), n, nullptr));
  ASSERT_QN_OK(qn_gemm_f32(m, n, k, a.data(), k, b.data(), n, 0, nullptr, -infinity, infinity, many.data(), n,
                           threads.parallel()));
  EXPECT_TRUE(same_bits(one, many));
}

TEST(Gemm, EmptyMatricesAndRefusedArguments) {
  float x[16] = {};
  const auto call = [&](size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b, size_t ldb,
                        bool transpose, float min, float max, float* c, size_t ldc) {
    return qn_gemm_f32(m, n, k, a, lda, b, ldb, transpose, nullptr, min, max, c, ldc, nullptr);
  };
  EXPECT_EQ(call(0, 4, 4, nullptr, 0, x, 4, false, 0, 1, nullptr, 0), QN_OK);
  EXPECT_EQ(call(4, 0, 4, x, 4, nullptr, 0, false, 0, 1, nullptr, 0), QN_OK);
  EXPECT_EQ(call(2, 2, 0, nullptr, 0, nullptr, 0, false, 0, 1, x, 2), QN_OK);
  EXPECT_EQ(call(2, 2, 2, nullptr, 2, x, 2, false, 0, 1, x, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, 2, x, 2, nullptr, 2, false, 0, 1, x, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, 2, x, 2, x, 2, false, 0, 1, nullptr, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, 3, x, 2, x, 2, false, 0, 1, x, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 3, 2, x, 2, x, 2, false, 0, 1, x, 3), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, 3, x, 3, x, 2, true, 0, 1, x, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 3, 2, x, 2, x, 3, false, 0, 1, x, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, 2, x, 2, x, 2, false, 1, 0, x, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, 2, x, 2, x, 2, false, std::nanf(""), 0, x, 2), QN_INVALID_ARGUMENT);
  EXPECT_EQ(call(2, 2, 2, x, SIZE_MAX / 2, x, 2, false, 0, 1, x, 2), QN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(qn_last_message()).find("qn_gemm_f32"), std::string::npos);
}

}  // namespace gemm_test
}  // namespace quern::test
