// Matches parts of graphs with patterns.
#include "graph/pass/match.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/ir/custom.h"
#include "graph/pass/affine.h"

namespace quern {

bool may_make(Rewriter& r, const char* kind) {
  if (find_kind(kind) == nullptr) return false;
  const Vector<Node>& nodes = r.graph().nodes;
  return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.kind == OpKind::custom; });
}

bool is_kind(const Node& node, const char* registered) {
  return node.kind == OpKind::custom && std::strcmp(node.type.c_str(), registered) == 0;
}

bool is_close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

Arithmetic arithmetic_of(Rewriter& r, const Node& node) {
  struct Form {
    OpKind kind;
    const char* registered;
    Arithmetic arithmetic;
  };
  constexpr Form forms[] = {{OpKind::add, "any_add", Arithmetic::add},
                            {OpKind::sub, "any_sub", Arithmetic::sub},
                            {OpKind::mul, "any_mul", Arithmetic::mul},
                            {OpKind::div, "any_div", Arithmetic::div}};
  for (const Form& form : forms) {
    if (node.kind != form.kind && !is_kind(node, form.registered)) continue;
    const bool plain = is_unclamped(node) && r.is_float(node.inputs[0]) && r.is_float(node.outputs[0]);
    return plain ? form.arithmetic : Arithmetic::none;
  }
  return Arithmetic::none;
}

bool read_power(Rewriter& r, const Node& node, Power* power, int* x) {
  struct Function {
    const char* registered;
    double exponent;
  };
  constexpr Function functions[] = {{"sqrt", 0.5}, {"reciprocal", -1}};
  *power = {};
  if (node.inputs.empty()) return false;
  *x = node.inputs[0];
  for (const Function& function : functions) {
    power->exponent = function.exponent;
    if (is_kind(node, function.registered)) return true;
  }
  const Attributes& a = node.attributes;
  *power = {double{a.alpha}, double{a.beta}, double{a.gamma}};
  if (node.kind == OpKind::power) return r.is_float(node.outputs[0]);
  if (is_kind(node, "pow") && r.is_float(node.inputs[1]) && channels_of(r, node.inputs[1], 1).size() == 1) {
    *power = {1, 0, double{r.floats(node.inputs[1])[0]}};
    return r.shape(node.inputs[0]) == r.shape(node.outputs[0]);
  }
  Affine f;
  if (!read_affine(r, node, &f, x) || !f.is_uniform() || f.clamps()) return false;
  *power = {f.scale[0], f.bias[0], 1};
  return true;
}

bool has_fixed_channels(Rewriter& r, int x) {
  for (const Node* node = r.writer(x); node != nullptr; node = r.writer(node->inputs[0])) {
    const Kind& kind = kind_of(node->kind);
    if (kind.has(Kind::parameters)) return true;
    const Vector<int64_t>& values = node->attributes.values;
    if (node->kind == OpKind::reshape) return !values.empty() && values.back() > 0;
    if (!kind.has(Kind::keeps_channels) && node->kind != OpKind::slice) return false;
  }
  return false;
}

Vector<float> channels_of(Rewriter& r, int tensor, size_t channels) {
  if (tensor == no_tensor || !r.is_constant(tensor) || !r.is_float(tensor)) return {};
  const std::span<const float> values = r.floats(tensor);
  const Shape& shape = r.shape(tensor);
  if (values.size() != 1 && (values.size() != channels || shape.back() != channels)) return {};
  return {values.begin(), values.end()};
}

Readers::Readers(Rewriter& r) : begin_(r.graph().tensors.size() + 2, 0) {
  const auto each = [&](const auto& visit) {
    for (size_t i = 0; i < r.size(); ++i) {
      for (const int input : r.node(i).inputs) {
        if (input != no_tensor) visit(at(input), i);
      }
    }
  };
  each([&](size_t tensor, size_t) { ++begin_[tensor + 2]; });
  for (size_t t = 2; t < begin_.size(); ++t) begin_[t] += begin_[t - 1];
  nodes_.resize(begin_.back());
  each([&](size_t tensor, size_t node) { nodes_[begin_[tensor + 1]++] = node; });
}

std::span<const size_t> Readers::of(int tensor) const {
  if (at(tensor) + 2 >= begin_.size()) return {};  // the pass has added it
  return {nodes_.data() + begin_[at(tensor)], begin_[at(tensor) + 1] - begin_[at(tensor)]};
}

bool find_between(Rewriter& r, const Vector<int>& from, int to, Vector<Node*>* nodes) {
  constexpr size_t most = 32;
  const auto contains = [](const auto& list, const auto& x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  };
  nodes->clear();
  Vector<int> open = {to};
  while (!open.empty()) {
    const int tensor = open.back();
    open.pop_back();
    if (tensor == no_tensor || r.is_constant(tensor) || contains(from, tensor)) continue;
    Node* const node = r.writer(tensor);
    if (node == nullptr || node->outputs.size() != 1) return false;
    if (contains(*nodes, node)) continue;
    if (nodes->size() == most) return false;
    nodes->push_back(node);
    open.insert(open.end(), node->inputs.begin(), node->inputs.end());
  }
  return std::all_of(nodes->begin(), nodes->end(), [&](const Node* node) {
    const int tensor = node->outputs[0];
    size_t reads = 0;
    for (const Node* reader : *nodes)
      reads += static_cast<size_t>(std::count(reader->inputs.begin(), reader->inputs.end(), tensor));
    return tensor == to || (reads == r.reads(tensor) && !r.is_output(tensor));
  });
}

void replace(Rewriter& r, const Vector<Node*>& nodes, const char* kind, Vector<int> inputs,
             Vector<Parameter> parameters) {
  Node& last = *nodes[0];
  last.kind = OpKind::custom;
  last.type = kind;
  last.attributes = {};
  last.parameters = std::move(parameters);
  r.set_inputs(last, std::move(inputs));
  for (size_t i = 1; i < nodes.size(); ++i) r.remove(*nodes[i]);
}

}  // namespace quern
