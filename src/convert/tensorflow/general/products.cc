// Products of matrices, convolutions.
#include <algorithm>

#include "convert/common/images.h"
#include "convert/tensorflow/general/general.h"

namespace quern::tensorflow {
namespace {

Values mat_mul(const TfNode& node) {
  return {make(node, "matmul",
               {transposed_if(node, node.flag("transpose_a", false), node.value(0)),
                transposed_if(node, node.flag("transpose_b", false), node.value(1))})};
}
Values batch_mat_mul(const TfNode& node) {
  for (const char* type : {"Ta", "Tb", "Tout"}) node.ignore(type);
  return {make(node, "matmul",
               {transposed_if(node, node.flag("adj_x", false), node.value(0)),
                transposed_if(node, node.flag("adj_y", false), node.value(1))})};
}
Values einsum(const TfNode& node) {
  const std::string equation = node.text("equation");
  return {
      make(node, "einsum", all_inputs(node), Parameters().integers("equation", {equation.begin(), equation.end()}))};
}

// ---- convolutions of any rank, with weights that may be computed; and their pools ----------------

// Returns the numbers of a list for the dimensions between batch and channels, which must have 1. Without a list: ones.
std::vector<int64_t> spatial(const TfNode& node, const char* attribute, size_t rank) {
  const std::vector<int64_t> list = node.integer_list(attribute);
  if (list.empty()) return std::vector<int64_t>(rank, 1);
  if (list.size() != rank + 2) node.fail(std::string(attribute) + " do not fit the image");
  if (list.front() != 1 || list.back() != 1) throw Unsupported{std::string(attribute) + " of batch or channels"};
  return {list.begin() + 1, list.end() - 1};
}

void expect_channels_last(const TfNode& node) {
  const std::string format = node.text("data_format", "NHWC");
  if (format != "NHWC" && format != "NDHWC") throw Unsupported{"data_format " + format};
}

// Moves the dimensions of weights k..., I, O.
Value weights_first(const TfNode& node, const Value& w, size_t rank) {
  std::vector<int64_t> order = {static_cast<int64_t>(rank + 1), static_cast<int64_t>(rank)};
  for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int64_t>(d));
  return permuted(node, w, order);
}

// Padding that follows the size of the image is that of its present size. With strides of 1 it follows the window alone.
std::vector<int64_t> pads_of(const TfNode& node, const Shape& x, const Shape& w, const std::vector<int64_t>& strides,
                             const std::vector<int64_t>& dilations) {
  const size_t rank = strides.size();
  const std::string padding = node.text("padding");
  std::vector<int64_t> pads(2 * rank, 0);
  if (!node.integer_list("explicit_paddings").empty() || padding == "EXPLICIT") throw Unsupported{"explicit padding"};
  if (padding == "VALID") return pads;
  if (padding != "SAME") node.fail("padding is '" + padding + "'");
  for (size_t d = 0; d < rank; ++d) {
    constexpr int64_t most = 1 << 20;
    if (strides[d] < 1 || strides[d] > most || dilations[d] < 1 || dilations[d] > most || w[d] < 1 || w[d] > most) {
      node.fail("a window is out of range");
    }
    if (strides[d] > 1) {
      shape_at_import(node, node.value(0));  // must be known
      fix_dimension(node, node.value(0), 1 + d);
    }
    const auto size = static_cast<int64_t>(x[1 + d]), reach = static_cast<int64_t>(w[d] - 1) * dilations[d] + 1;
    const int64_t places = (size + strides[d] - 1) / strides[d];
    const int64_t all = std::max<int64_t>((places - 1) * strides[d] + reach - size, 0);
    pads[d] = all / 2;
    pads[rank + d] = all - all / 2;
  }
  return pads;
}

template <size_t rank>
Values convolution_with(const TfNode& node, const Value& weights) {
  expect_channels_last(node);
  node.ignore("use_cudnn_on_gpu");
  const std::optional<Shape> expected = expected_shape(node.builder, node.value(0));
  const Shape x = expected ? *expected : shape_at_import(node, node.value(0)), w = shape_at_import(node, weights);
  if (x.size() != rank + 2 || w.size() != rank + 2) node.fail("tensors are not of rank " + std::to_string(rank + 2));
  const size_t groups = w[rank] == 0 ? 0 : x[rank + 1] / w[rank];
  if (groups == 0 || groups * w[rank] != x[rank + 1]) node.fail("the channels do not fit the weights");
  const std::vector<int64_t> strides = spatial(node, "strides", rank), dilations = spatial(node, "dilations", rank);
  Parameters parameters = Parameters()
                              .integers("strides", strides)
                              .integers("dilations", dilations)
                              .integers("pads", pads_of(node, x, w, strides, dilations))
                              .integer("groups", static_cast<int64_t>(groups));
  std::vector<int64_t> in = {0, rank + 1}, out = {0};
  for (int64_t d = 1; d <= static_cast<int64_t>(rank); ++d) {
    in.push_back(d);
    out.push_back(d + 1);
  }
  out.push_back(1);
  const Values inputs = {permuted(node, node.value(0), in), weights_first(node, weights, rank)};
  return {permuted(node, make(node, "conv", inputs, std::move(parameters)), out)};
}

template <size_t rank>
Values convolution_of(const TfNode& node) {
  return convolution_with<rank>(node, node.value(1));
}

// Weights are h, w, I, M; the M outputs of each channel of the input follow each other.
Values depthwise_convolution_of(const TfNode& node) {
  const Shape w = shape_at_import(node, node.value(1));
  if (w.size() != 4) node.fail("the weights are not of rank 4");
  return convolution_with<2>(
      node, reshaped(node, node.value(1), {static_cast<int64_t>(w[0]), static_cast<int64_t>(w[1]), 1, -1}));
}

// Inputs: shape of the output, weights h, w, O, I, input.
Values conv_2d_backprop_input(const TfNode& node) {
  expect_channels_last(node);
  const Integers& wanted = node.symbolic(0);
  const size_t first = wanted.values.size() == 4 ? 1 : 0;  // or height and width alone
  if (wanted.values.size() != first + 2 && wanted.values.size() != 4)
    node.fail("expected an output shape of " + std::to_string(first + 2) + " or 4 sizes, got " +
              std::to_string(wanted.values.size()));
  const std::string padding = node.text("padding");
  TransposedConvolution c = {{wanted.at(first), wanted.at(first + 1)},
                             spatial(node, "strides", 2),
                             spatial(node, "dilations", 2),
                             padding == "SAME"};
  const std::vector<int64_t> pads = node.integer_list("explicit_paddings");
  if (padding == "EXPLICIT" && pads.size() == 8 &&
      std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad >= 0 && pad < 1 << 20; })) {
    c.pads = {pads[2], pads[4], pads[3], pads[5]};
  } else if (!pads.empty() || (padding != "SAME" && padding != "VALID")) {
    node.fail("padding is '" + padding + "'");
  }
  const Value weights = permuted(node, node.value(1), {3, 2, 0, 1});
  const Value y = transposed_convolution(node, node.value(2), weights, {}, c);
  const auto filters = static_cast<int64_t>(shape_at_import(node, node.value(1))[2]);
  if (first == 1 && wanted.values[3] != filters) node.fail("the channels of the output do not fit the weights");
  return {y};
}

template <Name kind, size_t rank>
Values pool(const TfNode& node) {
  expect_channels_last(node);
  if (!node.integer_list("explicit_paddings").empty()) throw Unsupported{"explicit padding"};
  const std::string padding = node.text("padding");
  if (padding != "SAME" && padding != "VALID") node.fail("padding is '" + padding + "'");
  Parameters parameters = Parameters()
                              .integers("kernel", spatial(node, "ksize", rank))
                              .integers("strides", spatial(node, "strides", rank))
                              .integer("same", padding == "SAME");
  return {of_channels_last(node, kind.text, node.value(0), std::move(parameters))};
}

}  // namespace

const TfTable& general_products() {
  static const TfTable table = {
      {"AvgPool", {pool<"window_average", 2>, 1, 1}},
      {"AvgPool3D", {pool<"window_average", 3>, 1, 1}},
      {"BatchMatMul", {batch_mat_mul, 2, 2}},
      {"BatchMatMulV2", {batch_mat_mul, 2, 2}},
      {"BatchMatMulV3", {batch_mat_mul, 2, 2}},
      {"Conv2D", {convolution_of<2>, 2, 2}},
      {"Conv2DBackpropInput", {conv_2d_backprop_input, 3, 3}},
      {"Conv3D", {convolution_of<3>, 2, 2}},
      {"DepthwiseConv2dNative", {depthwise_convolution_of, 2, 2}},
      {"Einsum", {einsum, 1, 64}},
      {"MatMul", {mat_mul, 2, 2}},
      {"MaxPool", {pool<"window_max", 2>, 1, 1}},
      {"MaxPool3D", {pool<"window_max", 3>, 1, 1}},
  };
  return table;
}

}  // namespace quern::tensorflow
