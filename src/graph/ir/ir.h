// The graph that every importer produces, every pass rewrites, the file stores and the runner runs.
//
// Tensors are row-major over their shape. Image operators read N,H,W,C; an importer whose source is N,C,H,W adds
// transposes, so that no later stage has to know the layout of the source. Nodes are in execution order (an input is a
// graph input, a constant, or an output of an earlier node). op.inc says what each kind of node takes.
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
  // Kinds that are not the CPU's: the runner itself, or others, have a hand in them.
  copy,    // copies x to another memory, where other nodes read it (plan/conversions.h); never in a file
  custom,  // Node::type names one of the kinds that are registered (custom.h)
  branch,  // condition, what its graphs read: runs the first graph if the condition is true, else the second
  loop,    // runs its graph again and again (session/later.cc); size: how many tensors are carried from run to run;
           // values: see declared_row()
};
constexpr OpKind last_kind = OpKind::loop;

// Name as in op.inc, or of another value of the enumeration; "?" for anything else. kinds.h says more about a kind.
const char* op_name(OpKind kind);

constexpr int no_tensor = -1;  // an optional input that is absent

// Where the padding of a node comes from. SAME padding depends on the size of the image, so the numbers in
// Attributes::padding are right for some sizes only and have to be computed again for others.
enum class SamePadding : uint8_t { no, odd_pixel_last, odd_pixel_first };

struct Attributes {
  qn_hw kernel = {1, 1}, stride = {1, 1}, dilation = {1, 1};
  qn_padding padding = {0, 0, 0, 0};
  SamePadding same_padding = SamePadding::no;
  size_t groups = 1;
  bool ceil_mode = false, count_padding = false;
  bool quantize_input = false;
  int axis = 0;  // never negative
  size_t size = 0;
  float min = -std::numeric_limits<float>::infinity();
  float max = std::numeric_limits<float>::infinity();
  float alpha = 0, beta = 0, gamma = 0;
  qn_resize_kind mode = QN_RESIZE_NEAREST;
  qn_resize_coordinates coordinates = QN_COORDINATES_HALF_PIXEL;
  qn_resize_rounding rounding = QN_ROUND_FLOOR;
  qn_pool_rounding pool_rounding = QN_POOL_ROUND_REAL;
  Vector<int64_t> values;
};

// What a node of a registered kind has beside its inputs: numbers under a name.
struct Parameter {
  String name;
  Vector<int64_t> integers;
  Vector<float> floats;
};

struct Node {
  OpKind kind;
  String name;
  Vector<int> inputs;   // tensor indices or no_tensor
  Vector<int> outputs;  // tensor indices
  Attributes attributes;
#ifndef QN_SMALL  // has_subgraphs
  // Indices into Graph::subgraphs: graphs that the node runs, such as the body of a loop.
  Vector<uint32_t> subgraphs = {};
#endif
  String type = {};                   // of OpKind::custom: the name of its kind
  Vector<Parameter> parameters = {};  // of OpKind::custom
};

#ifndef QN_SMALL  // has_subgraphs
// The shape that the source model declares for one iteration's part of scan output `output` of a loop; 0 stands for an
// unknown size. Attributes::values holds QN_MAX_RANK values per scan output: the rank, then the sizes. It is empty if
// nothing is declared.
inline Vector<size_t> declared_row(const Node& node, size_t output) {
  const Vector<int64_t>& values = node.attributes.values;
  if (values.empty()) return {};
  const int64_t* const row = &values[output * QN_MAX_RANK];
  return Vector<size_t>(row + 1, row + 1 + row[0]);
}
#endif

// Name of the node's kind, as files and messages call it.
inline const char* kind_name(const Node& node) {
  return node.kind == OpKind::custom ? node.type.c_str() : op_name(node.kind);
}

class EncodedConstant;  // graph/file/encoded.h

// Content of a constant tensor. The bytes belong to `owner` (a mapped file, a buffer) and are aligned to 64.
struct Constant {
  Shared<const void> owner;
  const void* data = nullptr;  // NULL: the constant is encoded
  size_t bytes = 0;            // of all elements
  bool mapped = false;         // from a mapped file, whose pages may be released while nobody reads them
  // Only input 1 of kinds with weights (Kind::has_weights()) may be encoded: nothing else reads encoded constants.
  Shared<const EncodedConstant> encoded = nullptr;
};

// How the integers of a tensor stand for real numbers, as in qn_quantization. Empty: the tensor is not quantized.
#ifdef QN_NO_INTEGERS
struct Quantization {
  static constexpr int axis = -1;
  bool operator==(const Quantization&) const { return true; }
};
#else
struct Quantization {
  Vector<float> scales;         // one for all, or one for each channel
  Vector<int32_t> zero_points;  // as many as scales, or empty: all are 0
  int axis = -1;                // the dimension of the channels; -1: one scale for all
  // If not 0: each run of so many successive elements of a channel has a scale, and `axis` is 0. The last run of a channel
  // may be shorter; all scales of a channel come before those of the next. Only constants may have this.
  size_t block = 0;

  bool operator==(const Quantization& other) const {
    return scales == other.scales && zero_points == other.zero_points && axis == other.axis && block == other.block;
  }
};
#endif

struct Tensor {
  String name;  // unique among named tensors; may be empty for temporaries
  qn_type type = QN_F32;
  Vector<size_t> shape;               // filled by infer_shapes for outputs of nodes
  int constant = -1;                  // index into Graph::constants, or -1
  qn_layout layout = QN_LAYOUT_NHWC;  // while it is executed
  uint8_t memory = 0;                 // where it lies while it is executed: an index into Model::memories
  Vector<size_t> stride = {};         // in bytes; only set while the tensor lies within another one. Empty: dense
  [[no_unique_address]] Quantization quantization = {};
  bool sized_by_run = false;  // only a run knows the shape: it depends on elements of tensors, not on shapes alone
};

// An input or output of the graph as the user sees it.
struct Port {
  int tensor = no_tensor;
  qn_type type = QN_F32;                // what the user sees: the tensor's type, or QN_F16, which is converted from and
                                        // to QN_F32
  qn_preprocessing preprocessing = {};  // without its struct_size
  uint8_t fixed = 0;                    // of an input: bit d is set if a session may not change dimension d
#ifndef QN_NO_MESSAGES
  String fixed_by = {};  // the node of the source model whose conversion depends on the sizes of fixed dimensions
#endif
  bool unsized = false;  // of an input: a session may give it any rank and shape; until then it has no elements
  uint8_t open = 0;  // of an input: bit d is set if the source model leaves dimension d open; its size is an example
#ifndef QN_NO_MESSAGES
  Vector<String> dimensions = {};  // the source model's names of the dimensions, from the first on; "": no name
#endif
};

// A tensor that is carried from run to run: the next run reads in the input what a run has left in the output.
struct State {
  uint32_t input, output;  // indices into Graph::inputs and Graph::outputs
};

#ifndef QN_SMALL  // has_postprocessing
// What the outputs mean, for programs that show results to people. model.fbs describes the fields.
struct Postprocessing {
  Vector<String> labels;
  String detections;
  Vector<uint32_t> outputs;
  bool pixels = false;
  int background = -1;
  float threshold = 0.5f, overlap = 0.45f;

  bool operator==(const Postprocessing&) const = default;
};
#endif

struct Graph {
  String source;              // "caffe", "onnx", "zoo"
  String name;                // of the model, may be empty
  uint32_t file_version = 0;  // of the .qn file that it was read from; 0: of none
  Vector<Tensor> tensors;
  Vector<Node> nodes;
  Vector<Constant> constants;
  Vector<Port> inputs, outputs;
#ifndef QN_SMALL  // has_subgraphs
  // What nodes of this graph run. Each subgraph is a whole graph: it has its own constants, which may share their
  // content with those of other graphs, and its own subgraphs, but no states.
  Vector<Graph> subgraphs = {};
  Vector<State> states = {};
#endif
#ifndef QN_SMALL  // has_postprocessing
  Postprocessing postprocessing = {};
#endif
};

// Calls visit() for the graph, then in the same way for each of its subgraphs.
template <class Visit>
void each_graph(const Graph& graph, const Visit& visit) {
  visit(graph);
#ifndef QN_SMALL  // has_subgraphs
  for (const Graph& subgraph : graph.subgraphs) each_graph(subgraph, visit);
#endif
}

// The place in a list that the number of a tensor or constant stands for.
inline size_t at(int index) { return static_cast<size_t>(index); }
inline const Tensor& tensor_of(const Graph& graph, int index) { return graph.tensors[at(index)]; }

// Whether a tensor of this shape has no elements.
inline bool is_empty(const Vector<size_t>& shape) {
  for (const size_t d : shape) {
    if (d == 0) return true;
  }
  return false;
}

// Bytes of a dense tensor; false when they overflow.
bool tensor_size(qn_type type, const Vector<size_t>& shape, size_t* bytes);

// Copies booleans of a host or a file, whose bytes may be any: those other than 0 become 1. Both may be the same memory.
void copy_booleans(const void* from, size_t count, void* to);

// Returns the quantization of a tensor that has passed check_graph(). The result points into the tensor.
#ifdef QN_NO_INTEGERS
inline qn_quantization quantization_of(const Tensor&) { return {}; }
#else
qn_quantization quantization_of(const Tensor& tensor);
#endif

// Appends a tensor; returns its index.
int add_tensor(Graph& graph, String name, qn_type type, Vector<size_t> shape);
// Appends a constant tensor with a copy of `data`, which holds as many elements as the shape says. Throws
// std::bad_alloc if their size in bytes overflows.
int add_constant(Graph& graph, String name, qn_type type, Vector<size_t> shape, const void* data);
// Appends a node with new output tensors, one after the other; returns the index of the first. Their shapes are still
// unknown. Their type is that of the first input, unless the kind makes another one; scales are still to be set.
int add_node(Graph& graph, OpKind kind, String name, Vector<int> inputs, Attributes attributes, size_t outputs = 1);

inline const float* constant_floats(const Graph& graph, int tensor) {
  return static_cast<const float*>(graph.constants[at(tensor_of(graph, tensor).constant)].data);
}

}  // namespace quern
