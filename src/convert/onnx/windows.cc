// Imports ONNX operators that move a window over an image or a signal, and reductions, whose window is the whole.
#include <limits>

#include "convert/common/layers.h"
#include "convert/onnx/node.h"
#include "graph/ir/rules.h"

namespace quern::onnx {
namespace {

// Windows of one dimension are those of an image with one row.
qn_hw pair_of(const OnnxNode& node, const char* attribute, int64_t otherwise) {
  std::vector<int64_t> list = node.integer_list(attribute);
  if (list.empty()) return {static_cast<size_t>(otherwise), static_cast<size_t>(otherwise)};
  if (list.size() == 1) list.insert(list.begin(), 1);
  if (list.size() != 2)
    throw Unsupported{std::string(attribute) + " of " + std::to_string(list.size()) + " dimensions"};
  for (const int64_t value : list) {
    if (value <= 0 || value > std::numeric_limits<int32_t>::max())
      node.fail(std::string(attribute) + " is out of range");
  }
  return {static_cast<size_t>(list[0]), static_cast<size_t>(list[1])};
}

// Calls compute(image), which returns an image. A signal (N, C, L) is an image with one row. Checks that attributes are as
// long as the rank says.
template <class Compute>
View with_rows(const OnnxNode& node, const View& x, Compute&& compute) {
  const size_t spatial = x.rank() < 3 ? 0 : x.rank() - 2;
  const std::pair<const char*, size_t> lists[] = {
      {"kernel_shape", spatial}, {"strides", spatial}, {"dilations", spatial}, {"pads", 2 * spatial}};
  for (const auto& [attribute, length] : lists) {
    const size_t has = node.integer_list(attribute).size();
    if (has != 0 && has != length) node.fail(std::string(attribute) + " has " + std::to_string(has) + " numbers");
  }
  if (x.rank() != 3) return compute(x);
  const View image = compute(node.builder.insert_dimension(node.name + "/row", x, 2));
  return node.builder.remove_dimension(node.name + "/signal", image, 2);
}

// Reads kernel_shape, strides, dilations, pads and auto_pad.
Attributes window(const OnnxNode& node, const View& x, qn_hw kernel) {
  Attributes a;
  a.kernel = kernel;
  a.stride = pair_of(node, "strides", 1);
  a.dilation = pair_of(node, "dilations", 1);
  const std::string mode = node.text("auto_pad", "NOTSET");
  std::vector<int64_t> pads = node.integer_list("pads");
  if (pads.size() == 2) pads = {0, pads[0], 0, pads[1]};
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    const Shape shape = node.builder.shape(x);
    if (shape.size() != 4) throw Unsupported{"on a tensor of rank " + std::to_string(shape.size())};
    a.same_padding = mode == "SAME_UPPER" ? SamePadding::odd_pixel_last : SamePadding::odd_pixel_first;
    same_padding(a.same_padding, shape[2], kernel.h, a.stride.h, a.dilation.h, &a.padding.top, &a.padding.bottom);
    same_padding(a.same_padding, shape[3], kernel.w, a.stride.w, a.dilation.w, &a.padding.left, &a.padding.right);
  } else if (mode == "NOTSET" && !pads.empty()) {
    if (pads.size() != 4) throw Unsupported{"pads of " + std::to_string(pads.size() / 2) + " dimensions"};
    for (const int64_t pad : pads) {
      if (pad < 0 || pad > std::numeric_limits<int32_t>::max()) node.fail("pads are out of range");
    }
    a.padding = {static_cast<size_t>(pads[0]), static_cast<size_t>(pads[1]), static_cast<size_t>(pads[2]),
                 static_cast<size_t>(pads[3])};
  } else if (mode != "NOTSET" && mode != "VALID") {
    node.fail("auto_pad is '" + mode + "'");
  }
  return a;
}

// Weights are O, I, kh, kw.
View conv_image(const OnnxNode& node, const View& x, const Value& weights, const Value& bias) {
  Builder& builder = node.builder;
  const Shape w = builder.shape(weights.view), shape = builder.shape(x);
  if (w.size() != 4 || shape.size() != 4) throw Unsupported{"on a tensor of rank " + std::to_string(shape.size())};
  const qn_hw kernel = node.has_attribute("kernel_shape") ? pair_of(node, "kernel_shape", 0) : qn_hw{w[2], w[3]};
  if (kernel.h != w[2] || kernel.w != w[3]) node.fail("kernel_shape differs from the weights");
  Attributes a = window(node, x, kernel);
  const int64_t groups = node.integer("group", 1);
  if (groups <= 0 || shape[1] % static_cast<size_t>(groups) != 0 || w[0] % static_cast<size_t>(groups) != 0 ||
      shape[1] / static_cast<size_t>(groups) != w[1]) {
    node.fail(std::to_string(shape[1]) + " channels, weights for " + std::to_string(w[1]) + " and group " +
              std::to_string(groups) + " do not fit");
  }
  a.groups = static_cast<size_t>(groups);
  if (bias.view && builder.shape(bias.view) != Shape{w[0]}) node.fail("the bias does not fit the weights");
  const auto [input, kept] = convolution_factors(node, x, weights, &a);
  return builder.conv2d(node.name, input, kept, bias_for(kept, weights, bias), a);
}

View pool_image(const OnnxNode& node, OpKind kind, const std::string& name, const View& x) {
  if (kind == OpKind::global_average_pool || kind == OpKind::global_max_pool) {
    return node.builder.pool(kind, name, x, {});
  }
  if (!node.has_attribute("kernel_shape")) node.fail("kernel_shape is missing");
  Attributes a = window(node, x, pair_of(node, "kernel_shape", 0));
  a.ceil_mode = node.integer("ceil_mode", 0) != 0;
  if (kind == OpKind::average_pool) a.count_padding = node.integer("count_include_pad", 0) != 0;
  node.ignore("storage_order");  // only about the second output, which is not supported
  return node.builder.pool(kind, name, x, a);
}

}  // namespace

View conv(const OnnxNode& node, const View& x, const Value& weights, const Value& bias) {
  if (!node.builder.is_constant(weights.view)) throw Unsupported{"weights that are not constant"};
  if (x.rank() != weights.view.rank()) node.fail("input and weights differ in rank");
  const bool signal = x.rank() == 3;
  const Value kernels = signal ? node.builder.insert_dimension("", weights.view, 2) : weights;
  return with_rows(node, x, [&](const View& image) { return conv_image(node, image, kernels, bias); });
}

View pool(const OnnxNode& node, OpKind kind, const std::string& name, const View& x) {
  return with_rows(node, x, [&](const View& image) { return pool_image(node, kind, name, image); });
}

namespace {

Values conv(const OnnxNode& node) {
  node.constant(1);
  if (node.has(2)) node.constant(2);
  return {node.result(conv(node, node.view(0), node.value(1), node.has(2) ? node.value(2) : Value()))};
}

// Maximums of bytes are bytes; averages are not.
Values maximums(const OnnxNode& node, OpKind kind) {
  if (node.builder.type(node.any_view(0)) == QN_U8) throw Unsupported{"bytes without a sign"};
  return {node.result(pool(node, kind, node.name, node.any_view(0)))};
}
Values max_pool(const OnnxNode& node) { return maximums(node, OpKind::max_pool); }
Values global_max_pool(const OnnxNode& node) { return maximums(node, OpKind::global_max_pool); }
Values average_pool(const OnnxNode& node) {
  return {node.result(pool(node, OpKind::average_pool, node.name, node.view(0)))};
}
Values global_average_pool(const OnnxNode& node) {
  return {node.result(pool(node, OpKind::global_average_pool, node.name, node.view(0)))};
}

Values reduce(const OnnxNode& node, OpKind kind, int64_t axes_are_input_since) {
  std::vector<int64_t> axes;
  const bool given = node.list("axes", 1, axes_are_input_since, &axes);
  const bool keep = node.integer("keepdims", 1) != 0;
  if (node.integer("noop_with_empty_axes", 0) != 0 && (!given || axes.empty())) return {node.value(0)};
  return {node.result(reduced(node, kind, node.view(0), axes, keep))};
}
Values reduce_mean(const OnnxNode& node) { return reduce(node, OpKind::global_average_pool, 18); }
Values reduce_max(const OnnxNode& node) { return reduce(node, OpKind::global_max_pool, 18); }

}  // namespace

const OnnxTable& window_layers() {
  static const OnnxTable table = {
      {"AveragePool", {average_pool, 1, 1}},
      {"Conv", {conv, 2, 3}},
      {"GlobalAveragePool", {global_average_pool, 1, 1}},
      {"GlobalMaxPool", {global_max_pool, 1, 1}},
      {"MaxPool", {max_pool, 1, 1}},
      {"ReduceMax", {reduce_max, 1, 2}},
      {"ReduceMean", {reduce_mean, 1, 2}},
  };
  return table;
}

}  // namespace quern::onnx
