// Imports Caffe layers that compute: convolution, pooling, activations, arithmetic.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "convert/caffe/layer.h"
#include "convert/common/kinds.h"

namespace quern::caffe {
namespace {

// Reads a height and a width. Files have NAME once for both, NAME twice, or NAME_h and NAME_w.
qn_hw pair_of(const Layer& layer, const char* field, const google::protobuf::RepeatedField<uint32_t>& list, bool has_h,
              uint32_t h, bool has_w, uint32_t w, uint32_t otherwise) {
  if (has_h || has_w) {
    if (!list.empty()) layer.fail(std::string(field) + " is given in two forms");
    return {has_h ? h : otherwise, has_w ? w : otherwise};
  }
  if (list.size() > 2) layer.fail(std::string(field) + " has more than two dimensions");
  if (list.empty()) return {otherwise, otherwise};
  return {list[0], list[list.size() - 1]};
}

// Reads the parameters that convolution and pooling share.
template <class Param>
Attributes window(const Layer& layer, const Param& p) {
  Attributes a;
  a.kernel =
      pair_of(layer, "kernel_size", p.kernel_size(), p.has_kernel_h(), p.kernel_h(), p.has_kernel_w(), p.kernel_w(), 0);
  a.stride = pair_of(layer, "stride", p.stride(), p.has_stride_h(), p.stride_h(), p.has_stride_w(), p.stride_w(), 1);
  const qn_hw pad = pair_of(layer, "pad", p.pad(), p.has_pad_h(), p.pad_h(), p.has_pad_w(), p.pad_w(), 0);
  a.padding = {pad.h, pad.w, pad.h, pad.w};
  if (a.kernel.h == 0 || a.kernel.w == 0) layer.fail("kernel_size is missing or zero");
  if (a.stride.h == 0 || a.stride.w == 0) layer.fail("stride is zero");
  return a;
}

Values convolution(const Layer& layer) {
  const schema::ConvolutionParameter& p = layer.param.convolution_param();
  if (layer.axis(p.axis(), layer.x().rank()) != 1) throw Unsupported{"axis other than 1"};
  Attributes a = window(layer, p);
  a.dilation = pair_of(layer, "dilation", p.dilation(), false, 0, false, 0, 1);
  const size_t in = layer.channels(), out = p.num_output();
  a.groups = p.group();
  // A fork's layer has no groups, because each channel is one.
  if (layer.param.type() == "ConvolutionDepthwise" && !p.has_group()) a.groups = in;
  if (out == 0) layer.fail("num_output is missing or zero");
  if (a.groups == 0 || in % a.groups != 0 || out % a.groups != 0) {
    layer.fail("group " + std::to_string(a.groups) + " does not divide " + std::to_string(in) + " inputs and " +
               std::to_string(out) + " outputs");
  }
  layer.expect_blobs(p.bias_term() ? 2 : 1);
  const View weights = layer.weights(0, {out, in / a.groups, a.kernel.h, a.kernel.w});
  const View bias = p.bias_term() ? layer.weights(1, {out}) : View{};
  return {layer.builder.conv2d(layer.name, layer.x(), weights, bias, a)};
}

Values deconvolution(const Layer& layer) {
  const schema::ConvolutionParameter& p = layer.param.convolution_param();
  if (layer.axis(p.axis(), layer.x().rank()) != 1) throw Unsupported{"axis other than 1"};
  const Attributes a = window(layer, p);
  const qn_hw dilation = pair_of(layer, "dilation", p.dilation(), false, 0, false, 0, 1);
  const size_t in = layer.channels(), out = p.num_output(), groups = p.group();
  if (out == 0) layer.fail("num_output is missing or zero");
  if (groups == 0 || in % groups != 0 || out % groups != 0) layer.fail("group does not divide the channels");
  layer.expect_blobs(p.bias_term() ? 2 : 1);
  std::vector<View> inputs = {layer.x(), layer.weights(0, {in, out / groups, a.kernel.h, a.kernel.w})};
  if (p.bias_term()) inputs.push_back(layer.weights(1, {out}));
  const auto pair = [](size_t h, size_t w) {
    return std::vector<int64_t>{static_cast<int64_t>(h), static_cast<int64_t>(w)};
  };
  const std::vector<int64_t> pads = {static_cast<int64_t>(a.padding.top), static_cast<int64_t>(a.padding.left),
                                     static_cast<int64_t>(a.padding.top), static_cast<int64_t>(a.padding.left)};
  return layer.custom("conv_transposed", inputs,
                      Parameters()
                          .integers("strides", pair(a.stride.h, a.stride.w))
                          .integers("dilations", pair(dilation.h, dilation.w))
                          .integers("pads", pads)
                          .integer("groups", static_cast<int64_t>(groups)),
                      {ElementType::f32});
}

// Whether the last window begins beyond the image and contains no pixel. That can happen without padding.
bool leaves_image(size_t in, size_t kernel, size_t stride) {
  return in > kernel && divide_up(in - kernel, stride) * stride >= in;
}

// Where the largest of each window lies in its channel: as a float, as all is in Caffe. The largest itself comes from a
// pooling, whose sizes follow those of the input.
Value places_of_largest(const Layer& layer, const Attributes& a) {
  const Shape shape = layer.shape();
  layer.expect_image();
  for (size_t d = 2; d < 4; ++d) layer.fix(layer.builder.symbol(layer.x(), d));
  const auto pair = [](size_t h, size_t w) {
    return std::vector<int64_t>{static_cast<int64_t>(h), static_cast<int64_t>(w)};
  };
  std::vector<int64_t> pads = pair(a.padding.top, a.padding.left);
  pads.insert(pads.end(), {pads[0], pads[1]});
  Parameters parameters = Parameters()
                              .integers("kernel", pair(a.kernel.h, a.kernel.w))
                              .integers("strides", pair(a.stride.h, a.stride.w))
                              .integers("pads", pads)
                              .integer("ceil", a.ceil_mode);
  const Values made =
      layer.custom("window_max", {layer.x()}, std::move(parameters), {ElementType::f32, ElementType::i64});
  const Value pixels = integer_number(static_cast<int64_t>(shape[2] * shape[3]));
  return cast_to(layer, make(layer, "mod", {made[1], pixels}), ElementType::f32);
}

Values pooling(const Layer& layer) {
  const schema::PoolingParameter& p = layer.param.pooling_param();
  if (p.pool() == schema::PoolingParameter::STOCHASTIC) throw Unsupported{"stochastic"};
  const bool max = p.pool() == schema::PoolingParameter::MAX;
  if (p.global_pooling()) {
    return {layer.builder.pool(max ? OpKind::global_max_pool : OpKind::global_average_pool, layer.name, layer.x(), {})};
  }
  Attributes a = window(layer, p);
  a.ceil_mode = p.round_mode() == schema::PoolingParameter::CEIL && p.ceil_mode();
  a.count_padding = true;
  const Shape shape = layer.builder.shape(layer.x());
  const bool padded = a.padding.top + a.padding.left > 0;
  if (a.ceil_mode && !padded && shape.size() == 4 &&
      (leaves_image(shape[2], a.kernel.h, a.stride.h) || leaves_image(shape[3], a.kernel.w, a.stride.w))) {
    throw Unsupported{"a window behind the image"};
  }
  Values tops = {layer.builder.pool(max ? OpKind::max_pool : OpKind::average_pool, layer.name, layer.x(), a)};
  if (max && layer.param.top_size() == 2) tops.push_back(places_of_largest(layer, a));
  return tops;
}

Values inner_product(const Layer& layer) {
  const schema::InnerProductParameter& p = layer.param.inner_product_param();
  const Shape shape = layer.shape();
  const size_t axis = layer.axis(p.axis(), shape.size()), out = p.num_output();
  if (out == 0) layer.fail("num_output is missing or zero");
  size_t in = 1;
  for (size_t i = axis; i < shape.size(); ++i) in *= shape[i];
  View x = layer.x();
  if (axis + 1 < shape.size()) {
    std::vector<int64_t> flat(axis, 0);
    flat.push_back(-1);
    x = layer.builder.reshape(layer.name + "/flatten", x, flat);
  }
  layer.expect_blobs(p.bias_term() ? 2 : 1);
  View weights = layer.weights(0, p.transpose() ? Shape{in, out} : Shape{out, in});
  if (p.transpose()) weights = layer.builder.permute(weights, {1, 0});
  const View bias = p.bias_term() ? layer.weights(1, {out}) : View{};
  return {layer.builder.fully_connected(layer.name, x, weights, bias)};
}

Values batch_norm(const Layer& layer) {
  const schema::BatchNormParameter& p = layer.param.batch_norm_param();
  if (p.has_use_global_stats() && !p.use_global_stats()) throw Unsupported{"use_global_stats: false"};
  const bool is_vector = layer.shape().size() == 1;  // of one channel, as Caffe takes it
  const size_t channels = is_vector ? 1 : layer.channels();
  layer.expect_blobs(3);
  const std::vector<float> mean = layer.blob(0, {channels}), variance = layer.blob(1, {channels});
  const double factor = layer.blob(2, {1})[0];
  const double unit = factor == 0 ? 0 : 1 / factor;  // the blobs hold `factor` times the statistics
  const double epsilon = layer.finite(p.eps(), "eps");
  std::vector<float> scale(channels), bias(channels);
  for (size_t c = 0; c < channels; ++c) {
    const double s = 1 / std::sqrt(variance[c] * unit + epsilon);
    scale[c] = static_cast<float>(s);
    bias[c] = static_cast<float>(-mean[c] * unit * s);
  }
  if (is_vector) return {layer.builder.power(layer.name, layer.x(), scale[0], bias[0], 1)};
  return {layer.builder.scale(layer.name, layer.x(), scale, bias, 1)};
}

// Returns the shape, for broadcasting to x, of a blob that covers `num_axes` dimensions of x from `axis` on (-1: all of
// them). The other dimensions are 1.
Shape covering(const Layer& layer, int32_t axis, int32_t num_axes) {
  Shape shape = layer.shape();
  if (num_axes == 0) return Shape(shape.size(), 1);
  const size_t first = layer.axis(axis, shape.size());
  const size_t rest = shape.size() - first, count = num_axes < 0 ? rest : static_cast<size_t>(num_axes);
  if (count > rest) layer.fail("num_axes is too large");
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i < first || i >= first + count) shape[i] = 1;
  }
  return shape;
}

// Returns a bottom reshaped to broadcast to x. Its dimensions are those of x from `axis` on; the others become 1.
View aligned(const Layer& layer, size_t bottom, int32_t axis) {
  const View& other = layer.view(bottom);
  const size_t rank = layer.x().rank();
  const size_t first = other.rank() == 0 ? 0 : layer.axis(axis, rank);
  const Shape shape = layer.builder.shape(other);
  if (first + shape.size() > rank) layer.fail("input " + std::to_string(bottom) + " has too many dimensions");
  std::vector<int64_t> values(rank, 1);
  for (size_t i = 0; i < shape.size(); ++i) values[first + i] = copy_dimension(i, first + i);
  return layer.builder.reshape(layer.name + "/align", other, values);
}

Values scale(const Layer& layer) {
  const schema::ScaleParameter& p = layer.param.scale_param();
  Builder& builder = layer.builder;
  if (layer.input_count() == 2) {
    const View product = builder.binary(OpKind::mul, layer.name, layer.x(), aligned(layer, 1, p.axis()));
    if (!p.bias_term()) return {product};
    layer.expect_blobs(1);
    const Shape covered = covering(layer, p.axis(), static_cast<int32_t>(layer.view(1).rank()));
    return {builder.binary(OpKind::add, layer.name + "/bias", product, layer.weights(0, covered))};
  }
  layer.expect_blobs(p.bias_term() ? 2 : 1);
  const Shape covered = covering(layer, p.axis(), p.num_axes());
  const size_t rank = layer.x().rank();
  if (rank > 1 && p.num_axes() == 1 && layer.axis(p.axis(), rank) == 1) {
    const std::vector<float> bias = p.bias_term() ? layer.blob(1, covered) : std::vector<float>{};
    return {builder.scale(layer.name, layer.x(), layer.blob(0, covered), bias, 1)};
  }
  const View product = builder.binary(OpKind::mul, layer.name, layer.x(), layer.weights(0, covered));
  if (!p.bias_term()) return {product};
  return {builder.binary(OpKind::add, layer.name + "/bias", product, layer.weights(1, covered))};
}

Values bias(const Layer& layer) {
  const schema::BiasParameter& p = layer.param.bias_param();
  if (layer.input_count() == 1) layer.expect_blobs(1);
  const View addend = layer.input_count() == 2 ? aligned(layer, 1, p.axis())
                                               : layer.weights(0, covering(layer, p.axis(), p.num_axes()));
  return {layer.builder.binary(OpKind::add, layer.name, layer.x(), addend)};
}

View sloped(const Layer& layer, float slope) { return layer.builder.leaky_relu(layer.name, layer.x(), slope); }

Values relu(const Layer& layer) {
  const float slope = layer.finite(layer.param.relu_param().negative_slope(), "negative_slope");
  if (slope == 0) return {layer.builder.clamp(layer.name, layer.x(), 0, infinity)};
  return {sloped(layer, slope)};
}

Values abs_val(const Layer& layer) { return {sloped(layer, -1)}; }

Values prelu(const Layer& layer) {
  layer.expect_blobs(1);
  const size_t count = layer.param.prelu_param().channel_shared() ? 1 : layer.channels();
  return {layer.builder.prelu(layer.name, layer.x(), layer.blob(0, {count}), 1)};
}

Values relu6(const Layer& layer) { return {layer.builder.clamp(layer.name, layer.x(), 0, 6)}; }

Values clip(const Layer& layer) {
  const schema::ClipParameter& p = layer.param.clip_param();
  const float min = layer.finite(p.min(), "min"), max = layer.finite(p.max(), "max");
  if (!p.has_min() || !p.has_max() || min > max) layer.fail("min and max are not a range");
  return {layer.builder.clamp(layer.name, layer.x(), min, max)};
}

Values sigmoid(const Layer& layer) { return {layer.builder.unary(OpKind::sigmoid, layer.name, layer.x())}; }

Values tanh(const Layer& layer) { return {layer.builder.unary(OpKind::tanh, layer.name, layer.x())}; }

// Computes scale * x + shift. Adds no node if that is x.
View affine(const Layer& layer, float scale, float shift, const char* suffix) {
  if (scale == 1 && shift == 0) return layer.x();
  return layer.builder.power(layer.name + suffix, layer.x(), scale, shift, 1);
}

Values swish(const Layer& layer) {
  const float beta = layer.finite(layer.param.swish_param().beta(), "beta");
  const View gate = layer.builder.unary(OpKind::sigmoid, layer.name + "/gate", affine(layer, beta, 0, "/beta"));
  return {layer.builder.binary(OpKind::mul, layer.name, layer.x(), gate)};
}

Values power(const Layer& layer) {
  const schema::PowerParameter& p = layer.param.power_param();
  const float scale = layer.finite(p.scale(), "scale"), shift = layer.finite(p.shift(), "shift");
  const float exponent = layer.finite(p.power(), "power");
  if (exponent == 1) return {affine(layer, scale, shift, "")};
  return {layer.builder.power(layer.name, layer.x(), scale, shift, exponent)};
}

Values exponential(const Layer& layer) {
  const schema::ExpParameter& p = layer.param.exp_param();
  const float base = layer.finite(p.base(), "base");
  if (base != -1 && base <= 0) layer.fail("base is not positive");
  const float log_base = base == -1 ? 1 : std::log(base);
  const float scale = layer.finite(p.scale(), "scale"), shift = layer.finite(p.shift(), "shift");
  const View exponent = affine(layer, log_base * scale, log_base * shift, "/exponent");
  return {layer.builder.unary(OpKind::exp, layer.name, exponent)};
}

// log(scale * x + shift), to some base
Values logarithm(const Layer& layer) {
  const schema::LogParameter& p = layer.param.log_param();
  const float base = layer.finite(p.base(), "base");
  if (base != -1 && (base <= 0 || base == 1))
    layer.fail("base must be positive and not 1, got " + std::to_string(base));
  const float scale = layer.finite(p.scale(), "scale"), shift = layer.finite(p.shift(), "shift");
  const Values log = layer.custom("log", {affine(layer, scale, shift, "/argument")}, {}, {ElementType::f32});
  if (base == -1) return log;
  return {layer.builder.power(layer.name + "/base", log[0].view, 1 / std::log(base), 0, 1)};
}

Values bnll(const Layer& layer) { return layer.custom("softplus", {layer.x()}, {}, {ElementType::f32}); }

Values elu(const Layer& layer) {
  const float alpha = layer.finite(layer.param.elu_param().alpha(), "alpha");
  return layer.custom("elu", {layer.x()}, Parameters().number("alpha", alpha), {ElementType::f32});
}

// x * (1 + alpha * average of squares in a window around it) ^ -beta
View lrn_within_channel(const Layer& layer, const schema::LRNParameter& p) {
  Builder& builder = layer.builder;
  Attributes window;
  const size_t size = p.local_size(), pad = (size - 1) / 2;
  window.kernel = {size, size};
  window.padding = {pad, pad, pad, pad};
  window.count_padding = true;
  const View squares = builder.power(layer.name + "/squares", layer.x(), 1, 0, 2);
  const View averages = builder.pool(OpKind::average_pool, layer.name + "/averages", squares, window);
  const View factors = builder.power(layer.name + "/factors", averages, layer.finite(p.alpha(), "alpha"), 1,
                                     -layer.finite(p.beta(), "beta"));
  return builder.binary(OpKind::mul, layer.name, layer.x(), factors);
}

Values lrn(const Layer& layer) {
  const schema::LRNParameter& p = layer.param.lrn_param();
  if (p.local_size() % 2 == 0) layer.fail("local_size is even");
  if (p.norm_region() == schema::LRNParameter::WITHIN_CHANNEL) return {lrn_within_channel(layer, p)};
  return {layer.builder.lrn(layer.name, layer.x(), p.local_size(), layer.finite(p.alpha(), "alpha"),
                            layer.finite(p.beta(), "beta"), layer.finite(p.k(), "k"))};
}

// (x - mean) / (deviation + eps), of each channel or of each image.
Values mvn(const Layer& layer) {
  const schema::MVNParameter& p = layer.param.mvn_param();
  Builder& builder = layer.builder;
  const size_t rank = layer.x().rank();
  if (rank < 2) layer.fail("the input has no channels");
  const std::vector<int64_t> column =
      p.across_channels() ? std::vector<int64_t>{0, 1, -1, 1} : std::vector<int64_t>{0, 0, -1, 1};
  const View x = builder.reshape(layer.name + "/column", layer.x(), column);
  const View mean = builder.pool(OpKind::global_average_pool, layer.name + "/mean", x, {});
  View y = builder.binary(OpKind::sub, layer.name + "/centred", x, mean);
  if (p.normalize_variance()) {
    const View squares = builder.power(layer.name + "/squares", y, 1, 0, 2);
    const View variance = builder.pool(OpKind::global_average_pool, layer.name + "/variance", squares, {});
    const View deviation = builder.power(layer.name + "/deviation", variance, 1, 0, 0.5f);
    const View divisor = builder.power(layer.name + "/eps", deviation, 1, layer.finite(p.eps(), "eps"), 1);
    y = builder.binary(OpKind::div, layer.name + "/scaled", y, divisor);
  }
  std::vector<int64_t> shape;
  for (const size_t d : layer.shape()) shape.push_back(static_cast<int64_t>(d));
  for (size_t d = 1; d < rank; ++d) layer.fix(builder.symbol(layer.x(), d));
  shape[0] = 0;
  return {builder.reshape(layer.name, y, shape)};
}

// Sums or averages of all from one axis on, times a coefficient.
Values reduction(const Layer& layer) {
  const schema::ReductionParameter& p = layer.param.reduction_param();
  Builder& builder = layer.builder;
  const Shape shape = layer.shape();
  const size_t axis = layer.axis(p.axis(), shape.size());
  View x = layer.x();
  if (p.operation() == schema::ReductionParameter::ASUM) x = builder.leaky_relu(layer.name + "/abs", x, -1);
  if (p.operation() == schema::ReductionParameter::SUMSQ) x = builder.power(layer.name + "/squares", x, 1, 0, 2);
  float coefficient = layer.finite(p.coeff(), "coeff");
  std::vector<int64_t> kept, columns = {1, 1, -1, 1};
  const bool follows = axis == 1;  // the first dimension may change
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto size = static_cast<int64_t>(shape[d]);
    const bool is_mean = p.operation() == schema::ReductionParameter::MEAN;
    if (d >= axis && !is_mean) coefficient *= static_cast<float>(size);
    if (d >= axis ? !is_mean : !follows) layer.fix(builder.symbol(layer.x(), d));
    if (d >= axis) continue;
    kept.push_back(follows ? 0 : size);
    columns[0] = follows ? 0 : columns[0] * size;
  }
  const View flat = builder.reshape(layer.name + "/columns", x, columns);
  const View means = builder.pool(OpKind::global_average_pool, layer.name + "/means", flat, {});
  const View sums = coefficient == 1 ? means : builder.power(layer.name + "/coeff", means, coefficient, 0, 1);
  return {builder.reshape(layer.name, sums, kept)};
}

// The largest of each column of channels, or of all but the first dimension: their places, which are floats in Caffe,
// or both places and values.
Values arg_max(const Layer& layer) {
  const schema::ArgMaxParameter& p = layer.param.argmax_param();
  const size_t rank = layer.x().rank();
  if (p.top_k() < 1) layer.fail("top_k is zero");
  Builder& builder = layer.builder;
  const auto top = [&](const View& x, size_t axis) {
    const bool values = p.has_axis() && p.out_max_val();
    Parameters parameters =
        Parameters().integer("axis", static_cast<int64_t>(axis)).integer("count", p.top_k()).integer("values", values);
    return layer.custom("top_places", {x}, std::move(parameters), {ElementType::f32})[0].view;
  };
  if (p.has_axis()) return {top(layer.x(), layer.axis(p.axis(), rank))};
  const View flat = builder.reshape(layer.name + "/flat", layer.x(), {0, 1, -1});
  std::vector<int64_t> shape(std::max<size_t>(rank, 3), 1);
  std::fill_n(shape.begin(), 3, 0);
  if (!p.out_max_val()) return {builder.reshape(layer.name, top(flat, 2), shape)};
  Parameters parameters = Parameters().integer("axis", 2).integer("count", p.top_k()).integer("values", 1);
  const Values best = layer.custom("top_places", {flat}, std::move(parameters), {ElementType::f32});
  return {builder.reshape(layer.name, builder.concat(layer.name + "/both", {top(flat, 2), best[0].view}, 1), shape)};
}

// a * x + y, where a has one number for each channel of each image.
Values axpy(const Layer& layer) {
  Builder& builder = layer.builder;
  const View &a = layer.view(0), &x = layer.view(1);
  if (x.rank() != 4 || (a.rank() != 2 && a.rank() != 4))
    layer.fail("expected a rank-4 input (NCHW) and factors of rank 2 or 4, got ranks " + std::to_string(x.rank()) +
               " and " + std::to_string(a.rank()));
  const View factors = builder.reshape(layer.name + "/factors", a, {0, 0, 1, 1});
  const View product = builder.binary(OpKind::mul, layer.name + "/product", x, factors);
  return {builder.binary(OpKind::add, layer.name, product, layer.view(2))};
}

Values softmax(const Layer& layer) {
  const size_t axis = layer.axis(layer.param.softmax_param().axis(), layer.x().rank());
  return {layer.builder.softmax(layer.name, layer.x(), axis)};
}

Values maximum(const Layer& layer) {
  if (layer.param.eltwise_param().coeff_size() != 0) layer.fail("coeff does not fit the inputs");
  std::vector<View> inputs;
  for (size_t i = 0; i < layer.input_count(); ++i) inputs.push_back(layer.view(i));
  return layer.custom("max", inputs, {}, {ElementType::f32});
}

Values eltwise(const Layer& layer) {
  const schema::EltwiseParameter& p = layer.param.eltwise_param();
  for (size_t i = 0; i < layer.input_count(); ++i) {
    if (layer.dims(i) != layer.shape()) layer.fail("inputs of different shapes");
  }
  if (p.operation() == schema::EltwiseParameter::MAX) return maximum(layer);
  const bool sum = p.operation() == schema::EltwiseParameter::SUM;
  if (p.coeff_size() != 0 && (!sum || static_cast<size_t>(p.coeff_size()) != layer.input_count())) {
    layer.fail("coeff does not fit the inputs");
  }
  const auto coefficient = [&](size_t i) {
    return p.coeff_size() == 0 ? 1.0f : layer.finite(p.coeff(static_cast<int>(i)), "coeff");
  };
  const auto term = [&](size_t i) {
    const float c = coefficient(i);
    if (c == 1) return layer.view(i);
    return layer.builder.power(layer.name + "/coeff" + std::to_string(i), layer.view(i), c, 0, 1);
  };
  View result = term(0);
  for (size_t i = 1; i < layer.input_count(); ++i) {
    const bool last = i + 1 == layer.input_count();
    const std::string name = last ? layer.name : layer.name + "/" + std::to_string(i);
    if (sum && coefficient(i) == -1) {
      result = layer.builder.binary(OpKind::sub, name, result, layer.view(i));
    } else {
      result = layer.builder.binary(sum ? OpKind::add : OpKind::mul, name, result, term(i));
    }
  }
  return {result};
}

}  // namespace

const LayerRow* find_layer(const std::string& type) {
  static const LayerTable rows = {
      {"AbsVal", {abs_val, 1, 1}},
      {"ArgMax", {arg_max, 1, 1}},
      {"Axpy", {axpy, 3, 3}},
      {"BNLL", {bnll, 1, 1}},
      {"BatchNorm", {batch_norm, 1, 1}},
      {"Bias", {bias, 1, 2}},
      {"Clip", {clip, 1, 1}},
      {"Convolution", {convolution, 1, 1}},
      {"ConvolutionDepthwise", {convolution, 1, 1}},
      {"Deconvolution", {deconvolution, 1, 1}},
      {"DepthwiseConvolution", {convolution, 1, 1}},
      {"ELU", {elu, 1, 1}},
      {"Eltwise", {eltwise, 2, many_inputs}},
      {"Exp", {exponential, 1, 1}},
      {"InnerProduct", {inner_product, 1, 1}},
      {"LRN", {lrn, 1, 1}},
      {"Log", {logarithm, 1, 1}},
      {"MVN", {mvn, 1, 1}},
      {"PReLU", {prelu, 1, 1}},
      {"Pooling", {pooling, 1, 1}},
      {"Power", {power, 1, 1}},
      {"ReLU", {relu, 1, 1}},
      {"ReLU6", {relu6, 1, 1}},
      {"Reduction", {reduction, 1, 1}},
      {"Scale", {scale, 1, 2}},
      {"Sigmoid", {sigmoid, 1, 1}},
      {"Softmax", {softmax, 1, 1}},
      {"Swish", {swish, 1, 1}},
      {"TanH", {tanh, 1, 1}},
  };
  return find_in(rows, type);
}

}  // namespace quern::caffe
