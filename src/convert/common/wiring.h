// Knows which nodes of a source model read and write which tensors, and the values of these tensors.
//
// An importer first says what each node reads and writes, then which tensors are outputs. Then it imports, in the order
// of the file, the nodes that the outputs need. Nodes that are not supported are collected, so that a user sees all of
// them in one message. The outputs of such a node are lost: nodes that read a lost tensor are skipped, and their
// outputs are lost, too.
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
constexpr Wire no_wire = SIZE_MAX;  // an optional input or output that the node does not have
using Wires = std::vector<Wire>;

class Wiring {
 public:
  explicit Wiring(Builder& builder) : builder_(builder) {}

  // ---- tensors by name: if a format has numbers for its tensors, the numbers are the names

  // Returns the tensor with this name, and makes it at the first mention.
  Wire mention(const std::string& name);
  // Makes a new tensor, which the name means from now on. If nodes of a format write in place, each version of a tensor
  // becomes a tensor of its own.
  Wire rewrite(const std::string& name);
  std::optional<Wire> find(const std::string& name) const;
  const std::string& name(Wire wire) const { return tensors_[wire].name; }

  // ---- nodes: each is added after the nodes whose outputs it reads

  void add_node(Wires inputs, Wires outputs) { nodes_.push_back({std::move(inputs), std::move(outputs)}); }
  const Wires& inputs(size_t node) const { return nodes_[node].inputs; }
  const Wires& outputs(size_t node) const { return nodes_[node].outputs; }
  // Returns the tensors that no node reads, in the order of their numbers.
  Wires unread() const;
  // Marks these tensors as needed, and all nodes and tensors on which they depend.
  void need(const Wires& outputs);
  bool is_needed(Wire wire) const { return wire != no_wire && tensors_[wire].needed; }
  bool is_node_needed(size_t node) const { return nodes_[node].needed; }

  // ---- values

  // Says that the tensor is a constant. `read` makes its value; it is called when the constant is first used.
  void define_constant(Wire wire, std::function<Value()> read);
  void define(Wire wire, Value value);
  // Defines the outputs of a node. Throws Unsupported if one that is needed has no value.
  void define_outputs(size_t node, const Values& values);
  // Whether nothing has defined the tensor.
  bool is_unknown(Wire wire) const;
  bool is_constant(Wire wire) const { return constants_.count(wire) > 0; }
  // Returns the value of a tensor; null if the tensor is lost. Throws Error if nothing has defined it; the message
  // begins with `reader`.
  const Value* value(Wire wire, const std::string& reader);
  // Returns the values of a node's inputs, with null for optional inputs that it does not have. If an input is lost,
  // the node's outputs are lost, too, and the function returns nothing.
  std::optional<std::vector<const Value*>> values(size_t node, const std::string& reader);

  // ---- what is not supported

  void lose(const Wires& wires);
  // Calls `body`, which imports the node with this name and type. If it throws Unsupported, adds the node to the
  // message and loses `outputs`.
  template <class Body>
  void collect(const std::string& name, const std::string& type, const Wires& outputs, Body&& body) {
    try {
      body();
    } catch (const Unsupported& unsupported) {
      unsupported_.add(name, type, unsupported.reason);
      lose(outputs);
    }
  }
  // The same for something that is no node, such as "input 'x'".
  template <class Body>
  void collect_part(const std::string& part, const Wires& outputs, Body&& body) {
    try {
      body();
    } catch (const Unsupported& unsupported) {
      unsupported_.add_part(part, unsupported.reason);
      lose(outputs);
    }
  }
  void throw_if_unsupported() const { unsupported_.throw_if_any(); }
  // What has been collected, for the message of a node that contains these nodes; "" if nothing has.
  std::string unsupported() const { return unsupported_.text(); }

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
  std::deque<Tensor> tensors_;  // not a vector, because nodes hold pointers to the values
  std::map<std::string, Wire> wires_;
  std::vector<Node> nodes_;
  std::map<Wire, std::function<Value()>> constants_;
  UnsupportedList unsupported_;
};

}  // namespace quern::convert
