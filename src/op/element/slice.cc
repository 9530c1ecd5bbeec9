#include "base/math.h"
#include "base/tensor.h"
#include "op/core/copy.h"

namespace quern {
namespace {

constexpr char slice[] = "slice";

class Slice final : public Operator {
 public:
  explicit Slice(const qn_slice_params& p) : Operator(slice, 1, 1), p_(p) {
    move_elements(p.type);
    takes_blocked = true;
  }

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override {
    QN_TRY(check_rank(name, ins[0], p_.rank));
    out->rank = p_.rank;
    for (uint32_t i = 0; i < p_.rank; ++i) {
      const size_t size = ins[0].shape[i], begin = bound(p_.begin[i], size), end = bound(p_.end[i], size);
      if (begin > end || end > size) {
        return fail(QN_INVALID_ARGUMENT, "%s: range %zu to %zu does not fit dimension %u of size %zu", name, begin, end,
                    i, size);
      }
      out->shape[i] = end - begin;
    }
    return QN_OK;
  }

  qn_status plan(const Request& request, PlanPointer* plan) const override {
    QN_TRY(check_layouts(request));
    const qn_tensor in = in_memory(request.ins[0]), out = in_memory(request.out);
    size_t offset = 0;
    const size_t* shape = request.ins[0].shape;
    if (is_blocked(request.out)) {
      offset = bound(p_.begin[3], shape[3]) * in.stride[2];
    } else {
      for (uint32_t i = 0; i < p_.rank; ++i) offset += bound(p_.begin[i], shape[i]) * in.stride[i];
    }
    *plan = plan_copies(request, {{0, offset, 0, copy_nest(out.rank, out.shape, in.stride, out.stride)}});
    return QN_OK;
  }

  qn_status cost(const Request& request, double* cycles) const override {
    *cycles = 0;
    return check_layouts(request);
  }

 private:
  // A bound that counts from the end too far becomes larger than any size.
  static size_t bound(size_t value, size_t size) {
    return static_cast<size_t>(slice_bound(static_cast<ptrdiff_t>(value), size));
  }

  // A slice of a pixel-blocked image may leave out channels, but no pixels and no images.
  qn_status check_layouts(const Request& request) const {
    const qn_tensor &in = request.ins[0], &out = request.out;
    const bool fits =
        is_blocked(in) == is_blocked(out) && (!is_blocked(in) || std::equal(in.shape, in.shape + 3, out.shape));
    return fits ? QN_OK : fail(QN_UNSUPPORTED, "%s: layouts differ, or more than channels are cut", name);
  }

  qn_slice_params p_;
};

qn_status create(const qn_slice_params* params, qn_operator** op) {
  qn_slice_params p;
  QN_TRY(read_params(slice, params, qn_slice_params_init, op, &p, check_moved_type));
  if (p.rank > QN_MAX_RANK) return fail(QN_INVALID_ARGUMENT, "%s: rank %u is above %d", slice, p.rank, QN_MAX_RANK);
  for (uint32_t i = 0; i < p.rank; ++i) {
    const bool from_behind[2] = {p.begin[i] > PTRDIFF_MAX, p.end[i] > PTRDIFF_MAX};
    if (from_behind[0] == from_behind[1] && p.begin[i] > p.end[i]) {
      return fail(QN_INVALID_ARGUMENT, "%s: begin %zu of dimension %u is above end %zu", slice, p.begin[i], i,
                  p.end[i]);
    }
  }
  return make_operator<Slice>(op, p);
}

}  // namespace
}  // namespace quern

extern "C" {

void qn_slice_params_init_sized(qn_slice_params* params, size_t size) {
  qn_slice_params p = {};
  p.type = QN_F32;
  for (size_t& end : p.end) end = SIZE_MAX;
  quern::init_struct(params, size, p);
}

qn_status qn_slice_create(const qn_slice_params* params, qn_operator** op) {
  return quern::guarded([=] { return quern::create(params, op); });
}

}  // extern "C"
