#include "extra/activation.h"

#include <algorithm>
#include <cmath>

namespace quern::extra {

Activation::Activation(const FunctionSettings& settings, size_t rows, size_t width, size_t stride)
    : settings_(settings), rows_(rows), width_(width), stride_(stride) {
  if (settings.function <= Function::tanh && rows != 0) plan();
}

void Activation::operator()(float* x) const {
  const float a = settings_.alpha, b = settings_.beta, clip = settings_.clip;
  if (clip > 0) map([=](float v) { return std::min(std::max(v, -clip), clip); }, x);
  if (plan_) return run_plan(plan_.get(), x, x, nullptr, nullptr);
  switch (settings_.function) {
    case Function::relu: return map([](float v) { return v < 0 ? 0 : v; }, x);
    case Function::affine: return map([=](float v) { return a * v + b; }, x);
    case Function::leaky_relu: return map([=](float v) { return v < 0 ? a * v : v; }, x);
    case Function::thresholded_relu: return map([=](float v) { return v >= a ? v : 0; }, x);
    case Function::scaled_tanh: return map([=](float v) { return a * std::tanh(b * v); }, x);
    case Function::hard_sigmoid: return map([=](float v) { return std::min(std::max(a * v + b, 0.0f), 1.0f); }, x);
    case Function::elu: return map([=](float v) { return v < 0 ? a * std::expm1(v) : v; }, x);
    case Function::softsign: return map([](float v) { return v / (1 + std::fabs(v)); }, x);
    case Function::softplus:
      return map([](float v) { return std::max(v, 0.0f) + std::log1p(std::exp(-std::fabs(v))); }, x);
    default: return;
  }
}

template <class Map>
void Activation::map(Map&& function, float* x) const {
  for (size_t row = 0; row < rows_; ++row) {
    for (size_t i = 0; i < width_; ++i) x[row * stride_ + i] = function(x[row * stride_ + i]);
  }
}

void Activation::plan() {
  qn_unary_params params;
  qn_unary_params_init(&params);
  params.kind = settings_.function == Function::sigmoid ? QN_SIGMOID : QN_TANH;
  qn_operator* op;
  check(qn_unary_create(&params, &op));
  const Operator owner(op);
  const size_t shape[] = {rows_, width_};
  qn_tensor tensor;
  check(qn_tensor_init(&tensor, QN_F32, 2, shape));
  tensor.stride[0] = stride_ * sizeof(float);
  tensor.stride[1] = sizeof(float);
  qn_plan* plan;
  check(qn_operator_plan(op, &tensor, 1, &tensor, 1, nullptr, &plan));
  plan_.reset(plan);
}

}  // namespace quern::extra
