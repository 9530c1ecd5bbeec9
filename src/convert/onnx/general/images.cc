// Pooling, resizing, sampling.
#include <map>

#include "convert/onnx/general/general.h"

namespace quern::onnx {
namespace {

// ---- windows ----------------------------------------------------------------------------------

// kernel_shape, strides, dilations, pads, auto_pad, ceil_mode
Parameters window_parameters(const OnnxNode& node) {
  if (!node.has_attribute("kernel_shape")) node.fail("kernel_shape is missing");
  const std::string mode = node.text("auto_pad", "NOTSET");
  const bool upper = mode == "SAME_UPPER", lower = mode == "SAME_LOWER";
  if (!upper && !lower && mode != "NOTSET" && mode != "VALID") node.fail("auto_pad is '" + mode + "'");
  const std::vector<int64_t> pads = node.integer_list("pads");
  return Parameters()
      .integers("kernel", node.integer_list("kernel_shape"))
      .integers("strides", node.integer_list("strides"))
      .integers("dilations", node.integer_list("dilations"))
      .integers("pads", mode == "NOTSET" ? pads : std::vector<int64_t>{})
      .integer("same", upper   ? 1
                       : lower ? 2
                               : 0)
      .integer("ceil", node.integer("ceil_mode", 0));
}

Values max_pool(const OnnxNode& node) {
  Parameters parameters = window_parameters(node).integer("column_major", node.integer("storage_order", 0));
  std::vector<ElementType> types = {node.value(0).type};
  if (node.proto.output_size() > 1) types.push_back(ElementType::i64);
  return of_kind(node, "window_max", std::move(parameters), types);
}

Values average_pool(const OnnxNode& node) {
  return same_type(node, "window_average",
                   window_parameters(node).integer("count_padding", node.integer("count_include_pad", 0)));
}

Values lp_pool(const OnnxNode& node) {
  return same_type(node, "window_norm", window_parameters(node).number("p", static_cast<float>(node.integer("p", 2))));
}

Values max_unpool(const OnnxNode& node) {
  if (!node.has_attribute("kernel_shape")) node.fail("kernel_shape is missing");
  return same_type(node, "max_unpool",
                   Parameters()
                       .integers("kernel", node.integer_list("kernel_shape"))
                       .integers("strides", node.integer_list("strides"))
                       .integers("pads", node.integer_list("pads")));
}

// Only a run says how many dimensions follow N and C.
Value pool_in_run(const OnnxNode& node, const char* kind) {
  const Value rank = make(node, "size_of", {shape_of(node, node.value(0))}, {}, ElementType::i64);
  const Value axes = make(node, "range", {integer_number(2), rank, integer_number(1)}, {}, ElementType::i64);
  return make(node, kind, {node.value(0), axes}, Parameters().integer("none_without_axes", 1));
}

// An image of any number of dimensions is pooled as a column of pixels.
template <OpKind kind>
Values global_pool(const OnnxNode& node) {
  Builder& builder = node.builder;
  if (node.value(0).view && !builder.is_sized(node.value(0).view)) {
    return {pool_in_run(node, kind == OpKind::global_max_pool ? "reduce_max" : "reduce_mean")};
  }
  const View& x = node.view(0);
  if (x.rank() < 3) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
  const View column = builder.reshape(node.name + "/column", x, {0, 0, -1, 1});
  std::vector<int64_t> shape(x.rank(), 1);
  shape[0] = shape[1] = 0;
  return {node.result(builder.reshape(node.name, builder.pool(kind, node.name + "/pool", column, {}), shape))};
}

// ---- resizing ---------------------------------------------------------------------------------

// Finds what the kind calls a choice of an attribute.
int64_t choice(const OnnxNode& node, const char* attribute, const std::string& otherwise,
               const std::map<std::string, int64_t>& choices) {
  const std::string text = node.text(attribute, otherwise);
  const int64_t* const found = find_in(choices, text);
  if (found == nullptr) node.fail(std::string(attribute) + " is '" + text + "'");
  return *found;
}

int64_t resize_mode(const OnnxNode& node) {
  return choice(node, "mode", "nearest", {{"nearest", 0}, {"linear", 1}, {"bilinear", 1}, {"cubic", 2}});
}

// An input that may be there without elements, which means that it is not there.
Value with_elements(const OnnxNode& node, size_t input) {
  const bool empty = !node.has(input) || (node.is_integer(input) && node.symbolic(input).values.empty());
  return empty ? Value() : node.value(input);
}

// Imports Upsample, and Resize before opset 11.
Values upsample(const OnnxNode& node) {
  const bool by_attribute = node.proto.op_type() == "Upsample" && node.opset < 9;
  View scales;
  if (by_attribute) {
    const std::vector<float> list = node.number_list("scales");
    if (list.empty()) node.fail("scales are missing");
    scales = node.builder.constant({list.size()}, list.data());
  } else {
    scales = node.operand(1);
  }
  Parameters parameters = Parameters()
                              .integer("mode", resize_mode(node))
                              .integer("coordinates", 3)
                              .integer("rounding", static_cast<int64_t>(old_rounding(node)));
  return node.custom("resample", {node.operand(0), {}, scales}, std::move(parameters), {node.value(0).type});
}

Values resize(const OnnxNode& node) {
  if (node.opset < 11) return upsample(node);
  const int64_t coordinates = choice(node, "coordinate_transformation_mode", "half_pixel",
                                     {{"half_pixel", 0},
                                      {"half_pixel_symmetric", 1},
                                      {"pytorch_half_pixel", 2},
                                      {"asymmetric", 3},
                                      {"align_corners", 4},
                                      {"tf_crop_and_resize", 5},
                                      {"tf_half_pixel_for_nn", 6}});
  const int64_t rounding = choice(node, "nearest_mode", "round_prefer_floor",
                                  {{"round_prefer_floor", 0}, {"round_prefer_ceil", 1}, {"floor", 2}, {"ceil", 3}});
  const int64_t policy =
      choice(node, "keep_aspect_ratio_policy", "stretch", {{"stretch", 0}, {"not_larger", 1}, {"not_smaller", 2}});
  Parameters parameters = Parameters()
                              .integer("mode", resize_mode(node))
                              .integer("coordinates", coordinates)
                              .integer("rounding", rounding)
                              .integer("policy", policy)
                              .integer("antialias", node.integer("antialias", 0))
                              .integer("exclude_outside", node.integer("exclude_outside", 0))
                              .integers("axes", node.integer_list("axes"))
                              .number("cubic", node.number("cubic_coeff_a", -0.75f))
                              .number("extrapolation", node.number("extrapolation_value", 0));
  const Value region = coordinates == 5 ? with_elements(node, 1) : Value();
  const Values inputs = {node.value(0), region, with_elements(node, 2), with_elements(node, 3)};
  return {make(node, "resample", inputs, std::move(parameters))};
}

// ---- samples ----------------------------------------------------------------------------------

Values grid_sample(const OnnxNode& node) {
  const int64_t mode = choice(node, "mode", node.opset < 20 ? "bilinear" : "linear",
                              {{"nearest", 0}, {"linear", 1}, {"bilinear", 1}, {"cubic", 2}, {"bicubic", 2}});
  const int64_t padding = choice(node, "padding_mode", "zeros", {{"zeros", 0}, {"border", 1}, {"reflection", 2}});
  return same_type(node, "grid_sample",
                   Parameters()
                       .integer("mode", mode)
                       .integer("padding", padding)
                       .integer("align_corners", node.integer("align_corners", 0)));
}

Values affine_grid(const OnnxNode& node) {
  return same_type(node, "affine_grid", Parameters().integer("align_corners", node.integer("align_corners", 0)));
}

Values col2im(const OnnxNode& node) {
  return same_type(node, "join_blocks",
                   Parameters()
                       .integers("strides", node.integer_list("strides"))
                       .integers("dilations", node.integer_list("dilations"))
                       .integers("pads", node.integer_list("pads")));
}

}  // namespace

const OnnxTable& general_images() {
  static const OnnxTable table = {
      {"AffineGrid", {affine_grid, 2, 2}},
      {"AveragePool", {average_pool, 1, 1}},
      {"Col2Im", {col2im, 3, 3}},
      {"GlobalAveragePool", {global_pool<OpKind::global_average_pool>, 1, 1}},
      {"GlobalMaxPool", {global_pool<OpKind::global_max_pool>, 1, 1}},
      {"GridSample", {grid_sample, 2, 2}},
      {"LpPool", {lp_pool, 1, 1}},
      {"MaxPool", {max_pool, 1, 1}},
      {"MaxUnpool", {max_unpool, 2, 3}},
      {"Resize", {resize, 1, 4}},
      {"Upsample", {upsample, 1, 2}},
  };
  return table;
}

}  // namespace quern::onnx
