// Tensors without elements: operators do nothing and succeed; and random operators of random sizes, 0 among them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/tensor.h"
#include "harness.h"

namespace quern::test {
namespace empty_test {

constexpr float infinity = std::numeric_limits<float>::infinity();

const std::vector<float> numbers = reals(4096, 7);

std::vector<qn_tensor> tensors_of(const std::vector<Shape>& shapes) {
  std::vector<qn_tensor> tensors;
  for (const Shape& shape : shapes) tensors.push_back(dense(shape));
  return tensors;
}

Shape shape_of(const qn_tensor& tensor) { return {tensor.shape, tensor.shape + tensor.rank}; }

// Plans for inputs of these shapes, lets the plan run without buffers for what is empty, and checks the output.
void expect_empty(const qn_operator* op, const std::vector<Shape>& shapes, const Shape& expected) {
  const std::vector<qn_tensor> ins = tensors_of(shapes);
  SCOPED_TRACE(testing::PrintToString(shapes));
  qn_plan* plan;
  ASSERT_QN_OK(qn_operator_plan(op, ins.data(), ins.size(), nullptr, 0, nullptr, &plan));
  qn_tensor out;
  ASSERT_QN_OK(qn_plan_output(plan, 0, &out));
  EXPECT_EQ(shape_of(out), expected);
  EXPECT_EQ(qn_tensor_bytes(&out), 0u);
  EXPECT_EQ(qn_plan_workspace_size(plan), 0u);
  EXPECT_EQ(qn_plan_algorithm(plan), QN_ALGORITHM_AUTO);
  EXPECT_EQ(qn_plan_macs(plan), 0u);
  std::vector<const void*> inputs;
  for (const qn_tensor& in : ins) inputs.push_back(is_empty(in) ? nullptr : numbers.data());
  void* output = nullptr;
  EXPECT_QN_OK(qn_plan_run(plan, inputs.data(), &output, nullptr, 0, nullptr));
  qn_plan_release(plan);
  // What the plan describes can be given to another one.
  ASSERT_QN_OK(qn_operator_plan(op, ins.data(), ins.size(), &out, 1, nullptr, &plan));
  qn_plan_release(plan);
}

void expect_refused(const qn_operator* op, const std::vector<Shape>& shapes, const char* words) {
  const std::vector<qn_tensor> ins = tensors_of(shapes);
  qn_plan* plan;
  EXPECT_EQ(qn_operator_plan(op, ins.data(), ins.size(), nullptr, 0, nullptr, &plan), QN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(qn_last_message()).find(words), std::string::npos) << qn_last_message();
}

qn_weights some_weights() {
  qn_weights weights;
  qn_weights_init(&weights);
  weights.data = numbers.data();
  return weights;
}

template <class Params, class Set>
Params params_of(void (*init)(Params*), const Set& set) {
  Params p;
  init(&p);
  set(p);
  return p;
}

TEST(Empty, Products) {
  const qn_weights weights = some_weights();
  {
    const auto p = params_of(qn_conv2d_params_init, [](qn_conv2d_params& c) {
      c.in_channels = 4, c.out_channels = 6, c.kernel = {3, 3}, c.padding = {2, 2, 2, 2};
    });
    Op op;
    ASSERT_QN_OK(qn_conv2d_create(&p, &weights, nullptr, nullptr, &op));
    expect_empty(op, {{0, 5, 5, 4}}, {0, 7, 7, 6});
    expect_empty(op, {{0, 5, 5, 4}, {0, 7, 7, 6}}, {0, 7, 7, 6});
    expect_refused(op, {{1, 0, 5, 4}}, "conv2d: input 0 has no elements, but the output has");
  }
  {
    const auto p = params_of(qn_dwconv2d_params_init, [](qn_dwconv2d_params& c) { c.channels = 8, c.kernel = {3, 3}; });
    Op op;
    ASSERT_QN_OK(qn_dwconv2d_create(&p, &weights, nullptr, nullptr, &op));
    expect_empty(op, {{0, 5, 5, 8}}, {0, 3, 3, 8});
    expect_refused(op, {{1, 0, 5, 8}}, "height 0 of the input with padding is smaller than the window's 3");
  }
  {
    const auto p = params_of(qn_fully_connected_params_init,
                             [](qn_fully_connected_params& c) { c.in_channels = 4, c.out_channels = 6; });
    Op op;
    ASSERT_QN_OK(qn_fully_connected_create(&p, &weights, nullptr, nullptr, &op));
    expect_empty(op, {{0, 4}}, {0, 6});
    expect_empty(op, {{2, 0, 3, 4}}, {2, 0, 3, 6});
  }
}

TEST(Empty, ChainsAndResiduals) {
  const qn_weights weights = some_weights();
  const auto depthwise = params_of(qn_dwconv2d_params_init, [](qn_dwconv2d_params& c) {
    c.channels = 8, c.kernel = {3, 3};
  });
  const auto pointwise =
      params_of(qn_conv2d_params_init, [](qn_conv2d_params& c) { c.in_channels = 8, c.out_channels = 4; });
  Op first, second;
  ASSERT_QN_OK(qn_dwconv2d_create(&depthwise, &weights, nullptr, nullptr, &first));
  ASSERT_QN_OK(qn_conv2d_create(&pointwise, &weights, nullptr, nullptr, &second));
  const qn_tensor in = dense({0, 100, 100, 8});
  qn_plan* plan;
  ASSERT_QN_OK(qn_operator_plan_chain(first, second, &in, nullptr, nullptr, &plan));
  qn_tensor out;
  ASSERT_QN_OK(qn_plan_output(plan, 0, &out));
  EXPECT_EQ(shape_of(out), (Shape{0, 98, 98, 4}));
  const void* input = nullptr;
  void* output = nullptr;
  EXPECT_QN_OK(qn_plan_run(plan, &input, &output, nullptr, 0, nullptr));
  qn_plan_release(plan);
}

TEST(Empty, Pooling) {
  for (const qn_pool_kind kind : {QN_POOL_MAX, QN_POOL_AVERAGE}) {
    auto p = params_of(qn_pool2d_params_init, [&](qn_pool2d_params& c) { c.kind = kind, c.kernel = {2, 2}; });
    p.padding = {1, 1, 1, 1};
    Op op, global;
    ASSERT_QN_OK(qn_pool2d_create(&p, &op));
    expect_empty(op, {{0, 4, 4, 3}}, {0, 5, 5, 3});
    expect_empty(op, {{2, 4, 4, 0}}, {2, 5, 5, 0});
    expect_refused(op, {{2, 4, 0, 3}}, "pool2d: input 0 has no elements, but the output has");
    p.global = 1;
    ASSERT_QN_OK(qn_pool2d_create(&p, &global));
    expect_empty(global, {{0, 4, 4, 3}}, {0, 1, 1, 3});
    expect_empty(global, {{0, 0, 4, 3}}, {0, 1, 1, 3});
    expect_refused(global, {{2, 0, 4, 3}}, "pool2d: input 0 has no elements, but the output has");
  }
}

TEST(Empty, Elements) {
  for (const qn_binary_kind kind : {QN_ADD, QN_DIV}) {
    const auto p = params_of(qn_binary_params_init, [&](qn_binary_params& c) { c.kind = kind; });
    Op op;
    ASSERT_QN_OK(qn_binary_create(&p, &op));
    expect_empty(op, {{0, 3}, {0, 3}}, {0, 3});
    expect_empty(op, {{0, 3}, {1, 1}}, {0, 3});
    expect_empty(op, {{1, 1}, {2, 0}}, {2, 0});
    expect_empty(op, {{}, {0}}, {0});
    expect_refused(op, {{0, 3}, {2, 3}}, "do not broadcast");
  }
  {
    const auto p = params_of(qn_unary_params_init, [](qn_unary_params&) {});
    Op op;
    ASSERT_QN_OK(qn_unary_create(&p, &op));
    expect_empty(op, {{0}}, {0});
    expect_empty(op, {{2, 0, 5, 3}}, {2, 0, 5, 3});
  }
  {
    const auto p = params_of(qn_channel_params_init, [](qn_channel_params& c) { c.channels = 3; });
    Op prelu, scale, norm;
    ASSERT_QN_OK(qn_prelu_create(&p, numbers.data(), &prelu));
    ASSERT_QN_OK(qn_scale_create(&p, numbers.data(), numbers.data(), &scale));
    const float ones[] = {1, 1, 1};
    ASSERT_QN_OK(qn_batch_norm_create(&p, numbers.data(), ones, nullptr, nullptr, 0, &norm));
    for (const qn_operator* op : {prelu.handle, scale.handle, norm.handle}) {
      expect_empty(op, {{0, 3}}, {0, 3});
      expect_empty(op, {{2, 0, 5, 3}}, {2, 0, 5, 3});
    }
  }
  {
    const auto p = params_of(qn_softmax_params_init, [](qn_softmax_params&) {});
    Op op;
    ASSERT_QN_OK(qn_softmax_create(&p, &op));
    expect_empty(op, {{0, 5}}, {0, 5});
    expect_empty(op, {{5, 0}}, {5, 0});
  }
  {
    const auto p = params_of(qn_lrn_params_init, [](qn_lrn_params&) {});
    Op op;
    ASSERT_QN_OK(qn_lrn_create(&p, &op));
    expect_empty(op, {{0, 5}}, {0, 5});
    expect_empty(op, {{2, 3, 0}}, {2, 3, 0});
  }
}

TEST(Empty, Quantized) {
  const auto p = params_of(qn_quantize_params_init, [](qn_quantize_params&) {});
  Op op;
  ASSERT_QN_OK(qn_quantize_create(&p, &op));
  const qn_tensor in = dense({0, 5});
  qn_tensor out = in;
  out.type = QN_S8;
  std::fill_n(out.stride, 2, 0);
  out.quantization.scale = 0.5f;
  qn_plan* plan;
  ASSERT_QN_OK(qn_operator_plan(op, &in, 1, &out, 1, nullptr, &plan));
  const void* input = nullptr;
  void* output = nullptr;
  EXPECT_QN_OK(qn_plan_run(plan, &input, &output, nullptr, 0, nullptr));
  qn_plan_release(plan);
}

TEST(Empty, Moves) {
  {
    const auto p = params_of(qn_transpose_params_init, [](qn_transpose_params& c) {
      c.rank = 3, c.permutation[0] = 2, c.permutation[1] = 0, c.permutation[2] = 1;
    });
    Op op;
    ASSERT_QN_OK(qn_transpose_create(&p, &op));
    expect_empty(op, {{2, 0, 3}}, {3, 2, 0});
  }
  {
    const auto p =
        params_of(qn_slice_params_init, [](qn_slice_params& c) { c.rank = 2, c.begin[1] = 1, c.end[1] = 3; });
    Op op;
    ASSERT_QN_OK(qn_slice_create(&p, &op));
    expect_empty(op, {{0, 5}}, {0, 2});
    expect_refused(op, {{2, 0}}, "range 1 to 3 does not fit dimension 1 of size 0");
  }
  {
    const auto p = params_of(qn_slice_params_init, [](qn_slice_params& c) { c.rank = 2, c.begin[1] = c.end[1] = 5; });
    Op op;
    ASSERT_QN_OK(qn_slice_create(&p, &op));
    expect_empty(op, {{2, 5}}, {2, 0});
  }
  for (const qn_resize_kind kind : {QN_RESIZE_NEAREST, QN_RESIZE_BILINEAR}) {
    auto p = params_of(qn_resize2d_params_init, [&](qn_resize2d_params& c) { c.kind = kind, c.size = {7, 7}; });
    Op op, scaled;
    ASSERT_QN_OK(qn_resize2d_create(&p, &op));
    expect_empty(op, {{0, 4, 4, 3}}, {0, 7, 7, 3});
    expect_empty(op, {{2, 4, 4, 0}}, {2, 7, 7, 0});
    expect_refused(op, {{2, 0, 4, 3}}, "input 0 has no elements, but the output has");
    p.size = {0, 0};
    ASSERT_QN_OK(qn_resize2d_create(&p, &scaled));
    expect_refused(scaled, {{2, 0, 4, 3}}, "height 0 would become 0");
  }
}

TEST(Empty, ConcatLeavesOutInputs) {
  const auto p = params_of(qn_concat_params_init, [](qn_concat_params& c) { c.axis = 1; });
  Op op;
  ASSERT_QN_OK(qn_concat_create(&p, &op));
  expect_empty(op, {{2, 0}, {2, 0}}, {2, 0});
  expect_empty(op, {{0, 2}, {0, 3}}, {0, 5});
  for (const size_t tasks : {size_t{1}, size_t{4}}) {
    const Result r = run(op, {{{2, 0}, {}}, {{2, 2}, {1, 2, 3, 4}}, {{2, 0}, {}}, {{2, 1}, {5, 6}}},
                         {.tasks = tasks, .in_gap = 1, .out_gap = 2});
    ASSERT_EQ(r.status, QN_OK) << r.message;
    EXPECT_EQ(r.values, (std::vector<float>{1, 2, 5, 3, 4, 6}));
  }
}

TEST(Empty, PadFills) {
  auto p = params_of(qn_pad_params_init, [](qn_pad_params& c) { c.rank = 2, c.value = 3; });
  p.before[0] = 2, p.after[1] = 1;
  Op op;
  ASSERT_QN_OK(qn_pad_create(&p, &op));
  for (const size_t tasks : {size_t{1}, size_t{4}}) {
    const Options options = {.tasks = tasks, .in_gap = 1, .out_gap = 2};
    const Result none = run(op, {{{0, 0}, {}}}, options), rows = run(op, {{{0, 2}, {}}}, options);
    ASSERT_EQ(none.status, QN_OK) << none.message;
    EXPECT_EQ(none.shape, (Shape{2, 1}));
    EXPECT_EQ(none.values, (std::vector<float>{3, 3}));
    EXPECT_EQ(rows.values, (std::vector<float>(6, 3)));
    EXPECT_EQ(run(op, {{{1, 0}, {}}}, options).values, (std::vector<float>(3, 3)));
  }
  const auto nothing = params_of(qn_pad_params_init, [](qn_pad_params& c) { c.rank = 2; });
  Op same;
  ASSERT_QN_OK(qn_pad_create(&nothing, &same));
  expect_empty(same, {{0, 2}}, {0, 2});
}

TEST(Empty, ProductsWithoutDepthAreTheBias) {
  const float bias[] = {-2, 5, 0.5f}, scales[] = {0.5f, 0.25f, 2};
  const std::vector<float> clamped = {-1, 3, 0.5f, -1, 3, 0.5f}, zeros(6);
  std::vector<float> c(6, 9);
  const auto of_floats = [&](const float* b) {
    return qn_gemm_f32(2, 3, 0, nullptr, 0, nullptr, 3, 0, b, -1, 3, c.data(), 3, nullptr);
  };
  ASSERT_QN_OK(of_floats(bias));
  EXPECT_EQ(c, clamped);
  ASSERT_QN_OK(of_floats(nullptr));
  EXPECT_EQ(c, zeros);
  for (const auto gemm : {qn_gemm_qd8, qn_gemm_qw8}) {
    ASSERT_QN_OK(gemm(2, 3, 0, nullptr, 0, nullptr, 3, 0, scales, 3, 0, bias, -1, 3, c.data(), 3, nullptr));
    EXPECT_EQ(c, clamped);
  }
  qn_weights a = some_weights();
  a.data = nullptr;
  ASSERT_QN_OK(qn_spmm_f32(3, 2, 0, &a, nullptr, 2, bias, -1, 3, c.data(), 2, nullptr));
  EXPECT_EQ(c, (std::vector<float>{-1, -1, 3, 3, 0.5f, 0.5f}));
  // round(bias * a_scale * scale / c_scale) + 10, at most 3 / 0.5 + 10
  const int32_t sums[] = {-7, 5, 100};
  std::vector<int8_t> bytes(6, 99);
  const auto of_bytes = [&](const int32_t* b) {
    return qn_gemm_qs8(2, 3, 0, nullptr, 0, 0.5f, -3, nullptr, 3, 0, scales, 3, b, -infinity, 3, bytes.data(), 3, 0.5f,
                       10, nullptr);
  };
  ASSERT_QN_OK(of_bytes(sums));
  EXPECT_EQ(bytes, (std::vector<int8_t>{6, 11, 16, 6, 11, 16}));
  ASSERT_QN_OK(of_bytes(nullptr));
  EXPECT_EQ(bytes, (std::vector<int8_t>(6, 10)));
}

// ---- random operators

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  size_t below(size_t count) { return engine_() % count; }
  bool one_of(size_t count) { return below(count) == 0; }
  // A size: mostly small, every eighth 0.
  size_t size(size_t most) { return one_of(8) ? 0 : 1 + below(most); }
  Shape shape(size_t rank, size_t most) {
    Shape shape(rank);
    for (size_t& d : shape) d = size(most);
    return shape;
  }

 private:
  std::mt19937 engine_;
};

struct Case {
  Op op;
  qn_status created = QN_OK;
  std::vector<Shape> shapes;
};

qn_hw pair(Random& random, size_t least, size_t count) {
  return {least + random.below(count), least + random.below(count)};
}
qn_padding padding(Random& random) { return {random.below(3), random.below(3), random.below(3), random.below(3)}; }

void make_conv(Random& random, Case* c) {
  const qn_weights weights = some_weights();
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.groups = random.one_of(4) ? 2 : 1;
  p.in_channels = p.groups * (1 + random.below(9)), p.out_channels = p.groups * (1 + random.below(9));
  p.kernel = pair(random, 1, 3), p.stride = pair(random, 1, 2), p.dilation = pair(random, 1, 2);
  p.padding = padding(random);
  c->created = qn_conv2d_create(&p, &weights, random.one_of(2) ? numbers.data() : nullptr, nullptr, &c->op);
  c->shapes = {{random.size(3), random.size(9), random.size(9), p.in_channels}};
}

void make_depthwise(Random& random, Case* c) {
  const qn_weights weights = some_weights();
  qn_dwconv2d_params p;
  qn_dwconv2d_params_init(&p);
  p.channels = 1 + random.below(20), p.multiplier = 1 + random.below(2);
  p.kernel = pair(random, 1, 5), p.stride = pair(random, 1, 2), p.dilation = pair(random, 1, 2);
  p.padding = padding(random);
  c->created = qn_dwconv2d_create(&p, &weights, nullptr, nullptr, &c->op);
  c->shapes = {{random.size(3), random.size(9), random.size(9), p.channels}};
}

void make_fully_connected(Random& random, Case* c) {
  const qn_weights weights = some_weights();
  qn_fully_connected_params p;
  qn_fully_connected_params_init(&p);
  p.in_channels = random.size(20), p.out_channels = random.size(20);
  c->created = qn_fully_connected_create(&p, &weights, nullptr, nullptr, &c->op);
  c->shapes = {random.shape(1 + random.below(3), 5)};
  c->shapes[0].back() = p.in_channels;
}

void make_pool(Random& random, Case* c) {
  qn_pool2d_params p;
  qn_pool2d_params_init(&p);
  p.kind = random.one_of(2) ? QN_POOL_MAX : QN_POOL_AVERAGE;
  p.global = random.one_of(3), p.ceil_mode = random.one_of(2), p.count_padding = random.one_of(2);
  p.kernel = pair(random, 1, 4), p.stride = pair(random, 1, 3), p.dilation = pair(random, 1, 2);
  p.padding = padding(random);
  c->created = qn_pool2d_create(&p, &c->op);
  c->shapes = {random.shape(4, 9)};
}

void make_binary(Random& random, Case* c) {
  qn_binary_params p;
  qn_binary_params_init(&p);
  p.kind = static_cast<qn_binary_kind>(random.below(4));
  c->created = qn_binary_create(&p, &c->op);
  c->shapes = {random.shape(random.below(5), 6), {}};
  c->shapes[1] = c->shapes[0];
  for (Shape& shape : c->shapes) {
    for (size_t& d : shape) d = random.one_of(4) ? 1 : d;
    if (!shape.empty() && random.one_of(4)) shape.erase(shape.begin());
  }
}

void make_unary(Random& random, Case* c) {
  qn_unary_params p;
  qn_unary_params_init(&p);
  p.kind = static_cast<qn_unary_kind>(random.below(6));
  p.beta = 1;
  c->created = qn_unary_create(&p, &c->op);
  c->shapes = {random.shape(random.below(6), 6)};
}

void make_channel(Random& random, Case* c) {
  qn_channel_params p;
  qn_channel_params_init(&p);
  p.channels = random.size(20);
  c->created = random.one_of(2) ? qn_prelu_create(&p, numbers.data(), &c->op)
                                : qn_scale_create(&p, numbers.data(), numbers.data(), &c->op);
  c->shapes = {random.shape(1 + random.below(4), 6)};
  c->shapes[0].back() = p.channels;
}

void make_softmax(Random& random, Case* c) {
  qn_softmax_params p;
  qn_softmax_params_init(&p);
  c->shapes = {random.shape(1 + random.below(4), 20)};
  p.axis = static_cast<int>(random.below(c->shapes[0].size()));
  c->created = qn_softmax_create(&p, &c->op);
}

void make_concat(Random& random, Case* c) {
  qn_concat_params p;
  qn_concat_params_init(&p);
  const Shape first = random.shape(1 + random.below(4), 6);
  const size_t axis = random.below(first.size());
  p.axis = static_cast<int>(axis);
  c->created = qn_concat_create(&p, &c->op);
  c->shapes.assign(1 + random.below(4), first);
  for (Shape& shape : c->shapes) shape[axis] = random.size(6);
}

void make_lrn(Random& random, Case* c) {
  qn_lrn_params p;
  qn_lrn_params_init(&p);
  p.size = random.size(9);
  c->created = qn_lrn_create(&p, &c->op);
  c->shapes = {random.shape(1 + random.below(4), 20)};
}

void make_pad(Random& random, Case* c) {
  qn_pad_params p;
  qn_pad_params_init(&p);
  c->shapes = {random.shape(random.below(5), 6)};
  p.rank = static_cast<uint32_t>(c->shapes[0].size());
  for (uint32_t d = 0; d < p.rank; ++d) p.before[d] = random.below(3), p.after[d] = random.below(3);
  c->created = qn_pad_create(&p, &c->op);
}

void make_resize(Random& random, Case* c) {
  qn_resize2d_params p;
  qn_resize2d_params_init(&p);
  p.kind = random.one_of(2) ? QN_RESIZE_NEAREST : QN_RESIZE_BILINEAR;
  p.coordinates = static_cast<qn_resize_coordinates>(random.below(4));
  if (random.one_of(2)) p.size = pair(random, 1, 9);
  p.scale_h = 0.4f * static_cast<float>(1 + random.below(6)), p.scale_w = 1.5f;
  c->created = qn_resize2d_create(&p, &c->op);
  c->shapes = {random.shape(4, 7)};
}

void make_transpose(Random& random, Case* c) {
  qn_transpose_params p;
  qn_transpose_params_init(&p);
  c->shapes = {random.shape(1 + random.below(5), 7)};
  p.rank = static_cast<uint32_t>(c->shapes[0].size());
  for (uint32_t d = 0; d < p.rank; ++d) p.permutation[d] = d;
  for (uint32_t d = 1; d < p.rank; ++d) std::swap(p.permutation[d], p.permutation[random.below(d + 1)]);
  c->created = qn_transpose_create(&p, &c->op);
}

void make_slice(Random& random, Case* c) {
  qn_slice_params p;
  qn_slice_params_init(&p);
  c->shapes = {random.shape(1 + random.below(4), 7)};
  p.rank = static_cast<uint32_t>(c->shapes[0].size());
  for (uint32_t d = 0; d < p.rank; ++d) {
    p.begin[d] = random.below(3);
    if (random.one_of(2)) p.end[d] = random.below(8);
    if (random.one_of(8)) p.begin[d] = SIZE_MAX - random.below(8);
  }
  c->created = qn_slice_create(&p, &c->op);
}

constexpr void (*makers[])(Random&, Case*) = {
    make_conv,  make_depthwise, make_fully_connected, make_pool,   make_binary,
    make_unary, make_channel,   make_softmax,         make_concat, make_lrn,
    make_pad,   make_resize,    make_transpose,       make_slice};

// Every case is refused or runs, within its buffers. With a sanitizer this also finds what is read outside of them.
TEST(Empty, RandomOperators) {
  constexpr size_t cases = 60000;
  size_t ran = 0, empty = 0, refused = 0;
  for (size_t i = 0; i < cases && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    Random random(static_cast<uint32_t>(i));
    Case c;
    makers[i % std::size(makers)](random, &c);
    if (c.created != QN_OK) {
      ++refused;
      continue;
    }
    std::vector<Input> inputs;
    for (const Shape& shape : c.shapes) inputs.push_back({shape, reals(count_of(shape), static_cast<uint32_t>(i))});
    Options options = {.tasks = 1 + random.below(3), .in_gap = random.below(3), .out_gap = random.below(3)};
    const bool images = c.shapes.size() == 1 && c.shapes[0].size() == 4;
    if (images && random.one_of(4)) options.in_layout = options.out_layout = QN_LAYOUT_PIXEL_BLOCKED;
    const Result r = run(c.op, inputs, options);
    if (r.status == QN_OK) ++(count_of(r.shape) == 0 ? empty : ran);
    if (r.status != QN_OK) ++refused;
    EXPECT_TRUE(r.status == QN_OK || r.status == QN_INVALID_ARGUMENT || r.status == QN_UNSUPPORTED) << r.message;
  }
  EXPECT_GT(ran, cases / 4);
  EXPECT_GT(empty, cases / 8);
  EXPECT_GT(refused, cases / 20);
}

}  // namespace empty_test
}  // namespace quern::test
