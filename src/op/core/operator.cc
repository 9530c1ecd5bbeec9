#include "op/core/operator.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/math.h"
#include "base/parallel.h"
#include "base/tensor.h"
#include "op/conv/chain.h"

namespace quern {
namespace {

constexpr size_t max_struct_size = 4096;  // a larger size comes from a struct that nobody has initialised
constexpr size_t min_struct_size = sizeof(size_t) + sizeof(qn_type);

// Checks a scale, which is 0 if it is not given, and its zero point.
qn_status check_steps(const char* who, const char* what, float scale, int32_t zero_point) {
  if (scale >= 0 && std::isfinite(scale) && zero_point >= INT8_MIN && zero_point <= INT8_MAX) return QN_OK;
  return fail(QN_INVALID_ARGUMENT,
              "%s: options.%s_scale is %g, options.%s_zero_point %d: a scale is finite and not below 0, a zero point "
              "-128 .. 127",
              who, what, static_cast<double>(scale), what, static_cast<int>(zero_point));
}

qn_status read_options(const char* who, const qn_plan_options* user, bool has_algorithms, qn_plan_options* options) {
  if (!has_api("op") && user != nullptr) {  // they come from the graph, which knows all members
    *options = *user;
    return QN_OK;
  }
  qn_plan_options_init(options);
  if (user != nullptr) QN_TRY(copy_struct(who, user, options, sizeof *options));
  QN_TRY(check_positive(who, "options.tasks", options->tasks));
  options->tasks = std::min(options->tasks, max_tasks);
  if (!is_algorithm(options->algorithm)) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown algorithm %d", who, static_cast<int>(options->algorithm));
  }
  QN_TRY(check_clamp(who, options->residual_min, options->residual_max));
  if (has_integers) {
    QN_TRY(check_steps(who, "addend", options->addend_scale, options->addend_zero_point));
    QN_TRY(check_steps(who, "between", options->between_scale, options->between_zero_point));
  }
  if (options->algorithm != QN_ALGORITHM_AUTO && !has_algorithms) {
    return fail(QN_UNSUPPORTED, "%s: it has no choice of algorithms, so %s cannot be asked for", who,
                qn_algorithm_string(options->algorithm));
  }
  if (options->tune && options->tuning == nullptr) {
    return fail(QN_INVALID_ARGUMENT, "%s: options.tune is set but options.tuning is NULL", who);
  }
  return QN_OK;
}

qn_status check_user_tensor(const Operator& op, const char* what, size_t index, qn_type type, const qn_tensor& user) {
  char name[64];
  std::snprintf(name, sizeof name, "%s: %s %zu", op.name, what, index);
  QN_TRY(check_tensor(user, name));
  if (user.type != type) {
    return fail(QN_UNSUPPORTED, "%s: it is of type %s, but the operator takes %s", name, qn_type_string(user.type),
                qn_type_string(type));
  }
  if (user.layout == QN_LAYOUT_PIXEL_BLOCKED && !(has_sparse && op.takes_blocked)) {
    return fail(QN_UNSUPPORTED, "%s: only QN_LAYOUT_NHWC is supported", name);
  }
  return QN_OK;
}

// `type` is what the operator takes or gives.
qn_status read_tensor(const Operator& op, const char* what, size_t index, qn_type type, const qn_tensor& user,
                      qn_tensor* tensor) {
  if (has_api("op")) QN_TRY(check_user_tensor(op, what, index, type, user));
  *tensor = with_strides(user);
  return QN_OK;
}

qn_status read_output(const Operator& op, const qn_tensor* outs, size_t n_out, const qn_tensor& inferred,
                      qn_tensor* out) {
  if (outs == nullptr) {
    if (n_out != 0) return fail(QN_INVALID_ARGUMENT, "%s: outs is NULL but n_out is %zu", op.name, n_out);
    return read_tensor(op, "output", 0, op.output_type, inferred, out);
  }
  if (n_out != 1) return fail(QN_INVALID_ARGUMENT, "%s: n_out is %zu, not 1", op.name, n_out);
  QN_TRY(read_tensor(op, "output", 0, op.output_type, outs[0], out));
  if (!same_shape(*out, inferred)) {
    return fail(QN_INVALID_ARGUMENT, "%s: output 0 is %s but should be %s", op.name, ShapeText(*out).text,
                ShapeText(inferred).text);
  }
  return QN_OK;
}

// Infers the output. If the user does not describe it, it has the layout of the first input.
qn_status infer(const Operator& op, std::span<const qn_tensor> ins, qn_tensor* out) {
  *out = {};
  out->type = op.output_type;
  out->layout = ins[0].layout;
  if (has_integers && op.moves && ins[0].quantization.scales == nullptr) out->quantization = ins[0].quantization;
  return op.infer(ins, out);
}

// Moved elements must stand for the same numbers in their new place, so inputs and output must be quantized alike. A
// scale for each channel is not possible, because an element may move to another channel.
qn_status check_moves(const Operator& op, const Request& request) {
  for (const qn_tensor& in : request.ins) {
    const bool alike = same_quantization(in, request.out) && in.quantization.scales == nullptr;
    if (!alike) return fail(QN_UNSUPPORTED, "%s: inputs and output are not quantized alike, with one scale", op.name);
  }
  return QN_OK;
}

bool lies_as(const qn_tensor& in, const qn_tensor& out) {
  return in.layout == out.layout && same_shape(in, out) && std::equal(in.stride, in.stride + in.rank, out.stride);
}

// Sets the members that all plans have in common, after the operator has made its plan.
qn_status complete_plan(const char* who, const Request& request, unsigned in_place, qn_plan* plan) {
  plan->output = request.out;
  if (has_api("op")) {
    plan->inputs.resize(request.ins.size());
    for (size_t i = 0; i < request.ins.size(); ++i) {
      qn_plan::Input& input = plan->inputs[i];
      input.tensor = request.ins[i];
      const bool has_bit = i < 32;  // a concat may have more inputs
      if (has_bit && (in_place >> i & 1) != 0 && lies_as(input.tensor, plan->output)) input.place = 0;
    }
  }
  size_t bytes;
  for (const size_t tasks : plan->phases) {
    if (!checked_mul(plan->slot, tasks, &bytes)) return fail(QN_UNSUPPORTED, "%s: the workspace overflows", who);
  }
  return QN_OK;
}

// Reads and checks a caller's arguments.
class CheckedRequest {
 public:
  qn_status read(const Operator& op, const qn_tensor* ins, size_t n_in, const qn_tensor* outs, size_t n_out,
                 const qn_plan_options* options) {
    QN_TRY(read_options(op.name, options, op.has_algorithms, &request.options));
    if (n_in < op.min_inputs || n_in > op.max_inputs) {
      return fail(QN_INVALID_ARGUMENT, "%s: %zu inputs, but it takes %zu to %zu", op.name, n_in, op.min_inputs,
                  op.max_inputs);
    }
    if (ins == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: ins is NULL", op.name);
    inputs_.resize(n_in);
    for (size_t i = 0; i < n_in; ++i) QN_TRY(read_tensor(op, "input", i, op.type, ins[i], &inputs_[i]));
    request.ins = inputs_;
    if (!has_api("op"))
      return read_tensor(op, "output", 0, op.output_type, outs[0], &request.out);  // the graph has inferred its shape
    qn_tensor inferred;
    QN_TRY(infer(op, request.ins, &inferred));
    QN_TRY(read_output(op, outs, n_out, inferred, &request.out));
    return has_integers && op.moves ? check_moves(op, request) : QN_OK;
  }

  Request request = {};

 private:
  Vector<qn_tensor> inputs_;
};

// The plan of an output without elements.
class EmptyPlan final : public qn_plan {
  void task(const Run&, size_t, size_t) const override {}
};

// Makes a plan without work if the output has no elements, and none otherwise. Fails if elements of the output would be
// computed from an input that has none. A build without op.h never gets here: its graph runs no such nodes.
qn_status plan_empty(const Operator& op, std::span<const qn_tensor> ins, const qn_tensor& out, PlanPointer* plan) {
  if (!has_api("op")) return QN_OK;
  if (is_empty(out)) {
    *plan = make_plan<EmptyPlan>();
    return QN_OK;
  }
  for (size_t i = 0; i < ins.size() && !op.takes_empty; ++i) {
    if (!is_empty(ins[i])) continue;
    return fail(QN_INVALID_ARGUMENT, "%s: input %zu has no elements, but the output has", op.name, i);
  }
  return QN_OK;
}

qn_status plan_operator(const Operator& op, const qn_tensor* ins, size_t n_in, const qn_tensor* outs, size_t n_out,
                        const qn_plan_options* user_options, PlanPointer* plan) {
  CheckedRequest checked;
  QN_TRY(checked.read(op, ins, n_in, outs, n_out, user_options));
  const Request& request = checked.request;
  QN_TRY(plan_empty(op, request.ins, request.out, plan));
  if (*plan == nullptr) {
    QN_TRY(op.plan(request, plan));
    const char* kernel = request.options.kernel;
    if (kernel != nullptr && std::strcmp(kernel, (*plan)->kernel) != 0) return no_kernel(op.name, kernel);
  }
  return complete_plan(op.name, request, op.in_place, plan->get());
}

qn_status make_chain(const Operator& first, const Operator& second, const qn_tensor& in, const qn_tensor* out,
                     const qn_plan_options* user_options, PlanPointer* plan) {
  if (!first.goes_by_rows || second.pointwise_weights == 0) {
    return fail(QN_UNSUPPORTED, "%s: it cannot be the second of a chain with %s", second.name, first.name);
  }
  Request request = {};
  QN_TRY(read_options(second.name, user_options, second.has_algorithms, &request.options));
  qn_tensor input, between, inferred;
  QN_TRY(read_tensor(first, "input", 0, first.type, in, &input));
  if (is_blocked(input)) return fail(QN_UNSUPPORTED, "%s: a chain is of QN_LAYOUT_NHWC", first.name);
  request.ins = {&input, 1};
  QN_TRY(infer(first, request.ins, &between));
  if (has_integers) {
    between.quantization.scale = request.options.between_scale;
    between.quantization.zero_point = request.options.between_zero_point;
  }
  QN_TRY(read_output(first, nullptr, 0, between, &between));
  if (has_integers && between.type != second.type) {
    return fail(QN_UNSUPPORTED, "%s: it takes %s but %s gives %s", second.name, qn_type_string(second.type), first.name,
                qn_type_string(between.type));
  }
  QN_TRY(infer(second, {&between, 1}, &inferred));
  QN_TRY(read_output(second, out, out == nullptr ? 0 : 1, inferred, &request.out));
  if (is_blocked(request.out)) return fail(QN_UNSUPPORTED, "%s: a chain is of QN_LAYOUT_NHWC", second.name);
  QN_TRY(plan_empty(first, request.ins, request.out, plan));
  if (*plan == nullptr) QN_TRY(plan_chain(first, second, request, between, plan));
  return complete_plan(second.name, request, 0, plan->get());
}

qn_status check_address(const char* what, size_t index, const void* address, const qn_tensor& tensor) {
  if (is_empty(tensor)) return QN_OK;
  if (address == nullptr) return fail(QN_INVALID_ARGUMENT, "qn_plan_run: %s %zu is NULL", what, index);
  if (reinterpret_cast<uintptr_t>(address) % qn_type_size(tensor.type) != 0) {
    return fail(QN_INVALID_ARGUMENT, "qn_plan_run: %s %zu is not aligned to its elements", what, index);
  }
  return QN_OK;
}

qn_status check_workspace(const qn_plan& plan, const void* workspace, size_t size) {
  if (plan.slot == 0) return QN_OK;
  if (workspace == nullptr) {
    return fail(QN_INVALID_ARGUMENT, "qn_plan_run: workspace is NULL but %zu bytes are needed", plan.workspace_size());
  }
  if (reinterpret_cast<uintptr_t>(workspace) % cache_line != 0) {
    return fail(QN_INVALID_ARGUMENT, "qn_plan_run: workspace is not aligned to %zu", cache_line);
  }
  if (size < plan.workspace_size()) {
    return fail(QN_INVALID_ARGUMENT, "qn_plan_run: workspace has %zu bytes, but %zu are needed", size,
                plan.workspace_size());
  }
  return QN_OK;
}

// No buffer may overlap another one that is written. The exception is an input that lies at its place in the output.
qn_status check_apart(const qn_plan& plan, const void* const* inputs, const void* output, const void* workspace) {
  qn_tensor scratch = {};
  scratch.type = QN_U8;
  scratch.rank = 1;
  scratch.shape[0] = plan.workspace_size();
  scratch.stride[0] = 1;
  if (plan.slot != 0 && overlap(workspace, scratch, output, plan.output)) {
    return fail(QN_INVALID_ARGUMENT, "qn_plan_run: workspace overlaps output 0");
  }
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const qn_plan::Input& input = plan.inputs[i];
    const auto place = reinterpret_cast<intptr_t>(inputs[i]) - reinterpret_cast<intptr_t>(output);
    if (place != input.place && overlap(inputs[i], input.tensor, output, plan.output)) {
      return fail(QN_INVALID_ARGUMENT, "qn_plan_run: input %zu overlaps output 0", i);
    }
    if (plan.slot != 0 && overlap(inputs[i], input.tensor, workspace, scratch)) {
      return fail(QN_INVALID_ARGUMENT, "qn_plan_run: input %zu overlaps workspace", i);
    }
  }
  return QN_OK;
}

qn_status check_buffers(const qn_plan* plan, const void* const* inputs, void* const* outputs, const void* workspace,
                        size_t workspace_size) {
  if (plan == nullptr) return fail(QN_INVALID_ARGUMENT, "qn_plan_run: plan is NULL");
  if (inputs == nullptr) return fail(QN_INVALID_ARGUMENT, "qn_plan_run: inputs is NULL");
  if (outputs == nullptr) return fail(QN_INVALID_ARGUMENT, "qn_plan_run: outputs is NULL");
  for (size_t i = 0; i < plan->inputs.size(); ++i) QN_TRY(check_address("input", i, inputs[i], plan->inputs[i].tensor));
  QN_TRY(check_address("output", 0, outputs[0], plan->output));
  QN_TRY(check_workspace(*plan, workspace, workspace_size));
  return check_apart(*plan, inputs, outputs[0], workspace);
}

}  // namespace

bool Watch::ask(size_t work) {
  if (work < left_) {
    left_ -= work;
    return false;
  }
  left_ = interval;
  return is_cancelled(parallel_);
}

qn_status run_plan(const qn_plan& plan, const void* const* inputs, void* output, void* workspace,
                   const qn_parallel* parallel) {
  const Run run = {inputs, static_cast<char*>(output), static_cast<char*>(workspace), parallel};
  for (size_t phase = 0; phase < plan.phases.size(); ++phase) {
    auto task = [&](size_t index) { plan.task(run, phase, index); };
    run_tasks(parallel, plan.phases[phase], task);
  }
  return check_cancelled(parallel);
}

qn_status Operator::cost(const Request& request, double* cycles) const {
  *cycles = 0;
  if (!has_sparse) return QN_OK;
  return MemoryRequest(request).check(name);
}

qn_status estimate(const Operator& op, std::span<const qn_tensor> ins, const qn_tensor& out,
                   const qn_plan_options& options, double* cycles) {
  CheckedRequest checked;
  QN_TRY(checked.read(op, ins.data(), ins.size(), &out, 1, &options));
  *cycles = 0;
  if (is_empty(out)) return QN_OK;
  return op.cost(checked.request, cycles);
}

MemoryRequest::MemoryRequest(const Request& request) : request_(request) {
  const bool blocked = is_blocked(request.out);
  request_.out = in_memory(request.out);
  for (const qn_tensor& in : request.ins) {
    mixed_ = mixed_ || is_blocked(in) != blocked || (blocked && !same_shape(in, request.out));
    ins_.push_back(in_memory(in));
  }
  request_.ins = ins_;
}

qn_status MemoryRequest::check(const char* who) const {
  return mixed_ ? fail(QN_UNSUPPORTED, "%s: layouts differ, or shapes of pixel-blocked tensors", who) : QN_OK;
}

// Reads the first member of a caller's struct.
static qn_status read_struct_size(const char* who, const void* user, size_t* size) {
  if (user == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: a struct is NULL", who);
  std::memcpy(size, user, sizeof *size);
  if (*size < min_struct_size || *size > max_struct_size || *size % sizeof(float) != 0) {
    return fail(QN_INVALID_ARGUMENT, "%s: struct_size is %zu; was the struct initialised?", who, *size);
  }
  return QN_OK;
}

qn_status copy_struct(const char* who, const void* user, void* defaults, size_t size) {
  size_t user_size;
  QN_TRY(read_struct_size(who, user, &user_size));
  const char* bytes = static_cast<const char*>(user);
  for (size_t i = size; i < user_size; ++i) {
    if (bytes[i] != 0) {
      return fail(QN_UNSUPPORTED, "%s: the struct sets something that this version of the library does not know", who);
    }
  }
  std::memcpy(defaults, user, std::min(size, user_size));
  std::memcpy(defaults, &size, sizeof size);
  return QN_OK;
}

void init_struct(void* user, size_t size, void* defaults, size_t known) {
  if (user == nullptr) return;
  std::memcpy(defaults, &size, sizeof size);
  std::memset(user, 0, size);
  std::memcpy(user, defaults, std::min(size, known));
}

qn_status give_struct(const char* who, void* user, void* result, size_t size) {
  size_t user_size;
  QN_TRY(read_struct_size(who, user, &user_size));
  init_struct(user, user_size, result, size);
  return QN_OK;
}

qn_status check_moved_type(const char* who, qn_type type) {
  if (qn_type_size(type) != 0) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: unknown type %d", who, static_cast<int>(type));
}

qn_status check_type(const char* who, qn_type type) {
  QN_TRY(check_moved_type(who, type));
  return type == QN_F32 ? QN_OK
                        : fail(QN_UNSUPPORTED, "%s: type %s; only QN_F32 is supported", who, qn_type_string(type));
}

qn_status check_computed_type(const char* who, qn_type type) {
  if (!has_integers) return check_type(who, type);
  QN_TRY(check_moved_type(who, type));
  if (type == QN_F32 || type == QN_S8) return QN_OK;
  return fail(QN_UNSUPPORTED, "%s: type %s; only QN_F32 and QN_S8 are supported", who, qn_type_string(type));
}

qn_status check_product_type(const char* who, qn_type type) {
  if (!has_float_products && type == QN_F32) return fail_without("kernel of type", "f32 for a layer with weights");
  return check_computed_type(who, type);
}

qn_status check_clamp(const char* who, float min, float max) {
  if (min <= max) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: min %g and max %g are not in order", who, static_cast<double>(min),
              static_cast<double>(max));
}

qn_status check_positive(const char* who, const char* what, size_t value) {
  return value > 0 ? QN_OK : fail(QN_INVALID_ARGUMENT, "%s: %s is 0", who, what);
}

qn_status check_aligned(const char* who, const char* what, const void* array) {
  // Arrays that come from a graph are always aligned.
  if (!has_api("op") || reinterpret_cast<uintptr_t>(array) % sizeof(float) == 0) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: %s is not aligned to its elements", who, what);
}

size_t wanted_chunks(size_t tasks) { return tasks == 1 ? 1 : 4 * tasks; }

Split split(size_t count, size_t tasks, size_t grain) {
  return {count, std::clamp<size_t>(count / std::max<size_t>(grain, 1), 1, wanted_chunks(tasks))};
}

qn_status no_kernel(const char* who, const char* kernel) {
  if (kernel == nullptr) return fail(QN_UNSUPPORTED, "%s: no kernel fits this CPU", who);
  return fail(QN_UNSUPPORTED, "%s: kernel %s is unknown, needs another CPU or does not fit", who, kernel);
}

qn_status check_rank(const char* who, const qn_tensor& tensor, uint32_t rank) {
  if (tensor.rank == rank) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: the input has rank %u, not %u", who, tensor.rank, rank);
}

qn_status resolve_axis(const char* who, int axis, uint32_t rank, uint32_t* result) {
  const int signed_rank = static_cast<int>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    return fail(QN_INVALID_ARGUMENT, "%s: axis %d is outside rank %u", who, axis, rank);
  }
  *result = static_cast<uint32_t>(axis < 0 ? axis + signed_rank : axis);
  return QN_OK;
}

}  // namespace quern

// Defined here, so that the code exists once and not in the destructor of every kind of plan.
qn_plan::~qn_plan() = default;

extern "C" {

void qn_plan_options_init_sized(qn_plan_options* options, size_t size) {
  qn_plan_options p = {};
  p.tasks = 1;
  p.residual_min = -std::numeric_limits<float>::infinity();
  p.residual_max = std::numeric_limits<float>::infinity();
  quern::init_struct(options, size, p);
}

const char* qn_algorithm_string(qn_algorithm algorithm) { return quern::algorithm_name(algorithm); }

void qn_operator_release(qn_operator* op) { delete op; }

qn_status qn_operator_plan(const qn_operator* op, const qn_tensor* ins, size_t n_in, const qn_tensor* outs,
                           size_t n_out, const qn_plan_options* options, qn_plan** plan) {
  return quern::guarded([=] {
    if (op == nullptr) return quern::fail(QN_INVALID_ARGUMENT, "qn_operator_plan: op is NULL");
    if (plan == nullptr) return quern::fail(QN_INVALID_ARGUMENT, "%s: plan is NULL", op->impl->name);
    quern::PlanPointer made;
    QN_TRY(quern::plan_operator(*op->impl, ins, n_in, outs, n_out, options, &made));
    *plan = made.release();
    return QN_OK;
  });
}

qn_status qn_operator_plan_chain(const qn_operator* first, const qn_operator* second, const qn_tensor* in,
                                 const qn_tensor* out, const qn_plan_options* options, qn_plan** plan) {
  return quern::guarded([=] {
    if (first == nullptr || second == nullptr || in == nullptr || plan == nullptr) {
      return quern::fail(QN_INVALID_ARGUMENT, "qn_operator_plan_chain: an argument is NULL");
    }
    quern::PlanPointer made;
    QN_TRY(quern::make_chain(*first->impl, *second->impl, *in, out, options, &made));
    *plan = made.release();
    return QN_OK;
  });
}

qn_status qn_plan_output(const qn_plan* plan, size_t index, qn_tensor* tensor) {
  return quern::guarded([=] {
    if (plan == nullptr) return quern::fail(QN_INVALID_ARGUMENT, "qn_plan_output: plan is NULL");
    if (tensor == nullptr) return quern::fail(QN_INVALID_ARGUMENT, "qn_plan_output: tensor is NULL");
    if (index != 0) {
      return quern::fail(QN_INVALID_ARGUMENT, "qn_plan_output: index %zu, but there is one output", index);
    }
    *tensor = plan->output;
    return QN_OK;
  });
}

size_t qn_plan_workspace_size(const qn_plan* plan) { return plan == nullptr ? 0 : plan->workspace_size(); }
qn_algorithm qn_plan_algorithm(const qn_plan* plan) { return plan == nullptr ? QN_ALGORITHM_AUTO : plan->algorithm; }
const char* qn_plan_kernel(const qn_plan* plan) { return plan == nullptr ? "" : plan->kernel; }
uint64_t qn_plan_macs(const qn_plan* plan) { return plan == nullptr ? 0 : plan->macs; }

qn_status qn_plan_run(const qn_plan* plan, const void* const* inputs, void* const* outputs, void* workspace,
                      size_t workspace_size, const qn_parallel* parallel) {
  QN_TRY(quern::guarded([=] { return quern::check_buffers(plan, inputs, outputs, workspace, workspace_size); }));
  return quern::run_plan(*plan, inputs, outputs[0], workspace, parallel);
}

void qn_plan_release(qn_plan* plan) {
  if (plan != nullptr) plan->destroy(plan);
}

}  // extern "C"
