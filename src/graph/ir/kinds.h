// What there is to know about a kind of node, apart from what it computes. Passes, backends, converters and estimates
// ask here, so that a new kind is a row of op.inc for all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "graph/ir/ir.h"

namespace quern {

// What layouts the tensors of a node may have.
enum class Layouts : uint8_t {
  nhwc,  // that one
  same,  // any, but the same for all
  any,   // the input's and the output's may differ
};

// What an element of the output is computed from.
enum class Terms : uint8_t {
  one,      // an element of each input
  window,   // those under the kernel
  image,    // all pixels of a channel
  nearby,   // `size` channels
  weights,  // products of a row of input 1 with inputs. Its first dimension is output channels; it may be sparse
};

// Which types of tensors the kind takes, and what the output's is.
enum class TypeRule : uint8_t {
  floats,  // floats, which it computes with
  moved,   // any, one for all: elements move as they are, and with them what they stand for
};

struct Kind {
  enum Trait : uint16_t {
    parameters = 1,            // inputs after the first are constants; those beyond the fewest may be absent
    clamps = 2,                // what it gives lies between the attributes min and max
    elementwise = 4,           // the output may lie in the buffer of any data input that has its shape
    keeps_channels = 8,        // the last dimension is the first input's,
    keeps_shape = 16 | 8,      // and so are all others
    algorithms = 32,           // the user may choose one
    placed = 64,               // its tensors lie within each other (plan/placement.h) where that saves copying
    view = 128,                // the output is the first input under another shape: nothing is to be run,
    view_if_same_shape = 256,  // where the shapes are equal,
    view_if_same_order = 512,  // where the permutation moves dimensions of 1 alone
  };

  char name[20];  // not a pointer, which the loader would have to relocate
  uint16_t min_inputs, max_inputs, max_outputs;
  uint16_t traits;
  Layouts layouts;
  Terms terms;
  uint8_t operations;  // on a vector, roughly, for each of the output, beyond one for each of several terms
  TypeRule types;
  bool built;  // trimmed builds may not contain it

  constexpr bool has(Trait trait) const { return (traits & trait) == trait; }
  constexpr bool has_weights() const { return terms == Terms::weights; }
};

// The most outputs that a node of any kind has.
constexpr size_t most_outputs = std::max<size_t>({
#define QN_OP(kind, min_inputs, max_inputs, outputs, ...) outputs,
#include "graph/ir/op.inc"
#undef QN_OP
});

// Of anything that is no kind: one without name and inputs that is not built.
const Kind& kind_of(OpKind kind);

// Inputs that a run reads: parameters went into the operator.
size_t data_inputs(const Node& node);

// ---- of a node whose tensors have shapes

// Elements that each element of the output is computed from; 0 for Terms::one.
uint64_t terms_of(const Graph& graph, const Node& node);

// Is each channel convolved by itself, perhaps into several?
bool is_depthwise(const Graph& graph, const Node& node);

// Kind::layouts, but depthwise convolutions do not change the layout.
Layouts layouts_of(const Graph& graph, const Node& node);

// Images of one pixel, and what is no image, are never pixel-blocked.
bool may_be_blocked(const Tensor& tensor);

// Whether the output of a node is its first input under another shape, so that there is nothing to run.
bool is_view(const Graph& graph, const Node& node);

}  // namespace quern
