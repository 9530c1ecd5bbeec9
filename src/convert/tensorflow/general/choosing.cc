// Elements at places that tensors name, or that are chosen by what they are; boxes; pixels between others.
#include <limits>

#include "convert/common/images.h"
#include "convert/tensorflow/general/general.h"

namespace quern::tensorflow {
namespace {

Values gather(const TfNode& node) {
  const int64_t axis = node.input_count() > 2 ? node.only_integer(2) : 0;
  return {gathered(node, node.value(0), node.value(1), axis, node.integer("batch_dims", 0))};
}
Values gather_nd(const TfNode& node) {
  node.ignore("bad_indices_policy");
  return plain<"gather_nd">(node);
}
Values scatter_nd(const TfNode& node) {
  node.ignore("bad_indices_policy");
  return {scattered(node, node.value(0), node.value(1), node.value(2))};
}
// Imports TensorScatterUpdate and what else changes elements; `reduction` as scatter_nd has it.
template <int64_t reduction>
Values tensor_scatter(const TfNode& node) {
  node.ignore("bad_indices_policy");
  return {make(node, "scatter_nd", all_inputs(node), Parameters().integer("reduction", reduction))};
}
Values tensor_scatter_sub(const TfNode& node) {
  node.ignore("bad_indices_policy");
  const Values inputs = {node.value(0), node.value(1), make(node, "neg", {node.value(2)})};
  return {make(node, "scatter_nd", inputs, Parameters().integer("reduction", 1))};
}
// Each row of the result is the sum of those that have its number. Numbers below 0 count nowhere.
Values unsorted_segment_sum(const TfNode& node) {
  node.ignore("Tnumsegments");
  const Shape shape = shape_at_import(node, node.value(0)), ids = shape_at_import(node, node.value(1));
  if (ids.size() != 1 || shape.empty()) throw Unsupported{"of ids that are not a 1-D tensor"};
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  sizes[0] = node.only_integer(2);
  for (size_t d = 1; d < shape.size(); ++d) fix_dimension(node, node.value(0), d);
  if (!node.is_integer(1)) throw Unsupported{"of computed numbers"};
  for (const int64_t id : node.integers(1).values) {
    if (id < 0 || id >= sizes[0]) throw Unsupported{"segment " + std::to_string(id)};
  }
  return {scattered(node, with_axis(node, node.value(1), 1), node.value(0), integer_list(sizes))};
}
Values one_hot_of(const TfNode& node) {
  node.ignore("TI");
  return {one_hot(node, node.value(0), node.value(1), node.value(2), node.value(3), node.integer("axis", -1))};
}

Values where(const TfNode& node) { return {places_of_nonzero(node, node.value(0))}; }
Values unique(const TfNode& node) {
  const Values found = unique_elements(node, node.value(0));
  return {found[0], cast_to(node, found[1], node.index_type("out_idx", ElementType::s32))};
}

// ---- boxes ------------------------------------------------------------------------------------

// Returns the boxes that stay, their scores, and how many they are; zeros follow them.
Values suppressed_boxes(const TfNode& node, Values inputs) {
  for (const char* unused : {"T_threshold"}) node.ignore(unused);
  const int64_t most = node.only_integer(2);
  if (most < 0 || most > 1 << 20) node.fail("the number of outputs is out of range");
  if (inputs.size() == 3) inputs.push_back(number_of(node, node.number("iou_threshold", 0.5f), ElementType::f32));
  if (inputs.size() == 6) {  // where overlapping boxes lose part of their score, none is dropped at once
    const Value zero = number_of(node, 0, ElementType::f32);
    const Value never = number_of(node, std::numeric_limits<float>::infinity(), ElementType::f32);
    const Value loses = make(node, "greater", {inputs[5], zero}, {}, ElementType::boolean);
    inputs[3] = make(node, "where", {loses, never, inputs[3]}, {}, ElementType::f32);
  }
  if (inputs.size() < 5) inputs.push_back(number_of(node, std::numeric_limits<float>::lowest(), ElementType::f32));
  return make_all(node, "suppress_boxes", inputs, Parameters().integer("most", most).integer("above", 1),
                  {ElementType::s32, ElementType::f32, ElementType::s32});
}

// The first `count` of a list.
Value taken(const TfNode& node, const Value& list, const Value& count) {
  const Value rows = integer_number(node.only_integer(2));
  const Value places = make(node, "range", {integer_number(0), rows, integer_number(1)}, {}, ElementType::i64);
  const Value counted = make(node, "less", {cast_to(node, places, ElementType::s32), count}, {}, ElementType::boolean);
  return make(node, "compress", {list, counted}, Parameters().integer("axis", 0));
}

Values non_max_suppression(const TfNode& node) {
  const Values found = suppressed_boxes(node, all_inputs(node));
  return {taken(node, found[0], found[2])};
}

// With how many there are as the last output; lists may be as long as they can become.
Values padded_suppression(const TfNode& node) {
  Values found = suppressed_boxes(node, all_inputs(node));
  if (!node.flag("pad_to_max_output_size", false)) {
    found[0] = taken(node, found[0], found[2]);
    found[1] = taken(node, found[1], found[2]);
  }
  if (node.input_count() < 6) found.erase(found.begin() + 1);
  return found;
}

// Inputs: images, boxes, numbers of their images, and height and width of the output.
Values crop_and_resize(const TfNode& node) {
  const std::string method = node.text("method", "bilinear");
  if (method != "bilinear" && method != "nearest") node.fail("method is '" + method + "'");
  if (!is_float(node.value(0).type)) throw Unsupported{"of an image of integers"};
  Parameters parameters = Parameters()
                              .integers("size", node.integers(3).values)
                              .integer("nearest", method == "nearest")
                              .number("extrapolation", node.number("extrapolation_value", 0));
  const Values inputs = {permuted(node, node.value(0), {0, 3, 1, 2}), node.value(1), node.value(2)};
  return {permuted(node, make(node, "crop_and_resize", inputs, std::move(parameters)), {0, 2, 3, 1})};
}

// TensorFlow has another cubic for places that are half pixels, and there only pixels within the image count. It takes its
// weights from a table, for parts of 1/1024 of a pixel; ours are those of the exact place.
Values resize_bicubic(const TfNode& node) {
  enum : int64_t { cubic = 2, half_pixel = 0, asymmetric = 3, align_corners = 4 };  // of the kind
  const bool aligns = node.flag("align_corners", false), halves = node.flag("half_pixel_centers", false);
  if (aligns && halves) node.fail("align_corners and half_pixel_centers");
  if (rank_of(node, node.value(0)) != 4)
    node.fail("expected a rank-4 image tensor (NHWC), got rank " + std::to_string(rank_of(node, node.value(0))));
  Parameters parameters = Parameters()
                              .integer("mode", cubic)
                              .integer("coordinates", halves   ? half_pixel
                                                      : aligns ? align_corners
                                                               : asymmetric)
                              .integer("exclude_outside", halves)
                              .integers("axes", {1, 2})
                              .number("cubic", halves ? -0.5f : -0.75f);
  const Value x = cast_to(node, node.value(0), ElementType::f32);
  return {make(node, "resample", {x, {}, {}, node.value(1)}, std::move(parameters))};
}

}  // namespace

const TfTable& general_choosing() {
  static const TfTable table = {
      {"CropAndResize", {crop_and_resize, 4, 4}},
      {"Gather", {gather, 2, 2}},
      {"GatherNd", {gather_nd, 2, 2}},
      {"GatherV2", {gather, 3, 3}},
      {"NonMaxSuppression", {non_max_suppression, 3, 3}},
      {"NonMaxSuppressionV2", {non_max_suppression, 4, 4}},
      {"NonMaxSuppressionV3", {non_max_suppression, 5, 5}},
      {"NonMaxSuppressionV4", {padded_suppression, 5, 5}},
      {"NonMaxSuppressionV5", {padded_suppression, 6, 6}},
      {"OneHot", {one_hot_of, 4, 4}},
      {"ResizeBicubic", {resize_bicubic, 2, 2}},
      {"ScatterNd", {scatter_nd, 3, 3}},
      {"TensorScatterAdd", {tensor_scatter<1>, 3, 3}},
      {"TensorScatterMax", {tensor_scatter<3>, 3, 3}},
      {"TensorScatterMin", {tensor_scatter<4>, 3, 3}},
      {"TensorScatterSub", {tensor_scatter_sub, 3, 3}},
      {"TensorScatterUpdate", {tensor_scatter<0>, 3, 3}},
      {"Unique", {unique, 1, 1}},
      {"UnsortedSegmentSum", {unsorted_segment_sum, 3, 3}},
      {"Where", {where, 1, 1}},
  };
  return table;
}

}  // namespace quern::tensorflow
