// Quern, through its public API.
#include <quern/op.h>

#include "base/math.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "peers.h"

namespace quern::peers {
namespace {

void check(qn_status status) {
  if (status != QN_OK) throw std::runtime_error(qn_last_message());
}

struct Release {
  void operator()(qn_operator* op) const { qn_operator_release(op); }
  void operator()(qn_plan* plan) const { qn_plan_release(plan); }
};

qn_type type_of(const Layer& layer) { return layer.type == Type::qs8c ? QN_S8 : QN_F32; }
bool quantizes_input(const Layer& layer) {
  return layer.type != Type::qs8c && layer.type != Type::f32 && layer.type != Type::qw8c;
}

// The scales of each output channel: one, or one for each block.
std::vector<float> scales_of(const Layer& layer, const Weights& given) {
  const size_t each = layer.type == Type::qd8b4 ? divide_up(layer.terms(), block) : 1;
  std::vector<float> scales;
  for (size_t o = 0; o < layer.out && given.scales != nullptr; ++o) scales.insert(scales.end(), each, given.scales[o]);
  return scales;
}

// The operator reads the weights, and the scales, as long as it lives.
qn_status create(const Layer& layer, const Weights& given, const std::vector<float>& scales, qn_operator** op) {
  qn_weights weights;
  qn_weights_init(&weights);
  weights.data = given.data;
  if (layer.type != Type::f32) {
    weights.type = QN_S8;
    weights.scales = scales.data();
    weights.scale_count = scales.size();
    if (layer.type == Type::qd8b4) weights.block_length = block;
    if (layer.type == Type::qs8c) weights.bias_type = QN_S32;
  }
  const auto shape_window = [&](auto& p) {
    p.type = type_of(layer);
    p.kernel = {layer.kernel, layer.kernel};
    p.stride = {layer.stride, layer.stride};
    p.padding = {layer.padding(), layer.padding(), layer.padding(), layer.padding()};
  };
  if (layer.kind == Kind::fully_connected) {
    qn_fully_connected_params p;
    qn_fully_connected_params_init(&p);
    p.type = type_of(layer);
    p.in_channels = layer.in;
    p.out_channels = layer.out;
    p.quantize_input = quantizes_input(layer);
    return qn_fully_connected_create(&p, &weights, nullptr, nullptr, op);
  }
  if (layer.kind == Kind::dwconv2d) {
    qn_dwconv2d_params p;
    qn_dwconv2d_params_init(&p);
    p.channels = layer.in;
    shape_window(p);
    return qn_dwconv2d_create(&p, &weights, nullptr, nullptr, op);
  }
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = layer.in;
  p.out_channels = layer.out;
  p.quantize_input = quantizes_input(layer);
  shape_window(p);
  return qn_conv2d_create(&p, &weights, nullptr, nullptr, op);
}

qn_tensor tensor_of(const Layer& layer, size_t size, size_t channels, float scale, int32_t zero_point) {
  const size_t image[] = {1, size, size, channels}, matrix[] = {layer.rows, channels};
  qn_tensor tensor;
  if (layer.kind == Kind::fully_connected) {
    qn_tensor_init(&tensor, type_of(layer), 2, matrix);
  } else {
    qn_tensor_init(&tensor, type_of(layer), 4, image);
  }
  if (layer.type == Type::qs8c) {
    tensor.quantization.scale = scale;
    tensor.quantization.zero_point = zero_point;
  }
  return tensor;
}

class QuernTask : public Task {
 public:
  QuernTask(const Layer& layer, const Weights& weights, size_t threads) : scales_(scales_of(layer, weights)) {
    qn_operator* op = nullptr;
    check(create(layer, weights, scales_, &op));
    op_.reset(op);
    qn_plan_options options;
    qn_plan_options_init(&options);
    options.tasks = threads;
    const qn_tensor input = tensor_of(layer, layer.size, layer.in, layer.input_scale, layer.input_zero_point);
    const qn_tensor output =
        tensor_of(layer, layer.out_size(), layer.out, layer.output_scale(), layer.output_zero_point);
    qn_plan* plan = nullptr;
    check(qn_operator_plan(op, &input, 1, &output, 1, &options, &plan));
    plan_.reset(plan);
    workspace_ = Buffer(qn_plan_workspace_size(plan));
    check(make_pool(threads, &pool_));
    if (threads == 1) return;
    check(qn_parallel_from_pthreadpool(pool_.get(), &pool_functions_));
    parallel_ = &pool_functions_;
  }
  void bind(void* input, void* output) override {
    input_ = input;
    output_ = output;
  }
  void run() override {
    check(qn_plan_run(plan_.get(), &input_, &output_, workspace_.data(), workspace_.size(), parallel_));
  }
  std::string implementation() const override {
    return std::string(qn_algorithm_string(qn_plan_algorithm(plan_.get()))) + " " + qn_plan_kernel(plan_.get());
  }

 private:
  std::vector<float> scales_;
  std::unique_ptr<qn_operator, Release> op_;
  std::unique_ptr<qn_plan, Release> plan_;
  Buffer workspace_;
  Pool pool_;
  qn_parallel pool_functions_ = {};
  const qn_parallel* parallel_ = nullptr;
  const void* input_ = nullptr;
  void* output_ = nullptr;
};

class Quern : public Engine {
 public:
  Quern() : Engine("quern", false) {}
  std::unique_ptr<Task> prepare(const Layer& layer, const Weights& weights, size_t threads) const override {
    return std::make_unique<QuernTask>(layer, weights, threads);
  }
};

}  // namespace

const Engine& quern_engine() {
  static const Quern engine;
  return engine;
}

}  // namespace quern::peers
