// Every level of an elementwise or pooling kernel gives the bits of the reference, for all small sizes.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "../check/flushing.h"
#include "kernel/eltwise.h"
#include "kernel/pool.h"

namespace quern {
namespace same_bits_test {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr size_t max_size = 70;  // more than four of the widest vectors

// Mostly ordinary numbers, now and then a special one.
std::vector<float> numbers(size_t n, uint32_t seed) {
  static constexpr float special[] = {0.f, -0.f, inf, -inf, nan, 1e-41f, -1e-41f, 3e38f, -3e38f, 100.f, -100.f};
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& v : values) {
    const uint32_t r = random();
    v = r % 16 == 0 ? special[r / 16 % std::size(special)] : static_cast<float>(static_cast<int32_t>(r)) * 0x1p-28f;
  }
  return values;
}

bool flushes(const Row& row) { return (row.isa & flushing_levels) != 0; }

// Equal bits; any NaN equals any NaN, and zeros are equal when `any_zero`. Of a row that flushes, denormals
// and zeros are equal.
void expect_same(const Row& row, const std::vector<float>& got, const std::vector<float>& want, bool any_zero = false) {
  ASSERT_EQ(got.size(), want.size());
  const auto is_tiny = [](float x) { return std::abs(x) < std::numeric_limits<float>::min(); };
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    if (flushes(row) && is_tiny(got[i]) && is_tiny(want[i])) continue;
    if (any_zero && got[i] == 0 && want[i] == 0) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << "element " << i << ": " << got[i] << ", reference " << want[i];
  }
}

// Runs the reference with the denormals of the row's level.
template <class Body>
void as_level(const Row& row, Body body) {
  const check::Flushing flushing(flushes(row));
  body();
}

// Calls body(row, reference) for every row of floats above the reference that this CPU runs. (The checker compares bytes
// with its own formulas.)
template <class Rows, class Body>
void for_each_pair(const Rows& rows, Body body) {
  for (const auto& row : rows) {
    if (!runs_on(row, cpu().isa) || row.type != KernelType::f32) continue;
    for (const auto& reference : rows) {
      if (reference.isa == isa_ref && reference.type == row.type && reference.kind == row.kind &&
          reference.layout == row.layout) {
        SCOPED_TRACE(row.name);
        body(row, reference);
      }
    }
  }
}

TEST(SameBits, Unary) {
  static constexpr qn_unary_f32 parameters[] = {{-1, 2, 1}, {0.5, 1, 2}, {2, 1, 0.5}, {1, 0, -1}, {1, 2, 0.75}};
  for_each_pair(unary_rows(), [](const UnaryRow& row, const UnaryRow& reference) {
    for (size_t n = 1; n <= max_size; ++n) {
      for (const qn_unary_f32& p : parameters) {
        std::vector<float> x = numbers(n, static_cast<uint32_t>(n)), want(n), y(n);
        as_level(row, [&] { reference.run(n, x.data(), want.data(), &p); });
        row.run(n, x.data(), y.data(), &p);
        expect_same(row, y, want);
        row.run(n, x.data(), x.data(), &p);  // in place
        expect_same(row, x, want);
      }
    }
  });
}

TEST(SameBits, Binary) {
  static constexpr qn_minmax_f32 clamps[] = {{-inf, inf}, {0, 6}};
  for_each_pair(binary_rows(), [](const BinaryRow& row, const BinaryRow& reference) {
    for (size_t n = 1; n <= max_size; ++n) {
      for (const qn_minmax_f32& p : clamps) {
        std::vector<float> a = numbers(n, static_cast<uint32_t>(n)), want(n), y(n);
        const std::vector<float> b = numbers(n, static_cast<uint32_t>(n + 1000));
        as_level(row, [&] { reference.run(n, a.data(), b.data(), want.data(), &p); });
        row.run(n, a.data(), b.data(), y.data(), &p);
        expect_same(row, y, want);
        row.run(n, a.data(), b.data(), a.data(), &p);
        expect_same(row, a, want);
      }
    }
  });
}

TEST(SameBits, Channel) {
  static constexpr size_t rows = 3, gap = 5;
  for_each_pair(channel_rows(), [](const ChannelRow& row, const ChannelRow& reference) {
    for (size_t n = 1; n <= max_size; ++n) {
      const size_t stride = (n + gap) * sizeof(float);
      const qn_minmax_f32 p = {-3, 3};
      std::vector<float> x = numbers(rows * (n + gap), static_cast<uint32_t>(n)), want = x, y = x;
      const std::vector<float> scale = numbers(n + rows, 1), bias = numbers(n + rows, 2);
      as_level(row,
               [&] { reference.run(rows, n, x.data(), stride, scale.data(), bias.data(), want.data(), stride, &p); });
      row.run(rows, n, x.data(), stride, scale.data(), bias.data(), y.data(), stride, &p);
      expect_same(row, y, want);
      row.run(rows, n, x.data(), stride, scale.data(), bias.data(), x.data(), stride, &p);
      expect_same(row, x, want);
    }
  });
}

TEST(SameBits, Reduce) {
  for_each_pair(reduce_rows(), [](const ReduceRow& row, const ReduceRow& reference) {
    for (size_t n = 1; n <= 2 * max_size; ++n) {
      for (const bool specials : {false, true}) {
        std::vector<float> x = numbers(n, static_cast<uint32_t>(n)), want(n), y(n);
        if (!specials) {
          for (float& v : x) v = std::isfinite(v) && std::abs(v) < 50 ? v : 1;
        }
        float total = 0;
        as_level(row, [&] { total = reference.run(n, x.data(), want.data(), 1.5f); });
        expect_same(row, {row.run(n, x.data(), y.data(), 1.5f)}, {total}, true);
        expect_same(row, y, want);
      }
    }
  });
}

TEST(SameBits, Pool) {
  static constexpr size_t pixels = 3, taps = 7, step = 2 * sizeof(int32_t);
  for_each_pair(pool_rows(), [](const PoolRow& row, const PoolRow& reference) {
    for (size_t n = 1; n <= 2 * max_size; ++n) {
      const std::vector<float> a = numbers(16 * n, static_cast<uint32_t>(n));
      std::vector<int32_t> offsets(taps + 2 * pixels);
      std::mt19937 random(static_cast<uint32_t>(n));
      for (size_t i = 0; i < offsets.size(); ++i) {  // every third one is padding
        offsets[i] = i % 3 == 1 ? -1 : static_cast<int32_t>(random() % 16 * n * sizeof(float));
      }
      const std::vector<float> scale = {0.25f, 0.2f, 1.f};
      const qn_minmax_f32 p = {-6, 7};
      const size_t stride = (n + 3) * sizeof(float);
      std::vector<float> want((n + 3) * pixels, 42.f), c = want;
      as_level(row, [&] {
        reference.run(n, pixels, taps, offsets.data(), step, a.data(), scale.data(), want.data(), stride, &p);
      });
      row.run(n, pixels, taps, offsets.data(), step, a.data(), scale.data(), c.data(), stride, &p);
      expect_same(row, c, want, true);
    }
  });
}

}  // namespace same_bits_test
}  // namespace quern
