// Every kind of node in the plainest way, in double precision: what sessions and passes are compared with.
#pragma once

#include <map>
#include <vector>

#include "graph/ir/ir.h"

namespace quern::test {

// Values of tensors by index, rounded to float where they are stored.
using Values = std::map<int, std::vector<float>>;

// Evaluates all nodes. `values` holds the graph's inputs and receives everything else, constants included.
void evaluate_naively(const Graph& graph, Values& values);

// One node of the kind, with its shapes.
Graph graph_of_kind(OpKind kind);

// Random values for all inputs of a graph.
Values random_inputs(const Graph& graph, unsigned seed);

// Largest difference, relative to the magnitude of `expected`, but to 1 at least.
float difference(const std::vector<float>& expected, const float* actual);

}  // namespace quern::test
