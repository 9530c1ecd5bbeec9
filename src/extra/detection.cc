// Detectors: prior boxes, what a network says about them, and which boxes overlap.
#include <cmath>
#include <limits>

#include "extra/boxes.h"
#include "extra/node.h"

namespace quern::extra {
namespace detections {
namespace {

// ---- normalization along some dimensions --------------------------------------------------------

// Divides x by its Euclidean norm over dimensions `axes`[0] up to `axes`[1], without the latter. `epsilon` is added to
// the sum of squares.
struct Span {
  size_t first, last;
};

Span normalized_span(const Node& node) {
  const auto axes = node.integers("axes");
  const auto rank = static_cast<int64_t>(node.rank(0));
  if (axes.size() != 2 || axes[0] < 0 || axes[0] >= axes[1] || axes[1] > rank) node.fail("axes are not a range");
  return {static_cast<size_t>(axes[0]), static_cast<size_t>(axes[1])};
}

void infer_l2_normalize(Inference& node) {
  node.expect(0, QN_F32);
  normalized_span(node);
  node.set(0, QN_F32, node.shape(0));
}

void run_l2_normalize(const Run& node) {
  const Span span = normalized_span(node);
  const Shape shape = node.shape(0);
  const size_t outer = count(shape.part(0, span.first)), n = count(shape.part(span.first, span.last)),
               inner = count(shape.part(span.last, shape.size()));
  const float epsilon = node.number("epsilon", 0);
  const float* x = node.data<float>(0);
  float* y = node.output<float>(0);
  std::vector<float> factors(inner);
  Pace pace;
  for (size_t o = 0; o < outer; ++o, x += n * inner, y += n * inner) {
    std::fill(factors.begin(), factors.end(), epsilon);
    for (size_t i = 0; i < n; ++i) {
      pace.did(2 * inner);
      for (size_t j = 0; j < inner; ++j) factors[j] += x[i * inner + j] * x[i * inner + j];
    }
    for (float& factor : factors) factor = 1 / std::sqrt(factor);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < inner; ++j) y[i * inner + j] = x[i * inner + j] * factors[j];
    }
  }
}

// ---- prior boxes --------------------------------------------------------------------------------

// Boxes around the centre of each pixel of a map of features, as parts of the image (both are inputs, only their shapes
// count), and the variances of their coordinates: [1, 2, height * width * boxes * 4]. Parameters: `axes`: height and width
// of the features, then those of the image, among the dimensions; `widths` and `heights` of boxes in pixels of the image;
// `step` (h, w) from centre to centre, without it as many as there are; `image` (h, w): its size instead of the input's.
struct Priors {
  size_t height, width, boxes;
  float image_height, image_width;
};

Priors priors_of(const Node& node) {
  const auto axes = node.integers("axes");
  if (axes.size() != 4) node.fail("axes are not four");
  const auto size = [&](size_t input, size_t i) { return node.shape(input)[node.axis(axes[i], node.rank(input))]; };
  const size_t boxes = node.floats("widths").size();
  if (boxes == 0 || node.floats("heights").size() != boxes) node.fail("widths and heights of boxes do not fit");
  const auto image = node.floats("image");
  if (!image.empty() && image.size() != 2) node.fail("the size of the image is not two numbers");
  if (!node.floats("step").empty() && node.floats("step").size() != 2) node.fail("step is not two numbers");
  if (node.floats("variances").size() != 4) node.fail("variances are not four numbers");
  return {size(0, 0), size(0, 1), boxes, image.empty() ? static_cast<float>(size(1, 2)) : image[0],
          image.empty() ? static_cast<float>(size(1, 3)) : image[1]};
}

void infer_prior_box(Inference& node) {
  const Priors p = priors_of(node);
  node.set(0, QN_F32, {1, 2, node.product(node.product(p.height, p.width), node.product(p.boxes, 4))});
}

void run_prior_box(const Run& node) {
  const Priors p = priors_of(node);
  const auto widths = node.floats("widths"), heights = node.floats("heights"), step = node.floats("step");
  const auto variances = node.floats("variances");
  const float offset = node.number("offset", 0.5f);
  const bool clip = node.integer("clip", 0) != 0;
  const float step_y = step.empty() ? p.image_height / static_cast<float>(p.height) : step[0];
  const float step_x = step.empty() ? p.image_width / static_cast<float>(p.width) : step[1];
  float* y = node.output<float>(0);
  float* const end = y + p.height * p.width * p.boxes * 4;
  const auto put = [&](float value) { *y++ = clip ? std::clamp(value, 0.0f, 1.0f) : value; };
  for (size_t h = 0; h < p.height; ++h) {
    for (size_t w = 0; w < p.width; ++w) {
      const float centre_x = (static_cast<float>(w) + offset) * step_x;
      const float centre_y = (static_cast<float>(h) + offset) * step_y;
      for (size_t i = 0; i < p.boxes; ++i) {
        put((centre_x - widths[i] / 2) / p.image_width);
        put((centre_y - heights[i] / 2) / p.image_height);
        put((centre_x + widths[i] / 2) / p.image_width);
        put((centre_y + heights[i] / 2) / p.image_height);
      }
    }
  }
  for (const float* const last = end + (end - node.output<float>(0)); y < last; y += 4) {
    std::copy(variances.begin(), variances.end(), y);
  }
}

// ---- detections of prior boxes ------------------------------------------------------------------

// Inputs: offsets of boxes [N, priors * sets * 4], where all classes share one set of boxes or each has its own; scores
// [N, priors * classes]; priors as prior_box makes them. The output [1, 1, rows, 7] has a row for each detection: image,
// class, score, left, top, right, bottom; within an image in the order of scores.
//
// Parameters: `classes`; `background`, a class that is none; `own_boxes` of classes; `code`, how offsets change a prior;
// `plain`: the variances are part of the offsets already; `threshold` of scores; `overlap`, `eta` and `candidates` of each
// class for the suppression of boxes; `keep`: most detections of an image.
//
// ssd_detections has keep rows for each image in all, and rows of zeros behind the last detection. ssd_detections_found
// has as many rows as there are detections; without any, one for each image, of -1 behind the number of the image.
enum Code : int64_t { corner = 1, center_size = 2, corner_size = 3 };
constexpr size_t row_size = 7;

struct Detector {
  size_t images, priors, classes, sets;
  const float *offsets, *scores, *boxes;
  const float* variances;  // null: none
  Code code;
  int64_t background;
  float threshold;
  Suppression suppression;
  size_t keep;
};

size_t limit(const Node& node, const char* parameter) {
  const int64_t value = node.integer(parameter, -1);
  return value < 0 ? SIZE_MAX : static_cast<size_t>(std::min<uint64_t>(static_cast<uint64_t>(value), SIZE_MAX));
}

Detector detector_of(const Node& node) {
  for (size_t i = 0; i < 3; ++i) {
    node.expect(i, QN_F32);
    if (node.rank(i) < (i == 2 ? 3 : 1)) node.fail("input " + std::to_string(i) + " has too few dimensions");
  }
  Detector d = {};
  const int64_t classes = node.integer("classes", 0), code = node.integer("code", corner);
  if (classes < 1 || classes > std::numeric_limits<int32_t>::max()) node.fail("number of classes out of range");
  if (code < corner || code > corner_size) node.fail("code of boxes is unknown");
  d.code = static_cast<Code>(code);
  d.classes = static_cast<size_t>(classes);
  d.sets = node.integer("own_boxes", 0) != 0 ? d.classes : 1;
  d.images = node.shape(0)[0];
  d.priors = count(node.shape(2).part(2, node.rank(2))) / 4;
  if (d.priors == 0) node.fail("expected 1 prior or more, got 0");
  const bool plain = node.integer("plain", 0) != 0;
  if (count(node.shape(2)) != node.product(d.priors * 4, node.shape(2)[1]) || node.shape(2)[1] < (plain ? 1u : 2u)) {
    node.fail("the priors are not boxes and variances");
  }
  const size_t each = node.product(d.priors, d.images);
  if (node.shape(1)[0] != d.images || count(node.shape(1)) != node.product(each, d.classes) ||
      count(node.shape(0)) != node.product(each, node.product(d.sets, 4))) {
    node.fail("boxes and scores do not fit " + std::to_string(d.priors) + " priors");
  }
  d.offsets = node.data<float>(0);
  d.scores = node.data<float>(1);
  d.boxes = node.data<float>(2);
  if (!plain && d.boxes != nullptr) d.variances = d.boxes + d.priors * 4;
  d.background = node.integer("background", -1);
  d.threshold = node.number("threshold", -std::numeric_limits<float>::max());
  d.suppression = {node.number("overlap", 1), node.number("eta", 1), limit(node, "candidates")};
  d.keep = limit(node, "keep");
  return d;
}

Box decoded(Code code, const Box& prior, const float* variances, const float* offsets) {
  float d[4];
  for (size_t i = 0; i < 4; ++i) d[i] = variances == nullptr ? offsets[i] : variances[i] * offsets[i];
  if (code == corner) return {prior.left + d[0], prior.top + d[1], prior.right + d[2], prior.bottom + d[3]};
  const float width = prior.right - prior.left, height = prior.bottom - prior.top;
  if (code == corner_size) {
    return {prior.left + d[0] * width, prior.top + d[1] * height, prior.right + d[2] * width,
            prior.bottom + d[3] * height};
  }
  const float x = d[0] * width + (prior.left + prior.right) / 2, y = d[1] * height + (prior.top + prior.bottom) / 2;
  const float half_width = std::exp(d[2]) * width / 2, half_height = std::exp(d[3]) * height / 2;
  return {x - half_width, y - half_height, x + half_width, y + half_height};
}

// The boxes of an image that set number `set` of offsets gives.
std::vector<Box> decoded_set(const Detector& d, size_t image, size_t set) {
  std::vector<Box> boxes(d.priors);
  for (size_t p = 0; p < d.priors; ++p) {
    const float* const b = d.boxes + 4 * p;
    const float* const variances = d.variances == nullptr ? nullptr : d.variances + 4 * p;
    const float* const offsets = d.offsets + ((image * d.priors + p) * d.sets + set) * 4;
    boxes[p] = decoded(d.code, {b[0], b[1], b[2], b[3]}, variances, offsets);
  }
  return boxes;
}

struct Detection {
  size_t label;
  float score;
  Box box;
};

std::vector<Detection> detect(const Detector& d, size_t image) {
  std::vector<Detection> found;
  std::vector<Box> boxes;
  if (d.sets == 1) boxes = decoded_set(d, image, 0);
  for (size_t label = 0; label < d.classes; ++label) {
    look(d.priors);
    if (static_cast<int64_t>(label) == d.background) continue;
    if (d.sets > 1) boxes = decoded_set(d, image, label);
    std::vector<Candidate> candidates;
    for (size_t p = 0; p < d.priors; ++p) {
      const float score = d.scores[(image * d.priors + p) * d.classes + label];
      if (score > d.threshold) candidates.push_back({score, p});
    }
    suppress(boxes.data(), d.suppression, candidates);
    for (const Candidate& c : candidates) found.push_back({label, c.score, boxes[c.index]});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Detection& a, const Detection& b) { return a.score > b.score; });
  if (found.size() > d.keep) found.resize(d.keep);
  return found;
}

std::vector<float> detected_rows(const Detector& d) {
  std::vector<float> rows;
  for (size_t image = 0; image < d.images; ++image) {
    for (const Detection& f : detect(d, image)) {
      rows.insert(rows.end(), {static_cast<float>(image), static_cast<float>(f.label), f.score, f.box.left, f.box.top,
                               f.box.right, f.box.bottom});
    }
  }
  return rows;
}

void infer_ssd_detections(Inference& node) {
  const Detector d = detector_of(node);
  if (d.keep == SIZE_MAX) node.fail("says not how many detections to keep");
  node.set(0, QN_F32, {1, 1, node.product(d.images, d.keep), row_size});
}

void run_ssd_detections(const Run& node) {
  const std::vector<float> rows = detected_rows(detector_of(node));
  float* const y = node.output<float>(0);
  std::fill(std::copy(rows.begin(), rows.end(), y), y + count(node.output_shape(0)), 0.0f);
}

void infer_ssd_detections_found(Inference& node) {
  for (size_t i = 0; i < 3; ++i) node.expect(i, QN_F32);
}

void run_ssd_detections_found(const Run& node) {
  const Detector d = detector_of(node);
  std::vector<float> rows = detected_rows(d);
  if (rows.empty()) {
    rows.assign(d.images * row_size, -1);
    for (size_t image = 0; image < d.images; ++image) rows[image * row_size] = static_cast<float>(image);
  }
  auto* const y = static_cast<float*>(node.allocate(0, QN_F32, {1, 1, rows.size() / row_size, row_size}));
  std::copy(rows.begin(), rows.end(), y);
}

// ---- which of many boxes to keep ----------------------------------------------------------------

// Inputs: boxes [N, boxes, 4] (two corners, y before x; with `centred` the centre and the size, x before y), scores
// [N, classes, boxes], and optionally: how many boxes of a class to keep at most (without it none), how much two may
// overlap (0), the score that all must exceed. Output [rows, 3]: image, class, box.
void infer_non_max_suppression(Inference& node) {
  node.expect(0, QN_F32);
  node.expect(1, QN_F32);
}

// The only number of an input.
template <class T>
T number_or(const Node& node, size_t input, T otherwise) {
  if (!node.has(input)) return otherwise;
  if (count(node.shape(input)) != 1) node.fail("input " + std::to_string(input) + " is not one number");
  if constexpr (std::is_same_v<T, int64_t>) return node.values(input)[0];
  node.expect(input, QN_F32);
  return static_cast<T>(*node.data<float>(input));
}

std::vector<Box> boxes_of(const float* x, size_t count, bool centred) {
  std::vector<Box> boxes(count);
  for (size_t i = 0; i < count; ++i, x += 4) {
    const float half_width = x[2] / 2, half_height = x[3] / 2;
    boxes[i] = centred ? Box{x[0] - half_width, x[1] - half_height, x[0] + half_width, x[1] + half_height}
                       : Box{std::min(x[1], x[3]), std::min(x[0], x[2]), std::max(x[1], x[3]), std::max(x[0], x[2])};
  }
  return boxes;
}

void run_non_max_suppression(const Run& node) {
  for (const size_t input : {0, 1}) node.expect(input, QN_F32);  // infer() is not called before a run
  const Shape shape = node.shape(0), scores = node.shape(1);
  if (shape.size() != 3 || shape[2] != 4 || scores.size() != 3 || scores[0] != shape[0] || scores[2] != shape[1]) {
    node.fail("boxes and scores do not fit");
  }
  const auto most = number_or<int64_t>(node, 2, 0);
  const Suppression limits = {number_or<float>(node, 3, 0), 1, SIZE_MAX,
                              static_cast<size_t>(std::clamp<int64_t>(most, 0, std::numeric_limits<int32_t>::max()))};
  const bool all = !node.has(4);
  const auto threshold = number_or<float>(node, 4, 0);
  std::vector<int64_t> rows;
  const size_t images = shape[1] == 0 ? 0 : shape[0];  // without boxes there may be any number of images
  for (size_t image = 0; image < images; ++image) {
    const std::vector<Box> boxes =
        boxes_of(node.data<float>(0) + image * shape[1] * 4, shape[1], node.integer("centred", 0) != 0);
    for (size_t label = 0; label < scores[1]; ++label) {
      look(shape[1]);
      const float* const score = node.data<float>(1) + (image * scores[1] + label) * shape[1];
      std::vector<Candidate> candidates;
      for (size_t i = 0; i < shape[1]; ++i) {
        if (all ? !std::isnan(score[i]) : score[i] > threshold) candidates.push_back({score[i], i});
      }
      suppress(boxes.data(), limits, candidates);
      for (const Candidate& c : candidates) {
        for (const size_t number : {image, label, c.index}) rows.push_back(static_cast<int64_t>(number));
      }
    }
  }
  std::copy(rows.begin(), rows.end(), static_cast<int64_t*>(node.allocate(0, QN_S64, {rows.size() / 3, 3})));
}

// ---- the largest elements along an axis ---------------------------------------------------------

// The places, as floats, of the `count` largest elements along `axis`, the largest first; or their values. Of equal ones
// the last comes first, as in Caffe, and NaN is the least.
void infer_top_places(Inference& node) {
  node.expect(0, QN_F32);
  Shape shape = node.shape(0);
  const size_t axis = node.axis(node.integer("axis", 0), shape.size());
  const int64_t wanted = node.integer("count", 1);
  if (wanted < 1 || static_cast<uint64_t>(wanted) > shape[axis]) node.fail("count is not within the dimension");
  shape[axis] = static_cast<size_t>(wanted);
  node.set(0, QN_F32, shape);
}

void run_top_places(const Run& node) {
  const Shape shape = node.shape(0);
  const size_t axis = node.axis(node.integer("axis", 0), shape.size()), wanted = node.output_shape(0)[axis];
  const size_t n = shape[axis], inner = count(shape.part(axis + 1, shape.size()));
  const bool values = node.integer("values", 0) != 0;
  std::vector<size_t> places(n);
  Pace pace;
  for (size_t o = 0; o < count(shape.part(0, axis)); ++o) {
    for (size_t i = 0; i < inner; ++i) {
      const float* const x = node.data<float>(0) + o * n * inner + i;
      float* const y = node.output<float>(0) + o * wanted * inner + i;
      for (size_t k = 0; k < n; ++k) places[k] = k;
      const auto before = [&](size_t a, size_t b) {
        pace.did(8);
        const float va = x[a * inner], vb = x[b * inner];
        if (std::isnan(va) || std::isnan(vb)) return std::isnan(va) == std::isnan(vb) ? a > b : std::isnan(vb);
        return va != vb ? va > vb : a > b;
      };
      std::partial_sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(wanted), places.end(), before);
      for (size_t k = 0; k < wanted; ++k) y[k * inner] = values ? x[places[k] * inner] : static_cast<float>(places[k]);
    }
  }
}

constexpr qn_kind detection_table[] = {
    kind<infer_l2_normalize, run_l2_normalize>("l2_normalize", {1, 1}, 1, QN_KIND_IN_PLACE),
    kind<infer_non_max_suppression, run_non_max_suppression>("non_max_suppression", {2, 5}, 1, QN_KIND_SIZED_BY_RUN),
    kind<infer_top_places, run_top_places>("top_places", {1, 1}, 1),
    kind<infer_prior_box, run_prior_box>("prior_box", {2, 2}, 1),
    kind<infer_ssd_detections, run_ssd_detections>("ssd_detections", {3, 3}, 1),
    kind<infer_ssd_detections_found, run_ssd_detections_found>("ssd_detections_found", {3, 3}, 1, QN_KIND_SIZED_BY_RUN),
};

}  // namespace
}  // namespace detections

Kinds detection_kinds() { return needed<detections::detection_table>(); }

}  // namespace quern::extra
