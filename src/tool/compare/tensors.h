// The tensors that a model computes on its way, by name, and where those of two models begin to differ.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/ir.h"
#include "tool/input/rounds.h"
#include "tool/output/outputs.h"

namespace quern {

// A tensor that a run has computed.
struct Computed {
  std::string name;
  std::vector<size_t> shape;
  std::vector<double> numbers;  // real numbers, also of quantized tensors
};

// Gives each tensor without a name that a node computes the name of the node. Further outputs of a node get "#1", "#2", ...
// behind it, and so do names that occur again.
void name_tensors(Graph* graph);

// Makes all named tensors that nodes compute outputs of the graph. All outputs are then in the order of execution.
void expose_tensors(Graph* graph);

// Runs a graph on [NAME=]FILE for each of its inputs, the arguments of `flag`. Returns its outputs in their order.
std::vector<Computed> compute(Graph graph, const char* flag, const std::vector<std::string>& files,
                              const InputFlags& flags);

struct Comparison {
  size_t compared = 0;       // tensors of `expected` that `got` has, too
  std::string first;         // the first of them that differs, in the order of `expected`; "" without one
  std::string why;           // how it differs
  double largest = 0;        // the largest difference between two numbers, up to there
  std::string largest_name;  // of its tensor
};

// Compares the tensors that both lists have. Each number may be off by the tolerance times max(1, |expected|).
Comparison compare(const std::vector<Computed>& expected, const std::vector<Computed>& got, double tolerance);

}  // namespace quern
