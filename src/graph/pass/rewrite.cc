#include "graph/pass/rewrite.h"

#include <algorithm>

namespace quern {

Rewriter::Rewriter(Graph& graph, std::span<const Node> later)
    : graph_(graph),
      later_(later),
      writer_(graph.tensors.size(), -1),
      reads_(graph.tensors.size(), 0),
      is_output_(graph.tensors.size(), false),
      removed_(graph.nodes.size(), false) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const int output : graph.nodes[i].outputs) writer_[at(output)] = static_cast<int>(i);
    for (const int input : graph.nodes[i].inputs) {
      if (input != no_tensor) ++reads_[at(input)];
    }
  }
  for (const Port& port : graph.outputs) is_output_[at(port.tensor)] = true;
  for (const Node& node : later) {
    for (const int input : node.inputs) {
      if (input != no_tensor) is_output_[at(input)] = true;
    }
  }
}

std::span<const float> Rewriter::floats(int index) {
  const Constant& constant = graph_.constants[at(tensor(index).constant)];
  return {static_cast<const float*>(constant.data), constant.bytes / sizeof(float)};
}

Node* Rewriter::writer(int index, OpKind kind) {
  const int found = index == no_tensor ? -1 : writer_[at(index)];
  if (found < 0) return nullptr;
  Node& node = graph_.nodes[at(found)];
  return kind == OpKind::count || node.kind == kind ? &node : nullptr;
}

bool Rewriter::read_once(int index) const { return reads_[at(index)] == 1 && !is_output_[at(index)]; }

int Rewriter::added(int index) {
  writer_.push_back(-1);
  reads_.push_back(0);
  is_output_.push_back(false);
  return index;
}

int Rewriter::add_constant(Shape shape, qn_type type, const void* data) {
  return added(quern::add_constant(graph_, String(), type, std::move(shape), data));
}

int Rewriter::add_constant(Shape shape, const Vector<float>& values) {
  return add_constant(std::move(shape), QN_F32, values.data());
}

int Rewriter::add_tensor(qn_type type, Quantization quantization) {
  const int index = quern::add_tensor(graph_, String(), type, {});
  tensor(index).quantization = std::move(quantization);
  return added(index);
}

void Rewriter::insert(size_t place, OpKind kind, String name, int input, int output, Attributes attributes) {
  inserted_.push_back({place, {kind, std::move(name), {input}, {output}, std::move(attributes)}});
  ++reads_[at(input)];
  writer_[at(output)] = -1;
  changed_ = true;
}

void Rewriter::insert_before(const Node& reader, OpKind kind, String name, int input, int output) {
  insert(index_of(reader), kind, std::move(name), input, output, {});
}

void Rewriter::insert_after(const Node& writer, OpKind kind, String name, int input, int output,
                            Attributes attributes) {
  insert(index_of(writer) + 1, kind, std::move(name), input, output, std::move(attributes));
}

void Rewriter::set_output(Node& node, int index) {
  writer_[at(node.outputs[0])] = -1;
  node.outputs[0] = index;
  writer_[at(index)] = static_cast<int>(index_of(node));
  changed_ = true;
}

void Rewriter::set_input(Node& node, size_t input, int index) {
  if (node.inputs[input] != no_tensor) --reads_[at(node.inputs[input])];
  node.inputs[input] = index;
  if (index != no_tensor) ++reads_[at(index)];
  changed_ = true;
}

void Rewriter::set_inputs(Node& node, Vector<int> inputs) {
  for (size_t i = 0; i < node.inputs.size(); ++i) set_input(node, i, no_tensor);
  node.inputs.assign(inputs.size(), no_tensor);
  for (size_t i = 0; i < inputs.size(); ++i) set_input(node, i, inputs[i]);
}

void Rewriter::remove(Node& node) {
  set_inputs(node, {});
  for (const int output : node.outputs) {
    if (writer(output) == &node) writer_[at(output)] = -1;
  }
  removed_[index_of(node)] = true;
  changed_ = true;
}

void Rewriter::take_output(Node& node, int output, Node& reader) {
  const int taken = reader.outputs[0];
  remove(reader);
  writer_[at(output)] = -1;
  *std::find(node.outputs.begin(), node.outputs.end(), output) = taken;
  writer_[at(taken)] = static_cast<int>(index_of(node));
}

void Rewriter::redirect(int from, int to) {
  for (size_t i = 0; i < size(); ++i) {
    for (size_t k = 0; k < node(i).inputs.size(); ++k) {
      if (node(i).inputs[k] == from) set_input(node(i), k, to);
    }
  }
}

bool Rewriter::bypass(Node& node, int index) {
  const int output = node.outputs[0];
  if (tensor(output).type != tensor(index).type) return false;
  if (!(tensor(output).quantization == tensor(index).quantization)) return false;
  if (!is_output(output)) {
    remove(node);
    redirect(output, index);
    return true;
  }
  if (is_constant(index)) {
    tensor(output).constant = tensor(index).constant;
    remove(node);
    return true;
  }
  Node* source = writer(index);
  if (source == nullptr || is_output(index)) return false;
  take_output(*source, index, node);
  redirect(index, output);
  return true;
}

bool Rewriter::merge(Node& node, const Node& other) {
  if (other.outputs.size() != node.outputs.size()) return false;
  if (node.outputs.size() == 1) return bypass(node, other.outputs[0]);
  for (const int output : node.outputs) {
    if (is_output(output)) return false;
  }
  remove(node);
  for (size_t i = 0; i < node.outputs.size(); ++i) redirect(node.outputs[i], other.outputs[i]);
  return true;
}

void Rewriter::finish() {
  std::stable_sort(inserted_.begin(), inserted_.end(),
                   [](const Inserted& a, const Inserted& b) { return a.place < b.place; });
  Vector<Node> nodes;
  auto inserted = inserted_.begin();
  for (size_t i = 0; i <= size(); ++i) {
    for (; inserted != inserted_.end() && inserted->place == i; ++inserted) nodes.push_back(std::move(inserted->node));
    if (i < size() && !removed_[i]) nodes.push_back(std::move(graph_.nodes[i]));
  }
  graph_.nodes = std::move(nodes);
}

void compact(Graph& graph) {
  Vector<int> tensor_at(graph.tensors.size(), no_tensor), constant_at(graph.constants.size(), -1);
  const auto mark = [&](int tensor) {
    if (tensor != no_tensor) tensor_at[at(tensor)] = 0;
  };
  for (const Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), mark);
    std::for_each(node.outputs.begin(), node.outputs.end(), mark);
  }
  for (const Port& port : graph.inputs) mark(port.tensor);
  for (const Port& port : graph.outputs) mark(port.tensor);

  Vector<Tensor> tensors;
  Vector<Constant> constants;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (tensor_at[i] == no_tensor) continue;
    tensor_at[i] = static_cast<int>(tensors.size());
    Tensor& tensor = tensors.emplace_back(std::move(graph.tensors[i]));
    if (tensor.constant < 0) continue;
    int& constant = constant_at[at(tensor.constant)];
    if (constant < 0) {
      constant = static_cast<int>(constants.size());
      constants.push_back(std::move(graph.constants[at(tensor.constant)]));
    }
    tensor.constant = constant;
  }
  graph.tensors = std::move(tensors);
  graph.constants = std::move(constants);

  const auto move = [&](int& tensor) {
    if (tensor != no_tensor) tensor = tensor_at[at(tensor)];
  };
  for (Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), move);
    std::for_each(node.outputs.begin(), node.outputs.end(), move);
  }
  for (Port& port : graph.inputs) move(port.tensor);
  for (Port& port : graph.outputs) move(port.tensor);
}

}  // namespace quern
