#include "kernel/igemm.h"
#include "kernel/panel_qs8.h"

namespace quern {
namespace {

// The kernel of tiles of 4 rows and 8 channels, for panels in which `kr` successive k lie together.
template <size_t kr>
void multiply(size_t mr, size_t nc, size_t kc, size_t ks, const int32_t* offsets, const void* a, const void* zero,
              const void* w, void* c, size_t c_stride, const void* p) {
  constexpr size_t table_mr = 4, nr = 8;
  const size_t panel_bytes = nr * (ks * round_up(kc, kr) + sizeof(int32_t));
  const auto* panel = static_cast<const char*>(w);
  const auto* epilogue = static_cast<const char*>(p);
  for (size_t n0 = 0; n0 < nc; n0 += nr, panel += panel_bytes, epilogue += requantize_bytes(nr)) {
    const auto* bias = reinterpret_cast<const int32_t*>(panel);
    for (size_t m = 0; m < mr; ++m) {
      int32_t sum[nr];
      for (size_t n = 0; n < nr; ++n) sum[n] = bias[n];
      const int8_t* weights = bytes(bias + nr);
      for (size_t t = 0; t < ks; ++t) {
        const int32_t offset = offsets[t * table_mr + m];
        const int8_t* row = bytes(offset < 0 ? zero : static_cast<const char*>(a) + offset);
        weights = add_products<nr, kr>(sum, row, kc, weights);
      }
      int8_t* out = bytes(c) + m * c_stride + n0;
      for (size_t n = 0; n < nr && n0 + n < nc; ++n) {
        out[n] = requantize(sum[n], scales_of(epilogue)[n], requantize_of(epilogue));
      }
    }
  }
}

}  // namespace
}  // namespace quern

extern "C" void qn_igemm_qs8c_4x8_ref(size_t mr, size_t nc, size_t kc, size_t ks, const int32_t* offsets, const void* a,
                                      const void* zero, const void* w, void* c, size_t c_stride, const void* p) {
  quern::multiply<1>(mr, nc, kc, ks, offsets, a, zero, w, c, c_stride, p);
}

extern "C" void qn_igemm_qs8c_4x8c4_ref(size_t mr, size_t nc, size_t kc, size_t ks, const int32_t* offsets,
                                        const void* a, const void* zero, const void* w, void* c, size_t c_stride,
                                        const void* p) {
  quern::multiply<4>(mr, nc, kc, ks, offsets, a, zero, w, c, c_stride, p);
}
