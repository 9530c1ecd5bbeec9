#include "op/conv.h"

#include "base/math.h"

namespace quern {
namespace {

// Multiply-accumulates, UINT64_MAX if they overflow.
uint64_t count_macs(const qn_tensor& out, size_t depth) {
  uint64_t macs = depth;
  for (uint32_t i = 0; i < out.rank; ++i) {
    if (!checked_mul<uint64_t>(macs, out.shape[i], &macs)) return UINT64_MAX;
  }
  return macs;
}

std::unique_ptr<qn_plan> plan_choice(const ConvPlan& conv) {
  switch (conv.choice.algorithm) {
    case QN_ALGORITHM_GEMM: return plan_gemm(conv);
    case QN_ALGORITHM_IGEMM: return plan_igemm(conv);
    case QN_ALGORITHM_DEPTHWISE: return plan_depthwise(conv);
    case QN_ALGORITHM_WINOGRAD: return plan_winograd(conv);
    default: return plan_direct(conv);
  }
}

}  // namespace

qn_status plan_conv(const ConvRequest& conv, std::unique_ptr<qn_plan>* plan) {
  Choice choice;
  QN_TRY(choose(conv.who, conv.problem, conv.request.options, &choice));
  *plan = plan_choice({conv.request, choice, conv.weights, conv.window, conv.clamp});
  (*plan)->algorithm = choice.algorithm;
  (*plan)->kernel = choice.row->name;
  (*plan)->macs = count_macs(conv.request.out, conv.weights.shape().depth());
  return QN_OK;
}

}  // namespace quern
