// Figures about a model that follow from its graph, without running it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/ir/ir.h"

namespace quern {

// The weights of a convolution or fully-connected layer.
struct LayerStats {
  std::string name;
  uint64_t elements = 0, zeros = 0;
  uint64_t stored = 0;  // bytes of the weights in the file that the graph was read from
};

// A loop, also one within another graph.
struct LoopStats {
  std::string name;
  uint64_t iterations = 0;  // 0: known only at run time
  uint64_t macs = 0;        // of one iteration
};

// Nodes of one kind: how many, and the name of the first.
struct KindStats {
  size_t count = 0;
  std::string first;
};

// All figures count the graphs of branches and loops as well. Of a branch the graph with more work counts, and of a
// loop each iteration, or one if their number is known only at run time.
struct ModelStats {
  uint64_t parameters = 0;  // elements of the float constants that nodes read, and of the weights of int8 layers
  uint64_t nonzeros = 0;    // how many of these elements are not zero
  uint64_t macs = 0;        // multiply-accumulates (node_macs.h), padding taps included
  std::vector<LayerStats> layers;
  std::map<std::string, uint64_t> macs_of;   // the same for each kind of node that multiplies
  std::map<std::string, KindStats> unsized;  // nodes that multiply, with shapes that are known only at run time
  std::map<std::string, size_t> inner;       // nodes within branches and loops, by kind
  std::map<std::string, KindStats> extra;    // nodes that need libquern-extra
  std::map<std::string, KindStats> scalar;   // nodes that compute without kernels (needs.h)
  std::vector<LoopStats> loops;
};

// The graph's shapes must be known. Throws Error if sparse weights cannot be decoded.
ModelStats model_stats(const Graph& graph);

}  // namespace quern
