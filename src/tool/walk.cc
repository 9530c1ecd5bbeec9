#include "tool/walk.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

namespace quern {
namespace {

// Makes a port of a tensor, which gets a name if it has none.
Port port_of(Graph& graph, int tensor) {
  String& name = graph.tensors[at(tensor)].name;
  if (name.empty()) name = ("tensor " + std::to_string(tensor)).c_str();
  return {.tensor = tensor, .type = tensor_of(graph, tensor).type};
}

}  // namespace

// Tensors that are known before a node, and read by it, by a node after it, or by the user.
Vector<int> Walk::live(size_t node) const {
  std::set<int> known, read;
  for (const Port& port : graph_.inputs) known.insert(port.tensor);
  for (const Port& port : graph_.outputs) read.insert(port.tensor);
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& n = graph_.nodes[i];
    if (i < node) known.insert(n.outputs.begin(), n.outputs.end());
    if (i >= node) read.insert(n.inputs.begin(), n.inputs.end());
  }
  Vector<int> both;
  std::set_intersection(known.begin(), known.end(), read.begin(), read.end(), std::back_inserter(both));
  return both;
}

uint64_t Walk::live_bytes(size_t node) const {
  uint64_t bytes = 0;
  for (const int tensor : live(node)) {
    size_t size;
    if (tensor_size(tensor_of(graph_, tensor).type, tensor_of(graph_, tensor).shape, &size)) bytes += size;
  }
  return bytes;
}

void Walk::begin(const std::vector<size_t>& samples) {
  samples_.assign(samples.size(), {});
  next_ = 0;
  Graph inputs = graph_;  // hands its inputs through, in the types of their tensors
  inputs.nodes.clear();
  inputs.outputs.clear();
  for (const Port& port : graph_.inputs) inputs.outputs.push_back(port_of(inputs, port.tensor));
  Part runner(inputs, settings_);
  for (size_t n = 0; n < samples.size(); ++n) {
    runner.run(sample_, samples[n]);
    keep_outputs(inputs, runner, &samples_[n]);
  }
}

// The nodes before `node` that have not run.
Graph Walk::part_to(size_t node) const {
  Graph part = graph_;
  part.inputs.clear();
  part.outputs.clear();
  const auto first = static_cast<ptrdiff_t>(next_), last = static_cast<ptrdiff_t>(node);
  part.nodes = Vector<Node>(graph_.nodes.begin() + first, graph_.nodes.begin() + last);
  std::set<int> made, read;
  for (const Node& n : part.nodes) {
    made.insert(n.outputs.begin(), n.outputs.end());
    read.insert(n.inputs.begin(), n.inputs.end());
  }
  for (const int tensor : live(next_)) {
    if (read.count(tensor) != 0) part.inputs.push_back(port_of(part, tensor));
  }
  for (const int tensor : live(node)) {
    if (made.count(tensor) != 0) part.outputs.push_back(port_of(part, tensor));
  }
  return part;
}

std::vector<InputData> Walk::inputs_of(const Graph& part, const Tensors& tensors, const qn_session* session) {
  std::vector<InputData> inputs(part.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Kept& kept = tensors.at(part.inputs[i].tensor);
    check(qn_session_input_tensor(session, i, &inputs[i].tensor));
    inputs[i].tensor.rank = static_cast<uint32_t>(kept.shape.size());
    std::copy(kept.shape.begin(), kept.shape.end(), inputs[i].tensor.shape);
    inputs[i].bytes.assign(kept.bytes.begin(), kept.bytes.end());
  }
  return inputs;
}

void Walk::keep_outputs(const Graph& part, const Part& runner, Tensors* tensors) {
  for (size_t i = 0; i < part.outputs.size(); ++i) {
    Kept& kept = (*tensors)[part.outputs[i].tensor];
    kept.shape = runner.shape(i);
    const auto* const bytes = static_cast<const unsigned char*>(runner.output(i));
    kept.bytes = Vector<unsigned char>(bytes, bytes + runner.bytes(i));
  }
}

void Walk::run_to(size_t node) {
  if (node == next_) return;
  const Graph part = part_to(node);
  const Vector<int> later = live(node);
  Part runner(part, settings_);
  for (Tensors& tensors : samples_) {
    runner.run([&](const qn_model*, const qn_session* s, size_t) { return inputs_of(part, tensors, s); }, 0);
    keep_outputs(part, runner, &tensors);
    std::erase_if(tensors,
                  [&](const auto& kept) { return !std::binary_search(later.begin(), later.end(), kept.first); });
  }
  next_ = node;
}

}  // namespace quern
