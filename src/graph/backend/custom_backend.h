// What runs nodes of registered kinds (quern/kind.h), beside the interface that all backends have.
#pragma once

#include "graph/backend/backend.h"
#include "graph/ir/custom.h"

namespace quern {

// Runs a node that only a run can size: `run` has inputs and outputs; this adds what create() has made.
qn_status run_custom(const NodeOperator& op, qn_node_run* run);

}  // namespace quern
