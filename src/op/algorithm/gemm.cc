// gemm: takes the input itself as the matrix A. It serves matrix products and pointwise convolutions.
#include <numeric>

#include "base/cpu.h"
#include "base/math.h"
#include "op/algorithm/algorithm.h"
#include "op/algorithm/cost.h"
#include "op/algorithm/dynamic.h"
#include "op/core/tiling.h"

namespace quern {
namespace {

// ---- cost

// Cycles per k that loads wait because rows of A compete for the L1 cache: rows that lie a multiple of 4 KiB apart fall
// into the same set. Weights and other data that passes take two ways of the set. If the rows do not fit into the other
// ways, loads wait, and the longer the more rows there are. (Fitted to measurements of tiles of up to 28 rows, with
// rows of 2 and 4 KiB.)
double aliasing(const Problem& p, size_t mr) {
  constexpr double way_bytes = 4096, passing = 2;
  const size_t rows = std::min(mr, p.pixels);
  const double together = static_cast<double>(rows * std::gcd(p.row_stride, size_t{4096})) / way_bytes;
  const double beyond = together - static_cast<double>(cpu().l1_bytes) / way_bytes + passing;
  return beyond > 0 ? machine().aliasing * beyond * beyond : 0;
}

// ---- plan

class GemmPlan final : public qn_plan {
 public:
  GemmPlan(const ConvRequest& conv, const Choice& choice)
      : row_(choice.as<GemmRow>()),
        packed_(conv.pack(Packing::panels, row_)),
        kernel_epilogue_(row_, conv.numbers()),
        epilogue_(conv.request),
        rows_(conv.request.ins[0], conv.request.out) {
    const WeightsShape& shape = conv.weights.shape();
    groups_ = shape.groups;
    channels_ = shape.out;
    in_bytes_ = shape.in * input_bytes(row_.type);
    out_bytes_ = shape.out * output_bytes(row_.type);
    const size_t together = panels_of_line(row_.type, row_.nr, conv.request.options.tasks);
    tiling_ = Tiling({.count = rows_.products.count() * groups_,
                      .m = rows_.count,
                      .n = shape.out,
                      .mr = row_.mr,
                      .nr = row_.nr * together,
                      .pass_rows = pass_rows(row_),
                      .row_bytes = in_bytes_,
                      .panel_bytes = packed_->panel_bytes * together},
                     conv.request.options.tasks);
    phases = {tiling_.tasks()};
    slot = epilogue_.scratch_bytes(tiling_.tile_elements());
  }

  void task(const Run& run, size_t, size_t index) const override {
    tiling_.run(run.parallel, index, [&](size_t product, size_t begin, size_t end, size_t n, size_t channels) {
      const size_t group = product % groups_;
      const Cursor<2> at(rows_.products, product / groups_);
      const char* const a = run.input(0) + at.offset(a_operand) + group * in_bytes_;
      char* const c_begin = run.output + at.offset(c_operand) + group * out_bytes_ + n * output_bytes(row_.type);
      const char* const panels = packed_->panels(group) + n / row_.nr * packed_->panel_bytes;
      const void* const epilogue = kernel_epilogue_.at(group, n);
      tiling_.tiles(begin, end, [&](size_t m, size_t rows) {
        char* const c = c_begin + m * rows_.c_stride;
        const auto sums = epilogue_.sums(run, c, rows_.c_stride, channels, run.workspace + index * slot);
        row_.run(rows, channels, in_bytes_, a + m * rows_.a_stride, rows_.a_stride, panels, sums.data, sums.stride,
                 epilogue);
        epilogue_.run(run, sums, c, rows, rows_.c_stride, channels);
      });
    });
  }

 private:
  const GemmRow& row_;
  Packed packed_;
  KernelEpilogue kernel_epilogue_;
  Epilogue epilogue_;
  ProductRows rows_;
  size_t groups_, channels_;  // output channels of a group
  size_t in_bytes_, out_bytes_;
  Tiling tiling_;
};

}  // namespace

void gemm_algorithm::candidates(const Problem& p, Candidates* all) {
  if (!p.pointwise || p.blocked()) return;
  all->add_rows(id, gemm_rows(), [&](const GemmRow& row) {
    const ProductTile tile(row);
    return tiles_cycles(p, tile, tile.steps(p.in), 0, aliasing(p, tile.mr));
  });
}

bool gemm_algorithm::knows(std::string_view kernel) { return has_row(gemm_rows(), kernel); }

PlanPointer gemm_algorithm::plan(const ConvRequest& conv, const Choice& choice) {
  if (quantizes_inputs && conv.weights.dynamic()) return plan_dynamic_gemm(conv, choice);
  return make_plan<GemmPlan>(conv, choice);
}

}  // namespace quern
