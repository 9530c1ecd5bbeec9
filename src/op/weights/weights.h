// Weights as the user gives them, the panels kernels want, and the cache that shares those.
#pragma once

#include <quern/op.h>

#include <bit>
#include <memory>

#include "base/math.h"
#include "base/shared.h"
#include "base/vector.h"
#include "kernel/type.h"
#include "op/core/operator.h"

namespace quern {

// What packing sees: out x kernel x in per group, at `data` in the user's order.
struct WeightsShape {
  size_t groups = 1;
  size_t out = 1, in = 1;  // of one group
  qn_hw kernel = {1, 1};

  size_t taps() const { return kernel.h * kernel.w; }
  size_t depth() const { return taps() * in; }  // products of one output
  // Of one group: runs of `block` output channels, the last of which may be shorter.
  size_t block_rows(size_t block) const { return divide_up(out, block); }
};

// How many weights, or blocks of weights, are not 0. A block: neighbouring output channels of one group at one
// position; it counts if any of its elements does.
struct WeightsDensity {
  static constexpr size_t kinds = 5;
  size_t elements = 0;        // 0 or not
  size_t blocks[kinds] = {};  // of 1, 2, 4, 8 and 16 channels

  // Weights that lie in blocks of so many channels, zeros among them, and which part of all that is.
  double stored(size_t block) const { return static_cast<double>(blocks[std::countr_zero(block)] * block); }
  double part(size_t block) const { return stored(block) / static_cast<double>(elements); }
};

// Checks the user's weights, every index of sparse ones, and that their size, and that of their panels, does not
// overflow.
qn_status read_weights(const char* who, const qn_weights* user, const WeightsShape& shape, qn_weights* weights);
// A copy of `count` values, nothing for NULL.
Vector<float> copy_floats(const float* values, size_t count);

// May users give weights as nonzeros, or through a decoder of their own? Graphs give sparse weights so.
constexpr bool has_encodings = has_sparse || has_api("op");

enum class Packing {
  panels,     // gemm.h, igemm.h: taps row by row, then input channels; groups one after the other
  depthwise,  // dwconv.h: taps column by column; groups are the channels
  winograd2,  // transformed for winograd.h, with the number of outputs m: panels of gemm.h without bias, the ones of
              // all
  winograd4,  // points of one panel of channels after each other
  winograd6,
  sparse,        // pack_sparse.h: pairs, or blocks of `nr` channels,
  sparse_fours,  // or fours
};

// Where rows of spmm.h's A lie: that of an input channel and tap at so many rows from the first. 0: channel after
// channel, tap after tap.
struct SparsePlaces {
  size_t channel = 0, tap_row = 0, tap_column = 0;
  bool operator==(const SparsePlaces&) const = default;
};

struct PackedWeights {
  Buffer data;
  size_t panel_bytes = 0;
  size_t group_bytes = 0;  // panels only

  const char* panels(size_t group) const { return static_cast<const char*>(data.data()) + group * group_bytes; }
};
using Packed = Shared<const PackedWeights>;

// What panels depend on of the kernel that reads them. A row of a table is one; `nr` also counts the channels of a sparse
// block.
struct PanelShape {
  KernelType type;
  size_t nr, kr = 1;

  PanelShape(KernelType of, size_t channels) : type(of), nr(channels) {}
  template <class KernelRow>
  PanelShape(const KernelRow& row) : type(row.type), nr(row.nr) {
    if constexpr (requires { row.kr; }) kr = row.kr;
  }
  bool operator==(const PanelShape&) const = default;
};

struct PackKey {
  Packing packing;
  PanelShape panel;
  WeightsShape shape;
  qn_weights weights;
  Vector<float> bias;  // is part of the panels
  size_t depth = 0;    // sparse only: of a chunk
  SparsePlaces places = {};
  int32_t input_zero = 0;  // zero point of the input, where the bias absorbs it

  bool operator==(const PackKey& other) const;
};

// What an operator keeps of the cache: the packings it has used, so that they live as long as it does.
struct PackUses {
  Vector<Packed> packed;
};

class WeightsCache {
 public:
  // The packing for `key`, made if no operator uses it yet. Thread-safe. A cache that is older than the call is used by
  // operators that are so, too.
  Packed get(const PackKey& key, PackUses* uses);
  size_t bytes() const;

 private:
  using Entry = std::pair<PackKey, Remembered<const PackedWeights>>;
  Packed find(const PackKey& key) const;
  void make_room(PackUses* uses);

  mutable Mutex mutex_;  // guards what follows and the PackUses of all operators
  Vector<Entry> entries_;
};

// The weights of one operator.
class Weights {
 public:
  Weights(const qn_weights& weights, const WeightsShape& shape, const void* bias, qn_weights_cache* cache);
  // The same with a cache of their own, for packings that are soon given up.
  Weights unshared() const;
  Packed pack(Packing packing, const PanelShape& panel, size_t depth = 0, const SparsePlaces& places = {}) const;
  size_t packed_bytes() const { return cache_->bytes(); }
  // Counted when first asked for; weights with hardly any zeros are taken for full. Thread-safe. Throws Failure where
  // the weights cannot be decoded.
  const WeightsDensity& density() const;
  const WeightsShape& shape() const { return shape_; }
  const Vector<float>& bias() const { return bias_; }

 private:
  qn_weights weights_;
  WeightsShape shape_;
  Vector<float> bias_;  // zeros if there is none
  Shared<WeightsCache> cache_;
  mutable PackUses uses_;
  struct LazyDensity;
  Shared<LazyDensity> density_;
};

}  // namespace quern

struct qn_weights_cache : quern::Allocated {
  quern::Shared<quern::WeightsCache> impl = quern::make_shared<quern::WeightsCache>();
};
