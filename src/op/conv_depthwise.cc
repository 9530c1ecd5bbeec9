// depthwise: every channel has a kernel of its own.
#include "base/math.h"
#include "op/conv.h"

namespace quern {
namespace {

class DepthwisePlan final : public RowPlan {
 public:
  explicit DepthwisePlan(const ConvPlan& conv)
      : RowPlan(conv.request, conv.window, conv.choice.dwconv->nr),
        row_(*conv.choice.dwconv),
        packed_(conv.weights.pack(Packing::depthwise, row_.nr)),
        clamp_(conv.clamp),
        taps_(conv.window.taps()),
        zero_(conv.weights.shape().groups) {}

 private:
  void run_row(const RowTask& t) const override {
    row_.run(t.channels, width_, taps_, t.offsets, step_, t.a, zero_.data(),
             packed_->panels(0) + t.channel / row_.nr * packed_->panel_bytes, t.c, c_stride_, &clamp_);
  }

  const DwconvRow& row_;
  Packed packed_;
  qn_minmax_f32 clamp_;
  size_t taps_;
  Vector<float> zero_;
};

}  // namespace

std::unique_ptr<qn_plan> plan_depthwise(const ConvPlan& conv) { return std::make_unique<DepthwisePlan>(conv); }

}  // namespace quern
