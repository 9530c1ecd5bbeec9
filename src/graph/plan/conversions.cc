#include "graph/plan/conversions.h"

#include <algorithm>

#include "base/search.h"

namespace quern {
namespace {

// ---- copies

class CopyPlan : public NodePlan {
 public:
  CopyPlan(const Memory& memory, bool to_host, size_t bytes) : memory_(memory), to_host_(to_host), bytes_(bytes) {}

  size_t workspace_size() const override { return 0; }
  PlanInfo info() const override { return {}; }
  qn_status run(std::span<const Location> inputs, std::span<const Location> outputs, const Location&,
                const qn_parallel*) const override {
    if (to_host_) return memory_.read(address(outputs[0]), inputs[0], bytes_);
    return memory_.write(outputs[0], address(inputs[0]), bytes_);
  }

 private:
  const Memory& memory_;
  bool to_host_;
  size_t bytes_;
};

// Copies a tensor between the host's memory and another one. The tensor never lies within another tensor.
class CopyOperator : public NodeOperator {
 public:
  CopyOperator(const Memory& memory, bool to_host) : memory_(memory), to_host_(to_host) {}

  bool in_place(size_t) const override { return false; }
  bool strided() const override { return false; }
  Layouts layouts() const override { return Layouts::nhwc; }
  double cost(const Graph&, const Node&, const ExecutionOptions&) const override { return 0; }
  qn_status plan(const Graph& shapes, const Node& node, const ExecutionOptions&,
                 std::unique_ptr<NodePlan>* plan) const override {
    const qn_tensor tensor = describe(shapes.tensors[at(node.inputs[0])]);
    plan->reset(new CopyPlan(memory_, to_host_, qn_tensor_bytes(&tensor)));
    return QN_OK;
  }
  qn_status plan_chain(const Graph&, const Node&, const NodeOperator&, const Node&, const ExecutionOptions&,
                       std::unique_ptr<NodePlan>*) const override {
    return QN_UNSUPPORTED;
  }
  qn_status plan_residual(const Graph&, const Node&, const Residual&, const ExecutionOptions&,
                          std::unique_ptr<NodePlan>*) const override {
    return QN_UNSUPPORTED;
  }

 private:
  const Memory& memory_;
  bool to_host_;
};

// ---- where they go

// The form in which a node takes its inputs and writes its outputs.
struct Form {
  uint8_t memory = 0;  // as in Tensor
  bool operator==(const Form&) const = default;
};

constexpr Form host = {};

class Converter {
 public:
  explicit Converter(Model& model)
      : model_(model), graph_(model.graph), also_(graph_.tensors.size(), no_tensor), is_output_(graph_.tensors.size()) {
    for (const Port& port : graph_.outputs) is_output_[at(port.tensor)] = true;
  }

  void run() {
    Vector<Node> nodes = std::move(graph_.nodes);
    Vector<ModelOperator> operators = std::move(model_.operators);
    for (size_t i = 0; i < nodes.size(); ++i) {
      Node& node = nodes[i];
      name_ = node.name;
      const Form form = form_of(node, operators[i].backend);
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (is_read_by_runs(node, k)) node.inputs[k] = in_form(node.inputs[k], form);
      }
      const Vector<int> outputs = node.outputs;
      for (int& output : node.outputs) output = written(output, form);
      append(std::move(node), std::move(operators[i]));
      for (const int output : outputs) {
        if (form_of(tensor(output)) != form) convert(also_[at(output)], output);
      }
    }
  }

 private:
  Tensor& tensor(int index) { return graph_.tensors[at(index)]; }

  static Form form_of(const Tensor& tensor) { return {tensor.memory}; }

  // The form of a node's inputs and outputs. A view has no backend, so it keeps the form of its input.
  Form form_of(const Node& node, const Backend* backend) {
    if (backend == nullptr) return form_of(tensor(node.inputs[0]));
    const Memory* const* const end = model_.memories + model_.memory_count;
    const Memory* const* const found = std::find<const Memory* const*>(model_.memories, end, backend->memory);
    if (found == end) model_.memories[model_.memory_count++] = backend->memory;
    const auto memory = static_cast<uint8_t>(found - model_.memories);
    if (memory != 0) backends_[memory] = backend;
    return {memory};
  }

  // Adds a tensor that holds the same elements as this one in another form.
  int add_variant(int index, Form form) {
    Tensor variant = {String(), tensor(index).type, tensor(index).shape};
    variant.memory = form.memory;
    const int made = static_cast<int>(graph_.tensors.size());
    graph_.tensors.push_back(std::move(variant));
    also_.push_back(also_[at(index)]);
    also_[at(index)] = made;
    return made;
  }

  // Returns the tensor that a node writes in `form`. It is this one, unless this one is an output of the graph and must
  // have the form of outputs; then it is a new one.
  int written(int index, Form form) {
    if (is_output_[at(index)] && form != host) return add_variant(index, form);
    tensor(index).memory = form.memory;
    return index;
  }

  // Returns a tensor in the wanted form that holds this one's elements.
  int in_form(int index, Form wanted) {
    for (int other = index; other != no_tensor; other = also_[at(other)]) {
      if (form_of(tensor(other)) == wanted) return other;
    }
    // Every copy begins or ends in the host's memory.
    const int from = wanted == host ? index : in_form(index, host);
    const int made = add_variant(index, wanted);
    convert(from, made);
    return made;
  }

  void convert(int from, int to) {
    const uint8_t memory = std::max(tensor(from).memory, tensor(to).memory);  // one of them is the host's, which is 0
    const bool to_host = tensor(to).memory == 0;
    String name = name_;
    name += ": to ";
    name += to_host ? "host" : model_.memories[memory]->name;
    std::unique_ptr<NodeOperator> op(new CopyOperator(*model_.memories[memory], to_host));
    append({OpKind::copy, std::move(name), {from}, {to}, {}}, {backends_[memory], std::move(op)});
  }

  void append(Node node, ModelOperator op) {
    graph_.nodes.push_back(std::move(node));
    model_.operators.push_back(std::move(op));
  }

  Model& model_;
  Graph& graph_;
  Vector<int> also_;        // per tensor: another one with the same elements in another form, or none
  Vector<bool> is_output_;  // per tensor that the graph had before: whether it is an output of the graph
  const Backend* backends_[max_memories] = {};  // per memory: a backend that computes in it
  String name_;                                 // name of the node that is being converted
};

}  // namespace

void place_conversions(Model& model) {
  const bool all_alike = all_of(model.operators, [](const ModelOperator& made) {
    return made.backend == nullptr || made.backend->memory == nullptr;
  });
  if (!all_alike) Converter(model).run();
}

}  // namespace quern
