#include <cmath>

#include "base/math.h"
#include "op/core/nest.h"
#include "op/core/operator.h"

namespace quern {
namespace {

constexpr char lrn[] = "lrn";
constexpr size_t min_task_powers = 1024;  // powers are slow
constexpr size_t work_of_power = 16;      // a power takes as long as so many multiply-adds

class LrnPlan final : public qn_plan {
 public:
  LrnPlan(const Request& request, const qn_lrn_params& p) : p_(p), channels_(request.out.shape[request.out.rank - 1]) {
    const qn_tensor &in = request.ins[0], &out = request.out;
    for (uint32_t i = out.rank - 1; i-- > 0;) rows_.add(out.shape[i], {in.stride[i], out.stride[i]});
    tasks_ = split(rows_.count(), request.options.tasks, divide_up(min_task_powers, channels_));
    phases = {tasks_.chunks};
    // Neighbours beyond the first and the last channel count as 0, so no more are needed than there are channels.
    before_ = std::min((p.size - 1) / 2, channels_ - 1);
    after_ = std::min(p.size / 2, channels_ - 1);
    slot = round_up((2 * padded() + channels_) * sizeof(float), cache_line);
  }

  void task(const Run& run, size_t, size_t index) const override {
    Watch watch(run);
    Cursor<2> at(rows_, tasks_.begin(index));
    for (size_t i = tasks_.begin(index); i < tasks_.end(index); ++i, at.next()) {
      if (watch.stops(channels_ * work_of_power)) return;
      row(reinterpret_cast<const float*>(run.input(0) + at.offset(0)),
          reinterpret_cast<float*>(run.output + at.offset(1)), reinterpret_cast<float*>(run.workspace + index * slot));
    }
  }

 private:
  size_t padded() const { return before_ + channels_ + after_; }

  static void add(size_t count, const float* __restrict a, const float* __restrict b, float* __restrict sum) {
    for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
  }

  // Sums windows of squares by the binary digits of their length: sums of 2^n squares are made of two of 2^(n-1). So a
  // window takes as many additions as its length has digits, or twice as many, and nothing is ever subtracted. `spare`
  // has as much room as `squares`; both are overwritten.
  void add_windows(float* squares, float* spare, float* sums) const {
    const size_t length = before_ + after_ + 1;
    std::fill_n(sums, channels_, 0.0f);
    size_t added = 0;                    // squares of each window that its sum has by now
    for (size_t part = 1;; part *= 2) {  // squares[i] is the sum of so many, from i on
      if ((length & part) != 0) {
        for (size_t c = 0; c < channels_; ++c) sums[c] += squares[added + c];
        added += part;
      }
      if (added == length) return;
      add(padded() - 2 * part + 1, squares, squares + part, spare);
      std::swap(squares, spare);
    }
  }

  // Computes a row with loops over channels, which the compiler turns into vector instructions.
  void row(const float* x, float* y, float* scratch) const {
    float *squares = scratch, *sums = scratch + 2 * padded();
    std::fill_n(squares, before_, 0.0f);
    for (size_t c = 0; c < channels_; ++c) squares[before_ + c] = x[c] * x[c];
    std::fill_n(squares + before_ + channels_, after_, 0.0f);
    add_windows(squares, squares + padded(), sums);
    const float factor = p_.alpha / static_cast<float>(p_.size), k = p_.k, beta = p_.beta;
    if (beta == 0.75f) {  // the most common exponent: square roots are enough
      for (size_t c = 0; c < channels_; ++c) {
        const float root = std::sqrt(k + factor * sums[c]);
        y[c] = x[c] / (root * std::sqrt(root));
      }
    } else {
      for (size_t c = 0; c < channels_; ++c) y[c] = x[c] * std::pow(k + factor * sums[c], -beta);
    }
  }

  qn_lrn_params p_;
  size_t channels_, before_, after_;
  Nest<2> rows_;
  Split tasks_;
};

class Lrn final : public Operator {
 public:
  explicit Lrn(const qn_lrn_params& p) : Operator(lrn, 1, 1), p_(p) {}

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override {
    if (ins[0].rank == 0) return fail(QN_INVALID_ARGUMENT, "%s: the input has rank 0", name);
    out->rank = ins[0].rank;
    std::copy_n(ins[0].shape, ins[0].rank, out->shape);
    return QN_OK;
  }

  qn_status plan(const Request& request, PlanPointer* plan) const override {
    *plan = make_plan<LrnPlan>(request, p_);
    return QN_OK;
  }

 private:
  qn_lrn_params p_;
};

}  // namespace
}  // namespace quern

extern "C" {

void qn_lrn_params_init_sized(qn_lrn_params* params, size_t size) {
  qn_lrn_params p = {};
  p.type = QN_F32;
  p.size = 5;
  p.alpha = 1e-4f;
  p.beta = 0.75f;
  p.k = 1;
  quern::init_struct(params, size, p);
}

qn_status qn_lrn_create(const qn_lrn_params* params, qn_operator** op) {
  return quern::guarded([=] {
    qn_lrn_params p;
    QN_TRY(quern::read_params(quern::lrn, params, qn_lrn_params_init, op, &p));
    QN_TRY(quern::check_positive(quern::lrn, "size", p.size));
    return quern::make_operator<quern::Lrn>(op, p);
  });
}

}  // extern "C"
