// Imports Keras' layers that compute with weights or windows: convolution, pooling, Dense, normalization. Layers for
// images have two spatial dimensions, those for sequences have one.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "convert/common/kinds.h"
#include "convert/common/layers.h"
#include "convert/keras/masks.h"

namespace quern::keras {
namespace {

// ---- windows ----------------------------------------------------------------------------------

// Sets the padding for an image N, C, H, W. `causal` has all of it before a sequence.
void pad_window(const KerasNode& node, const View& x, Attributes* a, bool may_be_causal) {
  const std::string padding = node.text("padding", "valid");
  if (padding == "valid") return;
  if (padding == "same") return pad_same(node.builder, x, a);
  if (padding != "causal" || !may_be_causal) throw Unsupported{"padding '" + padding + "'"};
  if (!checked_mul(a->kernel.w - 1, a->dilation.w, &a->padding.left)) node.fail("'dilation_rate' is out of range");
}

// The shape in which the file has a kernel: one or two sizes, then the channels.
Shape kernel_shape(const Attributes& a, size_t spatial, size_t in, size_t out) {
  return spatial == 1 ? Shape{a.kernel.w, in, out} : Shape{a.kernel.h, a.kernel.w, in, out};
}

// A kernel as h, w, in, out.
View kernel(const KerasNode& node, const char* name, const Attributes& a, size_t spatial, size_t in, size_t out) {
  const View stored = node.weight(name, kernel_shape(a, spatial, in, out));
  if (spatial == 2) return stored;
  return node.builder.reshape(node.name + "/kernel", stored,
                              {1, copy_dimension(0, 1), copy_dimension(1, 2), copy_dimension(2, 3)});
}

View bias(const KerasNode& node, size_t count) {
  return node.flag("use_bias", true) ? node.weight("bias", {count}) : View{};
}

Attributes convolution_window(const KerasNode& node, size_t spatial) {
  Attributes a;
  a.kernel = node.pair("kernel_size", spatial);
  a.stride = node.pair("strides", spatial, qn_hw{1, 1});
  a.dilation = node.pair("dilation_rate", spatial, qn_hw{1, 1});
  return a;
}

Values convolution(const KerasNode& node, size_t spatial) {
  const View x = node.image(spatial);
  Attributes a = convolution_window(node, spatial);
  a.groups = node.size("groups", 1);
  const size_t in = node.builder.shape(x)[1], out = node.size("filters");
  if (in % a.groups != 0 || out % a.groups != 0) {
    node.fail("'groups' is " + std::to_string(a.groups) + ", which does not divide " + std::to_string(in) + " and " +
              std::to_string(out) + " channels");
  }
  const View weights = node.builder.permute(kernel(node, "kernel", a, spatial, in / a.groups, out), {3, 2, 0, 1});
  pad_window(node, x, &a, spatial == 1);
  const View y = node.builder.conv2d(node.name, x, weights, bias(node, out), a);
  return {with_activation(node, node.from_image(y, spatial))};
}
Values conv_1d(const KerasNode& node) { return convolution(node, 1); }
Values conv_2d(const KerasNode& node) { return convolution(node, 2); }

// How far the windows of a transposed convolution reach beyond the result (`before`, `after`), or the result beyond
// them (`more`). Keras sets the size of the result: pixels * stride, and what a "valid" window has beyond that; or as
// 'output_padding' says. TensorFlow then divides the rest as it does for a convolution that reads such a result.
struct Reach {
  int64_t before, after, more;
};
Reach reach_of(bool is_same, int64_t taps, int64_t stride, std::optional<int64_t> output_padding) {
  int64_t beyond = is_same ? taps - stride : std::min<int64_t>(taps - stride, 0);
  if (output_padding) beyond = (is_same ? 2 * (taps / 2) : 0) - *output_padding;
  const int64_t before = is_same ? std::max<int64_t>(beyond, 0) / 2 : 0, after = beyond - before;
  return {before, std::max<int64_t>(after, 0), std::max<int64_t>(-after, 0)};
}

// The field `output_padding` for height and width; nothing for each if the layer does not have it.
std::vector<std::optional<int64_t>> output_padding(const KerasNode& node, size_t spatial, const Attributes& a) {
  std::vector<std::optional<int64_t>> padding(2);
  if (node.find("output_padding") == nullptr) return padding;
  const std::vector<int64_t> list = node.list("output_padding");
  if (list.size() != 1 && list.size() != spatial) node.fail("'output_padding' has too many numbers");
  padding = {spatial == 1 ? 0 : list.front(), list.back()};
  if (*padding[0] < 0 || *padding[1] < 0 || *padding[0] >= static_cast<int64_t>(a.stride.h) ||
      *padding[1] >= static_cast<int64_t>(a.stride.w)) {
    node.fail("'output_padding' is not below the strides");
  }
  return padding;
}

Values transposed_conv(const KerasNode& node, size_t spatial) {
  Builder& builder = node.builder;
  const View x = node.image(spatial);
  const Attributes a = convolution_window(node, spatial);
  if (node.size("groups", 1) != 1) throw Unsupported{"groups"};
  const std::string padding = node.text("padding", "valid");
  if (padding != "valid" && padding != "same") throw Unsupported{"padding '" + padding + "'"};
  const size_t in = builder.shape(x)[1], out = node.size("filters");
  std::vector<View> inputs = {x, builder.permute(kernel(node, "kernel", a, spatial, out, in), {3, 2, 0, 1})};
  if (const View b = bias(node, out)) inputs.push_back(b);
  const auto pair = [](const qn_hw& v) {
    return std::vector<int64_t>{static_cast<int64_t>(v.h), static_cast<int64_t>(v.w)};
  };
  const std::vector<int64_t> strides = pair(a.stride), dilations = pair(a.dilation), taps = pair(a.kernel);
  const std::vector<std::optional<int64_t>> given = output_padding(node, spatial, a);
  std::vector<int64_t> pads(4), more(2);
  for (size_t d = 0; d < 2; ++d) {
    const Reach reach = reach_of(padding == "same", (taps[d] - 1) * dilations[d] + 1, strides[d], given[d]);
    pads[d] = reach.before, pads[2 + d] = reach.after, more[d] = reach.more;
  }
  Parameters parameters = Parameters()
                              .integers("strides", strides)
                              .integers("dilations", dilations)
                              .integers("pads", pads)
                              .integers("output_padding", more);
  const Values y = node.custom("conv_transposed", inputs, std::move(parameters), {ElementType::f32});
  return {with_activation(node, node.from_image(y[0].view, spatial))};
}
Values transposed_conv_1d(const KerasNode& node) { return transposed_conv(node, 1); }
Values transposed_conv_2d(const KerasNode& node) { return transposed_conv(node, 2); }

// Each channel has `depth_multiplier` filters of its own.
View depthwise(const KerasNode& node, const std::string& name, const char* kernel_name, size_t spatial, bool has_bias) {
  Builder& builder = node.builder;
  const View x = node.image(spatial);
  Attributes a = convolution_window(node, spatial);
  if (node.size("groups", 1) != 1) node.fail("'groups' is not 1");
  const size_t in = builder.shape(x)[1], times = node.size("depth_multiplier", 1);
  size_t out;
  if (!checked_mul(in, times, &out)) node.fail("'depth_multiplier' is out of range");
  a.groups = in;
  const View stored = builder.permute(kernel(node, kernel_name, a, spatial, in, times), {2, 3, 0, 1});
  const View weights = builder.reshape(node.name + "/filters", stored, {static_cast<int64_t>(out), 1, 0, 0});
  pad_window(node, x, &a, spatial == 1);
  return builder.conv2d(name, x, weights, has_bias ? bias(node, out) : View{}, a);
}

Values depthwise_conv(const KerasNode& node, size_t spatial) {
  const char* const name = node.has_weight("depthwise_kernel") ? "depthwise_kernel" : "kernel";
  const View y = depthwise(node, node.name, name, spatial, true);
  return {with_activation(node, node.from_image(y, spatial))};
}
Values depthwise_conv_1d(const KerasNode& node) { return depthwise_conv(node, 1); }
Values depthwise_conv_2d(const KerasNode& node) { return depthwise_conv(node, 2); }

Values separable_conv(const KerasNode& node, size_t spatial) {
  const View x = depthwise(node, node.name + "/depthwise", "depthwise_kernel", spatial, false);
  const size_t in = node.builder.shape(x)[1], out = node.size("filters");
  Attributes a;
  a.kernel = {1, 1};
  const View weights = node.builder.permute(kernel(node, "pointwise_kernel", a, spatial, in, out), {3, 2, 0, 1});
  const View y = node.builder.conv2d(node.name, x, weights, bias(node, out), a);
  return {with_activation(node, node.from_image(y, spatial))};
}
Values separable_conv_1d(const KerasNode& node) { return separable_conv(node, 1); }
Values separable_conv_2d(const KerasNode& node) { return separable_conv(node, 2); }

Values pool(const KerasNode& node, OpKind kind, size_t spatial) {
  const View x = node.image(spatial);
  Attributes a;
  a.kernel = node.pair("pool_size", spatial);
  a.stride = node.pair("strides", spatial, a.kernel);
  pad_window(node, x, &a, false);
  return {node.from_image(node.builder.pool(kind, node.name, x, a), spatial)};
}
Values max_pool_1d(const KerasNode& node) { return pool(node, OpKind::max_pool, 1); }
Values max_pool_2d(const KerasNode& node) { return pool(node, OpKind::max_pool, 2); }
Values average_pool_1d(const KerasNode& node) { return pool(node, OpKind::average_pool, 1); }
Values average_pool_2d(const KerasNode& node) { return pool(node, OpKind::average_pool, 2); }

Values global_pool(const KerasNode& node, OpKind kind, size_t spatial) {
  const View y = node.builder.pool(kind, node.name, node.image(spatial), {});
  if (node.flag("keepdims", false)) return {node.from_image(y, spatial)};
  return {node.builder.reshape(node.name + "/squeeze", y, {0, 0})};
}
Values global_max_pool_1d(const KerasNode& node) { return global_pool(node, OpKind::global_max_pool, 1); }
Values global_max_pool_2d(const KerasNode& node) { return global_pool(node, OpKind::global_max_pool, 2); }

// The mean of the steps that the mask does not leave out.
Values global_average_pool_1d(const KerasNode& node) {
  const Value* const mask = node.call_mask(2);
  if (mask == nullptr) return global_pool(node, OpKind::global_average_pool, 1);
  if (node.view(0).rank() != 3) throw Unsupported{"on a tensor of rank " + std::to_string(node.view(0).rank())};
  const int64_t steps = node.has_channels_first() ? 2 : 1;
  const Value counts = with_axis(node, *mask, 3 - steps);
  const auto sum = [&](const Value& x) {
    return make(
        node, "reduce_sum", {x},
        Parameters().integers("axes", {steps}).integer("keep_dimensions", node.flag("keepdims", false) ? 1 : 0));
  };
  const View total = sum(kept(node, counts, node.view(0), 0)).view;
  const View count = sum(cast_to(node, as_bools(node, counts), ElementType::f32)).view;
  return {node.builder.binary(OpKind::div, node.name, total, count)};
}

Values global_average_pool_2d(const KerasNode& node) { return global_pool(node, OpKind::global_average_pool, 2); }

// ---- enlarging --------------------------------------------------------------------------------

qn_resize_kind resize_kind(const KerasNode& node, const char* otherwise) {
  const std::string kind = node.text("interpolation", otherwise);
  if (kind != "nearest" && kind != "bilinear") throw Unsupported{"interpolation '" + kind + "'"};
  return kind == "nearest" ? QN_RESIZE_NEAREST : QN_RESIZE_BILINEAR;
}

Values up_sampling(const KerasNode& node, size_t spatial) {
  const qn_hw size = node.pair("size", spatial);
  Attributes a;
  a.mode = resize_kind(node, "nearest");
  a.alpha = static_cast<float>(size.h);
  a.beta = static_cast<float>(size.w);
  // By a whole factor, the nearest pixel is the same either way, and asymmetric coordinates are exact.
  const bool nearest = a.mode == QN_RESIZE_NEAREST;
  a.coordinates = nearest ? QN_COORDINATES_ASYMMETRIC : QN_COORDINATES_HALF_PIXEL;
  a.rounding = QN_ROUND_FLOOR;
  return {node.from_image(node.builder.resize(node.name, node.image(spatial), a), spatial)};
}
Values up_sampling_1d(const KerasNode& node) { return up_sampling(node, 1); }
Values up_sampling_2d(const KerasNode& node) { return up_sampling(node, 2); }

Values resizing(const KerasNode& node) {
  for (const char* flag : {"crop_to_aspect_ratio", "pad_to_aspect_ratio", "antialias"}) {
    if (node.flag(flag, false)) throw Unsupported{flag};
  }
  node.ignore({"fill_mode", "fill_value"});  // of pad_to_aspect_ratio
  Attributes a;
  a.mode = resize_kind(node, "bilinear");
  a.coordinates = QN_COORDINATES_HALF_PIXEL;
  a.rounding = QN_ROUND_HALF_UP;
  a.values = {static_cast<int64_t>(node.size("height")), static_cast<int64_t>(node.size("width"))};
  return {node.from_image(node.builder.resize(node.name, node.image(2), a), 2)};
}

// ---- products ---------------------------------------------------------------------------------

Values dense(const KerasNode& node) {
  const View& x = node.view(0);
  if (x.rank() < 2) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
  const size_t in = node.builder.shape(x).back(), out = node.size("units");
  const View weights = node.builder.permute(node.weight("kernel", {in, out}), {1, 0});
  return {with_activation(node, node.builder.fully_connected(node.name, x, weights, bias(node, out)))};
}

// ---- along one axis ---------------------------------------------------------------------------

Values batch_normalization(const KerasNode& node) {
  node.ignore({"momentum", "fused", "synchronized", "renorm_momentum"});  // how statistics are gathered
  if (node.flag("renorm", false)) throw Unsupported{"renorm"};
  const View& x = node.view(0);
  const size_t axis = node.axis(node.whole("axis", -1), x.rank()), count = node.builder.shape(x)[axis];
  const std::vector<float>&mean = node.numbers("moving_mean", {count}),
        &variance = node.numbers("moving_variance", {count});
  const std::vector<float> gamma = node.flag("scale", true) ? node.numbers("gamma", {count}) : std::vector(count, 1.0f);
  const std::vector<float> beta = node.flag("center", true) ? node.numbers("beta", {count}) : std::vector(count, 0.0f);
  const double epsilon = node.number("epsilon", 1e-3f);
  std::vector<float> scale(count), shift(count);
  for (size_t c = 0; c < count; ++c) {
    const double s = gamma[c] / std::sqrt(variance[c] + epsilon);
    scale[c] = static_cast<float>(s);
    shift[c] = static_cast<float>(beta[c] - mean[c] * s);
  }
  return {node.builder.scale(node.name, x, scale, shift, axis)};
}

// The numbers of a field or, where that is null, of a weight: one for each index of the axis.
std::vector<float> statistics(const KerasNode& node, const char* name, const Shape& shape) {
  const Json* given = node.find(name);
  if (given == nullptr) return node.numbers(name, shape);
  const size_t count = shape.empty() ? 1 : shape[0];
  std::vector<float> numbers;
  const Json* list = given;
  while (list->is_array() && list->size() == 1) list = &list->front();  // [[[1, 2, 3]]], as it is broadcast
  if (!list->is_array()) return std::vector<float>(count, node.number(*list, name));
  for (const Json& item : *list) numbers.push_back(node.number(item, name));
  if (numbers.size() != count) node.fail(std::string("'") + name + "' does not fit the input");
  return numbers;
}

Values normalization(const KerasNode& node) {
  const View& x = node.view(0);
  const bool invert = node.flag("invert", false), per_channel = node.find("axis") != nullptr;
  const std::vector<int64_t> axes = per_channel ? node.list("axis") : std::vector<int64_t>{};
  if (axes.size() > 1) throw Unsupported{"along several axes"};
  const size_t axis = axes.empty() ? x.rank() - 1 : node.axis(axes[0], x.rank());
  const size_t count = axes.empty() ? 1 : node.builder.shape(x)[axis];
  if (node.has_weight("count")) node.numbers("count", {});  // how many samples the statistics are of
  const Shape shape = per_channel ? Shape{count} : Shape{};
  const std::vector<float> mean = statistics(node, "mean", shape), variance = statistics(node, "variance", shape);
  std::vector<float> scale(count), shift(count);
  for (size_t c = 0; c < count; ++c) {
    const double deviation = std::max(std::sqrt(double{variance[c]}), 1e-7);
    scale[c] = static_cast<float>(invert ? deviation : 1 / deviation);
    shift[c] = static_cast<float>(invert ? double{mean[c]} : -mean[c] / deviation);
  }
  return {node.builder.scale(node.name, x, scale, shift, axis)};
}

}  // namespace

const KerasRow* find_layer(const std::string& type) {
  static const KerasTable kinds = {
      {"AveragePooling1D", {average_pool_1d, 1, 1}},
      {"AveragePooling2D", {average_pool_2d, 1, 1}},
      {"BatchNormalization", {batch_normalization, 1, 1, MaskRule::pass}},
      {"BatchNormalizationV1", {batch_normalization, 1, 1, MaskRule::pass}},
      {"BatchNormalizationV2", {batch_normalization, 1, 1, MaskRule::pass}},
      {"Conv1D", {conv_1d, 1, 1}},
      {"Conv1DTranspose", {transposed_conv_1d, 1, 1}},
      {"Conv2D", {conv_2d, 1, 1}},
      {"Conv2DTranspose", {transposed_conv_2d, 1, 1}},
      {"Convolution1D", {conv_1d, 1, 1}},
      {"Convolution2D", {conv_2d, 1, 1}},
      {"Convolution2DTranspose", {transposed_conv_2d, 1, 1}},
      {"Dense", {dense, 1, 1, MaskRule::pass}},
      {"DepthwiseConv1D", {depthwise_conv_1d, 1, 1}},
      {"DepthwiseConv2D", {depthwise_conv_2d, 1, 1}},
      {"GlobalAveragePooling1D", {global_average_pool_1d, 1, 1}},
      {"GlobalAveragePooling2D", {global_average_pool_2d, 1, 1}},
      {"GlobalMaxPooling1D", {global_max_pool_1d, 1, 1}},
      {"GlobalMaxPooling2D", {global_max_pool_2d, 1, 1}},
      {"MaxPooling1D", {max_pool_1d, 1, 1}},
      {"MaxPooling2D", {max_pool_2d, 1, 1}},
      {"Normalization", {normalization, 1, 1, MaskRule::pass_in_3}},
      {"Resizing", {resizing, 1, 1}},
      {"SeparableConv1D", {separable_conv_1d, 1, 1}},
      {"SeparableConv2D", {separable_conv_2d, 1, 1}},
      {"UpSampling1D", {up_sampling_1d, 1, 1}},
      {"UpSampling2D", {up_sampling_2d, 1, 1}},
  };
  return find_in(kinds, type);
}

}  // namespace quern::keras
