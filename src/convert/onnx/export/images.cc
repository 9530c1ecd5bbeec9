// Pooling, resizing, sampling, spectra: kinds of libquern-extra.
#include <cmath>

#include "convert/onnx/export/rows.h"

namespace quern::onnx {
namespace {

using Rule = AttributeRule;

// The order of the norm is a whole number in ONNX.
void write_window_norm(GraphWriter& to, const Node& node, const ExportRow& row) {
  const float p = number_of(node, "p", 2);
  if (p != std::floor(p) || !(std::fabs(p) < 0x1p63f)) throw Unsupported{"a norm whose order is not an integer"};
  schema::NodeProto* pool = write_with(to, node, row, stored_inputs(to, node));
  set_integer(pool, "p", static_cast<int64_t>(p));
}

// ---- resizing

enum { half_pixel_symmetric = 1, half_pixel_up = 6 };  // of the parameter `coordinates`
constexpr int64_t up_if_smaller = 4;                   // of `rounding`

// ONNX has lost the coordinates half_pixel_up. The nearest pixel below a place in them is the nearest one to the same
// place in half_pixel: half a pixel less, rounded.
void write_resample(GraphWriter& to, const Node& node, const ExportRow& row) {
  ExportRow as = row;
  const int64_t coordinates = integer_of(node, "coordinates", 0);
  if (coordinates == half_pixel_symmetric) as.opset = 19;
  if (integer_of(node, "rounding", 0) == up_if_smaller) throw Unsupported{"a rounding that ONNX no longer has"};
  const bool nearest = integer_of(node, "mode", 0) == 0, down = integer_of(node, "rounding", 0) == 2;
  if (coordinates == half_pixel_up && !(nearest && down)) throw Unsupported{"coordinates that ONNX no longer has"};
  const bool follows = find_parameter(node, "sizes3") != nullptr;
  schema::NodeProto* resize = write_with(to, node, as, follows ? sized_inputs(to, node, 4) : stored_inputs(to, node));
  if (coordinates != half_pixel_up) return;
  for (schema::AttributeProto& attribute : *resize->mutable_attribute()) {
    if (attribute.name() == "nearest_mode") attribute.set_s("round_prefer_ceil");
  }
}

// ---- spectra

// The axis may also be a parameter.
void write_dft(GraphWriter& to, const Node& node, const ExportRow& row) {
  std::vector<std::string> inputs = stored_inputs(to, node);
  inputs.resize(3);
  if (inputs[2].empty() && find_parameter(node, "axis") != nullptr) {
    inputs[2] = to.integer(integer_of(node, "axis", -2));
  }
  write_with(to, node, row, std::move(inputs));
}

// ---- attributes that several rows have

const std::vector<Rule> pool_rules = {{Rule::integers, "kernel_shape", "kernel"},
                                      {Rule::integers, "strides", "strides"},
                                      {Rule::integers, "dilations", "dilations"},
                                      {Rule::integers, "pads", "pads"},
                                      {Rule::word, "auto_pad", "same", {"NOTSET", "SAME_UPPER", "SAME_LOWER"}},
                                      {Rule::integer, "ceil_mode", "ceil"}};
std::vector<Rule> pool_and(const Rule& more) {
  std::vector<Rule> rules = pool_rules;
  rules.push_back(more);
  return rules;
}

const std::vector<Rule> resample_rules = {
    {Rule::word, "mode", "mode", {"nearest", "linear", "cubic"}},
    {Rule::word,
     "coordinate_transformation_mode",
     "coordinates",
     {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_crop_and_resize",
      "half_pixel"}},
    {Rule::word, "nearest_mode", "rounding", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}},
    {Rule::word, "keep_aspect_ratio_policy", "policy", {"stretch", "not_larger", "not_smaller"}},
    {Rule::integer, "antialias", "antialias"},
    {Rule::integer, "exclude_outside", "exclude_outside"},
    {Rule::integers, "axes", "axes"},
    {Rule::number, "cubic_coeff_a", "cubic"},
    {Rule::number, "extrapolation_value", "extrapolation"}};
const std::vector<Rule> grid_sample_rules = {{Rule::word, "mode", "mode", {"nearest", "linear", "cubic"}},
                                             {Rule::word, "padding_mode", "padding", {"zeros", "border", "reflection"}},
                                             {Rule::integer, "align_corners", "align_corners"}};
const std::vector<Rule> window_rules = {{Rule::integers, "kernel_shape", "kernel"},
                                        {Rule::integers, "strides", "strides"},
                                        {Rule::integers, "pads", "pads"}};
const std::vector<Rule> block_rules = {{Rule::integers, "strides", "strides"},
                                       {Rule::integers, "dilations", "dilations"},
                                       {Rule::integers, "pads", "pads"}};

}  // namespace

const ExportTable& exported_images() {
  static const ExportTable table = {
      {"affine_grid", {write_operator, "AffineGrid", 20, {{Rule::integer, "align_corners", "align_corners"}}}},
      {"any_lrn",
       {write_operator,
        "LRN",
        13,
        {{Rule::integer, "size", "size"},
         {Rule::number, "alpha", "alpha"},
         {Rule::number, "beta", "beta"},
         {Rule::number, "bias", "bias"}}}},
      {"dft",
       reads({"axis"},
             {write_dft, "DFT", 20, {{Rule::integer, "inverse", "inverse"}, {Rule::integer, "onesided", "onesided"}}})},
      {"grid_sample", {write_operator, "GridSample", 20, grid_sample_rules}},
      {"join_blocks", {write_operator, "Col2Im", 18, block_rules}},
      {"max_unpool", {write_operator, "MaxUnpool", 13, window_rules}},
      {"mel_weights", {write_operator, "MelWeightMatrix", 17, {{Rule::type, "output_datatype"}}}},
      {"resample", {write_resample, "Resize", 18, resample_rules}},
      {"resample_sizes", reads({"sizes3"}, {write_resample, "Resize", 18, resample_rules})},
      {"stft", {write_operator, "STFT", 17, {{Rule::integer, "onesided", "onesided"}}}},
      {"window_average",
       {write_operator, "AveragePool", 19, pool_and({Rule::integer, "count_include_pad", "count_padding"})}},
      {"window_max", {write_operator, "MaxPool", 13, pool_and({Rule::integer, "storage_order", "column_major"})}},
      {"window_norm", reads({"p"}, {write_window_norm, "LpPool", 18, pool_rules})},
  };
  return table;
}

}  // namespace quern::onnx
