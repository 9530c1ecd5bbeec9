// The nodes of a TensorFlow graph that some tensors need, in an order in which they can run.
//
// Files hold nodes in any order and name tensors "node" or "node:output". Loops make cycles, through NextIteration.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "convert/tensorflow/graph.pb.h"

namespace quern::tensorflow {

constexpr size_t max_outputs = 256;  // of a node

// An output of a node.
struct TensorName {
  std::string node;
  size_t output = 0;

  bool operator<(const TensorName& other) const { return std::tie(node, output) < std::tie(other.node, other.output); }
  bool operator==(const TensorName& other) const { return node == other.node && output == other.output; }
  std::string text() const { return output == 0 ? node : node + ":" + std::to_string(output); }
};
TensorName tensor_name(const std::string& text);
// Whether an input only says that the node runs after another one.
bool is_control(const std::string& input);

// What is imported for a node of the file. Some groups of nodes are one operator of ours: then `op` is one of these, and
// the attributes may be those of another node than the last one, whose name the group has.
//
//   PReLU            Select(Greater(x, zero), x, Mul(x, slope)): x, slope, zero
//   dilated Conv2D   BatchToSpaceND(Conv2D(SpaceToBatchND(x, block, paddings), weights), block, crops):
//                    x, weights, block, paddings, block, crops; DepthwiseConv2dNative likewise
struct Step {
  const schema::NodeDef* node;
  const schema::NodeDef* attributes;
  std::string op;
  std::vector<TensorName> inputs;  // those that carry data
  bool is_group = false;
};

class Graph {
 public:
  explicit Graph(const schema::GraphDef& graph);

  const schema::NodeDef* find(const std::string& node) const;
  // The outputs of nodes that no node reads.
  std::vector<TensorName> unread() const;
  // Returns what the outputs need, each step after those it reads. `cut` is not computed, and so needs nothing.
  std::vector<Step> needed(const std::vector<TensorName>& outputs, const std::set<TensorName>& cut) const;

 private:
  using Cut = std::set<TensorName>;

  Step step_of(const schema::NodeDef& node, const Cut& cut) const;
  const schema::NodeDef* maker(const TensorName& tensor, const Cut& cut, const std::set<std::string>& ops) const;
  void as_prelu(Step* step, const Cut& cut) const;
  void as_dilated_convolution(Step* step, const Cut& cut) const;

  const schema::GraphDef& graph_;
  std::map<std::string, const schema::NodeDef*> nodes_;
};

}  // namespace quern::tensorflow
