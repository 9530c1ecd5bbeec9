// Real numbers to quantized ones, and back: the borders of the parts of a model that compute with bytes.
#include "base/math.h"
#include "kernel/eltwise.h"
#include "kernel/select.h"
#include "op/core/nest.h"
#include "op/core/numbers.h"
#include "op/core/operator.h"

namespace quern {
namespace {

constexpr char quantize[] = "quantize";
constexpr size_t min_task_conversions = 1 << 14;
// Bytes of one type or scale to those of another.
constexpr bool has_tables = has_operator("requantize") || has_api("op");

// The kernel for a request. Bytes become other bytes by a table.
const UnaryRow* row_for(const Request& request) {
  const qn_type in = request.ins[0].type, out = request.out.type;
  const UnaryKind kind = in == QN_F32 ? UnaryKind::quantize : out == QN_F32 ? UnaryKind::dequantize : UnaryKind::lookup;
  return select(unary_rows(), KernelType::qs8, request.options.kernel,
                [kind](const UnaryRow& row) { return row.kind == kind; });
}

// What a kernel makes of unsigned bytes is what it makes of signed ones whose upper bit is flipped.
qn_convert_qs8 parameters_of(const qn_tensor& tensor) {
  const Steps steps = steps_of(tensor);
  if (tensor.type == QN_U8) return {steps.scale, steps.zero + INT8_MIN, 1 << 7};
  return {steps.scale, steps.zero, 0};
}

class QuantizePlan final : public qn_plan {
 public:
  QuantizePlan(const Request& request, const UnaryRow& row) : row_(row) {
    const qn_tensor &in = request.ins[0], &out = request.out;
    kernel = row.name;
    if (has_tables && row.kind == UnaryKind::lookup) {
      make_table(in, out);
    } else {
      numbers_ = parameters_of(row.kind == UnaryKind::quantize ? out : in);
    }
    item_in_ = qn_type_size(in.type), item_out_ = qn_type_size(out.type);
    // The innermost loop is a row for the kernel, unless dimensions of 1 hide a gap.
    Nest<2> nest;
    for (uint32_t i = out.rank; i-- > 0;) nest.add(out.shape[i], {in.stride[i], out.stride[i]});
    const bool dense = nest.rank > 0 && nest.loops[0].stride == Nest<2>::Strides{item_in_, item_out_};
    if (dense) count_ = nest.loops[0].count;
    for (size_t i = dense; i < nest.rank; ++i) rows_.add(nest.loops[i].count, nest.loops[i].stride);
    pieces_ = split(count_, request.options.tasks, min_task_conversions);
    tasks_ = split(rows_.count() * pieces_.chunks, request.options.tasks,
                   divide_up(min_task_conversions, divide_up(count_, pieces_.chunks)));
    phases = {tasks_.chunks};
  }

  void task(const Run& run, size_t, size_t index) const override {
    Watch watch(run);
    const bool looks_up = has_tables && row_.kind == UnaryKind::lookup;
    const void* const parameters = looks_up ? static_cast<const void*>(table_) : &numbers_;
    for (size_t i = tasks_.begin(index); i < tasks_.end(index); ++i) {
      const Cursor<2> at(rows_, i / pieces_.chunks);
      const size_t chunk = i % pieces_.chunks, end = pieces_.end(chunk);
      for (size_t first = pieces_.begin(chunk); first < end; first += Watch::interval) {
        const size_t count = std::min(Watch::interval, end - first);
        if (watch.stops(count)) return;
        row_.run(count, run.input(0) + at.offset(0) + first * item_in_, run.output + at.offset(1) + first * item_out_,
                 parameters);
      }
    }
  }

 private:
  // Fills the table with what each byte becomes, of which kernels think as signed ones.
  void make_table(const qn_tensor& in, const qn_tensor& out) {
    const Steps from = steps_of(in), to = steps_of(out);
    for (int byte = INT8_MIN; byte <= INT8_MAX; ++byte) {
      const int value = in.type == QN_U8 ? static_cast<uint8_t>(byte) : byte;
      table_[byte - INT8_MIN] = static_cast<char>(to_step(to_real(value, from), to));
    }
  }

  const UnaryRow& row_;
  qn_convert_qs8 numbers_;  // undefined where the table is what counts
  char table_[UINT8_MAX + 1];
  size_t item_in_, item_out_, count_ = 1;
  Nest<2> rows_;  // around rows of `count_` elements
  Split pieces_;  // of a row
  Split tasks_;
};

class Quantize final : public Operator {
 public:
  explicit Quantize(const qn_quantize_params& p) : Operator(quantize, 1, 1) {
    type = p.type;
    output_type = p.to;
  }

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override {
    out->rank = ins[0].rank;
    std::copy_n(ins[0].shape, ins[0].rank, out->shape);
    return QN_OK;
  }

  qn_status plan(const Request& request, PlanPointer* plan) const override {
    QN_TRY(check_one_scale(name, request.ins, request.out));
    const UnaryRow* row = row_for(request);
    if (row == nullptr) return no_kernel(name, request.options.kernel);
    *plan = make_plan<QuantizePlan>(request, *row);
    return QN_OK;
  }
};

qn_status check_byte_or_float(const char* who, qn_type type) {
  if (type == QN_F32 || type == QN_S8 || type == QN_U8) return QN_OK;
  QN_TRY(check_moved_type(who, type));
  return fail(QN_UNSUPPORTED, "%s: type %s; only QN_F32, QN_S8 and QN_U8 are supported", who, qn_type_string(type));
}

qn_status create(const qn_quantize_params* params, qn_operator** op) {
  qn_quantize_params p;
  QN_TRY(read_params(quantize, params, qn_quantize_params_init, op, &p, check_byte_or_float));
  QN_TRY(check_byte_or_float(quantize, p.to));
  if (p.type == QN_F32 && p.to == QN_F32) return fail(QN_INVALID_ARGUMENT, "%s: neither type is quantized", quantize);
  return make_operator<Quantize>(op, p);
}

}  // namespace
}  // namespace quern

extern "C" {

void qn_quantize_params_init_sized(qn_quantize_params* params, size_t size) {
  qn_quantize_params p = {};
  p.type = QN_F32;
  p.to = QN_S8;
  quern::init_struct(params, size, p);
}

qn_status qn_quantize_create(const qn_quantize_params* params, qn_operator** op) {
  if constexpr (!quern::has_integers) return quern::fail(QN_UNSUPPORTED, "quantize: this build has no integers");
  return quern::guarded([=] { return quern::create(params, op); });
}

}  // extern "C"
