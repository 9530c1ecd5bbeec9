// Products of matrices, transposed convolution.

#include "convert/tflite/general/general.h"

namespace quern::tflite {
namespace {

Values batch_mat_mul(const TfliteNode& node) {
  const auto& o = node.options<schema::BatchMatMulOptions>();
  const Value a = transposed_if(node, o.adj_x(), node.any(0)), b = transposed_if(node, o.adj_y(), node.any(1));
  return {node.typed(make(node, "matmul", {a, b}))};
}

// A product with weights O, I that are computed, or of an input whose shape a run gives.
Values fully_connected(const TfliteNode& node) {
  const auto& o = node.options<schema::FullyConnectedOptions>();
  if (o.weights_format() != 0) throw Unsupported{"shuffled weights"};
  Value x = node.any(0);
  const Shape weights = shape_at_import(node, node.any(1));
  if (weights.size() != 2) node.fail("the weights are no matrix");
  if (!o.keep_num_dims()) x = reshaped(node, x, {-1, static_cast<int64_t>(weights[1])});
  Value y = make(node, "matmul", {x, transposed_if(node, true, node.any(1))});
  if (node.has(2)) y = make(node, "any_add", {y, node.any(2)});
  return {node.typed(y, 0, o.activation())};
}

// Inputs: shape of the output, weights O, h, w, I, input, bias. An output N, H, W, O is what a convolution of this size,
// with this padding, would read.
Values transpose_conv(const TfliteNode& node) {
  const auto& o = node.options<schema::TransposeConvOptions>();
  const std::vector<int64_t>& wanted = node.integers(0).values;
  const Shape w = shape_at_import(node, node.any(1)), x = shape_at_import(node, node.any(2));
  if (wanted.size() != 4 || w.size() != 4 || x.size() != 4) node.fail("tensors are not of rank 4");
  const int64_t strides[] = {o.stride_h(), o.stride_w()};
  std::vector<int64_t> pads(4, 0), more(2, 0);
  for (size_t d = 0; d < 2; ++d) {
    if (strides[d] < 1 || strides[d] > 1 << 20) node.fail("a stride is out of range");
    node.fix(node.dimension(2, 1 + d).symbol);
    const auto pixels = static_cast<int64_t>(x[1 + d]), taps = static_cast<int64_t>(w[1 + d]);
    const int64_t size = wanted[1 + d], whole = (pixels - 1) * strides[d] + taps;
    const bool same = o.padding() == schema::Padding::same;
    // How far windows reach beyond the output, half of it before.
    const int64_t beyond = same ? std::max<int64_t>(whole - size, 0) : 0;
    pads[d] = beyond / 2;
    pads[2 + d] = whole - pads[d] - size;
    if (pads[2 + d] < 0) more[d] = -std::exchange(pads[2 + d], 0);
    if (size < 1 || size >= int64_t{1} << 31) node.fail("the shape of the output is out of range");
  }
  Values inputs = {permuted(node, node.any(2), {0, 3, 1, 2}), permuted(node, node.any(1), {3, 0, 1, 2})};
  if (node.has(3)) inputs.push_back(node.any(3));
  Parameters parameters = Parameters()
                              .integers("strides", {strides[0], strides[1]})
                              .integers("dilations", {1, 1})
                              .integers("pads", pads)
                              .integers("output_padding", more)
                              .integer("groups", 1);
  const Value y = make(node, "conv_transposed", inputs, std::move(parameters));
  return {node.typed(permuted(node, y, {0, 2, 3, 1}), 0, o.activation())};
}

}  // namespace

const TfliteTable& general_products() {
  static const TfliteTable table = {
      {"BATCH_MATMUL", {batch_mat_mul, 2, 2}},
      {"FULLY_CONNECTED", {fully_connected, 2, 3}},
      {"TRANSPOSE_CONV", {transpose_conv, 3, 4}},
  };
  return table;
}

}  // namespace quern::tflite
