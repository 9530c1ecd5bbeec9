#include "convert/onnx/order.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

namespace quern::onnx {
namespace {

// Adds the names that the nodes of a graph read, but that the graph itself does not define.
void find_captured(const schema::GraphProto& graph, std::set<std::string>* captured) {
  std::set<std::string> read, defined;
  for (const schema::NodeProto& node : graph.node()) {
    read.insert(node.input().begin(), node.input().end());
    for (const schema::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) find_captured(attribute.g(), &read);
    }
    defined.insert(node.output().begin(), node.output().end());
  }
  for (const schema::ValueInfoProto& output : graph.output()) read.insert(output.name());
  for (const schema::ValueInfoProto& input : graph.input()) defined.insert(input.name());
  for (const schema::TensorProto& tensor : graph.initializer()) defined.insert(tensor.name());
  for (const schema::SparseTensorProto& tensor : graph.sparse_initializer()) defined.insert(tensor.values().name());
  for (const std::string& name : read) {
    if (!name.empty() && defined.count(name) == 0) captured->insert(name);
  }
}

// For each node, the nodes that read its outputs; and how many outputs of nodes each node reads.
struct Readers {
  explicit Readers(const schema::GraphProto& graph)
      : of(static_cast<size_t>(graph.node_size())), reads(static_cast<size_t>(graph.node_size()), 0) {
    std::map<std::string, int> writers;
    for (int i = 0; i < graph.node_size(); ++i) {
      for (const std::string& output : graph.node(i).output()) writers.emplace(output, i);
    }
    for (int i = 0; i < graph.node_size(); ++i) {
      std::vector<std::string> names = captured_by(graph.node(i));
      names.insert(names.end(), graph.node(i).input().begin(), graph.node(i).input().end());
      for (const std::string& name : names) {
        const auto writer = name.empty() ? writers.end() : writers.find(name);
        if (writer == writers.end()) continue;
        of[static_cast<size_t>(writer->second)].push_back(i);
        ++reads[static_cast<size_t>(i)];
      }
    }
  }

  std::vector<std::vector<int>> of;
  std::vector<size_t> reads;
};

// The nodes in an order in which each can run: of those that can, the first one comes next.
std::vector<int> order_of(const schema::GraphProto& graph) {
  Readers readers(graph);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  std::vector<int> order;
  std::vector<char> done(readers.reads.size(), 0);
  for (int i = 0; i < graph.node_size(); ++i) {
    if (readers.reads[static_cast<size_t>(i)] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    const int next = ready.top();
    ready.pop();
    order.push_back(next);
    done[static_cast<size_t>(next)] = 1;
    for (const int reader : readers.of[static_cast<size_t>(next)]) {
      if (--readers.reads[static_cast<size_t>(reader)] == 0) ready.push(reader);
    }
  }
  for (int i = 0; i < graph.node_size(); ++i) {
    if (!done[static_cast<size_t>(i)]) order.push_back(i);
  }
  return order;
}

}  // namespace

std::vector<std::string> captured_by(const schema::NodeProto& node) {
  std::set<std::string> captured;
  for (const schema::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) find_captured(attribute.g(), &captured);
  }
  return {captured.begin(), captured.end()};
}

void sort_nodes(schema::GraphProto* graph) {
  for (schema::NodeProto& node : *graph->mutable_node()) {
    for (schema::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) sort_nodes(attribute.mutable_g());
    }
  }
  const std::vector<int> order = order_of(*graph);
  if (std::is_sorted(order.begin(), order.end())) return;
  google::protobuf::RepeatedPtrField<schema::NodeProto> sorted;
  sorted.Reserve(graph->node_size());
  for (const int i : order) sorted.Add()->Swap(graph->mutable_node(i));
  graph->mutable_node()->Swap(&sorted);
}

}  // namespace quern::onnx
