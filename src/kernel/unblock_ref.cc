#include "kernel/unblock.h"

namespace quern {
namespace {

constexpr UnblockRow unblock_table[] = {
#define QN_UNBLOCK_ROW(type, block, isa, layout, name) {QN_ROW(type, isa, layout, name), block, name},
#include "kernel/unblock.inc"
};

constexpr SplitRow split_table[] = {
#define QN_SPLIT_ROW(type, isa, layout, name) {QN_ROW(type, isa, layout, name), name},
#include "kernel/unblock.inc"
};

}  // namespace

std::span<const UnblockRow> unblock_rows() { return built<unblock_table>(); }
std::span<const SplitRow> split_rows() { return built<split_table>(); }

}  // namespace quern

extern "C" void qn_unblock_f32_plane_ref(size_t pixels, const void* a, size_t a_stride, void* d, size_t d_stride) {
  constexpr size_t block = quern::reference_pixel_block;
  for (size_t p = 0; p < pixels; ++p) {
    const auto* from = reinterpret_cast<const uint32_t*>(static_cast<const char*>(a) + p / block * a_stride);
    auto* to = reinterpret_cast<uint32_t*>(static_cast<char*>(d) + p / block * d_stride);
    to[p % block] = from[p % block];
  }
}

extern "C" void qn_split_f32_ref(size_t rows, size_t columns, size_t step, size_t planes, const void* a,
                                 size_t a_stride, void* d, size_t d_stride, size_t d_plane) {
  for (size_t y = 0; y < rows; ++y) {
    const auto* from = reinterpret_cast<const uint32_t*>(static_cast<const char*>(a) + y * a_stride);
    for (size_t r = 0; r < planes; ++r) {
      auto* to = reinterpret_cast<uint32_t*>(static_cast<char*>(d) + r * d_plane + y * d_stride);
      for (size_t x = r; x < columns; x += step) *to++ = from[x];
    }
  }
}
