// Measures which of several plans for the same work is the fastest.
#pragma once

#include <memory>

#include "base/vector.h"
#include "op/core/operator.h"

namespace quern {

struct Trial {
  PlanPointer plan;
  Vector<double> runs = {};  // seconds of each run, ascending

  // The second shortest time. Other programs make runs longer, so long times say little; and in the shortest run some
  // data may have been in the cache by chance.
  double seconds() const { return runs.empty() ? __builtin_inf() : runs[runs.size() > 1]; }
};

// Runs the plans in turn, under the conditions of a model. Between two runs, options.traffic bytes pass the caches, as
// other operators would move them. Then the inputs, the output and the workspace are read, because in a model other
// operators have just used them. The weights are wherever the traffic leaves them. Ends after a fraction of a second;
// by then every plan has run at least once.
void time_trials(const Request& request, Vector<Trial>* trials);

}  // namespace quern
