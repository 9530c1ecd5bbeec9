// Types of the tensors of a node, and their scales.
#include <algorithm>
#include <cmath>

#include "base/search.h"
#include "graph/ir/check.h"
#include "kernel/panel.h"

namespace quern {

// ---- inputs

static qn_status fail_type(const Node& node, size_t input, qn_type type, const char* expected) {
  return fail_node(node, "input %zu is %s, not %s", input, qn_type_string(type), expected);
}

// Checks the type of one input of a convolution or matrix product.
static qn_status check_sums_type(const Node& node, size_t input, qn_type type, qn_type first) {
  const qn_type expected = input == 0 && first != QN_S8 ? QN_F32 : input == 2 ? QN_S32 : QN_S8;
  if (type == expected || (type == QN_F32 && first == QN_F32)) return QN_OK;
  if (first == QN_S8)
    return fail_type(node, input, type, input == 2 ? "s32 as inputs of s8 ask for" : "s8 as the first");
  return fail_type(node, input, type, input == 0 ? "f32 or s8" : input == 1 ? "f32 or s8" : "f32 or s32");
}

qn_status check_input_type(const Node& node, size_t input, qn_type type, qn_type first) {
  const bool is_byte = type == QN_S8 || type == QN_U8;
  switch (has_integers ? kind_of(node.kind).types : TypeRule::floats) {
    case TypeRule::floats:
    case TypeRule::made_quantized: return type == QN_F32 ? QN_OK : fail_type(node, input, type, "f32");
    case TypeRule::sums: return check_sums_type(node, input, type, first);
    case TypeRule::steps:
    case TypeRule::chosen:
      if (type != first) return fail_type(node, input, type, "of the type of the first");
      return type == QN_F32 || type == QN_S8 ? QN_OK : fail_type(node, input, type, "f32 or s8");
    case TypeRule::made_real: return is_byte || type == QN_S32 ? QN_OK : fail_type(node, input, type, "s8, u8 or s32");
    case TypeRule::made_other: return is_byte ? QN_OK : fail_type(node, input, type, "s8 or u8");
    case TypeRule::moved:
    case TypeRule::own: break;
  }
  return type != QN_F16 ? QN_OK : fail_node(node, "input %zu is of type f16, which is for the border alone", input);
}

// ---- outputs

#ifdef QN_NO_INTEGERS  // then all tensors that a node computes are floats, or moved elements
qn_status infer_type(Graph& graph, const Node& node) {
  for (const int output : node.outputs) {
    if (tensor_of(graph, output).type != QN_F32) return fail_node(node, "the output is not f32");
  }
  return QN_OK;
}
#else
namespace {

bool has_one_scale(const Tensor& tensor) { return tensor.quantization.scales.size() == 1; }

// Has any zero point another value than 0?
bool is_shifted(const Tensor& tensor) {
  return any_of(tensor.quantization.zero_points, [](int32_t zero) { return zero != 0; });
}

// Checks that a bias has the scales of the sums of products.
qn_status check_bias(const Node& node, const Tensor& in, const Tensor& weights, const Tensor& bias) {
  if (is_shifted(bias)) return fail_node(node, "the bias has a zero point that is not 0");
  const Vector<float>&of_weights = weights.quantization.scales, &of_bias = bias.quantization.scales;
  if (of_bias.empty()) return QN_OK;  // it has the scales of the sums, which are known
  if (of_bias.size() > 1 && of_weights.size() > 1 && of_bias.size() != of_weights.size()) {
    return fail_node(node, "the bias has %zu scales, the weights %zu", of_bias.size(), of_weights.size());
  }
  const size_t channels = std::max(of_bias.size(), of_weights.size());
  for (size_t o = 0; o < channels; ++o) {
    const double actual = of_bias[of_bias.size() == 1 ? 0 : o];
    const double expected = double{in.quantization.scales[0]} * of_weights[of_weights.size() == 1 ? 0 : o];
    if (std::abs(actual - expected) <= 1e-5 * expected) continue;
    return fail_node(node, "channel %zu: the bias has scale %g, not %g, that of input times weights", o, actual,
                     expected);
  }
  return QN_OK;
}

// Checks the quantization of a convolution or matrix product: scales of the weights for output channels; and if the
// input is quantized, one scale for it and the output, and a bias with the scales of the sums.
qn_status check_sums(const Graph& graph, const Node& node) {
  const Tensor &in = tensor_of(graph, node.inputs[0]), &weights = tensor_of(graph, node.inputs[1]);
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != no_tensor;
  if (in.type == QN_S8) {
    if (has_blocks(weights)) return fail_node(node, "weights with scales for blocks, but an input of s8");
    if (!has_one_scale(in)) return fail_node(node, "the input has no single scale");
    if (!has_one_scale(tensor_of(graph, node.outputs[0]))) return fail_node(node, "the output has no single scale");
  }
  if (node.attributes.quantize_input) {
    const Attributes& a = node.attributes;
    if (in.type != QN_F32 || weights.type != QN_S8) {
      return fail_node(node, "quantize_input with an input of %s and weights of %s, not f32 and s8",
                       qn_type_string(in.type), qn_type_string(weights.type));
    }
    const bool padded = a.padding.top + a.padding.left + a.padding.bottom + a.padding.right > 0;
    const Shape& w = weights.shape;  // of any rank: rules look at it later
    const bool taps = w.size() == 4 && (w[1] != 1 || w[2] != 1);
    if (taps || padded || a.groups != 1 || a.stride.h != 1 || a.stride.w != 1) {
      return fail_node(node, "quantize_input with a kernel, stride or padding, or several groups");
    }
    const size_t block = weights.quantization.block;
    if (has_scaled_blocks && block % scale_block != 0) {
      return fail_node(node, "the weights have scales for blocks of %zu, not of a multiple of %zu", block, scale_block);
    }
  }
  if (weights.type == QN_S8) {
    if (weights.quantization.scales.empty()) return fail_node(node, "the weights have no scale");
    if (weights.quantization.axis > 0) {
      return fail_node(node, "the weights are quantized along axis %d, not 0", weights.quantization.axis);
    }
    if (is_shifted(weights)) return fail_node(node, "the weights have a zero point that is not 0");
  }
  if (!has_bias) return QN_OK;
  const Tensor& bias = tensor_of(graph, node.inputs[2]);
  if (in.type == QN_S8) return check_bias(node, in, weights, bias);
  if (bias.type != QN_S32) return QN_OK;
  if (is_shifted(bias)) return fail_node(node, "the bias has a zero point that is not 0");
  return bias.quantization.scales.empty() ? fail_node(node, "the bias has no scale") : QN_OK;
}

// Checks that all tensors of the node have one scale, if they are quantized.
qn_status check_single_scales(const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Tensor& input = tensor_of(graph, node.inputs[i]);
    if (input.type != QN_F32 && !has_one_scale(input)) return fail_node(node, "input %zu has no single scale", i);
  }
  const Tensor& output = tensor_of(graph, node.outputs[0]);
  if (output.type == QN_F32 || has_one_scale(output)) return QN_OK;
  return fail_node(node, "the output has no single scale");
}

// Gives the output the type and quantization of the inputs, which must agree.
qn_status infer_moved(Graph& graph, const Node& node) {
  const Tensor& first = tensor_of(graph, node.inputs[0]);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Tensor& input = tensor_of(graph, node.inputs[i]);
    if (input.quantization.axis != -1) return fail_node(node, "input %zu is quantized per channel", i);
    if (input.type == first.type && input.quantization == first.quantization) continue;
    return fail_node(node, "input %zu has another type or quantization than the first", i);
  }
  for (const int output : node.outputs) {
    graph.tensors[static_cast<size_t>(output)].quantization = first.quantization;
  }
  return QN_OK;
}

qn_status check_output_type(const Node& node, qn_type type, qn_type expected) {
  if (type == expected) return QN_OK;
  return fail_node(node, "the output is %s, not %s", qn_type_string(type), qn_type_string(expected));
}

}  // namespace

qn_status infer_type(Graph& graph, const Node& node) {
  const qn_type first = tensor_of(graph, node.inputs[0]).type, type = tensor_of(graph, node.outputs[0]).type;
  const TypeRule rule = kind_of(node.kind).types;
  switch (rule) {
    case TypeRule::floats: return check_output_type(node, type, QN_F32);
    case TypeRule::sums: QN_TRY(check_output_type(node, type, first)); return check_sums(graph, node);
    case TypeRule::steps: QN_TRY(check_output_type(node, type, first)); return check_single_scales(graph, node);
    case TypeRule::chosen:
      QN_TRY(infer_moved(graph, node));
      QN_TRY(check_output_type(node, type, first));
      if (type != QN_F32 && node.kind == OpKind::resize && node.attributes.mode != QN_RESIZE_NEAREST) {
        return fail_node(node, "only the nearest pixels of s8 can be chosen, not averages");
      }
      return check_single_scales(graph, node);
    case TypeRule::moved:
      QN_TRY(infer_moved(graph, node));
      for (const int output : node.outputs) QN_TRY(check_output_type(node, tensor_of(graph, output).type, first));
      return QN_OK;
    case TypeRule::made_real:
      QN_TRY(check_output_type(node, type, QN_F32));
      if (tensor_of(graph, node.inputs[0]).quantization.scales.empty())
        return fail_node(node, "the input has no scale");
      return QN_OK;
    case TypeRule::made_quantized:
    case TypeRule::made_other:
    case TypeRule::own: break;
  }
  if (type != QN_S8 && type != QN_U8) return fail_node(node, "the output is %s, not s8 or u8", qn_type_string(type));
  return check_single_scales(graph, node);
}
#endif

}  // namespace quern
