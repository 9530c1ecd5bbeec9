// Copies the taps of output pixels to where they lie side by side.
#pragma once

#include <cstring>

#include "base/math.h"
#include "op/conv/conv.h"

namespace quern {

class TapCopies {
 public:
  // A tap has `in` channels.
  TapCopies(const ConvRequest& conv, size_t in, KernelType type)
      : window_(conv.window),
        in_bytes_(in * input_bytes(type)),
        contiguous_(window_.w.dilation == 1 && window_.pixel_stride == in_bytes_),
        zero_(type, in * window_.w.kernel, static_cast<int8_t>(conv.input_zero())) {}

  // Bytes of a row of taps.
  size_t row_bytes() const { return window_.w.kernel * in_bytes_; }

  // Copies all taps of output pixel (y, x), row by row of the kernel; rows lie `stride` bytes apart.
  void pixel(const char* a, size_t y, size_t x, size_t stride, char* to) const {
    for (size_t k = 0; k < window_.h.kernel; ++k, to += stride) {
      const int64_t iy = window_.h.at(y, k);
      if (!window_.h.inside(iy)) {
        fill(to, row_bytes());
      } else {
        row(a + static_cast<size_t>(iy) * window_.row_stride, x, to);
      }
    }
  }

 private:
  void row(const char* a, size_t x, char* to) const {
    const Axis& w = window_.w;
    if (contiguous_) {
      const int64_t first = w.at(x, 0), end = first + static_cast<int64_t>(w.kernel);
      if (first >= 0 && end <= static_cast<int64_t>(w.in)) {
        copy(to, a + static_cast<size_t>(first) * in_bytes_, w.kernel * in_bytes_);
        return;
      }
      const int64_t from = std::clamp<int64_t>(first, 0, static_cast<int64_t>(w.in));
      const int64_t until = std::clamp<int64_t>(end, from, static_cast<int64_t>(w.in));
      const size_t before = std::min(static_cast<size_t>(from - first), w.kernel);
      const size_t count = static_cast<size_t>(until - from);
      fill(to, before * in_bytes_);
      copy(to + before * in_bytes_, a + static_cast<size_t>(from) * in_bytes_, count * in_bytes_);
      fill(to + (before + count) * in_bytes_, (w.kernel - before - count) * in_bytes_);
      return;
    }
    for (size_t k = 0; k < w.kernel; ++k, to += in_bytes_) {
      const int64_t ix = w.at(x, k);
      if (w.inside(ix)) {
        copy(to, a + static_cast<size_t>(ix) * window_.pixel_stride, in_bytes_);
      } else {
        fill(to, in_bytes_);
      }
    }
  }

  // Copies short runs itself: calling the C library would take longer than the copy. Parts of a run overlap.
  static void copy(char* to, const char* from, size_t bytes) {
    constexpr size_t vector = 16, many = 16 * vector;
    if (bytes > many) {
      std::memcpy(to, from, bytes);
      return;
    }
    if (bytes >= vector) {
      for (size_t i = 0; i < bytes - vector; i += vector) std::memcpy(to + i, from + i, vector);
      std::memcpy(to + bytes - vector, from + bytes - vector, vector);
    } else if (bytes >= 8) {
      copy_ends<8>(to, from, bytes);
    } else if (bytes >= 4) {
      copy_ends<4>(to, from, bytes);
    } else {
      for (size_t i = 0; i < bytes; ++i) to[i] = from[i];
    }
  }
  // Copies the first and the last `part` bytes, which are all that there are.
  template <size_t part>
  static void copy_ends(char* to, const char* from, size_t bytes) {
    std::memcpy(to, from, part);
    std::memcpy(to + bytes - part, from + bytes - part, part);
  }
  [[gnu::noinline]] void fill(char* to, size_t bytes) const { copy(to, static_cast<const char*>(zero_.data()), bytes); }

  Window window_;
  size_t in_bytes_;
  bool contiguous_;  // do the taps of a row lie side by side already?
  Padding zero_;     // the padding for a row of taps
};

}  // namespace quern
