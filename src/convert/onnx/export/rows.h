// The tables that say how each kind of node is written. Each file beside this one has the rows of some kinds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "convert/onnx/export/graph_writer.h"

namespace quern::onnx {

// Where an attribute of an operator comes from. A parameter that the node does not have is not written: its default is
// ONNX's, too.
struct AttributeRule {
  enum Form {
    integer,   // the parameter's first number
    integers,  // all of them, unless there are none
    number,    // the parameter's first float
    word,      // the one of `words` that the parameter numbers; without a parameter the first of them
    type,      // the type of the node's output; there is no parameter
  };
  Form form;
  const char* attribute;
  const char* parameter = nullptr;
  std::vector<const char*> words = {};
};

// Of the many operators that work along one axis.
inline const std::vector<AttributeRule> axis_rule = {{AttributeRule::integer, "axis", "axis"}};

struct ExportRow {
  using Write = void (*)(GraphWriter&, const Node&, const ExportRow&);

  Write write;
  const char* op = nullptr;  // what write() makes of the node, if it is one operator of ONNX
  int64_t opset = base_opset;
  std::vector<AttributeRule> attributes = {};
  size_t outputs = 1;                        // so many are always named; others only if somebody reads them
  std::vector<const char*> parameters = {};  // those that write() reads beside those of `attributes`
  bool needs_rank = false;                   // write() works with the order of dimensions
};
using ExportTable = std::map<std::string, ExportRow>;

// The row, of a function that reads these parameters itself.
inline ExportRow reads(std::vector<const char*> parameters, ExportRow row) {
  row.parameters = std::move(parameters);
  return row;
}
// The row, of a function that works with the order of dimensions: it cannot write nodes after what a run sizes.
inline ExportRow ordered(ExportRow row) {
  row.needs_rank = true;
  return row;
}
// Throws Unsupported if the node has parameters that its row does not name: the file would not say what they say.
void expect_written(const Node& node, const ExportRow& row);

// Adds the row's operator with these inputs; its outputs become those of the node, with dimensions in their own order.
schema::NodeProto* write_with(GraphWriter& to, const Node& node, const ExportRow& row, std::vector<std::string> inputs);
// The same with the inputs of the node as they are stored.
void write_operator(GraphWriter& to, const Node& node, const ExportRow& row);
// The inputs of a node as they are stored; "" for those that it does not have.
std::vector<std::string> stored_inputs(GraphWriter& to, const Node& node);
// The same for a kind that follows dimensions (`extra/sized.h`), with the inputs that its other form has: the lists of
// numbers are computed. (moves.cc)
std::vector<std::string> sized_inputs(GraphWriter& to, const Node& node, size_t own);
// As write_operator(), for an operator that computes each element from those at the same place: it takes tensors in any
// order.
void write_elementwise(GraphWriter& to, const Node& node, const ExportRow& row);
// Adds what the rules say of a node to an operator.
void set_attributes(const GraphWriter& from, const Node& node, const ExportRow& row, schema::NodeProto* to);

// Kinds of graph/ir/op.inc.
const ExportTable& exported_layers();
const ExportTable& exported_shapes();
const ExportTable& exported_control();
// Kinds of libquern-extra.
const ExportTable& exported_functions();
const ExportTable& exported_moves();
const ExportTable& exported_products();
const ExportTable& exported_recurrent();
const ExportTable& exported_images();
const ExportTable& exported_detection();
const ExportTable& exported_anchors();
const ExportTable& exported_regions();

// Returns null if there is no row for the node's kind.
const ExportRow* find_row(const Node& node);

}  // namespace quern::onnx
