#include <algorithm>
#include <cstring>

#include "kernel/transpose.h"

namespace quern {
namespace {

constexpr TransposeRow transpose_table[] = {
#define QN_TRANSPOSE_ROW(type, isa, layout, name) {QN_ROW(type, isa, layout, name), name},
#include "kernel/transpose.inc"
};

}  // namespace

std::span<const TransposeRow> transpose_rows() { return built<transpose_table>(); }

}  // namespace quern

// Takes four rows at a time, so that neither the reads nor the writes jump to a new cache line for every element.
extern "C" void qn_transpose_f32_4x4_ref(size_t rows, size_t columns, const void* const* a, void* c, size_t c_stride) {
  constexpr size_t block = 4, element = sizeof(float);
  for (size_t i0 = 0; i0 < rows; i0 += block) {
    const size_t i1 = std::min(rows, i0 + block);
    for (size_t j = 0; j < columns; ++j) {
      char* const to = static_cast<char*>(c) + j * c_stride;
      for (size_t i = i0; i < i1; ++i) {
        std::memcpy(to + i * element, static_cast<const char*>(a[i]) + j * element, element);
      }
    }
  }
}
