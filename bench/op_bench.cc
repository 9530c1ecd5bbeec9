// op/<operator>/<type>/<algorithm>/<shape>/threads:N: operators through the public API, on the layer shapes of the zoo.
//
// Convolutions are written height x width x channels _ output channels k kernel s stride (padding: half the kernel);
// fully connected layers rows x inputs x outputs; everything else by the shape of its input.
#include <quern/op.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <span>

#include "base/math.h"
#include "base/parallel.h"
#include "base/status.h"
#include "base/tensor.h"
#include "base/thread_pool.h"
#include "bench.h"
#include "shapes.h"

namespace quern {
namespace {

struct PoolShape {
  qn_pool_kind kind;
  size_t size, channels, kernel, stride;  // kernel 0: global
};
constexpr PoolShape pool_shapes[] = {
    {QN_POOL_MAX, 113, 64, 3, 2},     {QN_POOL_MAX, 56, 128, 3, 2},      {QN_POOL_MAX, 28, 256, 3, 2},
    {QN_POOL_MAX, 112, 64, 3, 2},     {QN_POOL_MAX, 224, 64, 2, 2},      {QN_POOL_AVERAGE, 7, 1024, 0, 1},
    {QN_POOL_AVERAGE, 7, 1280, 0, 1}, {QN_POOL_AVERAGE, 14, 1000, 0, 1},
};

struct ImageShape {
  size_t size, channels;
};
constexpr ImageShape residual_shapes[] = {{56, 24}, {14, 96}, {7, 160}, {56, 256}, {14, 1024}};
constexpr ImageShape activation_shapes[] = {{112, 16}, {28, 120}, {14, 480}};

// A benchmark of one operator: how to make it (from `weights` elements), what it reads, which algorithm it must use.
struct OpCase {
  std::string name;  // <operator>/<type>/<algorithm>/<shape>
  std::function<qn_status(const void* weights, qn_operator**)> create;
  std::vector<qn_tensor> inputs;
  std::vector<qn_tensor> outputs = {};  // of bytes: their quantization; none for floats
  size_t weights = 0;
  bool of_bytes = false;   // are floats quantized for products of bytes?
  size_t weight_bits = 0;  // 0: as many as an element of the input has
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
  double ops_per_output = 1;  // where the plan counts no multiply-accumulates
};

struct Release {
  void operator()(qn_operator* op) const { qn_operator_release(op); }
  void operator()(qn_plan* plan) const { qn_plan_release(plan); }
};

// Where tensors lie, in bytes from the start of a page. Depthwise convolution reads and writes as much as it computes,
// so that a power of two between pixels, or between the input and the output, may cost it cache sets: its speed is that
// at the worst of these.
struct Place {
  size_t in, out;
};
constexpr Place one_place[] = {{0, 0}};
constexpr Place many_places[] = {{0, 0}, {64, 0}, {0, 320}, {0, 1024}, {2048, 0}, {1024, 2048}, {4288, 2112}};
constexpr size_t page = 4096;

// Room for a tensor at any place.
struct Room {
  explicit Room(const qn_tensor& tensor) : floats((qn_tensor_bytes(&tensor) + 3 * page) / sizeof(float)) {}
  char* at(size_t place) const {
    const auto address = reinterpret_cast<uintptr_t>(floats.data());
    return reinterpret_cast<char*>(round_up(address, page) + place);
  }
  Floats floats;
};

bool multiplies_bytes(const OpCase& test) { return test.of_bytes || test.inputs[0].type == QN_S8; }

size_t weight_bytes(const OpCase& test) {
  const size_t bits = test.weight_bits != 0 ? test.weight_bits : 8 * qn_type_size(test.inputs[0].type);
  return test.weights * bits / 8;
}

// Everything one run needs.
struct Prepared {
  Floats weights{0};
  std::unique_ptr<qn_operator, Release> op;
  std::unique_ptr<qn_plan, Release> plan;
  std::vector<Room> tensors;  // inputs, then the output
  Buffer workspace;
  Pool pool;
  qn_parallel parallel = {};
  Work work = {};
};

qn_status prepare(const OpCase& test, size_t threads, Prepared* prepared) {
  prepared->weights = Floats(divide_up(weight_bytes(test), sizeof(float)));
  qn_operator* op = nullptr;
  QN_TRY(test.create(prepared->weights.data(), &op));
  prepared->op.reset(op);

  qn_plan_options options;
  qn_plan_options_init(&options);
  options.tasks = threads;
  options.algorithm = test.algorithm;
  qn_plan* plan = nullptr;
  QN_TRY(qn_operator_plan(op, test.inputs.data(), test.inputs.size(), test.outputs.data(), test.outputs.size(),
                          &options, &plan));
  prepared->plan.reset(plan);

  qn_tensor output;
  QN_TRY(qn_plan_output(plan, 0, &output));
  for (const qn_tensor& input : test.inputs) {
    prepared->tensors.emplace_back(input);
    prepared->work.bytes += static_cast<double>(qn_tensor_bytes(&input));
  }
  prepared->tensors.emplace_back(output);
  prepared->work.bytes += static_cast<double>(qn_tensor_bytes(&output) + weight_bytes(test));
  const auto macs = static_cast<double>(qn_plan_macs(plan));
  prepared->work.ops = macs > 0 ? 2 * macs : test.ops_per_output * static_cast<double>(element_count(output));
  prepared->workspace = Buffer(qn_plan_workspace_size(plan));
  QN_TRY(make_pool(threads, &prepared->pool));
  return qn_parallel_from_pthreadpool(prepared->pool.get(), &prepared->parallel);
}

void bench_op(benchmark::State& state, const OpCase& test, size_t threads) {
  Prepared p;
  if (prepare(test, threads, &p) != QN_OK) {
    state.SkipWithError(qn_last_message());
    return;
  }
  state.SetLabel(qn_plan_kernel(p.plan.get()));
  const std::span<const Place> places =
      test.algorithm == QN_ALGORITHM_DEPTHWISE ? std::span<const Place>(many_places) : one_place;
  std::vector<const void*> inputs(p.tensors.size() - 1);
  const qn_parallel* const parallel = threads > 1 ? &p.parallel : nullptr;
  const PeakMeter meter(loop_to_reach(cpu().isa, multiplies_bytes(test) ? PeakOf::bytes : PeakOf::floats), parallel);
  measure(state, p.work, meter, places.size(), [&](size_t place) {
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = p.tensors[i].at(places[place].in);
    void* const output = p.tensors.back().at(places[place].out);
    qn_plan_run(p.plan.get(), inputs.data(), &output, p.workspace.data(), p.workspace.size(), parallel);
  });
}

qn_tensor tensor_of(std::initializer_list<size_t> shape) {
  qn_tensor tensor;
  qn_tensor_init(&tensor, QN_F32, static_cast<uint32_t>(shape.size()), shape.begin());
  return tensor;
}
qn_tensor image_of(size_t size, size_t channels) { return tensor_of({1, size, size, channels}); }
qn_padding half(size_t kernel) { return {kernel / 2, kernel / 2, kernel / 2, kernel / 2}; }

// The same of bytes, with a scale and a zero point.
qn_tensor quantized(qn_tensor tensor, float scale, int32_t zero) {
  qn_tensor_init(&tensor, QN_S8, tensor.rank, tensor.shape);
  tensor.quantization.scale = scale;
  tensor.quantization.zero_point = zero;
  return tensor;
}

constexpr float weight_scale = 0.01f;

qn_weights weights_at(const void* data, qn_type type) {
  qn_weights weights;
  qn_weights_init(&weights);
  weights.data = data;
  if (type == QN_S8) {
    weights.type = QN_S8;
    weights.bias_type = QN_S32;
    weights.scales = &weight_scale;
    weights.scale_count = 1;
  }
  return weights;
}

const char* name_of(qn_type type) { return type == QN_S8 ? "qs8" : "f32"; }

// Makes tensors of a case bytes, if it is one of bytes. Results spread over most of the steps there are.
void set_type(qn_type type, size_t products, const qn_tensor& output, OpCase* test) {
  if (type == QN_F32) return;
  constexpr float in_scale = 0.02f, spread = 11000;             // of a product of bytes, about
  test->inputs = {quantized(test->inputs[0], in_scale, -128)};  // no negative numbers, as behind a ReLU
  const float sum = in_scale * weight_scale * spread * std::sqrt(static_cast<float>(products));
  test->outputs = {quantized(output, sum / 50, -5)};
}

// The size of an output image.
size_t size_of_output(size_t size, size_t kernel, size_t stride) {
  return (size + kernel / 2 * 2 - kernel) / stride + 1;
}

OpCase conv_case(const ConvShape& s, qn_algorithm algorithm, qn_type type) {
  OpCase test;
  test.name = text("conv2d/", name_of(type), "/", qn_algorithm_string(algorithm), "/", shape_name(s));
  test.create = [s, type](const void* data, qn_operator** op) {
    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.type = type;
    p.in_channels = s.in;
    p.out_channels = s.out;
    p.kernel = {s.kernel, s.kernel};
    p.stride = {s.stride, s.stride};
    p.padding = half(s.kernel);
    const qn_weights weights = weights_at(data, type);
    return qn_conv2d_create(&p, &weights, nullptr, nullptr, op);
  };
  test.inputs = {image_of(s.size, s.in)};
  set_type(type, s.kernel * s.kernel * s.in, image_of(size_of_output(s.size, s.kernel, s.stride), s.out), &test);
  test.weights = s.out * s.kernel * s.kernel * s.in;
  test.algorithm = algorithm;
  return test;
}

OpCase depthwise_case(const DepthwiseShape& s, qn_layout layout, qn_type type) {
  OpCase test;
  const bool blocked = layout == QN_LAYOUT_PIXEL_BLOCKED;
  test.name = text("dwconv2d/", name_of(type), "/depthwise/", shape_name(s), blocked ? "_blocked" : "");
  test.create = [s, type](const void* data, qn_operator** op) {
    qn_dwconv2d_params p;
    qn_dwconv2d_params_init(&p);
    p.type = type;
    p.channels = s.channels;
    p.kernel = {s.kernel, s.kernel};
    p.stride = {s.stride, s.stride};
    p.padding = half(s.kernel);
    const qn_weights weights = weights_at(data, type);
    return qn_dwconv2d_create(&p, &weights, nullptr, nullptr, op);
  };
  test.inputs = {image_of(s.size, s.channels)};
  test.inputs[0].layout = layout;
  std::fill_n(test.inputs[0].stride, 4, 0);  // dense in this layout
  set_type(type, s.kernel * s.kernel, image_of(size_of_output(s.size, s.kernel, s.stride), s.channels), &test);
  test.weights = s.channels * s.kernel * s.kernel;
  test.algorithm = QN_ALGORITHM_DEPTHWISE;
  return test;
}

OpCase matrix_case(const MatrixShape& s, qn_type type) {
  OpCase test;
  test.name = text("fully_connected/", name_of(type), "/gemm/", shape_name(s));
  test.create = [s, type](const void* data, qn_operator** op) {
    qn_fully_connected_params p;
    qn_fully_connected_params_init(&p);
    p.type = type;
    p.in_channels = s.in;
    p.out_channels = s.out;
    const qn_weights weights = weights_at(data, type);
    return qn_fully_connected_create(&p, &weights, nullptr, nullptr, op);
  };
  test.inputs = {tensor_of({s.rows, s.in})};
  set_type(type, s.in, tensor_of({s.rows, s.out}), &test);
  test.weights = s.in * s.out;
  test.algorithm = QN_ALGORITHM_GEMM;
  return test;
}

// How an operator of floats is given weights of integers: how many bits they need, how many share a scale, and whether
// it quantizes its input.
struct Narrow {
  const char* type;
  size_t bits, block;  // 0: all of an output channel
  int quantize_input = 1;
};
constexpr Narrow all_narrow[] = {
    {"qd8c", 8, 0}, {"qd8c4", 4, 0}, {"qd8b4", 4, 32}, {"qw8c", 8, 0, 0}, {"qw4b", 4, 32, 0}};

struct NarrowWeights {
  std::vector<int8_t> steps;
  std::vector<float> scales;
};

OpCase narrow_case(const MatrixShape& s, const Narrow& narrow) {
  OpCase test;
  test.name = text("fully_connected/", narrow.type, "/gemm/", shape_name(s));
  test.create = [s, narrow, kept = std::make_shared<NarrowWeights>()](const void*, qn_operator** op) {
    const int most = (1 << (narrow.bits - 1)) - 1;
    kept->steps.resize(s.in * s.out);
    for (size_t i = 0; i < kept->steps.size(); ++i)
      kept->steps[i] = static_cast<int8_t>(static_cast<int>(i * 37 % static_cast<size_t>(2 * most + 1)) - most);
    kept->scales.assign(s.out * (narrow.block == 0 ? 1 : divide_up(s.in, narrow.block)), weight_scale);
    qn_weights weights = weights_at(kept->steps.data(), QN_S8);
    weights.bias_type = QN_F32;
    weights.scales = kept->scales.data();
    weights.scale_count = kept->scales.size();
    weights.block_length = narrow.block;
    qn_fully_connected_params p;
    qn_fully_connected_params_init(&p);
    p.in_channels = s.in;
    p.out_channels = s.out;
    p.quantize_input = narrow.quantize_input;
    return qn_fully_connected_create(&p, &weights, nullptr, nullptr, op);
  };
  test.inputs = {tensor_of({s.rows, s.in})};
  test.weights = s.in * s.out;
  test.of_bytes = narrow.quantize_input != 0;
  test.weight_bits = narrow.bits;
  test.algorithm = QN_ALGORITHM_GEMM;
  return test;
}

// Makes tensors of a case bytes, whose results have the same numbers as the inputs.
void set_type(qn_type type, const qn_tensor& output, OpCase* test) {
  if (type == QN_F32) return;
  for (qn_tensor& input : test->inputs) input = quantized(input, 0.02f, 3);
  test->outputs = {quantized(output, 0.02f, 3)};
}

OpCase pool_case(const PoolShape& s, qn_type type) {
  OpCase test;
  const bool global = s.kernel == 0;
  test.name = text(s.kind == QN_POOL_MAX ? "max" : "average", "_pool2d/", name_of(type), "/auto/",
                   image_name(s.size, s.channels), "_", global ? "global" : window_name(s.kernel, s.stride));
  test.create = [s, global, type](const void*, qn_operator** op) {
    qn_pool2d_params p;
    qn_pool2d_params_init(&p);
    p.type = type;
    p.kind = s.kind;
    p.global = global;
    if (!global) {
      p.kernel = {s.kernel, s.kernel};
      p.stride = {s.stride, s.stride};
    }
    return qn_pool2d_create(&p, op);
  };
  test.inputs = {image_of(s.size, s.channels)};
  set_type(type, image_of(global ? 1 : (s.size - s.kernel) / s.stride + 1, s.channels), &test);
  test.ops_per_output = static_cast<double>(global ? s.size * s.size : s.kernel * s.kernel);
  return test;
}

OpCase add_case(const ImageShape& s, qn_type type) {
  OpCase test;
  test.name = text("add/", name_of(type), "/auto/", image_name(s.size, s.channels));
  test.create = [type](const void*, qn_operator** op) {
    qn_binary_params p;
    qn_binary_params_init(&p);
    p.type = type;
    return qn_binary_create(&p, op);
  };
  test.inputs = {image_of(s.size, s.channels), image_of(s.size, s.channels)};
  set_type(type, image_of(s.size, s.channels), &test);
  return test;
}

OpCase unary_case(const char* name, qn_unary_kind kind, const ImageShape& s, qn_type type) {
  OpCase test;
  test.name = text(name, "/", name_of(type), "/auto/", image_name(s.size, s.channels));
  test.create = [kind, type](const void*, qn_operator** op) {
    qn_unary_params p;
    qn_unary_params_init(&p);
    p.type = type;
    p.kind = kind;
    return qn_unary_create(&p, op);
  };
  test.inputs = {image_of(s.size, s.channels)};
  set_type(type, image_of(s.size, s.channels), &test);
  return test;
}

// What a quantized model does at its borders, to an image with colours.
OpCase quantize_case(qn_type from, qn_type to) {
  OpCase test;
  const qn_tensor image = image_of(224, 3);
  test.name = text("quantize/", name_of(from), "_to_", name_of(to), "/auto/", image_name(224, 3));
  test.create = [from, to](const void*, qn_operator** op) {
    qn_quantize_params p;
    qn_quantize_params_init(&p);
    p.type = from;
    p.to = to;
    return qn_quantize_create(&p, op);
  };
  test.inputs = {from == QN_F32 ? image : quantized(image, 0.02f, 3)};
  test.outputs = {to == QN_F32 ? image : quantized(image, 0.03f, 5)};
  return test;
}

OpCase softmax_case(size_t rows, size_t classes) {
  OpCase test;
  test.name = text("softmax/f32/auto/", join({rows, classes}));
  test.create = [](const void*, qn_operator** op) {
    qn_softmax_params p;
    qn_softmax_params_init(&p);
    return qn_softmax_create(&p, op);
  };
  test.inputs = {tensor_of({rows, classes})};
  return test;
}

OpCase concat_case(size_t size, size_t channels, qn_type type) {
  OpCase test;
  test.name = text("concat/", name_of(type), "/auto/", image_name(size, channels), "_twice");
  test.create = [type](const void*, qn_operator** op) {
    qn_concat_params p;
    qn_concat_params_init(&p);
    p.type = type;
    return qn_concat_create(&p, op);
  };
  test.inputs = {image_of(size, channels), image_of(size, channels)};
  set_type(type, image_of(size, 2 * channels), &test);
  return test;
}

// What a model whose source is N,C,H,W does at its border.
OpCase transpose_case(size_t channels, size_t size, qn_type type) {
  OpCase test;
  test.name = text("transpose/", name_of(type), "/auto/", join({channels, size, size}), "_to_nhwc");
  test.create = [type](const void*, qn_operator** op) {
    qn_transpose_params p;
    qn_transpose_params_init(&p);
    p.type = type;
    p.rank = 4;
    constexpr uint32_t permutation[] = {0, 2, 3, 1};
    std::copy(std::begin(permutation), std::end(permutation), p.permutation);
    return qn_transpose_create(&p, op);
  };
  test.inputs = {tensor_of({1, channels, size, size})};
  set_type(type, image_of(size, channels), &test);
  return test;
}

OpCase lrn_case(size_t size, size_t channels) {
  OpCase test;
  test.name = text("lrn/f32/auto/", image_name(size, channels));
  test.create = [](const void*, qn_operator** op) {
    qn_lrn_params p;
    qn_lrn_params_init(&p);
    return qn_lrn_create(&p, op);
  };
  test.inputs = {image_of(size, channels)};
  return test;
}

OpCase resize_case(const char* name, qn_resize_kind kind, size_t size, size_t channels) {
  OpCase test;
  test.name = text("resize_", name, "/f32/auto/", image_name(size, channels), "_twice");
  test.create = [kind, size](const void*, qn_operator** op) {
    qn_resize2d_params p;
    qn_resize2d_params_init(&p);
    p.kind = kind;
    p.size = {2 * size, 2 * size};
    return qn_resize2d_create(&p, op);
  };
  test.inputs = {image_of(size, channels)};
  return test;
}

// The algorithms worth measuring for a shape: the one of choice and its alternatives.
std::vector<qn_algorithm> algorithms_of(const ConvShape& s, qn_type type) {
  if (s.kernel == 1 && s.stride == 1) return {QN_ALGORITHM_GEMM};
  if (s.in <= 4) return {QN_ALGORITHM_DIRECT, QN_ALGORITHM_IGEMM};
  if (s.kernel == 3 && s.stride == 1 && type == QN_F32) return {QN_ALGORITHM_IGEMM, QN_ALGORITHM_WINOGRAD};
  return {QN_ALGORITHM_IGEMM};
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases;
  for (const qn_type type : {QN_F32, QN_S8}) {
    for (const ConvShape& s : conv_shapes) {
      for (const qn_algorithm algorithm : algorithms_of(s, type)) cases.push_back(conv_case(s, algorithm, type));
    }
    for (const DepthwiseShape& s : depthwise_shapes) {
      cases.push_back(depthwise_case(s, QN_LAYOUT_NHWC, type));
      if (type == QN_F32) cases.push_back(depthwise_case(s, QN_LAYOUT_PIXEL_BLOCKED, type));
    }
    for (const MatrixShape& s : matrix_shapes) cases.push_back(matrix_case(s, type));
    for (const PoolShape& s : pool_shapes) cases.push_back(pool_case(s, type));
    for (const ImageShape& s : residual_shapes) cases.push_back(add_case(s, type));
    for (const ImageShape& s : activation_shapes) {
      cases.push_back(unary_case("relu", QN_CLAMP, s, type));
      cases.push_back(unary_case("hard_swish", QN_HARD_SWISH, s, type));
      cases.push_back(unary_case("sigmoid", QN_SIGMOID, s, type));
    }
    cases.push_back(concat_case(56, 64, type));
    cases.push_back(transpose_case(3, 224, type));
    cases.push_back(transpose_case(64, 56, type));
  }
  for (const Narrow& narrow : all_narrow) {
    for (const MatrixShape& s : matrix_shapes) {
      const bool as_floats = narrow.quantize_input == 0 && narrow.block == 0 && s.rows != 1;
      if (!as_floats) cases.push_back(narrow_case(s, narrow));
    }
  }
  cases.push_back(quantize_case(QN_F32, QN_S8));
  cases.push_back(quantize_case(QN_S8, QN_F32));
  cases.push_back(quantize_case(QN_S8, QN_S8));
  cases.push_back(softmax_case(1, 1000));
  cases.push_back(lrn_case(56, 64));
  cases.push_back(resize_case("nearest", QN_RESIZE_NEAREST, 28, 128));
  cases.push_back(resize_case("bilinear", QN_RESIZE_BILINEAR, 28, 128));
  return cases;
}

// The one-call product, which packs B every time.
void bench_gemm_call(benchmark::State& state, const MatrixShape& s) {
  const Floats a(s.rows * s.in), b(s.in * s.out), c(s.rows * s.out);
  constexpr float inf = std::numeric_limits<float>::infinity();
  const double bytes = 4.0 * static_cast<double>(s.rows * s.in + s.in * s.out + s.rows * s.out);
  measure(state, {2.0 * static_cast<double>(s.rows * s.in * s.out), bytes},
          PeakMeter(loop_of(cpu().isa, PeakOf::floats)), [&] {
            qn_gemm_f32(s.rows, s.out, s.in, a.data(), s.in, b.data(), s.out, 0, nullptr, -inf, inf, c.data(), s.out,
                        nullptr);
          });
}

}  // namespace

void register_operators(const std::vector<size_t>& threads) {
  for (const OpCase& test : all_cases()) {
    for (const size_t count : threads) {
      // Not google-benchmark's own threads: those would run as many operators, these run one together.
      benchmark::RegisterBenchmark(text("op/", test.name, "/threads:", count).c_str(),
                                   [test, count](benchmark::State& state) { bench_op(state, test, count); });
    }
  }
  for (const MatrixShape& s : matrix_shapes) {
    benchmark::RegisterBenchmark(text("op/gemm_call/f32/gemm/", shape_name(s), "/threads:1").c_str(),
                                 [&s](benchmark::State& state) { bench_gemm_call(state, s); });
  }
}

}  // namespace quern
