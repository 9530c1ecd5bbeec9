// Describes each kind of node, except for what it computes. Passes, backends, converters and estimates all read this
// description, so that none of them has to change for a new kind: it is a row of op.inc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "graph/ir/ir.h"

namespace quern {

// Layouts that the tensors of a node may have.
enum class Layouts : uint8_t {
  nhwc,  // QN_LAYOUT_NHWC only
  same,  // any layout, but all tensors have the same
  any,   // any layout, and the input's and the output's may differ
};

// What an element of the output is computed from.
enum class Terms : uint8_t {
  one,      // an element of each input
  window,   // the elements under the kernel
  image,    // all pixels of a channel
  nearby,   // `size` channels
  weights,  // products of a row of input 1 with inputs. Its first dimension is output channels; it may be sparse
};

// Which types of tensors the kind takes, and which type the output has.
enum class TypeRule : uint8_t {
  floats,  // floats: the kind computes with them
  sums,   // floats; weights may be s8 and a bias s32, and then have scales. Or s8 with such weights, a bias of s32, and
          // an output of s8, each with scales of its own
  steps,  // floats; or s8, where each tensor has a scale of its own
  chosen,          // floats; or s8: each element of the output is one of the input's and keeps its quantization
  moved,           // any type, the same for all tensors: elements are moved unchanged and keep their quantization
  made_quantized,  // f32; the output is s8 or u8, whatever the graph says, and has one scale
  made_real,       // s8, u8 or s32 with scales; the output is f32
  made_other,      // s8 or u8 with one scale; so is the output, of another type or with another scale
  own,             // any; each kind that is registered has a rule of its own
};

struct Kind {
  enum Trait : uint16_t {
    parameters = 1,            // inputs after the first are constants; those after the first min_inputs may be absent
    clamps = 2,                // the results are clamped to the attributes min and max
    elementwise = 4,           // the output may lie in the buffer of any data input that has its shape
    keeps_channels = 8,        // the last dimension of the output is the first input's
    keeps_shape = 16 | 8,      // all dimensions of the output are the first input's
    algorithms = 32,           // the user may choose one
    placed = 64,               // its tensors may lie within each other (plan/placement.h), which saves copies
    view = 128,                // the output is the first input with another shape: there is nothing to run
    view_if_same_shape = 256,  // a view if input and output have the same shape
    view_if_same_order = 512,  // a view if the permutation moves only dimensions of 1
  };

  char name[20];  // not a pointer, which the loader would have to relocate
  uint8_t min_inputs, max_outputs;
  uint16_t max_inputs;
  uint16_t traits;
  Layouts layouts;
  Terms terms;
  uint8_t operations;  // estimate: vector operations per vector of output, not counting the one for each of several
                       // terms
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

// Returns the description of a kind. For a value that is not a kind, it has no name and no inputs, and is not built.
const Kind& kind_of(OpKind kind);

// Number of inputs that a run reads. Parameters do not count: they are already part of the operator.
size_t data_inputs(const Node& node);

// ---- the following functions need the shapes of the node's tensors

// Number of elements that each element of the output is computed from; 0 for Terms::one.
uint64_t terms_of(const Graph& graph, const Node& node);

// Whether the node is a convolution with several groups in which each output channel reads one input channel only.
bool is_depthwise(const Graph& graph, const Node& node);

// Kind::layouts, except for depthwise convolutions, which do not change the layout.
Layouts layouts_of(const Graph& graph, const Node& node);

// Whether the tensor may be pixel-blocked. Constants, images of one pixel, integers, and tensors that are not images
// never are.
bool may_be_blocked(const Tensor& tensor);

// Whether the output of a node is its first input with another shape, so that there is nothing to run.
bool is_view(const Graph& graph, const Node& node);

}  // namespace quern
