// Copies the taps of output pixels to where they lie side by side.
#pragma once

#include <algorithm>
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
        inside_(columns_inside(window_.w)),
        wide_(columns_of_vectors()),
        zero_(type, in * window_.w.kernel, static_cast<int8_t>(conv.input_zero())) {}

  // pixels() may write so many bytes behind the taps of a pixel.
  static constexpr size_t slack = 15;

  // Copies the taps of output pixels first .. first+count-1, counted row by row; those of a pixel begin `stride` bytes
  // behind those of the one before.
  void pixels(const char* a, size_t first, size_t count, size_t stride, char* to) const {
    size_t y = first / window_.w.out, x = first % window_.w.out;
    for (size_t n = 0; count > 0; x += n, to += n * stride, count -= n) {
      if (x == window_.w.out) x = 0, ++y;
      if (copies_vectors && wide_.has(x)) {
        n = std::min(count, wide_.end - x);
        vectors(a, y, x, n, stride, to);
      } else {
        n = 1;
        pixel(a, y, x, to);
      }
    }
  }

 private:
  static constexpr size_t vector = 16, many = 16 * vector;        // bytes; many are left to the C library
  static constexpr bool copies_vectors = has_integers || !small;  // small builds of floats do without

  // Copies all taps of output pixel (y, x), row by row of the kernel.
  void pixel(const char* a, size_t y, size_t x, char* to) const {
    for (size_t k = 0; k < window_.h.kernel; ++k, to += row_bytes()) {
      const int64_t iy = window_.h.at(y, k);
      if (!window_.h.inside(iy)) {
        fill(to, row_bytes());
      } else {
        row(a + static_cast<size_t>(iy) * window_.row_stride, x, to);
      }
    }
  }

  // Bytes of a row of taps.
  size_t row_bytes() const { return window_.w.kernel * in_bytes_; }

  // The output columns whose rows of taps lie side by side and, made up to whole vectors, inside a row of the image.
  Span columns_of_vectors() const {
    if (!copies_vectors || !contiguous_ || row_bytes() > many) return {0, 0};
    Axis read = window_.w;
    read.kernel = divide_up(round_up(row_bytes(), vector), in_bytes_);
    return columns_inside(read);
  }

  // Copies whole vectors: what lies behind a row of taps is overwritten by the next row.
  void vectors(const char* a, size_t y, size_t x, size_t count, size_t stride, char* to) const {
    const size_t step = window_.w.stride * in_bytes_;
    for (size_t k = 0; k < window_.h.kernel; ++k, to += row_bytes()) {
      const int64_t iy = window_.h.at(y, k);
      if (!window_.h.inside(iy)) {
        for (size_t i = 0; i < count; ++i) fill(to + i * stride, row_bytes());
        continue;
      }
      const char* from =
          a + static_cast<size_t>(iy) * window_.row_stride + (x * window_.w.stride - window_.w.before) * in_bytes_;
      for (size_t v = 0; v < row_bytes(); v += vector) copy_each(from + v, step, count, to + v, stride);
    }
  }
  [[gnu::noinline]] static void copy_each(const char* from, size_t step, size_t count, char* to, size_t stride) {
#pragma GCC unroll 4
    for (; count > 0; --count, from += step, to += stride) std::memcpy(to, from, vector);
  }

  void row(const char* a, size_t x, char* to) const {
    if (!inside_.has(x)) fill(to, row_bytes());
    const size_t run = contiguous_ ? window_.w.kernel : 1;
    const auto in = static_cast<int64_t>(window_.w.in);
    for (size_t k = 0; k < window_.w.kernel; k += run) {
      const int64_t ix = window_.w.at(x, k), from = std::max<int64_t>(ix, 0),
                    until = std::min(ix + static_cast<int64_t>(run), in);
      if (from >= until) continue;
      copy(to + (k + static_cast<size_t>(from - ix)) * in_bytes_, a + static_cast<size_t>(from) * window_.pixel_stride,
           static_cast<size_t>(until - from) * in_bytes_);
    }
  }

  // Copies short runs itself: calling the C library would take longer than the copy. Parts of a run overlap.
  [[gnu::noinline]] static void copy(char* to, const char* from, size_t bytes) {
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
  void fill(char* to, size_t bytes) const { copy(to, static_cast<const char*>(zero_.data()), bytes); }

  Window window_;
  size_t in_bytes_;
  bool contiguous_;  // do the taps of a row lie side by side already?
  Span inside_;      // the output columns whose taps are all inside the image
  Span wide_;        // the output columns whose rows of taps are copied as whole vectors
  Padding zero_;     // the padding for a row of taps
};

}  // namespace quern
