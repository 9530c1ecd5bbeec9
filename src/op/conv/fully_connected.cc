#include <limits>

#include "op/conv/conv.h"
#include "op/weights/quantized.h"

namespace quern {
namespace {

constexpr char fully_connected[] = "fully_connected";

class FullyConnected final : public Operator {
 public:
  FullyConnected(const qn_fully_connected_params& p, const qn_weights& weights, const WeightsShape& shape,
                 const void* bias, Activations activations, const SumFacts& facts, qn_weights_cache* cache)
      : Operator(fully_connected, 1, 1), weights_(weights, shape, bias, cache, activations), clamp_{p.min, p.max} {
    set_type(p.type);
    has_algorithms = true;
    if (has_integers) weights_.set_facts(facts);
  }

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override {
    const qn_tensor& in = ins[0];
    if (in.rank == 0) return fail(QN_INVALID_ARGUMENT, "%s: the input has rank 0", name);
    const size_t channels = in.shape[in.rank - 1];
    if (channels != weights_.shape().in) {
      return fail(QN_INVALID_ARGUMENT, "%s: the input has %zu channels, not %zu", name, channels, weights_.shape().in);
    }
    out->rank = in.rank;
    std::copy_n(in.shape, in.rank, out->shape);
    out->shape[in.rank - 1] = weights_.shape().out;
    return QN_OK;
  }

  qn_status plan(const Request& request, PlanPointer* plan) const override {
    return plan_matrix(name, request, weights_, clamp_, plan);
  }

 private:
  Weights weights_;
  qn_minmax_f32 clamp_;
};

}  // namespace

qn_status plan_matrix(const char* who, const Request& request, const Weights& weights, const qn_minmax_f32& clamp,
                      PlanPointer* plan) {
  const qn_tensor& in = request.ins[0];
  Problem problem;
  problem.type = kernel_type(request.ins[0].type, weights);
  problem.weights_are = demands_met(request, weights);
  for (uint32_t i = 0; i + 1 < in.rank; ++i) problem.pixels *= in.shape[i];
  problem.row_stride = in.rank > 1 ? in.stride[in.rank - 2] : 0;
  if (weights.dynamic()) problem.row_stride = quantized_row_stride(problem.type, weights.shape().in);
  problem.traffic = request.options.traffic;
  problem.density = density_for(weights, request.options);
  problem.in = weights.shape().in;
  problem.out = weights.shape().out;
  problem.pointwise = problem.matrix = true;
  problem.type = type_for_floats(problem, request, weights);
  return plan_conv({who, problem, request, weights, Window(), clamp}, plan);
}

}  // namespace quern

extern "C" {

void qn_fully_connected_params_init_sized(qn_fully_connected_params* params, size_t size) {
  qn_fully_connected_params p = {};
  p.type = QN_F32;
  p.min = -std::numeric_limits<float>::infinity();
  p.max = std::numeric_limits<float>::infinity();
  quern::init_struct(params, size, p);
}

qn_status qn_fully_connected_create(const qn_fully_connected_params* params, const qn_weights* weights,
                                    const void* bias, qn_weights_cache* cache, qn_operator** op) {
  return quern::guarded([=] {
    using namespace quern;
    qn_fully_connected_params p;
    QN_TRY(read_params(fully_connected, params, qn_fully_connected_params_init, op, &p, check_product_type));
    QN_TRY(check_positive(fully_connected, "in_channels", p.in_channels));
    QN_TRY(check_positive(fully_connected, "out_channels", p.out_channels));
    QN_TRY(check_clamp(fully_connected, p.min, p.max));
    const WeightsShape shape = {.out = p.out_channels, .in = p.in_channels};
    qn_weights w;
    Activations activations = Activations::given;
    if (reads_activations) QN_TRY(read_activations(fully_connected, p.quantize_input, p.type, &activations));
    QN_TRY(read_weights(fully_connected, weights, p.type, shape, &w, activations));
    QN_TRY(check_aligned(fully_connected, "bias", bias));
    SumFacts facts;
    if (quantizes_inputs && activations == Activations::by_the_row)
      QN_TRY(check_dynamic_sums(fully_connected, w, shape, &facts));
    if (has_integers && p.type == QN_S8) facts = facts_of_sums(w, shape, bias);
    if (has_scaled_blocks && activations == Activations::given) facts.fit_4_bits = fit_4_bits(w, shape);
    return make_operator<FullyConnected>(op, p, w, shape, bias, activations, facts, cache);
  });
}

}  // extern "C"
