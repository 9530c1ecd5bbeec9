// Convolutions, matrix products and what works on images: kinds of graph/ir/op.inc.
//
// Layers that quantize their input while they run become DynamicQuantizeLinear and MatMulInteger or, with scales for
// blocks of weights, MatMulNBits of ONNX Runtime.
#include <algorithm>
#include <span>

#include "base/math.h"
#include "convert/onnx/export/rows.h"

namespace quern::onnx {
namespace {

// ---- layers that quantize their input ---------------------------------------------------------

// ONNX quantizes the whole tensor with one scale, where we have one for each row.
std::string product_of_bytes(GraphWriter& to, const Node& node) {
  const int x = node.inputs[0];
  const Tensor& weights = to.tensor(node.inputs[1]);
  const Vector<float>& scales = weights.quantization.scales;
  const Shape rows = {weights.shape[0], weights.shape.back()}, columns = {rows[1], rows[0]};
  std::vector<uint8_t> data(rows[0] * rows[1]);
  permute_elements(to.constant_of(node.inputs[1]).data, 1, rows, {1, 0}, data.data());
  schema::NodeProto* bytes = to.add_op("DynamicQuantizeLinear", node_name(node, "quantize"), {to.plain(x)});
  const std::string scale = to.model.new_name(), zero = to.model.new_name();
  bytes->add_output(scale);
  bytes->add_output(zero);
  const std::string matrix = to.initializer(QN_S8, columns, data.data());
  const std::string sums = to.add("MatMulInteger", node_name(node), {bytes->output(0), matrix, zero});
  schema::NodeProto* real = to.add_op("Cast", node_name(node, "cast"), {sums});
  set_integer(real, "to", schema::TensorProto::FLOAT);
  const std::string of_weights = to.floats(scales.size() == 1 ? Shape{} : Shape{scales.size()}, scales.data());
  const std::string factor = to.add("Mul", node_name(node, "scales"), {scale, of_weights});
  return to.add("Mul", node_name(node, "scale"), {real->output(0), factor});
}

// Weights of 4 bits, two in a byte, the first in its lower half; 8 is added, and stands alone where a block is not
// full.
std::string product_of_blocks(GraphWriter& to, const Node& node) {
  const Tensor& weights = to.tensor(node.inputs[1]);
  const Quantization& q = weights.quantization;
  const size_t rows = weights.shape[0], depth = weights.shape.back(), blocks = divide_up(depth, q.block);
  const auto* from = static_cast<const int8_t*>(to.constant_of(node.inputs[1]).data);
  to.model.expect_room(rows * blocks, q.block / 2);  // there is a scale for each block
  std::vector<uint8_t> data(rows * blocks * q.block / 2, 0x88);
  for (size_t o = 0; o < rows; ++o) {
    for (size_t i = 0; i < depth; ++i) {
      const int raised = *from++ + 8, shift = i % 2 == 0 ? 0 : 4;
      if (raised < 0 || raised > 15) throw Error("a weight does not fit 4 bits");
      uint8_t& byte = data[(o * blocks * q.block + i) / 2];
      byte = static_cast<uint8_t>((byte & ~(0xf << shift)) | raised << shift);
    }
  }
  const std::string matrix = to.initializer(QN_U8, {rows, blocks, q.block / 2}, data.data());
  schema::NodeProto* product =
      to.add_op("MatMulNBits", node_name(node),
                {to.plain(node.inputs[0]), matrix, to.floats({q.scales.size()}, q.scales.data())});
  product->set_domain("com.microsoft");
  to.model.extended = true;
  set_integer(product, "K", static_cast<int64_t>(depth));
  set_integer(product, "N", static_cast<int64_t>(rows));
  set_integer(product, "bits", 4);
  set_integer(product, "block_size", static_cast<int64_t>(q.block));
  if (node.attributes.quantize_input) set_integer(product, "accuracy_level", 4);
  return product->output(0);
}

bool fit_4_bits(GraphWriter& to, const Node& node) {
  const Constant& constant = to.constant_of(node.inputs[1]);
  const std::span all(static_cast<const int8_t*>(constant.data), constant.bytes);
  return std::all_of(all.begin(), all.end(), [](int8_t w) { return w >= -8 && w <= 7; });
}

bool of_blocks(GraphWriter& to, const Node& node) { return to.tensor(node.inputs[1]).quantization.block != 0; }

// Rows, or pixels, times weights of integers, which stay integers.
void write_product_of_integers(GraphWriter& to, const Node& node) {
  std::string value = of_blocks(to, node) ? product_of_blocks(to, node) : product_of_bytes(to, node);
  if (has(node, 2)) value = to.add("Add", node_name(node, "bias"), {value, to.plain(node.inputs[2])});
  to.define(node, value, source_order(to.tensor(node.inputs[0]).shape.size()));
}

// ---- products ---------------------------------------------------------------------------------

// Gives the bias of a layer of bytes, if it has none, the scales that follow from those of input and weights.
void complete_bias(GraphWriter& to, const Node& node) {
  if (!has(node, 2) || to.tensor(node.inputs[2]).type != QN_S32 || to.has_scales(node.inputs[2])) return;
  Quantization q = to.tensor(node.inputs[1]).quantization;
  for (float& scale : q.scales) scale *= to.tensor(node.inputs[0]).quantization.scales[0];
  q.zero_points.clear();
  to.graph().tensors[at(node.inputs[2])].quantization = std::move(q);
}

// ONNX has blocks along one dimension only, MatMulNBits those of 4 bits. Others become f32: adds them for this node.
int real_weights(GraphWriter& to, const Node& node) {
  const Tensor& weights = to.tensor(node.inputs[1]);
  const Quantization& q = weights.quantization;
  const Constant& constant = to.constant_of(node.inputs[1]);
  const size_t rows = weights.shape[0], depth = constant.bytes / rows, runs = q.scales.size() / rows;
  std::vector<float> floats(constant.bytes);
  for (size_t i = 0; i < floats.size(); ++i) {
    const float scale = q.scales[i / depth * runs + i % depth / q.block];
    floats[i] = scale * static_cast<float>(static_cast<const int8_t*>(constant.data)[i]);
  }
  return add_constant(to.graph(), String(), QN_F32, weights.shape, floats.data());
}

void write_fully_connected(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const bool blocks = of_blocks(to, node);
  if (node.attributes.quantize_input || (blocks && fit_4_bits(to, node))) return write_product_of_integers(to, node);
  const int matrix = blocks ? real_weights(to, node) : node.inputs[1];
  const size_t rank = to.tensor(node.inputs[0]).shape.size();
  complete_bias(to, node);
  const std::string x = to.plain(node.inputs[0]);
  std::string value;
  if (rank == 2) {
    std::vector<std::string> inputs = {x, to.plain(matrix)};
    if (has(node, 2)) inputs.push_back(to.plain(node.inputs[2]));
    schema::NodeProto* gemm = to.add_op("Gemm", node_name(node), inputs);
    set_integer(gemm, "transB", 1);
    value = gemm->output(0);
  } else {
    value = to.add("MatMul", node_name(node), {x, to.in_order(matrix, {1, 0})});
    if (has(node, 2)) value = to.add("Add", node_name(node, "bias"), {value, to.plain(node.inputs[2])});
  }
  to.define(node, value, source_order(rank));
}

// ---- images -----------------------------------------------------------------------------------

void set_window(schema::NodeProto* node, const Attributes& a, bool dilated) {
  set_integers(node, "kernel_shape", std::vector<size_t>{a.kernel.h, a.kernel.w});
  set_integers(node, "strides", std::vector<size_t>{a.stride.h, a.stride.w});
  set_integers(node, "pads", std::vector<size_t>{a.padding.top, a.padding.left, a.padding.bottom, a.padding.right});
  if (dilated) set_integers(node, "dilations", std::vector<size_t>{a.dilation.h, a.dilation.w});
}

void write_conv(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  if (node.attributes.quantize_input) return write_product_of_integers(to, node);
  const Order order = channels_first(4);
  const int filter = of_blocks(to, node) ? real_weights(to, node) : node.inputs[1];
  complete_bias(to, node);
  std::vector<std::string> inputs = {to.in_order(node.inputs[0], order), to.in_order(filter, order)};
  if (has(node, 2)) inputs.push_back(to.plain(node.inputs[2]));
  schema::NodeProto* conv = to.add_op("Conv", node_name(node), inputs);
  Attributes a = node.attributes;
  const Shape& weights = to.tensor(node.inputs[1]).shape;
  a.kernel = {weights[1], weights[2]};
  set_window(conv, a, true);
  set_integer(conv, "group", static_cast<int64_t>(a.groups));
  to.define(node, conv->output(0), order);
}

// ONNX rounds halves to even. Where our averages of bytes round them away from 0, the mean gets a part of a step that
// no other number than a half notices: means of n bytes are 1 / n apart.
std::string without_halves(GraphWriter& to, const Node& node, const std::string& mean) {
  constexpr size_t most_pixels = 2048;  // of which the error of a mean of floats is small enough
  const Attributes& a = node.attributes;
  const int x = node.inputs[0];
  const bool global = node.kind == OpKind::global_average_pool;
  const size_t pixels = global ? to.tensor(x).shape[1] * to.tensor(x).shape[2] : a.kernel.h * a.kernel.w;
  if (a.pool_rounding == QN_POOL_ROUND_REAL || !to.is_quantized(x) || pixels > most_pixels) return mean;
  const Quantization& q = to.tensor(x).quantization;
  const float part = 1 / (4 * static_cast<float>(pixels)), step = part * q.scales[0];
  if (a.pool_rounding == QN_POOL_ROUND_U8) return to.add("Add", node_name(node, "up"), {mean, to.number(step)});
  const float zero = q.zero_points.empty() ? 0 : static_cast<float>(q.zero_points[0]) * q.scales[0];
  const std::string byte = to.add("Add", node_name(node, "byte"), {mean, to.number(zero)});
  const std::string slope = to.add("Mul", node_name(node, "slope"), {byte, to.number(2 * part)});
  const std::string away = to.add("Clip", node_name(node, "away"), {slope, to.number(-step), to.number(step)});
  return to.add("Add", node_name(node, "sum"), {mean, away});
}

void write_pool(GraphWriter& to, const Node& node, const ExportRow& row) {
  const Attributes& a = node.attributes;
  const qn_padding& p = a.padding;
  const bool average = node.kind == OpKind::average_pool, dilated = a.dilation.h != 1 || a.dilation.w != 1;
  const bool counts = average && a.count_padding && p.top + p.left + p.bottom + p.right > 0;
  // Some windows reach beyond the padding. From this operator set on, their sum is divided by the number of pixels
  // inside the image and its padding, as in our operator. Before, runtimes divided by the size of the kernel.
  if ((average && dilated) || (counts && a.ceil_mode)) to.need_opset(19);
  schema::NodeProto* pool = to.add_op(row.op, node_name(node), {to.in_order(node.inputs[0], channels_first(4))});
  set_window(pool, a, dilated);
  set_integer(pool, "ceil_mode", a.ceil_mode);
  if (counts) set_integer(pool, "count_include_pad", 1);
  to.define(node, without_halves(to, node, pool->output(0)), channels_first(4));
}

void write_image_op(GraphWriter& to, const Node& node, const ExportRow& row) {
  const std::string x = to.in_order(node.inputs[0], channels_first(4));
  to.define(node, without_halves(to, node, to.add(row.op, node_name(node), {x})), channels_first(4));
}

void write_lrn(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Attributes& a = node.attributes;
  const Order order = channels_first(to.tensor(node.inputs[0]).shape.size());
  schema::NodeProto* lrn = to.add_op("LRN", node_name(node), {to.in_order(node.inputs[0], order)});
  set_integer(lrn, "size", static_cast<int64_t>(a.size));
  set_number(lrn, "alpha", a.alpha);
  set_number(lrn, "beta", a.beta);
  set_number(lrn, "bias", a.gamma);
  to.define(node, lrn->output(0), order);
}

void write_resize(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Attributes& a = node.attributes;
  const bool scaled = a.values.empty(), all = !to.model.open;  // else the sizes of other dimensions are not known
  std::vector<std::string> inputs = {to.in_order(node.inputs[0], channels_first(4)), ""};
  if (scaled) {
    const float scales[4] = {1, 1, a.alpha, a.beta};
    inputs.push_back(to.floats({4}, scales));
  } else {
    const Shape& out = to.tensor(node.outputs[0]).shape;
    Vector<int64_t> sizes;
    for (const size_t d : all ? std::vector<size_t>{0, 3, 1, 2} : std::vector<size_t>{1, 2}) {
      sizes.push_back(static_cast<int64_t>(out[d]));
    }
    inputs.insert(inputs.end(), {"", to.integers(sizes)});
  }
  constexpr const char* coordinates[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
  constexpr const char* roundings[] = {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"};
  schema::NodeProto* resize = to.add_op("Resize", node_name(node), inputs);
  if (!scaled && !all) {
    to.need_opset(18);
    set_integers(resize, "axes", std::vector<int64_t>{2, 3});
  }
  set_text(resize, "mode", a.mode == QN_RESIZE_NEAREST ? "nearest" : "linear");
  set_text(resize, "coordinate_transformation_mode", coordinates[a.coordinates]);
  if (a.mode == QN_RESIZE_NEAREST) set_text(resize, "nearest_mode", roundings[a.rounding]);
  to.define(node, resize->output(0), channels_first(4));
}

}  // namespace

const ExportTable& exported_layers() {
  static const ExportTable table = {
      {"average_pool", ordered({write_pool, "AveragePool"})},
      {"conv2d", ordered({write_conv})},
      {"fully_connected", ordered({write_fully_connected})},
      {"global_average_pool", ordered({write_image_op, "GlobalAveragePool"})},
      {"global_max_pool", ordered({write_image_op, "GlobalMaxPool"})},
      {"lrn", ordered({write_lrn})},
      {"max_pool", ordered({write_pool, "MaxPool"})},
      {"resize", ordered({write_resize})},
  };
  return table;
}

}  // namespace quern::onnx
