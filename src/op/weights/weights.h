// Weights as the user gives them, packed weights as kernels read them, and the cache that lets operators share packed
// weights.
#pragma once

#include <quern/op.h>

#include <bit>
#include <memory>

#include "base/math.h"
#include "base/shared.h"
#include "base/vector.h"
#include "kernel/panel.h"
#include "kernel/row.h"
#include "op/core/operator.h"

namespace quern {

// The shape of an operator's weights: each group has out x kernel x in weights.
struct WeightsShape {
  size_t groups = 1;
  size_t out = 1, in = 1;  // channels of one group
  qn_hw kernel = {1, 1};

  size_t taps() const { return kernel.h * kernel.w; }
  size_t depth() const { return taps() * in; }  // products that are summed up for one output
  // The same in blocks of `inputs` successive input channels; the last block of a tap may have fewer.
  size_t depth(size_t inputs) const { return has_integers ? taps() * divide_up(in, inputs) : depth(); }
  // The number of blocks of `block` output channels in one group; the last block may have fewer channels.
  size_t block_rows(size_t block) const { return divide_up(out, block); }
};

// The number of input channels of a block of weights that has several.
constexpr size_t joined_inputs = 4;

// How many weights, or blocks of weights, are not 0. A block consists of neighbouring output channels of one group at
// one position, or at those of `joined_inputs` successive input channels of a tap. It counts if any of its elements is
// not 0.
struct WeightsDensity {
  static constexpr size_t kinds = 5;                           // numbers of output channels: 1, 2, 4, 8 and 16
  static constexpr size_t input_kinds = has_integers ? 2 : 1;  // numbers of input channels: 1 and joined_inputs
  size_t elements = 0;                                         // the number of all weights
  // The number of blocks that count. Those of several inputs are counted of integers only: no kernel of floats asks.
  size_t blocks[input_kinds][kinds] = {};

  // The number of weights in the blocks of this size that count, zeros among them, and its part of all weights.
  double stored(size_t outputs, size_t inputs = 1) const {
    const bool joined = has_integers && inputs > 1;
    const size_t(&counts)[kinds] = blocks[joined ? input_kinds - 1 : 0];
    return static_cast<double>(counts[std::countr_zero(outputs)] * outputs * (joined ? inputs : 1));
  }
  double part(size_t outputs, size_t inputs = 1) const {
    return stored(outputs, inputs) / static_cast<double>(elements);
  }
};

// What an operator multiplies weights with.
enum class Activations : uint8_t {
  given,      // tensors of the operator's type
  by_the_row  // floats that it quantizes itself, row by row: the weights are bytes with scales, their bias floats
};

// Reads and checks the user's weights for an operator of this type. It checks every index of sparse weights, every
// scale, and that neither the size of the weights nor that of their panels overflows.
qn_status read_weights(const char* who, const qn_weights* user, qn_type type, const WeightsShape& shape,
                       qn_weights* weights, Activations activations = Activations::given);

// May weights come in another encoding than dense? Users of op.h may give sparse or decoded weights, and graphs hand
// over encoded weights as decoded ones.
constexpr bool has_encodings = has_encoded || has_api("op");

enum class Packing {
  panels,      // gemm.h: taps row by row, then input channels; groups one after the other
  tap_panels,  // igemm.h: the same, but each tap begins a group of successive k, which the kernel takes together
  row_panels,  // tapgemm.h: the same, but each row of taps does
  depthwise,   // dwconv.h: taps column by column; groups are the channels; a column may end in padding
  // Transformed for winograd.h with m = 2, 4 or 6: panels of gemm.h with a bias of 0. For each panel of channels the
  // panels of all points lie one after the other.
  winograd2,
  winograd4,
  winograd6,
  sparse,        // pack_sparse.h: pairs, or blocks of kr x nr channels
  sparse_fours,  // pack_sparse.h: fours
};

// Where the rows of spmm.h's A lie, as numbers of rows: from one block of input channels, row of taps, and column of
// taps to the next. All 0: the rows follow each other, tap by tap, and for each tap block by block.
struct SparsePlaces {
  size_t channel = 0, tap_row = 0, tap_column = 0;
  bool operator==(const SparsePlaces&) const = default;
};

struct PackedWeights {
  Buffer data;
  size_t panel_bytes = 0;
  size_t group_bytes = 0;  // from one group's panels to the next; not used by sparse packings

  const char* panels(size_t group) const { return static_cast<const char*>(data.data()) + group * group_bytes; }
};
using Packed = Shared<const PackedWeights>;

// The properties of a kernel that its panels depend on. The row of a kernel converts to them. For sparse packings `nr`
// and `format.kr` are the numbers of output and input channels in a block.
struct PanelShape {
  KernelType type;
  size_t nr;
  PanelFormat format = {};

  PanelShape(KernelType of, size_t outputs, size_t inputs = 1)
      : type(of), nr(outputs), format{static_cast<uint8_t>(inputs)} {}
  template <class KernelRow>
  PanelShape(const KernelRow& row) : type(row.type), nr(row.nr), format(format_of(row)) {}
  bool operator==(const PanelShape&) const = default;
};

struct PackKey {
  Packing packing;
  PanelShape panel;
  WeightsShape shape;
  qn_weights weights;
  Vector<uint32_t> bias;  // part of the key, because it is part of the panels: floats or 32-bit integers
  size_t depth = 0;       // sparse only: the depth of a chunk
  SparsePlaces places = {};
  int32_t input_zero = 0;  // zero point of the input, where the bias absorbs it

  // The zero point of the elements that the kernel multiplies: the input's, and what the kernel adds to the input.
  int32_t absorbed_zero() const { return input_zero + (has_integers && panel.format.plus_128 ? 128 : 0); }
  bool operator==(const PackKey& other) const;
};

// The packings that an operator has used. It keeps them, so that they live as long as the operator.
struct PackUses {
  Vector<Packed> packed;
};

class WeightsCache {
 public:
  // Returns the packing for `key`; makes it if no operator uses it yet. Thread-safe. If the cache was there before the
  // present call of the C API, the operator that owns `uses` must have been, too: what they hold survives a call that
  // gives up (base/border.h).
  Packed get(const PackKey& key, PackUses* uses);
  size_t bytes() const;

 private:
  using Entry = std::pair<PackKey, Remembered<const PackedWeights>>;
  Packed find(const PackKey& key) const;
  void make_room(PackUses* uses);

  mutable Mutex mutex_;  // guards what follows and the PackUses of all operators
  Vector<Entry> entries_;
};

// Weights of integers that an operator of floats reads: read_weights() has made them floats with scales, which whoever
// reads them gets multiplied.
inline bool are_steps(const qn_weights& weights) {
  return has_integers && has_encodings && weights.type == QN_F32 && weights.scales != nullptr;
}
// Returns their integers.
inline qn_weights as_steps(qn_weights weights) {
  weights.type = QN_S8;
  return weights;
}

// What the values of quantized weights mean for sums of their products.
struct SumFacts {
  uint8_t meet = any;       // the demands that they meet: mask of Demand
  int64_t largest = 0;      // no absolute value of a sum exceeds this
  bool fit_4_bits = false;  // does every weight lie in -8 .. 7?
};

// The number of runs of elements with a scale each in an output channel's row.
inline size_t runs_of(const qn_weights& weights, const WeightsShape& shape) {
  return weights.block_length == 0 ? 1 : divide_up(shape.depth(), weights.block_length);
}

// The weights of one operator.
class Weights {
 public:
  Weights(const qn_weights& weights, const WeightsShape& shape, const void* bias, qn_weights_cache* cache,
          Activations activations = Activations::given);
  // Returns the same weights with a cache of their own, for packings that are soon given up.
  Weights unshared() const;
  Packed pack(Packing packing, const PanelShape& panel, size_t depth = 0, const SparsePlaces& places = {},
              int32_t input_zero = 0) const;
  size_t packed_bytes() const { return cache_->bytes(); }
  // The zeros are counted at the first call. Weights with hardly any zeros count as full. Thread-safe. Throws Failure
  // if the weights cannot be decoded.
  const WeightsDensity& density() const;
  const WeightsShape& shape() const { return shape_; }
  Vector<float> float_bias() const;
  // Are the weights bytes, and input and output as well?
  bool quantized() const { return has_integers && weights_.type != QN_F32 && activations_ == Activations::given; }
  // Are the weights bytes, while input, bias and output are floats, and does the operator quantize its input?
  bool dynamic() const { return quantizes_inputs && activations_ == Activations::by_the_row; }
  // Does an operator of floats have weights of bytes with scales for channels, and leave its input floats?
  bool bytes_for_floats() const { return has_byte_weights && reads_steps() && !has_blocks(); }
  // The same of weights of 4 bits with scales for blocks.
  bool halves_for_floats() const { return has_scaled_blocks && reads_steps() && has_blocks() && facts_.fit_4_bits; }
  // Do these weights have scales for blocks?
  bool has_blocks() const { return has_scaled_blocks && weights_.block_length != 0; }
  // The scale of an output channel of quantized weights without blocks, counted through all groups.
  float scale(size_t channel) const { return weights_.scales[weights_.scale_count == 1 ? 0 : channel]; }
  const SumFacts& facts() const { return facts_; }
  void set_facts(const SumFacts& facts) { facts_ = facts; }

 private:
  // Are these integers that an operator of floats reads?
  bool reads_steps() const { return are_steps(weights_); }

  qn_weights weights_;
  WeightsShape shape_;
  Activations activations_;
  Vector<uint32_t> bias_;  // as in PackKey; zeros if there is none
  SumFacts facts_;
  Shared<WeightsCache> cache_;
  mutable PackUses uses_;
  struct LazyDensity;
  Shared<LazyDensity> density_;
};

}  // namespace quern

struct qn_weights_cache : quern::Allocated {
  quern::Shared<quern::WeightsCache> impl = quern::make_shared<quern::WeightsCache>();
};
