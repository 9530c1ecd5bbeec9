#include <cstddef>

#include "../../asm/offset.h"
#include "base/math.h"
#include "kernel/dequantize.h"
#include "kernel/gemm.h"
#include "kernel/panel_qs8.h"

// From a row back to what stands before it.
static_assert(QUANTIZED_ROW_SCALE + sizeof(qn_quantized_row) == offsetof(qn_quantized_row, scale) &&
              QUANTIZED_ROW_ZERO + sizeof(qn_quantized_row) == offsetof(qn_quantized_row, zero) &&
              sizeof(qn_dequantize) == DEQUANTIZE_SCALES);

namespace quern {
namespace {

constexpr size_t nr = 8;

// How the weights of a panel lie: whole bytes, or two in a byte.
struct Bytes {
  static constexpr size_t row_bytes = nr;
  static void add(int32_t (&sum)[nr], const int8_t* row, size_t k, const int8_t* weights) {
    add_products<nr, 1>(sum, row, k, weights);
  }
};
struct Halves {
  static constexpr size_t row_bytes = nr / 2;
  static void add(int32_t (&sum)[nr], const int8_t* row, size_t k, const int8_t* weights) {
    for (size_t i = 0; i < k; ++i, weights += row_bytes) {
      for (size_t n = 0; n < nr; ++n) sum[n] += row[i] * half_of(weights[n % row_bytes], n / row_bytes);
    }
  }
};

template <class Weights>
void multiply(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w, void* c, size_t c_stride,
              const void* p) {
  const auto* panel = static_cast<const char*>(w);
  const auto* epilogue = static_cast<const char*>(p);
  const size_t panel_bytes = k * Weights::row_bytes + nr * sizeof(int32_t);
  for (size_t n0 = 0; n0 < nc; n0 += nr, panel += panel_bytes, epilogue += dequantize_bytes(nr)) {
    const auto* sums_of_weights = reinterpret_cast<const int32_t*>(panel);
    const auto* scales = reinterpret_cast<const float*>(epilogue + sizeof(qn_dequantize));
    const auto& end = *reinterpret_cast<const qn_dequantize*>(epilogue);
    for (size_t m = 0; m < mr; ++m) {
      const int8_t* row = bytes(a) + m * a_stride;
      const qn_quantized_row& numbers = reinterpret_cast<const qn_quantized_row*>(row)[-1];
      int32_t sum[nr];
      for (size_t n = 0; n < nr; ++n) sum[n] = -numbers.zero * sums_of_weights[n];
      Weights::add(sum, row, k, bytes(sums_of_weights + nr));
      auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + m * c_stride) + n0;
      for (size_t n = 0; n < nr && n0 + n < nc; ++n)
        out[n] = dequantize(sum[n], numbers, scales[n], scales[nr + n], end);
    }
  }
}

}  // namespace
}  // namespace quern

extern "C" void qn_gemm_qd8c_4x8_ref(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w,
                                     void* c, size_t c_stride, const void* p) {
  quern::multiply<quern::Bytes>(mr, nc, k, a, a_stride, w, c, c_stride, p);
}

extern "C" void qn_gemm_qd8c4_4x8_ref(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w,
                                      void* c, size_t c_stride, const void* p) {
  quern::multiply<quern::Halves>(mr, nc, k, a, a_stride, w, c, c_stride, p);
}
