#include "base/math.h"
#include "base/tensor.h"
#include "op/core/copy.h"

namespace quern {
namespace {

constexpr char concat[] = "concat";
constexpr size_t input_limit = 65536;

class Concat final : public Operator {
 public:
  explicit Concat(const qn_concat_params& p) : Operator(concat, 1, input_limit), axis_(p.axis) {
    move_elements(p.type);
    takes_blocked = takes_empty = true;
  }

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override {
    const uint32_t rank = ins[0].rank;
    uint32_t axis;
    QN_TRY(resolve_axis(name, axis_, rank, &axis));
    out->rank = rank;
    std::copy_n(ins[0].shape, rank, out->shape);
    for (size_t i = 1; i < ins.size(); ++i) {
      bool fits = ins[i].rank == rank;
      for (uint32_t d = 0; fits && d < rank; ++d) fits = d == axis || ins[i].shape[d] == out->shape[d];
      if (!fits) {
        return fail(QN_INVALID_ARGUMENT, "%s: input %zu is %s, which does not fit %s along axis %u", name, i,
                    ShapeText(ins[i]).text, ShapeText(ins[0]).text, axis);
      }
      if (!checked_add(out->shape[axis], ins[i].shape[axis], &out->shape[axis])) {
        return fail(QN_INVALID_ARGUMENT, "%s: the size along axis %u overflows", name, axis);
      }
    }
    return QN_OK;
  }

  qn_status plan(const Request& request, PlanPointer* plan) const override {
    QN_TRY(check_layouts(request));
    const qn_tensor out = in_memory(request.out);
    uint32_t axis;
    QN_TRY(resolve_axis(name, axis_, out.rank, &axis));
    if (is_blocked(request.out)) axis = 2;  // where the channels are
    Vector<Copy> copies;
    size_t offset = 0;
    for (size_t i = 0; i < request.ins.size(); ++i) {
      const qn_tensor in = in_memory(request.ins[i]);
      copies.push_back({i, 0, offset, copy_nest(in.rank, in.shape, in.stride, out.stride)});
      offset += in.shape[axis] * out.stride[axis];
    }
    *plan = plan_copies(request, copies);
    return QN_OK;
  }

  qn_status cost(const Request& request, double* cycles) const override {
    *cycles = 0;
    return check_layouts(request);
  }

 private:
  // Pixel-blocked images can only be joined along their channels.
  qn_status check_layouts(const Request& request) const {
    const bool blocked = is_blocked(request.out);
    bool fits = !blocked || axis_ == 3 || axis_ == -1;
    for (const qn_tensor& in : request.ins) fits = fits && is_blocked(in) == blocked;
    return fits ? QN_OK
                : fail(QN_UNSUPPORTED, "%s: layouts differ, or the axis of pixel-blocked images is not 3", name);
  }

  int axis_;
};

}  // namespace
}  // namespace quern

extern "C" {

void qn_concat_params_init_sized(qn_concat_params* params, size_t size) {
  qn_concat_params p = {};
  p.type = QN_F32;
  p.axis = -1;
  quern::init_struct(params, size, p);
}

qn_status qn_concat_create(const qn_concat_params* params, qn_operator** op) {
  return quern::guarded([=] {
    qn_concat_params p;
    QN_TRY(quern::read_params(quern::concat, params, qn_concat_params_init, op, &p, quern::check_moved_type));
    return quern::make_operator<quern::Concat>(op, p);
  });
}

}  // extern "C"
