#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace quern::extra {

// One dimension of a convolution: tap t of the window at `place` is pixel place * stride + t * dilation - before.
struct Axis {
  size_t pixels, taps, places;
  size_t stride, dilation, before;

  // The places whose tap t is a pixel: [first, last).
  size_t first(size_t t) const {
    const size_t at = t * dilation;
    return at >= before ? 0 : std::min(places, (before - at + stride - 1) / stride);
  }
  size_t last(size_t t) const {
    const size_t at = t * dilation;
    const size_t end = pixels + before > at ? (pixels + before - at - 1) / stride + 1 : 0;
    return std::max(first(t), std::min(places, end));
  }
  size_t pixel(size_t place, size_t t) const { return place * stride + t * dilation - before; }
};
using Axes = std::vector<Axis>;

}  // namespace quern::extra
