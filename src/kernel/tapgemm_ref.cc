#include "kernel/panel_qs8.h"
#include "kernel/tapgemm.h"

namespace quern {
namespace {

constexpr TapgemmRow tapgemm_table[] = {
#define QN_TAPGEMM_ROW(type, mr, nr, panel, demands, isa, layout, name) \
  {QN_DEMANDING_ROW(type, demands, isa, layout, name), mr, nr, panel_##panel, name},
#include "kernel/tapgemm.inc"
};

}  // namespace

std::span<const TapgemmRow> tapgemm_rows() { return built<tapgemm_table>(); }

}  // namespace quern

extern "C" void qn_tapgemm_qs8c_4x8_ref(size_t mr, size_t nc, size_t kc, size_t ks, const size_t* offsets,
                                        const void* a, size_t a_stride, const void* w, void* const* c, const void* p) {
  using namespace quern;
  constexpr size_t nr = 8;
  const auto* panel = static_cast<const char*>(w);
  const auto* epilogue = static_cast<const char*>(p);
  for (size_t n0 = 0; n0 < nc; n0 += nr, panel += nr * (ks * kc + sizeof(int32_t)), epilogue += requantize_bytes(nr)) {
    const auto* bias = reinterpret_cast<const int32_t*>(panel);
    for (size_t m = 0; m < mr; ++m) {
      int32_t sum[nr];
      for (size_t n = 0; n < nr; ++n) sum[n] = bias[n];
      const int8_t* weights = bytes(bias + nr);
      for (size_t t = 0; t < ks; ++t) {
        weights = add_products<nr, 1>(sum, bytes(a) + offsets[t] + m * a_stride, kc, weights);
      }
      int8_t* out = bytes(c[m]) + n0;
      for (size_t n = 0; n < nr && n0 + n < nc; ++n) {
        out[n] = requantize(sum[n], scales_of(epilogue)[n], requantize_of(epilogue));
      }
    }
  }
}
