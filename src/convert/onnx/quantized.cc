// Imports ONNX operators about quantized numbers. QuantizeLinear and DequantizeLinear become nodes of our graph. Each
// operator that computes with bytes itself (QLinearConv and so on) becomes the operator of floats between such nodes, so
// that both forms of a model give the same graph; passes of the optimizer then make it compute with bytes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/math.h"
#include "convert/common/kinds.h"
#include "convert/common/quantized.h"
#include "convert/onnx/node.h"
#include "convert/onnx/tensor.h"
#include "kernel/panel.h"

namespace quern::onnx {
namespace {

// ---- scales and zero points -------------------------------------------------------------------

// Reads a scale and a zero point, which may be absent: one number, or one for each index of a dimension.
Scales scales_at(const OnnxNode& node, size_t scale, size_t zero_point, ElementType type, size_t axis) {
  if (node.constant(scale).rank() > 1) throw Unsupported{"scales for blocks"};
  Scales s;
  s.scales = node.floats(scale);
  s.axis = axis;
  if (node.has(zero_point)) {
    if (node.value(zero_point).type != type) node.fail("the zero point has another type than the elements");
    s.zero_points = node.integers(zero_point).values;
  }
  check_scales(node, s, type);
  return s;
}

// Returns a quantized input as floats.
Value dequantized(const OnnxNode& node, size_t input, size_t scale, size_t zero_point, int64_t axis) {
  const Shape shape = node.dims(input);
  const size_t dimension =
      shape.empty() || axis >= static_cast<int64_t>(shape.size()) ? 0 : node.axis(axis, shape.size());
  return convert::dequantized(node, input, scales_at(node, scale, zero_point, node.value(input).type, dimension));
}

// Makes `x` a quantized result of the node, with a scale and zero point from its inputs.
Value quantized(const OnnxNode& node, const View& x, size_t scale, size_t zero_point) {
  const ElementType type = node.has(zero_point) ? node.value(zero_point).type : ElementType::u8;
  return convert::quantized(node, node.name, x, scales_at(node, scale, zero_point, type, 0), type);
}

// ---- conversions ------------------------------------------------------------------------------

Values dequantize_linear(const OnnxNode& node) {
  if (node.integer("block_size", 0) != 0) throw Unsupported{"block_size"};
  if (node.integer("output_dtype", 1) != 1) throw Unsupported{"output_dtype"};
  return {dequantized(node, 0, 1, 2, node.integer("axis", 1))};
}

Values quantize_linear(const OnnxNode& node) {
  if (node.integer("block_size", 0) != 0) throw Unsupported{"block_size"};
  if (node.integer("precision", 0) > 1) throw Unsupported{"precision"};
  node.ignore("saturate");  // only about types of 8-bit floats
  const auto wanted = static_cast<int32_t>(node.integer("output_dtype", 0));
  const ElementType given = node.has(2) ? node.value(2).type : ElementType::u8;
  if (!is_byte(given) || (wanted != 0 && element_type(wanted) != given)) throw Unsupported{"to other types than bytes"};
  const int64_t axis = node.integer("axis", 1);
  if (!node.is_constant(0)) return {quantized(node, node.view(0), 1, 2)};
  const Shape shape = node.builder.shape(node.view(0));
  const size_t dimension = axis >= static_cast<int64_t>(shape.size()) ? 0 : node.axis(axis, shape.size());
  const Scales s = scales_at(node, 1, 2, given, dimension);
  check_axis(node, s, shape);
  return {integer_value(quantized_integers(shape, node.builder.floats(node.view(0)), given, s), given)};
}

// ---- operators that compute with bytes --------------------------------------------------------

// A bias of 32-bit integers has the scales of the sums of products.
Value bias_of_sums(const OnnxNode& node, size_t input, size_t x_scale, size_t w_scale) {
  if (!node.has(input)) return {};
  Scales s;
  s.scales = node.floats(w_scale);
  for (float& scale : s.scales) scale *= node.scalar(x_scale);
  const Integers& bias = node.integers(input);
  if (node.value(input).type != ElementType::s32 || bias.shape.size() != 1) node.fail("expected a 1-D bias of int32");
  check_axis(node, s, bias.shape);
  return dequantized_constant(node.builder, bias, ElementType::s32, s);
}

Values qlinear_conv(const OnnxNode& node) {
  const Value x = dequantized(node, 0, 1, 2, 1), weights = dequantized(node, 3, 4, 5, 0);
  return {quantized(node, conv(node, x.view, weights, bias_of_sums(node, 8, 1, 4)), 6, 7)};
}

Values qlinear_mat_mul(const OnnxNode& node) {
  const Value a = dequantized(node, 0, 1, 2, 0), b = dequantized(node, 3, 4, 5, -1);
  return {quantized(node, mat_mul(node, a.view, b), 6, 7)};
}

// An input of Microsoft's operators, which have no kind of their own for bytes that nodes of libquern-extra make: of
// embeddings, and of products of two computed matrices.
Value real_input(const OnnxNode& node, size_t input, size_t scale, size_t zero_point, int64_t axis) {
  try {
    return dequantized(node, input, scale, zero_point, axis);
  } catch (const Unsupported&) {
    if (node.is_integer(input) || !is_byte(node.value(input).type)) throw;
    const Value zero = node.has(zero_point) ? node.value(zero_point) : Value();
    const Values inputs = {node.value(input), node.value(scale), zero};
    return make(node, "dequantize_linear", inputs, Parameters().integer("axis", axis), ElementType::f32);
  }
}

// Microsoft's: alpha * A * B + C, where C has the scale alpha * that of A * that of B.
Values q_gemm(const OnnxNode& node) {
  if (node.number("alpha", 1) != 1) throw Unsupported{"alpha"};
  const bool transposed = node.integer("transB", 0) != 0;
  const Value a = real_input(node, 0, 1, 2, 0), b = real_input(node, 3, 4, 5, transposed ? 0 : 1);
  const View y = gemm(node, a.view, b, bias_of_sums(node, 6, 1, 4));
  if (!node.has(7)) return {Value(y)};
  return {quantized(node, y, 7, 8)};
}

View binary(const OnnxNode& node, OpKind kind) {
  const Value a = real_input(node, 0, 1, 2, 0), b = real_input(node, 3, 4, 5, 0);
  return node.builder.binary(kind, node.name + "/real", a.view, b.view);
}
Values qlinear_add(const OnnxNode& node) { return {quantized(node, binary(node, OpKind::add), 6, 7)}; }
Values qlinear_mul(const OnnxNode& node) { return {quantized(node, binary(node, OpKind::mul), 6, 7)}; }

Values qlinear_pool(const OnnxNode& node, OpKind kind) {
  if (node.integer("channels_last", 0) != 0) throw Unsupported{"channels_last"};
  const View x = real_input(node, 0, 1, 2, 0).view;
  return {quantized(node, pool(node, kind, node.name + "/real", x), 3, 4)};
}
Values qlinear_average_pool(const OnnxNode& node) { return qlinear_pool(node, OpKind::average_pool); }
Values qlinear_global_average_pool(const OnnxNode& node) { return qlinear_pool(node, OpKind::global_average_pool); }

Values qlinear_sigmoid(const OnnxNode& node) {
  const View x = real_input(node, 0, 1, 2, 0).view;
  return {quantized(node, node.builder.unary(OpKind::sigmoid, node.name + "/real", x), 3, 4)};
}

Values qlinear_leaky_relu(const OnnxNode& node) {
  const View x = real_input(node, 0, 1, 2, 0).view;
  const float slope = node.number("alpha", 0.01f);
  return {quantized(node, node.builder.leaky_relu(node.name + "/real", x, slope), 3, 4)};
}

Values qlinear_softmax(const OnnxNode& node) {
  const View x = real_input(node, 0, 1, 2, 0).view;
  const bool flattens = node.integer("opset", 13) < 13;
  return {quantized(node, softmax(node, x, flattens), 3, 4)};
}

// Inputs: the condition, each choice with its scale and zero point, and those of the output.
Values qlinear_where(const OnnxNode& node) {
  const Value yes = real_input(node, 1, 2, 3, 0), no = real_input(node, 4, 5, 6, 0);
  const Value chosen = make(node, "where", {node.value(0), yes, no}, {}, ElementType::f32);
  return {quantized(node, chosen.view, 7, 8)};
}

// Inputs: scale and zero point of the output, then each tensor with its own.
Values qlinear_concat(const OnnxNode& node) {
  if (node.input_count() % 3 != 2) node.fail("inputs are not scale, zero point, and three for each tensor");
  std::vector<View> views;
  for (size_t i = 2; i < node.input_count(); i += 3) views.push_back(real_input(node, i, i + 1, i + 2, 0).view);
  const size_t axis = node.axis(node.integer("axis", 0), views.at(0).rank());
  return {quantized(node, node.builder.concat(node.name + "/real", views, axis), 0, 1)};
}

// ---- activations quantized while a model runs -------------------------------------------------

// Activations stay real numbers, as if their steps were infinitely small: y = x, with scale 1 and zero point 0. So the
// operators below multiply real numbers by integer weights, and the model's own product with both scales does the rest.
// A matrix product with weights of bytes quantizes its input itself: row by row, where the model has one scale for all
// rows, so results are nearer to those of real numbers than the model's.
Values dynamic_quantize_linear(const OnnxNode& node) {
  const float one = 1;
  return {node.value(0), node.builder.constant({}, &one), integer_value({{}, {0}, {}}, ElementType::u8)};
}

Value integer_activations(const OnnxNode& node, size_t zero_point) {
  if (is_byte(node.value(0).type)) throw Unsupported{"of an input that DynamicQuantizeLinear has not made"};
  if (node.has(zero_point)) {
    for (const int64_t z : node.integers(zero_point).values) {
      if (z != 0) throw Unsupported{"a zero point of real numbers"};
    }
  }
  return node.view(0);
}

// Weights whose steps are 1. `axis` is the dimension of output channels.
Value integer_weights(const OnnxNode& node, size_t zero_point, size_t axis) {
  if (!node.is_integer(1)) throw Unsupported{"weights that are computed"};
  if (!is_byte(node.value(1).type)) node.fail("weights of another type than int8 or uint8");
  Scales s;
  if (node.integers(1).values.empty()) throw Unsupported{"of no elements"};
  if (node.has(zero_point)) {
    if (node.value(zero_point).type != node.value(1).type) node.fail("weights and zero point differ in type");
    s.zero_points = node.integers(zero_point).values;
  }
  s.scales.assign(std::max<size_t>(s.zero_points.size(), 1), 1);
  s.axis = axis;
  check_axis(node, s, node.dims(1));
  return dequantized_constant(node.builder, node.integers(1), node.value(1).type, s);
}

Values conv_integer(const OnnxNode& node) {
  return {conv(node, integer_activations(node, 2).view, integer_weights(node, 3, 0), {})};
}

Attributes quantizing_input() {
  Attributes attributes;
  attributes.quantize_input = true;
  return attributes;
}

Values mat_mul_integer(const OnnxNode& node) {
  const size_t rank = node.dims(1).size();
  const View x = integer_activations(node, 2).view;
  const Value weights = integer_weights(node, 3, rank == 0 ? 0 : rank - 1);
  if (rank != 2 || x.rank() == 0 || weights.quantized.size() != 1) return {mat_mul(node, x, weights)};
  const View rows = node.builder.permute(weights.quantized[0], {1, 0});
  return {node.builder.fully_connected(node.name, x, rows, {}, quantizing_input())};
}

// ---- Microsoft's weights with scales for blocks

// The unsigned elements of `bits` bits in rows of bytes, the first in the lowest bits. A row begins with a byte.
std::vector<int32_t> unpacked(const OnnxNode& node, size_t input, size_t rows, size_t elements, size_t bits) {
  const std::vector<int64_t>& bytes = node.integers(input).values;
  const size_t in_byte = 8 / bits, row_bytes = (elements + in_byte - 1) / in_byte;
  if (node.value(input).type != ElementType::u8 || bytes.size() != rows * row_bytes) {
    node.fail("input " + std::to_string(input) + " is not " + std::to_string(rows * row_bytes) + " elements of uint8");
  }
  std::vector<int32_t> list;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < elements; ++i) {
      const int64_t byte = bytes[row * row_bytes + i / in_byte];
      list.push_back(static_cast<int32_t>(byte >> i % in_byte * bits & ((1 << bits) - 1)));
    }
  }
  return list;
}

// Weights B [N, K] of few bits, of which each block of a row has a scale and a zero point: (element - zero) * scale.
struct BlockWeights {
  size_t rows, depth, each, blocks;  // N, K, the size of a block, blocks in a row
  int32_t middle;                    // what symmetric weights have as their zero point
  std::vector<int32_t> elements;     // rows of whole blocks
  std::vector<float> scales, zeros;  // of each row's blocks

  int32_t element(size_t row, size_t i) const { return elements[row * blocks * each + i]; }
  size_t block(size_t row, size_t i) const { return row * blocks + i / each; }
};

BlockWeights block_weights(const OnnxNode& node) {
  const int64_t bits = node.integer("bits", 4), k = node.integer("K", 0), n = node.integer("N", 0);
  const int64_t block = node.integer("block_size", 0);
  if (bits != 2 && bits != 4 && bits != 8) throw Unsupported{"elements of " + std::to_string(bits) + " bits"};
  if (k < 1 || n < 1 || block < 1 || k > INT32_MAX || n > INT32_MAX || block > INT32_MAX) {
    node.fail("K, N or block_size is out of range");
  }
  if (node.has(4)) throw Unsupported{"g_idx"};
  if (node.integer("weight_prepacked", 0) != 0) throw Unsupported{"weight_prepacked"};
  BlockWeights w = {};
  w.rows = static_cast<size_t>(n);
  w.depth = static_cast<size_t>(k);
  w.each = static_cast<size_t>(block);
  w.blocks = divide_up(w.depth, w.each);
  w.middle = 1 << (bits - 1);
  w.elements = unpacked(node, 1, w.rows, w.blocks * w.each, static_cast<size_t>(bits));
  w.scales = node.floats(2);
  if (w.scales.size() != w.rows * w.blocks) node.fail("there is not one scale for each block");
  w.zeros.assign(w.scales.size(), static_cast<float>(w.middle));
  if (!node.has(3)) return w;
  if (node.value(3).type == ElementType::u8) {
    const std::vector<int32_t> zeros = unpacked(node, 3, w.rows, w.blocks, static_cast<size_t>(bits));
    w.zeros.assign(zeros.begin(), zeros.end());
  } else {
    w.zeros = node.floats(3);
  }
  if (w.zeros.size() != w.scales.size()) node.fail("there is not one zero point for each block");
  return w;
}

// Weights as layers take them, and what then remains for each block: x times remainder.
struct QuantizedBlocks {
  std::vector<int8_t> steps;
  std::vector<float> remainders;  // {} if nothing remains
  size_t length;                  // of a block; 0: scales are those of rows
};

// The length of a block that has a whole row, as MatMulNBits may have it: a power of two.
size_t whole_row(size_t depth) { return std::bit_ceil(std::max(depth, scale_block)); }

// Finds such weights. Blocks must have a multiple of 32 weights that fit 4 bits; or, if a layer may quantize its input, a
// row is one block with a positive scale. Zero points are taken off where the weights still fit; else what they differ
// from the middle remains.
std::optional<QuantizedBlocks> quantized_blocks(const BlockWeights& w, bool of_rows) {
  QuantizedBlocks q = {{}, {}, w.blocks == 1 ? whole_row(w.depth) : w.each};
  of_rows = of_rows && w.blocks == 1;
  for (size_t i = 0; i < w.scales.size(); ++i) {
    of_rows = of_rows && std::isfinite(w.scales[i]) && std::isfinite(w.zeros[i]) && w.scales[i] > 0;
    if (!std::isfinite(w.scales[i] * (static_cast<float>(w.middle) - w.zeros[i]))) return std::nullopt;
  }
  if (of_rows) q.length = 0;
  const int32_t least = of_rows ? INT8_MIN : -8, most = of_rows ? INT8_MAX : 7;
  if (q.length % scale_block != 0) return std::nullopt;
  const auto fill = [&](const auto& zero_of) {
    q.steps.clear();
    for (size_t o = 0; o < w.rows; ++o) {
      for (size_t i = 0; i < w.depth; ++i) {
        const float step = static_cast<float>(w.element(o, i)) - zero_of(w.block(o, i));
        if (!(step >= static_cast<float>(least) && step <= static_cast<float>(most)) || step != std::floor(step))
          return false;
        q.steps.push_back(static_cast<int8_t>(step));
      }
    }
    return true;
  };
  if (fill([&](size_t block) { return w.zeros[block]; })) return q;
  if (!fill([&](size_t) { return static_cast<float>(w.middle); })) return std::nullopt;
  for (size_t i = 0; i < w.scales.size(); ++i) {
    q.remainders.push_back(w.scales[i] * (static_cast<float>(w.middle) - w.zeros[i]));
  }
  return q;
}

// The sums of the blocks of each row of x: a product with weights of 1 in the block, and 0 elsewhere, which fit 4 bits.
View sums_of_blocks(const OnnxNode& node, const View& x, const BlockWeights& w) {
  std::vector<int8_t> ones(w.blocks * w.depth);
  for (size_t i = 0; i < w.depth; ++i) ones[i / w.each * w.depth + i] = 1;
  Quantization q;
  q.scales.assign(w.blocks, 1);
  q.axis = 0;
  q.block = whole_row(w.depth);
  const View weights = node.builder.constant({w.blocks, w.depth}, QN_S8, ones.data(), std::move(q));
  return node.builder.fully_connected(node.name + "/blocks", x, weights, {});
}

View sum(const OnnxNode& node, const View& a, const View& b) {
  if (node.builder.is_sized(a)) return node.builder.binary(OpKind::add, node.name, a, b);
  return node.builder.custom("any_add", node.name, {a, b}, {}, {QN_F32})[0];
}

// x times weights of few bits.
View product_of_blocks(const OnnxNode& node, const View& x, const BlockWeights& w, const QuantizedBlocks& blocks,
                       const View& bias, const Attributes& attributes) {
  Builder& builder = node.builder;
  Quantization q;
  q.scales.assign(w.scales.begin(), w.scales.end());
  if (w.rows > 1 || blocks.length != 0) q.axis = 0;
  q.block = blocks.length;
  const View weights = builder.constant({w.rows, w.depth}, QN_S8, blocks.steps.data(), std::move(q));
  const bool complete = blocks.remainders.empty();
  const std::string name = complete ? node.name : node.name + "/quantized";
  const View y = builder.fully_connected(name, x, weights, bias, attributes);
  if (complete) return y;
  const View remainders = builder.constant({w.rows, w.blocks}, blocks.remainders.data());
  return sum(node, y, builder.fully_connected(node.name + "/zero_points", sums_of_blocks(node, x, w), remainders, {}));
}

// Microsoft's A * B'. Where the node allows activations of 8 bits, a layer quantizes them. Weights that no layer takes
// become f32.
Values mat_mul_n_bits(const OnnxNode& node) {
  const BlockWeights w = block_weights(node);
  const bool quantizes = node.integer("accuracy_level", 0) == 4;
  Builder& builder = node.builder;
  const bool sized = node.value(0).view && builder.is_sized(node.value(0).view);
  const View x = sized ? node.view(0) : node.operand(0);
  if (sized && (x.rank() == 0 || builder.shape(x).back() != w.depth)) node.fail("the rows of A have not K elements");
  View bias;
  if (node.has(5)) {
    bias = node.constant(5);
    if (builder.shape(bias) != Shape{w.rows}) node.fail("the bias has not N elements");
  }
  if (const auto blocks = quantized_blocks(w, quantizes)) {
    return {product_of_blocks(node, x, w, *blocks, bias, quantizes ? quantizing_input() : Attributes())};
  }
  std::vector<float> real;
  for (size_t o = 0; o < w.rows; ++o) {
    for (size_t i = 0; i < w.depth; ++i) {
      const size_t at = w.block(o, i);
      real.push_back((static_cast<float>(w.element(o, i)) - w.zeros[at]) * w.scales[at]);
    }
  }
  return {builder.fully_connected(node.name, x, builder.constant({w.rows, w.depth}, real.data()), bias)};
}

// ---- Microsoft's recurrent layers

// Weights [directions, from, to] as LSTM has them, [directions, to, from]. There is a scale for each direction, or for each
// of its columns.
Value transposed_weights(const OnnxNode& node, size_t input, size_t scale, size_t zero_point) {
  const Integers& weights = node.integers(input);
  const Shape shape = weights.shape;
  if (shape.size() != 3 || !is_byte(node.value(input).type)) node.fail("weights are not three-dimensional bytes");
  const std::vector<float> scales = node.floats(scale);
  const std::vector<int64_t> zeros = node.has(zero_point) ? node.integers(zero_point).values : std::vector<int64_t>();
  const size_t directions = shape[0], from = shape[1], to = shape[2], columns = directions * to;
  if (scales.size() != directions && scales.size() != columns) node.fail("the scales do not fit the weights");
  if (!zeros.empty() && zeros.size() != scales.size()) node.fail("there are not as many zero points as scales");
  std::vector<float> real(weights.values.size());
  for (size_t i = 0; i < real.size(); ++i) {
    const size_t direction = i / (from * to), row = i / to % from, column = i % to;
    const size_t channel = scales.size() == columns ? direction * to + column : direction;
    const int64_t step = weights.values[i] - (zeros.empty() ? 0 : zeros[channel]);
    real[(direction * to + column) * from + row] = static_cast<float>(step) * scales[channel];
  }
  return node.builder.constant({directions, to, from}, real.data());
}

// An LSTM that quantizes its input and state at each step. Here they stay real numbers.
Values dynamic_quantize_lstm(const OnnxNode& node) {
  const Value w = transposed_weights(node, 1, 8, 9), r = transposed_weights(node, 2, 10, 11);
  std::vector<const Value*> inputs = {&node.value(0), &w, &r};
  for (size_t i = 3; i < 8; ++i) inputs.push_back(node.has(i) ? &node.value(i) : nullptr);
  for (const schema::AttributeProto& attribute : node.proto.attribute()) node.ignore(attribute.name().c_str());
  schema::NodeProto proto = node.proto;
  proto.set_op_type("LSTM");
  const OnnxNode layer(node.builder, proto, node.name, 14, node.folder, inputs);
  Values outputs = find_general("LSTM")->import(layer);
  if (const std::string unread = layer.unread_attribute(); !unread.empty()) throw Unsupported{"attribute " + unread};
  return outputs;
}

}  // namespace

const OnnxRow* find_quantized(const std::string& op_type) {
  static const OnnxTable kinds = {
      {"ConvInteger", {conv_integer, 2, 4}},
      {"DequantizeLinear", {dequantize_linear, 2, 3}},
      {"DynamicQuantizeLSTM", {dynamic_quantize_lstm, 12, 12}},
      {"DynamicQuantizeLinear", {dynamic_quantize_linear, 1, 1}},
      {"MatMulInteger", {mat_mul_integer, 2, 4}},
      {"MatMulNBits", {mat_mul_n_bits, 3, 6}},
      {"QGemm", {q_gemm, 6, 9}},
      {"QLinearAdd", {qlinear_add, 7, 8}},
      {"QLinearAveragePool", {qlinear_average_pool, 4, 5}},
      {"QLinearConcat", {qlinear_concat, 5, many_inputs}},
      {"QLinearConv", {qlinear_conv, 8, 9}},
      {"QLinearGlobalAveragePool", {qlinear_global_average_pool, 5, 5}},
      {"QLinearLeakyRelu", {qlinear_leaky_relu, 4, 5}},
      {"QLinearMatMul", {qlinear_mat_mul, 8, 8}},
      {"QLinearMul", {qlinear_mul, 7, 8}},
      {"QLinearSigmoid", {qlinear_sigmoid, 4, 5}},
      {"QLinearSoftmax", {qlinear_softmax, 5, 5}},
      {"QLinearWhere", {qlinear_where, 9, 9}},
      {"QuantizeLinear", {quantize_linear, 2, 3}},
  };
  return find_in(kinds, op_type);
}

}  // namespace quern::onnx
