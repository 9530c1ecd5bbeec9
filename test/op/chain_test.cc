// Two operators in one pass give the bits of one after the other; what does not suit is refused.
#include <cstring>
#include <random>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/thread_pool.h"
#include "harness.h"

namespace quern::test {
namespace chain_test {

struct Layer {
  size_t channels, kernel, stride, dilation;
};

template <class Params>
void set_window(const Layer& l, Params* p) {
  p->kernel = {l.kernel, l.kernel};
  p->stride = {l.stride, l.stride};
}

qn_dwconv2d_params depthwise(const Layer& l) {
  const size_t half = l.kernel / 2;
  qn_dwconv2d_params p;
  qn_dwconv2d_params_init(&p);
  set_window(l, &p);
  p.channels = l.channels;
  p.dilation = {l.dilation, l.dilation};
  p.padding = {half, half, half, half};
  return p;
}

// A depthwise convolution, or maximum pooling where `kernel` is even.
void make_first(const Layer& l, const std::vector<float>& weights, qn_operator** op) {
  if (l.kernel % 2 == 0) {
    qn_pool2d_params p;
    qn_pool2d_params_init(&p);
    set_window(l, &p);
    ASSERT_QN_OK(qn_pool2d_create(&p, op));
    return;
  }
  qn_dwconv2d_params p = depthwise(l);
  p.min = 0;
  qn_weights w;
  qn_weights_init(&w);
  w.data = weights.data();
  ASSERT_QN_OK(qn_dwconv2d_create(&p, &w, weights.data(), nullptr, op));
}

void make_second(size_t in, size_t out, size_t groups, size_t stride, const std::vector<float>& weights,
                 qn_operator** op) {
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = in;
  p.out_channels = out;
  p.groups = groups;
  p.stride = {stride, stride};
  p.max = 1.5f;
  qn_weights w;
  qn_weights_init(&w);
  w.data = weights.data();
  ASSERT_QN_OK(qn_conv2d_create(&p, &w, weights.data(), nullptr, op));
}

std::vector<float> run(const qn_plan* plan, const std::vector<float>& x, const qn_parallel* parallel) {
  qn_tensor out;
  EXPECT_QN_OK(qn_plan_output(plan, 0, &out));
  std::vector<float> y(qn_tensor_bytes(&out) / sizeof(float));
  const Buffer workspace(qn_plan_workspace_size(plan));
  const void* const inputs[] = {x.data()};
  void* const outputs[] = {y.data()};
  EXPECT_QN_OK(qn_plan_run(plan, inputs, outputs, workspace.data(), workspace.size(), parallel));
  return y;
}

std::vector<float> run_chain(const qn_operator* first, const qn_operator* second, const qn_tensor& in,
                             const std::vector<float>& x, size_t tasks, qn_algorithm* algorithm) {
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.tasks = tasks;
  qn_plan* plan = nullptr;
  EXPECT_QN_OK(qn_operator_plan_chain(first, second, &in, nullptr, &options, &plan));
  if (plan == nullptr) return {};
  const std::vector<float> y = run(plan, x, nullptr);
  *algorithm = qn_plan_algorithm(plan);
  qn_plan_release(plan);
  return y;
}

std::vector<float> run_alone(const qn_operator* op, const qn_tensor& in, const std::vector<float>& x, qn_tensor* out) {
  qn_plan* plan = nullptr;
  EXPECT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, nullptr, &plan));
  EXPECT_QN_OK(qn_plan_output(plan, 0, out));
  const std::vector<float> y = run(plan, x, nullptr);
  qn_plan_release(plan);
  return y;
}

// One pass pays where what lies between the two operators does not stay in the L2 cache. The height of an image with
// which that is so; `height` if that is enough. A row of the image has `row_bytes` bytes between the operators.
size_t tall_enough(size_t height, size_t stride, size_t row_bytes) {
  return std::max(height, stride * (cpu().l2_bytes / 2 / row_bytes + 8));  // windows may shorten it by a few rows
}

TEST(Chain, GivesTheSameBits) {
  const struct {
    Layer first;
    Shape in;
    size_t out;
  } cases[] = {
      {{64, 3, 1, 1}, {1, 112, 113, 64}, 33}, {{40, 3, 2, 1}, {1, 223, 224, 40}, 16},
      {{96, 5, 1, 1}, {2, 61, 59, 96}, 24},   {{72, 5, 2, 1}, {1, 131, 117, 72}, 40},
      {{80, 3, 1, 2}, {1, 75, 77, 80}, 50},   {{64, 2, 2, 1}, {1, 150, 149, 64}, 10},
  };
  for (auto c : cases) {
    c.in[1] =
        tall_enough(c.in[1], c.first.stride, c.in[0] * (c.in[2] / c.first.stride) * c.first.channels * sizeof(float));
    SCOPED_TRACE(testing::Message() << c.first.channels << " channels, kernel " << c.first.kernel);
    const std::vector<float> w1 = reals(c.first.channels * 25, 1), w2 = reals(c.first.channels * c.out, 2);
    const std::vector<float> x = reals(count_of(c.in), 3);
    Op first, second;
    make_first(c.first, w1, &first);
    make_second(c.first.channels, c.out, 1, 1, w2, &second);
    const qn_tensor in = dense(c.in);
    qn_tensor between, out;
    const std::vector<float> middle = run_alone(first, in, x, &between);
    const std::vector<float> expected = run_alone(second, between, middle, &out);
    for (const size_t tasks : {1, 2, 4}) {
      qn_plan_options options;
      qn_plan_options_init(&options);
      options.tasks = tasks;
      qn_plan* plan = nullptr;
      ASSERT_QN_OK(qn_operator_plan_chain(first, second, &in, nullptr, &options, &plan));
      Pool pool;
      ASSERT_QN_OK(make_pool(tasks, &pool));
      qn_parallel parallel;
      ASSERT_QN_OK(qn_parallel_from_pthreadpool(pool.get(), &parallel));
      EXPECT_EQ(expected, run(plan, x, &parallel)) << tasks << " tasks";
      EXPECT_LT(qn_plan_workspace_size(plan), middle.size() * sizeof(float) * tasks);
      EXPECT_EQ(qn_plan_macs(plan), between.shape[0] * between.shape[1] * between.shape[2] * c.first.channels *
                                        (c.out + (c.first.kernel % 2 == 0 ? 0 : c.first.kernel * c.first.kernel)));
      qn_plan_release(plan);
    }
  }
}

// A band may be one row of input where the whole is many; kernels of one row add in another order.
TEST(Chain, GivesTheSameBitsWithWeightsOfBytes) {
  constexpr size_t channels = 256, out_channels = 64;
  const Layer layer = {channels, 3, 1, 1};
  const size_t rows = tall_enough(700, 1, channels * sizeof(float));
  for (const Shape& shape : {Shape{rows, 1, 1, channels}, Shape{1, rows + 1, 1, channels}}) {
    const std::vector<float> w1 = reals(channels * 9, 1), x = reals(count_of(shape), 2);
    std::vector<int8_t> bytes(channels * out_channels);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<int8_t>(1 + i * 37 % 113);
    const float scale = 0.01f;
    qn_weights w;
    qn_weights_init(&w);
    w.type = QN_S8, w.data = bytes.data(), w.scales = &scale, w.scale_count = 1;
    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.in_channels = channels, p.out_channels = out_channels;
    Op first, second;
    make_first(layer, w1, &first);
    ASSERT_QN_OK(qn_conv2d_create(&p, &w, nullptr, nullptr, &second));
    const qn_tensor in = dense(shape);
    qn_tensor between, out;
    const std::vector<float> expected = run_alone(second, between, run_alone(first, in, x, &between), &out);
    for (const size_t tasks : {1, 4}) {
      qn_algorithm algorithm;
      EXPECT_TRUE(same_bits(run_chain(first, second, in, x, tasks, &algorithm), expected)) << tasks << " tasks";
    }
  }
}

// Bands are as high as the number of tasks wants them; which kernel a band would be given by itself must not show.
TEST(Chain, GivesTheSameBitsWithSparseWeightsForAnyNumberOfTasks) {
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return random() % n; };
  const size_t smallest = cpu().l2_bytes / 2 / sizeof(float);  // of what is between the two
  // How many are sparse depends on costs. SSE4.1 has no kernels for it, so that the others are dense, most of them with
  // these.
  const size_t wanted = strcmp(qn_cpu_level(), "sse41") != 0 ? 300 : 20;
  size_t sparse = 0;
  for (uint32_t i = 0; i < 480 || (sparse < wanted && i < 960); ++i) {
    const size_t c = 8 + below(121), w = 5 + below(60), h = smallest / (c * w) + 1 + below(9);
    const size_t most = cpu().l2_bytes / 4 / sizeof(float) / c, out = 1 + below(std::min<size_t>(most, 24 << below(4)));
    const float zeros = 0.97f * static_cast<float>(below(1000)) / 1000;
    const size_t block = size_t{1} << below(5), kernel = 2 + below(4), pad = kernel / 2 * 2;
    const bool pool = kernel % 2 == 0;
    const Shape shape = {1, pool ? h + kernel - 1 : h + kernel - 1 - pad, pool ? w + kernel - 1 : w, c};
    SCOPED_TRACE(testing::Message() << i << ": " << h << "x" << w << "x" << c << " to " << out << ", kernel " << kernel
                                    << ", " << zeros << " zero in blocks of " << block);
    const std::vector<float> w1 = reals(c * kernel * kernel, 1);
    std::vector<float> w2 = weights_with(out, c, block, zeros);
    for (float& weight : w2) weight *= below(2) == 0 ? 1.f : -1.f;  // most sums stay below the clamp
    const std::vector<float> x = reals(count_of(shape), 2);
    Op first, second;
    make_first({c, kernel, 1, 1}, w1, &first);
    make_second(c, out, 1, 1, w2, &second);
    const qn_tensor in = dense(shape);
    qn_tensor between, y;
    const std::vector<float> middle = run_alone(first, in, x, &between);
    const std::vector<float> expected = run_alone(second, between, middle, &y);
    qn_algorithm algorithm = QN_ALGORITHM_AUTO;
    for (const size_t tasks : {1, 2, 3, 4, 7, 16}) {
      EXPECT_TRUE(same_bits(expected, run_chain(first, second, in, x, tasks, &algorithm))) << tasks << " tasks";
    }
    sparse += algorithm == QN_ALGORITHM_SPARSE;
  }
  EXPECT_GE(sparse, wanted);
}

// ---- bytes

qn_tensor bytes_of(const Shape& shape, float scale, int32_t zero) {
  qn_tensor t;
  EXPECT_QN_OK(qn_tensor_init(&t, QN_S8, static_cast<uint32_t>(shape.size()), shape.data()));
  t.quantization.scale = scale;
  t.quantization.zero_point = zero;
  return t;
}

std::vector<int8_t> drawn_bytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int8_t> list(count);
  for (int8_t& x : list) x = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
  return list;
}

qn_weights weights_of(const std::vector<int8_t>& data, const float* scale) {
  qn_weights w;
  qn_weights_init(&w);
  w.type = QN_S8;
  w.data = data.data();
  w.scales = scale;
  w.scale_count = 1;
  w.bias_type = QN_S32;
  return w;
}

// A layer as above, of bytes; an even kernel is one of average pooling.
void make_first_of_bytes(const Layer& l, const qn_weights& w, qn_operator** op) {
  if (l.kernel % 2 == 0) {
    qn_pool2d_params p;
    qn_pool2d_params_init(&p);
    set_window(l, &p);
    p.type = QN_S8;
    p.kind = QN_POOL_AVERAGE;
    ASSERT_QN_OK(qn_pool2d_create(&p, op));
    return;
  }
  qn_dwconv2d_params p = depthwise(l);
  p.type = QN_S8;
  ASSERT_QN_OK(qn_dwconv2d_create(&p, &w, nullptr, nullptr, op));
}

std::vector<int8_t> run_bytes(const qn_plan* plan, const std::vector<int8_t>& x) {
  qn_tensor out;
  EXPECT_QN_OK(qn_plan_output(plan, 0, &out));
  std::vector<int8_t> y(qn_tensor_bytes(&out));
  const Buffer workspace(qn_plan_workspace_size(plan));
  const void* const inputs[] = {x.data()};
  void* const outputs[] = {y.data()};
  EXPECT_QN_OK(qn_plan_run(plan, inputs, outputs, workspace.data(), workspace.size(), nullptr));
  return y;
}

std::vector<int8_t> run_alone(const qn_operator* op, const qn_tensor& in, const qn_tensor& out,
                              const std::vector<int8_t>& x) {
  qn_plan* plan = nullptr;
  EXPECT_QN_OK(qn_operator_plan(op, &in, 1, &out, 1, nullptr, &plan));
  const std::vector<int8_t> y = run_bytes(plan, x);
  qn_plan_release(plan);
  return y;
}

// The number of rows that the first operator makes of so many.
size_t rows_between(const Layer& l, size_t rows) {
  const size_t padding = l.kernel % 2 == 0 ? 0 : l.kernel / 2 * 2;
  return (rows + padding - l.dilation * (l.kernel - 1) - 1) / l.stride + 1;
}

TEST(Chain, GivesTheSameBitsOfBytes) {
  const struct {
    Layer first;
    Shape in;
    size_t width_between, out;
  } cases[] = {
      {{64, 3, 1, 1}, {1, 112, 133, 64}, 133, 33},
      {{72, 5, 2, 1}, {2, 181, 217, 72}, 109, 40},
      {{80, 3, 1, 2}, {1, 115, 117, 80}, 115, 50},
      {{64, 2, 2, 1}, {1, 250, 249, 64}, 124, 10},
  };
  const float scale = 0.01f;
  for (auto c : cases) {
    c.in[1] = tall_enough(c.in[1], c.first.stride, c.in[0] * c.width_between * c.first.channels);
    const Shape shape_between = {c.in[0], rows_between(c.first, c.in[1]), c.width_between, c.first.channels};
    SCOPED_TRACE(testing::Message() << c.first.channels << " channels, kernel " << c.first.kernel);
    const std::vector<int8_t> w1 = drawn_bytes(c.first.channels * c.first.kernel * c.first.kernel, 1);
    const std::vector<int8_t> w2 = drawn_bytes(c.first.channels * c.out, 2), x = drawn_bytes(count_of(c.in), 3);
    Op first, second;
    make_first_of_bytes(c.first, weights_of(w1, &scale), &first);
    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.type = QN_S8;
    p.in_channels = c.first.channels;
    p.out_channels = c.out;
    const qn_weights w = weights_of(w2, &scale);
    ASSERT_QN_OK(qn_conv2d_create(&p, &w, nullptr, nullptr, &second));
    const qn_tensor in = bytes_of(c.in, 0.05f, 3), between = bytes_of(shape_between, 0.07f, -11);
    const qn_tensor out = bytes_of({c.in[0], shape_between[1], shape_between[2], c.out}, 0.4f, 5);
    const std::vector<int8_t> expected = run_alone(second, between, out, run_alone(first, in, between, x));
    qn_plan_options options;
    qn_plan_options_init(&options);
    options.between_scale = between.quantization.scale;
    options.between_zero_point = between.quantization.zero_point;
    for (const size_t tasks : {1, 3}) {
      options.tasks = tasks;
      qn_plan* plan = nullptr;
      ASSERT_QN_OK(qn_operator_plan_chain(first, second, &in, &out, &options, &plan));
      EXPECT_EQ(expected, run_bytes(plan, x)) << tasks << " tasks";
      EXPECT_LT(qn_plan_workspace_size(plan), count_of(shape_between) * tasks);
      qn_plan_release(plan);
    }
    qn_plan* plan = nullptr;
    options.between_scale = 0, options.between_zero_point = 0;
    EXPECT_NE(qn_operator_plan_chain(first, second, &in, &out, &options, &plan), QN_OK) << "no scale is given";
    options.between_scale = -1;
    EXPECT_EQ(qn_operator_plan_chain(first, second, &in, &out, &options, &plan), QN_INVALID_ARGUMENT);
  }
}

TEST(Chain, IsRefusedWhereItDoesNotSuit) {
  const std::vector<float> weights = reals(64 * 64, 1);
  Op depthwise, pointwise, grouped, strided;
  make_first({64, 3, 1, 1}, weights, &depthwise);
  make_second(64, 64, 1, 1, weights, &pointwise);
  make_second(64, 64, 2, 1, weights, &grouped);
  make_second(64, 64, 1, 2, weights, &strided);
  const qn_tensor large = dense({1, 112, 112, 64}), small = dense({1, 14, 14, 64}), wrong = dense({1, 112, 112, 63});
  const auto plan = [&](const qn_operator* first, const qn_operator* second, const qn_tensor& in) {
    qn_plan* made = nullptr;
    const qn_status status = qn_operator_plan_chain(first, second, &in, nullptr, nullptr, &made);
    EXPECT_EQ(status == QN_OK, made != nullptr);
    qn_plan_release(made);
    return status;
  };
  EXPECT_EQ(QN_OK, plan(depthwise, pointwise, large));
  EXPECT_EQ(QN_UNSUPPORTED, plan(depthwise, pointwise, small)) << "the cache holds it anyway";
  EXPECT_EQ(QN_UNSUPPORTED, plan(pointwise, depthwise, large));
  EXPECT_EQ(QN_UNSUPPORTED, plan(pointwise, pointwise, large));
  EXPECT_EQ(QN_UNSUPPORTED, plan(depthwise, grouped, large));
  EXPECT_EQ(QN_UNSUPPORTED, plan(depthwise, strided, large));
  EXPECT_EQ(QN_INVALID_ARGUMENT, plan(depthwise, pointwise, wrong));
  EXPECT_EQ(QN_INVALID_ARGUMENT, plan(nullptr, pointwise, large));
}

}  // namespace chain_test
}  // namespace quern::test
