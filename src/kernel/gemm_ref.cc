#include "kernel/gemm.h"

#include <cstddef>

#include "../../asm/offset.h"

static_assert(offsetof(qn_minmax_f32, min) == MINMAX_MIN && offsetof(qn_minmax_f32, max) == MINMAX_MAX);

namespace quern {
namespace {

constexpr GemmRow gemm_table[] = {
#define QN_GEMM_ROW(type, mr, nr, panel, demands, isa, layout, name) \
  {QN_DEMANDING_ROW(type, demands, isa, layout, name), mr, nr, panel_##panel, name},
#include "kernel/gemm.inc"
};

}  // namespace

std::span<const GemmRow> gemm_rows() { return built<gemm_table>(); }

}  // namespace quern

extern "C" void qn_gemm_f32_4x8_ref(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w,
                                    void* c, size_t c_stride, const void* p) {
  constexpr size_t nr = 8;
  const size_t count = k / sizeof(float);
  const auto* panel = static_cast<const float*>(w);
  for (size_t n0 = 0; n0 < nc; n0 += nr, panel += nr * (count + 1)) {
    for (size_t m = 0; m < mr; ++m) {
      const auto* row = reinterpret_cast<const float*>(static_cast<const char*>(a) + m * a_stride);
      float sum[nr];
      for (size_t n = 0; n < nr; ++n) sum[n] = panel[n];
      for (size_t i = 0; i < count; ++i) {
        for (size_t n = 0; n < nr; ++n) sum[n] += row[i] * panel[(i + 1) * nr + n];
      }
      auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + m * c_stride) + n0;
      for (size_t n = 0; n < nr && n0 + n < nc; ++n) out[n] = quern::clamp(sum[n], quern::minmax_of(p));
    }
  }
}
