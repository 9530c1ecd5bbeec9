// Random weights with the same bits on every platform: they are computed with integers and then converted exactly.
#pragma once

#include <cstdint>

namespace quern::zoo {

// The splitmix64 generator.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Returns a nearly normally distributed integer: the sum of four independent 16-bit integers, moved to mean zero. Its
  // magnitude is below 2^18, so a float holds it exactly. Its variance is bell_variance.
  int bell() {
    const uint64_t z = bits();
    return static_cast<int>((z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48)) - 2 * 0xffff;
  }
  static constexpr double bell_variance = 4.0 * (65536.0 * 65536.0 - 1.0) / 12.0;

  // Returns an evenly distributed number in [-1, 1), a multiple of 2^-23.
  float even() { return static_cast<float>(static_cast<int64_t>(bits() >> 40) - (1 << 23)) * 0x1p-23f; }

 private:
  uint64_t state_;
};

}  // namespace quern::zoo
