#include "op/core/copy.h"

namespace quern {
namespace {

constexpr char who[] = "transpose";

class Transpose final : public Operator {
 public:
  explicit Transpose(const qn_transpose_params& p) : Operator(who, 1, 1), p_(p) { move_elements(p.type); }

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override {
    QN_TRY(check_rank(name, ins[0], p_.rank));
    out->rank = p_.rank;
    for (uint32_t i = 0; i < p_.rank; ++i) out->shape[i] = ins[0].shape[p_.permutation[i]];
    return QN_OK;
  }

  qn_status plan(const Request& request, PlanPointer* plan) const override {
    const qn_tensor& out = request.out;
    size_t in_stride[QN_MAX_RANK];
    for (uint32_t i = 0; i < p_.rank; ++i) in_stride[i] = request.ins[0].stride[p_.permutation[i]];
    *plan = plan_copies(request, {{0, 0, 0, copy_nest(out.rank, out.shape, in_stride, out.stride)}});
    return QN_OK;
  }

 private:
  qn_transpose_params p_;
};

qn_status create(const qn_transpose_params* params, qn_operator** op) {
  qn_transpose_params p;
  QN_TRY(read_params(who, params, qn_transpose_params_init, op, &p, check_moved_type));
  if (p.rank == 0 || p.rank > QN_MAX_RANK) {
    return fail(QN_INVALID_ARGUMENT, "%s: rank %u is not in 1 to %d", who, p.rank, QN_MAX_RANK);
  }
  uint32_t seen = 0;
  for (uint32_t i = 0; i < p.rank; ++i) {
    if (p.permutation[i] >= p.rank || (seen >> p.permutation[i] & 1) != 0) {
      return fail(QN_INVALID_ARGUMENT, "%s: permutation[%u] is %u, which is out of range or there twice", who, i,
                  p.permutation[i]);
    }
    seen |= 1u << p.permutation[i];
  }
  return make_operator<Transpose>(op, p);
}

}  // namespace
}  // namespace quern

extern "C" {

void qn_transpose_params_init_sized(qn_transpose_params* params, size_t size) {
  qn_transpose_params p = {};
  p.type = QN_F32;
  quern::init_struct(params, size, p);
}

qn_status qn_transpose_create(const qn_transpose_params* params, qn_operator** op) {
  return quern::guarded([=] { return quern::create(params, op); });
}

}  // extern "C"
