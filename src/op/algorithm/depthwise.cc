// depthwise: every channel has a kernel of its own.
#include "base/math.h"
#include "op/conv/conv.h"
#include "op/pixels/plane.h"

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
  ~DepthwisePlan() = default;

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

class DepthwisePlanePlan final : public PlanePlan {
 public:
  explicit DepthwisePlanePlan(const ConvPlan& conv)
      : PlanePlan(conv.request, conv.window, conv.choice.dwconv_plane->block, 0,
                  conv.choice.dwconv_plane->kernel == 0 ? Reads::in_place : Reads::planes),
        row_(*conv.choice.dwconv_plane),
        clamp_(conv.clamp),
        packed_(conv.weights.pack(Packing::depthwise, 1)) {}

 private:
  void run_plane(size_t channel, const char* a, char* c, char*) const override {
    row_.run(pixels_, kernel_h_, kernel_w_, offsets_.data(), masks_.data(), mask_stride_, a,
             packed_->panels(0) + channel * packed_->panel_bytes, c, c_stride_, &clamp_);
  }

  const DwconvPlaneRow& row_;
  qn_minmax_f32 clamp_;
  Packed packed_;
};

class DepthwiseImagePlan final : public PlanePlan {
 public:
  explicit DepthwiseImagePlan(const ConvPlan& conv)
      : PlanePlan(conv.request, conv.window, qn_pixel_block(), 0, Reads::image),
        row_(*conv.choice.dwconv_image),
        clamp_(conv.clamp),
        packed_(conv.weights.pack(Packing::depthwise, 1)),
        rows_(conv.window.h.out),
        columns_(conv.window.w.out) {}

 private:
  // Row by row into the room, and from there into blocks.
  void run_plane(size_t channel, const char* a, char* c, char* room) const override {
    row_.run(rows_, columns_, first_row(a), in_row_bytes(), packed_->panels(0) + channel * packed_->panel_bytes, room,
             columns_ * sizeof(float), &clamp_);
    store_blocks(room, c);
  }

  const DwconvImageRow& row_;
  qn_minmax_f32 clamp_;
  Packed packed_;
  size_t rows_, columns_;
};

}  // namespace

PlanPointer plan_depthwise(const ConvPlan& conv) {
  if (has_sparse && conv.choice.dwconv_image != nullptr) return make_plan<DepthwiseImagePlan>(conv);
  if (has_sparse && conv.choice.dwconv_plane != nullptr) return make_plan<DepthwisePlanePlan>(conv);
  if (conv.choice.dwconv_tile != nullptr) return make_plan<DepthwiseTilePlan>(conv);
  return make_plan<DepthwiseRowPlan>(conv);
}

}  // namespace quern
