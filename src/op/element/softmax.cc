#include "base/math.h"
#include "kernel/eltwise.h"
#include "kernel/select.h"
#include "op/core/nest.h"
#include "op/core/operator.h"

#include <limits>

namespace quern {
namespace {

constexpr char softmax[] = "softmax";
constexpr size_t element = sizeof(float);
constexpr size_t block = 16;                // columns gathered together: a cache line
constexpr size_t min_task_elements = 4096;  // a few microseconds

// The kernels of one level that compute y = e^(x - max of x) / sum.
struct Kernels {
  const ReduceRow *max, *sum;
  const BinaryRow* scale;

  void run(size_t n, const float* x, float* y) const {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const float sum_of_row = sum->run(n, x, y, max->run(n, x, nullptr, 0));
    const float factor = 1 / sum_of_row;
    const qn_minmax_f32 no_clamp = {-infinity, infinity};
    scale->run(n, y, &factor, y, &no_clamp);
  }
};

class SoftmaxPlan final : public qn_plan {
 public:
  SoftmaxPlan(const Request& request, uint32_t axis, const Kernels& kernels)
      : kernels_(kernels),
        n_(request.out.shape[axis]),
        in_stride_(request.ins[0].stride[axis]),
        out_stride_(request.out.stride[axis]) {
    const qn_tensor &in = request.ins[0], &out = request.out;
    Nest<2> rows;
    for (uint32_t i = out.rank; i-- > 0;) {
      if (i != axis) rows.add(out.shape[i], {in.stride[i], out.stride[i]});
    }
    if (rows.rank > 0) row_ = rows.loops[0];
    for (size_t i = 1; i < rows.rank; ++i) outer_.add(rows.loops[i].count, rows.loops[i].stride);
    // Rows whose elements lie apart are gathered first, some rows at a time.
    gathered_ = in_stride_ != element || out_stride_ != element;
    block_ = gathered_ ? std::min(block, row_.count) : 1;
    const size_t items = outer_.count() * divide_up(row_.count, block_);
    tasks_ = split(items, request.options.tasks, divide_up(min_task_elements, n_ * block_));
    phases = {tasks_.chunks};
    if (gathered_) slot = round_up(block_ * n_ * element, cache_line);
    kernel = kernels.sum->name;
  }

  void task(const Run& run, size_t, size_t index) const override {
    const size_t blocks = divide_up(row_.count, block_);
    for (size_t i = tasks_.begin(index); i < tasks_.end(index); ++i) {
      const Cursor<2> at(outer_, i / blocks);
      const size_t first = i % blocks * block_, rows = std::min(block_, row_.count - first);
      const char* in = run.input(0) + at.offset(0) + first * row_.stride[0];
      char* out = run.output + at.offset(1) + first * row_.stride[1];
      if (gathered_) {
        run_gathered(rows, in, out, reinterpret_cast<float*>(run.workspace + index * slot));
      } else {
        kernels_.run(n_, reinterpret_cast<const float*>(in), reinterpret_cast<float*>(out));
      }
    }
  }

 private:
  void run_gathered(size_t rows, const char* in, char* out, float* scratch) const {
    for (size_t i = 0; i < n_; ++i) {
      for (size_t r = 0; r < rows; ++r) {
        scratch[r * n_ + i] = *reinterpret_cast<const float*>(in + i * in_stride_ + r * row_.stride[0]);
      }
    }
    for (size_t r = 0; r < rows; ++r) kernels_.run(n_, scratch + r * n_, scratch + r * n_);
    for (size_t i = 0; i < n_; ++i) {
      for (size_t r = 0; r < rows; ++r) {
        *reinterpret_cast<float*>(out + i * out_stride_ + r * row_.stride[1]) = scratch[r * n_ + i];
      }
    }
  }

  Kernels kernels_;
  size_t n_, in_stride_, out_stride_;  // size and strides along the axis
  bool gathered_;
  size_t block_;  // rows that are computed together
  Nest<2>::Loop row_ = {1, {0, 0}};
  Nest<2> outer_;
  Split tasks_;
};

class Softmax final : public Operator {
 public:
  explicit Softmax(const qn_softmax_params& p) : Operator(softmax, 1, 1), axis_(p.axis) {}

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override {
    uint32_t axis;
    QN_TRY(resolve_axis(name, axis_, ins[0].rank, &axis));
    out->rank = ins[0].rank;
    std::copy_n(ins[0].shape, ins[0].rank, out->shape);
    return QN_OK;
  }

  qn_status plan(const Request& request, PlanPointer* plan) const override {
    uint32_t axis;
    QN_TRY(resolve_axis(name, axis_, request.out.rank, &axis));
    size_t scratch;
    if (!checked_mul(request.out.shape[axis], block * element, &scratch)) {
      return fail(QN_UNSUPPORTED, "%s: the workspace overflows", name);
    }
    Kernels k;
    k.sum = select(reduce_rows(), KernelType::f32, request.options.kernel,
                   [](const auto& r) { return r.kind == ReduceKind::expsum; });
    if (k.sum == nullptr) return no_kernel(name, request.options.kernel);
    // The other kernels are of the same level.
    const auto same = [&](const Row& r) { return r.isa == k.sum->isa; };
    k.max = select(reduce_rows(), KernelType::f32, nullptr,
                   [&](const auto& r) { return same(r) && r.kind == ReduceKind::max; });
    k.scale = select(binary_rows(), KernelType::f32, nullptr,
                     [&](const auto& r) { return same(r) && r.kind == BinaryKind::mulc; });
    if (k.max == nullptr || k.scale == nullptr) return no_kernel(name, nullptr);
    *plan = make_plan<SoftmaxPlan>(request, axis, k);
    return QN_OK;
  }

 private:
  int axis_;
};

}  // namespace
}  // namespace quern

extern "C" {

void qn_softmax_params_init_sized(qn_softmax_params* params, size_t size) {
  qn_softmax_params p = {};
  p.type = QN_F32;
  p.axis = -1;
  quern::init_struct(params, size, p);
}

qn_status qn_softmax_create(const qn_softmax_params* params, qn_operator** op) {
  return quern::guarded([=] {
    qn_softmax_params p;
    QN_TRY(quern::read_params(quern::softmax, params, qn_softmax_params_init, op, &p));
    return quern::make_operator<quern::Softmax>(op, p);
  });
}

}  // extern "C"
