// What optimiser passes have in common: a graph with an index of who writes and reads each tensor.
#pragma once

#include <span>

#include "base/vector.h"
#include "graph/ir/ir.h"
#include "graph/ir/rules.h"

namespace quern {

// Nodes keep their numbers while a pass runs; removed ones disappear at finish(). A tensor that is an output of the
// graph stays an output with its name, whatever happens to the nodes around it.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph);

  Graph& graph() { return graph_; }
  size_t size() const { return graph_.nodes.size(); }
  Node& node(size_t index) { return graph_.nodes[index]; }
  bool removed(size_t index) const { return removed_[index]; }
  Tensor& tensor(int index) { return graph_.tensors[static_cast<size_t>(index)]; }
  const Shape& shape(int index) { return tensor(index).shape; }
  bool is_constant(int index) { return tensor(index).constant >= 0; }
  // All elements of a constant.
  std::span<const float> floats(int index);
  bool is_output(int index) const { return is_output_[static_cast<size_t>(index)]; }

  // The node that writes a tensor and, unless `kind` is OpKind::count, is of this kind; NULL if there is none.
  Node* writer(int tensor, OpKind kind = OpKind::count);
  // Whether a node reads the tensor or the graph puts it out.
  bool is_read(int tensor) const { return reads_[static_cast<size_t>(tensor)] > 0 || is_output(tensor); }
  // Whether exactly one input of a node reads the tensor and the graph does not put it out.
  bool read_once(int tensor) const;

  // A constant that no tensor names yet.
  int add_constant(Shape shape, const Vector<float>& values);
  void set_input(Node& node, size_t input, int tensor);
  void set_inputs(Node& node, Vector<int> inputs);
  void remove(Node& node);
  // Where `node` wrote `output` it writes what `reader` wrote, a node with one output, which is removed.
  void take_output(Node& node, int output, Node& reader);
  // Who read the output of `node`, which has one, reads `tensor`, which has the same elements; the node is removed.
  // False when the names of the graph's inputs and outputs forbid it, or the elements stand for other numbers.
  bool bypass(Node& node, int tensor);
  // The same for all outputs of a node that gives what `other` does.
  bool merge(Node& node, const Node& other);

  // Whether anything was changed.
  bool changed() const { return changed_; }
  void finish();

 private:
  void redirect(int from, int to);
  size_t index_of(const Node& node) const { return static_cast<size_t>(&node - graph_.nodes.data()); }

  Graph& graph_;
  Vector<int> writer_;  // per tensor: node or -1
  Vector<size_t> reads_;
  Vector<bool> is_output_;
  Vector<bool> removed_;
  bool changed_ = false;
};

// Passes; each makes one sweep over the graph. optimize.cc says what they do.
qn_status fold_constants(Rewriter& r);
qn_status remove_identities(Rewriter& r);
qn_status merge_reshapes(Rewriter& r);
qn_status merge_transposes(Rewriter& r);
qn_status merge_affine(Rewriter& r);
qn_status fold_affine_into_weights(Rewriter& r);
qn_status fuse_clamps(Rewriter& r);
qn_status fold_pads(Rewriter& r);
qn_status flatten_without_transpose(Rewriter& r);
qn_status merge_common(Rewriter& r);
qn_status remove_dead(Rewriter& r);

// Drops tensors and constants that nothing refers to.
void compact(Graph& graph);

}  // namespace quern
