// Calls that are cancelled: long ones ask often enough, and stop. What counts is how often they ask, and not the time.
#include <algorithm>
#include <limits>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/tensor.h"
#include "harness.h"
#include "op/core/operator.h"

namespace quern::test {
namespace cancel_test {

// A host with one thread, which cancels after some questions.
class Host {
 public:
  const qn_parallel* parallel() const { return &parallel_; }
  void begin(size_t questions) { asked = 0, until_ = questions; }
  size_t asked = 0;

 private:
  static void run(void*, void (*task)(void*, size_t), void* argument, size_t count) {
    for (size_t i = 0; i < count; ++i) task(argument, i);
  }
  static int cancelled(void* context) {
    auto* const self = static_cast<Host*>(context);
    return ++self->asked > self->until_;
  }
  size_t until_ = SIZE_MAX;
  qn_parallel parallel_ = {this, run, 1, cancelled, {}};
};

// Calls call(parallel) with `work` multiply-adds or elements: it asks often enough, and stops whenever it is told to.
template <class Call>
void check(const char* what, double work, const Call& call) {
  SCOPED_TRACE(what);
  Host host;
  ASSERT_QN_OK(call(host.parallel()));
  const size_t all = host.asked;
  // The steps between two questions are blocked for the L2 cache, so a core with a larger cache takes larger ones.
  const double step = 4.0 * Watch::interval * std::max(1.0, static_cast<double>(cpu().l2_bytes) / (1 << 20));
  EXPECT_GE(static_cast<double>(all), work / step);
  EXPECT_LE(static_cast<double>(all), 100 + work / 1000) << "questions cost time";
  for (const size_t until : {size_t{0}, size_t{1}, all / 2}) {
    host.begin(until);
    EXPECT_EQ(call(host.parallel()), QN_CANCELLED) << "after " << until << " questions of " << all;
    EXPECT_STREQ(qn_last_message(), "cancelled");
    EXPECT_LE(host.asked, until + 8) << "it does not stop";
  }
}

void check_operator(const char* what, double work, const qn_operator* op, const std::vector<Shape>& shapes,
                    qn_algorithm algorithm = QN_ALGORITHM_AUTO) {
  std::vector<qn_tensor> ins;
  std::vector<std::vector<float>> data;
  std::vector<const void*> inputs;
  for (const Shape& shape : shapes) {
    ins.push_back(dense(shape));
    data.emplace_back(count_of(shape), 0.5f);
    inputs.push_back(data.back().data());
  }
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.algorithm = algorithm;
  qn_plan* plan;
  ASSERT_QN_OK(qn_operator_plan(op, ins.data(), ins.size(), nullptr, 0, &options, &plan)) << what;
  qn_tensor out;
  ASSERT_QN_OK(qn_plan_output(plan, 0, &out));
  Buffer output(qn_tensor_bytes(&out)), workspace(qn_plan_workspace_size(plan));
  void* to = output.data();
  check(what, work, [&](const qn_parallel* parallel) {
    return qn_plan_run(plan, inputs.data(), &to, workspace.data(), workspace.size(), parallel);
  });
  qn_plan_release(plan);
}

// Some weights, so that nothing but the algorithm that is asked for matters.
const std::vector<float> numbers(size_t{8} << 20, 0.25f);

qn_weights some_weights() {
  qn_weights weights;
  qn_weights_init(&weights);
  weights.data = numbers.data();
  return weights;
}

TEST(Cancel, Convolutions) {
  const qn_weights weights = some_weights();
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = p.out_channels = 64;
  p.kernel = {3, 3};
  Op op, point, few;
  ASSERT_QN_OK(qn_conv2d_create(&p, &weights, nullptr, nullptr, &op));
  const double macs = 62.0 * 62 * 64 * 64 * 9;
  const Shape image = {1, 64, 64, 64};
  check_operator("direct", macs, op, {image}, QN_ALGORITHM_DIRECT);
  check_operator("igemm", macs, op, {image}, QN_ALGORITHM_IGEMM);
  check_operator("winograd", macs / 4, op, {image}, QN_ALGORITHM_WINOGRAD);
  check_operator("sparse", macs, op, {image}, QN_ALGORITHM_SPARSE);
  p.kernel = {1, 1};
  ASSERT_QN_OK(qn_conv2d_create(&p, &weights, nullptr, nullptr, &point));
  check_operator("gemm", 256.0 * 256 * 64 * 64, point, {{1, 256, 256, 64}}, QN_ALGORITHM_GEMM);
}

TEST(Cancel, DepthwiseAndChains) {
  const qn_weights weights = some_weights();
  qn_dwconv2d_params p;
  qn_dwconv2d_params_init(&p);
  p.channels = 64;
  p.kernel = {3, 3};
  Op tiles, rows, point;
  ASSERT_QN_OK(qn_dwconv2d_create(&p, &weights, nullptr, nullptr, &tiles));
  check_operator("tiles", 256.0 * 256 * 64 * 9, tiles, {{1, 258, 258, 64}});
  p.kernel = {50, 50};
  ASSERT_QN_OK(qn_dwconv2d_create(&p, &weights, nullptr, nullptr, &rows));
  check_operator("rows", 15.0 * 15 * 64 * 2500, rows, {{1, 64, 64, 64}});
}

TEST(Cancel, FullyConnected) {
  qn_weights weights = some_weights();
  qn_fully_connected_params p;
  qn_fully_connected_params_init(&p);
  p.in_channels = 1024, p.out_channels = 8192;
  Op op;
  ASSERT_QN_OK(qn_fully_connected_create(&p, &weights, nullptr, nullptr, &op));
  check_operator("one row", 1024.0 * 8192, op, {{1, 1024}});
  check_operator("rows", 64.0 * 1024 * 8192, op, {{64, 1024}});
  const std::vector<int8_t> bytes(256 * 256, 1);
  const float scale = 0.5f;
  weights.type = QN_S8;
  weights.data = bytes.data();
  weights.scales = &scale;
  weights.scale_count = 1;
  p.in_channels = p.out_channels = 256;
  p.quantize_input = 1;
  Op dynamic;
  ASSERT_QN_OK(qn_fully_connected_create(&p, &weights, nullptr, nullptr, &dynamic));
  check_operator("rows that are quantized", 1000.0 * 256 * 64, dynamic, {{1000, 256}});
}

TEST(Cancel, Products) {
  const size_t n = 400;
  std::vector<float> c(n * n);
  const float* const a = numbers.data();
  const float infinity = std::numeric_limits<float>::infinity();
  check("qn_gemm_f32", 64e6, [&](const qn_parallel* parallel) {
    return qn_gemm_f32(n, n, n, a, n, a, n, 0, nullptr, -infinity, infinity, c.data(), n, parallel);
  });
  const qn_weights sparse = some_weights();
  check("qn_spmm_f32", 64e6 / 16, [&](const qn_parallel* parallel) {
    return qn_spmm_f32(n, n, n, &sparse, a, n, nullptr, -infinity, infinity, c.data(), n, parallel);
  });
  const std::vector<int8_t> b(n * n, 1);
  const float scale = 1;
  check("qn_gemm_qd8", 64e6 / 4, [&](const qn_parallel* parallel) {
    return qn_gemm_qd8(n, n, n, a, n, b.data(), n, 0, &scale, 1, 0, nullptr, -infinity, infinity, c.data(), n,
                       parallel);
  });
}

TEST(Cancel, Windows) {
  for (const qn_pool_kind kind : {QN_POOL_MAX, QN_POOL_AVERAGE}) {
    qn_pool2d_params p;
    qn_pool2d_params_init(&p);
    p.kind = kind;
    p.kernel = {31, 31};
    p.padding = {15, 15, 15, 15};
    Op op;
    ASSERT_QN_OK(qn_pool2d_create(&p, &op));
    check_operator("pool2d", 32.0 * 32 * 64 * 31 * 31, op, {{1, 32, 32, 64}});
  }
  qn_lrn_params p;
  qn_lrn_params_init(&p);
  p.size = 1000;
  Op lrn;
  ASSERT_QN_OK(qn_lrn_create(&p, &lrn));
  check_operator("lrn", 64.0 * 10000 * 16, lrn, {{64, 10000}});
}

TEST(Cancel, Elements) {
  const double elements = 1 << 23;
  const Shape row = {1 << 23}, rows = {1 << 13, 1 << 10};
  qn_binary_params binary;
  qn_binary_params_init(&binary);
  qn_unary_params unary;
  qn_unary_params_init(&unary);
  qn_channel_params channel;
  qn_channel_params_init(&channel);
  channel.channels = 1 << 10;
  qn_softmax_params softmax;
  qn_softmax_params_init(&softmax);
  Op add, clamp, scale, soft;
  ASSERT_QN_OK(qn_binary_create(&binary, &add));
  ASSERT_QN_OK(qn_unary_create(&unary, &clamp));
  ASSERT_QN_OK(qn_scale_create(&channel, numbers.data(), nullptr, &scale));
  ASSERT_QN_OK(qn_softmax_create(&softmax, &soft));
  check_operator("binary", elements, add, {row, row});
  check_operator("binary, rows", elements, add, {rows, {1 << 10}});
  check_operator("unary", elements, clamp, {row});
  check_operator("scale", elements, scale, {rows});
  check_operator("softmax", elements, soft, {rows});
}

TEST(Cancel, Moves) {
  qn_transpose_params transpose;
  qn_transpose_params_init(&transpose);
  transpose.rank = 2, transpose.permutation[0] = 1;
  qn_concat_params concat;
  qn_concat_params_init(&concat);
  qn_pad_params pad;
  qn_pad_params_init(&pad);
  pad.rank = 1, pad.after[0] = 1 << 23;
  qn_resize2d_params resize;
  qn_resize2d_params_init(&resize);
  resize.size = {512, 512};
  Op turn, join, fill, nearest, bilinear;
  ASSERT_QN_OK(qn_transpose_create(&transpose, &turn));
  ASSERT_QN_OK(qn_concat_create(&concat, &join));
  ASSERT_QN_OK(qn_pad_create(&pad, &fill));
  ASSERT_QN_OK(qn_resize2d_create(&resize, &nearest));
  resize.kind = QN_RESIZE_BILINEAR;
  ASSERT_QN_OK(qn_resize2d_create(&resize, &bilinear));
  check_operator("transpose", 1 << 23, turn, {{1 << 13, 1 << 10}});
  check_operator("concat", 1 << 23, join, {{1 << 22}, {1 << 22}});
  check_operator("pad", 1 << 23, fill, {{1}});
  check_operator("nearest", 512.0 * 512 * 32, nearest, {{1, 4, 4, 32}});
  check_operator("bilinear", 512.0 * 512 * 32, bilinear, {{1, 4, 4, 32}});
}

TEST(Cancel, Quantize) {
  qn_quantize_params p;
  qn_quantize_params_init(&p);
  Op op;
  ASSERT_QN_OK(qn_quantize_create(&p, &op));
  const qn_tensor in = dense({1 << 23});
  qn_tensor out = in;
  out.type = QN_S8;
  out.stride[0] = 1;
  out.quantization.scale = 0.5f;
  qn_plan* plan;
  ASSERT_QN_OK(qn_operator_plan(op, &in, 1, &out, 1, nullptr, &plan));
  const void* input = numbers.data();
  Buffer output(1 << 23);
  void* to = output.data();
  check("quantize", 1 << 23,
        [&](const qn_parallel* parallel) { return qn_plan_run(plan, &input, &to, nullptr, 0, parallel); });
  qn_plan_release(plan);
}

}  // namespace cancel_test
}  // namespace quern::test
