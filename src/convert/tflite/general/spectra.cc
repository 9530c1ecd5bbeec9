// Spectra, and the few operators on complex numbers that follow them.
#include "convert/common/spectra.h"

#include "convert/tflite/general/general.h"

namespace quern::tflite {
namespace {

Values rfft2d(const TfliteNode& node) {
  if (node.integers(1).values.size() != 2) node.fail("there are not two lengths");
  return {spectrum_of(node, node.any(0), node.integers(1).values)};
}

Values real_part(const TfliteNode& node) { return {node.typed(part_of_complex(node, node.value(0), 0))}; }
Values imaginary_part(const TfliteNode& node) { return {node.typed(part_of_complex(node, node.value(0), 1))}; }
Values complex_abs(const TfliteNode& node) { return {node.typed(absolute_of_complex(node, node.value(0)))}; }

Values complex_reshape(const TfliteNode& node) {
  if (node.has(1)) return {complex_reshaped(node, node.value(0), node.symbolic(1))};
  const auto* const shape = node.options<schema::ReshapeOptions>().new_shape();
  if (shape == nullptr) node.fail("the shape is missing");
  return {complex_reshaped(node, node.value(0), {{}, {shape->begin(), shape->end()}, {}})};
}
Values complex_squeeze(const TfliteNode& node) {
  const auto* const axes = node.options<schema::SqueezeOptions>().squeeze_dims();
  if (axes == nullptr) return {complex_squeezed(node, node.value(0), {})};
  return {complex_squeezed(node, node.value(0), {axes->begin(), axes->end()})};
}
Values complex_expand_dims(const TfliteNode& node) {
  return {complex_with_axis(node, node.value(0), only_integer_of(node, 1))};
}

}  // namespace

const TfliteTable& general_spectra() {
  static const TfliteTable table = {{"RFFT2D", {rfft2d, 2, 2}}};
  return table;
}

const TfliteRow* find_complex(const std::string& type) {
  static const TfliteTable table = {
      {"COMPLEX_ABS", {complex_abs, 1, 1}}, {"EXPAND_DIMS", {complex_expand_dims, 2, 2}},
      {"IMAG", {imaginary_part, 1, 1}},     {"REAL", {real_part, 1, 1}},
      {"RESHAPE", {complex_reshape, 1, 2}}, {"SQUEEZE", {complex_squeeze, 1, 1}},
  };
  return find_in(table, type);
}

}  // namespace quern::tflite
