// The graph that every importer produces, every pass rewrites, the file stores and the runner runs.
//
// Tensors are row-major over their shape. Image operators read N,H,W,C; an importer whose source is N,C,H,W adds
// transposes, so that nothing behind it knows of layouts. Nodes are in execution order (an input is a graph input, a
// constant, or an output of an earlier node). op.inc says what each kind of node takes.
#pragma once

#include <quern/graph.h>

#include <cstdint>
#include <limits>
#include <memory>

#include "base/shared.h"
#include "base/string.h"
#include "base/vector.h"

namespace quern {

enum class OpKind : uint16_t {
#define QN_OP(kind, ...) kind,
#include "graph/ir/op.inc"
#undef QN_OP
  count,
  copy,  // of no file: x; the same elements in another memory, for whoever reads them there (plan/conversions.h)
};

// Name as in op.inc, or "copy"; "?" for anything else. kinds.h tells more.
const char* op_name(OpKind kind);

constexpr int no_tensor = -1;  // an optional input that is absent

// How padding came about. The sizes of an image decide what SAME padding is: that of `padding` is right for some alone.
enum class SamePadding : uint8_t { no, odd_pixel_last, odd_pixel_first };

struct Attributes {
  qn_hw kernel = {1, 1}, stride = {1, 1}, dilation = {1, 1};
  qn_padding padding = {0, 0, 0, 0};
  SamePadding same_padding = SamePadding::no;
  size_t groups = 1;
  bool ceil_mode = false, count_padding = false;
  int axis = 0;  // never negative
  size_t size = 0;
  float min = -std::numeric_limits<float>::infinity();
  float max = std::numeric_limits<float>::infinity();
  float alpha = 0, beta = 0, gamma = 0;
  qn_resize_kind mode = QN_RESIZE_NEAREST;
  qn_resize_coordinates coordinates = QN_COORDINATES_HALF_PIXEL;
  qn_resize_rounding rounding = QN_ROUND_FLOOR;
  Vector<int64_t> values;
};

struct Node {
  OpKind kind;
  String name;
  Vector<int> inputs;   // tensor indices or no_tensor
  Vector<int> outputs;  // tensor indices
  Attributes attributes;
};

class SparseConstant;  // sparse.h

// Content of a constant tensor. The bytes belong to `owner` (a mapped file, a buffer) and are aligned to 64.
struct Constant {
  Shared<const void> owner;
  const void* data = nullptr;  // NULL: it is sparse
  size_t bytes = 0;            // of all elements
  bool mapped = false;         // from a file, so that its pages can be let go while nobody reads them
  // Input 1 of kinds with weights alone (Kind::has_weights()): nothing else reads these.
  Shared<const SparseConstant> sparse = nullptr;
};

// How the integers of a tensor stand for real numbers, as in qn_quantization; empty: they do not.
#ifdef QN_SMALL  // has_integers
struct Quantization {
  static constexpr int axis = -1;
  bool operator==(const Quantization&) const { return true; }
};
#else
struct Quantization {
  Vector<float> scales;         // one, or one for each channel
  Vector<int32_t> zero_points;  // as many, or none: all 0
  int axis = -1;                // the dimension of the channels; -1: one scale for all

  bool operator==(const Quantization& other) const {
    return scales == other.scales && zero_points == other.zero_points && axis == other.axis;
  }
};
#endif

struct Tensor {
  String name;  // unique among named tensors; may be empty for temporaries
  qn_type type = QN_F32;
  Vector<size_t> shape;               // filled by infer_shapes for outputs of nodes
  int constant = -1;                  // index into Graph::constants, or -1
  qn_layout layout = QN_LAYOUT_NHWC;  // while it is executed
  uint8_t memory = 0;                 // in which it lies while it is executed: an index into Model::memories
  Vector<size_t> stride = {};  // bytes, of a tensor that lies within another while it is executed; else empty: dense
  [[no_unique_address]] Quantization quantization = {};
};

// An input or output of the graph as the user sees it.
struct Port {
  int tensor = no_tensor;
  qn_type type = QN_F32;                // the user's: that of the tensor, or QN_F16, converted from and to QN_F32
  qn_preprocessing preprocessing = {};  // without its struct_size
  uint8_t fixed = 0;                    // of an input: bit d says that a session may not change dimension d,
#ifndef QN_NO_MESSAGES
  String fixed_by = {};  // because this node of the source model was converted for its size
#endif
  uint8_t open = 0;  // of an input: bit d says that the source model leaves dimension d open; the shape is an example
#ifndef QN_NO_MESSAGES
  Vector<String> dimensions = {};  // what the source model calls them, from the first on; empty: this one has no name
#endif
};

struct Graph {
  String source;  // "caffe", "onnx", "zoo"
  String name;    // of the model, may be empty
  Vector<Tensor> tensors;
  Vector<Node> nodes;
  Vector<Constant> constants;
  Vector<Port> inputs, outputs;
};

// Bytes of a dense tensor; false when they overflow.
bool tensor_size(qn_type type, const Vector<size_t>& shape, size_t* bytes);

// Of a tensor that has passed check_graph(); points into it.
#ifdef QN_SMALL
inline qn_quantization quantization_of(const Tensor&) { return {}; }
#else
qn_quantization quantization_of(const Tensor& tensor);
#endif

// Appends a tensor; returns its index.
int add_tensor(Graph& graph, String name, qn_type type, Vector<size_t> shape);
// Appends a constant tensor with a copy of `data`, which holds as many elements as the shape says. Throws
// std::bad_alloc when that overflows.
int add_constant(Graph& graph, String name, qn_type type, Vector<size_t> shape, const void* data);
// Appends a node with new output tensors, one after the other (shapes still unknown); returns the index of the first.
int add_node(Graph& graph, OpKind kind, String name, Vector<int> inputs, Attributes attributes, size_t outputs = 1);

inline const float* constant_floats(const Graph& graph, int tensor) {
  return static_cast<const float*>(
      graph.constants[static_cast<size_t>(graph.tensors[static_cast<size_t>(tensor)].constant)].data);
}

}  // namespace quern
