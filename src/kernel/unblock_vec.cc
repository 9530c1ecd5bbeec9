// The kernels of unblock.h for one level of vectors; see vector.h.
#include "kernel/unblock.h"

#include "base/shuffle.h"
#include "kernel/vector.h"

namespace quern {
namespace {

// Copies `count` floats. The last vector may copy some elements of the one before it again, which is faster than a
// masked store.
inline void move(float* to, const float* from, size_t count) {
  size_t x = 0;
  for (; x + 4 * width <= count; x += 4 * width) {
    Vec v[4];
    for (size_t i = 0; i < 4; ++i) v[i] = load(from + x + i * width);
    for (size_t i = 0; i < 4; ++i) store(to + x + i * width, v[i]);
  }
  for (; x + width <= count; x += width) store(to + x, load(from + x));
  if (x == count) return;
  if (count >= width) {
    store(to + count - width, load(from + count - width));
  } else {
    store_some(to, load_some(from, count), count);
  }
}

#if QN_VECTOR_BYTES == 64
inline Vec evens(Vec a, Vec b) { return shuffle<0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30>(a, b); }
inline Vec odds(Vec a, Vec b) { return shuffle<1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31>(a, b); }
#elif QN_VECTOR_BYTES == 32
inline Vec evens(Vec a, Vec b) { return shuffle<0, 2, 4, 6, 8, 10, 12, 14>(a, b); }
inline Vec odds(Vec a, Vec b) { return shuffle<1, 3, 5, 7, 9, 11, 13, 15>(a, b); }
#else
inline Vec evens(Vec a, Vec b) { return shuffle<0, 2, 4, 6>(a, b); }
inline Vec odds(Vec a, Vec b) { return shuffle<1, 3, 5, 7>(a, b); }
#endif

struct Split {
  size_t rows, columns;
  const char* a;
  size_t a_stride;
  char* d;
  size_t d_stride, d_plane;
  bool odd;  // is there a second plane?

  const float* row(size_t y) const { return reinterpret_cast<const float*>(a + y * a_stride); }
  float* plane(size_t r, size_t y) const { return reinterpret_cast<float*>(d + r * d_plane + y * d_stride); }
};

// Splits rows of two vectors or more, with step 2. The last pixels of a row may be split twice.
inline void split_wide(const Split& s) {
  for (size_t y = 0; y < s.rows; ++y) {
    const float* from = s.row(y);
    float *even = s.plane(0, y), *odd = s.plane(1, y);
    const auto pairs = [&](size_t x) {
      const Vec a = load(from + x), b = load(from + x + width);
      store(even + x / 2, evens(a, b));
      if (s.odd) store(odd + x / 2, odds(a, b));
    };
    for (size_t x = 0; x + 2 * width <= s.columns; x += 2 * width) pairs(x);
    if (s.columns % (2 * width) == 0) continue;
    pairs((s.columns - 2 * width) & ~size_t{1});
    if (s.columns % 2 == 1) even[s.columns / 2] = from[s.columns - 1];
  }
}

#if QN_VECTOR_BYTES == 64

inline uint32_t bits(size_t count) { return count < 16 ? (1u << count) - 1 : 0xffff; }

// Splits rows of less than two vectors, with step 2.
inline void split_narrow(const Split& s) {
  const Vec none = {};
  const uint32_t low = bits(s.columns), high = s.columns > width ? bits(s.columns - width) : 0;
  const uint32_t even = bits((s.columns + 1) / 2), odd = s.odd ? bits(s.columns / 2) : 0;
  for (size_t y = 0; y < s.rows; ++y) {
    const Vec a = load_masked(s.row(y), low, none), b = load_masked(s.row(y) + width, high, none);
    store_masked(s.plane(0, y), even, evens(a, b));
    store_masked(s.plane(1, y), odd, odds(a, b));
  }
}

#else

inline void split_narrow(const Split& s) {
  for (size_t r = 0; r <= s.odd; ++r) {
    for (size_t y = 0; y < s.rows; ++y) {
      const float* from = s.row(y);
      float* to = s.plane(r, y);
      for (size_t x = r; x < s.columns; x += 2) *to++ = from[x];
    }
  }
}

#endif

}  // namespace
}  // namespace quern

extern "C" {

void QN_PLANE_NAME(unblock_f32)(size_t pixels, const void* a, size_t a_stride, void* d, size_t d_stride) {
  constexpr size_t block = QN_PLANE_BLOCK;
  const auto* from = static_cast<const char*>(a);
  auto* to = static_cast<char*>(d);
  const auto copy = [&](size_t count) {
    quern::move(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(from), count);
  };
  for (; pixels >= block; pixels -= block, from += a_stride, to += d_stride) copy(block);
  copy(pixels);
}

void QN_LEVEL_NAME(split_f32)(size_t rows, size_t columns, size_t step, size_t planes, const void* a, size_t a_stride,
                              void* d, size_t d_stride, size_t d_plane) {
  const quern::Split split = {
      rows, columns, static_cast<const char*>(a), a_stride, static_cast<char*>(d), d_stride, d_plane, planes > 1};
  if (step == 1) {
    for (size_t y = 0; y < rows; ++y) quern::move(split.plane(0, y), split.row(y), columns);
  } else if (step == 2) {
    columns < 2 * quern::width ? split_narrow(split) : split_wide(split);
  } else {
    for (size_t y = 0; y < rows; ++y) {
      for (size_t r = 0; r < planes; ++r) {
        float* to = split.plane(r, y);
        for (size_t x = r; x < columns; x += step) *to++ = split.row(y)[x];
      }
    }
  }
}

}  // extern "C"
