// Finds activations that a model quantizes while it runs, but that may stay real numbers (convert/README.md).
#include <algorithm>

#include "convert/onnx/node.h"

namespace quern::onnx {
namespace {

// Tensors that depend on no input of the graph.
std::set<std::string> known_at_import(const schema::GraphProto& graph, std::set<std::string> known) {
  known.insert("");  // an absent input
  for (const schema::TensorProto& tensor : graph.initializer()) known.insert(tensor.name());
  for (const schema::NodeProto& node : graph.node()) {
    bool all = true;
    for (const std::string& input : node.input()) all = all && known.count(input) != 0;
    for (const schema::AttributeProto& attribute : node.attribute()) all = all && !attribute.has_g();
    if (all) known.insert(node.output().begin(), node.output().end());
  }
  return known;
}

// MatMulInteger and ConvInteger: activations, weights, and a zero point of each. MatMulIntegerToFloat has scales between.
bool is_product_with_known_weights(const schema::NodeProto& node, const std::set<std::string>& known) {
  const bool scaled = node.op_type() == "MatMulIntegerToFloat";
  if (!scaled && node.op_type() != "MatMulInteger" && node.op_type() != "ConvInteger") return false;
  for (const int i : {1, scaled ? 5 : 3}) {
    if (i < node.input_size() && known.count(node.input(i)) == 0) return false;
  }
  return true;
}

// Adds what a graph that a node runs reads, and more.
void add_names(const schema::GraphProto& graph, std::set<std::string>* names) {
  for (const schema::NodeProto& node : graph.node()) {
    names->insert(node.input().begin(), node.input().end());
    for (const schema::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) add_names(attribute.g(), names);
    }
  }
  for (const schema::ValueInfoProto& output : graph.output()) names->insert(output.name());
}

// Returns the tensors that the graph gives, or that something else than a cast reads: of integers, the exact ones count.
std::set<std::string> read_uncast(const schema::GraphProto& graph) {
  std::set<std::string> names;
  for (const schema::NodeProto& node : graph.node()) {
    if (node.op_type() != "Cast") names.insert(node.input().begin(), node.input().end());
    for (const schema::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) add_names(attribute.g(), &names);
    }
  }
  for (const schema::ValueInfoProto& output : graph.output()) names.insert(output.name());
  return names;
}

}  // namespace

std::set<std::string> read_as_integers(const schema::GraphProto& graph, std::set<std::string> outer) {
  const std::set<std::string> known = known_at_import(graph, std::move(outer));
  std::set<std::string> names, scales;
  for (const schema::NodeProto& node : graph.node()) {
    if (node.op_type() == "DynamicQuantizeLinear" && node.output_size() > 1) scales.insert(node.output(1));
  }
  const std::set<std::string> uncast = read_uncast(graph);
  for (const schema::NodeProto& node : graph.node()) {
    const bool stays_integer =
        node.output_size() > 0 && node.op_type() != "MatMulIntegerToFloat" && uncast.count(node.output(0)) != 0;
    if (is_product_with_known_weights(node, known) && !stays_integer) continue;
    for (const std::string& input : node.input()) {
      if (scales.count(input) == 0) names.insert(input);  // scales are real numbers anyway
    }
    for (const schema::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) add_names(attribute.g(), &names);
    }
  }
  for (const schema::ValueInfoProto& output : graph.output()) names.insert(output.name());
  return names;
}

}  // namespace quern::onnx
