// The kernel of gemm.h for rows of bytes that are quantized each on its own, for one level of vectors; see
// vector_qs8.h. A call with fewer rows than a tile has computes its last row several times.
#include <algorithm>

#include "kernel/dequantize.h"
#include "kernel/gemm.h"
#include "kernel/vector_qs8.h"

namespace quern {
namespace {

// dequantize() for a vector; `scales` are those of its channels, `biases` their biases.
inline Vec dequantize(Ints sums, const qn_quantized_row& row, const float* scales, const float* biases,
                      const qn_dequantize& p) {
  const Vec x = __builtin_convertvector(sums, Vec) * row.scale * load(scales) + load(biases);
  return clamp_to(x, splat<Vec>(p.clamp.min), splat<Vec>(p.clamp.max));
}

inline void store_up_to(float* p, Vec v, size_t count) { count >= width ? store(p, v) : store_some(p, v, count); }

}  // namespace
}  // namespace quern

extern "C" void QN_LEVEL_NAME(gemm_qd8c_vec)(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride,
                                             const void* w, void* c, size_t c_stride, const void* p) {
  using namespace quern;
  constexpr size_t nr = panel_channels;
  const int8_t* rows[tile_rows];
  for (size_t m = 0; m < tile_rows; ++m) rows[m] = bytes(a) + std::min(m, mr - 1) * a_stride;
  const auto numbers = [&](size_t m) { return reinterpret_cast<const qn_quantized_row*>(rows[m])[-1]; };
  const auto* panel = static_cast<const char*>(w);
  const auto* epilogue = static_cast<const char*>(p);
  for (size_t n0 = 0; n0 < nc; n0 += nr, panel += nr * (k + sizeof(int32_t)), epilogue += dequantize_bytes(nr)) {
    const Sums of_weights = load_sums(panel);
    Sums sums[tile_rows] = {};
    for (size_t m = 0; m < tile_rows; ++m) add_products(&sums[m], of_weights, -numbers(m).zero);
    add_tile(sums, rows, bytes(panel + nr * sizeof(int32_t)), k);
    const auto& end = *reinterpret_cast<const qn_dequantize*>(epilogue);
    const auto *scales = reinterpret_cast<const float*>(epilogue + sizeof end), *biases = scales + nr;
    const size_t count = std::min(nr, nc - n0);
    for (size_t m = 0; m < mr; ++m) {
      auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + m * c_stride) + n0;
      store_up_to(out, dequantize(sums[m].low, numbers(m), scales, biases, end), count);
      if (count <= width) continue;
      store_up_to(out + width, dequantize(sums[m].high, numbers(m), scales + width, biases + width, end),
                  count - width);
    }
  }
}
