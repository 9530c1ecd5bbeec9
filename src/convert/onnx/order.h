// The order of nodes, and what graphs of nodes read of the graph around them.
#pragma once

#include <string>
#include <vector>

#include "convert/onnx/onnx.pb.h"

namespace quern::onnx {

// The names that the graphs of a node read of the graph around them, in order.
std::vector<std::string> captured_by(const schema::NodeProto& node);

// Moves each node behind the nodes whose outputs it reads, in this graph and in those of its nodes. The format demands
// this order, and some exporters do not keep it. Other nodes keep their order; so do nodes that read each other's outputs,
// which the importer refuses.
void sort_nodes(schema::GraphProto* graph);

}  // namespace quern::onnx
