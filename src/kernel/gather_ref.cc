#include "kernel/gather.h"

#include <cstring>

namespace quern {
namespace {

constexpr GatherRow gather_table[] = {
#define QN_GATHER_ROW(type, lanes, isa, layout, name) {QN_ROW(type, isa, layout, name), lanes, name},
#include "kernel/gather.inc"
};

}  // namespace

std::span<const GatherRow> gather_rows() { return built<gather_table>(); }

}  // namespace quern

// Vectors have one lane here, so each is one piece.
extern "C" void qn_gather_f32_1_ref(size_t rows, size_t vectors, const qn_gather_piece* pieces, const void* a,
                                    size_t a_stride, void* c, size_t c_stride) {
  constexpr uint32_t zero = 0;
  for (size_t r = 0; r < rows; ++r) {
    const char* from = static_cast<const char*>(a) + r * a_stride;
    char* to = static_cast<char*>(c) + r * c_stride;
    for (size_t p = 0; p < vectors; ++p) {
      const bool any = pieces[p].lanes != 0;
      std::memcpy(to + p * sizeof zero, any ? static_cast<const void*>(from + pieces[p].offset) : &zero, sizeof zero);
    }
  }
}
