#include "kernel/deal.h"

namespace quern {
namespace {

constexpr DealRow deal_table[] = {
#define QN_DEAL_ROW(type, lanes, isa, layout, name) {QN_ROW(type, isa, layout, name), lanes, name},
#include "kernel/deal.inc"
};

}  // namespace

std::span<const DealRow> deal_rows() { return built<deal_table>(); }

}  // namespace quern

// With groups of one part pixels stay in order.
extern "C" void qn_deal_qs8_1_ref(size_t rows, size_t groups, const void* a, size_t a_stride, void* c,
                                  size_t c_stride) {
  const auto* from = static_cast<const char*>(a);
  auto* to = static_cast<char*>(c);
  for (size_t r = 0; r < rows; ++r, from += a_stride, to += 4 * c_stride) {
    for (size_t p = 0; p < quern::dealt_pixels(1) * groups; ++p) {
      for (size_t j = 0; j < 4; ++j) to[j * c_stride + p] = from[4 * p + j];
    }
  }
}
