// One product through every gemm level with FMA gives the same bits on every machine, so their digest can stand here.
// It was computed with exact integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "base/cpu.h"
#include "sums.h"

namespace quern::check {
namespace bits_test {

constexpr size_t m = 29, n = 75, k = 53;

std::vector<float> product(const GemmRow& row) {
  Random random(1);
  std::vector<float> a(m * k), c(m * n);
  random.fill(a, Values::random);
  const F32Sums sums(numbers_of(row), Values::random, {-2, 3}, k, random);
  Panels<F32Sums> panels({row.nr, n, k});
  panels.fill(sums, random);
  Guarded w("w", Access::input);
  w.place(panels.layout().bytes(), Side::low, 64);
  panels.write(w);
  for (size_t i = 0; i < m; i += row.mr) {
    row.run(std::min<size_t>(row.mr, m - i), n, k * 4, &a[i * k], k * 4, w.address(), &c[i * n], n * 4, &sums.p);
  }
  return c;
}

// FNV-1a over the bits.
uint64_t digest(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const float value : values) hash = (hash ^ std::bit_cast<uint32_t>(value)) * 0x100000001b3;
  return hash;
}

TEST(Bits, OfEveryFusedGemmAreTheSameOnEveryMachine) {
  size_t rows = 0;
  for (const GemmRow& row : gemm_rows()) {
    if (row.type != KernelType::f32 || !numbers_of(row).fused || !runs_on(row, cpu().isa)) continue;
    ++rows;
    EXPECT_EQ(digest(product(row)), 0xc6641d926dd746b2u) << row.name;
  }
  if (rows == 0) GTEST_SKIP() << "no level with FMA runs here";
}

}  // namespace bits_test
}  // namespace quern::check
