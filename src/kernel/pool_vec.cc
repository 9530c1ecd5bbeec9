// The kernels of pool.h for one level of vectors; see vector.h.
#include "kernel/pool.h"
#include "kernel/vector.h"

namespace quern {
namespace {

// A number that a template can take as an argument.
template <size_t value>
struct Count {
  constexpr size_t operator()() const { return value; }
};

// Sum and Max combine the taps of a pixel.
struct Sum {
  [[maybe_unused]] static constexpr float start = 0;
  Vec value = {};
  inline void add(Vec x) { value += x; }
  inline Vec get() const { return value; }
};
struct Max : Maximum<Vec> {
  static constexpr float start = -__builtin_inff();
  Max() : Maximum<Vec>{splat<Vec>(start)} {}
};

// Combines the taps of one pixel, for `blocks` vectors of channels. The pragmas unroll the loops over these vectors
// even where a level is compiled for size; otherwise the vectors would not stay in registers. If count < width, blocks
// is 1 and the vector holds only `count` channels.
template <class Gather, size_t blocks, class Finish>
inline void pool_block(size_t taps, const int32_t* table, const char* a, float* out, size_t count, Finish finish) {
  Gather gather[blocks];
  for (size_t t = 0; t < taps; ++t) {
    if (table[t] < 0) continue;
    const auto* in = reinterpret_cast<const float*>(a + table[t]);
#pragma GCC unroll 4
    for (size_t i = 0; i < blocks; ++i) {
      gather[i].add(count == width ? load(in + i * width) : load_some(in, count));
    }
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < blocks; ++i) {
    if (count == width) {
      store(out + i * width, finish(gather[i].get()));
    } else {
      store_some(out, finish(gather[i].get()), count);
    }
  }
}

// finish(value, x) makes the output of pixel x.
template <class Gather, class Finish>
inline void pool(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step, const void* a,
                 void* c, size_t c_stride, Finish finish) {
  for (size_t x = 0; x < pixels; ++x) {
    const auto* table = reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(offsets) + x * step);
    auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + x * c_stride);
    const auto* in = static_cast<const char*>(a);
    const auto finish_x = [&](Vec v) { return finish(v, x); };
    size_t rest = channels;
    const auto block = [&](auto blocks, size_t count) {
      pool_block<Gather, blocks()>(taps, table, in, out, count, finish_x);
      const size_t done = blocks() * count;
      in += done * sizeof(float), out += done, rest -= done;
    };
    while (rest >= 4 * width) block(Count<4>{}, width);
    while (rest >= width) block(Count<1>{}, width);
    if (rest > 0) block(Count<1>{}, rest);
  }
}

// ---- planes

#if QN_PLANE_BLOCK > 0

struct Plane {
  size_t kernel_h, kernel_w;
  const int32_t* offsets;
  const uint8_t* masks;
  size_t mask_stride;
};

// A bit for each pixel of the vector that begins at pixel p: 1 if the tap takes part in that pixel.
inline uint32_t mask_bits(const uint8_t* mask, size_t p) {
  if (width < 8) return mask[p / 8] >> p % 8 & ((1u << width) - 1);
  if (width == 8) return mask[p / 8];
  uint16_t bits;
  __builtin_memcpy(&bits, mask + p / 8, sizeof bits);
  return bits;
}

// Combines the taps of `count` vectors of pixels, the first of which is pixel p. Where a tap takes no part in a pixel,
// Gather::start stands in for it and changes nothing.
template <class Gather, size_t count, class Finish>
inline void plane_vectors(const Plane& plane, size_t p, const char* a, float* out, Finish finish) {
  constexpr bool load_by_pixel = width == 4;  // load_masked() loads pixel by pixel where a tap leaves out some of them
  Gather gather[count];
  const uint8_t* mask = plane.masks;
  const int32_t* offset = plane.offsets;
  for (size_t column = 0; column < plane.kernel_w; ++column, mask += plane.mask_stride) {
    uint32_t bits[count], common = ~0u;
    for (size_t i = 0; i < count; ++i) common &= bits[i] = mask_bits(mask, p + i * width);
    for (size_t row = 0; row < plane.kernel_h; ++row, ++offset) {
      const auto* in = reinterpret_cast<const float*>(a + *offset) + p;
      if (load_by_pixel && common == 15) {
#pragma GCC unroll 8
        for (size_t i = 0; i < count; ++i) gather[i].add(load(in + i * width));
        continue;
      }
#pragma GCC unroll 8
      for (size_t i = 0; i < count; ++i) gather[i].add(load_masked(in + i * width, bits[i], splat<Vec>(Gather::start)));
    }
  }
#pragma GCC unroll 8
  for (size_t i = 0; i < count; ++i) store(out + i * width, finish(gather[i].get(), p + i * width));
}

// finish(value, p) makes the outputs of the vector of pixels that begins at p.
template <class Gather, class Finish>
inline void pool_plane(size_t pixels, const Plane& plane, const void* a, void* c, size_t c_stride, Finish finish) {
  constexpr size_t block = QN_PLANE_BLOCK, together = width == 4 ? 4 : block / width;
  const auto* in = static_cast<const char*>(a);
  for (size_t p = 0; p < pixels; p += block) {
    auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + p / block * c_stride);
    size_t x = p;
    for (; x < p + block && x + (together - 1) * width < pixels; x += together * width) {
      plane_vectors<Gather, together>(plane, x, in, out + x - p, finish);
    }
    for (; x < p + block && x < pixels; x += width) plane_vectors<Gather, 1>(plane, x, in, out + x - p, finish);
  }
}

#endif

}  // namespace
}  // namespace quern

extern "C" {

void QN_LEVEL_NAME(maxpool_f32)(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                const void* a, const void*, void* c, size_t c_stride, const void* p) {
  const quern::Vec min = quern::splat<quern::Vec>(quern::minmax_of(p).min),
                   max = quern::splat<quern::Vec>(quern::minmax_of(p).max);
  quern::pool<quern::Max>(channels, pixels, taps, offsets, step, a, c, c_stride,
                          [=](quern::Vec value, size_t) { return quern::clamp_to(value, min, max); });
}

void QN_LEVEL_NAME(avgpool_f32)(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                const void* a, const void* scale, void* c, size_t c_stride, const void* p) {
  const quern::Vec min = quern::splat<quern::Vec>(quern::minmax_of(p).min),
                   max = quern::splat<quern::Vec>(quern::minmax_of(p).max);
  quern::pool<quern::Sum>(
      channels, pixels, taps, offsets, step, a, c, c_stride,
      [=, s = quern::floats(scale)](quern::Vec sum, size_t x) { return quern::clamp_to(s[x] * sum, min, max); });
}

#if QN_PLANE_BLOCK > 0

void QN_PLANE_NAME(maxpool_f32)(size_t pixels, size_t kernel_h, size_t kernel_w, const int32_t* offsets,
                                const void* masks, size_t mask_stride, const void* a, const void*, void* c,
                                size_t c_stride, const void* p) {
  const quern::Vec min = quern::splat<quern::Vec>(quern::minmax_of(p).min),
                   max = quern::splat<quern::Vec>(quern::minmax_of(p).max);
  quern::pool_plane<quern::Max>(pixels, {kernel_h, kernel_w, offsets, static_cast<const uint8_t*>(masks), mask_stride},
                                a, c, c_stride,
                                [=](quern::Vec value, size_t) { return quern::clamp_to(value, min, max); });
}

void QN_PLANE_NAME(avgpool_f32)(size_t pixels, size_t kernel_h, size_t kernel_w, const int32_t* offsets,
                                const void* masks, size_t mask_stride, const void* a, const void* scale, void* c,
                                size_t c_stride, const void* p) {
  const quern::Vec min = quern::splat<quern::Vec>(quern::minmax_of(p).min),
                   max = quern::splat<quern::Vec>(quern::minmax_of(p).max);
  quern::pool_plane<quern::Sum>(pixels, {kernel_h, kernel_w, offsets, static_cast<const uint8_t*>(masks), mask_stride},
                                a, c, c_stride, [=, s = quern::floats(scale)](quern::Vec sum, size_t x) {
                                  return quern::clamp_to(quern::load(s + x) * sum, min, max);
                                });
}

#endif

}  // extern "C"
