// Nodes for which ONNX has no operator become several.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convert/onnx/export/graph_writer.h"

namespace quern::onnx {

// Adds operators that are parts of a node.
struct Parts {
  GraphWriter& to;
  const Node& node;

  std::string op(const char* type, const std::vector<std::string>& inputs) const {
    return to.add(type, node_name(node, type), inputs);
  }
  std::string op(const char* type, const std::vector<std::string>& inputs, const char* attribute, int64_t value) const {
    schema::NodeProto* made = to.add_op(type, node_name(node, type), inputs);
    set_integer(made, attribute, value);
    return made->output(0);
  }
  std::string reshape(const std::string& x, const Vector<int64_t>& shape) const {
    return op("Reshape", {x, to.integers(shape)});
  }
  std::string transpose(const std::string& x, const Order& order) const {
    schema::NodeProto* made = to.add_op("Transpose", node_name(node, "Transpose"), {x});
    set_integers(made, "perm", order);
    return made->output(0);
  }
  // Elements `begin` up to `end` of the last dimension.
  std::string last(const std::string& x, int64_t begin, int64_t end) const {
    return op("Slice", {x, to.integers({begin}), to.integers({end}), to.integers({-1})});
  }
  // The largest elements along an axis in their order, and their places.
  std::pair<std::string, std::string> largest(const std::string& x, int64_t count, int64_t axis) const {
    schema::NodeProto* made = to.add_op("TopK", node_name(node, "TopK"), {x, to.integers({count})});
    made->add_output(to.model.new_name());
    set_integer(made, "axis", axis);
    return {made->output(0), made->output(1)};
  }
  // Makes `value` the output of the node, or of several outputs the one of this number.
  void define(const std::string& value, size_t output = 0) const {
    if (output >= node.outputs.size()) return;
    to.define_stored(node.outputs[output], value, to.order_as_is(node.outputs[output]));
  }
};

// What goes into a Scan: a value of the graph around it.
struct Scanned {
  std::string value;
  qn_type type;
};

// A Scan for a node that is no loop of ours: its body runs for each row of the scanned values, and reads values of the
// graph around it by their names.
class ScanWriter {
 public:
  ScanWriter(GraphWriter& to, const Node& node, const std::vector<Scanned>& carried,
             const std::vector<Scanned>& scanned);

  // Adds operators to the body.
  Parts body() { return {inner_, node_}; }
  // What the body reads: carried values, then rows.
  const std::string& input(int index) const { return graph_.input(index).name(); }
  // Gives the body its next output, of carried values first, then of rows. Returns the output of the Scan.
  std::string give(const std::string& value, qn_type type);
  // From the last row to the first. All outputs of rows must have been given.
  void reverse(size_t scanned, size_t rows);

 private:
  const Node& node_;
  schema::NodeProto& scan_;
  schema::GraphProto& graph_;
  Graph none_;  // the body has no nodes of ours
  GraphWriter inner_;
};

}  // namespace quern::onnx
