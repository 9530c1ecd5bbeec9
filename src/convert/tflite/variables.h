// TensorFlow Lite's variables: operators read and assign them, and they keep their content from run to run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "convert/common/wiring.h"
#include "convert/tflite/node.h"

namespace quern::tflite {

// Follows the operators of the model's graph in their order. What reads a variable reads the tensor that was assigned last,
// or what the variable holds when a run begins; so no operators remain. A variable that is assigned becomes a state.
class Variables {
 public:
  struct Variable {
    std::string name;
    Wire begin, now;                          // what it holds when a run begins, and after the operators so far
    int32_t tensor = -1;                      // one of the graph's, which has its type and shape
    const schema::Tensor* initial = nullptr;  // what it holds before the first run, if the model says so
    bool is_assigned = false;
  };

  Variables(const schema::Model& model, Builder& builder) : model_(model), builder_(builder) {}

  // Whether an operator has to do with variables. Then it needs no node, and follow() changes `wires`, of the graph's
  // tensors.
  bool concern(const schema::Operator& op) const;
  void follow(const schema::Operator& op, Wiring& wiring, Wires& wires);

  // The same for an operator that has a tensor of the graph as its state: `begin` is what it reads, `next` what it leaves.
  void keep(const std::string& name, int32_t tensor, Wire begin, Wire next);

  // The variables that the graph reads or assigns.
  std::vector<Variable> used() const;

 private:
  // The variables that handles of a graph stand for, by the numbers of the handles' tensors.
  using Handles = std::map<int32_t, std::string>;

  std::string name_of(const schema::Operator& op);
  Variable& find(const Handles& handles, int32_t handle, Wiring& wiring);
  void initialize(const schema::CallOnceOptions& call, Wiring& wiring);

  const schema::Model& model_;
  Builder& builder_;
  std::map<std::string, Variable> variables_;
  Handles handles_;  // of the model's graph
};

}  // namespace quern::tflite
