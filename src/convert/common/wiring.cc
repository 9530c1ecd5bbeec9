#include "convert/common/wiring.h"

#include <algorithm>

#include "convert/common/table.h"

namespace quern::convert {

// ---- tensors by name --------------------------------------------------------------------------

Wire Wiring::mention(const std::string& name) {
  const auto [at, fresh] = wires_.try_emplace(name, tensors_.size());
  if (fresh) tensors_.push_back({name});
  return at->second;
}

Wire Wiring::rewrite(const std::string& name) {
  tensors_.push_back({name});
  return wires_[name] = tensors_.size() - 1;
}

std::optional<Wire> Wiring::find(const std::string& name) const {
  const auto at = wires_.find(name);
  return at == wires_.end() ? std::nullopt : std::optional<Wire>(at->second);
}

// ---- nodes ------------------------------------------------------------------------------------

Wires Wiring::unread() const {
  std::vector<char> read(tensors_.size(), 0);
  for (const Node& node : nodes_) {
    for (const Wire input : node.inputs) {
      if (input != no_wire) read[input] = 1;
    }
  }
  Wires unread;
  for (Wire wire = 0; wire < read.size(); ++wire) {
    if (!read[wire]) unread.push_back(wire);
  }
  return unread;
}

// Goes backwards, so that the nodes that read a tensor come before the node that writes it.
void Wiring::need(const Wires& outputs) {
  for (const Wire output : outputs) tensors_[output].needed = true;
  for (size_t i = nodes_.size(); i-- > 0;) {
    Node& node = nodes_[i];
    for (const Wire output : node.outputs) node.needed |= is_needed(output);
    for (const Wire input : node.inputs) {
      if (input != no_wire) tensors_[input].needed |= node.needed;
    }
  }
}

// ---- values -----------------------------------------------------------------------------------

void Wiring::define_constant(Wire wire, std::function<Value()> read) { constants_.emplace(wire, std::move(read)); }

void Wiring::define(Wire wire, Value value) {
  Tensor& tensor = tensors_[wire];
  if (is_constant(wire) || tensor.value) throw Error("tensor '" + tensor.name + "' is written twice");
  tensor.value = std::move(value);
}

void Wiring::define_outputs(size_t node, const Values& values) {
  const Wires& wires = outputs(node);
  for (size_t i = values.size(); i < wires.size(); ++i) {
    if (is_needed(wires[i])) throw Unsupported{"output " + std::to_string(i)};
  }
  for (size_t i = 0; i < std::min(values.size(), wires.size()); ++i) {
    if (wires[i] != no_wire) define(wires[i], values[i]);
  }
}

bool Wiring::is_unknown(Wire wire) const { return !tensors_[wire].value && !tensors_[wire].lost && !is_constant(wire); }

const Value* Wiring::value(Wire wire, const std::string& reader) {
  Tensor& tensor = tensors_[wire];
  if (tensor.lost) return nullptr;
  if (tensor.value) return &tensor.value;
  const auto* read = find_in(constants_, wire);
  if (read == nullptr) throw Error(reader + " reads '" + tensor.name + "', which nothing before it writes");
  tensor.value = (*read)();
  charge_integers(builder_, tensor.value);
  return &tensor.value;
}

std::optional<std::vector<const Value*>> Wiring::values(size_t node, const std::string& reader) {
  std::vector<const Value*> values;
  for (const Wire wire : inputs(node)) {
    values.push_back(wire == no_wire ? nullptr : value(wire, reader));
    if (values.back() != nullptr || wire == no_wire) continue;
    lose(outputs(node));
    return std::nullopt;
  }
  return values;
}

void Wiring::lose(const Wires& wires) {
  for (const Wire wire : wires) {
    if (wire != no_wire) tensors_[wire].lost = true;
  }
}

}  // namespace quern::convert
