// The kernel of gemm.h for bytes, for one level of vectors; see vector_qs8.h. A call with fewer rows than a tile has
// computes its last row several times.
#include <algorithm>

#include "kernel/gemm.h"
#include "kernel/vector_qs8.h"

extern "C" void QN_LEVEL_NAME(gemm_qs8c_vec)(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride,
                                             const void* w, void* c, size_t c_stride, const void* p) {
  using namespace quern;
  constexpr size_t nr = panel_channels;
  const int8_t* rows[tile_rows];
  for (size_t m = 0; m < tile_rows; ++m) rows[m] = bytes(a) + std::min(m, mr - 1) * a_stride;
  const auto* panel = static_cast<const char*>(w);
  const auto* epilogue = static_cast<const char*>(p);
  for (size_t n0 = 0; n0 < nc; n0 += nr, panel += nr * (k + sizeof(int32_t)), epilogue += requantize_bytes(nr)) {
    const Sums bias = load_sums(panel);
    Sums sums[tile_rows] = {bias, bias, bias, bias};
    add_tile(sums, rows, bytes(panel + nr * sizeof(int32_t)), k);
    for (size_t m = 0; m < mr; ++m) end_sums(sums[m], epilogue, bytes(c) + m * c_stride + n0, nc - n0);
  }
}
