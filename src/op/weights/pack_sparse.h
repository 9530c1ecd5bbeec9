// Sparse weights as spmm.h wants them.
#pragma once

#include <limits>

#include "base/vector.h"
#include "kernel/spmm.h"
#include "op/weights/weights.h"

namespace quern {

// Output channels that are computed, and stored, together. A multiple of every block.
constexpr size_t sparse_channels = 32;

// The weights of sparse_channels output channels, or fewer, and some successive k.
struct SparsePart {
  uint32_t set, sets;  // the first one, and how many
  uint32_t index, w;   // bytes, floats before it
};

struct SparseWeights : PackedWeights {
  Vector<SparsePart> parts;  // of a group: chunks of k, each with all blocks of channels
  size_t chunks = 0, blocks = 0;
  size_t depth = 0;  // of a chunk of k; the last one may be shorter
  // All groups', in `data`:
  const qn_spmm_set* set = nullptr;  // channels count from the first one of the part
  const char* index = nullptr;
  const float* w = nullptr;
  const float* bias = nullptr;  // padded to blocks

  const SparsePart& part(size_t group, size_t chunk, size_t block) const {
    return parts[(group * chunks + chunk) * blocks + block];
  }
  const float* bias_of(size_t group, size_t block) const { return bias + (group * blocks + block) * sparse_channels; }
};

// Products with a part of the weights: all channels of a block, some pixels. `a` is where the chunk's rows begin, `c`
// where the block's rows do.
inline void multiply_sparse(const SpmmRow& row, const SparseWeights& weights, size_t group, size_t chunk, size_t block,
                            size_t pixels, const char* a, size_t a_stride, char* c, size_t c_stride,
                            const qn_minmax_f32& clamp) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr qn_minmax_f32 open = {-infinity, infinity};
  const SparsePart& part = weights.part(group, chunk, block);
  row.run(pixels, part.sets, weights.set + part.set, weights.index + part.index, weights.w + part.w, a, a_stride, c,
          c_stride, chunk == 0 ? weights.bias_of(group, block) : nullptr, chunk + 1 == weights.chunks ? &clamp : &open);
}

inline Packing sparse_packing(const SpmmRow& row) { return row.fours() ? Packing::sparse_fours : Packing::sparse; }

// How deep the chunks of k are for this row and so many pixels, when this part of its blocks is stored: A of a chunk
// stays in a cache while all channels go by.
size_t sparse_depth(const SpmmRow& row, size_t pixels, size_t k, double stored);

Shared<PackedWeights> pack_sparse(const PackKey& key);

}  // namespace quern
