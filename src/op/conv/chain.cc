// Runs two operators in one pass over the image. The first one computes a band of output rows into scratch memory, and
// the second reads the band while it is still in the cache.
#include "op/conv/chain.h"

#include "base/cpu.h"
#include "base/math.h"
#include "base/needs.h"
#include "op/core/window.h"

namespace quern {
namespace {

// One pass pays if the whole tensor between the two operators would not stay in the L2 cache, but a band of it does,
// together with the weights of the second.
bool pays(const qn_tensor& between, size_t weights_bytes) {
  const size_t l2 = cpu().l2_bytes;
  return qn_tensor_bytes(&between) > l2 / 2 && weights_bytes <= l2 / 4;
}

// The number of rows in a band: a multiple of the first operator's tiles. A band fills at most an eighth of the cache,
// unless a single tile needs more, and there are enough bands for all threads.
size_t band_rows(const qn_tensor& between, size_t tile_rows, size_t tasks) {
  const size_t row_bytes = between.stride[1], height = between.shape[1];
  const size_t fit =
      std::min(cpu().l2_bytes / 8 / row_bytes, divide_up(height * between.shape[0], wanted_chunks(tasks)));
  return std::min(std::max<size_t>(fit / tile_rows, 1) * tile_rows, round_up(height, tile_rows));
}

class ChainPlan final : public qn_plan {
 public:
  ChainPlan(PlanPointer first, const qn_tensor& between, const qn_tensor& out, size_t rows)
      : first_(std::move(first)),
        between_(between),
        out_(out),
        rows_(rows),
        bands_(divide_up(between.shape[1], rows)),
        scratch_bytes_(round_up(rows * between.stride[1], cache_line)) {}

  qn_status plan_second(const Operator& second, const qn_plan_options& options) {
    const size_t height = out_.shape[1], last = height - (bands_ - 1) * rows_;
    QN_TRY(plan_band(second, options, rows_, &full_));
    QN_TRY(plan_band(second, options, last, &last_));
    slot = scratch_bytes_ + std::max(full_->slot, last_->slot);
    tasks_ = {out_.shape[0] * bands_, std::min(out_.shape[0] * bands_, wanted_chunks(options.tasks))};
    phases = {tasks_.chunks};
    algorithm = full_->algorithm;
    kernel = full_->kernel;
    return QN_OK;
  }

  void task(const Run& run, size_t, size_t index) const override {
    char* scratch = run.workspace + index * slot;
    const void* const input = scratch;
    Watch watch(run);
    for (size_t i = tasks_.begin(index); i < tasks_.end(index); ++i) {
      const size_t image = i / bands_, y = i % bands_ * rows_, end = std::min(y + rows_, out_.shape[1]);
      if (watch.stops(Watch::interval)) return;
      first_->by_rows->run_rows({run.inputs, scratch, nullptr, run.parallel}, image, y, end);
      const qn_plan& second = end - y == rows_ ? *full_ : *last_;
      char* c = run.output + image * out_.stride[0] + y * out_.stride[1];
      const Run band = {&input, c, scratch + scratch_bytes_, run.parallel};
      for (size_t t = 0; t < second.phases[0]; ++t) second.task(band, 0, t);
    }
  }

 private:
  qn_status plan_band(const Operator& second, qn_plan_options options, size_t rows, PlanPointer* plan) {
    qn_tensor in = between_, out = out_;
    in.shape[0] = out.shape[0] = 1;
    in.shape[1] = out.shape[1] = rows;
    options.tasks = 1;
    return second.plan({{&in, 1}, out, options}, plan);
  }

  PlanPointer first_, full_, last_;  // the first operator; the second for a whole band, and for an image's last band
  qn_tensor between_, out_;
  size_t rows_, bands_;  // rows of a band, bands of an image
  size_t scratch_bytes_;
  Split tasks_;  // divides the bands among tasks
};

}  // namespace

qn_status plan_chain(const Operator& first, const Operator& second, const Request& request, const qn_tensor& between,
                     PlanPointer* plan) {
  const auto no = [&] {
    return fail(QN_UNSUPPORTED, "%s: nothing to gain from one pass with %s", second.name, first.name);
  };
  const size_t weights_bytes = second.pointwise_weights * (has_integers ? qn_type_size(second.type) : sizeof(float));
  if (between.rank != 4 || !pays(between, weights_bytes)) return no();
  PlanPointer begun;
  qn_plan_options options = request.options;
  options.tasks = 1;
  QN_TRY(first.plan({request.ins, between, options}, &begun));
  const RowPlan* rows = begun->by_rows;
  if (rows == nullptr) return no();
  const uint64_t first_macs = begun->macs;
  const size_t band = band_rows(between, rows->tile_rows(), request.options.tasks);
  auto made = make_plan<ChainPlan>(std::move(begun), between, request.out, band);
  qn_plan_options settled = request.options;
  if (has_sparse && second.settle != nullptr) {
    QN_TRY(second.settle(second, {{&between, 1}, request.out, request.options}, &settled));
  }
  QN_TRY(made->plan_second(second, settled));
  const uint64_t pixels = between.shape[0] * between.shape[1] * between.shape[2];
  made->macs = first_macs + pixels * second.pointwise_weights;
  *plan = std::move(made);
  return QN_OK;
}

}  // namespace quern
