#include "base/math.h"
#include "kernel/eltwise.h"
#include "kernel/select.h"
#include "op/core/nest.h"
#include "op/core/numbers.h"
#include "op/core/operator.h"

#include <limits>

namespace quern {
namespace {

constexpr char softmax[] = "softmax";
// Lists of trimmed builds name softmax of bytes like a kernel, although the reference of floats computes it.
constexpr bool has_bytes = has_integers && has_family("vexpsum_qs8");
constexpr size_t block = 16;                    // columns gathered together: a cache line
constexpr size_t min_task_exponentials = 4096;  // a few microseconds

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

// The same of bytes. The real result is rounded once, and the same on every CPU, because the reference kernel computes
// the powers and the sum has an order. In a small build without a reference the row computes them that replaces it on
// every CPU.
class ByteSoftmax {
 public:
  void set(const Steps& in, const Steps& out) {
    float x[bytes];
    for (size_t i = 0; i < bytes; ++i) x[i] = -static_cast<float>(i) * in.scale;
    for (const ReduceRow& row : reduce_rows()) {
      if (row.kind == ReduceKind::expsum && (row.isa & ~isa_baseline) == 0) row.run(bytes, x, powers_, 0);
    }
    out_ = out;
  }

  void run(size_t n, const int8_t* x, int8_t* y) const {
    const int most = *std::max_element(x, x + n);
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += double{powers_[most - x[i]]};
    for (size_t i = 0; i < n; ++i) {
      y[i] = static_cast<int8_t>(to_step(static_cast<float>(double{powers_[most - x[i]]} / sum), out_));
    }
  }

 private:
  static constexpr size_t bytes = UINT8_MAX + 1;
  float powers_[bytes];  // e^-x for each distance x from the maximum, in steps
  Steps out_;
};

class SoftmaxPlan final : public qn_plan {
 public:
  // `kernels` are for floats alone.
  SoftmaxPlan(const Request& request, uint32_t axis, const Kernels& kernels)
      : kernels_(kernels),
        type_(type_without_weights(request.out.type)),
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
    gathered_ = in_stride_ != element() || out_stride_ != element();
    block_ = gathered_ ? std::min(block, row_.count) : 1;
    const size_t items = outer_.count() * divide_up(row_.count, block_);
    tasks_ = split(items, request.options.tasks, divide_up(min_task_exponentials, n_ * block_));
    phases = {tasks_.chunks};
    if (gathered_) slot = round_up(block_ * n_ * element(), cache_line);
    if (of_bytes()) {
      byte_softmax_.set(steps_of(in), steps_of(out));
    } else {
      kernel = kernels.sum->name;
    }
  }

  void task(const Run& run, size_t, size_t index) const override {
    const size_t blocks = divide_up(row_.count, block_);
    Watch watch(run);
    for (size_t i = tasks_.begin(index); i < tasks_.end(index); ++i) {
      const Cursor<2> at(outer_, i / blocks);
      const size_t first = i % blocks * block_, rows = std::min(block_, row_.count - first);
      const char* in = run.input(0) + at.offset(0) + first * row_.stride[0];
      char* out = run.output + at.offset(1) + first * row_.stride[1];
      char* scratch = run.workspace + index * slot;
      if (watch.stops(rows * n_)) return;
      if (of_bytes()) {
        run_rows<int8_t>(byte_softmax_, rows, in, out, scratch);
      } else {
        run_rows<float>(kernels_, rows, in, out, scratch);
      }
    }
  }

 private:
  bool of_bytes() const { return has_bytes && type_ == KernelType::qs8; }
  size_t element() const { return output_bytes(type_); }

  template <class T, class Function>
  void run_rows(const Function& function, size_t rows, const char* in, char* out, char* scratch) const {
    if (!gathered_) return function.run(n_, reinterpret_cast<const T*>(in), reinterpret_cast<T*>(out));
    T* gathered = reinterpret_cast<T*>(scratch);
    for (size_t i = 0; i < n_; ++i) {
      for (size_t r = 0; r < rows; ++r) {
        gathered[r * n_ + i] = *reinterpret_cast<const T*>(in + i * in_stride_ + r * row_.stride[0]);
      }
    }
    for (size_t r = 0; r < rows; ++r) function.run(n_, gathered + r * n_, gathered + r * n_);
    for (size_t i = 0; i < n_; ++i) {
      for (size_t r = 0; r < rows; ++r) {
        *reinterpret_cast<T*>(out + i * out_stride_ + r * row_.stride[1]) = gathered[r * n_ + i];
      }
    }
  }

  Kernels kernels_;
  ByteSoftmax byte_softmax_;  // undefined unless elements are bytes
  KernelType type_;
  size_t n_, in_stride_, out_stride_;  // size and strides along the axis
  bool gathered_;
  size_t block_;  // rows that are computed together
  Nest<2>::Loop row_ = {1, {0, 0}};
  Nest<2> outer_;
  Split tasks_;
};

class Softmax final : public Operator {
 public:
  explicit Softmax(const qn_softmax_params& p) : Operator(softmax, 1, 1), axis_(p.axis) {
    if (has_integers) set_type(p.type);
  }

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
    if (!checked_mul(request.out.shape[axis], block * output_bytes(type_without_weights(type)), &scratch)) {
      return fail(QN_UNSUPPORTED, "%s: the workspace overflows", name);
    }
    Kernels k = {};
    if (has_integers && type == QN_S8) {
      if (!has_bytes) return fail_without("kernel", "vexpsum_qs8");
      if (request.options.kernel != nullptr) return no_kernel(name, request.options.kernel);
      QN_TRY(check_one_scale(name, request.ins, request.out));
      *plan = make_plan<SoftmaxPlan>(request, axis, k);
      return QN_OK;
    }
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
    QN_TRY(quern::read_params(quern::softmax, params, qn_softmax_params_init, op, &p, quern::check_computed_type));
    return quern::make_operator<quern::Softmax>(op, p);
  });
}

}  // extern "C"
