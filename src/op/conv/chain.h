// Runs two operators in one pass over the image, see chain.cc.
#pragma once

#include "op/core/operator.h"

namespace quern {

// Plans second(first(x)). `request` has the input of the first operator and the output of the second. `between` is the
// tensor that passes from one to the other; it is dense. Returns QN_UNSUPPORTED if one pass is not possible or does not
// pay.
qn_status plan_chain(const Operator& first, const Operator& second, const Request& request, const qn_tensor& between,
                     PlanPointer* plan);

}  // namespace quern
