#include "kernel/igemm.h"

#include "../../asm/offset.h"

static_assert(static_cast<uint32_t>(quern::tap_left_out) == TAP_LEFT_OUT);

namespace quern {
namespace {

constexpr IgemmRow igemm_table[] = {
#define QN_IGEMM_ROW(type, mr, nr, panel, demands, isa, layout, name) \
  {QN_DEMANDING_ROW(type, demands, isa, layout, name), mr, nr, panel_##panel, name},
#include "kernel/igemm.inc"
};

}  // namespace

std::span<const IgemmRow> igemm_rows() { return built<igemm_table>(); }

}  // namespace quern

extern "C" void qn_igemm_f32_4x8_ref(size_t mr, size_t nc, size_t kc, size_t ks, const int32_t* offsets, const void* a,
                                     const void* zero, const void* w, void* c, size_t c_stride, const void* p) {
  constexpr size_t table_mr = 4, nr = 8;
  const size_t count = kc / sizeof(float);
  const auto* panel = static_cast<const float*>(w);
  for (size_t n0 = 0; n0 < nc; n0 += nr, panel += nr * (ks * count + 1)) {
    for (size_t m = 0; m < mr; ++m) {
      float sum[nr];
      for (size_t n = 0; n < nr; ++n) sum[n] = panel[n];
      const float* weights = panel + nr;
      for (size_t t = 0; t < ks; ++t) {
        const int32_t offset = offsets[t * table_mr + m];
        const auto* row = static_cast<const float*>(offset < 0 ? zero : static_cast<const char*>(a) + offset);
        for (size_t i = 0; i < count; ++i, weights += nr) {
          for (size_t n = 0; n < nr; ++n) sum[n] += row[i] * weights[n];
        }
      }
      auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + m * c_stride) + n0;
      for (size_t n = 0; n < nr && n0 + n < nc; ++n) out[n] = quern::clamp(sum[n], quern::minmax_of(p));
    }
  }
}
