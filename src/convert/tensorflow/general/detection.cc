// Detectors: the best boxes of all classes.
#include <algorithm>
#include <limits>

#include "convert/common/images.h"
#include "convert/tensorflow/general/general.h"

namespace quern::tensorflow {
namespace {

constexpr size_t max_images = 64;  // each has nodes of its own

// What CombinedNonMaxSuppression is given.
struct Candidates {
  size_t images, classes;
  bool own_boxes;  // of each class
  int64_t each;    // most boxes of a class
  int64_t kept;    // boxes of the output
  bool clips;      // boxes to 0 .. 1
};

int64_t limit(const TfNode& node, size_t input) {
  const int64_t most = node.only_integer(input);
  if (most < 1 || most > 1 << 20) node.fail("input " + std::to_string(input) + " is out of range");
  return most;
}

Candidates candidates_of(const TfNode& node) {
  const Shape boxes = shape_at_import(node, node.value(0)), scores = shape_at_import(node, node.value(1));
  if (boxes.size() != 4 || scores.size() != 3 || boxes[0] != scores[0] || boxes[1] != scores[1] || boxes[3] != 4 ||
      (boxes[2] != 1 && boxes[2] != scores[2])) {
    node.fail("boxes and scores do not fit");
  }
  if (boxes[0] < 1 || boxes[0] > max_images) throw Unsupported{"of " + std::to_string(boxes[0]) + " images"};
  for (const size_t d : {0, 2}) {
    fix_dimension(node, node.value(0), d);
    fix_dimension(node, node.value(1), d);
  }
  Candidates c = {boxes[0], scores[2], boxes[2] != 1, limit(node, 2), limit(node, 3), node.flag("clip_boxes", true)};
  if (node.flag("pad_per_class", false)) c.kept = std::min(c.kept, c.each * static_cast<int64_t>(c.classes));
  return c;
}

// The best rows of a list whose length the run knows, and zeros where there are no more.
Value best_rows(const TfNode& node, const Value& rows, const std::vector<int64_t>& shape, const Value& places) {
  const Value zeros = filled(node, integer_list(shape), number_of(node, 0, ElementType::f32));
  return gathered(node, joined(node, {rows, zeros}, 0), places, 0, 0);
}

// Detections of an image: boxes, scores, classes, and how many they are. The kind that suppresses boxes takes one set of
// them for all classes of an image. Where classes have boxes of their own, each class is an image to it.
Values detections(const TfNode& node, const Candidates& c, const Value& boxes, const Value& scores) {
  const Values inputs = {boxes, scores, integer_number(c.each), node.value(4), node.value(5)};
  const Value rows = make(node, "non_max_suppression", inputs, {}, ElementType::i64);  // image, class, box
  const Value score = make(node, "gather_nd", {scores, rows});
  const Value tuples = gathered(node, rows, integer_list({0, 2}), 1, 0);
  Value box = make(node, "gather_nd", {boxes, tuples});
  if (c.clips) box = make(node, "clip", {box, number_of(node, 0, box.type), number_of(node, 1, box.type)});
  const Value label = cast_to(node, gathered(node, rows, integer_number(c.own_boxes ? 0 : 1), 1, 0), ElementType::f32);

  const Value least = number_of(node, -std::numeric_limits<float>::infinity(), ElementType::f32);
  const Value padded = joined(node, {score, filled(node, integer_list({c.kept}), least)}, 0);
  const Value places = make_all(node, "top_k", {padded, integer_list({c.kept})}, Parameters().integer("axis", 0),
                                {ElementType::f32, ElementType::i64})[1];
  const Value found = sliced(node, shape_of(node, rows), {0}, {1}, {0});
  const Value count = cast_to(node, make(node, "min", {found, integer_list({c.kept})}), ElementType::s32);
  return {best_rows(node, box, {c.kept, 4}, places), best_rows(node, score, {c.kept}, places),
          best_rows(node, label, {c.kept}, places), reshaped(node, count, {})};
}

// Inputs: boxes (images, boxes, 1 or classes, 4), scores (images, boxes, classes), most boxes of a class and of an image,
// how much boxes may overlap, the score that all must exceed.
Values combined_non_max_suppression(const TfNode& node) {
  const Candidates c = candidates_of(node);
  std::vector<Values> parts(4);
  for (int64_t i = 0; i < static_cast<int64_t>(c.images); ++i) {
    const Value boxes = sliced(node, node.value(0), {i}, {i + 1}, {0});
    const Value sets = make(node, "squeeze", {permuted(node, boxes, {2, 1, 0, 3}), integer_list({2})});
    const Value scores = sliced(node, node.value(1), {i}, {i + 1}, {0});
    const std::vector<int64_t> order = c.own_boxes ? std::vector<int64_t>{2, 0, 1} : std::vector<int64_t>{0, 2, 1};
    const Values found = detections(node, c, sets, permuted(node, scores, order));
    for (size_t k = 0; k < parts.size(); ++k) parts[k].push_back(with_axis(node, found[k], 0));
  }
  Values outputs;
  for (const Values& part : parts) outputs.push_back(joined(node, part, 0));
  return outputs;
}

}  // namespace

const TfTable& general_detection() {
  static const TfTable table = {
      {"CombinedNonMaxSuppression", {combined_non_max_suppression, 6, 6}},
  };
  return table;
}

}  // namespace quern::tensorflow
