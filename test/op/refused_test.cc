// Every argument that is refused, with the status and what the message must name.
#include <cmath>
#include <cstring>
#include <limits>

#include "harness.h"

namespace quern::test {
namespace refused_test {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr size_t huge = SIZE_MAX / 2;

// What a refused call must leave behind.
void expect_refused(qn_status status, qn_status expected, const std::string& words, const qn_operator* op) {
  EXPECT_EQ(status, expected) << qn_last_message();
  EXPECT_EQ(op, nullptr) << "a refused call made an operator";
  EXPECT_NE(std::string(qn_last_message()).find(words), std::string::npos) << qn_last_message();
}

template <class Params>
struct Refused {
  const char* words;
  void (*change)(Params&);
  qn_status status = QN_INVALID_ARGUMENT;
};

// Valid parameters are accepted; each change alone is refused, and so are the arguments all create calls share.
template <class Params>
void check_params(const std::string& name, const Params& valid, const std::vector<Refused<Params>>& list,
                  const std::function<qn_status(const Params*, qn_operator**)>& create, bool any_type = false,
                  qn_type other = QN_S8) {
  SCOPED_TRACE(name);
  qn_operator* op = nullptr;
  ASSERT_QN_OK(create(&valid, &op));
  qn_operator_release(op);
  const auto refused = [&](const char* words, qn_status status, const Params* params) {
    op = nullptr;
    expect_refused(create(params, &op), status, words, op);
    EXPECT_EQ(std::string(qn_last_message()).find(name), 0u) << qn_last_message();
  };
  for (const Refused<Params>& r : list) {
    Params p = valid;
    r.change(p);
    refused(r.words, r.status, &p);
  }
  Params p = valid;
  p.struct_size = 0;
  refused("struct_size", QN_INVALID_ARGUMENT, &p);
  p = valid;
  p.type = other;
  const std::string only = std::string("type ").append(qn_type_string(other)).append("; only QN_F32");
  if (!any_type) refused(only.c_str(), QN_UNSUPPORTED, &p);
  p.type = static_cast<qn_type>(99);
  refused("type", QN_INVALID_ARGUMENT, &p);
  refused("NULL", QN_INVALID_ARGUMENT, nullptr);
  EXPECT_EQ(create(&valid, nullptr), QN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(qn_last_message()).find("op is NULL"), std::string::npos);
}

// The clamp that many operators have.
template <class Params>
std::vector<Refused<Params>> with_clamp(std::vector<Refused<Params>> list) {
  list.push_back({"min 2", [](Params& p) { p.min = 2, p.max = 1; }});
  list.push_back({"min", [](Params& p) { p.min = std::nanf(""); }});
  list.push_back({"max", [](Params& p) { p.max = std::nanf(""); }});
  return list;
}

const float weights_data[1024] = {};

qn_weights some_weights() {
  qn_weights w;
  qn_weights_init(&w);
  w.data = weights_data;
  return w;
}

template <class Params>
std::vector<Refused<Params>> window_refusals() {
  return {
      {"kernel is 0", [](Params& p) { p.kernel.h = 0; }},
      {"kernel is 0", [](Params& p) { p.kernel.w = 0; }},
      {"stride is 0", [](Params& p) { p.stride.h = 0; }},
      {"stride is 0", [](Params& p) { p.stride.w = 0; }},
      {"dilation is 0", [](Params& p) { p.dilation.h = 0; }},
      {"dilation is 0", [](Params& p) { p.dilation.w = 0; }},
      {"kernel is", [](Params& p) { p.kernel.h = huge; }},
      {"stride is", [](Params& p) { p.stride.w = huge; }},
      {"padding before is", [](Params& p) { p.padding.left = huge; }},
      {"padding after is", [](Params& p) { p.padding.bottom = huge; }},
      {"dilation", [](Params& p) { p.kernel.h = 1 << 20, p.dilation.h = 1 << 20; }},
  };
}

TEST(Refused, Conv2d) {
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = 4;
  p.out_channels = 8;
  p.groups = 2;
  p.kernel = {3, 3};
  auto list = with_clamp(window_refusals<qn_conv2d_params>());
  list.push_back({"in_channels is 0", [](auto& q) { q.in_channels = 0; }});
  list.push_back({"out_channels is 0", [](auto& q) { q.out_channels = 0; }});
  list.push_back({"groups is 0", [](auto& q) { q.groups = 0; }});
  list.push_back({"in_channels 5", [](auto& q) { q.in_channels = 5; }});
  list.push_back({"out_channels 9", [](auto& q) { q.out_channels = 9; }});
  list.push_back({"overflow", [](auto& q) { q.out_channels = huge / 2 * 2; }});
  const qn_weights w = some_weights();
  check_params<qn_conv2d_params>(
      "conv2d", p, list,
      [&](const qn_conv2d_params* params, qn_operator** op) {
        return qn_conv2d_create(params, &w, nullptr, nullptr, op);
      },
      false, QN_U8);
}

TEST(Refused, Weights) {
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = p.out_channels = 4;
  const auto refused = [&](const char* words, qn_status status, const qn_weights* w) {
    qn_operator* op = nullptr;
    expect_refused(qn_conv2d_create(&p, w, nullptr, nullptr, &op), status, words, op);
  };
  qn_weights w = some_weights();
  w.data = nullptr;
  refused("weights.data is NULL", QN_INVALID_ARGUMENT, &w);
  w.data = reinterpret_cast<const char*>(weights_data) + 1;
  refused("aligned", QN_INVALID_ARGUMENT, &w);
  w = some_weights();
  w.layout = static_cast<qn_weights_layout>(7);
  refused("layout 7", QN_INVALID_ARGUMENT, &w);
  w = some_weights();
  w.type = QN_U8;
  refused("weights of type u8, not f32 as the operator", QN_UNSUPPORTED, &w);
  w.type = QN_S8;
  refused("weights of type s8 without weights.scales", QN_INVALID_ARGUMENT, &w);
  w.layout = QN_WEIGHTS_OIHW;
  refused("weights of type s8 that are sparse, or not of layout QN_WEIGHTS_OHWI", QN_UNSUPPORTED, &w);
  w.layout = QN_WEIGHTS_OHWI;
  w.type = static_cast<qn_type>(99);
  refused("unknown type 99", QN_INVALID_ARGUMENT, &w);
  w = some_weights();
  w.bias_type = QN_S32;
  refused("weights.bias_type is s32, not f32", QN_UNSUPPORTED, &w);
  w = some_weights();
  w.scales = weights_data;
  w.scale_count = 1;
  refused("the weights have scales, but f32 is not quantized", QN_INVALID_ARGUMENT, &w);
  w = some_weights();
  w.struct_size = 1;
  refused("struct_size", QN_INVALID_ARGUMENT, &w);
  refused("NULL", QN_INVALID_ARGUMENT, nullptr);
  EXPECT_EQ(qn_weights_cache_create(nullptr), QN_INVALID_ARGUMENT);
}

TEST(Refused, QuantizedWeights) {
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.type = QN_S8;
  p.in_channels = p.out_channels = 4;
  const std::vector<float> good = {1, 2, 3, 4};
  const std::vector<int32_t> zeros(4), ones(4, 1), bias(4);
  const auto create = [&](const qn_weights& w) {
    qn_operator* op = nullptr;
    const qn_status status = qn_conv2d_create(&p, &w, bias.data(), nullptr, &op);
    qn_operator_release(op);
    return status;
  };
  qn_weights w = some_weights();
  w.type = QN_S8;
  w.bias_type = QN_S32;
  w.scales = good.data();
  w.scale_count = 4;
  w.zero_points = zeros.data();
  ASSERT_QN_OK(create(w));
  const auto refused = [&](const char* words, qn_status status, const std::function<void(qn_weights&)>& change) {
    qn_weights changed = w;
    change(changed);
    EXPECT_EQ(create(changed), status);
    EXPECT_NE(std::string(qn_last_message()).find(words), std::string::npos) << qn_last_message();
  };
  for (const float bad : {0.0f, -1.0f, infinity, std::nanf("")}) {
    const std::vector<float> scales = {1, 2, bad, 4};
    refused("weights.scales[2] is", QN_INVALID_ARGUMENT, [&](qn_weights& x) { x.scales = scales.data(); });
  }
  refused("without weights.scales", QN_INVALID_ARGUMENT, [](qn_weights& x) { x.scales = nullptr; });
  refused("scale_count is 3, not 1 or 4", QN_INVALID_ARGUMENT, [](qn_weights& x) { x.scale_count = 3; });
  refused("block_length is 32", QN_UNSUPPORTED, [](qn_weights& x) { x.block_length = 32; });
  refused("zero_points[0] is 1", QN_UNSUPPORTED, [&](qn_weights& x) { x.zero_points = ones.data(); });
  refused("bias_type is f32, not s32", QN_UNSUPPORTED, [](qn_weights& x) { x.bias_type = QN_F32; });
  refused("weights of type f32, not s8", QN_UNSUPPORTED, [](qn_weights& x) { x.type = QN_F32; });
}

// Whatever array of floats an operator, or a call without one, is given beside its weights.
TEST(Refused, Misaligned) {
  const float* data = weights_data;
  const float* odd = reinterpret_cast<const float*>(reinterpret_cast<const char*>(weights_data) + 2);
  const qn_weights w = some_weights();
  const auto refused = [](const char* words, const std::function<qn_status(qn_operator**)>& create) {
    qn_operator* op = nullptr;
    expect_refused(create(&op), QN_INVALID_ARGUMENT, std::string(words) + " is not aligned", op);
  };
  qn_conv2d_params conv;
  qn_conv2d_params_init(&conv);
  conv.in_channels = conv.out_channels = 4;
  refused("conv2d: bias", [&](auto op) { return qn_conv2d_create(&conv, &w, odd, nullptr, op); });
  qn_dwconv2d_params depthwise;
  qn_dwconv2d_params_init(&depthwise);
  depthwise.channels = 4;
  refused("dwconv2d: bias", [&](auto op) { return qn_dwconv2d_create(&depthwise, &w, odd, nullptr, op); });
  qn_fully_connected_params matrix;
  qn_fully_connected_params_init(&matrix);
  matrix.in_channels = matrix.out_channels = 4;
  refused("fully_connected: bias", [&](auto op) { return qn_fully_connected_create(&matrix, &w, odd, nullptr, op); });
  qn_channel_params p;
  qn_channel_params_init(&p);
  p.channels = 4;
  refused("prelu: slope", [&](auto op) { return qn_prelu_create(&p, odd, op); });
  refused("scale: scale", [&](auto op) { return qn_scale_create(&p, odd, data, op); });
  refused("scale: bias", [&](auto op) { return qn_scale_create(&p, nullptr, odd, op); });
  refused("batch_norm: mean", [&](auto op) { return qn_batch_norm_create(&p, odd, data, data, data, 1, op); });
  refused("batch_norm: variance", [&](auto op) { return qn_batch_norm_create(&p, data, odd, data, data, 1, op); });
  refused("batch_norm: gamma", [&](auto op) { return qn_batch_norm_create(&p, data, data, odd, data, 1, op); });
  refused("batch_norm: beta", [&](auto op) { return qn_batch_norm_create(&p, data, data, nullptr, odd, 1, op); });

  float c[8];
  float* odd_c = reinterpret_cast<float*>(reinterpret_cast<char*>(c) + 1);
  const auto gemm = [&](const float* a, const float* b, const float* bias, float* to) {
    return
        [=](qn_operator**) { return qn_gemm_f32(2, 2, 2, a, 2, b, 2, 0, bias, -infinity, infinity, to, 2, nullptr); };
  };
  refused("qn_gemm_f32: a", gemm(odd, data, data, c));
  refused("qn_gemm_f32: b", gemm(data, odd, data, c));
  refused("qn_gemm_f32: bias", gemm(data, data, odd, c));
  refused("qn_gemm_f32: c", gemm(data, data, nullptr, odd_c));
  const auto spmm = [&](const float* b, const float* bias, float* to) {
    return [=, &w](qn_operator**) { return qn_spmm_f32(2, 2, 2, &w, b, 2, bias, -infinity, infinity, to, 2, nullptr); };
  };
  refused("qn_spmm_f32: b", spmm(odd, data, c));
  refused("qn_spmm_f32: bias", spmm(data, odd, c));
  refused("qn_spmm_f32: c", spmm(data, nullptr, odd_c));
}

TEST(Refused, SparseWeights) {
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = 4;
  p.out_channels = 12;
  p.groups = 2;  // two block rows of 4 in each group, of 2 elements
  std::vector<uint32_t> starts = {0, 2, 2, 4, 5}, positions = {0, 1, 0, 1, 1};
  const std::vector<float> values(5 * 4, 1.0f);
  qn_weights valid;
  qn_weights_init(&valid);
  valid.encoding = QN_WEIGHTS_SPARSE;
  valid.block = 4;
  valid.starts = starts.data();
  valid.positions = positions.data();
  valid.data = values.data();
  valid.stored = 5;
  Op good;
  ASSERT_QN_OK(qn_conv2d_create(&p, &valid, nullptr, nullptr, &good));

  const auto refused = [&](const char* words, const std::function<void(qn_weights&)>& change,
                           qn_status status = QN_INVALID_ARGUMENT) {
    SCOPED_TRACE(words);
    const auto starts_before = starts, positions_before = positions;
    qn_weights w = valid;
    change(w);
    qn_operator* op = nullptr;
    expect_refused(qn_conv2d_create(&p, &w, nullptr, nullptr, &op), status, words, op);
    std::copy(starts_before.begin(), starts_before.end(), starts.begin());  // where `valid` points
    std::copy(positions_before.begin(), positions_before.end(), positions.begin());
  };
  refused("encoding 3", [](auto& w) { w.encoding = static_cast<qn_weights_encoding>(3); });
  refused("encoding -1", [](auto& w) { w.encoding = static_cast<qn_weights_encoding>(-1); });
  refused(
      "QN_WEIGHTS_OHWI", [](auto& w) { w.layout = QN_WEIGHTS_OIHW; }, QN_UNSUPPORTED);
  for (const uint32_t block : {0u, 3u, 12u, 32u, 0x80000000u}) {
    refused("weights.block is", [=](auto& w) { w.block = block; });
  }
  refused("weights.starts is NULL", [](auto& w) { w.starts = nullptr; });
  refused("weights.positions is NULL", [](auto& w) { w.positions = nullptr; });
  refused("weights.data is NULL", [](auto& w) { w.data = nullptr; });
  refused("weights.data is not aligned", [](auto& w) { w.data = static_cast<const char*>(w.data) + 2; });
  refused("weights.starts[0] is 1", [&](auto&) { starts[0] = 1; });
  refused("weights.starts[2] is 1, not from 2", [&](auto&) { starts[2] = 1; });
  refused("weights.starts[3] is 6", [&](auto&) { starts[3] = 6; });
  refused("weights.starts[4] is 4294967295", [&](auto&) { starts[4] = UINT32_MAX; });
  refused("weights.stored is 6", [](auto& w) { w.stored = 6; });
  refused("to the 4 stored", [](auto& w) { w.stored = 4; });
  refused("to the 0 stored", [](auto& w) { w.stored = 0; });
  refused("weights.positions[1] is 2, but rows have 2", [&](auto&) { positions[1] = 2; });
  refused("weights.positions[4] is 4294967295", [&](auto&) { positions[4] = UINT32_MAX; });
  refused("weights.positions[3] is 0, not above", [&](auto&) { positions[3] = 0; });
  refused("weights.positions[3] is 1, not above", [&](auto&) { positions[2] = 1; });

  qn_weights decoded;
  qn_weights_init(&decoded);
  decoded.encoding = QN_WEIGHTS_DECODED;
  qn_operator* op = nullptr;
  expect_refused(qn_conv2d_create(&p, &decoded, nullptr, nullptr, &op), QN_INVALID_ARGUMENT, "weights.decode is NULL",
                 op);
}

TEST(Refused, DwConv2d) {
  qn_dwconv2d_params p;
  qn_dwconv2d_params_init(&p);
  p.channels = 8;
  p.kernel = {3, 3};
  auto list = with_clamp(window_refusals<qn_dwconv2d_params>());
  list.push_back({"channels is 0", [](auto& q) { q.channels = 0; }});
  list.push_back({"multiplier is 0", [](auto& q) { q.multiplier = 0; }});
  list.push_back({"overflows", [](auto& q) { q.multiplier = huge; }});
  const qn_weights w = some_weights();
  check_params<qn_dwconv2d_params>(
      "dwconv2d", p, list,
      [&](const qn_dwconv2d_params* params, qn_operator** op) {
        return qn_dwconv2d_create(params, &w, nullptr, nullptr, op);
      },
      false, QN_U8);
}

TEST(Refused, FullyConnected) {
  qn_fully_connected_params p;
  qn_fully_connected_params_init(&p);
  p.in_channels = p.out_channels = 4;
  const qn_weights w = some_weights();
  check_params<qn_fully_connected_params>(
      "fully_connected", p,
      with_clamp<qn_fully_connected_params>({
          {"in_channels is 0", [](auto& q) { q.in_channels = 0; }},
          {"out_channels is 0", [](auto& q) { q.out_channels = 0; }},
          {"overflow", [](auto& q) { q.in_channels = huge; }},
      }),
      [&](const qn_fully_connected_params* params, qn_operator** op) {
        return qn_fully_connected_create(params, &w, nullptr, nullptr, op);
      },
      false, QN_U8);
}

TEST(Refused, Pool2d) {
  qn_pool2d_params p;
  qn_pool2d_params_init(&p);
  p.kernel = {2, 2};
  auto list = with_clamp(window_refusals<qn_pool2d_params>());
  list.push_back({"kind 9", [](auto& q) { q.kind = static_cast<qn_pool_kind>(9); }});
  list.push_back({"padding 2", [](auto& q) { q.padding.top = 2; }});
  list.push_back({"padding", [](auto& q) { q.padding.right = 2; }});
  const char* const rounding = "this rounding is for averages of QN_S8 without count_padding or dilation";
  static constexpr auto average = [](auto& q) {
    q.kind = QN_POOL_AVERAGE, q.type = QN_S8, q.rounding = QN_POOL_ROUND_U8;
  };
  list.push_back({rounding, [](auto& q) { average(q), q.kind = QN_POOL_MAX; }});
  list.push_back({rounding, [](auto& q) { average(q), q.type = QN_F32; }});
  list.push_back({rounding, [](auto& q) { average(q), q.count_padding = 1; }});
  list.push_back({rounding, [](auto& q) { average(q), q.dilation.w = 2; }});
  list.push_back({"unknown rounding 3", [](auto& q) { average(q), q.rounding = static_cast<qn_pool_rounding>(3); }});
  check_params<qn_pool2d_params>("pool2d", p, list, qn_pool2d_create, false, QN_U8);
}

TEST(Refused, Binary) {
  qn_binary_params p;
  qn_binary_params_init(&p);
  check_params<qn_binary_params>(
      "binary", p, with_clamp<qn_binary_params>({{"kind 4", [](auto& q) { q.kind = static_cast<qn_binary_kind>(4); }}}),
      qn_binary_create, false, QN_U8);
}

TEST(Refused, Unary) {
  qn_unary_params p;
  qn_unary_params_init(&p);
  check_params<qn_unary_params>("unary", p,
                                {{"kind 6", [](auto& q) { q.kind = static_cast<qn_unary_kind>(6); }},
                                 {"min 3", [](auto& q) { q.alpha = 3, q.beta = 2; }},
                                 {"min", [](auto& q) { q.alpha = std::nanf(""); }}},
                                qn_unary_create, false, QN_U8);
}

TEST(Refused, Channel) {
  qn_channel_params p;
  qn_channel_params_init(&p);
  p.channels = 4;
  const auto list = with_clamp<qn_channel_params>(
      {{"channels is 0", [](auto& q) { q.channels = 0; }}, {"channels", [](auto& q) { q.channels = huge; }}});
  const float* data = weights_data;
  const float ones[] = {1, 1, 1, 1}, bad[] = {1, 1, -1, 1}, nan[] = {1, std::nanf(""), 1, 1};
  check_params<qn_channel_params>(
      "prelu", p, list, [&](const qn_channel_params* q, qn_operator** op) { return qn_prelu_create(q, data, op); });
  check_params<qn_channel_params>("scale", p, list, [&](const qn_channel_params* q, qn_operator** op) {
    return qn_scale_create(q, data, data, op);
  });
  check_params<qn_channel_params>("batch_norm", p, list, [&](const qn_channel_params* q, qn_operator** op) {
    return qn_batch_norm_create(q, data, ones, data, data, 1e-5f, op);
  });
  qn_operator* op = nullptr;
  expect_refused(qn_prelu_create(&p, nullptr, &op), QN_INVALID_ARGUMENT, "slope is NULL", op);
  expect_refused(qn_batch_norm_create(&p, nullptr, ones, data, data, 0, &op), QN_INVALID_ARGUMENT, "mean is NULL", op);
  expect_refused(qn_batch_norm_create(&p, data, nullptr, data, data, 0, &op), QN_INVALID_ARGUMENT, "variance is NULL",
                 op);
  expect_refused(qn_batch_norm_create(&p, data, bad, data, data, 0, &op), QN_INVALID_ARGUMENT, "variance[2]", op);
  expect_refused(qn_batch_norm_create(&p, data, nan, data, data, 0, &op), QN_INVALID_ARGUMENT, "variance[1]", op);
  expect_refused(qn_batch_norm_create(&p, data, ones, data, data, std::nanf(""), &op), QN_INVALID_ARGUMENT, "epsilon",
                 op);
}

TEST(Refused, Others) {
  qn_softmax_params softmax;
  qn_softmax_params_init(&softmax);
  check_params<qn_softmax_params>("softmax", softmax, {}, qn_softmax_create, false, QN_U8);
  qn_concat_params concat;
  qn_concat_params_init(&concat);
  check_params<qn_concat_params>("concat", concat, {}, qn_concat_create, true);
  qn_lrn_params lrn;
  qn_lrn_params_init(&lrn);
  check_params<qn_lrn_params>("lrn", lrn, {{"size is 0", [](auto& q) { q.size = 0; }}}, qn_lrn_create);
  qn_pad_params pad;
  qn_pad_params_init(&pad);
  check_params<qn_pad_params>("pad", pad,
                              {{"rank 9", [](auto& q) { q.rank = 9; }},
                               {"type u8 has no value -1", [](auto& q) { q.type = QN_U8, q.value = -1; }},
                               {"type s8 has no value 128", [](auto& q) { q.type = QN_S8, q.value = 128; }},
                               {"type s32 has no value 0.5", [](auto& q) { q.type = QN_S32, q.value = 0.5f; }},
                               {"type s64 has no value inf", [](auto& q) { q.type = QN_S64, q.value = infinity; }},
                               {"type bool has no value 2", [](auto& q) { q.type = QN_BOOL, q.value = 2; }},
                               {"type f16 has no value 1", [](auto& q) { q.type = QN_F16, q.value = 1; }}},
                              qn_pad_create, true);
  qn_resize2d_params resize;
  qn_resize2d_params_init(&resize);
  check_params<qn_resize2d_params>(
      "resize2d", resize,
      {{"kind 2", [](auto& q) { q.kind = static_cast<qn_resize_kind>(2); }},
       {"coordinates 4", [](auto& q) { q.coordinates = static_cast<qn_resize_coordinates>(4); }},
       {"rounding 4", [](auto& q) { q.rounding = static_cast<qn_resize_rounding>(4); }},
       {"scale_h is 0", [](auto& q) { q.scale_h = 0; }},
       {"scale_w is -1", [](auto& q) { q.scale_w = -1; }},
       {"scale_h is inf", [](auto& q) { q.scale_h = infinity; }},
       {"scale_w is", [](auto& q) { q.scale_w = std::nanf(""); }}},
      qn_resize2d_create, false, QN_U8);
  qn_transpose_params transpose;
  qn_transpose_params_init(&transpose);
  transpose.rank = 2;
  transpose.permutation[0] = 1;
  check_params<qn_transpose_params>("transpose", transpose,
                                    {{"rank 0", [](auto& q) { q.rank = 0; }},
                                     {"rank 9", [](auto& q) { q.rank = 9; }},
                                     {"permutation[1]", [](auto& q) { q.permutation[1] = 1; }},
                                     {"permutation[0]", [](auto& q) { q.permutation[0] = 2; }}},
                                    qn_transpose_create, true);
  qn_slice_params slice;
  qn_slice_params_init(&slice);
  slice.rank = 2;
  check_params<qn_slice_params>("slice", slice,
                                {{"rank 9", [](auto& q) { q.rank = 9; }},
                                 {"begin 4", [](auto& q) { q.begin[1] = 4, q.end[1] = 3; }},
                                 {"dimension 1", [](auto& q) { q.begin[1] = SIZE_MAX - 2, q.end[1] = SIZE_MAX - 3; }}},
                                qn_slice_create, true);
}

// ---- plan: shapes that do not fit ----

void refused_plan(const qn_operator* op, const std::vector<qn_tensor>& ins, qn_status status,
                  const std::string& words) {
  qn_plan* plan = nullptr;
  EXPECT_EQ(qn_operator_plan(op, ins.data(), ins.size(), nullptr, 0, nullptr, &plan), status) << words;
  EXPECT_EQ(plan, nullptr);
  EXPECT_NE(std::string(qn_last_message()).find(words), std::string::npos) << qn_last_message();
}

TEST(Refused, Shapes) {
  const qn_weights w = some_weights();
  {
    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.in_channels = p.out_channels = 4;
    p.kernel = {3, 3};
    Op op;
    ASSERT_QN_OK(qn_conv2d_create(&p, &w, nullptr, nullptr, &op));
    refused_plan(op, {dense({1, 5, 5})}, QN_INVALID_ARGUMENT, "rank 3");
    refused_plan(op, {dense({1, 5, 5, 3})}, QN_INVALID_ARGUMENT, "3 channels");
    refused_plan(op, {dense({1, 2, 5, 4})}, QN_INVALID_ARGUMENT, "height 2");
    refused_plan(op, {dense({1, 5, 2, 4})}, QN_INVALID_ARGUMENT, "width 2");
    if (sizeof(size_t) > 4) {  // where it is a size at all
      refused_plan(op, {dense({1, SIZE_MAX / 64 / 3, 3, 4})}, QN_UNSUPPORTED, "too large");
    }
    refused_plan(op, {}, QN_INVALID_ARGUMENT, "0 inputs");
    refused_plan(op, {dense({1, 5, 5, 4}), dense({1, 5, 5, 4})}, QN_INVALID_ARGUMENT, "residual is 1x5x5x4");
    refused_plan(op, {dense({1, 5, 5, 4}), dense({1, 3, 3, 4}), dense({1, 3, 3, 4})}, QN_INVALID_ARGUMENT, "3 inputs");
    qn_tensor blocked = dense({1, 5, 5, 4});
    blocked.layout = QN_LAYOUT_PIXEL_BLOCKED;
    std::fill_n(blocked.stride, 4, 0);
    refused_plan(op, {blocked, dense({1, 3, 3, 4})}, QN_UNSUPPORTED, "the residual has another layout");
    blocked.stride[0] = 1 << 20, blocked.stride[1] = 1 << 16, blocked.stride[2] = 1 << 10, blocked.stride[3] = 4;
    refused_plan(op, {blocked}, QN_INVALID_ARGUMENT, "a channel's stride of 1024");
    blocked.rank = 3;
    refused_plan(op, {blocked}, QN_INVALID_ARGUMENT, "of rank 3");
    qn_tensor half = dense({1, 5, 5, 4});
    half.type = QN_F16;
    refused_plan(op, {half}, QN_UNSUPPORTED, "it is of type f16, but the operator takes f32");
    qn_tensor empty = dense({1, 5, 5, 4});
    empty.shape[2] = 0;
    refused_plan(op, {empty}, QN_INVALID_ARGUMENT, "width 0 of the input");
    qn_tensor overlapping = dense({1, 5, 5, 4});
    overlapping.stride[0] = 400, overlapping.stride[1] = 80, overlapping.stride[2] = 12, overlapping.stride[3] = 4;
    refused_plan(op, {overlapping}, QN_INVALID_ARGUMENT, "overlaps");
  }
  {
    qn_fully_connected_params p;
    qn_fully_connected_params_init(&p);
    p.in_channels = p.out_channels = 4;
    Op op;
    ASSERT_QN_OK(qn_fully_connected_create(&p, &w, nullptr, nullptr, &op));
    refused_plan(op, {dense({})}, QN_INVALID_ARGUMENT, "rank 0");
    refused_plan(op, {dense({4, 5})}, QN_INVALID_ARGUMENT, "5 channels");
    refused_plan(op, {Strided({1, 5, 5, 4}, 0, QN_LAYOUT_PIXEL_BLOCKED).tensor()}, QN_UNSUPPORTED, "QN_LAYOUT_NHWC");
    qn_plan_options o;
    qn_plan_options_init(&o);
    o.algorithm = QN_ALGORITHM_IGEMM;
    const qn_tensor in = dense({4});
    qn_plan* plan;
    EXPECT_EQ(qn_operator_plan(op, &in, 1, nullptr, 0, &o, &plan), QN_UNSUPPORTED);
  }
  {
    qn_binary_params p;
    qn_binary_params_init(&p);
    Op op;
    ASSERT_QN_OK(qn_binary_create(&p, &op));
    refused_plan(op, {dense({2, 3}), dense({2, 4})}, QN_INVALID_ARGUMENT, "2x3 and 2x4");
    refused_plan(op, {dense({2, 3})}, QN_INVALID_ARGUMENT, "1 inputs");
  }
  {
    qn_concat_params p;
    qn_concat_params_init(&p);
    p.axis = 1;
    Op op;
    ASSERT_QN_OK(qn_concat_create(&p, &op));
    refused_plan(op, {dense({4})}, QN_INVALID_ARGUMENT, "axis 1");
    refused_plan(op, {dense({2, 3}), dense({3, 3})}, QN_INVALID_ARGUMENT, "input 1");
    refused_plan(op, {dense({2, 3}), dense({2, 3, 1})}, QN_INVALID_ARGUMENT, "input 1");
  }
  {
    qn_softmax_params p;
    qn_softmax_params_init(&p);
    Op op;
    ASSERT_QN_OK(qn_softmax_create(&p, &op));
    refused_plan(op, {dense({})}, QN_INVALID_ARGUMENT, "axis -1");
  }
  {
    qn_lrn_params p;
    qn_lrn_params_init(&p);
    Op op;
    ASSERT_QN_OK(qn_lrn_create(&p, &op));
    refused_plan(op, {dense({})}, QN_INVALID_ARGUMENT, "rank 0");
  }
  {
    qn_pad_params p;
    qn_pad_params_init(&p);
    p.rank = 1;
    p.before[0] = SIZE_MAX;
    Op op;
    ASSERT_QN_OK(qn_pad_create(&p, &op));
    refused_plan(op, {dense({4})}, QN_INVALID_ARGUMENT, "overflow");
    refused_plan(op, {dense({4, 4})}, QN_INVALID_ARGUMENT, "rank 2");
  }
  {
    qn_slice_params p;
    qn_slice_params_init(&p);
    p.rank = 1;
    p.begin[0] = 2;
    p.end[0] = 5;
    Op op;
    ASSERT_QN_OK(qn_slice_create(&p, &op));
    refused_plan(op, {dense({4})}, QN_INVALID_ARGUMENT, "2 to 5");
    refused_plan(op, {dense({1, 4})}, QN_INVALID_ARGUMENT, "rank 2");
    p.begin[0] = SIZE_MAX - 5;
    p.end[0] = SIZE_MAX;
    Op from_behind;
    ASSERT_QN_OK(qn_slice_create(&p, &from_behind));
    refused_plan(from_behind, {dense({4})}, QN_INVALID_ARGUMENT, "dimension 0 of size 4");
    p.begin[0] = static_cast<size_t>(PTRDIFF_MAX) + 1;  // PTRDIFF_MIN, as far from behind as it gets
    Op far;
    ASSERT_QN_OK(qn_slice_create(&p, &far));
    refused_plan(far, {dense({4})}, QN_INVALID_ARGUMENT, "dimension 0 of size 4");
  }
  {
    qn_transpose_params p;
    qn_transpose_params_init(&p);
    p.rank = 1;
    Op op;
    ASSERT_QN_OK(qn_transpose_create(&p, &op));
    refused_plan(op, {dense({4, 4})}, QN_INVALID_ARGUMENT, "rank 2");
  }
  {
    qn_channel_params p;
    qn_channel_params_init(&p);
    p.channels = 4;
    Op op;
    ASSERT_QN_OK(qn_scale_create(&p, nullptr, nullptr, &op));
    refused_plan(op, {dense({4, 3})}, QN_INVALID_ARGUMENT, "4 channels");
    refused_plan(op, {dense({})}, QN_INVALID_ARGUMENT, "4 channels");
  }
  {
    qn_resize2d_params p;
    qn_resize2d_params_init(&p);
    p.scale_h = 0.1f;
    Op op;
    ASSERT_QN_OK(qn_resize2d_create(&p, &op));
    refused_plan(op, {dense({1, 4, 4, 1})}, QN_INVALID_ARGUMENT, "height 4");
    refused_plan(op, {dense({4, 4})}, QN_INVALID_ARGUMENT, "rank 2");
  }
}

// ---- plan options, outputs, run ----

class Relu : public ::testing::Test {
 protected:
  void SetUp() override {
    qn_unary_params p;
    qn_unary_params_init(&p);
    ASSERT_QN_OK(qn_unary_create(&p, &op));
    qn_plan_options_init(&options);
  }
  void refused(qn_status status, const std::string& words, const qn_tensor* outs = nullptr, size_t n_out = 0) {
    qn_plan* plan = nullptr;
    EXPECT_EQ(qn_operator_plan(op, &in, 1, outs, n_out, &options, &plan), status) << words;
    EXPECT_EQ(plan, nullptr);
    EXPECT_NE(std::string(qn_last_message()).find(words), std::string::npos) << qn_last_message();
  }

  Op op;
  qn_tensor in = dense({2, 3});
  qn_plan_options options;
};

TEST_F(Relu, RefusedOptions) {
  options.tasks = 0;
  refused(QN_INVALID_ARGUMENT, "tasks is 0");
  qn_plan_options_init(&options);
  options.algorithm = static_cast<qn_algorithm>(77);
  refused(QN_INVALID_ARGUMENT, "algorithm 77");
  options.algorithm = QN_ALGORITHM_GEMM;
  refused(QN_UNSUPPORTED, "gemm");
  qn_plan_options_init(&options);
  options.kernel = "qn_gemm_f32_4x8_ref";
  refused(QN_UNSUPPORTED, "qn_gemm_f32_4x8_ref");
  qn_plan_options_init(&options);
  options.struct_size = 5;
  refused(QN_INVALID_ARGUMENT, "struct_size is 5");
  options.struct_size = 1 << 20;
  refused(QN_INVALID_ARGUMENT, "struct_size");
}

TEST_F(Relu, RefusedOutputs) {
  qn_tensor out = dense({3, 2});
  refused(QN_INVALID_ARGUMENT, "3x2 but should be 2x3", &out, 1);
  out = dense({2, 3});
  refused(QN_INVALID_ARGUMENT, "n_out is 2", &out, 2);
  refused(QN_INVALID_ARGUMENT, "n_out is 0", &out, 0);
  refused(QN_INVALID_ARGUMENT, "outs is NULL", nullptr, 1);
  out.type = QN_I64;
  refused(QN_UNSUPPORTED, "output 0", &out, 1);
  out = dense({2, 3});
  out.rank = 9;
  refused(QN_INVALID_ARGUMENT, "output 0", &out, 1);
}

TEST_F(Relu, RefusedPlanArguments) {
  qn_plan* plan = nullptr;
  EXPECT_EQ(qn_operator_plan(nullptr, &in, 1, nullptr, 0, nullptr, &plan), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_operator_plan(op, nullptr, 1, nullptr, 0, nullptr, &plan), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_operator_plan(op, &in, 1, nullptr, 0, nullptr, nullptr), QN_INVALID_ARGUMENT);
  EXPECT_EQ(plan, nullptr);
}

TEST_F(Relu, RefusedRunArguments) {
  qn_plan* plan;
  ASSERT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, nullptr, &plan));
  float x[8] = {-1, 2, -3, 4, -5, 6}, y[8];
  const void *inputs[] = {x}, *none[] = {nullptr}, *odd[] = {reinterpret_cast<char*>(x) + 2};
  void *outputs[] = {y}, *nowhere[] = {nullptr}, *odd_outputs[] = {reinterpret_cast<char*>(y) + 1};
  EXPECT_EQ(qn_plan_run(nullptr, inputs, outputs, nullptr, 0, nullptr), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_plan_run(plan, nullptr, outputs, nullptr, 0, nullptr), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_plan_run(plan, inputs, nullptr, nullptr, 0, nullptr), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_plan_run(plan, none, outputs, nullptr, 0, nullptr), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_plan_run(plan, inputs, nowhere, nullptr, 0, nullptr), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_plan_run(plan, odd, outputs, nullptr, 0, nullptr), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_plan_run(plan, inputs, odd_outputs, nullptr, 0, nullptr), QN_INVALID_ARGUMENT);
  EXPECT_QN_OK(qn_plan_run(plan, inputs, outputs, nullptr, 0, nullptr));
  EXPECT_EQ(y[1], 2);
  EXPECT_EQ(y[2], 0);
  qn_tensor out;
  EXPECT_EQ(qn_plan_output(nullptr, 0, &out), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_plan_output(plan, 0, nullptr), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_plan_output(plan, 1, &out), QN_INVALID_ARGUMENT);
  EXPECT_QN_OK(qn_plan_output(plan, 0, &out));
  qn_plan_release(plan);
}

TEST(Refused, Workspace) {
  qn_lrn_params p;
  qn_lrn_params_init(&p);
  Op op;
  ASSERT_QN_OK(qn_lrn_create(&p, &op));
  const qn_tensor in = dense({2, 3});
  qn_plan* plan;
  ASSERT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, nullptr, &plan));
  ASSERT_GT(qn_plan_workspace_size(plan), 0u);
  alignas(64) char workspace[256];
  const size_t size = qn_plan_workspace_size(plan);
  ASSERT_LE(size, 192u);
  float x[6] = {}, y[6];
  const void* inputs[] = {x};
  void* outputs[] = {y};
  const auto refused = [&](void* at, size_t bytes, const std::string& words) {
    EXPECT_EQ(qn_plan_run(plan, inputs, outputs, at, bytes, nullptr), QN_INVALID_ARGUMENT);
    EXPECT_NE(std::string(qn_last_message()).find(words), std::string::npos) << qn_last_message();
  };
  refused(nullptr, 0, "workspace is NULL");
  refused(nullptr, size, "workspace is NULL");
  refused(workspace + 4, size, "workspace is not aligned to 64");
  refused(workspace, 0, "workspace has 0 bytes");
  refused(workspace, size - 1, "workspace has " + std::to_string(size - 1) + " bytes, but " + std::to_string(size));
  EXPECT_QN_OK(qn_plan_run(plan, inputs, outputs, workspace, size, nullptr));
  EXPECT_QN_OK(qn_plan_run(plan, inputs, outputs, workspace, sizeof workspace, nullptr));
  qn_plan_release(plan);
}

TEST(Null, IsAllowedWhereTheHeaderSaysSo) {
  qn_operator_release(nullptr);
  qn_plan_release(nullptr);
  qn_weights_cache_release(nullptr);
  EXPECT_EQ(qn_weights_cache_bytes(nullptr), 0u);
  EXPECT_EQ(qn_plan_workspace_size(nullptr), 0u);
  EXPECT_EQ(qn_plan_macs(nullptr), 0u);
  EXPECT_STREQ(qn_plan_kernel(nullptr), "");
  EXPECT_EQ(qn_plan_algorithm(nullptr), QN_ALGORITHM_AUTO);
  qn_conv2d_params_init(nullptr);
  qn_plan_options_init(nullptr);
}

TEST(Algorithm, Names) {
  EXPECT_STREQ(qn_algorithm_string(QN_ALGORITHM_AUTO), "auto");
  EXPECT_STREQ(qn_algorithm_string(QN_ALGORITHM_DIRECT), "direct");
  EXPECT_STREQ(qn_algorithm_string(QN_ALGORITHM_GEMM), "gemm");
  EXPECT_STREQ(qn_algorithm_string(QN_ALGORITHM_IGEMM), "igemm");
  EXPECT_STREQ(qn_algorithm_string(QN_ALGORITHM_DEPTHWISE), "depthwise");
  EXPECT_STREQ(qn_algorithm_string(QN_ALGORITHM_WINOGRAD), "winograd");
  EXPECT_STREQ(qn_algorithm_string(QN_ALGORITHM_SPARSE), "sparse");
  EXPECT_STREQ(qn_algorithm_string(QN_ALGORITHM_DENSE), "dense");
  EXPECT_STREQ(qn_algorithm_string(static_cast<qn_algorithm>(QN_ALGORITHM_DENSE + 1)), "?");
  EXPECT_STREQ(qn_algorithm_string(static_cast<qn_algorithm>(55)), "?");
}

// ---- structs of other versions ----

TEST(StructSize, OlderCallersGetDefaultsForTheRest) {
  // A caller whose header ended behind alpha: relu from 0.5 on; beta stays infinite whatever lies behind.
  qn_unary_params p;
  qn_unary_params_init(&p);
  p.alpha = 0.5f;
  p.beta = -7;
  p.struct_size = offsetof(qn_unary_params, beta);
  Op op;
  ASSERT_QN_OK(qn_unary_create(&p, &op));
  const Result r = run(op, {{{3}, {-1, 1, 1e20f}}});
  EXPECT_TRUE(same_bits(r.values, {0.5f, 1, 1e20f}));
}

// A program that was built when the struct ended behind alpha: what lies behind is not the library's.
TEST(StructSize, InitWritesWhatTheCallerHas) {
  qn_unary_params p;
  std::memset(&p, 0x55, sizeof p);
  const qn_unary_params untouched = p;
  const size_t size = offsetof(qn_unary_params, beta);
  qn_unary_params_init_sized(&p, size);
  EXPECT_EQ(p.struct_size, size);
  EXPECT_EQ(p.type, QN_F32);
  EXPECT_EQ(std::memcmp(&p.beta, &untouched.beta, sizeof p - size), 0);
  // And one that was built for a later library: it gets zeros there.
  struct {
    qn_unary_params known;
    uint64_t unknown[2];
  } later;
  std::memset(&later, 0x55, sizeof later);
  qn_unary_params_init_sized(&later.known, sizeof later);
  EXPECT_EQ(later.known.struct_size, sizeof later);
  EXPECT_EQ(later.unknown[0] | later.unknown[1], 0u);
}

TEST(StructSize, NewerCallersMayOnlyLeaveZeros) {
  struct {
    qn_unary_params known;
    uint64_t unknown[2];
  } p = {};
  qn_unary_params_init(&p.known);
  p.known.struct_size = sizeof p;
  {
    Op op;
    EXPECT_QN_OK(qn_unary_create(&p.known, &op));
  }
  p.unknown[1] = 1;
  qn_operator* op = nullptr;
  expect_refused(qn_unary_create(&p.known, &op), QN_UNSUPPORTED, "does not know", op);
}

}  // namespace refused_test
}  // namespace quern::test
