// Kinds of detectors: prior boxes, detections, regions of interest. Expected numbers are worked out by hand.
#include <cmath>

#include "run_node.h"

namespace quern::test {
namespace detection_test {

using Shape = std::vector<size_t>;

Elements real(Shape shape, std::vector<double> values) { return {QN_F32, std::move(shape), std::move(values)}; }
Elements zeros(Shape shape) {
  size_t n = 1;
  for (const size_t d : shape) n *= d;
  return real(std::move(shape), std::vector<double>(n));
}
Parameter numbers(const char* name, Vector<float> values) { return {name, {}, std::move(values)}; }

void expect_nodes(const std::vector<NodeCase>& cases) {
  for (const NodeCase& node : cases) expect_node(node);
}

// ---- detectors of prior boxes

TEST(ExtraDetection, L2Normalize) {
  const Elements x = real({1, 2, 2}, {3, 0, 4, 2});
  expect_nodes({
      {"l2_normalize", {x}, {real({1, 2, 2}, {0.6f, 0, 0.8f, 1})}, {integers("axes", {1, 2})}},
      {"l2_normalize",
       {real({1, 2}, {3, 4})},
       {real({1, 2}, {0.3f, 0.4f})},
       {integers("axes", {0, 2}), numbers("epsilon", {75})}},
  });
  expect_refused({"l2_normalize", {x}, {x}, {integers("axes", {1, 4})}}, "not a range");
  expect_refused({"l2_normalize", {x}, {x}, {integers("axes", {2, 2})}}, "not a range");
}

TEST(ExtraDetection, PriorBoxes) {
  // Features of 1 x 2 pixels with the channels last, of an image of 8 x 16.
  const std::vector<Elements> inputs = {zeros({1, 1, 2, 3}), zeros({1, 3, 8, 16})};
  const std::vector<Parameter> boxes = {integers("axes", {1, 2, 2, 3}), numbers("widths", {8}), numbers("heights", {4}),
                                        numbers("variances", {0.5, 0.5, 0.25, 0.25})};
  const auto with = [&](const Parameter& more) {
    std::vector<Parameter> all = boxes;
    all.push_back(more);
    return all;
  };
  const auto expected = [](std::vector<double> places) {
    for (int i = 0; i < 2; ++i) places.insert(places.end(), {0.5, 0.5, 0.25, 0.25});
    return std::vector<Elements>{real({1, 2, 8}, std::move(places))};
  };
  expect_nodes({
      {"prior_box", inputs, expected({0, 0.25, 0.5, 0.75, 0.5, 0.25, 1, 0.75}), boxes},
      {
          "prior_box",
          inputs,
          expected({-0.125, -0.125, 0.375, 0.375, 0.125, -0.125, 0.625, 0.375}),
          with(numbers("step", {2, 4})),
      },
      {"prior_box", inputs, expected({0.125, 0.375, 0.375, 0.625, 0.625, 0.375, 0.875, 0.625}),
       with(numbers("image", {16, 32}))},
  });
  expect_refused({"prior_box", inputs, {zeros({})}, {integers("axes", {1, 2, 2, 3})}}, "widths and heights");
  std::vector<Parameter> wrong = boxes;
  wrong[0] = integers("axes", {1, 2, 2, 4});
  expect_refused({"prior_box", inputs, {zeros({})}, wrong}, "axis 4");
}

// Three priors of an image; the second overlaps the first by 2 / 3. There are two classes behind the background.
struct Detections {
  Elements offsets = zeros({1, 12});
  Elements scores = real({1, 9}, {0.125, 0.75, 0.125, 0.25, 0.5, 0.25, 0.25, 0.25, 0.5});
  Elements priors = real({1, 2, 12}, {0, 0, 4, 4, 0, 0, 4, 6, 8, 8, 12, 12, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  std::vector<Parameter> parameters = {integers("classes", {3}),     integers("background", {0}),
                                       numbers("threshold", {0.3f}), numbers("overlap", {0.5f}),
                                       integers("code", {2}),        integers("keep", {3})};

  NodeCase expecting(std::vector<double> rows, const char* kind = "ssd_detections") const {
    const size_t count = rows.size() / 7;
    return {kind, {offsets, scores, priors}, {real({1, 1, count, 7}, std::move(rows))}, parameters};
  }
  void set(const Parameter& parameter) {
    std::erase_if(parameters, [&](const Parameter& other) { return other.name == parameter.name; });
    parameters.push_back(parameter);
  }
};

TEST(ExtraDetection, Detections) {
  Detections d;
  const std::vector<double> first = {0, 1, 0.75, 0, 0, 4, 4}, second = {0, 1, 0.5, 0, 0, 4, 6},
                            third = {0, 2, 0.5, 8, 8, 12, 12}, zero(7);
  const auto rows = [](const std::vector<std::vector<double>>& list) {
    std::vector<double> all;
    for (const auto& row : list) all.insert(all.end(), row.begin(), row.end());
    return all;
  };
  expect_node(d.expecting(rows({first, third, zero})));
  expect_node(d.expecting(rows({first, third}), "ssd_detections_found"));
  d.set(numbers("overlap", {0.75}));
  expect_node(d.expecting(rows({first, second, third})));
  d.set(integers("candidates", {1}));
  expect_node(d.expecting(rows({first, third, zero})));
  d.set(integers("keep", {1}));
  expect_node(d.expecting(rows({first})));
  d.set(numbers("threshold", {0.75}));  // no score is above it
  expect_node(d.expecting(rows({zero})));
  expect_node(d.expecting({0, -1, -1, -1, -1, -1, -1}, "ssd_detections_found"));
  d.scores.values.assign(9, std::nan(""));
  expect_node(d.expecting(rows({zero})));
}

TEST(ExtraDetection, CodesOfBoxes) {
  Detections d;
  d.set(integers("keep", {1}));
  d.offsets.values[0] = 0.5;
  d.offsets.values[3] = std::log(2.0);
  const float grown = 2 * std::exp(static_cast<float>(std::log(2.0)));
  expect_node(d.expecting({0, 1, 0.75, 2, 2.0 - static_cast<double>(grown), 6, 2.0 + static_cast<double>(grown)}));
  d.offsets.values[3] = 0.25;
  d.set(integers("code", {1}));
  expect_node(d.expecting({0, 1, 0.75, 0.5, 0, 4, 4.25}));
  d.set(integers("code", {3}));
  expect_node(d.expecting({0, 1, 0.75, 2, 0, 4, 5}));
  for (size_t i = 12; i < 24; ++i) d.priors.values[i] = 0.5;
  expect_node(d.expecting({0, 1, 0.75, 1, 0, 4, 4.5}));
  d.set(integers("plain", {1}));
  expect_node(d.expecting({0, 1, 0.75, 2, 0, 4, 5}));
  d.offsets = zeros({1, 36});  // of each class
  d.offsets.values[4] = 1;     // of the first prior, for class 1
  d.set(integers("own_boxes", {1}));
  expect_node(d.expecting({0, 1, 0.75, 4, 0, 4, 4}));
}

TEST(ExtraDetection, DetectionsRefused) {
  Detections d;
  d.offsets = zeros({1, 8});
  expect_refused(d.expecting({}), "do not fit 3 priors");
  d = {};
  d.priors = zeros({1, 2, 13});
  expect_refused(d.expecting({}), "not boxes and variances");
  d = {};
  d.set(integers("classes", {0}));
  expect_refused(d.expecting({}), "number of classes");
  d = {};
  d.set(integers("keep", {-1}));
  expect_refused(d.expecting({}), "how many detections");
}

TEST(ExtraDetection, NonMaxSuppression) {
  const Elements boxes = real({1, 3, 4}, {0, 0, 1, 1, 0, 0.25, 1, 1, 3, 3, 2, 2});
  const Elements centred = real({1, 3, 4}, {0.5, 0.5, 1, 1, 0.625, 0.5, 0.75, 1, 2.5, 2.5, 1, 1});
  const Elements scores = real({1, 2, 3}, {0.5, 0.75, 0.25, std::nan(""), 0.5, 0.5});
  const auto kept = [](std::vector<double> values) {
    const size_t rows = values.size() / 3;
    return std::vector<Elements>{{QN_S64, {rows, 3}, std::move(values)}};
  };
  const Elements half = scalar(0.5, QN_F32);
  expect_nodes({
      {"non_max_suppression", {boxes, scores, scalar(9), half}, kept({0, 0, 1, 0, 0, 2, 0, 1, 1, 0, 1, 2})},
      {"non_max_suppression",
       {centred, scores, scalar(9), half},
       kept({0, 0, 1, 0, 0, 2, 0, 1, 1, 0, 1, 2}),
       {integers("centred", {1})}},
      {"non_max_suppression", {boxes, scores, scalar(1), half}, kept({0, 0, 1, 0, 1, 1})},
      {"non_max_suppression", {boxes, scores, scalar(9), half, half}, kept({0, 0, 1})},
      {"non_max_suppression", {boxes, scores}, kept({})},
      {"non_max_suppression", {zeros({1, 0, 4}), zeros({1, 2, 0}), scalar(9)}, kept({})},
  });
  expect_refused({"non_max_suppression", {boxes, zeros({1, 2, 2})}, kept({})}, "do not fit");
  expect_refused({"non_max_suppression", {{QN_U8, {1, 1, 4}, {0, 0, 1, 1}}, zeros({1, 2, 1})}, kept({})}, "not f32");
  expect_refused({"non_max_suppression", {boxes, scores, list({1, 2})}, kept({})}, "not one number");
}

// ---- anchors

TEST(ExtraAnchors, NoClassesOfEachBox) {
  const std::vector<Elements> inputs = {zeros({1, 1, 4}), zeros({1, 1, 2}), zeros({1, 4})};
  const Elements none = zeros({1, 0});
  for (const int64_t by_class : {0, 1}) {
    expect_refused(
        {"anchor_detections",
         inputs,
         {zeros({1, 0, 4}), none, none, zeros({1})},
         {integers("classes", {2}), integers("most", {8}), integers("classes_of_each", {0}),
          integers("most_of_class", {8}), integers("by_class", {by_class}), numbers("scales", {10, 10, 5, 5})}},
        "classes_of_each");
  }
}

// A score that is no number after it has been made smaller is dropped.
TEST(ExtraAnchors, ScoresThatBecomeNoNumbers) {
  const double nan = std::nan("");
  struct Case {
    std::vector<double> boxes;
    double sigma;
  };
  const Case cases[] = {{{0, 0, 1, 1, nan, nan, nan, nan}, 0.5}, {{0, 0, 1, 1, 2, 2, 3, 3}, 1e-45}};
  for (const Case& c : cases) {
    expect_node({"suppress_boxes",
                 {real({2, 4}, c.boxes), real({2}, {0.75, 0.5}), scalar(2, QN_S32), scalar(0.5, QN_F32),
                  scalar(0, QN_F32), scalar(c.sigma, QN_F32)},
                 {{QN_S32, {2}, {0, 0}}, real({2}, {0.75, 0}), scalar(1, QN_S32)},
                 {integers("most", {2}), integers("above", {1})}});
  }
}

// ---- regions of interest

TEST(ExtraRegions, Aligned) {
  const Elements x = real({1, 1, 2, 2}, {1, 2, 3, 4}), whole = real({1, 4}, {0, 0, 2, 2}), first = list({0});
  const Parameter one = integers("size", {1, 1}), half_pixel = integers("half_pixel", {1});
  expect_nodes({
      {"roi_align", {x, whole, first}, {real({1, 1, 1, 1}, {2.5})}, {one, half_pixel, integers("samples", {2})}},
      {"roi_align",
       {x, whole, first},
       {real({1, 1, 1, 1}, {4})},
       {one, half_pixel, integers("samples", {2}), integers("maximum", {1})}},
      {"roi_align", {x, whole, first}, {real({1, 1, 2, 2}, {1, 2, 3, 4})}, {integers("size", {2, 2}), half_pixel}},
      {"roi_align", {x, whole, first}, {real({1, 1, 1, 1}, {4})}, {one, integers("samples", {1})}},
      {"roi_align", {x, real({1, 4}, {9, 9, 11, 11}), first}, {zeros({1, 1, 1, 1})}, {one, half_pixel}},
      {"roi_align", {x, zeros({0, 4}), list({})}, {zeros({0, 1, 1, 1})}, {one}},
  });
  expect_refused({"roi_align", {x, whole, list({1})}, {x}, {one}}, "in no image");
  expect_refused({"roi_align", {x, whole, list({-1})}, {x}, {one}}, "in no image");
  expect_refused({"roi_align", {x, real({1, 4}, {0, 0, 1e9, 1}), first}, {x}, {one}}, "too large");
  expect_refused({"roi_align", {x, real({1, 4}, {0, 0, std::nan(""), 1}), first}, {x}, {one, half_pixel}}, "too large");
  expect_refused({"roi_align", {x, whole, first}, {x}, {integers("size", {0, 1})}}, "size of the output");
}

TEST(ExtraRegions, Resized) {
  const Elements x = real({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}), first = list({0}, QN_S32);
  const Elements whole = real({1, 4}, {0, 0, 1, 1}), beyond = real({1, 4}, {0, 0.5, 1, 1.5});
  const Parameter one = integers("size", {1, 1}), wide = integers("size", {2, 3}), nearest = integers("nearest", {1});
  const Elements nan = real({1, 4}, {0, std::nan(""), 1, 1});
  expect_nodes({
      {"crop_and_resize", {x, whole, first}, {real({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6})}, {wide}},
      {"crop_and_resize", {x, whole, first}, {real({1, 1, 1, 1}, {3.5})}, {one}},
      {"crop_and_resize", {x, whole, first}, {real({1, 1, 1, 1}, {5})}, {one, nearest}},  // halves away from 0
      {"crop_and_resize",
       {x, beyond, first},
       {real({1, 1, 2, 3}, {2, 3, -1, 5, 6, -1})},
       {wide, numbers("extrapolation", {-1})}},
      {"crop_and_resize", {x, real({1, 4}, {1, 1, 0, 0}), first}, {real({1, 1, 2, 3}, {6, 5, 4, 3, 2, 1})}, {wide}},
      {"crop_and_resize", {x, nan, first}, {zeros({1, 1, 2, 3})}, {wide}},
      {"crop_and_resize", {x, zeros({0, 4}), list({}, QN_S32)}, {zeros({0, 1, 1, 1})}, {one}},
  });
  expect_refused({"crop_and_resize", {x, whole, list({1})}, {x}, {one}}, "in no image");
  expect_refused({"crop_and_resize", {x, whole, list({0, 0})}, {x}, {one}}, "do not fit the regions");
  expect_refused({"crop_and_resize", {x, whole, first}, {x}}, "size of the output");
}

TEST(ExtraRegions, Pooled) {
  Elements x = zeros({1, 4, 2, 4});
  for (size_t i = 0; i < 32; ++i) x.values[i] = static_cast<double>(i);
  const Elements whole = real({1, 5}, {0, 0, 0, 6, 2}), beside = real({1, 5}, {0, 20, 20, 22, 22});
  const Parameter half = numbers("scale", {0.5});
  const auto pooled = [&](const char* kind, const Elements& region, Shape shape, std::vector<double> values,
                          const Parameter& size) {
    return NodeCase{kind, {x, region}, {real(std::move(shape), std::move(values))}, {size, half}};
  };
  expect_nodes({
      pooled("roi_max", whole, {1, 4, 1, 2}, {5, 7, 13, 15, 21, 23, 29, 31}, integers("size", {1, 2})),
      pooled("roi_max", beside, {1, 4, 1, 1}, {0, 0, 0, 0}, integers("size", {1, 1})),
      // the right half belongs to the second channel of each pair
      pooled("roi_average_by_place", real({1, 5}, {0, 0, 0, 7, 3}), {1, 2, 1, 2}, {2.5, 12.5, 18.5, 28.5},
             integers("size", {1, 2})),
      pooled("roi_average_by_place", beside, {1, 4, 1, 1}, {0, 0, 0, 0}, integers("size", {1, 1})),
  });
  expect_refused(pooled("roi_max", real({1, 5}, {1, 0, 0, 1, 1}), {}, {0}, integers("size", {1, 1})), "in no image");
  expect_refused(pooled("roi_max", real({1, 5}, {0, 0, 0, 1e20, 1}), {}, {0}, integers("size", {1, 1})),
                 "out of range");
  expect_refused(pooled("roi_average_by_place", whole, {}, {0}, integers("size", {1, 3})), "do not divide");
}

}  // namespace detection_test
}  // namespace quern::test
