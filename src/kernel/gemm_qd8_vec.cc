// The kernels of gemm.h for rows of bytes that are quantized each on its own, and for floats with weights of bytes, for
// one level of vectors; see vector_qd8.h. They compute one row, or as many as a tile has: of a call with fewer rows the
// last one several times.
#include <algorithm>

#include "kernel/dequantize.h"
#include "kernel/gemm.h"
#include "kernel/vector_qd8.h"

namespace quern {
namespace {

#if defined(__aarch64__) || defined(__arm__)  // others have assembly

// dequantize() for a vector; `scales` are those of its channels, `biases` their biases.
inline Vec dequantize(Ints sums, const qn_quantized_row& row, const float* scales, const float* biases,
                      const qn_dequantize& p) {
  const Vec x = __builtin_convertvector(sums, Vec) * row.scale * load(scales) + load(biases);
  return clamp_to(x, splat<Vec>(p.clamp.min), splat<Vec>(p.clamp.max));
}

template <size_t together>
inline void multiply(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w, void* c,
                     size_t c_stride, const void* p) {
  constexpr size_t nr = panel_channels;
  const int8_t* rows[together];
  for (size_t m = 0; m < together; ++m) rows[m] = bytes(a) + std::min(m, mr - 1) * a_stride;
  const auto numbers = [&](size_t m) { return reinterpret_cast<const qn_quantized_row*>(rows[m])[-1]; };
  const auto* panel = static_cast<const char*>(w);
  const auto* epilogue = static_cast<const char*>(p);
  for (size_t n0 = 0; n0 < nc; n0 += nr, panel += nr * (k + sizeof(int32_t)), epilogue += dequantize_bytes(nr)) {
    const Sums of_weights = load_sums(panel);
    Sums sums[together] = {};
    for (size_t m = 0; m < together; ++m) add_products(&sums[m], of_weights, -numbers(m).zero);
    add_tile(sums, rows, bytes(panel + nr * sizeof(int32_t)), k);
    const auto& end = *reinterpret_cast<const qn_dequantize*>(epilogue);
    const auto *scales = reinterpret_cast<const float*>(epilogue + sizeof end), *biases = scales + nr;
    const size_t count = std::min(nr, nc - n0);
    for (size_t m = 0; m < mr; ++m) {
      store_row(c, c_stride, m, n0, count, [&](size_t i) {
        return dequantize(i == 0 ? sums[m].low : sums[m].high, numbers(m), scales + i * width, biases + i * width, end);
      });
    }
  }
}

}  // namespace
}  // namespace quern

extern "C" void QN_LEVEL_NAME(gemm_qd8c_vec)(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride,
                                             const void* w, void* c, size_t c_stride, const void* p) {
  using namespace quern;
  (mr == 1 ? multiply<1> : multiply<tile_rows>)(mr, nc, k, a, a_stride, w, c, c_stride, p);
}

namespace quern {
namespace {
#endif

// ---- weights with scales for blocks

// dequantize_blocks() for a vector; `weights` are the sums of weights of its channels.
inline Vec dequantize_blocks(Vec sums, const qn_quantized_row& row, Vec weights, const float* biases,
                             const qn_dequantize& p) {
  const Vec x = (sums - static_cast<float>(row.zero) * weights) * row.scale + load(biases);
  return clamp_to(x, splat<Vec>(p.clamp.min), splat<Vec>(p.clamp.max));
}

// The weights, plus 8, in bytes that hold one of the lower vector and one of the upper one each.
inline Sums raised_halves(Ints both) { return {both & 0xf, both >> 4 & 0xf}; }

// Adds the products of a block, of which each row has one, times the scales behind its weights.
template <size_t together>
inline void add_block(Floats (&sums)[together], const qn_quantized_block* const (&rows)[together],
                      const int8_t* weights) {
  Sums products[together];
  for (size_t m = 0; m < together; ++m) products[m] = {Ints{} + rows[m]->start, Ints{} + rows[m]->start};
  for (size_t i = 0; i < scale_block; i += 2, weights += panel_channels) {
    const Sums two = widen(weights);  // rows of weights i and i + 1
    const Sums first = raised_halves(two.low), second = raised_halves(two.high);
    for (size_t m = 0; m < together; ++m) {
      add_products(&products[m], first, rows[m]->elements[i]);
      add_products(&products[m], second, rows[m]->elements[i + 1]);
    }
  }
  const auto* scales = reinterpret_cast<const float*>(weights);
  for (size_t m = 0; m < together; ++m) {
    sums[m].low += __builtin_convertvector(products[m].low, Vec) * load(scales);
    sums[m].high += __builtin_convertvector(products[m].high, Vec) * load(scales + width);
  }
}

template <size_t together>
inline void multiply_blocks(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w, void* c,
                            size_t c_stride, const void* p) {
  constexpr size_t nr = panel_channels, block_bytes = nr * (scale_block / 2 + sizeof(float));
  const size_t blocks = k / sizeof(qn_quantized_block);
  const auto* panel = static_cast<const char*>(w);
  const auto* epilogue = static_cast<const char*>(p);
  for (size_t n0 = 0; n0 < nc; n0 += nr, epilogue += dequantize_bytes(nr, 1)) {
    const qn_quantized_block* rows[together];
    for (size_t m = 0; m < together; ++m) {
      rows[m] = reinterpret_cast<const qn_quantized_block*>(bytes(a) + std::min(m, mr - 1) * a_stride);
    }
    const auto* of_weights = reinterpret_cast<const float*>(panel);
    panel += nr * sizeof(float);
    Floats sums[together] = {};
    for (size_t b = 0; b < blocks; ++b, panel += block_bytes) {
      add_block(sums, rows, bytes(panel));
      for (const qn_quantized_block*& row : rows) ++row;
    }
    const auto& end = *reinterpret_cast<const qn_dequantize*>(epilogue);
    const auto* biases = reinterpret_cast<const float*>(epilogue + sizeof end);
    const size_t count = std::min(nr, nc - n0);
    for (size_t m = 0; m < mr; ++m) {
      const auto& numbers = reinterpret_cast<const qn_quantized_row*>(bytes(a) + m * a_stride)[-1];
      store_row(c, c_stride, m, n0, count, [&](size_t i) {
        return dequantize_blocks(i == 0 ? sums[m].low : sums[m].high, numbers, load(of_weights + i * width),
                                 biases + i * width, end);
      });
    }
  }
}

}  // namespace
}  // namespace quern

extern "C" void QN_LEVEL_NAME(gemm_qd8b4_vec)(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride,
                                              const void* w, void* c, size_t c_stride, const void* p) {
  using namespace quern;
  (mr == 1 ? multiply_blocks<1> : multiply_blocks<tile_rows>)(mr, nc, k, a, a_stride, w, c, c_stride, p);
}

// ---- floats with weights of bytes

#if !defined(__aarch64__)  // which has assembly

namespace quern {
namespace {

// Adds the products of an element of A with a row of a panel.
inline void add_products(Floats* sums, float a, const int8_t* weights) {
  const Sums w = widen(weights);
  sums->low = multiply_add(splat<Vec>(a), __builtin_convertvector(w.low, Vec), sums->low);
  sums->high = multiply_add(splat<Vec>(a), __builtin_convertvector(w.high, Vec), sums->high);
}

// Multiplies one row of floats by all panels. Four sums hide the latency of multiply-adds.
inline void multiply_floats(size_t nc, size_t k, const float* a, const int8_t* weights, void* c, const char* epilogue) {
  constexpr size_t nr = panel_channels;
  for (size_t n0 = 0; n0 < nc; n0 += nr, epilogue += dequantize_bytes(nr)) {
    weights += nr * sizeof(int32_t);
    Floats sums[4] = {};
    size_t i = 0;
    for (; i + 4 <= k; i += 4, weights += 4 * nr) {
#pragma GCC unroll 4
      for (size_t j = 0; j < 4; ++j) add_products(&sums[j], a[i + j], weights + j * nr);
    }
    // The last k: sums take turns in the first place, so that the code stands here once. After four turns each is back in
    // its own.
#pragma GCC unroll 1
    for (const size_t whole = i; i < whole + 4; ++i) {
      if (i < k) add_products(&sums[0], a[i], weights), weights += nr;
      const Floats first = sums[0];
      sums[0] = sums[1], sums[1] = sums[2], sums[2] = sums[3], sums[3] = first;
    }
    const auto& end = *reinterpret_cast<const qn_dequantize*>(epilogue);
    const auto *scales = reinterpret_cast<const float*>(epilogue + sizeof end), *biases = scales + nr;
    store_row(c, 0, 0, n0, std::min(nr, nc - n0), [&](size_t v) {
      const auto of = [&](const Floats& x) { return v == 0 ? x.low : x.high; };
      const Vec sum = (of(sums[0]) + of(sums[1])) + (of(sums[2]) + of(sums[3]));
      const Vec x = sum * load(scales + v * width) + load(biases + v * width);
      return clamp_to(x, splat<Vec>(end.clamp.min), splat<Vec>(end.clamp.max));
    });
  }
}

}  // namespace
}  // namespace quern

extern "C" void QN_LEVEL_NAME(gemm_qw8c_vec)(size_t, size_t nc, size_t k, const void* a, size_t, const void* w, void* c,
                                             size_t, const void* p) {
  using namespace quern;
  multiply_floats(nc, k / sizeof(float), static_cast<const float*>(a), bytes(w), c, static_cast<const char*>(p));
}
#endif
