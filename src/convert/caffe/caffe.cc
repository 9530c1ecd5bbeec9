// Imports Caffe nets: connects the blobs, then imports each layer with a function for its type.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/math.h"
#include "convert/caffe/net.h"
#include "convert/common/source_node.h"
#include "convert/common/table.h"
#include "convert/common/wiring.h"
#include "convert/convert.h"

namespace quern::caffe {

using namespace convert;

namespace {

using schema::LayerParameter;

// ---- wiring -----------------------------------------------------------------------------------

bool is_input_type(const std::string& type) {
  static const std::set<std::string> types = {"Input",      "Data",      "ImageData", "MemoryData",
                                              "WindowData", "DummyData", "HDF5Data",  "AnnotatedData"};
  return types.count(type) > 0;
}

// Adds a layer to the wiring. If layers rewrite a blob in place, each version becomes a tensor of its own.
void wire(const LayerParameter& layer, Wiring* wiring) {
  Wires bottoms, tops;
  for (const std::string& name : layer.bottom()) {
    const auto bottom = wiring->find(name);
    if (!bottom && layer.type() == "Silence") continue;  // a blob of labels, which were dropped
    if (!bottom) throw Error("layer '" + layer.name() + "' reads '" + name + "', which no layer before it writes");
    bottoms.push_back(*bottom);
  }
  for (int i = 0; i < layer.top_size(); ++i) {
    const std::string& name = layer.top(i);
    const bool in_place = i < layer.bottom_size() && layer.bottom(i) == name;
    if (!in_place && wiring->find(name)) {
      throw Error("layer '" + layer.name() + "' writes '" + name + "', which an earlier layer writes too");
    }
    tops.push_back(wiring->rewrite(name));
  }
  wiring->add_node(std::move(bottoms), std::move(tops));
}

// Returns the blobs with these names. Without names, returns the blobs that no layer reads and that are not inputs.
Wires choose_outputs(const CaffeNet& net, const Wiring& wiring, const std::vector<std::string>& names) {
  Wires outputs;
  for (const std::string& name : names) {
    const auto blob = wiring.find(name);
    if (!blob) throw Error("the net has no blob '" + name + "'");
    outputs.push_back(*blob);
  }
  if (names.empty()) {
    std::set<Wire> inputs;
    for (size_t i = 0; i < net.layers.size(); ++i) {
      if (is_input_type(net.layers[i].type())) inputs.insert(wiring.outputs(i).begin(), wiring.outputs(i).end());
    }
    for (const Wire wire : wiring.unread()) {
      if (inputs.count(wire) == 0) outputs.push_back(wire);
    }
  }
  if (outputs.empty()) throw Error("the net has no outputs");
  return outputs;
}

// ---- layers -----------------------------------------------------------------------------------

// A layer as the function for its type sees it: parameters, inputs and weights.
struct Layer : SourceNode {
  Layer(Builder& to, const LayerParameter& from, std::vector<const Value*> bottoms, const CaffeBlobs* its_blobs,
        bool file)
      : SourceNode(to, from.name(), "layer '" + from.name() + "'", std::move(bottoms)),
        param(from),
        blobs(its_blobs),
        has_weights_file(file) {}

  const LayerParameter& param;
  const CaffeBlobs* blobs;
  bool has_weights_file;

  const View& x() const { return view(0); }
  Shape shape() const { return dims(0); }
  size_t axis(int64_t axis, size_t rank) const { return SourceNode::axis(axis, rank, "blob"); }
  size_t channels() const {
    const Shape s = shape();
    if (s.size() < 2) fail("the input has no channels");
    return s[1];
  }

  void expect_blobs(int count) const {
    if (blobs == nullptr || blobs->empty()) {
      fail(has_weights_file ? "the .caffemodel has no weights for it"
                            : "its weights are in a .caffemodel, none is given");
    }
    if (blobs->size() != count) {
      fail("has " + std::to_string(blobs->size()) + " blobs of weights, " + std::to_string(count) + " are needed");
    }
  }
  std::vector<float> blob(int index, const Shape& expected) const;
  View weights(int index, const Shape& expected) const {
    return builder.constant(expected, blob(index, expected).data());
  }
};

Shape shape_of(const schema::BlobProto& blob, const Layer& layer) {
  std::vector<int64_t> dims(blob.shape().dim().begin(), blob.shape().dim().end());
  if (!blob.has_shape()) dims = {blob.num(), blob.channels(), blob.height(), blob.width()};
  Shape shape;
  for (const int64_t d : dims) {
    if (d < 0) layer.fail("a blob of weights has a negative size");
    if (d != 1) shape.push_back(static_cast<size_t>(d));
  }
  return shape;
}

// Returns the numbers of a blob of weights, which must have the expected shape. Dimensions of 1 are not compared,
// because in old files every blob has four dimensions.
std::vector<float> Layer::blob(int index, const Shape& expected) const {
  const schema::BlobProto& blob = blobs->Get(index);
  Shape wanted = expected;
  wanted.erase(std::remove(wanted.begin(), wanted.end(), 1u), wanted.end());
  size_t count = 1;
  for (const size_t d : expected) {
    if (!checked_mul(count, d, &count)) fail("too many weights");
  }
  const Shape found = shape_of(blob, *this);
  if (found != wanted) {
    fail("blob " + std::to_string(index) + " is " + text_of(found) + ", the layer needs " + text_of(expected));
  }
  const int stored = blob.double_data_size() > 0 ? blob.double_data_size() : blob.data_size();
  if (static_cast<size_t>(stored) != count) {
    fail("blob " + std::to_string(index) + " holds " + std::to_string(stored) + " numbers instead of " +
         std::to_string(count));
  }
  if (blob.double_data_size() > 0) return {blob.double_data().begin(), blob.double_data().end()};
  return {blob.data().begin(), blob.data().end()};
}

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
  a.groups = p.group();
  const size_t in = layer.channels(), out = p.num_output();
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

// Whether the last window begins beyond the image and contains no pixel. That can happen without padding.
bool leaves_image(size_t in, size_t kernel, size_t stride) {
  return in > kernel && divide_up(in - kernel, stride) * stride >= in;
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
  return {layer.builder.pool(max ? OpKind::max_pool : OpKind::average_pool, layer.name, layer.x(), a)};
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
  const size_t channels = layer.channels();
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

// Returns the second bottom, reshaped to broadcast to x. Its dimensions are those of x from `axis` on; the others
// become 1.
View aligned(const Layer& layer, int32_t axis) {
  const View& other = layer.view(1);
  const size_t rank = layer.x().rank();
  const size_t first = other.rank() == 0 ? 0 : layer.axis(axis, rank);
  const Shape shape = layer.builder.shape(other);
  if (first + shape.size() > rank) layer.fail("the second input has too many dimensions");
  std::vector<int64_t> values(rank, 1);
  for (size_t i = 0; i < shape.size(); ++i) values[first + i] = copy_dimension(i, first + i);
  return layer.builder.reshape(layer.name + "/align", other, values);
}

Values scale(const Layer& layer) {
  const schema::ScaleParameter& p = layer.param.scale_param();
  Builder& builder = layer.builder;
  if (layer.input_count() == 2) {
    if (p.bias_term()) throw Unsupported{"bias_term with two inputs"};
    return {builder.binary(OpKind::mul, layer.name, layer.x(), aligned(layer, p.axis()))};
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
  const View addend =
      layer.input_count() == 2 ? aligned(layer, p.axis()) : layer.weights(0, covering(layer, p.axis(), p.num_axes()));
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

Values lrn(const Layer& layer) {
  const schema::LRNParameter& p = layer.param.lrn_param();
  if (p.norm_region() != schema::LRNParameter::ACROSS_CHANNELS) throw Unsupported{"within channels"};
  if (p.local_size() % 2 == 0) layer.fail("local_size is even");
  return {layer.builder.lrn(layer.name, layer.x(), p.local_size(), layer.finite(p.alpha(), "alpha"),
                            layer.finite(p.beta(), "beta"), layer.finite(p.k(), "k"))};
}

Values softmax(const Layer& layer) {
  const size_t axis = layer.axis(layer.param.softmax_param().axis(), layer.x().rank());
  return {layer.builder.softmax(layer.name, layer.x(), axis)};
}

Values concat(const Layer& layer) {
  const schema::ConcatParameter& p = layer.param.concat_param();
  const int64_t axis = p.has_concat_dim() ? int64_t{p.concat_dim()} : p.axis();
  std::vector<View> bottoms;
  for (size_t i = 0; i < layer.input_count(); ++i) bottoms.push_back(layer.view(i));
  return {layer.builder.concat(layer.name, bottoms, layer.axis(axis, layer.x().rank()))};
}

Values eltwise(const Layer& layer) {
  const schema::EltwiseParameter& p = layer.param.eltwise_param();
  if (p.operation() == schema::EltwiseParameter::MAX) throw Unsupported{"maximum"};
  for (size_t i = 0; i < layer.input_count(); ++i) {
    if (layer.dims(i) != layer.shape()) layer.fail("inputs of different shapes");
  }
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

Values flatten(const Layer& layer) {
  const schema::FlattenParameter& p = layer.param.flatten_param();
  const Shape shape = layer.shape();
  const size_t first = layer.axis(p.axis(), shape.size()), last = layer.axis(p.end_axis(), shape.size());
  if (last < first) layer.fail("end_axis lies before axis");
  if (first == last) return {layer.x()};
  std::vector<int64_t> values(first, 0);
  values.push_back(-1);
  for (size_t i = last + 1; i < shape.size(); ++i) values.push_back(copy_dimension(i, values.size()));
  return {layer.builder.reshape(layer.name, layer.x(), values)};
}

// Replaces dimensions axis .. axis + num_axes - 1 by `shape`. A 0 in `shape` copies the dimension that it replaces.
Values reshape(const Layer& layer) {
  const schema::ReshapeParameter& p = layer.param.reshape_param();
  const auto rank = static_cast<int64_t>(layer.x().rank());
  const int64_t first = p.axis() < 0 ? p.axis() + rank + 1 : p.axis();
  const int64_t last = p.num_axes() < 0 ? rank : first + p.num_axes();
  if (first < 0 || first > rank || last > rank) layer.fail("axis and num_axes are outside the input");
  std::vector<int64_t> values(static_cast<size_t>(first), 0);
  for (const int64_t d : p.shape().dim()) {
    if (d < -1) layer.fail("shape has a negative dimension");
    values.push_back(d);
  }
  for (int64_t i = last; i < rank; ++i) values.push_back(copy_dimension(static_cast<size_t>(i), values.size()));
  return {layer.builder.reshape(layer.name, layer.x(), values)};
}

Values permute(const Layer& layer) {
  const size_t rank = layer.x().rank();
  Order order;
  std::vector<char> seen(rank, 0);
  const auto take = [&](size_t d) {
    if (d >= rank || seen[d]) layer.fail("order is not a permutation");
    seen[d] = 1;
    order.push_back(static_cast<uint32_t>(d));
  };
  for (const uint32_t d : layer.param.permute_param().order()) take(d);
  for (size_t d = 0; d < rank; ++d) {
    if (!seen[d]) take(d);
  }
  return {layer.builder.permute(layer.x(), order)};
}

// Reorders channels: takes them as a matrix of `group` rows and transposes it.
Values shuffle_channel(const Layer& layer) {
  const auto group = static_cast<int64_t>(layer.param.shuffle_channel_param().group());
  const auto channels = static_cast<int64_t>(layer.channels());
  if (layer.x().rank() != 4) throw Unsupported{"on a blob of rank " + std::to_string(layer.x().rank())};
  if (group == 0 || channels % group != 0) layer.fail("group does not divide the channels");
  Builder& builder = layer.builder;
  const View last = builder.permute(layer.x(), {0, 2, 3, 1});
  const View split = builder.reshape(layer.name + "/split", last, {0, 0, 0, group, channels / group});
  const View joined = builder.reshape(layer.name, builder.permute(split, {0, 1, 2, 4, 3}), {0, 0, 0, channels});
  return {builder.permute(joined, {0, 3, 1, 2})};
}

Values slice(const Layer& layer) {
  const schema::SliceParameter& p = layer.param.slice_param();
  const Shape shape = layer.shape();
  const size_t axis = layer.axis(p.has_slice_dim() ? int64_t{p.slice_dim()} : p.axis(), shape.size());
  const auto tops = static_cast<size_t>(layer.param.top_size()), size = shape[axis];
  std::vector<size_t> points(p.slice_point().begin(), p.slice_point().end());
  if (points.empty()) {
    if (tops == 0 || size % tops != 0) layer.fail("the dimension does not divide into equal slices");
    layer.fix(layer.builder.symbol(layer.x(), axis));
    for (size_t i = 1; i < tops; ++i) points.push_back(i * (size / tops));
  }
  if (points.size() + 1 != tops) layer.fail("slice_point does not fit the number of tops");
  Values values;
  size_t begin = 0;
  for (size_t i = 0; i < tops; ++i) {
    const size_t end = i < points.size() ? points[i] : size;
    if (end <= begin || end > size) layer.fail("slice_point is not ascending within the dimension");
    const int64_t last = i < points.size() ? static_cast<int64_t>(end) : -1;
    const std::string name = layer.name + "/" + std::to_string(i);
    values.push_back(layer.builder.slice(name, layer.x(), axis, static_cast<int64_t>(begin), last));
    begin = end;
  }
  return values;
}

Values same(const Layer& layer) { return Values(static_cast<size_t>(layer.param.top_size()), layer.x()); }

const ImportRow<Layer>* find_row(const std::string& type) {
  static const ImportTable<Layer> rows = {
      {"AbsVal", {abs_val, 1, 1}},
      {"BatchNorm", {batch_norm, 1, 1}},
      {"Bias", {bias, 1, 2}},
      {"Clip", {clip, 1, 1}},
      {"Concat", {concat, 1, many_inputs}},
      {"Convolution", {convolution, 1, 1}},
      {"ConvolutionDepthwise", {convolution, 1, 1}},
      {"DepthwiseConvolution", {convolution, 1, 1}},
      {"Dropout", {same, 1, 1}},
      {"Eltwise", {eltwise, 2, many_inputs}},
      {"Exp", {exponential, 1, 1}},
      {"Flatten", {flatten, 1, 1}},
      {"InnerProduct", {inner_product, 1, 1}},
      {"LRN", {lrn, 1, 1}},
      {"PReLU", {prelu, 1, 1}},
      {"Permute", {permute, 1, 1}},
      {"Pooling", {pooling, 1, 1}},
      {"Power", {power, 1, 1}},
      {"ReLU", {relu, 1, 1}},
      {"ReLU6", {relu6, 1, 1}},
      {"Reshape", {reshape, 1, 1}},
      {"Scale", {scale, 1, 2}},
      {"ShuffleChannel", {shuffle_channel, 1, 1}},
      {"Sigmoid", {sigmoid, 1, 1}},
      {"Slice", {slice, 1, 1}},
      {"Softmax", {softmax, 1, 1}},
      {"Split", {same, 1, 1}},
      {"Swish", {swish, 1, 1}},
      {"TanH", {tanh, 1, 1}},
  };
  return find_in(rows, type);
}

// ---- inputs -----------------------------------------------------------------------------------

// Returns the shape of top `index` of an input layer; empty if the layer does not say it.
Shape input_shape(const LayerParameter& layer, int index) {
  std::vector<int64_t> dims;
  const auto pick = [index](const auto& list) { return list[list.size() == 1 ? 0 : index]; };
  const auto covers = [index](const auto& list) { return list.size() == 1 || index < list.size(); };
  const schema::DummyDataParameter& dummy = layer.dummy_data_param();
  const auto& shapes = layer.type() == "DummyData" ? dummy.shape() : layer.input_param().shape();
  const int64_t crop = layer.transform_param().crop_size();
  if (!shapes.empty() && covers(shapes)) {
    const schema::BlobShape& shape = pick(shapes);
    dims.assign(shape.dim().begin(), shape.dim().end());
  } else if (covers(dummy.num()) && covers(dummy.channels()) && covers(dummy.height()) && covers(dummy.width()) &&
             layer.type() == "DummyData") {
    dims = {pick(dummy.num()), pick(dummy.channels()), pick(dummy.height()), pick(dummy.width())};
  } else if (layer.type() == "MemoryData") {
    const schema::MemoryDataParameter& p = layer.memory_data_param();
    dims = {p.batch_size(), p.channels(), p.height(), p.width()};
  } else if ((layer.type() == "Data" || layer.type() == "ImageData") && crop > 0) {
    const bool gray = layer.transform_param().force_gray() || !layer.image_data_param().is_color();
    dims = {1, gray ? 1 : 3, crop, crop};
  } else if (layer.type() == "ImageData" && layer.image_data_param().new_height() > 0) {
    const schema::ImageDataParameter& p = layer.image_data_param();
    dims = {1, p.is_color() ? 3 : 1, p.new_height(), p.new_width()};
  }
  Shape shape;
  for (const int64_t d : dims) {
    if (d <= 0) throw Error("layer '" + layer.name() + "': input dimension " + std::to_string(d));
    shape.push_back(static_cast<size_t>(d));
  }
  return shape;
}

// Returns the preprocessing of an input layer: a centre crop, then (x - mean_value) * scale. Caffe's order of colours
// is blue, green, red. Layers with a mean image get no preprocessing, because ours cannot express it.
qn_preprocessing preprocessing(const LayerParameter& layer, const Shape& shape) {
  qn_preprocessing result = {};
  const schema::TransformationParameter& t = layer.transform_param();
  const bool says_something = t.has_scale() || t.has_crop_size() || t.mean_value_size() > 0;
  const size_t channels = shape.size() == 4 ? shape[1] : 0;
  if (!says_something || t.has_mean_file() || (channels != 1 && channels != 3)) return result;
  const auto means = static_cast<size_t>(t.mean_value_size());
  const std::string where = "layer '" + layer.name() + "': ";
  if (means > 1 && means != channels) throw Error(where + "mean_value does not fit the channels");
  result.present = 1;
  result.bgr = channels == 3;
  for (size_t c = 0; c < channels; ++c) {
    const int index = static_cast<int>(means == 1 ? 0 : c);
    result.mean[c] = means == 0 ? 0 : finite(t.mean_value(index), where + "mean_value");
    result.scale[c] = finite(t.scale(), where + "scale");
  }
  result.crop[0] = t.crop_size();
  return result;
}

// ---- the net ----------------------------------------------------------------------------------

class Importer {
 public:
  Importer(const CaffeNet& net, const CaffeWeights* weights) : net_(net), weights_(weights) {
    builder_.set_name(net.name);
    if (weights != nullptr) builder_.allow(weights->bytes());
    for (const LayerParameter& layer : net.layers) wire(layer, &wiring_);
  }

  Graph import(const std::vector<std::string>& names) {
    const Wires outputs = choose_outputs(net_, wiring_, names);
    wiring_.need(outputs);
    for (size_t i = 0; i < net_.layers.size(); ++i) {
      if (!wiring_.is_node_needed(i)) continue;
      const LayerParameter& layer = net_.layers[i];
      if (is_input_type(layer.type())) {
        wiring_.collect(layer.name(), layer.type(), {}, [&] { add_input(layer, wiring_.outputs(i)); });
      } else {
        wiring_.collect(layer.name(), layer.type(), wiring_.outputs(i), [&] { add_layer(layer, i); });
      }
    }
    wiring_.throw_if_unsupported();
    for (const Wire output : outputs) {
      builder_.output(wiring_.value(output, "the net")->view, wiring_.name(output), QN_F32);
    }
    return builder_.finish();
  }

 private:
  void add_input(const LayerParameter& layer, const Wires& tops) {
    for (size_t i = 0; i < tops.size(); ++i) {
      const std::string& name = wiring_.name(tops[i]);
      const Shape shape = input_shape(layer, static_cast<int>(i));
      if (shape.empty()) {
        wiring_.lose({tops.begin() + static_cast<std::ptrdiff_t>(i), tops.end()});
        throw Unsupported{"the net does not say the size of '" + name + "'"};
      }
      wiring_.define(tops[i], builder_.input(name, shape, QN_F32, preprocessing(layer, shape)));
    }
  }

  void add_layer(const LayerParameter& param, size_t index) {
    const ImportRow<Layer>* row = find_row(param.type());
    if (row == nullptr) throw Unsupported{};
    auto bottoms = wiring_.values(index, "layer '" + param.name() + "'");
    if (!bottoms) return;  // an input is lost; the list of unsupported layers has the cause
    const CaffeBlobs* blobs = weights_ == nullptr ? nullptr : weights_->find(param.name());
    const Layer layer(builder_, param, std::move(*bottoms), blobs, weights_ != nullptr);
    layer.expect_inputs(row->min_inputs, row->max_inputs);
    const Values tops = row->import(layer);
    const size_t count = wiring_.outputs(index).size();
    if (tops.size() != count) layer.fail("has " + std::to_string(count) + " outputs");
    wiring_.define_outputs(index, tops);
  }

  const CaffeNet& net_;
  const CaffeWeights* weights_;
  Builder builder_{"caffe"};
  Wiring wiring_{builder_};
};

}  // namespace
}  // namespace quern::caffe

namespace quern {

Graph import_caffe(const std::string& prototxt, const std::string& caffemodel, const ImportOptions& options) {
  const google::protobuf::LogSilencer silence;  // the importer reports errors itself
  const caffe::CaffeNet net = caffe::read_caffe_net(prototxt);
  try {
    if (caffemodel.empty()) return caffe::Importer(net, nullptr).import(options.outputs);
    const caffe::CaffeWeights weights(caffemodel);
    return caffe::Importer(net, &weights).import(options.outputs);
  } catch (const Error& error) {
    throw Error(prototxt + ": " + error.what());
  }
}

}  // namespace quern
