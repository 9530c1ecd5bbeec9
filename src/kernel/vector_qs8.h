// Sums of products of bytes in vectors of 32-bit integers, for the files NAME_qs8_vec.cc. See vector.h for how these are
// compiled.
#pragma once

#include <cstring>

#include "kernel/requantize.h"
#include "kernel/vector.h"

namespace quern {
namespace {

typedef Mask Ints;  // as many as floats in a vector

// The sums of one panel for a row: two vectors, so that a product needs half as many loads of weights.
constexpr size_t panel_channels = 2 * width;
struct Sums {
  Ints low, high;
};

// Reads panel_channels bytes as numbers.
#if defined(__aarch64__) || defined(__arm__)
inline Sums widen(const int8_t* p) {
  const int16x8_t halves = vmovl_s8(vld1_s8(p));
  return {Ints(vmovl_s16(vget_low_s16(halves))), Ints(vmovl_s16(vget_high_s16(halves)))};
}
#else
inline Sums widen(const int8_t* p) {
  typedef int8_t Few __attribute__((vector_size(width)));
  Few low, high;
  std::memcpy(&low, p, sizeof low);
  std::memcpy(&high, p + width, sizeof high);
  return {__builtin_convertvector(low, Ints), __builtin_convertvector(high, Ints)};
}
#endif

inline Sums load_sums(const void* p) {
  Sums sums;
  std::memcpy(&sums, p, sizeof sums);
  return sums;
}

inline void add_products(Sums* sums, const Sums& weights, int32_t a) {
  sums->low += weights.low * a;
  sums->high += weights.high * a;
}

// requantize() of requantize.h for a vector.
inline Ints requantize(Ints sums, Vec scales, const qn_requantize& p) {
  constexpr float large = 0x1.8p23f;
  const Vec low = splat<Vec>(static_cast<float>(p.min - p.zero)), high = splat<Vec>(static_cast<float>(p.max - p.zero));
  const Vec steps = smaller(larger(__builtin_convertvector(sums, Vec) * scales, low), high);
  return __builtin_convertvector(steps + large - large, Ints) + p.zero;
}

// Ends the sums of a panel, whose epilogue this is, and writes the first `count` of them.
inline void end_sums(const Sums& sums, const void* epilogue, int8_t* out, size_t count) {
  const qn_requantize& p = requantize_of(epilogue);
  const float* scales = scales_of(epilogue);
  const Ints low = requantize(sums.low, load(scales), p), high = requantize(sums.high, load(scales + width), p);
  int8_t bytes_out[panel_channels];
  for (size_t i = 0; i < width; ++i) {
    bytes_out[i] = static_cast<int8_t>(low[i]), bytes_out[width + i] = static_cast<int8_t>(high[i]);
  }
  if (count >= panel_channels) {
    std::memcpy(out, bytes_out, panel_channels);
  } else {
    for (size_t i = 0; i < count; ++i) out[i] = bytes_out[i];
  }
}

// The rows that a tile of gemm or igemm computes at once.
constexpr size_t tile_rows = 4;

// Adds the products of `count` elements of each row with rows of weights.
inline void add_tile(Sums (&sums)[tile_rows], const int8_t* const (&rows)[tile_rows], const int8_t* weights,
                     size_t count) {
  for (size_t i = 0; i < count; ++i, weights += panel_channels) {
    const Sums w = widen(weights);
#pragma GCC unroll 4
    for (size_t m = 0; m < tile_rows; ++m) add_products(&sums[m], w, rows[m][i]);
  }
}

}  // namespace
}  // namespace quern
