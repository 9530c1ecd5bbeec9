// The kernels of pool.h for one vector level; see vector.h for how a level's file includes this.
#include "kernel/pool.h"
#include "kernel/vector.h"

namespace quern {
namespace {

// A number that a template can take as an argument.
template <size_t value>
struct Count {
  constexpr size_t operator()() const { return value; }
};

// What a pixel gathers from its taps.
struct Sum {
  static constexpr float start = 0;
  Vec value = {};
  inline void add(Vec x) { value += x; }
  inline Vec get() const { return value; }
};
struct Max : Maximum<Vec> {
  static constexpr float start = -__builtin_inff();
  Max() : Maximum<Vec>{splat<Vec>(start)} {}
};

// Gathers `blocks` vectors of channels in registers. count < width: the one vector holds that many channels.
template <class Gather, size_t blocks, class Finish>
inline void pool_block(size_t taps, const int32_t* table, const char* a, float* out, size_t count, Finish finish) {
  Gather gather[blocks];
  for (size_t t = 0; t < taps; ++t) {
    if (table[t] < 0) continue;
    const auto* in = reinterpret_cast<const float*>(a + table[t]);
    for (size_t i = 0; i < blocks; ++i) {
      gather[i].add(count == width ? load(in + i * width) : load_some(in, count));
    }
  }
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

#if QN_VECTOR_BYTES >= 32

struct Plane {
  size_t kernel_h, kernel_w;
  const int32_t* offsets;
  const uint8_t* masks;
  size_t mask_stride;
};

inline uint32_t mask_bits(const uint8_t* masks, size_t vector) {
  if (width == 8) return masks[vector];
  uint16_t bits;
  __builtin_memcpy(&bits, masks + 2 * vector, sizeof bits);
  return bits;
}

// Gathers `count` vectors of pixels from p on in registers. What a tap does not take part in, gets what changes
// nothing.
template <class Gather, size_t count, class Finish>
inline void plane_vectors(const Plane& plane, size_t p, const char* a, float* out, Finish finish) {
  Gather gather[count];
  const uint8_t* masks = plane.masks + p / 8;
  const int32_t* offset = plane.offsets;
  for (size_t column = 0; column < plane.kernel_w; ++column, masks += plane.mask_stride) {
    uint32_t bits[count];
    for (size_t i = 0; i < count; ++i) bits[i] = mask_bits(masks, i);
    for (size_t row = 0; row < plane.kernel_h; ++row, ++offset) {
      const auto* in = reinterpret_cast<const float*>(a + *offset) + p;
      for (size_t i = 0; i < count; ++i) gather[i].add(load_masked(in + i * width, bits[i], splat<Vec>(Gather::start)));
    }
  }
  for (size_t i = 0; i < count; ++i) store(out + i * width, finish(gather[i].get(), p + i * width));
}

// finish(value, p) makes the outputs of pixels p ..
template <class Gather, class Finish>
inline void pool_plane(size_t pixels, const Plane& plane, const void* a, void* c, size_t c_stride, Finish finish) {
  constexpr size_t block = QN_PLANE_BLOCK, together = block / width;
  const auto* in = static_cast<const char*>(a);
  for (size_t p = 0; p < pixels; p += block) {
    auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + p / block * c_stride);
    if (pixels - p > block - width) {
      plane_vectors<Gather, together>(plane, p, in, out, finish);
      continue;
    }
    for (size_t x = p; x < pixels; x += width) plane_vectors<Gather, 1>(plane, x, in, out + x - p, finish);
  }
}

#endif

}  // namespace
}  // namespace quern

extern "C" {

void QN_LEVEL_NAME(maxpool_f32)(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                const void* a, const float*, void* c, size_t c_stride, const qn_minmax_f32* p) {
  const quern::Vec min = quern::splat<quern::Vec>(p->min), max = quern::splat<quern::Vec>(p->max);
  quern::pool<quern::Max>(channels, pixels, taps, offsets, step, a, c, c_stride,
                          [=](quern::Vec value, size_t) { return quern::clamp_to(value, min, max); });
}

void QN_LEVEL_NAME(avgpool_f32)(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                const void* a, const float* scale, void* c, size_t c_stride, const qn_minmax_f32* p) {
  const quern::Vec min = quern::splat<quern::Vec>(p->min), max = quern::splat<quern::Vec>(p->max);
  quern::pool<quern::Sum>(channels, pixels, taps, offsets, step, a, c, c_stride,
                          [=](quern::Vec sum, size_t x) { return quern::clamp_to(scale[x] * sum, min, max); });
}

#if QN_VECTOR_BYTES >= 32

void QN_PLANE_NAME(maxpool_f32)(size_t pixels, size_t kernel_h, size_t kernel_w, const int32_t* offsets,
                                const void* masks, size_t mask_stride, const void* a, const float*, void* c,
                                size_t c_stride, const qn_minmax_f32* p) {
  const quern::Vec min = quern::splat<quern::Vec>(p->min), max = quern::splat<quern::Vec>(p->max);
  quern::pool_plane<quern::Max>(pixels, {kernel_h, kernel_w, offsets, static_cast<const uint8_t*>(masks), mask_stride},
                                a, c, c_stride,
                                [=](quern::Vec value, size_t) { return quern::clamp_to(value, min, max); });
}

void QN_PLANE_NAME(avgpool_f32)(size_t pixels, size_t kernel_h, size_t kernel_w, const int32_t* offsets,
                                const void* masks, size_t mask_stride, const void* a, const float* scale, void* c,
                                size_t c_stride, const qn_minmax_f32* p) {
  const quern::Vec min = quern::splat<quern::Vec>(p->min), max = quern::splat<quern::Vec>(p->max);
  quern::pool_plane<quern::Sum>(
      pixels, {kernel_h, kernel_w, offsets, static_cast<const uint8_t*>(masks), mask_stride}, a, c, c_stride,
      [=](quern::Vec sum, size_t x) { return quern::clamp_to(quern::load(scale + x) * sum, min, max); });
}

#endif

}  // extern "C"
