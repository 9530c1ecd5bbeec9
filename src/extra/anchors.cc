// Detectors that move and scale anchors, and the suppression of boxes that comes with them.
#include <cmath>
#include <limits>
#include <queue>

#include "extra/boxes.h"
#include "extra/copy.h"
#include "extra/node.h"

namespace quern::extra {
namespace anchors {
namespace {

constexpr int64_t most_places = int64_t{1} << 24;

// A number of the file that says how many there are.
size_t size_of(const Node& node, const char* parameter) {
  const int64_t value = node.integer(parameter, 1);
  if (value < 0 || value > most_places) node.fail(std::string(parameter) + " is out of range");
  return static_cast<size_t>(value);
}

// ---- detections -------------------------------------------------------------------------------

// Inputs: changes of anchors [N, boxes, 4], scores [N, boxes, classes], of which the last `classes` count, and anchors
// [boxes, 4]: y and x of the centre, height, width. Outputs: `most` * `classes_of_each` places of boxes (top, left, bottom,
// right), their classes and scores, and how many are taken; zeros stand in the others.
//
// With `by_class` boxes of one class suppress each other, and of each class `most_of_class` stay at most. Without, all
// boxes do, by the scores of their best classes, and each of those that stay appears with `classes_of_each` classes.
struct Detector {
  size_t images, boxes, all_classes, classes, most, of_each, most_of_class, places;
  bool by_class;
  float threshold;
  Suppression suppression;
};

Detector detector_of(const Node& node) {
  for (size_t i = 0; i < 3; ++i) node.expect(i, QN_F32);
  const Shape boxes = node.shape(0), scores = node.shape(1);
  if (boxes.size() != 3 || boxes[2] != 4 || scores.size() != 3) node.fail("boxes and scores are not of rank 3");
  if (scores[0] != boxes[0] || scores[1] != boxes[1]) node.fail("boxes and scores do not fit");
  node.expect_shape(2, {boxes[1], 4});
  if (node.floats("scales").size() != 4) node.fail("scales are not four numbers");
  Detector d = {};
  d.images = boxes[0];
  d.boxes = boxes[1];
  d.all_classes = scores[2];
  d.classes = size_of(node, "classes");
  if (d.classes < 1 || d.classes > d.all_classes)
    node.fail("expected scores of " + std::to_string(d.classes) + " classes, got " + std::to_string(d.all_classes));
  d.most = size_of(node, "most");
  const size_t of_each = size_of(node, "classes_of_each");
  if (of_each < 1) node.fail("classes_of_each is out of range");
  d.of_each = std::min(of_each, d.classes);
  d.most_of_class = size_of(node, "most_of_class");
  d.places = node.product(d.most, of_each);
  d.by_class = node.integer("by_class", 0) != 0;
  d.threshold = node.number("threshold", 0);
  d.suppression = {node.number("overlap", 0), 1, SIZE_MAX, d.by_class ? d.most_of_class : d.most};
  return d;
}

void infer_detections(Inference& node) {
  const Detector d = detector_of(node);
  node.set(0, QN_F32, {d.images, d.places, 4});
  node.set(1, QN_F32, {d.images, d.places});
  node.set(2, QN_F32, {d.images, d.places});
  node.set(3, QN_F32, {d.images});
}

std::vector<Box> moved_anchors(const Node& node, const float* changes, size_t count) {
  const std::span<const float> scales = node.floats("scales");
  const float* anchor = node.data<float>(2);
  std::vector<Box> boxes;
  for (size_t i = 0; i < count; ++i, anchor += 4, changes += 4) {
    const float y = changes[0] / scales[0] * anchor[2] + anchor[0], x = changes[1] / scales[1] * anchor[3] + anchor[1];
    const float half_height = 0.5f * std::exp(changes[2] / scales[2]) * anchor[2];
    const float half_width = 0.5f * std::exp(changes[3] / scales[3]) * anchor[3];
    boxes.push_back({x - half_width, y - half_height, x + half_width, y + half_height});
  }
  return boxes;
}

struct Detection {
  size_t box, label;
  float score;
};

std::vector<Detection> detections_by_class(const Detector& d, const Box* boxes, const float* scores) {
  std::vector<Detection> all;
  for (size_t label = 0; label < d.classes; ++label) {
    look(d.boxes);
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < d.boxes; ++i) {
      const float score = scores[i * d.all_classes + label];
      if (score >= d.threshold) candidates.push_back({score, i});
    }
    suppress(boxes, d.suppression, candidates);
    for (const Candidate& c : candidates) all.push_back({c.index, label, c.score});
  }
  std::stable_sort(all.begin(), all.end(), [](const Detection& a, const Detection& b) { return a.score > b.score; });
  all.resize(std::min(all.size(), d.most));
  return all;
}

std::vector<Detection> detections_of_boxes(const Detector& d, const Box* boxes, const float* scores) {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < d.boxes; ++i) {
    const float* const own = scores + i * d.all_classes;
    const float best = *std::max_element(own, own + d.classes);
    if (best >= d.threshold) candidates.push_back({best, i});
  }
  suppress(boxes, d.suppression, candidates);
  std::vector<Detection> all;
  std::vector<size_t> labels(d.classes);
  for (const Candidate& c : candidates) {
    const float* const own = scores + c.index * d.all_classes;
    for (size_t k = 0; k < d.classes; ++k) labels[k] = k;
    std::partial_sort(labels.begin(), labels.begin() + static_cast<ptrdiff_t>(d.of_each), labels.end(),
                      [&](size_t a, size_t b) { return own[a] != own[b] ? own[a] > own[b] : a < b; });
    for (size_t k = 0; k < d.of_each; ++k) all.push_back({c.index, labels[k], own[labels[k]]});
  }
  return all;
}

// Writes the detections of one image to the outputs that somebody reads.
void write_detections(const Run& node, const Detector& d, size_t image, const Box* boxes,
                      const std::vector<Detection>& found) {
  const size_t first = image * d.places;
  for (size_t i = 0; i < found.size(); ++i) {
    const Box& box = boxes[found[i].box];
    const float corners[] = {box.top, box.left, box.bottom, box.right};
    if (node.wants(0)) std::copy_n(corners, 4, node.output<float>(0) + (first + i) * 4);
    if (node.wants(1)) node.output<float>(1)[first + i] = static_cast<float>(found[i].label);
    if (node.wants(2)) node.output<float>(2)[first + i] = found[i].score;
  }
  const size_t each = d.by_class ? 1 : d.of_each;
  if (node.wants(3)) node.output<float>(3)[image] = static_cast<float>(found.size() / each);
}

void run_detections(const Run& node) {
  const Detector d = detector_of(node);
  for (size_t i = 0; i < 3; ++i) {
    if (node.wants(i)) std::fill_n(node.output<float>(i), count(node.output_shape(i)), 0.0f);
  }
  for (size_t image = 0; image < d.images; ++image) {
    const std::vector<Box> boxes = moved_anchors(node, node.data<float>(0) + image * d.boxes * 4, d.boxes);
    const float* const scores = node.data<float>(1) + image * d.boxes * d.all_classes + (d.all_classes - d.classes);
    const auto find = d.by_class ? detections_by_class : detections_of_boxes;
    write_detections(node, d, image, boxes.data(), find(d, boxes.data(), scores));
  }
}

// ---- suppression ------------------------------------------------------------------------------

// Inputs: boxes [boxes, 4] by two corners, y before x; scores [boxes]; how many to keep; from which overlap on a box is
// dropped, or, with parameter `above`, which overlap it must exceed; the score that all must exceed; and sigma: if above 0, overlapping boxes lose part of their score. Outputs:
// the boxes that stay, their scores, how many; the first two have `most` places, with zeros in those that are left.
void infer_suppress(Inference& node) {
  node.expect(0, QN_F32);
  node.expect(1, QN_F32);
  if (node.rank(0) != 2 || node.shape(0)[1] != 4) node.fail("expected boxes of shape [N, 4]");
  node.expect_shape(1, {node.shape(0)[0]});
  for (size_t i = 2; i < node.input_count(); ++i) {
    if (node.has(i) && count(node.shape(i)) != 1) node.fail("input " + std::to_string(i) + " is not one number");
    if (i > 2 && node.has(i)) node.expect(i, QN_F32);
  }
  const size_t most = size_of(node, "most");
  node.set(0, QN_S32, {most});
  node.set(1, QN_F32, {most});
  node.set(2, QN_S32, {});
}

struct Rival {
  float score;
  size_t box, seen;  // seen: by how many of those that stay its score has been changed
  bool operator<(const Rival& other) const { return score != other.score ? score < other.score : box > other.box; }
};

float number_of(const Run& node, size_t input) { return node.has(input) ? *node.data<float>(input) : 0; }

std::vector<Rival> keep(const Run& node, const std::vector<Box>& boxes, size_t most) {
  const float limit = number_of(node, 3), least = number_of(node, 4), sigma = number_of(node, 5);
  const bool above = node.integer("above", 0) != 0;
  std::priority_queue<Rival> queue;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (node.data<float>(1)[i] > least) queue.push({node.data<float>(1)[i], i, 0});
  }
  std::vector<Rival> kept;
  Pace pace;
  while (kept.size() < most && !queue.empty()) {
    Rival next = queue.top();
    queue.pop();
    const float before = next.score;
    bool dropped = false;
    for (size_t j = kept.size(); j-- > next.seen && !dropped;) {
      pace.did(work_of_overlap);
      const float both = overlap(boxes[next.box], boxes[kept[j].box]);
      dropped = above ? both > limit : both >= limit;
      if (!dropped && sigma > 0) next.score *= std::exp(-0.5f / sigma * both * both);
      dropped = dropped || !(next.score > least);  // also one that has become NaN
    }
    next.seen = kept.size();
    if (dropped) continue;
    next.score == before ? kept.push_back(next) : queue.push(next);
  }
  return kept;
}

void run_suppress(const Run& node) {
  const size_t n = node.shape(0)[0], places = size_of(node, "most");
  std::vector<Box> boxes;
  for (const float* x = node.data<float>(0); boxes.size() < n; x += 4) {
    boxes.push_back({std::min(x[1], x[3]), std::min(x[0], x[2]), std::max(x[1], x[3]), std::max(x[0], x[2])});
  }
  const int64_t wanted = std::clamp<int64_t>(number(node, 2, 0), 0, static_cast<int64_t>(places));
  const std::vector<Rival> kept = keep(node, boxes, static_cast<size_t>(wanted));
  if (node.wants(0)) std::fill_n(node.output<int32_t>(0), places, 0);
  if (node.wants(1)) std::fill_n(node.output<float>(1), places, 0.0f);
  for (size_t i = 0; i < kept.size(); ++i) {
    if (node.wants(0)) node.output<int32_t>(0)[i] = static_cast<int32_t>(kept[i].box);
    if (node.wants(1)) node.output<float>(1)[i] = kept[i].score;
  }
  if (node.wants(2)) *node.output<int32_t>(2) = static_cast<int32_t>(kept.size());
}

constexpr qn_kind kinds[] = {
    kind<infer_detections, run_detections>("anchor_detections", {3, 3}, 4),
    kind<infer_suppress, run_suppress>("suppress_boxes", {5, 6}, 3),
};

}  // namespace
}  // namespace anchors

Kinds anchor_kinds() { return needed<anchors::kinds>(); }

}  // namespace quern::extra
