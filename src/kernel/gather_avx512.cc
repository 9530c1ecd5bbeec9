#include <immintrin.h>

#include "kernel/gather.h"

namespace quern {
namespace {

typedef __m512 Pixels;
typedef __mmask16 Mask;
constexpr size_t vector_bytes = 64;

inline Mask lanes_of(const qn_gather_piece& piece) { return piece.lanes; }
inline Pixels nothing() { return _mm512_setzero_ps(); }
inline void add(Pixels& pixels, const char* from, Mask mask) { pixels = _mm512_mask_loadu_ps(pixels, mask, from); }
inline void put(char* to, const Pixels& pixels) { _mm512_storeu_ps(to, pixels); }

}  // namespace
}  // namespace quern

#include "kernel/gather_vec.h"

extern "C" void qn_gather_f32_16_avx512(size_t rows, size_t vectors, const qn_gather_piece* pieces, const void* a,
                                        size_t a_stride, void* c, size_t c_stride) {
  quern::gather(rows, vectors, pieces, a, a_stride, c, c_stride);
}
