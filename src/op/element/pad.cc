#include <utility>

#include "base/math.h"
#include "op/core/copy.h"

namespace quern {
namespace {

constexpr char pad[] = "pad";

// Writes the value as an integer of type T. Returns false if T does not have this value.
template <class T>
bool put_integer(float value, FillValue* fill) {
  const auto integer = static_cast<int64_t>(value);  // the caller has checked that it is in range
  if (static_cast<float>(integer) != value || !std::in_range<T>(integer)) return false;
  const T element = static_cast<T>(integer);
  std::memcpy(fill->bytes, &element, sizeof element);
  return true;
}

bool put_value(qn_type type, float value, FillValue* fill) {
  if (!has_integers || type == QN_F32) {
    std::memcpy(fill->bytes, &value, sizeof value);
    return true;
  }
  if (value == 0) return true;
  if (!(value >= -0x1p62f && value <= 0x1p62f)) return false;
  switch (type) {
    case QN_S8: return put_integer<int8_t>(value, fill);
    case QN_U8: return put_integer<uint8_t>(value, fill);
    case QN_S32: return put_integer<int32_t>(value, fill);
    case QN_S64: return put_integer<int64_t>(value, fill);
    case QN_BOOL: return value == 1 && put_integer<uint8_t>(value, fill);
    default: return false;
  }
}

class Pad final : public Operator {
 public:
  Pad(const qn_pad_params& p, const FillValue& value) : Operator(pad, 1, 1), p_(p), value_(value) {
    move_elements(p.type);
    takes_empty = true;
  }

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override {
    QN_TRY(check_rank(name, ins[0], p_.rank));
    out->rank = p_.rank;
    for (uint32_t i = 0; i < p_.rank; ++i) {
      if (!checked_add(ins[0].shape[i], p_.before[i], &out->shape[i]) ||
          !checked_add(out->shape[i], p_.after[i], &out->shape[i])) {
        return fail(QN_INVALID_ARGUMENT, "%s: dimension %u overflows", name, i);
      }
    }
    return QN_OK;
  }

  // The output is the input with two slabs of padding in each dimension, before and after it. In the dimensions further
  // out a slab is as narrow as the input, in those further in it is as wide as the output. So nothing is written twice.
  qn_status plan(const Request& request, PlanPointer* plan) const override {
    const qn_tensor &in = request.ins[0], &out = request.out;
    constexpr size_t repeat[QN_MAX_RANK] = {};
    Vector<Copy> copies;
    size_t middle = 0;  // where the part of the output begins that is not copied yet
    for (uint32_t i = 0; i < p_.rank; ++i) {
      size_t shape[QN_MAX_RANK];
      std::copy_n(in.shape, i, shape);
      std::copy(out.shape + i, out.shape + out.rank, shape + i);
      const size_t end = middle + (p_.before[i] + in.shape[i]) * out.stride[i];
      for (const auto& [count, offset] : {std::pair(p_.before[i], middle), std::pair(p_.after[i], end)}) {
        shape[i] = count;
        if (count > 0) copies.push_back({Copy::fill, 0, offset, copy_nest(out.rank, shape, repeat, out.stride)});
      }
      middle += p_.before[i] * out.stride[i];
    }
    copies.push_back({0, 0, middle, copy_nest(in.rank, in.shape, in.stride, out.stride)});
    *plan = plan_copies(request, copies, value_);
    return QN_OK;
  }

 private:
  qn_pad_params p_;
  FillValue value_;
};

qn_status create(const qn_pad_params* params, qn_operator** op) {
  qn_pad_params p;
  QN_TRY(read_params(pad, params, qn_pad_params_init, op, &p, check_moved_type));
  if (p.rank > QN_MAX_RANK) return fail(QN_INVALID_ARGUMENT, "%s: rank %u is above %d", pad, p.rank, QN_MAX_RANK);
  FillValue value;
  if (put_value(p.type, p.value, &value)) return make_operator<Pad>(op, p, value);
  return fail(QN_INVALID_ARGUMENT, "%s: type %s has no value %g", pad, qn_type_string(p.type),
              static_cast<double>(p.value));
}

}  // namespace
}  // namespace quern

extern "C" {

void qn_pad_params_init_sized(qn_pad_params* params, size_t size) {
  qn_pad_params p = {};
  p.type = QN_F32;
  p.rank = 4;
  quern::init_struct(params, size, p);
}

qn_status qn_pad_create(const qn_pad_params* params, qn_operator** op) {
  return quern::guarded([=] { return quern::create(params, op); });
}

}  // extern "C"
