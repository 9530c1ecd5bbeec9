// How the weights of a panel lie, which rows of products and of depthwise convolutions say (gemm.h, igemm.h, dwconv.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern {

// Only vectors of x86 have several lanes, and only its dot products need unsigned numbers (PanelFormat).
#if defined(__x86_64__)
constexpr bool has_lanes = true, has_plus_128 = true;
#else
constexpr bool has_lanes = false, has_plus_128 = false;
#endif

// Kernels of floats have the initial format.
struct PanelFormat {
  uint8_t kr = 1;  // successive k that lie together
  // If more than 1: the kernel interleaves bytes of its input within lanes of 16 bytes, of which its vectors have so
  // many. Its sums then come in another order than the channels: place_in_panel().
  uint8_t lanes = 1;
  // The kernel multiplies bytes of the input plus 128, as unsigned numbers; biases make up for it.
  bool plus_128 = false;

  bool operator==(const PanelFormat&) const = default;
};

// The formats that tables name, panel_<name>.
inline constexpr PanelFormat panel_k1 = {};
inline constexpr PanelFormat panel_k2 = {2};
inline constexpr PanelFormat panel_k4 = {4};
inline constexpr PanelFormat panel_k8 = {8};
inline constexpr PanelFormat panel_k16 = {16};
inline constexpr PanelFormat panel_k4u = {4, 1, true};
inline constexpr PanelFormat panel_k4x512u = {4, 4, true};

template <class KernelRow>
constexpr PanelFormat format_of(const KernelRow& row) {
  if constexpr (requires { row.panel; }) return row.panel;
  return {};
}

// The number of successive weights of an output channel that share a scale in types qd8b4 and qw4b.
inline constexpr size_t scale_block = 32;

// Two weights of 4 bits lie in a byte: those of the channels at places i and i + nr / 2 of a panel, the first in the
// lower half. Returns that of one half.
constexpr int32_t half_of(int8_t both, size_t half) {
  return static_cast<int8_t>(half == 0 ? static_cast<uint8_t>(both) << 4 : both & 0xf0) >> 4;
}

// The same where a half holds its weight plus 8.
constexpr int32_t raised_half_of(int8_t both, size_t half) {
  return (half == 0 ? both & 0xf : static_cast<uint8_t>(both) >> 4) - 8;
}

// The place of a channel in each row of its panel of nr channels, also in its rows of biases and scales. A lane of 16
// bytes of the input has 16 channels. Interleaving gives vectors of sums: the first one has the first four channels of
// each lane, the second one the next four, and so on.
constexpr size_t place_in_panel(const PanelFormat& format, size_t nr, size_t channel) {
  const size_t in_lane = nr / format.lanes, lane = channel / in_lane, i = channel % in_lane;
  return (i / 4 * format.lanes + lane) * 4 + i % 4;
}

}  // namespace quern
