// The kernel of eltwise.h that looks bytes up in a table, for one level of vectors; see vector_bytes.h.
#include "kernel/eltwise.h"
#include "kernel/vector_bytes.h"

namespace quern {
namespace {

// A Table is made of the 256 bytes of the parameter, of which those from 128 on belong to bytes from 0 to 127, and the
// others to the negative ones. `table(x)` looks up a vector.

#if QN_VECTOR_BYTES == 64

inline __m512i part_of(const int8_t* table, size_t i) { return __m512i(load_bytes(table + i * byte_lanes)); }

class Table {
 public:
  explicit Table(const int8_t* p) : negative_{part_of(p, 0), part_of(p, 1)}, positive_{part_of(p, 2), part_of(p, 3)} {}
  inline Bytes operator()(Bytes v) const { return Bytes(find(__m512i(v))); }

 private:
#ifdef __AVX512VBMI__
  // One instruction looks up in 128 bytes.
  inline __m512i find(__m512i x) const {
    const __m512i negative = _mm512_permutex2var_epi8(negative_[0], x, negative_[1]);
    const __m512i positive = _mm512_permutex2var_epi8(positive_[0], x, positive_[1]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), positive, negative);
  }
#else
  // One instruction looks up in 64 pairs of bytes: it finds the pairs of the even bytes, then of the odd bytes of x. The
  // lowest bit of each byte says which byte of its pair is the result.
  inline __m512i find(__m512i x) const {
    const __m512i even = pairs(shift_right<1>(x), _mm512_movepi16_mask(shift_left(x)));
    const __m512i odd = pairs(shift_right<9>(x), _mm512_movepi16_mask(x));
    constexpr __mmask64 odd_bytes = 0xaaaaaaaaaaaaaaaa;
    const __m512i first = _mm512_mask_blend_epi8(odd_bytes, even, shift_left(odd));
    const __m512i second = _mm512_mask_blend_epi8(odd_bytes, shift_right<8>(even), odd);
    return _mm512_mask_blend_epi8(_mm512_test_epi8_mask(x, __m512i(splat_byte(1))), first, second);
  }
  inline __m512i pairs(__m512i index, __mmask32 negative) const {
    return _mm512_mask_blend_epi16(negative, _mm512_permutex2var_epi16(positive_[0], index, positive_[1]),
                                   _mm512_permutex2var_epi16(negative_[0], index, negative_[1]));
  }
  template <int bits>
  static inline __m512i shift_right(__m512i x) {
    return _mm512_srli_epi16(x, bits);
  }
  static inline __m512i shift_left(__m512i x) { return _mm512_slli_epi16(x, 8); }
#endif

  __m512i negative_[2], positive_[2];
};

#elif defined(QN_X86)

inline __m128i block_of(const int8_t* table, size_t i) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(table + i % 16 * 16));
}
inline __m128i xor_of(__m128i a, __m128i b) { return _mm_xor_si128(a, b); }
#if QN_VECTOR_BYTES == 32
inline Word in_all(__m128i x) { return _mm256_broadcastsi128_si256(x); }
#else
inline Word in_all(__m128i x) { return x; }
#endif

// pshufb looks up the low 4 bits of a byte in a block of 16 bytes, and gives 0 for a negative byte. Block after block,
// 16 is subtracted from the bytes. Those below 128 (as they are without a sign) become negative when their own block
// has been looked up, but found something in all blocks before, too. So a block holds the difference (exclusive or) to
// the block before, and all that is found adds up to the right byte. Bytes from 128 on become positive after the first
// subtractions, then negative like the others; they find the last 8 blocks up to their own, so that from the 9th block
// on the difference to the block 8 before is part of the difference. From there on subtraction must saturate, lest
// bytes become positive again.
class Table {
 public:
  explicit Table(const int8_t* p) {
    __m128i steps[16];
    for (size_t i = 0; i < 16; ++i) {
      const __m128i block = block_of(p, i + 8);
      steps[i] = i == 0 ? block : xor_of(block, block_of(p, i + 7));
      blocks_[i] = in_all(i < 8 ? steps[i] : xor_of(steps[i], steps[i - 8]));
    }
  }
  inline Bytes operator()(Bytes v) const {
    const Word step = Word(splat_byte(16));
    Word x = Word(v), y = QN_X86(shuffle_epi8)(blocks_[0], x);
#pragma GCC unroll 15
    for (size_t i = 1; i < 16; ++i) {
      x = i <= 8 ? QN_X86(sub_epi8)(x, step) : QN_X86(subs_epi8)(x, step);
      y = Word(Bytes(y) ^ Bytes(QN_X86(shuffle_epi8)(blocks_[i], x)));
    }
    return Bytes(y);
  }

 private:
  Word blocks_[16];
};

#elif defined(__aarch64__)

// Instructions look up in 64 bytes. The first gives 0 for an index beyond, the others leave what there is.
class Table {
 public:
  explicit Table(const int8_t* p) {
    for (size_t i = 0; i < 4; ++i) parts_[i] = vld1q_s8_x4(p + i * 64);
  }
  inline Bytes operator()(Bytes v) const {
    uint8x16_t x = veorq_u8(uint8x16_t(v), vdupq_n_u8(128));
    const uint8x16_t step = vdupq_n_u8(64);
    int8x16_t y = vqtbl4q_s8(parts_[0], x);
#pragma GCC unroll 3
    for (size_t i = 1; i < 4; ++i) {
      x = vsubq_u8(x, step);
      y = vqtbx4q_s8(y, parts_[i], x);
    }
    return Bytes(y);
  }

 private:
  int8x16x4_t parts_[4];
};

#else

// Instructions look up 8 bytes in 32 of the table. The first gives 0 for an index beyond, the others leave what there
// is.
class Table {
 public:
  explicit Table(const int8_t* p) : table_(p) {}
  inline Bytes operator()(Bytes v) const {
    const int8x8_t step = vdup_n_s8(32);
    int8x8_t x[2] = {vget_low_s8(int8x16_t(v)), vget_high_s8(int8x16_t(v))}, y[2];
    for (int8x8_t& half : x) half = veor_s8(half, vdup_n_s8(-128));
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; ++i) {
      const int8_t* const p = table_ + i * 32;
      const int8x8x4_t part = {{vld1_s8(p), vld1_s8(p + 8), vld1_s8(p + 16), vld1_s8(p + 24)}};
      for (size_t h = 0; h < 2; ++h) {
        y[h] = i == 0 ? vtbl4_s8(part, x[h]) : vtbx4_s8(y[h], part, x[h]);
        x[h] = vsub_s8(x[h], step);
      }
    }
    return Bytes(vcombine_s8(y[0], y[1]));
  }

 private:
  const int8_t* table_;
};

#endif

}  // namespace
}  // namespace quern

extern "C" void QN_LEVEL_NAME(vlookup_qs8)(size_t n, const void* from, void* to, const void* p) {
  using namespace quern;
  const Table table(bytes(p));
  const int8_t* x = bytes(from);
  int8_t* y = bytes(to);
  for (; n >= 2 * byte_lanes; n -= 2 * byte_lanes, x += 2 * byte_lanes, y += 2 * byte_lanes) {
    const Bytes first = load_bytes(x), second = load_bytes(x + byte_lanes);
    store_bytes(y, table(first));
    store_bytes(y + byte_lanes, table(second));
  }
  if (n >= byte_lanes) {
    store_bytes(y, table(load_bytes(x)));
    n -= byte_lanes, x += byte_lanes, y += byte_lanes;
  }
  if (n != 0) store_some_bytes(y, table(load_some_bytes(x, n)), n);
}
