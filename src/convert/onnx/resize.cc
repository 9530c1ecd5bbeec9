// Imports ONNX operators that resize images.
#include <algorithm>
#include <cmath>
#include <map>

#include "convert/onnx/node.h"

namespace quern::onnx {
namespace {

// The size to which an image is resized, as factors or as sizes. Only height and width may change.
struct Target {
  std::vector<float> scales;           // one per dimension; empty: `sizes` is used
  std::vector<Symbols::Number> sizes;  // one per dimension
};

// Returns the whole number by which `size` is always a multiple of dimension d of the input; 0 if none is known.
float whole_factor(const OnnxNode& node, const Symbols::Number& size, size_t d) {
  const Symbols::Number from = node.dimension(0, d);
  const int64_t factor = size.value / from.value;
  const bool follows = from.symbol != no_symbol && factor > 0 && factor * from.value == size.value &&
                       node.builder.symbols().product(from, {factor}) == size.symbol;
  return follows ? static_cast<float>(factor) : 0;
}

// A size of the target that is a plain number.
void close(const OnnxNode& node, Symbol symbol) {
  if (node.builder.is_open(symbol)) throw Unsupported{"to a size that follows an open one"};
  node.fix(symbol);
}

void set_target(const OnnxNode& node, const Target& target, Attributes* a) {
  const Shape shape = node.builder.shape(node.view(0));
  const bool by_scale = !target.scales.empty();
  if (shape.size() != 4) throw Unsupported{"on a tensor of rank " + std::to_string(shape.size())};
  if ((by_scale ? target.scales.size() : target.sizes.size()) != 4) node.fail("scales or sizes do not fit the input");
  for (size_t d = 0; d < 2; ++d) {
    if (by_scale ? target.scales[d] != 1 : target.sizes[d].value != static_cast<int64_t>(shape[d])) {
      throw Unsupported{"of other than height and width"};
    }
    const Symbol own = node.builder.symbol(node.view(0), d);
    if (by_scale || target.sizes[d].symbol == own) continue;
    close(node, own);
    close(node, target.sizes[d].symbol);
  }
  if (by_scale) {
    for (size_t d = 2; d < 4; ++d) {
      if (!(target.scales[d] > 0) || !std::isfinite(target.scales[d])) node.fail("scales are not positive");
    }
    a->alpha = target.scales[2];
    a->beta = target.scales[3];
    return;
  }
  a->alpha = whole_factor(node, target.sizes[2], 2);
  a->beta = whole_factor(node, target.sizes[3], 3);
  if (a->alpha != 0 && a->beta != 0) return;
  for (size_t d = 2; d < 4; ++d) close(node, target.sizes[d].symbol);
  a->values = {target.sizes[2].value, target.sizes[3].value};
}

void set_mode(const OnnxNode& node, Attributes* a) {
  const std::string mode = node.text("mode", "nearest");
  if (mode == "nearest") {
    a->mode = QN_RESIZE_NEAREST;
  } else if (mode == "linear" || mode == "bilinear") {
    a->mode = QN_RESIZE_BILINEAR;
  } else {
    throw Unsupported{mode};
  }
}

// Imports Upsample, and Resize before opset 11.
Values upsample(const OnnxNode& node) {
  Attributes a;
  set_mode(node, &a);
  a.coordinates = QN_COORDINATES_ASYMMETRIC;
  const bool by_attribute = node.proto.op_type() == "Upsample" && node.opset < 9;
  const std::vector<float> scales = by_attribute ? node.number_list("scales") : node.floats(1);
  const OldRounding rounding = old_rounding(node);
  if (rounding == OldRounding::by_scale) throw Unsupported{"to more pixels one way and fewer the other"};
  a.rounding = rounding == OldRounding::up ? QN_ROUND_CEIL : QN_ROUND_FLOOR;
  set_target(node, {scales, {}}, &a);
  return {node.result(node.builder.resize(node.name, node.view(0), a))};
}

void set_coordinates(const OnnxNode& node, Attributes* a) {
  static const std::map<std::string, qn_resize_coordinates> modes = {
      {"half_pixel", QN_COORDINATES_HALF_PIXEL},
      {"pytorch_half_pixel", QN_COORDINATES_HALF_PIXEL_OR_0},
      {"asymmetric", QN_COORDINATES_ASYMMETRIC},
      {"align_corners", QN_COORDINATES_ALIGN_CORNERS},
  };
  static const std::map<std::string, qn_resize_rounding> roundings = {
      {"round_prefer_floor", QN_ROUND_HALF_DOWN},
      {"round_prefer_ceil", QN_ROUND_HALF_UP},
      {"floor", QN_ROUND_FLOOR},
      {"ceil", QN_ROUND_CEIL},
  };
  const std::string mode = node.text("coordinate_transformation_mode", "half_pixel");
  const std::string rounding = node.text("nearest_mode", "round_prefer_floor");
  if (modes.count(mode) == 0) throw Unsupported{mode};
  if (roundings.count(rounding) == 0) throw Unsupported{rounding};
  a->coordinates = modes.at(mode);
  a->rounding = roundings.at(rounding);
}

// Returns one value per dimension from values for `axes`. The other dimensions get their values from `kept`.
template <class T>
std::vector<T> for_all_axes(const OnnxNode& node, const std::vector<T>& values, const std::vector<T>& kept) {
  if (!node.has_attribute("axes") || values.empty()) return values;
  const std::vector<int64_t> axes = node.integer_list("axes");
  if (axes.size() != values.size()) node.fail("axes do not fit scales or sizes");
  std::vector<T> all = kept;
  for (size_t i = 0; i < axes.size(); ++i) all[node.axis(axes[i], all.size())] = values[i];
  return all;
}

Values resize(const OnnxNode& node) {
  if (node.opset < 11) return upsample(node);
  Attributes a;
  set_mode(node, &a);
  set_coordinates(node, &a);
  if (node.integer("antialias", 0) != 0) throw Unsupported{"antialias"};
  if (node.text("keep_aspect_ratio_policy", "stretch") != "stretch") throw Unsupported{"keep_aspect_ratio_policy"};
  for (const char* unused : {"cubic_coeff_a", "exclude_outside", "extrapolation_value"}) node.ignore(unused);
  const Shape shape = node.builder.shape(node.view(0));
  Target target;
  if (node.has(2)) target.scales = for_all_axes(node, node.floats(2), std::vector<float>(shape.size(), 1));
  // ONNX aligns the corners of a size that is not rounded, our operator those of the rounded one.
  const auto is_whole = [](float scale) { return scale == std::floor(scale); };
  if (a.coordinates == QN_COORDINATES_ALIGN_CORNERS &&
      !std::all_of(target.scales.begin(), target.scales.end(), is_whole)) {
    throw Unsupported{"align_corners with a scale that is not an integer"};
  }
  std::vector<Symbols::Number> kept, sizes;
  for (size_t d = 0; d < shape.size(); ++d) kept.push_back(node.dimension(0, d));
  if (node.symbolic_list("sizes", 3, 11, &sizes)) target.sizes = for_all_axes(node, sizes, kept);
  set_target(node, target, &a);
  return {node.result(node.builder.resize(node.name, node.view(0), a))};
}

}  // namespace

OldRounding old_rounding(const OnnxNode& node) {
  if (node.proto.op_type() != "Resize" || node.text("mode", "nearest") != "nearest") return OldRounding::down;
  if (!node.is_constant(1)) return OldRounding::by_scale;
  const std::vector<float> scales = node.floats(1);
  const bool shrinks = std::any_of(scales.begin(), scales.end(), [](float scale) { return scale < 1; });
  const bool grows = std::any_of(scales.begin(), scales.end(), [](float scale) { return scale > 1; });
  return !shrinks ? OldRounding::down : grows ? OldRounding::by_scale : OldRounding::up;
}

const OnnxTable& resizing_layers() {
  static const OnnxTable table = {
      {"Resize", {resize, 1, 4}},
      {"Upsample", {upsample, 1, 2}},
  };
  return table;
}

}  // namespace quern::onnx
