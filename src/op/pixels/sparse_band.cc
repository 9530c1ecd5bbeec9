#include "op/pixels/sparse_band.h"

#include "base/cpu.h"
#include "base/math.h"

namespace quern {
namespace {

// The most places that `pixels` output pixels can take. A band may begin and end anywhere in a row.
size_t places_of(const Window& window, size_t pitch, size_t pixels) {
  const size_t rows = std::min((pixels + window.w.out - 2) / window.w.out, window.h.out - 1);
  return pixels + rows * (pitch - window.w.out);
}

}  // namespace

SparseBand sparse_band(const Problem& p, const SpmmRow& row) {
  constexpr size_t most_rows = 0x10000, widest_unit = 64;
  if (row.block == 1 || spmm_bytes(row) != 4 || p.window == nullptr || p.taps() == 1) return {};
  const Window& window = *p.window;
  const size_t rows = divide_up(p.in, row.inputs);  // of A
  const Axis &h = window.h, &w = window.w;
  if (h.stride != 1 || w.stride != 1 || p.taps() * rows > UINT16_MAX) return {};  // a set counts its steps in 16 bits
  SparseBand band;
  band.pitch = w.in + std::max(w.before, w.after);
  band.span = (h.kernel - 1) * h.dilation * band.pitch + (w.kernel - 1) * w.dilation;
  const size_t widest =
      round_up(places_of(window, band.pitch, widest_unit), widest_unit) + round_up(band.span, widest_unit);
  if (widest > most_rows / rows) return {};

  const size_t unit = p.blocked() ? cpu().pixel_block : row.pixels, pixels = window.pixels();
  const size_t most_floats = std::min(most_rows, cpu().l2_bytes / 4 / sizeof(float));
  for (size_t n = 1; n == 1 || band.pixels < pixels; ++n) {
    SparseBand next = band;
    next.pixels = std::min(n * unit, pixels);
    next.width = round_up(places_of(window, band.pitch, next.pixels), row.lanes);
    next.channel = round_up(next.width + band.span, row.lanes);
    if (n > 1 && next.channel * rows > most_floats) break;
    band = next;
  }
  if (band.channel > p.taps() * band.pixels) return {};  // one copy for every tap would be smaller
  return band;
}

}  // namespace quern
