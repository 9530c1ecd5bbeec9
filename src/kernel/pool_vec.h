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
  Vec value = {};
  inline void add(Vec x) { value += x; }
  inline Vec get() const { return value; }
};
struct Max : Maximum<Vec> {
  Max() : Maximum<Vec>{splat<Vec>(-__builtin_inff())} {}
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

}  // extern "C"
