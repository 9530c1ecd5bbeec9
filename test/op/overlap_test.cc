// Buffers of one call that overlap: refused, but for slices that are interleaved and for inputs in their place.
#include <cstring>
#include <limits>

#include "base/memory.h"
#include "base/tensor.h"
#include "harness.h"

namespace quern::test {
namespace overlap_test {

// A tensor somewhere in one array.
struct Place {
  Shape shape;
  size_t at = 0;                    // in elements
  std::vector<size_t> stride = {};  // in elements; empty: dense

  qn_tensor tensor() const {
    qn_tensor t = with_strides(dense(shape));
    for (size_t i = 0; i < stride.size(); ++i) t.stride[i] = stride[i] * sizeof(float);
    return t;
  }
};

struct Overlap {
  std::vector<Place> ins;
  Place out;
  const char* refused = nullptr;  // what the message says; NULL: it is allowed
};

std::vector<float> gather(const std::vector<float>& memory, const Place& place) {
  const qn_tensor t = place.tensor();
  std::vector<float> values;
  std::vector<size_t> index(t.rank, 0);
  for (size_t n = 0; n < count_of(place.shape); ++n) {
    size_t at = place.at;
    for (uint32_t d = 0; d < t.rank; ++d) at += index[d] * t.stride[d] / sizeof(float);
    values.push_back(memory[at]);
    for (uint32_t d = t.rank; d-- > 0 && ++index[d] == t.shape[d];) index[d] = 0;
  }
  return values;
}

// Runs with tensors that lie where the list says, in one array; what is allowed gives what it gives out of place.
void check(const qn_operator* op, const std::vector<Overlap>& list, qn_algorithm algorithm = QN_ALGORITHM_AUTO) {
  for (const Overlap& o : list) {
    SCOPED_TRACE(testing::Message() << "case " << &o - list.data() << ", output at " << o.out.at);
    std::vector<float> memory = reals(4096, 1);
    std::vector<qn_tensor> ins;
    std::vector<const void*> inputs;
    std::vector<Input> apart;
    for (const Place& in : o.ins) {
      ins.push_back(in.tensor());
      inputs.push_back(&memory[in.at]);
      apart.push_back({in.shape, gather(memory, in)});
    }
    const qn_tensor out = o.out.tensor();
    qn_plan_options options;
    qn_plan_options_init(&options);
    options.algorithm = algorithm;
    qn_plan* plan;
    ASSERT_QN_OK(qn_operator_plan(op, ins.data(), ins.size(), &out, 1, &options, &plan));
    const Buffer workspace(qn_plan_workspace_size(plan));
    void* const outputs[] = {&memory[o.out.at]};
    const std::vector<float> before = memory;
    const qn_status status = qn_plan_run(plan, inputs.data(), outputs, workspace.data(), workspace.size(), nullptr);
    qn_plan_release(plan);
    if (o.refused != nullptr) {
      EXPECT_EQ(status, QN_INVALID_ARGUMENT);
      EXPECT_NE(std::string(qn_last_message()).find(o.refused), std::string::npos) << qn_last_message();
      EXPECT_TRUE(same_bits(memory, before)) << "written by a call that was refused";
    } else {
      EXPECT_QN_OK(status);
      EXPECT_TRUE(same_bits(gather(memory, o.out), run(op, apart, {.algorithm = algorithm}).values));
    }
  }
}

const Place rows = {{4, 6}, 100};
// Columns of rows of 16.
Place columns(size_t first, size_t count) { return {{4, count}, 200 + first, {16, 1}}; }

TEST(Overlap, Unary) {
  qn_unary_params p;
  qn_unary_params_init(&p);
  Op op;
  ASSERT_QN_OK(qn_unary_create(&p, &op));
  const char* const words = "input 0 overlaps output 0";
  check(op, {{{rows}, rows},
             {{rows}, {{4, 6}, 124}},
             {{rows}, {{4, 6}, 76}},
             {{rows}, {{4, 6}, 101}, words},
             {{rows}, {{4, 6}, 99}, words},
             {{rows}, {{4, 6}, 123}, words},
             {{rows}, {{4, 6}, 77}, words},
             {{rows}, {{4, 6}, 100, {8, 1}}, words},  // in place, but with other strides
             {{columns(0, 5)}, columns(0, 5)},
             {{columns(0, 5)}, columns(5, 5)},
             {{columns(5, 5)}, columns(0, 5)},
             {{columns(0, 5)}, columns(4, 5), words},
             {{columns(4, 5)}, columns(0, 5), words},
             {{columns(0, 5)}, {{4, 5}, 208, {24, 1}}, words}});
}

TEST(Overlap, Binary) {
  qn_binary_params p;
  qn_binary_params_init(&p);
  p.kind = QN_SUB;
  Op op;
  ASSERT_QN_OK(qn_binary_create(&p, &op));
  const Place other = {{4, 6}, 300}, row = {{6}, 400};
  check(op, {{{rows, other}, rows},
             {{other, rows}, rows},
             {{rows, rows}, rows},
             {{rows, row}, rows},
             {{row, rows}, rows},
             {{rows, {{4, 6}, 101}}, rows, "input 1 overlaps output 0"},
             {{{{4, 6}, 94}, rows}, rows, "input 0 overlaps output 0"},
             {{{{6}, 100}, other}, rows, "input 0 overlaps output 0"},  // in place, but repeated
             {{other, {{1, 6}, 118}}, rows, "input 1 overlaps output 0"}});
}

TEST(Overlap, Channel) {
  qn_channel_params p;
  qn_channel_params_init(&p);
  p.channels = 6;
  const std::vector<float> slope = reals(6, 2);
  Op op;
  ASSERT_QN_OK(qn_prelu_create(&p, slope.data(), &op));
  check(op, {{{rows}, rows}, {{rows}, {{4, 6}, 106}, "input 0 overlaps output 0"}});
}

TEST(Overlap, Convolution) {
  for (const qn_algorithm algorithm : {QN_ALGORITHM_IGEMM, QN_ALGORITHM_DIRECT, QN_ALGORITHM_WINOGRAD}) {
    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.in_channels = p.out_channels = 4;
    p.kernel = {3, 3};
    p.padding = {1, 1, 1, 1};
    const std::vector<float> weights = reals(144, 2);
    qn_weights w;
    qn_weights_init(&w);
    w.data = weights.data();
    Op op;
    ASSERT_QN_OK(qn_conv2d_create(&p, &w, nullptr, nullptr, &op));
    const Shape shape = {1, 5, 7, 4};
    const auto channels = [&](size_t first) { return Place{shape, 500 + first, {5 * 7 * 12, 7 * 12, 12, 1}}; };
    check(op,
          {{{{shape, 0}}, {shape, 0}, "input 0 overlaps output 0"},
           {{{shape, 0}}, {shape, 139}, "input 0 overlaps output 0"},
           {{{shape, 0}}, {shape, 140}},
           {{channels(0)}, channels(4)},
           {{channels(8)}, channels(0)},
           {{channels(0)}, channels(3), "input 0 overlaps output 0"},
           {{{shape, 0}, {shape, 2000}}, {shape, 2001}, "input 1 overlaps output 0"},
           {{channels(0), channels(8)}, channels(4)}},
          algorithm);
  }
}

TEST(Overlap, Softmax) {
  qn_softmax_params p;
  qn_softmax_params_init(&p);
  Op op;
  ASSERT_QN_OK(qn_softmax_create(&p, &op));
  check(op, {{{rows}, rows, "input 0 overlaps output 0"}, {{rows}, {{4, 6}, 200}}});
}

TEST(Overlap, ConcatAndSlice) {
  qn_concat_params concat;
  qn_concat_params_init(&concat);
  Op join;
  ASSERT_QN_OK(qn_concat_create(&concat, &join));
  const Place whole = columns(0, 10), elsewhere = {{4, 5}, 1000};
  check(join, {{{columns(0, 5), columns(5, 5)}, whole},
               {{elsewhere, columns(5, 5)}, whole},
               {{columns(0, 5), elsewhere}, whole},
               {{columns(5, 5), columns(0, 5)}, whole, "input 0 overlaps output 0"},
               {{columns(0, 5), columns(4, 5)}, whole, "input 1 overlaps output 0"},
               {{{{4, 5}, 200}, elsewhere}, whole, "input 0 overlaps output 0"}});  // there, but with other strides
  qn_slice_params slice;
  qn_slice_params_init(&slice);
  slice.rank = 2;
  slice.begin[1] = 3;
  Op cut;
  ASSERT_QN_OK(qn_slice_create(&slice, &cut));
  check(cut, {{{whole}, columns(3, 7)},
              {{whole}, columns(2, 7), "input 0 overlaps output 0"},
              {{whole}, {{4, 7}, 203}, "input 0 overlaps output 0"},
              {{{{4, 10}, 0}}, {{4, 7}, 40}}});
}

TEST(Overlap, Transpose) {
  qn_transpose_params p;
  qn_transpose_params_init(&p);
  p.rank = 2;
  p.permutation[0] = 1;
  Op op;
  ASSERT_QN_OK(qn_transpose_create(&p, &op));
  const Place square = {{5, 5}, 100};
  check(op, {{{square}, square, "input 0 overlaps output 0"}, {{square}, {{5, 5}, 125}}});
}

TEST(Overlap, Workspace) {
  qn_lrn_params p;
  qn_lrn_params_init(&p);
  Op op;
  ASSERT_QN_OK(qn_lrn_create(&p, &op));
  const qn_tensor tensor = dense({2, 16});
  qn_plan* plan;
  ASSERT_QN_OK(qn_operator_plan(op, &tensor, 1, nullptr, 0, nullptr, &plan));
  const size_t size = qn_plan_workspace_size(plan) / sizeof(float);
  ASSERT_GT(size, 0u);
  ASSERT_LE(size, 256u);
  alignas(64) float memory[1024] = {};
  const auto refused = [&](size_t input, size_t output, const char* words) {
    const void* inputs[] = {memory + input};
    void* outputs[] = {memory + output};
    EXPECT_EQ(qn_plan_run(plan, inputs, outputs, memory + 256, 256 * sizeof(float), nullptr), QN_INVALID_ARGUMENT);
    EXPECT_NE(std::string(qn_last_message()).find(words), std::string::npos) << qn_last_message();
  };
  refused(256 - 31, 800, "input 0 overlaps workspace");
  refused(256 + size - 1, 800, "input 0 overlaps workspace");
  refused(0, 256 - 31, "workspace overlaps output 0");
  const void* inputs[] = {memory + 256 - 32};
  void* outputs[] = {memory + 256 + size};
  EXPECT_QN_OK(qn_plan_run(plan, inputs, outputs, memory + 256, 256 * sizeof(float), nullptr));
  qn_plan_release(plan);
}

TEST(Overlap, Matrices) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> memory = reals(400, 1);
  const auto refused = [&](qn_status status, const char* words) {
    EXPECT_EQ(status, QN_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(qn_last_message()), words);
  };
  float *const a = memory.data(), *const b = a + 100, *const bias = a + 200, *const c = a + 300;
  const auto gemm = [&](const float* from, const float* bias_at, float* to) {
    return qn_gemm_f32(4, 4, 4, from, 8, b, 4, 0, bias_at, -infinity, infinity, to, 8, nullptr);
  };
  refused(gemm(a, bias, a), "qn_gemm_f32: a overlaps c");
  refused(gemm(a, bias, a + 3), "qn_gemm_f32: a overlaps c");
  refused(gemm(a, bias, b + 15), "qn_gemm_f32: b overlaps c");
  refused(gemm(a, c + 3, c), "qn_gemm_f32: bias overlaps c");
  EXPECT_QN_OK(gemm(a, c + 4, c));
  ASSERT_QN_OK(gemm(a, bias, c));
  ASSERT_QN_OK(gemm(a, bias, a + 4));  // the other half of A's rows
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(std::memcmp(a + 8 * i + 4, c + 8 * i, 16), 0);

  qn_weights w;
  qn_weights_init(&w);
  const std::vector<float> weights = reals(16, 2);
  w.data = weights.data();
  const auto spmm = [&](const float* bias_at, float* to) {
    return qn_spmm_f32(4, 4, 4, &w, b, 8, bias_at, -infinity, infinity, to, 8, nullptr);
  };
  refused(spmm(bias, b + 1), "qn_spmm_f32: b overlaps c");
  refused(spmm(c + 1, c), "qn_spmm_f32: bias overlaps c");
  ASSERT_QN_OK(spmm(bias, c));
  ASSERT_QN_OK(spmm(bias, b + 4));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(std::memcmp(b + 8 * i + 4, c + 8 * i, 16), 0);
}

}  // namespace overlap_test
}  // namespace quern::test
