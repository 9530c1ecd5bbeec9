// Measuring: which of several plans for the same work is the fastest.
#pragma once

#include <memory>

#include "base/vector.h"
#include "op/core/operator.h"

namespace quern {

struct Trial {
  PlanPointer plan;
  Vector<double> runs = {};  // seconds of each, ascending

  // The second shortest: other programs make runs longer, and once some data may have happened to be warm.
  double seconds() const { return runs.empty() ? __builtin_inf() : runs[runs.size() > 1]; }
};

// Runs the plans in turn, as a model would: between two runs options.traffic bytes pass the caches, then the plan's
// inputs, outputs and workspace, which other operators have just used; its weights are wherever the traffic leaves
// them. Ends after a fraction of a second, with every plan run at least once.
void time_trials(const Request& request, Vector<Trial>* trials);

}  // namespace quern
