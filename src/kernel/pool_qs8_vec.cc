// The row kernels of pool.h for bytes, for one level of vectors; see vector_bytes.h.
#include <algorithm>
#include <cstring>

#include "kernel/pool.h"
#include "kernel/vector_bytes.h"

namespace quern {
namespace {

// The taps of one pixel, from some channel on; those with an offset below 0 take no part.
struct Taps {
  const int32_t* offsets;
  size_t count;
  const int8_t* a;

  Taps from(size_t channel) const { return {offsets, count, a + channel}; }
};

// Calls block.vectors<n>(taps, x, out) for n vectors of channels of pixel x, which share a loop over the taps. The last
// channels are computed twice where they do not fill a vector; block.some(taps, x, out, count) is for fewer than a
// vector, or for all of them if most_vectors is 0.
template <class Block>
inline void pool(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step, const void* a,
                 void* c, size_t c_stride, const Block& block) {
  for (size_t x = 0; x < pixels; ++x) {
    const auto* table = reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(offsets) + x * step);
    const Taps all = {table, taps, bytes(a)};
    int8_t* const out = bytes(c) + x * c_stride;
    size_t n = 0;
    constexpr size_t most = Block::most_vectors;
    if (most == 0 || channels < byte_lanes) {
      for (; n < channels; n += byte_lanes) block.some(all.from(n), x, out + n, std::min(channels - n, byte_lanes));
      continue;
    }
    if constexpr (most > 1)
      for (; n + most * byte_lanes <= channels; n += most * byte_lanes)
        block.template vectors<most>(all.from(n), x, out + n);
    if constexpr (most > 2)
      for (; n + 2 * byte_lanes <= channels; n += 2 * byte_lanes) block.template vectors<2>(all.from(n), x, out + n);
    if constexpr (most > 0)
      for (; n < channels; n += byte_lanes) {
        if (n + byte_lanes > channels) n = channels - byte_lanes;
        block.template vectors<1>(all.from(n), x, out + n);
      }
  }
}

// Reads vectors that follow each other, or the only one that is not whole.
struct Whole {
  inline Bytes operator()(const int8_t* p, size_t vector) const { return load_bytes(p + vector * byte_lanes); }
};
struct Some {
  size_t count;
  inline Bytes operator()(const int8_t* p, size_t) const { return load_some_bytes(p, count); }
};

struct Maxima {
  static constexpr size_t most_vectors = small ? 1 : 4;
  Bytes min, max;  // what outputs are clamped to

  explicit Maxima(const qn_pool_qs8& p) : min(splat_byte(p.min)), max(splat_byte(p.max)) {}
  template <size_t n, class Load>
  inline void run(const Taps& taps, Load load, Bytes (&values)[n]) const {
#pragma GCC unroll 4
    for (size_t i = 0; i < n; ++i) values[i] = min;
    for (size_t t = 0; t < taps.count; ++t) {
      if (taps.offsets[t] < 0) continue;
      const int8_t* const tap = taps.a + taps.offsets[t];
#pragma GCC unroll 4
      for (size_t i = 0; i < n; ++i) values[i] = larger_bytes(values[i], load(tap, i));
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < n; ++i) values[i] = smaller_bytes(values[i], max);
  }
  template <size_t n>
  inline void vectors(const Taps& taps, size_t, int8_t* out) const {
    Bytes values[n];
    run(taps, Whole(), values);
#pragma GCC unroll 4
    for (size_t i = 0; i < n; ++i) store_bytes(out + i * byte_lanes, values[i]);
  }
  inline void some(const Taps& taps, size_t, int8_t* out, size_t count) const {
    Bytes values[1];
    run(taps, Some{count}, values);
    store_some_bytes(out, values[0], count);
  }
};

// Adds two vectors of bytes to sums of 16 bits.
inline void add_pair(Halves* sums, Bytes a, Bytes b) {
#if QN_VECTOR_BYTES == 64
  const Word ones = Word(splat_byte(1));
  sums->low += Shorts(_mm512_maddubs_epi16(ones, unpack_low_bytes(Word(a), Word(b))));
  sums->high += Shorts(_mm512_maddubs_epi16(ones, unpack_high_bytes(Word(a), Word(b))));
#elif defined(QN_X86)
  const Word ones = Word(splat_byte(1));
  sums->low += Shorts(QN_X86(maddubs_epi16)(ones, unpack_low_bytes(Word(a), Word(b))));
  sums->high += Shorts(QN_X86(maddubs_epi16)(ones, unpack_high_bytes(Word(a), Word(b))));
#else
  const int8x16_t u = int8x16_t(a), v = int8x16_t(b);
  sums->low += Shorts(vaddl_s8(vget_low_s8(u), vget_low_s8(v)));
  sums->high += Shorts(vaddl_s8(vget_high_s8(u), vget_high_s8(v)));
#endif
}

// As many bytes have a sum of 16 bits.
constexpr size_t short_taps = 256;

struct Averages {
  static constexpr size_t most_vectors = small ? 0 : 2;  // small builds have the code once
  Ending end;
  int32_t zero;
  const float* scale;

  Averages(const qn_pool_qs8& p, const void* scales)
      : end(p.zero, p.min, p.max), zero(p.zero_in), scale(floats(scales)) {}

  inline Bytes finish(const Integers& sums, int32_t taps, size_t x) const {
    const Vec factor = splat<Vec>(scale[x]);
    const Ints offset = Ints{} + static_cast<int32_t>(static_cast<uint32_t>(taps) * static_cast<uint32_t>(zero));
    Numbers y;
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) y.part[k] = __builtin_convertvector(sums.part[k] - offset, Vec) * factor;
    return end(y);
  }

  static inline Integers sum(const Integers& x, const Integers& y) {
    return {{x.part[0] + y.part[0], x.part[1] + y.part[1], x.part[2] + y.part[2], x.part[3] + y.part[3]}};
  }

  // Returns how many taps take part, of up to short_taps, and adds them two by two (one by one in small builds).
  template <size_t n, class Load>
  [[gnu::always_inline]] static inline int32_t add(const Taps& taps, Load load, Halves (&sums)[n]) {
#pragma GCC unroll 4
    for (size_t i = 0; i < n; ++i) sums[i] = {Shorts{}, Shorts{}};
    int32_t count = 0;
    constexpr size_t together = small ? 1 : 2;
    for (size_t t = 0; t < taps.count; t += together) {
      const int32_t first = taps.offsets[t];
      const int32_t second = together == 2 && t + 1 < taps.count ? taps.offsets[t + 1] : -1;
      if ((first | second) >= 0) {
        count += 2;
#pragma GCC unroll 4
        for (size_t i = 0; i < n; ++i) add_pair(&sums[i], load(taps.a + first, i), load(taps.a + second, i));
      } else if ((first & second) >= 0) {
        ++count;
        const int8_t* const tap = taps.a + std::max(first, second);
#pragma GCC unroll 4
        for (size_t i = 0; i < n; ++i) add_pair(&sums[i], load(tap, i), Bytes{});
      }
    }
    return count;
  }

  template <size_t n, class Load>
  inline void run(const Taps& taps, size_t x, Load load, Bytes (&values)[n]) const {
    // What does not fit 16 bits goes to sums of 32 bits in memory, now and then.
    Integers sums[n];
    const bool many = taps.count > short_taps;
    if (many) std::memset(sums, 0, sizeof sums);
    Halves part[n];
    int32_t count = 0;
    for (size_t t = 0;; t += short_taps) {
      count += add({taps.offsets + t, std::min(taps.count - t, short_taps), taps.a}, load, part);
      if (t + short_taps >= taps.count) break;
      for (size_t i = 0; i < n; ++i) sums[i] = sum(sums[i], widen(part[i]));
    }
    for (size_t i = 0; i < n; ++i) {
      const Integers wide = widen(part[i]);
      values[i] = finish(many ? sum(sums[i], wide) : wide, count, x);
    }
  }
  template <size_t n>
  inline void vectors(const Taps& taps, size_t x, int8_t* out) const {
    Bytes values[n];
    run(taps, x, Whole(), values);
#pragma GCC unroll 4
    for (size_t i = 0; i < n; ++i) store_bytes(out + i * byte_lanes, values[i]);
  }
  inline void some(const Taps& taps, size_t x, int8_t* out, size_t count) const {
    Bytes values[1];
    run(taps, x, Some{count}, values);
    store_some_bytes(out, values[0], count);
  }
};

}  // namespace
}  // namespace quern

extern "C" {

void QN_LEVEL_NAME(maxpool_qs8)(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                const void* a, const void*, void* c, size_t c_stride, const void* p) {
  quern::pool(channels, pixels, taps, offsets, step, a, c, c_stride,
              quern::Maxima(*static_cast<const qn_pool_qs8*>(p)));
}

void QN_LEVEL_NAME(avgpool_qs8)(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                const void* a, const void* scale, void* c, size_t c_stride, const void* p) {
  quern::pool(channels, pixels, taps, offsets, step, a, c, c_stride,
              quern::Averages(*static_cast<const qn_pool_qs8*>(p), scale));
}

}  // extern "C"
