// What the optimizer tells about its work.
#pragma once

#include <cstddef>

#include "graph/ir/ir.h"

namespace quern {

// A pass that has changed a graph.
struct PassStep {
  const char* name;      // "fold-constants"
  const char* sentence;  // what the pass does
  int round;             // the first is 1
  size_t before, after;  // how many nodes the graph had and has now
};

struct PassObserver {
  void (*saw)(void* context, const PassStep& step);
  void* context;
};

// Does what optimize() of passes.h does. Calls the observer for each pass that changes something, also in subgraphs,
// which come first.
qn_status optimize(Graph& graph, const PassObserver& observer);

}  // namespace quern
