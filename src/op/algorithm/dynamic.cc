#include "op/algorithm/dynamic.h"

#include "kernel/quantize_rows.h"
#include "kernel/select.h"
#include "op/algorithm/cost.h"
#include "op/core/tiling.h"

namespace quern {
namespace {

// Rows are worth a task of their own from so many elements on.
constexpr size_t elements_of_task = 16384;

// First quantizes all rows of the input, to the workspace, then multiplies them.
class DynamicPlan final : public qn_plan {
 public:
  DynamicPlan(const ConvRequest& conv, const Choice& choice)
      : row_(choice.as<GemmRow>()),
        quantize_(best(quantize_rows_rows(), has_block_scales(row_.type) ? row_.type : KernelType::qd8c)),
        packed_(conv.pack(Packing::panels, row_)),
        kernel_epilogue_(row_, conv.numbers()),
        epilogue_(conv.request),
        rows_(conv.request.ins[0], conv.request.out) {
    const WeightsShape& shape = conv.weights.shape();
    const size_t tasks = conv.request.options.tasks;
    depth_ = shape.in;
    a_bytes_ = quantized_row_bytes(row_.type, depth_);
    a_stride_ = quantized_row_stride(row_.type, depth_);
    const size_t count = rows_.products.count() * rows_.count;
    quantized_ = split(count, tasks, divide_up(elements_of_task, depth_));
    tiling_ = Tiling({.count = rows_.products.count(),
                      .m = rows_.count,
                      .n = shape.out,
                      .mr = row_.mr,
                      .nr = row_.nr,
                      .pass_rows = pass_rows(row_),
                      .row_bytes = a_bytes_,
                      .panel_bytes = packed_->panel_bytes},
                     tasks);
    phases = {quantized_.chunks, tiling_.tasks()};
    // The rows lie in front of the tasks' own parts of the workspace.
    const size_t most = std::max(phases[0], phases[1]);
    const size_t each = round_up(divide_up(cache_line + count * a_stride_, most), cache_line);
    own_ = epilogue_.scratch_bytes(tiling_.tile_elements());
    before_own_ = each * most;
    slot = each + own_;
  }

  void task(const Run& run, size_t phase, size_t index) const override {
    char* const rows = run.workspace + cache_line;
    phase == 0 ? quantize(run, index, rows) : multiply(run, index, rows);
  }

 private:
  void quantize(const Run& run, size_t index, char* rows) const {
    Watch watch(run);
    const size_t most = std::max<size_t>(Watch::interval / depth_, 1);
    for (size_t i = quantized_.begin(index), end = quantized_.end(index); i < end;) {
      const size_t product = i / rows_.count, m = i % rows_.count,
                   count = std::min(std::min(end - i, rows_.count - m), most);
      if (watch.stops(count * depth_)) return;
      const Cursor<2> at(rows_.products, product);
      quantize_.run(count, depth_, run.input(0) + at.offset(a_operand) + m * rows_.a_stride, rows_.a_stride,
                    rows + i * a_stride_, a_stride_);
      i += count;
    }
  }

  void multiply(const Run& run, size_t index, const char* quantized) const {
    tiling_.run(run.parallel, index, [&](size_t product, size_t begin, size_t end, size_t n, size_t channels) {
      const Cursor<2> at(rows_.products, product);
      const char* const a = quantized + product * rows_.count * a_stride_;
      char* const c_begin = run.output + at.offset(c_operand) + n * sizeof(float);
      tiling_.tiles(begin, end, [&](size_t m, size_t rows) {
        char* const c = c_begin + m * rows_.c_stride;
        const auto sums = epilogue_.sums(run, c, rows_.c_stride, channels, run.workspace + before_own_ + index * own_);
        row_.run(rows, channels, a_bytes_, a + m * a_stride_, a_stride_,
                 packed_->panels(0) + n / row_.nr * packed_->panel_bytes, sums.data, sums.stride,
                 kernel_epilogue_.at(0, n));
        epilogue_.run(run, sums, c, rows, rows_.c_stride, channels);
      });
    });
  }

  const GemmRow& row_;
  const QuantizeRowsRow& quantize_;
  Packed packed_;
  KernelEpilogue kernel_epilogue_;
  Epilogue epilogue_;
  ProductRows rows_;
  size_t depth_ = 0;                   // elements of a row
  size_t a_bytes_ = 0, a_stride_ = 0;  // of quantized rows
  size_t own_ = 0, before_own_ = 0;    // bytes of scratch memory of a task, and where that of the first one begins
  Split quantized_;                    // rows among tasks
  Tiling tiling_;
};

}  // namespace

PlanPointer plan_dynamic_gemm(const ConvRequest& conv, const Choice& choice) {
  return make_plan<DynamicPlan>(conv, choice);
}

}  // namespace quern
