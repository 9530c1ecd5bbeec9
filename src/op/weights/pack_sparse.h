// Sparse weights, packed for the kernels of spmm.h.
#pragma once

#include <limits>

#include "base/vector.h"
#include "kernel/spmm.h"
#include "op/weights/weights.h"

namespace quern {

// The number of output channels that are computed and stored together: a block of channels. It is a multiple of every N
// of spmm.h.
constexpr size_t sparse_channels = 32;

// The weights of a block of channels and a chunk of k: up to sparse_channels output channels, and the k of some
// successive rows of A.
struct SparsePart {
  uint32_t set, sets;  // number of its first set, and how many sets it has
  uint32_t index, w;   // bytes of indices and words of weights that lie before it
};

struct SparseWeights : PackedWeights {
  Vector<SparsePart> parts;       // for each group its chunks of k, for each chunk all blocks of channels
  size_t chunks = 0, blocks = 0;  // in each group
  size_t depth = 0;               // number of rows of A in a chunk; the last chunk may have fewer
  // These lie in `data`, for all groups:
  const qn_spmm_set* set = nullptr;  // a set's channels count from the first channel of its part
  const char* index = nullptr;
  const uint32_t* w = nullptr;     // words: floats, or four bytes each
  const uint32_t* bias = nullptr;  // floats or 32-bit integers; the last block of a group is filled up

  const SparsePart& part(size_t group, size_t chunk, size_t block) const {
    return parts[(group * chunks + chunk) * blocks + block];
  }
  const uint32_t* bias_of(size_t group, size_t block) const {
    return bias + (group * blocks + block) * sparse_channels;
  }
};

// Multiplies some pixels with a part of the weights: a chunk of k and all channels of a block. `a` is the first row of
// A of the chunk, `c` the first row of C of the block. `p` ends the sums after the last chunk.
inline void multiply_sparse(const SpmmRow& row, const SparseWeights& weights, size_t group, size_t chunk, size_t block,
                            size_t pixels, const char* a, size_t a_stride, char* c, size_t c_stride, const void* p) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  static constexpr qn_minmax_f32 open = {-infinity, infinity};
  const SparsePart& part = weights.part(group, chunk, block);
  row.run(pixels, part.sets, weights.set + part.set, weights.index + part.index, weights.w + part.w, a, a_stride, c,
          c_stride, chunk == 0 ? weights.bias_of(group, block) : nullptr,
          chunk + 1 == weights.chunks ? p
          : of_bytes(row)             ? nullptr
                                      : &open);
}

inline Packing sparse_packing(const SpmmRow& row) { return row.fours() ? Packing::sparse_fours : Packing::sparse; }
inline PanelShape sparse_block(const SpmmRow& row) {
  PanelShape shape = {row.type, row.block, has_integers ? row.inputs : 1};
  shape.format.plus_128 = has_integers && row.panel.plus_128;
  return shape;
}

// How many of all `rows` of A a chunk has, for this kernel and this many pixels, if `stored` is the part of the weights
// that is stored. The rows of A of a chunk stay in a cache while all channels use them.
size_t sparse_depth(const SpmmRow& row, size_t pixels, size_t rows, double stored);

Shared<PackedWeights> pack_sparse(const PackKey& key);

}  // namespace quern
