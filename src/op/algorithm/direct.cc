// direct: copies all taps of the pixels of a tile into scratch memory, then multiplies them as a matrix. It suits few
// input channels, where one copy brings a whole row of taps. It needs no table, so it also serves problems for which
// the table of igemm would be too large. Where kernels find taps at offsets, the pixels are copied instead
// (direct_band.h).
#include "base/math.h"
#include "op/algorithm/algorithm.h"
#include "op/algorithm/cost.h"
#include "op/algorithm/direct_band.h"
#include "op/algorithm/tap_copies.h"
#include "op/core/tiling.h"

namespace quern {
namespace {

// ---- cost

double cycles(const Problem& p, const GemmRow& row) {
  const ProductTile tile(row);
  const size_t runs = p.contiguous ? p.kernel.h : p.taps();
  const double gather = gather_cycles(machine(), tile.of_bytes(), p.contiguous, runs, p.taps() / runs * p.in);
  return tiles_cycles(p, tile, tile.steps(p.taps() * p.in), 0) +
         gather * static_cast<double>(p.pixels * p.images * p.groups);
}

// ---- plan

// At most about so many bytes are copied at a time, so that they stay in the L1 cache.
constexpr size_t tile_bytes = 8 << 10;

class DirectPlan final : public qn_plan {
 public:
  DirectPlan(const ConvRequest& conv, const Choice& choice)
      : row_(choice.as<GemmRow>()),
        packed_(conv.pack(Packing::panels, row_)),
        kernel_epilogue_(row_, conv.numbers()),
        epilogue_(conv.request),
        shape_(conv.weights.shape()),
        rows_(output_rows(conv.request.out)),
        in_(conv.request.ins[0]),
        out_(conv.request.out),
        copies_(conv, shape_.in, row_.type) {
    row_stride_ = spread(depth_bytes() + TapCopies::slack);
    // Several tiles of the kernel at a time, but enough of these for all threads.
    const size_t products = out_.shape[0] * rows_.products * shape_.groups, tasks = conv.request.options.tasks;
    const size_t fit = tile_bytes / (row_.mr * row_stride_);
    const size_t shared = products * rows_.count / (row_.mr * wanted_chunks(tasks));
    tile_rows_ = row_.mr * std::clamp<size_t>(std::min(fit, shared), 1, 8);
    tiling_ = Tiling({.count = products,
                      .m = rows_.count,
                      .n = shape_.out,
                      .mr = tile_rows_,
                      .nr = row_.nr,
                      .unit = row_.mr,
                      .row_bytes = depth_bytes(),
                      .panel_bytes = packed_->panel_bytes,
                      .whole_channels = true},
                     tasks);
    // A kernel that reads all panels again for the next rows gets as many at a time as L2 keeps beside the copies.
    chunk_ = tile_rows_ <= pass_rows(row_) ? shape_.out : panels_in_l2(2 * packed_->panel_bytes) * row_.nr;
    phases = {tiling_.tasks()};
    gathered_ = tile_rows_ * row_stride_;
    slot = gathered_ + epilogue_.scratch_bytes(tiling_.tile_elements());
  }

  void task(const Run& run, size_t, size_t index) const override {
    char* scratch = run.workspace + index * slot;
    tiling_.run(run.parallel, index, [&](size_t product, size_t begin, size_t end, size_t n, size_t channels) {
      const size_t group = product % shape_.groups, line = product / shape_.groups % rows_.products;
      const size_t image = product / shape_.groups / rows_.products;
      const char* const a = run.input(0) + image * in_.stride[0] + group * in_bytes();
      char* const c_begin = run.output + image * out_.stride[0] + line * out_.stride[1] +
                            (group * shape_.out + n) * output_bytes(row_.type);
      tiling_.tiles(begin, end, [&](size_t m, size_t rows) {
        copies_.pixels(a, line * rows_.count + m, rows, row_stride_, scratch);
        char* const c = c_begin + m * out_.stride[2];
        const auto sums = epilogue_.sums(run, c, out_.stride[2], channels, scratch + gathered_);
        for (size_t i = 0; i < rows; i += row_.mr) {
          for (size_t j = 0; j < channels; j += chunk_) {
            row_.run(std::min<size_t>(rows - i, row_.mr), std::min(channels - j, chunk_), whole_groups(),
                     scratch + i * row_stride_, row_stride_,
                     packed_->panels(group) + (n + j) / row_.nr * packed_->panel_bytes,
                     sums.data + i * sums.stride + j * output_bytes(row_.type), sums.stride,
                     kernel_epilogue_.at(group, n + j));
          }
        }
        epilogue_.run(run, sums, c, rows, out_.stride[2], channels);
      });
    });
  }

 private:
  size_t in_bytes() const { return shape_.in * input_bytes(row_.type); }
  size_t depth_bytes() const { return shape_.depth() * input_bytes(row_.type); }
  // The same with whole groups of successive k, which kernels multiply faster: the bytes behind the taps meet weights
  // of 0.
  size_t whole_groups() const {
    return has_integers ? round_up(depth_bytes(), size_t{row_.panel.kr} * input_bytes(row_.type)) : depth_bytes();
  }

  const GemmRow& row_;
  Packed packed_;
  KernelEpilogue kernel_epilogue_;
  Epilogue epilogue_;
  WeightsShape shape_;
  Rows rows_;
  qn_tensor in_, out_;
  TapCopies copies_;
  size_t chunk_;                              // channels of a call
  size_t tile_rows_, row_stride_, gathered_;  // scratch: bytes from one row to the next, and of all rows
  Tiling tiling_;
};

}  // namespace

void direct_algorithm::candidates(const Problem& p, Candidates* all) {
  if (p.matrix || p.blocked() || quantizes_rows(p.type)) return;
  all->add_rows(id, gemm_rows(), [&](const GemmRow& row) { return cycles(p, row); });
  if constexpr (has_taps)
    all->add_rows(
        id, tapgemm_rows(), [&](const TapgemmRow& row) { return band_cycles(p, row); }, band_table);
}

bool direct_algorithm::knows(std::string_view kernel) {
  return has_row(gemm_rows(), kernel) || (has_taps && has_row(tapgemm_rows(), kernel));
}

PlanPointer direct_algorithm::plan(const ConvRequest& conv, const Choice& choice) {
  if (has_taps && choice.table == band_table) return plan_band(conv, choice);
  return make_plan<DirectPlan>(conv, choice);
}

}  // namespace quern
