// Two operators in one pass, see chain.cc.
#pragma once

#include "op/core/operator.h"

namespace quern {

// Plans second(first(x)). `request` has the input of the first and the output of the second, `between` describes what
// passes from one to the other, dense. QN_UNSUPPORTED where one pass is not possible or does not pay.
qn_status plan_chain(const Operator& first, const Operator& second, const Request& request, const qn_tensor& between,
                     PlanPointer* plan);

}  // namespace quern
