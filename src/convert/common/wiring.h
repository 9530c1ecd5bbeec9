// Which nodes of a source model need which tensors, and what is known of these.
//
// An importer first says what each node reads and writes, then which tensors are outputs, and imports the nodes that
// are needed in the order of the file. What is not supported is collected, so that a user learns of all of it at once:
// tensors that depend on it are lost, and nodes that read lost tensors are passed over.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convert/common/values.h"

namespace quern::convert {

// The number of a tensor of the source.
using Wire = size_t;
constexpr Wire no_wire = SIZE_MAX;  // an input or output that a node leaves out
using Wires = std::vector<Wire>;

class Wiring {
 public:
  explicit Wiring(Builder& builder) : builder_(builder) {}

  // ---- tensors by name: formats that number their tensors name them by their numbers

  // The tensor that the name means, made at the first mention.
  Wire mention(const std::string& name);
  // A new tensor, which the name means from now on: a format whose nodes write in place has a tensor per version.
  Wire rewrite(const std::string& name);
  std::optional<Wire> find(const std::string& name) const;
  const std::string& name(Wire wire) const { return tensors_[wire].name; }

  // ---- nodes, each after those that it reads

  void add_node(Wires inputs, Wires outputs) { nodes_.push_back({std::move(inputs), std::move(outputs)}); }
  const Wires& inputs(size_t node) const { return nodes_[node].inputs; }
  const Wires& outputs(size_t node) const { return nodes_[node].outputs; }
  // Tensors that no node reads, in the order of their numbers.
  Wires unread() const;
  // The tensors, and all nodes and tensors that they depend on, are needed.
  void need(const Wires& outputs);
  bool is_needed(Wire wire) const { return wire != no_wire && tensors_[wire].needed; }
  bool is_node_needed(size_t node) const { return nodes_[node].needed; }

  // ---- values

  // `read` is called when the constant is first used.
  void define_constant(Wire wire, std::function<Value()> read);
  void define(Wire wire, Value value);
  // The outputs of a node. Throws Unsupported when one that is needed has no value.
  void define_outputs(size_t node, const Values& values);
  // Nothing says what it is.
  bool is_unknown(Wire wire) const;
  bool is_constant(Wire wire) const { return constants_.count(wire) > 0; }
  // Null when the tensor is lost. `reader` begins the message when nothing has defined it.
  const Value* value(Wire wire, const std::string& reader);
  // The values of a node's inputs, null for those that it leaves out; none at all, and its outputs are lost, when an
  // input is.
  std::optional<std::vector<const Value*>> values(size_t node, const std::string& reader);

  // ---- what is not supported

  void lose(const Wires& wires);
  // Calls `body`, which imports something that has a name and a type. Where that throws Unsupported, `outputs` are lost.
  template <class Body>
  void collect(const std::string& name, const std::string& type, const Wires& outputs, Body&& body) {
    try {
      body();
    } catch (const Unsupported& unsupported) {
      unsupported_.add(name, type, unsupported.reason);
      lose(outputs);
    }
  }
  void throw_if_unsupported() const { unsupported_.throw_if_any(); }

 private:
  struct Tensor {
    std::string name;
    Value value = {};
    bool needed = false, lost = false;
  };
  struct Node {
    Wires inputs, outputs;
    bool needed = false;
  };

  Builder& builder_;
  std::deque<Tensor> tensors_;  // whose values nodes hold pointers to
  std::map<std::string, Wire> wires_;
  std::vector<Node> nodes_;
  std::map<Wire, std::function<Value()>> constants_;
  UnsupportedList unsupported_;
};

}  // namespace quern::convert
