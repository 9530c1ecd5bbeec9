// Regions of interest, boxes; spectra of signals.
#include "convert/onnx/general/general.h"
#include "convert/onnx/tensor.h"

namespace quern::onnx {
namespace {

// ---- regions and boxes ------------------------------------------------------------------------

Values roi_align(const OnnxNode& node) {
  const std::string mode = node.text("mode", "avg");
  const std::string coordinates =
      node.text("coordinate_transformation_mode", node.opset < 16 ? "output_half_pixel" : "half_pixel");
  if (mode != "avg" && mode != "max") node.fail("mode is '" + mode + "'");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel") {
    node.fail("coordinate_transformation_mode is '" + coordinates + "'");
  }
  return same_type(node, "roi_align",
                   Parameters()
                       .integers("size", {node.integer("output_height", 1), node.integer("output_width", 1)})
                       .integer("samples", node.integer("sampling_ratio", 0))
                       .integer("half_pixel", coordinates == "half_pixel")
                       .integer("maximum", mode == "max")
                       .number("scale", node.number("spatial_scale", 1)));
}

Values max_roi_pool(const OnnxNode& node) {
  return of_kind(
      node, "roi_max",
      Parameters().integers("size", node.integer_list("pooled_shape")).number("scale", node.number("spatial_scale", 1)),
      {node.value(0).type});
}

Values non_max_suppression(const OnnxNode& node) {
  return of_kind(node, "non_max_suppression", Parameters().integer("centred", node.integer("center_point_box", 0)),
                 {ElementType::i64});
}

// ---- spectra ----------------------------------------------------------------------------------

// Before opset 20 the axis is an attribute.
Values dft(const OnnxNode& node) {
  Parameters parameters =
      Parameters().integer("inverse", node.integer("inverse", 0)).integer("onesided", node.integer("onesided", 0));
  if (node.opset < 20) parameters = std::move(parameters).integer("axis", node.integer("axis", 1));
  return same_type(node, "dft", std::move(parameters));
}

Values stft(const OnnxNode& node) {
  return same_type(node, "stft", Parameters().integer("onesided", node.integer("onesided", 1)));
}

Values mel_weight_matrix(const OnnxNode& node) {
  const std::optional<ElementType> type = element_type(static_cast<int32_t>(node.integer("output_datatype", 1)));
  if (!type || !is_float(*type)) throw Unsupported{"output_datatype"};
  return of_kind(node, "mel_weights", {}, {*type});
}

}  // namespace

const OnnxTable& general_detection() {
  static const OnnxTable table = {
      {"DFT", {dft, 1, 3}},
      {"MaxRoiPool", {max_roi_pool, 2, 2}},
      {"MelWeightMatrix", {mel_weight_matrix, 5, 5}},
      {"NonMaxSuppression", {non_max_suppression, 2, 5}},
      {"RoiAlign", {roi_align, 3, 3}},
      {"STFT", {stft, 2, 4}},
  };
  return table;
}

}  // namespace quern::onnx
