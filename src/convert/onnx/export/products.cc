// Products, convolutions, normalizations, quantized numbers: kinds of libquern-extra.
#include "convert/onnx/export/rows.h"

namespace quern::onnx {
namespace {

using Rule = AttributeRule;

// ---- products

void write_einsum(GraphWriter& to, const Node& node, const ExportRow& row) {
  const Parameter* const equation = find_parameter(node, "equation");
  if (equation == nullptr) throw Unsupported{"without an equation"};
  schema::NodeProto* einsum = write_with(to, node, row, stored_inputs(to, node));
  set_text(einsum, "equation", {equation->integers.begin(), equation->integers.end()});
}

// ---- quantized numbers

// Without a zero point, the result is u8 unless an attribute says otherwise.
void write_quantize(GraphWriter& to, const Node& node, const ExportRow& row) {
  schema::NodeProto* quantize = write_with(to, node, row, stored_inputs(to, node));
  const qn_type type = to.tensor(node.outputs[0]).type;
  if (has(node, 2) || type == QN_U8) return;
  set_integer(quantize, "output_dtype", data_type(type));
  to.need_opset(21);
}

// Blocks came later than scales of an axis.
void write_scaled(GraphWriter& to, const Node& node, const ExportRow& row) {
  ExportRow of_scales = row;
  if (integer_of(node, "block_size", 0) != 0) {
    of_scales.opset = 21;
  } else {
    of_scales.attributes.pop_back();
  }
  of_scales.op == std::string_view("QuantizeLinear") ? write_quantize(to, node, of_scales)
                                                     : write_operator(to, node, of_scales);
}

// ---- attention

// Windows are of operator set 25; there, scores after the softcap are those before it if there is none.
void write_attention(GraphWriter& to, const Node& node, const ExportRow& row) {
  const int64_t left = integer_of(node, "left", -1), right = integer_of(node, "right", -1);
  if (left >= 0 || right >= 0) to.need_opset(25);
  schema::NodeProto* attention = write_with(to, node, row, stored_inputs(to, node));
  if (left >= 0) set_integer(attention, "left_window_size", left);
  if (right >= 0) set_integer(attention, "right_window_size", right);
  int64_t scores = integer_of(node, "scores", 0);
  if (scores == 1 && number_of(node, "softcap", 0) == 0) scores = 0;
  if (scores != 0) set_integer(attention, "qk_matmul_output_mode", scores);
}

// ---- normalizations

// A scale of a group becomes one for each of its channels.
std::string for_channels(GraphWriter& to, const Node& node, size_t input, int64_t groups, int64_t channels) {
  const std::string column =
      to.add("Unsqueeze", node_name(node, "column"), {to.stored_plain(node.inputs[input]), to.integers({1})});
  const std::string rows =
      to.add("Expand", node_name(node, "channels"), {column, to.integers({groups, channels / groups})});
  return to.add("Reshape", node_name(node, "vector"), {rows, to.integers({-1})});
}

void write_group_norm(GraphWriter& to, const Node& node, const ExportRow& row) {
  ExportRow of_groups = row;
  if (find_parameter(node, "groups") == nullptr) {
    of_groups.op = "InstanceNormalization";
    of_groups.opset = 13;
    of_groups.attributes.pop_back();
  }
  std::vector<std::string> inputs = stored_inputs(to, node);
  if (integer_of(node, "scale_groups", 0) != 0) {
    const Shape& shape = to.tensor(node.inputs[0]).shape;
    const int64_t channels = shape.size() < 2 ? 0 : static_cast<int64_t>(shape[1]);
    const int64_t groups = integer_of(node, "groups", channels);
    if (groups < 1 || channels < 1) throw Unsupported{"of channels that only a run counts"};
    for (size_t i = 1; i < inputs.size(); ++i) inputs[i] = for_channels(to, node, i, groups, channels);
  }
  write_with(to, node, of_groups, std::move(inputs));
}

// ---- attributes that several rows have

const std::vector<Rule> gemm_rules = {{Rule::number, "alpha", "alpha"},
                                      {Rule::number, "beta", "beta"},
                                      {Rule::integer, "transA", "trans_a"},
                                      {Rule::integer, "transB", "trans_b"}};
const std::vector<Rule> scaled_rules = {{Rule::integer, "axis", "axis"}, {Rule::integer, "block_size", "block_size"}};

std::vector<Rule> with(std::vector<Rule> rules, const std::vector<Rule>& more) {
  rules.insert(rules.end(), more.begin(), more.end());
  return rules;
}
const std::vector<Rule> conv_rules = {{Rule::integers, "strides", "strides"},
                                      {Rule::integers, "dilations", "dilations"},
                                      {Rule::integers, "pads", "pads"},
                                      {Rule::integer, "group", "groups"}};
const std::vector<Rule> padded_rules =
    with(conv_rules, {{Rule::integers, "kernel_shape", "kernel"},
                      {Rule::word, "auto_pad", "same", {"NOTSET", "SAME_UPPER", "SAME_LOWER"}}});
const std::vector<Rule> epsilon_rules = {{Rule::number, "epsilon", "epsilon"}};
const std::vector<Rule> rows_rules = with(epsilon_rules, {{Rule::integer, "axis", "axis"}});
const std::vector<Rule> attention_rules = {{Rule::integer, "is_causal", "causal"},
                                           {Rule::integer, "q_num_heads", "q_heads"},
                                           {Rule::integer, "kv_num_heads", "kv_heads"},
                                           {Rule::number, "softcap", "softcap"},
                                           {Rule::number, "scale", "scale"}};
const std::vector<Rule> rotary_rules = {{Rule::integer, "num_heads", "heads"},
                                        {Rule::integer, "rotary_embedding_dim", "rotated"},
                                        {Rule::integer, "interleaved", "interleaved"}};

}  // namespace

const ExportTable& exported_products() {
  static const ExportTable table = {
      {"attention", reads({"left", "right", "scores"}, {write_attention, "Attention", 23, attention_rules})},
      {"batch_norm_computed", {write_operator, "BatchNormalization", 15, epsilon_rules}},
      {"conv", {write_operator, "Conv", 13, conv_rules}},
      {"conv_integer", {write_operator, "ConvInteger", 13, padded_rules}},
      {"conv_quantized", {write_operator, "QLinearConv", 13, padded_rules}},
      {"conv_transposed",
       {write_operator, "ConvTranspose", 13, with(conv_rules, {{Rule::integers, "output_padding", "output_padding"}})}},
      {"deform_conv",
       {write_operator, "DeformConv", 19, with(conv_rules, {{Rule::integer, "offset_group", "offset_groups"}})}},
      {"dequantize_linear", {write_scaled, "DequantizeLinear", 13, scaled_rules}},
      {"dynamic_quantize_linear", {write_operator, "DynamicQuantizeLinear", 13, {}, 3}},
      {"einsum", reads({"equation"}, {write_einsum, "Einsum"})},
      {"gemm", {write_operator, "Gemm", 13, gemm_rules}},
      {"global_lp_pool", {write_operator, "GlobalLpPool", 13, {{Rule::integer, "p", "p"}}}},
      {"group_norm", reads({"scale_groups"}, {write_group_norm, "GroupNormalization", 21,
                                              with(epsilon_rules, {{Rule::integer, "num_groups", "groups"}})})},
      {"layer_norm", {write_operator, "LayerNormalization", 17, rows_rules}},
      {"lp_norm",
       {write_operator, "LpNormalization", 13, {{Rule::integer, "axis", "axis"}, {Rule::integer, "p", "p"}}}},
      {"mat_mul_integer", {write_operator, "MatMulInteger"}},
      {"mat_mul_quantized", {write_operator, "QLinearMatMul"}},
      {"matmul", {write_operator, "MatMul"}},
      {"mean_variance_norm", {write_operator, "MeanVarianceNormalization", 13, {{Rule::integers, "axes", "axes"}}}},
      {"quantize_linear", {write_scaled, "QuantizeLinear", 13, scaled_rules}},
      {"rms_norm", {write_operator, "RMSNormalization", 23, rows_rules}},
      {"rotary_embedding", {write_operator, "RotaryEmbedding", 23, rotary_rules}},
  };
  return table;
}

}  // namespace quern::onnx
