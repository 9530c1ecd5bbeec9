// Imports MediaPipe's custom operators (mediapipe/util/tflite/operations). Options of the older ones are a C struct of
// TensorFlow Lite's, as it lies in memory: padding (1 is SAME, 2 VALID), then integers of 32 bits.
#include <cstring>

#include "base/math.h"
#include "convert/common/images.h"
#include "convert/tflite/custom_options.h"
#include "convert/tflite/general/general.h"

namespace quern::tflite {
namespace {

constexpr size_t height = 1, width = 2;  // of an image N, H, W, C

// The first integers of the struct.
std::vector<int32_t> options_of(const TfliteNode& node, size_t count) {
  const auto* const bytes = node.op.custom_options();
  std::vector<int32_t> options(count);
  const size_t expected = count * sizeof(int32_t), found = bytes == nullptr ? 0 : bytes->size();
  if (found < expected) {
    node.fail("expected " + std::to_string(expected) + " bytes of options or more, got " + std::to_string(found));
  }
  std::memcpy(options.data(), bytes->data(), expected);
  return options;
}

bool is_same(const TfliteNode& node, int32_t padding) {
  if (padding == 1 || padding == 2) return padding == 1;
  node.fail("expected padding 1 (SAME) or 2 (VALID), got " + std::to_string(padding));
}

int64_t size_within(const TfliteNode& node, int64_t value, const char* name) {
  constexpr int64_t most = 1 << 16;
  if (value >= 1 && value <= most) return value;
  node.fail(std::string("expected ") + name + " of 1..65536, got " + std::to_string(value));
}

// The shape of an image, whose height and width are fixed.
Shape fixed_image(const TfliteNode& node, const Value& x) {
  const Shape shape = shape_at_import(node, x);
  if (shape.size() != 4) {
    node.fail("expected an image tensor of rank 4 (NHWC), got rank " + std::to_string(shape.size()));
  }
  for (const size_t d : {height, width}) fix_dimension(node, x, d);
  return shape;
}

// ---- a transposed convolution with a bias

// Inputs: image, weights O, h, w, I, bias.
Values convolution_transpose_bias(const TfliteNode& node) {
  const std::vector<int32_t> options = options_of(node, 3);
  const Value x = node.any(0);
  const Shape image = fixed_image(node, x), taps = shape_at_import(node, node.any(1));
  if (taps.size() != 4) node.fail("expected weights of rank 4 (OHWI), got rank " + std::to_string(taps.size()));
  TransposedConvolution c;
  c.dilations = {1, 1};
  c.same = is_same(node, options[0]);
  c.strides = {size_within(node, options[2], "stride_h"), size_within(node, options[1], "stride_w")};
  for (const size_t d : {height, width}) {
    const int64_t stride = c.strides[d - 1], last = static_cast<int64_t>(image[d]) - 1;
    const int64_t kernel = size_within(node, static_cast<int64_t>(taps[d]), "kernel size");
    const int64_t padded = c.same ? std::max<int64_t>(kernel - last % stride - 1, 0) : 0;
    c.size.push_back({last * stride + kernel - padded, no_symbol});
  }
  const Value weights = permuted(node, node.any(1), {3, 0, 1, 2});
  return {node.typed(transposed_convolution(node, x, weights, node.any(2), c))};
}

// ---- maximums, and their positions within windows

struct Pooling {
  bool same;
  int64_t stride[2], kernel[2];  // of height and width
  schema::Activation activation;
};

Pooling pooling_of(const TfliteNode& node) {
  const std::vector<int32_t> o = options_of(node, 6);
  return {is_same(node, o[0]),
          {size_within(node, o[2], "stride_height"), size_within(node, o[1], "stride_width")},
          {size_within(node, o[4], "filter_height"), size_within(node, o[3], "filter_width")},
          static_cast<schema::Activation>(o[5])};
}

// Integers for positions of images N, C, H, W.
Value grid(const Shape& shape, const std::function<int64_t(size_t)>& value_at) {
  Integers integers = {shape, {}, {}};
  for (size_t i = 0; i < shape[0] * shape[1] * shape[2] * shape[3]; ++i) integers.values.push_back(value_at(i));
  return integer_value(std::move(integers));
}

// The second result says where in its window each maximum lies, as y * filter_width + x + 0.1.
Values max_pooling_with_argmax(const TfliteNode& node) {
  const Pooling p = pooling_of(node);
  const Value x = node.any(0);
  const Shape image = fixed_image(node, x);
  int64_t size[2], before[2], count[2];
  for (const size_t d : {0, 1}) {
    size[d] = static_cast<int64_t>(image[1 + d]);
    if (!p.same && size[d] < p.kernel[d]) node.fail("the image is smaller than the window");
    count[d] = p.same ? divide_up(size[d], p.stride[d]) : (size[d] - p.kernel[d]) / p.stride[d] + 1;
    before[d] = p.same ? std::max<int64_t>((count[d] - 1) * p.stride[d] + p.kernel[d] - size[d], 0) / 2 : 0;
  }
  const Values found = make_all(node, "window_max", {permuted(node, x, {0, 3, 1, 2})},
                                Parameters()
                                    .integers("kernel", {p.kernel[0], p.kernel[1]})
                                    .integers("strides", {p.stride[0], p.stride[1]})
                                    .integer("same", p.same ? 1 : 0),
                                {ElementType::f32, ElementType::i64});
  // Position y * width + x of the image becomes y * filter_width + x, less what this is where the window begins.
  const Value pixel = floor_mod(node, found[1], integer_number(size[0] * size[1]));
  const Value row = floor_div(node, pixel, integer_number(size[1]));
  const Value skipped = make(node, "any_mul", {row, integer_number(size[1] - p.kernel[1])});
  const Shape outputs = {1, 1, static_cast<size_t>(count[0]), static_cast<size_t>(count[1])};
  const Value begin = grid(outputs, [&](size_t i) {
    const int64_t y = static_cast<int64_t>(i) / count[1], x_out = static_cast<int64_t>(i) % count[1];
    return (y * p.stride[0] - before[0]) * p.kernel[1] + x_out * p.stride[1] - before[1];
  });
  const Value within = make(node, "any_sub", {make(node, "any_sub", {pixel, skipped}), begin});
  const Value position =
      make(node, "any_add", {cast_to(node, within, ElementType::f32), number_of(node, 0.1f, ElementType::f32)});
  const std::vector<int64_t> order = {0, 2, 3, 1};
  return {node.typed(permuted(node, found[0], order), 0, p.activation), node.typed(permuted(node, position, order), 1)};
}

// Puts each element where its position says, into a window of zeros.
Values max_unpooling(const TfliteNode& node) {
  const Pooling p = pooling_of(node);
  if (p.stride[0] != p.kernel[0] || p.stride[1] != p.kernel[1]) throw Unsupported{"windows that overlap or leave gaps"};
  const Value x = node.any(0);
  const Shape image = fixed_image(node, x);
  if (shape_at_import(node, node.any(1)) != image) node.fail("expected as many positions as elements");
  node.fix(node.dimension(0, 0).symbol);
  const auto rows = static_cast<int64_t>(image[1]), columns = static_cast<int64_t>(image[2]);
  const int64_t out_width = columns * p.kernel[1], out_size = rows * p.kernel[0] * out_width;
  const Value within = cast_to(node, permuted(node, node.any(1), {0, 3, 1, 2}), ElementType::i64);
  const Value row = floor_div(node, within, integer_number(p.kernel[1]));
  const Value skipped = make(node, "any_mul", {row, integer_number(out_width - p.kernel[1])});
  const Value begin = grid({1, 1, image[1], image[2]}, [&](size_t i) {
    const int64_t y = static_cast<int64_t>(i) / columns, x_in = static_cast<int64_t>(i) % columns;
    return y * p.kernel[0] * out_width + x_in * p.kernel[1];
  });
  const Value plane = grid({image[0], image[3], 1, 1}, [&](size_t i) { return static_cast<int64_t>(i) * out_size; });
  Value place = make(node, "any_add", {within, skipped});
  for (const Value& more : {begin, plane}) place = make(node, "any_add", {place, more});
  const Value y =
      make(node, "max_unpool", {permuted(node, x, {0, 3, 1, 2}), place},
           Parameters().integers("kernel", {p.kernel[0], p.kernel[1]}).integers("strides", {p.stride[0], p.stride[1]}));
  return {node.typed(permuted(node, y, {0, 2, 3, 1}), 0, p.activation)};
}

// ---- landmarks

// Moves the points of `landmarks` by the affine transform that the first two rows of a matrix [4, 4] are. A third
// coordinate stays as it is. Version 1 has points in the channels of an image, version 2 in rows.
Values transform_landmarks(const TfliteNode& node) {
  const CustomOptions options(node);
  const int64_t dimensions = options.integer("dimensions", 2, 0);
  const Value x = node.any(0);
  const Shape shape = shape_at_import(node, x);
  if (shape.size() != 3 && shape.size() != 4) {
    node.fail("expected landmarks of rank 3 or 4, got rank " + std::to_string(shape.size()));
  }
  const bool is_version_1 = shape.size() == 4;
  if (dimensions > 3) node.fail("expected 2 or 3 dimensions, got " + std::to_string(dimensions));
  if (shape[0] != 1 || (!is_version_1 && shape[2] != static_cast<size_t>(dimensions))) {
    throw Unsupported{"landmarks of several batches, or beside other numbers"};
  }
  if (shape.back() % static_cast<size_t>(dimensions) != 0) node.fail("expected whole landmarks");
  const float scale = is_version_1 ? options.number("scale") : 1;
  const Value points = reshaped(node, x, {-1, dimensions}), matrix = reshaped(node, node.any(1), {4, 4});
  const Value turned = transposed_if(node, true, sliced(node, matrix, {0, 0}, {2, 2}, {0, 1}));
  Value moved = reshaped(node, sliced(node, matrix, {0, 3}, {2, 4}, {0, 1}), {1, 2});
  if (scale != 1) moved = make(node, "any_mul", {moved, number_of(node, scale, ElementType::f32)});
  Value y = make(node, "matmul", {sliced(node, points, {0}, {2}, {1}), turned});
  y = make(node, "any_add", {y, moved});
  if (dimensions == 3) y = joined(node, {y, sliced(node, points, {2}, {3}, {1})}, 1);
  std::vector<int64_t> back(shape.begin(), shape.end());
  back[is_version_1 ? 3 : 1] = -1;
  return {node.typed(reshaped(node, y, back))};
}

}  // namespace

const TfliteTable& general_mediapipe() {
  static const TfliteTable table = {
      {"custom Convolution2DTransposeBias", {convolution_transpose_bias, 3, 3}},
      {"custom MaxPoolingWithArgmax2D", {max_pooling_with_argmax, 1, 1}},
      {"custom MaxUnpooling2D", {max_unpooling, 2, 2}},
      {"custom TransformLandmarks", {transform_landmarks, 2, 2}},
  };
  return table;
}

}  // namespace quern::tflite
