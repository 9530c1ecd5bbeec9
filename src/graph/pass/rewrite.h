// A graph together with an index of the nodes that write and read each tensor. All optimizer passes work on it.
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
  // `later`: nodes that run after those of the graph. The tensors that they read stay, as outputs of the graph do.
  explicit Rewriter(Graph& graph, std::span<const Node> later = {});

  Graph& graph() { return graph_; }
  std::span<const Node> later() const { return later_; }
  size_t size() const { return graph_.nodes.size(); }
  Node& node(size_t index) { return graph_.nodes[index]; }
  bool removed(size_t index) const { return removed_[index]; }
  Tensor& tensor(int index) { return graph_.tensors[static_cast<size_t>(index)]; }
  const Shape& shape(int index) { return tensor(index).shape; }
  bool is_constant(int index) { return tensor(index).constant >= 0; }
  bool is_float(int index) { return tensor(index).type == QN_F32; }
  // All elements of a constant.
  std::span<const float> floats(int index);
  bool is_output(int index) const { return is_output_[static_cast<size_t>(index)]; }

  // The node that writes a tensor and, unless `kind` is OpKind::count, is of this kind; NULL if there is none.
  Node* writer(int tensor, OpKind kind = OpKind::count);
  // Whether a node reads the tensor or it is an output of the graph.
  bool is_read(int tensor) const { return reads_[static_cast<size_t>(tensor)] > 0 || is_output(tensor); }
  // How many inputs of nodes read the tensor.
  size_t reads(int tensor) const { return reads_[static_cast<size_t>(tensor)]; }
  // Whether exactly one input of one node reads the tensor, and it is not an output of the graph.
  bool read_once(int tensor) const;

  // Adds a constant tensor without a name; returns its index.
  int add_constant(Shape shape, const Vector<float>& values);
  int add_constant(Shape shape, qn_type type, const void* data);
  // Adds a tensor that a node is going to write; returns its index.
  int add_tensor(qn_type type, Quantization quantization);
  // Inserts a node with one input right before or after another node. Passes see it only when the next one begins.
  void insert_before(const Node& reader, OpKind kind, String name, int input, int output);
  void insert_after(const Node& writer, OpKind kind, String name, int input, int output, Attributes attributes = {});
  void set_input(Node& node, size_t input, int tensor);
  void set_inputs(Node& node, Vector<int> inputs);
  void remove(Node& node);
  // Makes `node` write the only output of `reader` in place of its own `output`, and removes `reader`.
  void take_output(Node& node, int output, Node& reader);
  // Makes `node` write another tensor, which nothing writes yet, in place of its only output.
  void set_output(Node& node, int tensor);
  // Removes `node`, which has one output, and makes the readers of that output read `tensor`, which has the same
  // elements. Returns false if the names of the graph's inputs and outputs forbid this, or if the elements stand for
  // other real numbers.
  bool bypass(Node& node, int tensor);
  // Does the same for all outputs of `node`, which computes the same as `other`.
  bool merge(Node& node, const Node& other);

  // Whether the pass has changed anything.
  bool changed() const { return changed_; }
  void finish();

 private:
  struct Inserted {
    size_t place;  // it runs before the node of this index
    Node node;
  };

  void redirect(int from, int to);
  void insert(size_t place, OpKind kind, String name, int input, int output, Attributes attributes);
  int added(int tensor);
  size_t index_of(const Node& node) const { return static_cast<size_t>(&node - graph_.nodes.data()); }

  Graph& graph_;
  std::span<const Node> later_;
  Vector<int> writer_;  // per tensor: node or -1
  Vector<size_t> reads_;
  Vector<bool> is_output_;
  Vector<bool> removed_;
  Vector<Inserted> inserted_;
  bool changed_ = false;
};

// The passes. Each of them goes over the graph once.
#define QN_PASS(name, function, sentence) qn_status function(Rewriter& r);
#include "graph/pass/passes.inc"
#undef QN_PASS

// Drops tensors and constants that nothing refers to.
void compact(Graph& graph);

}  // namespace quern
