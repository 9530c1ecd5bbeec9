// Imports Caffe layers that convolution networks seldom have: lookups, choices, pyramids, other sizes.
#include <cmath>

#include "base/math.h"
#include "convert/caffe/layer.h"
#include "convert/common/kinds.h"

namespace quern::caffe {
namespace {

// ---- lookups and choices: numbers of items are floats in Caffe

// 1 above the threshold, else 0.
Values threshold(const Layer& layer) {
  const float least = layer.finite(layer.param.threshold_param().threshold(), "threshold");
  const Value above =
      make(layer, "greater", {layer.x(), number_of(layer, least, ElementType::f32)}, {}, ElementType::boolean);
  return {cast_to(layer, above, ElementType::f32)};
}

Value item_numbers(const Layer& layer, const View& x) { return cast_to(layer, x, ElementType::s32); }

Values embed(const Layer& layer) {
  const schema::EmbedParameter& p = layer.param.embed_param();
  if (p.num_output() == 0 || p.input_dim() == 0) layer.fail("num_output or input_dim is missing or zero");
  layer.expect_blobs(p.bias_term() ? 2 : 1);
  const View table = layer.weights(0, {p.input_dim(), p.num_output()});
  const Value rows = gathered(layer, table, item_numbers(layer, layer.x()), 0, 0);
  if (!p.bias_term()) return {rows};
  return {layer.builder.binary(OpKind::add, layer.name + "/bias", rows.view, layer.weights(1, {p.num_output()}))};
}

// Takes the images that the second bottom names.
Values batch_reindex(const Layer& layer) {
  const View list = layer.builder.reshape(layer.name + "/list", layer.view(1), {-1});
  return {gathered(layer, layer.x(), item_numbers(layer, list), 0, 0)};
}

// Takes the images for which the last bottom, one number for each, is not 0. A run says how many these are.
Values filter(const Layer& layer) {
  const size_t count = layer.input_count() - 1;
  const View selector = layer.builder.reshape(layer.name + "/selector", layer.view(count), {-1});
  const Value is_zero =
      make(layer, "equal", {selector, number_of(layer, 0, ElementType::f32)}, {}, ElementType::boolean);
  const Value chosen = make(layer, "not", {is_zero});
  Values tops;
  for (size_t i = 0; i < count; ++i) {
    tops.push_back(make(layer, "compress", {layer.view(i), chosen}, Parameters().integer("axis", 0)));
  }
  return tops;
}

// A blob of weights as it is.
Values parameter(const Layer& layer) {
  Shape shape;
  for (const int64_t d : layer.param.parameter_param().shape().dim()) {
    if (d < 1 || d > static_cast<int64_t>(max_extent)) layer.fail("shape is out of range");
    shape.push_back(static_cast<size_t>(d));
  }
  layer.expect_blobs(1);
  return {layer.weights(0, shape)};
}

// ---- normalization of forks: scale and shift, or slope, bias, mean and variance

Values bn(const Layer& layer) {
  const schema::BNParameter& p = layer.param.bn_param();
  const size_t channels = layer.channels();
  const bool is_folded = layer.blobs != nullptr && layer.blobs->size() == 2;
  if (is_folded && p.bn_mode() != schema::BNParameter::INFERENCE) throw Unsupported{"statistics of the batch"};
  layer.expect_blobs(is_folded ? 2 : 4);
  std::vector<float> scale = layer.blob(0, {channels}), shift = layer.blob(1, {channels});
  if (!is_folded) {
    const std::vector<float> mean = layer.blob(2, {channels}), variance = layer.blob(3, {channels});
    const double eps = layer.finite(p.eps(), "eps");
    for (size_t c = 0; c < channels; ++c) {
      const double s = scale[c] / std::sqrt(variance[c] + eps);
      scale[c] = static_cast<float>(s);
      shift[c] = static_cast<float>(shift[c] - mean[c] * s);
    }
  }
  return {layer.builder.scale(layer.name, layer.x(), scale, shift, 1)};
}

// ---- pyramids

// Pools an image into 2^level windows on each side.
View pyramid_level(const Layer& layer, bool max, uint32_t level, const std::string& name) {
  const Shape shape = layer.shape();
  const size_t bins = size_t{1} << level;
  size_t kernel[2], pad[2];
  for (size_t d = 0; d < 2; ++d) {
    kernel[d] = divide_up(shape[2 + d], bins);
    pad[d] = (kernel[d] * bins - shape[2 + d] + 1) / 2;
    if (pad[d] >= kernel[d]) layer.fail("pyramid_height is too large for the image");
  }
  Attributes a;
  a.kernel = a.stride = {kernel[0], kernel[1]};
  a.padding = {pad[0], pad[1], pad[0], pad[1]};
  a.ceil_mode = a.count_padding = true;
  return layer.builder.pool(max ? OpKind::max_pool : OpKind::average_pool, name, layer.x(), a);
}

Values spatial_pyramid(const Layer& layer) {
  const schema::SPPParameter& p = layer.param.spp_param();
  layer.expect_image();
  if (p.pyramid_height() < 1 || p.pyramid_height() > 16) layer.fail("pyramid_height is not within 1 and 16");
  if (p.pool() == schema::SPPParameter::STOCHASTIC) throw Unsupported{"stochastic"};
  const bool max = p.pool() == schema::SPPParameter::MAX;
  for (size_t d = 2; d < 4; ++d) layer.fix(layer.builder.symbol(layer.x(), d));
  std::vector<View> levels;
  for (uint32_t level = 0; level < p.pyramid_height(); ++level) {
    const std::string name = layer.name + "/level" + std::to_string(level);
    const View pooled = pyramid_level(layer, max, level, name);
    if (p.pyramid_height() == 1) return {pooled};
    levels.push_back(layer.builder.reshape(name + "/flat", pooled, {0, -1}));
  }
  return {layer.builder.concat(layer.name, levels, 1)};
}

// ---- other sizes

// Bilinear resizing that keeps the corners where they are.
Values interp(const Layer& layer) {
  const schema::InterpParameter& p = layer.param.interp_param();
  const Shape shape = layer.shape();
  layer.expect_image();
  if (p.pad_beg() > 0 || p.pad_end() > 0) layer.fail("pad_beg or pad_end is positive");
  if (p.shrink_factor() < 1 || p.zoom_factor() < 1) layer.fail("shrink_factor or zoom_factor is not positive");
  Attributes a;
  a.mode = QN_RESIZE_BILINEAR;
  a.coordinates = QN_COORDINATES_ALIGN_CORNERS;
  // Negative padding takes away what lies on both sides.
  std::vector<int64_t> begin(4, 0), end(4, -1);
  for (size_t d = 2; d < 4; ++d) {
    begin[d] = -int64_t{p.pad_beg()};
    end[d] = -1 + int64_t{p.pad_end()};
    const int64_t in = static_cast<int64_t>(shape[d]) + p.pad_beg() + p.pad_end();
    if (in < 1) layer.fail("nothing is left of the input");
    const int64_t small = (in - 1) / p.shrink_factor() + 1, given = d == 2 ? p.height() : p.width();
    a.values.push_back(given > 0 ? given : small + (small - 1) * (p.zoom_factor() - 1));
    if (given <= 0) layer.fix(layer.builder.symbol(layer.x(), d));
  }
  const bool cuts = p.pad_beg() != 0 || p.pad_end() != 0;
  const View x = cuts ? layer.builder.slice(layer.name + "/cut", layer.x(), begin, end) : layer.x();
  return {layer.builder.resize(layer.name, x, a)};
}

// ---- what undoes a pooling

// The height and width of the result.
std::vector<int64_t> enlarged(const Layer& layer, const schema::UpsampleParameter& p) {
  const Shape shape = layer.shape();
  layer.expect_image();
  const int64_t scale[] = {p.has_scale_h() ? p.scale_h() : p.scale(), p.has_scale_w() ? p.scale_w() : p.scale()};
  const int64_t given[] = {p.upsample_h(), p.upsample_w()};
  const bool cut[] = {p.pad_out_h(), p.pad_out_w()};
  std::vector<int64_t> size;
  for (size_t d = 0; d < 2; ++d) {
    layer.fix(layer.builder.symbol(layer.x(), 2 + d));
    if (scale[d] < 1) layer.fail("scale is not positive");
    const int64_t whole = static_cast<int64_t>(shape[2 + d]) * scale[d] - (cut[d] ? 1 : 0);
    size.push_back(given[d] > 0 ? given[d] : whole);
    if (size[d] < 1 || size[d] > static_cast<int64_t>(max_extent)) layer.fail("the size is out of range");
  }
  return size;
}

// Puts each pixel to the place in its channel from which a pooling has taken it; all others are 0.
Values unpooled(const Layer& layer, const std::vector<int64_t>& size) {
  Builder& builder = layer.builder;
  if (layer.dims(1) != layer.shape()) layer.fail("input and places have different shapes");
  const Shape shape = layer.shape();
  builder.fix(builder.symbol(layer.x(), 1), layer.name);
  const auto channels = static_cast<int64_t>(shape[1]);
  const Value x = builder.reshape(layer.name + "/pixels", layer.x(), {0, 0, -1});
  const View list = builder.reshape(layer.name + "/list", layer.view(1), {0, 0, -1});
  const Value places = cast_to(layer, list, ElementType::i64);
  // Zeros of the result's size. What is multiplied by them says how many images the batch has in a run.
  const View first = builder.slice(layer.name + "/first", x.view, 2, 0, 1);
  const Value zero = number_of(layer, 0, ElementType::f32);
  const Value channel = make(layer, "fill", {integer_list({1, 1, size[0] * size[1]}), zero}, {}, ElementType::f32);
  const Value is_number = make(layer, "equal", {first, first}, {}, ElementType::boolean);
  const Value zeros = make(layer, "any_mul", {cast_to(layer, is_number, ElementType::f32), channel});
  const Value y = make(layer, "scatter_elements", {zeros, places, x}, Parameters().integer("axis", 2));
  return {builder.reshape(layer.name, y.view, {0, channels, size[0], size[1]})};
}

Values upsample(const Layer& layer) {
  const std::vector<int64_t> size = enlarged(layer, layer.param.upsample_param());
  if (layer.input_count() == 2) return unpooled(layer, size);
  Attributes a;
  a.mode = QN_RESIZE_NEAREST;
  a.coordinates = QN_COORDINATES_ASYMMETRIC;
  a.rounding = QN_ROUND_FLOOR;
  a.values = {size[0], size[1]};
  return {layer.builder.resize(layer.name, layer.x(), a)};
}

}  // namespace

const LayerRow* find_general(const std::string& type) {
  static const LayerTable rows = {
      {"BN", {bn, 1, 1}},
      {"BatchReindex", {batch_reindex, 2, 2}},
      {"Embed", {embed, 1, 1}},
      {"Filter", {filter, 2, many_inputs}},
      {"Interp", {interp, 1, 1}},
      {"Parameter", {parameter, 0, 0}},
      {"SPP", {spatial_pyramid, 1, 1}},
      {"Threshold", {threshold, 1, 1}},
      {"Upsample", {upsample, 1, 2}},
  };
  return find_in(rows, type);
}

}  // namespace quern::caffe
