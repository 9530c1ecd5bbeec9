// igemm: the kernel finds the rows of the matrix through a table of offsets, which all images and groups share.
#include "base/math.h"
#include "op/conv.h"
#include "op/tiling.h"

namespace quern {
namespace {

class IgemmPlan final : public qn_plan {
 public:
  explicit IgemmPlan(const ConvPlan& conv)
      : row_(*conv.choice.igemm),
        packed_(conv.weights.pack(Packing::panels, row_.nr)),
        clamp_(conv.clamp),
        shape_(conv.weights.shape()),
        rows_(output_rows(conv.request.out)),
        in_(conv.request.ins[0]),
        out_(conv.request.out),
        zero_(shape_.in) {
    tiling_ = Tiling({.count = out_.shape[0] * rows_.products * shape_.groups,
                      .m = rows_.count,
                      .n = shape_.out,
                      .mr = row_.mr,
                      .nr = row_.nr,
                      .row_bytes = shape_.depth() * sizeof(float),
                      .panel_bytes = packed_->panel_bytes},
                     conv.request.options.tasks);
    build_table(conv.window);
    phases = {tiling_.tasks()};
  }

  void task(const Run& run, size_t, size_t index) const override {
    const size_t in_bytes = shape_.in * sizeof(float), out_bytes = shape_.out * sizeof(float);
    tiling_.run(index, [&](size_t product, size_t m, size_t rows, size_t n, size_t channels) {
      const size_t group = product % shape_.groups, line = product / shape_.groups % rows_.products;
      const size_t image = product / shape_.groups / rows_.products;
      row_.run(rows, channels, in_bytes, shape_.taps(),
               table_.data() + (line * tiles() + m / tiling_.rows()) * shape_.taps() * row_.mr,
               run.input(0) + image * in_.stride[0] + group * in_bytes, zero_.data(),
               packed_->panels(group) + n / row_.nr * packed_->panel_bytes,
               run.output + image * out_.stride[0] + line * out_.stride[1] + m * out_.stride[2] + group * out_bytes +
                   n * sizeof(float),
               out_.stride[2], &clamp_);
    });
  }

 private:
  size_t tiles() const { return divide_up(rows_.count, tiling_.rows()); }  // of one product

  // Tile by tile, tap by tap, row by row of the tile.
  void build_table(const Window& window) {
    const size_t tile_entries = shape_.taps() * row_.mr;
    table_.resize(rows_.products * tiles() * tile_entries, -1);
    for (size_t line = 0; line < rows_.products; ++line) {
      for (size_t m = 0; m < rows_.count; ++m) {
        const size_t pixel = line * rows_.count + m;
        const size_t y = pixel / window.w.out, x = pixel % window.w.out;
        int32_t* entry = table_.data() + (line * tiles() + m / tiling_.rows()) * tile_entries + m % tiling_.rows();
        for (size_t ky = 0; ky < window.h.kernel; ++ky) {
          for (size_t kx = 0; kx < window.w.kernel; ++kx, entry += row_.mr) {
            *entry = window.offset(window.h.at(y, ky), window.w.at(x, kx));
          }
        }
      }
    }
  }

  const IgemmRow& row_;
  Packed packed_;
  qn_minmax_f32 clamp_;
  WeightsShape shape_;
  Rows rows_;
  qn_tensor in_, out_;
  Vector<float> zero_;
  Vector<int32_t> table_;
  Tiling tiling_;
};

}  // namespace

std::unique_ptr<qn_plan> plan_igemm(const ConvPlan& conv) { return std::make_unique<IgemmPlan>(conv); }

}  // namespace quern
