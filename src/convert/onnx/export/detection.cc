// Detection: kinds of libquern-extra. Those of Caffe have no operator of ONNX, and become many.
#include "convert/onnx/export/detection.h"

#include "convert/onnx/export/rows.h"
#include "graph/backend/backend.h"

namespace quern::onnx {

std::string without_scores(const Parts& p, const std::string& like) {
  return p.op("Expand", {p.to.number(no_score), p.op("Shape", {like})});
}

std::string kept_scores(const Parts& p, const std::string& boxes, const std::string& scores, const Suppressed& limits) {
  if (limits.overlap < 0) throw Unsupported{"an overlap below 0"};
  const std::string found =
      p.op("NonMaxSuppression", {boxes, scores, p.to.integer(limits.most), p.to.number(std::min(limits.overlap, 1.0f)),
                                 p.to.number(limits.threshold)});
  return p.op("ScatterND", {without_scores(p, scores), found, p.op("GatherND", {scores, found})});
}

namespace {

using Rule = AttributeRule;

// x / sqrt(sum of squares + epsilon)
void write_l2_normalize(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Parts parts = {to, node};
  const Parameter* const axes = find_parameter(node, "axes");
  if (axes == nullptr || axes->integers.size() != 2) throw Unsupported{"without axes"};
  to.need_opset(18);
  const Order order = to.following(node);
  const std::string x = to.stored(node.inputs[0], order);
  Vector<int64_t> places;
  for (int64_t d = axes->integers[0]; d < axes->integers[1]; ++d) {
    places.push_back(static_cast<int64_t>(position(order, static_cast<size_t>(d))));
  }
  const std::string squares = parts.op("ReduceSumSquare", {x, to.integers(places)}, "keepdims", 1);
  const std::string sum = parts.op("Add", {squares, to.number(number_of(node, "epsilon", 0))});
  const std::string factor = parts.op("Reciprocal", {parts.op("Sqrt", {sum})});
  to.define_stored(node.outputs[0], parts.op("Mul", {x, factor}), order);
}

void write_top_places(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Parts parts = {to, node};
  const int64_t axis = integer_of(node, "axis", 0);
  const std::string x = to.stored_plain(node.inputs[0]), axes = to.integers({axis}), back = to.integers({-1});
  // TopK takes the first of equal elements, and our kind the last: the first in reverse.
  const std::string reversed = parts.op("Slice", {x, back, to.integers({INT64_MIN}), axes, back});
  const auto [values, places] = parts.largest(reversed, integer_of(node, "count", 1), axis);
  const std::string last = parts.op("Sub", {parts.op("Gather", {parts.op("Shape", {x}), axes}), to.integers({1})});
  const bool of_values = integer_of(node, "values", 0) != 0;
  parts.define(of_values ? values
                         : parts.op("Cast", {parts.op("Sub", {last, places})}, "to", schema::TensorProto::FLOAT));
}

// Prior boxes depend on shapes only, so they are a constant.
void write_prior_box(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  if (to.model.open) throw Unsupported{"its boxes depend on open dimensions"};
  Graph graph;
  Node boxes = node;
  for (int& input : boxes.inputs) {
    const Shape& shape = to.tensor(input).shape;
    input = add_tensor(graph, "", QN_F32, shape);
  }
  const Shape& shape = to.tensor(node.outputs[0]).shape;
  boxes.outputs = {add_tensor(graph, "", QN_F32, shape)};
  expect_ok(evaluate(graph, boxes));
  Parts{to, node}.define(to.floats(shape, constant_floats(graph, boxes.outputs[0])));
}

// ---- detections of prior boxes: ssd_detections says what the inputs are

struct Detector {
  int64_t images, priors, classes, sets;  // sets of boxes: one for each class, or one for all
};

Detector detector_of(const GraphWriter& to, const Node& node) {
  if (to.model.open) throw Unsupported{"its detections depend on open dimensions"};
  if (number_of(node, "eta", 1) < 1) throw Unsupported{"eta below 1"};
  for (const int input : node.inputs) {
    const bool sized = !to.tensor(input).sized_by_run && !is_empty(to.tensor(input).shape);
    if (!sized || to.tensor(input).shape.empty()) throw Unsupported{"of inputs that only a run sizes"};
  }
  const auto count = [&](size_t input, size_t from) {
    const Shape& shape = to.tensor(node.inputs[input]).shape;
    int64_t elements = 1;
    for (size_t d = from; d < shape.size(); ++d) elements *= static_cast<int64_t>(shape[d]);
    return elements;
  };
  const auto images = static_cast<int64_t>(to.tensor(node.inputs[1]).shape[0]);
  const int64_t priors = count(2, 2) / 4, classes = priors == 0 ? 0 : count(1, 1) / priors;
  const int64_t sets = integer_of(node, "own_boxes", 0) != 0 ? classes : 1;
  const bool fits = classes > 0 && classes == integer_of(node, "classes", 0) && count(1, 1) == priors * classes &&
                    count(0, 1) == priors * sets * 4 && count(0, 0) == images * count(0, 1);
  if (!fits) throw Unsupported{"its inputs do not fit"};
  return {images, priors, classes, sets};
}

// The boxes [images, priors, sets, 4] that offsets make of priors.
std::string decoded_boxes(const Parts& p, const Detector& d) {
  enum { corner = 1, center_size = 2 };
  const int64_t code = integer_of(p.node, "code", corner);
  const std::string all = p.to.stored_plain(p.node.inputs[2]);
  const auto row = [&](int64_t index) {
    return p.reshape(p.op("Gather", {all, p.to.integers({index})}, "axis", 1), {1, d.priors, 1, 4});
  };
  const std::string prior = row(0);
  std::string offsets = p.reshape(p.to.stored_plain(p.node.inputs[0]), {d.images, d.priors, d.sets, 4});
  if (integer_of(p.node, "plain", 0) == 0) offsets = p.op("Mul", {row(1), offsets});
  if (code == corner) return p.op("Add", {prior, offsets});
  const std::string first = p.last(prior, 0, 2), second = p.last(prior, 2, 4), size = p.op("Sub", {second, first});
  if (code != center_size) {
    const std::string sizes = p.op("Concat", {size, size}, "axis", -1);
    return p.op("Add", {prior, p.op("Mul", {offsets, sizes})});
  }
  const std::string two = p.to.number(2), centre = p.op("Div", {p.op("Add", {first, second}), two});
  const std::string place = p.op("Add", {p.op("Mul", {p.last(offsets, 0, 2), size}), centre});
  const std::string half = p.op("Div", {p.op("Mul", {p.op("Exp", {p.last(offsets, 2, 4)}), size}), two});
  return p.op("Concat", {p.op("Sub", {place, half}), p.op("Add", {place, half})}, "axis", -1);
}

// Scores [images, classes, priors] of candidates: not of the background, and only the best ones of each class.
std::string candidate_scores(const Parts& p, const Detector& d) {
  std::string scores = p.reshape(p.to.stored_plain(p.node.inputs[1]), {d.images, d.priors, d.classes});
  scores = p.transpose(scores, {0, 2, 1});
  const int64_t background = integer_of(p.node, "background", -1), most = integer_of(p.node, "candidates", -1);
  if (background >= 0 && background < d.classes) {
    std::vector<uint8_t> is_background(static_cast<size_t>(d.classes));
    is_background[static_cast<size_t>(background)] = 1;
    const std::string which = p.to.initializer(QN_BOOL, {1, is_background.size(), 1}, is_background.data());
    scores = p.op("Where", {which, p.to.number(no_score), scores});
  }
  if (most < 0 || most >= d.priors) return scores;
  const auto [values, places] = p.largest(scores, most, 2);
  return p.op("ScatterElements", {without_scores(p, scores), places, values}, "axis", 2);
}

// The scores [images, classes * priors] of boxes that no better one overlaps; -infinity for all others.
std::string detected_scores(const Parts& p, const Detector& d, const std::string& boxes) {
  const bool own = d.sets > 1;  // then each class is an image of its own
  const Vector<int64_t> shape =
      own ? Vector<int64_t>{d.images * d.classes, 1, d.priors} : Vector<int64_t>{d.images, d.classes, d.priors};
  const std::string scores = p.reshape(candidate_scores(p, d), shape);
  const Suppressed limits = {d.priors, number_of(p.node, "overlap", 1),
                             number_of(p.node, "threshold", -std::numeric_limits<float>::max())};
  return p.reshape(kept_scores(p, p.reshape(boxes, {shape[0], d.priors, 4}), scores, limits),
                   {d.images, d.classes * d.priors});
}

// Rows [images * most, 7] of the best detections of each image, and which of them are some.
std::pair<std::string, std::string> detected_rows(const Parts& p, const Detector& d, int64_t most) {
  std::string boxes = decoded_boxes(p, d);
  if (d.sets > 1) boxes = p.transpose(boxes, {0, 2, 1, 3});
  const auto [scores, places] = p.largest(detected_scores(p, d, boxes), most, 1);
  const std::string priors = p.to.integer(d.priors), label = p.op("Div", {places, priors});
  const std::string within = d.sets > 1 ? places : p.op("Mod", {places, priors});
  const std::string chosen =
      p.op("GatherND", {p.reshape(boxes, {d.images, d.sets * d.priors, 4}), p.reshape(within, {d.images, most, 1})},
           "batch_dims", 1);
  std::vector<float> images;
  for (int64_t i = 0; i < d.images * most; ++i) images.push_back(static_cast<float>(i / most));
  const Vector<int64_t> column = {d.images * most, 1};
  const std::string labels = p.op("Cast", {label}, "to", schema::TensorProto::FLOAT);
  const std::string rows = p.op("Concat",
                                {p.to.floats({images.size(), 1}, images.data()), p.reshape(labels, column),
                                 p.reshape(scores, column), p.reshape(chosen, {column[0], 4})},
                                "axis", 1);
  return {rows, p.op("Greater", {p.reshape(scores, {-1}), p.to.number(no_score)})};
}

// All rows that are there, with `behind` behind them; then the first `count` of all.
void define_rows(const Parts& p, const std::string& found, const std::string& behind, const std::string& count) {
  const std::string all = p.op("Concat", {found, behind}, "axis", 0);
  const std::string rows = p.op("Slice", {all, p.to.integers({0}), count, p.to.integers({0})});
  p.define(p.reshape(rows, {1, 1, -1, 7}));
}

void write_ssd_detections(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Parts p = {to, node};
  const Detector d = detector_of(to, node);
  const int64_t keep = integer_of(node, "keep", 0);
  if (keep < 1) throw Unsupported{"that keeps none"};
  const int64_t most = std::min(keep, d.classes * d.priors);
  const auto [rows, are] = detected_rows(p, d, most);
  to.model.expect_room(static_cast<size_t>(d.images * keep), 7 * sizeof(float));
  const std::vector<float> zeros(static_cast<size_t>(d.images * keep) * 7);
  define_rows(p, p.op("Compress", {rows, are}, "axis", 0), to.floats({zeros.size() / 7, 7}, zeros.data()),
              to.integers({d.images * keep}));
}

// Without any detection, there is a row for each image.
void write_ssd_detections_found(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Parts p = {to, node};
  const Detector d = detector_of(to, node);
  const int64_t keep = integer_of(node, "keep", -1), all = d.classes * d.priors;
  const auto [rows, are] = detected_rows(p, d, keep < 0 ? all : std::min(keep, all));
  const std::string found = p.op("Compress", {rows, are}, "axis", 0);
  std::vector<float> none(static_cast<size_t>(d.images) * 7, -1);
  for (size_t image = 0; image < none.size() / 7; ++image) none[image * 7] = static_cast<float>(image);
  const std::string count = p.op("Gather", {p.op("Shape", {found}), to.integers({0})});
  const std::string rows_of_none = to.floats({none.size() / 7, 7}, none.data());
  const std::string is_none = p.op("Equal", {count, to.integers({0})});
  define_rows(p, found, rows_of_none, p.op("Where", {is_none, to.integers({d.images}), count}));
}

const std::vector<const char*> detector_parameters = {"classes",   "background", "own_boxes", "code",       "plain",
                                                      "threshold", "overlap",    "eta",       "candidates", "keep"};

}  // namespace

const ExportTable& exported_detection() {
  static const ExportTable table = {
      {"l2_normalize", ordered(reads({"axes", "epsilon"}, {write_l2_normalize}))},
      {"non_max_suppression",
       {write_operator, "NonMaxSuppression", 13, {{Rule::integer, "center_point_box", "centred"}}}},
      {"prior_box",
       reads({"axes", "widths", "heights", "step", "image", "variances", "offset", "clip"}, {write_prior_box})},
      {"ssd_detections", reads(detector_parameters, {write_ssd_detections})},
      {"ssd_detections_found", reads(detector_parameters, {write_ssd_detections_found})},
      {"top_places", reads({"count", "axis", "values"}, {write_top_places})},
  };
  return table;
}

}  // namespace quern::onnx
