// The kernels of gemm.h for floats with weights of 4 bits that have scales for blocks, for one level of vectors; see
// vector_qd8.h.
#include <algorithm>

#include "base/math.h"
#include "kernel/dequantize.h"
#include "kernel/gemm.h"
#include "kernel/vector_qd8.h"

namespace quern {
namespace {

constexpr size_t nr = panel_channels, block_weights = nr * scale_block / 2;  // bytes of the weights of a block
constexpr size_t most_rows = 32;                                             // of a call
// Rows whose sums stay in registers.
#if QN_VECTOR_BYTES == 64 || defined(__aarch64__)
constexpr size_t together = 8;
#else
constexpr size_t together = 4;
#endif

// The weights in the lower four bits of each element, which hold them plus 8.
#if QN_VECTOR_BYTES == 64
inline Vec lower_halves(Ints both) {
  const Vec weights = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  return _mm512_maskz_permutexvar_ps(all_lanes, __m512i(both), weights);
}
#else
inline Vec lower_halves(Ints both) { return __builtin_convertvector((both & 0xf) - 8, Vec); }
#endif

// A row of weights.
inline Floats weights_of(Ints both) { return {lower_halves(both), lower_halves(both >> 4)}; }

inline Floats load_two(const float* p) { return {load(p), load(p + width)}; }
inline void store_two(float* p, const Floats& x) { store(p, x.low), store(p + width, x.high); }

// Adds the products of an element of A with a row of weights.
inline void add_products(Floats* sums, float a, const Floats& weights) {
  sums->low = multiply_add(splat<Vec>(a), weights.low, sums->low);
  sums->high = multiply_add(splat<Vec>(a), weights.high, sums->high);
}

// Adds the sum of a block, times its scales.
inline void add_scaled(Floats* sums, const Floats& of_block, const Floats& scales) {
  sums->low = multiply_add(of_block.low, scales.low, sums->low);
  sums->high = multiply_add(of_block.high, scales.high, sums->high);
}

inline Floats scales_of_block(const int8_t* weights) {
  return load_two(reinterpret_cast<const float*>(weights + block_weights));
}

// Adds the products of a row's part in a block, of `count` elements, whose weights become floats as they are needed.
inline void add_block(Floats* sums, const float* a, size_t count, const int8_t* weights) {
  const Floats scales = scales_of_block(weights);
  Floats of_block = {};
#pragma GCC unroll 4
  for (size_t i = 0; i + 2 <= count; i += 2, weights += nr) {
    const Sums two = widen(weights);  // rows of weights i and i + 1
    add_products(&of_block, a[i], weights_of(two.low));
    add_products(&of_block, a[i + 1], weights_of(two.high));
  }
  if (count % 2 != 0) add_products(&of_block, a[count - 1], weights_of(widen(weights).low));
  add_scaled(sums, of_block, scales);
}

// The same for several rows, with weights that are floats.
inline void add_rows(float (*sums)[nr], const float* const (&rows)[together], size_t count,
                     const float (&weights)[scale_block][nr], const Floats& scales) {
  Floats of_block[together];
#pragma GCC unroll 8
  for (size_t m = 0; m < together; ++m) of_block[m].low = of_block[m].high = Vec{};
  for (size_t i = 0; i < count; ++i) {
    const Floats w = load_two(weights[i]);
#pragma GCC unroll 8
    for (size_t m = 0; m < together; ++m) add_products(&of_block[m], rows[m][i], w);
  }
#pragma GCC unroll 8
  for (size_t m = 0; m < together; ++m) {
    Floats all = load_two(sums[m]);
    add_scaled(&all, of_block[m], scales);
    store_two(sums[m], all);
  }
}

inline void widen_block(const int8_t* weights, float (&to)[scale_block][nr]) {
  for (size_t i = 0; i < scale_block; i += 2, weights += nr) {
    const Sums two = widen(weights);
    store_two(to[i], weights_of(two.low));
    store_two(to[i + 1], weights_of(two.high));
  }
}

// Multiplies rows of `k` elements by a panel.
inline void multiply_panel(float (&sums)[most_rows][nr], size_t mr, size_t k, const char* a, size_t a_stride,
                           const int8_t* weights) {
  for (size_t i = 0; i < k; i += scale_block, weights += block_weights + nr * sizeof(float)) {
    alignas(Vec) float real[scale_block][nr];
    widen_block(weights, real);
    for (size_t m = 0; m < mr; m += together) {
      const float* rows[together];  // those that do not exist are the last one
      for (size_t j = 0; j < together; ++j)
        rows[j] = reinterpret_cast<const float*>(a + std::min(m + j, mr - 1) * a_stride) + i;
      add_rows(&sums[m], rows, std::min(k - i, scale_block), real, scales_of_block(weights));
    }
  }
}

inline void multiply(size_t mr, size_t nc, size_t k, const char* a, size_t a_stride, const char* panel, void* c,
                     size_t c_stride, const char* epilogue) {
  const size_t panel_bytes = nr * sizeof(float) + blocks_of(k) * (block_weights + nr * sizeof(float));
  for (size_t n0 = 0; n0 < nc; n0 += nr, panel += panel_bytes, epilogue += dequantize_bytes(nr, 1)) {
    const auto& end = *reinterpret_cast<const qn_dequantize*>(epilogue);
    const Floats biases = load_two(reinterpret_cast<const float*>(epilogue + sizeof end));
    const int8_t* weights = bytes(panel + nr * sizeof(float));
    const size_t count = std::min(nr, nc - n0);
    const auto store_sums = [&](size_t m, const Floats& sums) {
      store_row(c, c_stride, m, n0, count, [&](size_t i) {
        return clamp_to(i == 0 ? sums.low : sums.high, splat<Vec>(end.clamp.min), splat<Vec>(end.clamp.max));
      });
    };
    if (mr == 1) {
      Floats sums = biases;
      for (size_t i = 0; i < k; i += scale_block, weights += block_weights + nr * sizeof(float)) {
        add_block(&sums, reinterpret_cast<const float*>(a) + i, std::min(k - i, scale_block), weights);
      }
      store_sums(0, sums);
      continue;
    }
    alignas(Vec) float sums[most_rows][nr];
    for (size_t m = 0; m < round_up(mr, together); ++m) store_two(sums[m], biases);
    multiply_panel(sums, mr, k, a, a_stride, weights);
    for (size_t m = 0; m < mr; ++m) store_sums(m, load_two(sums[m]));
  }
}

}  // namespace
}  // namespace quern

extern "C" void QN_LEVEL_NAME(gemm_qw4b_vec)(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride,
                                             const void* w, void* c, size_t c_stride, const void* p) {
  quern::multiply(mr, nc, k / sizeof(float), static_cast<const char*>(a), a_stride, static_cast<const char*>(w), c,
                  c_stride, static_cast<const char*>(p));
}
