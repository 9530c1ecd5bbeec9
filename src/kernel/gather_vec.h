// The kernels of gather.h for levels with masked loads. The including file defines, for one vector,
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

struct Rows {
  size_t count;
  const char* a;
  size_t a_stride;
  char* c;
  size_t c_stride;

  template <class Each>
  inline void walk(Each&& each) const {
    const char* from = a;
    char* to = c;
    for (size_t r = 0; r < count; ++r, from += a_stride, to += c_stride) {
      Pixels pixels = nothing();
      each(from, pixels);
      put(to, pixels);
    }
  }
};

// One vector of all rows, of `count` pieces. Most have one, or two where a block or an image's row ends.
inline void gather_vector(const Rows& rows, const qn_gather_piece* pieces, size_t count) {
  const Mask first = lanes_of(pieces[0]), second = lanes_of(pieces[count > 1]);
  const int64_t at = pieces[0].offset, next = pieces[count > 1].offset;
  if (count == 1) return rows.walk([&](const char* from, Pixels& pixels) { add(pixels, from + at, first); });
  rows.walk([&](const char* from, Pixels& pixels) {
    add(pixels, from + at, first);
    add(pixels, from + next, second);
    for (size_t i = 2; i < count; ++i) add(pixels, from + pieces[i].offset, lanes_of(pieces[i]));
  });
}

inline void gather(Rows rows, size_t vectors, const qn_gather_piece* pieces) {
  for (size_t v = 0; v < vectors; ++v, rows.c += vector_bytes) {
    size_t count = 1;
    while (pieces[count - 1].last == 0) ++count;
    gather_vector(rows, pieces, count);
    pieces += count;
  }
}

}  // namespace
}  // namespace quern
