// The kernel of igemm.h for bytes, for one level of vectors; see vector_qs8.h. A call with fewer rows than a tile has
// computes its last row several times.
#include <algorithm>

#include "kernel/igemm.h"
#include "kernel/vector_qs8.h"

extern "C" void QN_LEVEL_NAME(igemm_qs8c_vec)(size_t mr, size_t nc, size_t kc, size_t ks, const int32_t* offsets,
                                              const void* a, const void* zero, const void* w, void* c, size_t c_stride,
                                              const void* p) {
  using namespace quern;
  constexpr size_t nr = panel_channels;
  const auto* panel = static_cast<const char*>(w);
  const auto* epilogue = static_cast<const char*>(p);
  for (size_t n0 = 0; n0 < nc; n0 += nr, panel += nr * (ks * kc + sizeof(int32_t)), epilogue += requantize_bytes(nr)) {
    const Sums bias = load_sums(panel);
    Sums sums[tile_rows] = {bias, bias, bias, bias};
    const int8_t* weights = bytes(panel + nr * sizeof(int32_t));
    for (size_t t = 0; t < ks; ++t, weights += kc * nr) {
      const int8_t* rows[tile_rows];
      for (size_t m = 0; m < tile_rows; ++m) {
        const int32_t offset = offsets[t * tile_rows + std::min(m, mr - 1)];
        rows[m] = offset < 0 ? bytes(zero) : bytes(a) + offset;
      }
      add_tile(sums, rows, weights, kc);
    }
    for (size_t m = 0; m < mr; ++m) end_sums(sums[m], epilogue, bytes(c) + m * c_stride + n0, nc - n0);
  }
}
