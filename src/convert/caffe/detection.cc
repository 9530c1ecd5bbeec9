// Imports the layers that detectors add to Caffe: Normalize, PriorBox, DetectionOutput.
#include <algorithm>
#include <cmath>

#include "convert/caffe/layer.h"

namespace quern::caffe {
namespace {

// The tensor as our graph holds it, whatever the order of its dimensions: a kind that is told where dimensions are needs
// no transpose.
View as_stored(const View& x) { return {x.tensor, source_order(x.rank())}; }

int64_t place(const View& x, size_t axis) { return static_cast<int64_t>(position(x.order, axis)); }

// ---- Normalize --------------------------------------------------------------------------------

Values normalize(const Layer& layer) {
  const schema::NormalizeParameter& p = layer.param.norm_param();
  const View& x = layer.x();
  const size_t channels = layer.channels();
  const auto rank = static_cast<int64_t>(x.rank());
  const bool all = p.across_spatial(), moves = all && x.order[0] != 0;
  const std::vector<int64_t> axes =
      all ? std::vector<int64_t>{1, rank} : std::vector<int64_t>{place(x, 1), place(x, 1) + 1};
  Parameters parameters = Parameters().integers("axes", axes).number("epsilon", layer.finite(p.eps(), "eps"));
  const Values made =
      layer.custom("l2_normalize", {moves ? x : as_stored(x)}, std::move(parameters), {ElementType::f32});
  View y = made[0].view;
  if (!moves) y.order = x.order;
  layer.expect_blobs(1);
  const std::string name = layer.name + "/scale";
  if (p.channel_shared()) return {layer.builder.power(name, y, layer.finite(layer.blob(0, {1})[0], "scale"), 0, 1)};
  return {layer.builder.scale(name, y, layer.blob(0, {channels}), {}, 1)};
}

// ---- PriorBox ---------------------------------------------------------------------------------

// Widths and heights of the boxes around each pixel.
struct Sizes {
  std::vector<float> widths, heights;
  void add(float width, float height) {
    widths.push_back(width);
    heights.push_back(height);
  }
};

// Ratios other than 1, each once.
std::vector<float> ratios_of(const Layer& layer, const schema::PriorBoxParameter& p) {
  std::vector<float> ratios;
  for (const float ratio : p.aspect_ratio()) {
    if (!std::isfinite(ratio) || ratio <= 0) layer.fail("aspect_ratio is not positive");
    const auto same = [&](float other) { return std::fabs(ratio - other) < 1e-6f; };
    if (same(1) || std::any_of(ratios.begin(), ratios.end(), same)) continue;
    ratios.push_back(ratio);
    if (p.flip()) ratios.push_back(1 / ratio);
  }
  return ratios;
}

Sizes sizes_of(const Layer& layer, const schema::PriorBoxParameter& p) {
  const std::vector<float> ratios = ratios_of(layer, p);
  if (p.min_size_size() == 0) layer.fail("min_size is missing");
  if (p.max_size_size() != 0 && p.max_size_size() != p.min_size_size()) layer.fail("max_size does not fit min_size");
  Sizes sizes;
  for (int i = 0; i < p.min_size_size(); ++i) {
    const float given = layer.finite(p.min_size(i), "min_size");
    const float min = std::trunc(given);  // Caffe drops parts of pixels
    if (given <= 0) layer.fail("min_size is not positive");
    sizes.add(min, min);
    if (p.max_size_size() > 0) {
      if (layer.finite(p.max_size(i), "max_size") <= given) layer.fail("max_size is not above min_size");
      const float max = std::trunc(p.max_size(i));
      sizes.add(std::sqrt(min * max), std::sqrt(min * max));
    }
    for (const float ratio : ratios) sizes.add(min * std::sqrt(ratio), min / std::sqrt(ratio));
  }
  return sizes;
}

// Reads a number that files give once for height and width, or for each; `{}` if they do not.
std::vector<float> height_width(const Layer& layer, const char* field, bool has_both, float both, bool has_one,
                                float height, float width) {
  if (has_both && has_one) layer.fail(std::string(field) + " is given in two forms");
  if (!has_both && !has_one) return {};
  std::vector<float> pair = has_both ? std::vector<float>{both, both} : std::vector<float>{height, width};
  for (const float value : pair) {
    if (!std::isfinite(value) || value <= 0) layer.fail(std::string(field) + " is not positive");
  }
  return pair;
}

Values prior_box(const Layer& layer) {
  const schema::PriorBoxParameter& p = layer.param.prior_box_param();
  const View &features = layer.view(0), &image = layer.view(1);
  if (features.rank() != 4 || image.rank() != 4) layer.fail("features and image do not have four dimensions");
  std::vector<float> variances(p.variance().begin(), p.variance().end());
  if (variances.size() < 2) variances.assign(4, variances.empty() ? 0.1f : variances[0]);
  if (variances.size() != 4) layer.fail("variance has neither one number nor four");
  for (const float variance : variances) {
    if (!std::isfinite(variance) || variance <= 0) layer.fail("variance is not positive");
  }
  const Sizes sizes = sizes_of(layer, p);
  const std::vector<float> size =
      height_width(layer, "img_size", p.has_img_size(), static_cast<float>(p.img_size()),
                   p.has_img_h() || p.has_img_w(), static_cast<float>(p.img_h()), static_cast<float>(p.img_w()));
  const std::vector<float> step =
      height_width(layer, "step", p.has_step(), p.step(), p.has_step_h() || p.has_step_w(), p.step_h(), p.step_w());
  Parameters parameters =
      Parameters()
          .integers("axes", {place(features, 2), place(features, 3), place(image, 2), place(image, 3)})
          .floats("widths", sizes.widths)
          .floats("heights", sizes.heights)
          .floats("variances", variances)
          .floats("image", size)
          .floats("step", step)
          .number("offset", layer.finite(p.offset(), "offset"))
          .integer("clip", p.clip());
  return layer.custom("prior_box", {as_stored(features), as_stored(image)}, std::move(parameters), {ElementType::f32});
}

// ---- DetectionOutput --------------------------------------------------------------------------

// With keep_top_k the output has this many rows for each image, as OpenCV gives it: rows of zeros follow the last
// detection. Without, Caffe's output has as many rows as there are detections.
Values detection_output(const Layer& layer) {
  const schema::DetectionOutputParameter& p = layer.param.detection_output_param();
  const schema::NonMaximumSuppressionParameter& nms = p.nms_param();
  if (p.num_classes() == 0) layer.fail("num_classes is missing or zero");
  const float overlap = layer.finite(nms.nms_threshold(), "nms_threshold"), eta = layer.finite(nms.eta(), "eta");
  if (overlap < 0) layer.fail("nms_threshold is negative");
  if (eta <= 0 || eta > 1) layer.fail("eta is not within 0 and 1");
  Parameters parameters = Parameters()
                              .integer("classes", p.num_classes())
                              .integer("own_boxes", !p.share_location())
                              .integer("background", p.background_label_id())
                              .integer("code", p.code_type())
                              .integer("plain", p.variance_encoded_in_target())
                              .integer("keep", p.keep_top_k())
                              .integer("candidates", nms.has_top_k() ? nms.top_k() : -1)
                              .number("overlap", overlap)
                              .number("eta", eta);
  if (p.has_confidence_threshold()) {
    parameters =
        std::move(parameters).number("threshold", layer.finite(p.confidence_threshold(), "confidence_threshold"));
  }
  const char* kind = p.keep_top_k() < 0 ? "ssd_detections_found" : "ssd_detections";
  return layer.custom(kind, {layer.view(0), layer.view(1), layer.view(2)}, std::move(parameters), {ElementType::f32});
}

// ---- regions of interest ----------------------------------------------------------------------

Values regions(const Layer& layer, const char* kind, int64_t height, int64_t width, float scale) {
  if (height < 1 || width < 1) layer.fail("the size of regions is missing or zero");
  View regions = layer.view(1);
  if (regions.rank() != 2) regions = layer.builder.reshape(layer.name + "/regions", regions, {0, -1});  // [R, 5, 1, 1]
  Parameters parameters =
      Parameters().integers("size", {height, width}).number("scale", layer.finite(scale, "spatial_scale"));
  return layer.custom(kind, {layer.view(0), regions}, std::move(parameters), {ElementType::f32});
}

Values roi_pooling(const Layer& layer) {
  const schema::ROIPoolingParameter& p = layer.param.roi_pooling_param();
  return regions(layer, "roi_max", p.pooled_h(), p.pooled_w(), p.spatial_scale());
}

Values psroi_pooling(const Layer& layer) {
  const schema::PSROIPoolingParameter& p = layer.param.psroi_pooling_param();
  if (!p.has_spatial_scale()) layer.fail("spatial_scale is missing");
  const int64_t group = p.group_size();
  if (group > 1024) layer.fail("group_size is out of range");
  if (group > 0 && static_cast<int64_t>(layer.channels()) != p.output_dim() * group * group) {
    layer.fail("output_dim and group_size do not fit the channels");
  }
  return regions(layer, "roi_average_by_place", group, group, p.spatial_scale());
}

}  // namespace

const LayerRow* find_detection(const std::string& type) {
  static const LayerTable rows = {
      {"DetectionOutput", {detection_output, 3, 4}},  // the fourth is the image, for drawing boxes into it
      {"Normalize", {normalize, 1, 1}},
      {"PSROIPooling", {psroi_pooling, 2, 2}},
      {"PriorBox", {prior_box, 2, 2}},
      {"ROIPooling", {roi_pooling, 2, 2}},
  };
  return find_in(rows, type);
}

}  // namespace quern::caffe
