#include "kernel/quantize_rows.h"

#include <cmath>

#include "kernel/requantize.h"

namespace quern {
namespace {

constexpr QuantizeRowsRow rows_table[] = {
#define QN_QUANTIZE_ROWS_ROW(type, isa, layout, name) {QN_ROW(type, isa, layout, name), name},
#include "kernel/quantize_rows.inc"
};

}  // namespace

std::span<const QuantizeRowsRow> quantize_rows_rows() { return built<rows_table>(); }

}  // namespace quern

extern "C" void qn_quantize_rows_qd8c_ref(size_t rows, size_t k, const void* a, size_t a_stride, void* c,
                                          size_t c_stride) {
  using namespace quern;
  for (size_t m = 0; m < rows; ++m) {
    const auto* x = reinterpret_cast<const float*>(static_cast<const char*>(a) + m * a_stride);
    int8_t* to = bytes(c) + m * c_stride;
    float least = 0, most = 0;
    bool finite = true;
    for (size_t i = 0; i < k; ++i) {
      finite = finite && std::isfinite(x[i]);
      least = x[i] < least ? x[i] : least;
      most = x[i] > most ? x[i] : most;
    }
    const RowSteps steps = row_steps(least, most, finite);
    reinterpret_cast<qn_quantized_row*>(to)[-1] = steps.numbers;
    const int32_t zero = steps.numbers.zero;
    for (size_t i = 0; i < k; ++i) {
      to[i] = steps.inverse == 0
                  ? int8_t{0}
                  : static_cast<int8_t>(round_within(x[i] * steps.inverse, -128 - zero, 127 - zero) + zero);
    }
  }
}
