// Products of matrices, transposed convolution.
#include "convert/common/images.h"
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
  if (weights.size() != 2) node.fail("expected 2-D weights, got rank " + std::to_string(weights.size()));
  if (!o.keep_num_dims()) x = reshaped(node, x, {-1, static_cast<int64_t>(weights[1])});
  Value y = make(node, "matmul", {x, transposed_if(node, true, node.any(1))});
  if (node.has(2)) y = make(node, "any_add", {y, node.any(2)});
  return {node.typed(y, 0, o.activation())};
}

// Inputs: shape of the output, weights O, h, w, I, input, bias.
Values transpose_conv(const TfliteNode& node) {
  const auto& o = node.options<schema::TransposeConvOptions>();
  const Integers& wanted = node.symbolic(0);  // the batch is that of the input
  if (wanted.values.size() != 4) node.fail("the shape of the output is not of rank 4");
  node.fix(wanted.symbols[3]);
  const TransposedConvolution c = {
      {wanted.at(1), wanted.at(2)}, {o.stride_h(), o.stride_w()}, {1, 1}, o.padding() == schema::Padding::same};
  const Value weights = permuted(node, node.any(1), {3, 0, 1, 2});
  return {node.typed(transposed_convolution(node, node.any(2), weights, node.any(3), c), 0, o.activation())};
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
