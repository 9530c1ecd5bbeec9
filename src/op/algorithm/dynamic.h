// gemm for an operator that quantizes its activations itself: a part of op/algorithm/gemm.cc.
#pragma once

#include "op/conv/choose.h"
#include "op/conv/conv.h"

namespace quern {

PlanPointer plan_dynamic_gemm(const ConvRequest& conv, const Choice& choice);

}  // namespace quern
