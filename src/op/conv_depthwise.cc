// depthwise: every channel has a kernel of its own.
#include "base/math.h"
#include "op/conv.h"

namespace quern {
namespace {

// What kernels of rows and of tiles have in common: packed weights and the clamp.
template <class KernelRow>
class DepthwisePlan : public RowPlan {
 protected:
  DepthwisePlan(const ConvPlan& conv, const KernelRow& row, size_t tile_rows)
      : RowPlan(conv.request, conv.window, row.nr, tile_rows),
        row_(row),
        clamp_(conv.clamp),
        packed_(conv.weights.pack(Packing::depthwise, row.nr)) {}

  const char* panel(const RowTask& t) const { return packed_->panels(0) + t.channel / row_.nr * packed_->panel_bytes; }

  const KernelRow& row_;
  qn_minmax_f32 clamp_;

 private:
  Packed packed_;
};

class DepthwiseRowPlan final : public DepthwisePlan<DwconvRow> {
 public:
  explicit DepthwiseRowPlan(const ConvPlan& conv)
      : DepthwisePlan(conv, *conv.choice.dwconv, 1), taps_(conv.window.taps()), zero_(conv.weights.shape().groups) {}

 private:
  void run_row(const RowTask& t) const override {
    row_.run(t.channels, width_, taps_, t.offsets, step_, t.a, zero_.data(), panel(t), t.c, c_stride_, &clamp_);
  }

  size_t taps_;
  Vector<float> zero_;
};

class DepthwiseTilePlan final : public DepthwisePlan<DwconvTileRow> {
 public:
  explicit DepthwiseTilePlan(const ConvPlan& conv)
      : DepthwisePlan(conv, *conv.choice.dwconv_tile, conv.choice.dwconv_tile->rows) {}

 private:
  void run_row(const RowTask& t) const override {
    row_.run(t.channels, width_, t.rows, t.offsets, t.a, panel(t), t.c, row_stride_, c_stride_, &clamp_);
  }
};

}  // namespace

std::unique_ptr<qn_plan> plan_depthwise(const ConvPlan& conv) {
  if (conv.choice.dwconv_tile != nullptr) return std::make_unique<DepthwiseTilePlan>(conv);
  return std::make_unique<DepthwiseRowPlan>(conv);
}

}  // namespace quern
