// The kernels of gather.h for levels with vectors. The including file defines, for one vector,
//
//     Pixels  Mask                             types
//     Mask lanes_of(const qn_gather_piece&)
//     Pixels nothing()
//     void add(Pixels&, const char*, Mask)     loads the lanes of the mask
//     void put(char*, const Pixels&)
//     constexpr size_t vector_bytes
//
// in a namespace without a name, before it includes this.
#pragma once

#include "kernel/gather.h"

namespace quern {
namespace {

// Some rows at a time share the decoding of pieces, and go through memory in order.
template <size_t count>
inline void gather_rows_of(size_t vectors, const qn_gather_piece* piece, const char* a, size_t a_stride, char* c,
                           size_t c_stride) {
  for (size_t v = 0; v < vectors; ++v, c += vector_bytes) {
    Pixels pixels[count];
    for (Pixels& p : pixels) p = nothing();
    do {
      const Mask mask = lanes_of(*piece);
      const char* from = a + piece->offset;
      for (size_t r = 0; r < count; ++r) add(pixels[r], from + r * a_stride, mask);
    } while (piece++->last == 0);
    for (size_t r = 0; r < count; ++r) put(c + r * c_stride, pixels[r]);
  }
}

inline void gather(size_t rows, size_t vectors, const qn_gather_piece* pieces, const void* a, size_t a_stride, void* c,
                   size_t c_stride) {
  constexpr size_t most = 4;
  const auto* from = static_cast<const char*>(a);
  auto* to = static_cast<char*>(c);
  for (; rows >= most; rows -= most, from += most * a_stride, to += most * c_stride) {
    gather_rows_of<most>(vectors, pieces, from, a_stride, to, c_stride);
  }
  for (; rows > 0; --rows, from += a_stride, to += c_stride) {
    gather_rows_of<1>(vectors, pieces, from, a_stride, to, c_stride);
  }
}

}  // namespace
}  // namespace quern
