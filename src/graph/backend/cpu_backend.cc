// The CPU as a backend: each kind of node becomes an operator of op.h.
#include <algorithm>
#include <cmath>

#include "base/needs.h"
#include "base/status.h"
#include "graph/backend/backend.h"
#include "graph/file/encoded.h"
#include "graph/file/mapped_file.h"
#include "graph/ir/rules.h"
#include "op/core/operator.h"

namespace quern {
namespace {

struct Release {
  void operator()(qn_operator* op) const { qn_operator_release(op); }
  void operator()(qn_plan* plan) const { qn_plan_release(plan); }
};
using OperatorHandle = std::unique_ptr<qn_operator, Release>;
using PlanHandle = std::unique_ptr<qn_plan, Release>;

// ---- one function per kind of operator: from attributes to parameters

// For kinds that compute: their type is f32 if the build has no integers.
template <class Params>
void set_type(const NodeView& v, Params* p) {
  if (has_integers) p->type = v.tensor(0).type;
}

template <class Params>
void set_clamp(const Attributes& a, Params* p) {
  p->min = a.min;
  p->max = a.max;
}

template <class Params>
void set_window(const Attributes& a, Params* p) {
  p->stride = a.stride;
  p->dilation = a.dilation;
  p->padding = a.padding;
}

const float* floats(const NodeView& v, size_t input) {
  return v.has(input) ? constant_floats(v.graph, v.node.inputs[input]) : nullptr;
}

// The bias, of the weights' bias_type.
class Bias {
 public:
  explicit Bias(const NodeView& v)
      : data_(v.has(2) ? v.graph.constants[static_cast<size_t>(v.tensor(2).constant)].data : nullptr) {
#ifndef QN_NO_INTEGERS
    if (data_ == nullptr || v.tensor(0).type != QN_F32 || v.tensor(2).type != QN_S32) return;
    const Vector<float>& scales = v.tensor(2).quantization.scales;
    floats_.resize(v.shape(2)[0]);
    for (size_t o = 0; o < floats_.size(); ++o) {
      floats_[o] = static_cast<float>(static_cast<const int32_t*>(data_)[o]) * scales[scales.size() == 1 ? 0 : o];
    }
    data_ = floats_.data();
#endif
  }
  const void* data() const { return data_; }

 private:
  const void* data_;
#ifndef QN_NO_INTEGERS
  Vector<float> floats_;  // what integers stand for, where the layer computes with floats
#endif
};

// Called as a function of the host, so nothing is thrown through it.
qn_status decode(void* context, size_t first, size_t count, void* to) {
  return guarded([=] {
    const auto& constant = *static_cast<const Constant*>(context);
    QN_TRY(constant.encoded->decode(first, count, to));
    if (constant.mapped) constant.encoded->forget(first, count);
    return QN_OK;
  });
}

// Says how integer weights stand for real numbers. The arrays belong to the model's graph.
#ifdef QN_NO_INTEGERS
void set_scales(const NodeView&, qn_weights*) {}
#else
void set_scales(const NodeView& v, qn_weights* weights) {
  const Tensor& tensor = v.tensor(1);
  if (tensor.type == QN_F32) return;
  weights->type = tensor.type;
  weights->scales = tensor.quantization.scales.data();
  weights->scale_count = tensor.quantization.scales.size();
  weights->block_length = tensor.quantization.block;
  if (v.tensor(0).type != QN_F32) weights->bias_type = QN_S32;
}
#endif

qn_weights weights_of(const NodeView& v) {
  qn_weights weights;
  qn_weights_init(&weights);
  const Constant& constant = v.graph.constants[static_cast<size_t>(v.tensor(1).constant)];
  set_scales(v, &weights);
  if (has_encoded && constant.encoded != nullptr) {
    weights.encoding = QN_WEIGHTS_DECODED;
    weights.context = const_cast<Constant*>(&constant);  // decode() only reads it
    weights.decode = decode;
    weights.summary = constant.encoded->summary();
    return weights;
  }
  weights.data = constant.data;
  if (constant.mapped) {
    weights.was_read = [](void*, const void* read, size_t bytes) { forget_pages(read, bytes); };
  }
  return weights;
}

qn_status create_conv2d(const NodeView& v, qn_weights_cache* cache, qn_operator** op) {
  const Attributes& a = v.node.attributes;
  const Shape& w = v.shape(1);
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.type = v.tensor(0).type;
  p.in_channels = w[3] * a.groups;
  p.out_channels = w[0];
  p.groups = a.groups;
  p.kernel = {w[1], w[2]};
  set_window(a, &p);
  set_clamp(a, &p);
  if (has_integers) p.quantize_input = v.node.attributes.quantize_input;
  const qn_weights weights = weights_of(v);
  const Bias bias(v);
  return qn_conv2d_create(&p, &weights, bias.data(), cache, op);
}

qn_status create_fully_connected(const NodeView& v, qn_weights_cache* cache, qn_operator** op) {
  qn_fully_connected_params p;
  qn_fully_connected_params_init(&p);
  p.type = v.tensor(0).type;
  p.out_channels = v.shape(1)[0];
  p.in_channels = v.shape(1)[1];
  set_clamp(v.node.attributes, &p);
  if (has_integers) p.quantize_input = v.node.attributes.quantize_input;
  const qn_weights weights = weights_of(v);
  const Bias bias(v);
  return qn_fully_connected_create(&p, &weights, bias.data(), cache, op);
}

qn_status create_pool(const NodeView& v, qn_pool_kind kind, bool global, qn_operator** op) {
  const Attributes& a = v.node.attributes;
  qn_pool2d_params p;
  qn_pool2d_params_init(&p);
  set_type(v, &p);
  p.kind = kind;
  p.global = global;
  set_clamp(a, &p);
  if (has_integers && p.type == QN_S8) p.rounding = a.pool_rounding;
  if (!global) {
    p.kernel = a.kernel;
    set_window(a, &p);
    p.ceil_mode = a.ceil_mode;
    p.count_padding = a.count_padding;
  }
  return qn_pool2d_create(&p, op);
}

qn_status create_binary(const NodeView& v, qn_binary_kind kind, qn_operator** op) {
  qn_binary_params p;
  qn_binary_params_init(&p);
  set_type(v, &p);
  p.kind = kind;
  set_clamp(v.node.attributes, &p);
  return qn_binary_create(&p, op);
}

qn_status create_unary(const NodeView& v, qn_unary_kind kind, qn_operator** op) {
  const Attributes& a = v.node.attributes;
  qn_unary_params p;
  qn_unary_params_init(&p);
  set_type(v, &p);
  p.kind = kind;
  p.alpha = kind == QN_CLAMP ? a.min : a.alpha;
  p.beta = kind == QN_CLAMP ? a.max : a.beta;
  p.gamma = a.gamma;
  return qn_unary_create(&p, op);
}

qn_channel_params channel_params(const NodeView& v) {
  qn_channel_params p;
  qn_channel_params_init(&p);
  p.channels = v.shape(1)[0];
  return p;
}

qn_status create_prelu(const NodeView& v, qn_weights_cache*, qn_operator** op) {
  const qn_channel_params p = channel_params(v);
  return qn_prelu_create(&p, floats(v, 1), op);
}

qn_status create_scale(const NodeView& v, qn_weights_cache*, qn_operator** op) {
  qn_channel_params p = channel_params(v);
  set_clamp(v.node.attributes, &p);
  return qn_scale_create(&p, floats(v, 1), floats(v, 2), op);
}

qn_status create_softmax(const NodeView& v, qn_weights_cache*, qn_operator** op) {
  qn_softmax_params p;
  qn_softmax_params_init(&p);
  if (has_integers) p.type = v.tensor(0).type;
  p.axis = v.node.attributes.axis;
  return qn_softmax_create(&p, op);
}

qn_status create_concat(const NodeView& v, qn_weights_cache*, qn_operator** op) {
  qn_concat_params p;
  qn_concat_params_init(&p);
  p.type = v.tensor(0).type;
  p.axis = v.node.attributes.axis;
  return qn_concat_create(&p, op);
}

qn_status create_lrn(const NodeView& v, qn_weights_cache*, qn_operator** op) {
  const Attributes& a = v.node.attributes;
  qn_lrn_params p;
  qn_lrn_params_init(&p);
  p.size = a.size;
  p.alpha = a.alpha;
  p.beta = a.beta;
  p.k = a.gamma;
  return qn_lrn_create(&p, op);
}

qn_status create_pad(const NodeView& v, qn_weights_cache*, qn_operator** op) {
  const Attributes& a = v.node.attributes;
  qn_pad_params p;
  qn_pad_params_init(&p);
  p.type = v.tensor(0).type;
  p.rank = static_cast<uint32_t>(a.values.size() / 2);
  std::copy_n(a.values.begin(), p.rank, p.before);
  std::copy_n(a.values.begin() + p.rank, p.rank, p.after);
  p.value = a.alpha;
  return qn_pad_create(&p, op);
}

qn_status create_resize(const NodeView& v, qn_weights_cache*, qn_operator** op) {
  const Attributes& a = v.node.attributes;
  qn_resize2d_params p;
  qn_resize2d_params_init(&p);
  set_type(v, &p);
  p.kind = a.mode;
  p.coordinates = a.coordinates;
  p.rounding = a.rounding;
  if (a.values.empty()) {
    p.scale_h = a.alpha;
    p.scale_w = a.beta;
  } else {
    p.size = {static_cast<size_t>(a.values[0]), static_cast<size_t>(a.values[1])};
  }
  return qn_resize2d_create(&p, op);
}

qn_status create_transpose(const NodeView& v, qn_weights_cache*, qn_operator** op) {
  qn_transpose_params p;
  qn_transpose_params_init(&p);
  p.type = v.tensor(0).type;
  p.rank = static_cast<uint32_t>(v.node.attributes.values.size());
  std::copy_n(v.node.attributes.values.begin(), p.rank, p.permutation);
  return qn_transpose_create(&p, op);
}

qn_status create_slice(const NodeView& v, qn_weights_cache*, qn_operator** op) {
  const Attributes& a = v.node.attributes;
  qn_slice_params p;
  qn_slice_params_init(&p);
  p.type = v.tensor(0).type;
  p.rank = static_cast<uint32_t>(a.values.size() / 2);
  std::copy_n(a.values.begin(), p.rank, p.begin);
  std::copy_n(a.values.begin() + p.rank, p.rank, p.end);  // -1 becomes SIZE_MAX; both mean the end of the dimension
  return qn_slice_create(&p, op);
}

#ifndef QN_NO_INTEGERS
// Creates the operator for quantize, dequantize and requantize: the types of the tensors say what it does.
qn_status create_converting(const NodeView& v, qn_weights_cache*, qn_operator** op) {
  qn_quantize_params p;
  qn_quantize_params_init(&p);
  p.type = v.tensor(0).type;
  p.to = v.graph.tensors[static_cast<size_t>(v.node.outputs[0])].type;
  return qn_quantize_create(&p, op);
}
#endif

// For nodes that are always views.
qn_status create_nothing(const NodeView&, qn_weights_cache*, qn_operator**) { return QN_UNSUPPORTED; }

// ---- one function per kind, create_ and its name

template <qn_pool_kind kind, bool global>
qn_status create_pool(const NodeView& v, qn_weights_cache*, qn_operator** op) {
  return create_pool(v, kind, global, op);
}

template <qn_binary_kind kind>
qn_status create_binary(const NodeView& v, qn_weights_cache*, qn_operator** op) {
  return create_binary(v, kind, op);
}

template <qn_unary_kind kind>
qn_status create_unary(const NodeView& v, qn_weights_cache*, qn_operator** op) {
  return create_unary(v, kind, op);
}

constexpr auto create_max_pool = create_pool<QN_POOL_MAX, false>;
constexpr auto create_average_pool = create_pool<QN_POOL_AVERAGE, false>;
constexpr auto create_global_max_pool = create_pool<QN_POOL_MAX, true>;
constexpr auto create_global_average_pool = create_pool<QN_POOL_AVERAGE, true>;
constexpr auto create_add = create_binary<QN_ADD>;
constexpr auto create_sub = create_binary<QN_SUB>;
constexpr auto create_mul = create_binary<QN_MUL>;
constexpr auto create_div = create_binary<QN_DIV>;
constexpr auto create_clamp = create_unary<QN_CLAMP>;
constexpr auto create_sigmoid = create_unary<QN_SIGMOID>;
constexpr auto create_tanh = create_unary<QN_TANH>;
constexpr auto create_hard_swish = create_unary<QN_HARD_SWISH>;
constexpr auto create_exp = create_unary<QN_EXP>;
constexpr auto create_power = create_unary<QN_POWER>;
constexpr auto create_reshape = create_nothing;
#ifndef QN_NO_INTEGERS
constexpr auto create_quantize = create_converting;
constexpr auto create_dequantize = create_converting;
constexpr auto create_requantize = create_converting;
#endif

// Branches, not a table: the loader would have to relocate its addresses.
qn_status create_operator(const NodeView& view, qn_weights_cache* cache, qn_operator** op) {
  switch (view.node.kind) {
#define QN_OP(kind, ...)                                                      \
  case OpKind::kind:                                                          \
    if constexpr (has_operator(#kind)) return create_##kind(view, cache, op); \
    break;
#include "graph/ir/op.inc"
#undef QN_OP
    default: break;
  }
  return QN_UNSUPPORTED;
}

constexpr size_t most_inputs = std::max({
#define QN_OP(kind, min_inputs, max_inputs, ...) size_t{max_inputs},
#include "graph/ir/op.inc"
#undef QN_OP
});

// ---- the interface

class CpuPlan : public NodePlan {
 public:
  explicit CpuPlan(PlanHandle plan) : plan_(std::move(plan)) {}

  size_t workspace_size() const override { return qn_plan_workspace_size(plan_.get()); }

  PlanInfo info() const override {
    const qn_algorithm algorithm = qn_plan_algorithm(plan_.get());
    return {algorithm == QN_ALGORITHM_AUTO ? "" : qn_algorithm_string(algorithm), qn_plan_kernel(plan_.get()),
            qn_plan_macs(plan_.get())};
  }

  qn_status run(std::span<const Location> inputs, std::span<const Location> outputs, const Location& workspace,
                const qn_parallel* parallel) const override {
    const void* addresses[most_inputs];
    for (size_t i = 0; i < inputs.size(); ++i) addresses[i] = address(inputs[i]);
    // Not qn_plan_run(), because it would refuse an overlap that is allowed here: an input of a concat may lie within
    // another input that is already at its place.
    return run_plan(*plan_, addresses, address(outputs[0]), address(workspace), parallel);
  }

 private:
  PlanHandle plan_;
};

class CpuOperator : public NodeOperator {
 public:
  CpuOperator(OperatorHandle op, const Graph& graph, const Node& node)
      : op_(std::move(op)),
        kind_(kind_of(node.kind)),
        data_inputs_(quern::data_inputs(node)),
        layouts_(layouts_of(graph, node)),
        depthwise_(is_depthwise(graph, node)) {}

  bool in_place(size_t input) const override { return input < data_inputs_ && kind_.has(Kind::elementwise); }

  bool strided() const override { return true; }

  Layouts layouts() const override { return layouts_; }

  double cost(const Graph& shapes, const Node& node, const ExecutionOptions& options) const override {
    if (!has_sparse) return 0;
    const Tensors tensors = tensors_of(shapes, node);
    double cycles = 0;
    const qn_status status = where_it_applies(options, [&](const qn_plan_options& plan_options) {
      return estimate(*op_->impl, tensors.ins, tensors.outs[0], plan_options, &cycles);
    });
    return status == QN_OK ? cycles : INFINITY;
  }

  qn_status plan(const Graph& shapes, const Node& node, const ExecutionOptions& options,
                 std::unique_ptr<NodePlan>* plan) const override {
    const Tensors tensors = tensors_of(shapes, node);
    qn_plan* made;
    QN_TRY(where_it_applies(options, [&](const qn_plan_options& plan_options) {
      return qn_operator_plan(op_.get(), tensors.ins.data(), tensors.ins.size(), tensors.outs.data(),
                              tensors.outs.size(), &plan_options, &made);
    }));
    PlanHandle handle(made);
    plan->reset(new CpuPlan(std::move(handle)));
    return QN_OK;
  }

  qn_status plan_chain(const Graph& shapes, const Node& node, const NodeOperator& next, const Node& next_node,
                       const ExecutionOptions& options, std::unique_ptr<NodePlan>* plan) const override {
    if (data_inputs(node) != 1 || data_inputs(next_node) != 1) return QN_UNSUPPORTED;
    const qn_tensor in = describe(shapes.tensors[static_cast<size_t>(node.inputs[0])]);
    const qn_tensor out = describe(shapes.tensors[static_cast<size_t>(next_node.outputs[0])]);
    const auto& second = static_cast<const CpuOperator&>(next);  // it belongs to the same backend
    qn_plan_options plan_options = second.options_of(options);
    if (has_integers) {
      const qn_quantization between = describe(shapes.tensors[static_cast<size_t>(next_node.inputs[0])]).quantization;
      plan_options.between_scale = between.scale;
      plan_options.between_zero_point = between.zero_point;
    }
    qn_plan* made;
    QN_TRY(qn_operator_plan_chain(op_.get(), second.op_.get(), &in, &out, &plan_options, &made));
    PlanHandle handle(made);
    plan->reset(new CpuPlan(std::move(handle)));
    return QN_OK;
  }

  qn_status plan_residual(const Graph& shapes, const Node& node, const Residual& residual,
                          const ExecutionOptions& options, std::unique_ptr<NodePlan>* plan) const override {
    // Depthwise kernels take no residual.
    if (!has_residual || node.kind != OpKind::conv2d || node.attributes.groups > 1) return QN_UNSUPPORTED;
    const qn_tensor ins[] = {describe(shapes.tensors[static_cast<size_t>(node.inputs[0])]),
                             describe(shapes.tensors[static_cast<size_t>(residual.tensor)])};
    const qn_tensor out = describe(shapes.tensors[static_cast<size_t>(residual.output)]);
    qn_plan_options plan_options = options_of(options);
    plan_options.residual_min = residual.min;
    plan_options.residual_max = residual.max;
    if (has_integers) {
      const qn_tensor addend = describe(shapes.tensors[static_cast<size_t>(node.outputs[0])]);
      plan_options.addend_scale = addend.quantization.scale;
      plan_options.addend_zero_point = addend.quantization.zero_point;
    }
    qn_plan* made;
    QN_TRY(qn_operator_plan(op_.get(), ins, 2, &out, 1, &plan_options, &made));
    PlanHandle handle(made);
    plan->reset(new CpuPlan(std::move(handle)));
    return QN_OK;
  }

 private:
  struct Tensors {
    Vector<qn_tensor> ins, outs;
  };

  static Tensors tensors_of(const Graph& shapes, const Node& node) {
    Tensors tensors;
    for (size_t i = 0; i < data_inputs(node); ++i) {
      tensors.ins.push_back(describe(tensor_of(shapes, node.inputs[i])));
    }
    for (const int output : node.outputs) {
      tensors.outs.push_back(describe(shapes.tensors[static_cast<size_t>(output)]));
    }
    return tensors;
  }

  // An algorithm is forced only where it applies.
  template <class Call>
  qn_status where_it_applies(const ExecutionOptions& options, Call&& call) const {
    qn_plan_options plan_options = options_of(options);
    const qn_status status = call(plan_options);
    if (status != QN_UNSUPPORTED || plan_options.algorithm == QN_ALGORITHM_AUTO) return status;
    plan_options.algorithm = QN_ALGORITHM_AUTO;
    return call(plan_options);
  }

  qn_plan_options options_of(const ExecutionOptions& options) const {
    qn_plan_options plan_options;
    qn_plan_options_init(&plan_options);
    plan_options.tasks = options.tasks;
    // A depthwise convolution has one weight per tap and channel, so no two weights share a load of the input: sparse
    // kernels would take many times longer.
    const bool apart = depthwise_ && options.algorithm == QN_ALGORITHM_SPARSE;
    if (kind_.has(Kind::algorithms) && !apart) plan_options.algorithm = options.algorithm;
    plan_options.tuning = options.tuning;
    plan_options.tune = options.tune;
    plan_options.parallel = options.parallel;
    plan_options.traffic = options.traffic;
    return plan_options;
  }

  OperatorHandle op_;
  const Kind& kind_;
  size_t data_inputs_;
  Layouts layouts_;
  bool depthwise_;
};

bool claims(const Graph&, const Node& node) {
  const Kind& kind = kind_of(node.kind);
  return kind.built && !kind.has(Kind::view);
}

qn_status create(const Graph& graph, const Node& node, qn_weights_cache* cache, std::unique_ptr<NodeOperator>* made) {
  qn_operator* op;
  const NodeView view = {graph, node};
  QN_TRY(create_operator(view, cache, &op));
  OperatorHandle handle(op);
  made->reset(new CpuOperator(std::move(handle), graph, node));
  return QN_OK;
}

}  // namespace

const Backend cpu_backend = {"cpu", nullptr, claims, create, nullptr};

}  // namespace quern
