#include <cstddef>

#include "../../asm/offset.h"
#include "kernel/gemm.h"
#include "kernel/panel_qs8.h"

static_assert(offsetof(qn_requantize, zero) == REQUANTIZE_ZERO && offsetof(qn_requantize, min) == REQUANTIZE_MIN &&
              offsetof(qn_requantize, max) == REQUANTIZE_MAX && sizeof(qn_requantize) == REQUANTIZE_SCALES);

namespace quern {
namespace {

// The kernel of tiles of any number of rows and 8 channels, for panels in which `kr` successive k lie together.
template <size_t kr>
void multiply(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w, void* c, size_t c_stride,
              const void* p) {
  constexpr size_t nr = 8;
  const size_t panel_bytes = nr * (round_up(k, kr) + sizeof(int32_t));
  const auto* panel = static_cast<const char*>(w);
  const auto* epilogue = static_cast<const char*>(p);
  for (size_t n0 = 0; n0 < nc; n0 += nr, panel += panel_bytes, epilogue += requantize_bytes(nr)) {
    const auto* bias = reinterpret_cast<const int32_t*>(panel);
    const int8_t* weights = bytes(bias + nr);
    for (size_t m = 0; m < mr; ++m) {
      const int8_t* row = bytes(a) + m * a_stride;
      int32_t sum[nr];
      for (size_t n = 0; n < nr; ++n) sum[n] = bias[n];
      add_products<nr, kr>(sum, row, k, weights);
      int8_t* out = bytes(c) + m * c_stride + n0;
      for (size_t n = 0; n < nr && n0 + n < nc; ++n) {
        out[n] = requantize(sum[n], scales_of(epilogue)[n], requantize_of(epilogue));
      }
    }
  }
}

}  // namespace
}  // namespace quern

extern "C" void qn_gemm_qs8c_4x8_ref(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w,
                                     void* c, size_t c_stride, const void* p) {
  quern::multiply<1>(mr, nc, k, a, a_stride, w, c, c_stride, p);
}

extern "C" void qn_gemm_qs8c_4x8c4_ref(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w,
                                       void* c, size_t c_stride, const void* p) {
  quern::multiply<4>(mr, nc, k, a, a_stride, w, c, c_stride, p);
}
