#include "kernel/quantize_rows.h"

#include <cmath>

#include "kernel/requantize.h"

namespace quern {
namespace {

constexpr QuantizeRowsRow quantize_rows_table[] = {
#define QN_QUANTIZE_ROWS_ROW(type, isa, layout, name) {QN_ROW(type, isa, layout, name), name},
#include "kernel/quantize_rows.inc"
};

RowSteps steps_of(const float* x, size_t k) {
  float least = 0, most = 0;
  bool finite = true;
  for (size_t i = 0; i < k; ++i) {
    finite = finite && std::isfinite(x[i]);
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  return row_steps(least, most, finite);
}

int8_t quantize(float x, const RowSteps& steps) {
  const int32_t zero = steps.numbers.zero;
  if (steps.inverse == 0) return 0;
  return static_cast<int8_t>(round_within(x * steps.inverse, -128 - zero, 127 - zero) + zero);
}

// Calls write(x, steps, to) for each row of floats, after it has written its numbers.
template <class Write>
void each_row(size_t rows, size_t k, const void* a, size_t a_stride, void* c, size_t c_stride, Write&& write) {
  for (size_t m = 0; m < rows; ++m) {
    const auto* x = reinterpret_cast<const float*>(static_cast<const char*>(a) + m * a_stride);
    int8_t* to = bytes(c) + m * c_stride;
    const RowSteps steps = steps_of(x, k);
    reinterpret_cast<qn_quantized_row*>(to)[-1] = steps.numbers;
    write(x, steps, to);
  }
}

}  // namespace

std::span<const QuantizeRowsRow> quantize_rows_rows() { return built<quantize_rows_table>(); }

}  // namespace quern

extern "C" void qn_quantize_rows_qd8c_ref(size_t rows, size_t k, const void* a, size_t a_stride, void* c,
                                          size_t c_stride) {
  using namespace quern;
  each_row(rows, k, a, a_stride, c, c_stride, [k](const float* x, const RowSteps& steps, int8_t* to) {
    for (size_t i = 0; i < k; ++i) to[i] = quantize(x[i], steps);
  });
}

extern "C" void qn_quantize_rows_qd8b4_ref(size_t rows, size_t k, const void* a, size_t a_stride, void* c,
                                           size_t c_stride) {
  using namespace quern;
  each_row(rows, k, a, a_stride, c, c_stride, [k](const float* x, const RowSteps& steps, int8_t* to) {
    auto* block = reinterpret_cast<qn_quantized_block*>(to);
    for (size_t i = 0; i < k; i += scale_block, ++block) {
      block->start = 0;
      for (size_t j = 0; j < scale_block; ++j) {
        block->elements[j] = i + j < k ? quantize(x[i + j], steps) : int8_t{0};
        block->start -= 8 * block->elements[j];
      }
    }
  });
}
