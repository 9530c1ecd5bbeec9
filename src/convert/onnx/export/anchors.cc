// Detectors that move anchors, and the suppression of boxes that comes with them: kinds of libquern-extra.
#include <algorithm>

#include "convert/onnx/export/detection.h"
#include "convert/onnx/export/rows.h"

namespace quern::onnx {
namespace {

// ---- suppression, whose scores may decay: a Scan that takes the best box that is left in each run ----------------

// A list of boxes as corners [boxes, 2], and its areas.
struct Corners {
  std::string low, high, areas;
};

Corners corners_of(const Parts& p) {
  const std::string boxes = p.to.stored_plain(p.node.inputs[0]);
  const std::string first = p.last(boxes, 0, 2), second = p.last(boxes, 2, 4);
  const std::string low = p.op("Min", {first, second}), high = p.op("Max", {first, second});
  return {low, high, p.op("ReduceProd", {p.op("Sub", {high, low}), p.to.integers({1})}, "keepdims", 0)};
}

// Which part of the union with the box at `place` each box shares.
std::string overlaps(const Parts& p, const Corners& boxes, const std::string& place) {
  const auto its = [&](const std::string& list) { return p.op("Gather", {list, place}); };
  const std::string sides =
      p.op("Sub", {p.op("Min", {boxes.high, its(boxes.high)}), p.op("Max", {boxes.low, its(boxes.low)})});
  const std::string positive = p.op("Max", {sides, p.to.number(0)});
  const std::string shared = p.op("ReduceProd", {positive, p.to.integers({1})}, "keepdims", 0);
  const std::string all = p.op("Sub", {p.op("Add", {boxes.areas, its(boxes.areas)}), shared});
  return p.op("Where", {p.op("Greater", {shared, p.to.number(0)}), p.op("Div", {shared, all}), p.to.number(0)});
}

// The only number of an input, as a scalar; 0 without the input.
std::string scalar_of(const Parts& p, size_t input) {
  return has(p.node, input) ? p.reshape(p.to.stored_plain(p.node.inputs[input]), {}) : p.to.number(0);
}

// The scores of what is left once the box at `place` is taken. Our kind changes a score only when it is the best one that
// is left; the order is the same, because scores only become smaller.
std::string scores_left(const Parts& p, const std::string& scores, const std::string& place, const std::string& overlap,
                        const std::string& limit, const std::string& least, const std::string& sigma) {
  const bool above = integer_of(p.node, "above", 0) != 0;
  std::string changed = scores;
  if (!sigma.empty()) {
    const std::string slope = p.op("Div", {p.to.number(-0.5f), sigma});
    const std::string decay = p.op("Exp", {p.op("Mul", {p.op("Mul", {slope, overlap}), overlap})});
    const std::string decays = p.op("Greater", {sigma, p.to.number(0)});
    changed = p.op("Mul", {scores, p.op("Where", {decays, decay, p.to.number(1)})});
  }
  const std::string drops = p.op(above ? "Greater" : "GreaterOrEqual", {overlap, limit});
  const std::string stays = p.op("And", {p.op("Not", {drops}), p.op("Greater", {changed, least})});
  const float none = no_score;
  return p.op("ScatterElements",
              {p.op("Where", {stays, changed, p.to.number(no_score)}), p.reshape(place, {1}), p.to.floats({1}, &none)});
}

void write_suppress_boxes(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Parts around = {to, node};
  const int64_t most = integer_of(node, "most", 1);
  if (most < 1) throw Unsupported{"that keeps none"};
  if (is_empty(to.tensor(node.inputs[1]).shape)) throw Unsupported{"of no boxes"};
  to.need_opset(18);
  const Corners boxes = corners_of(around);
  const std::string wanted = around.op("Cast", {scalar_of(around, 2)}, "to", schema::TensorProto::INT64);
  const std::string limit = scalar_of(around, 3), least = scalar_of(around, 4);
  const std::string sigma = has(node, 5) ? scalar_of(around, 5) : "";
  const std::string all = to.stored_plain(node.inputs[1]), none = to.number(no_score);
  const std::string scores = around.op("Where", {around.op("Greater", {all, least}), all, none});
  const std::string runs = around.op("Range", {to.integer(0), to.integer(most), to.integer(1)});
  ScanWriter scan(to, node, {{scores, QN_F32}}, {{runs, QN_S64}});
  const Parts p = scan.body();
  const std::string best = p.op("ReduceMax", {scan.input(0)}, "keepdims", 0);
  const std::string place = p.op("ArgMax", {scan.input(0)}, "keepdims", 0);
  const std::string is = p.op("And", {p.op("Greater", {best, none}), p.op("Less", {scan.input(1), wanted})});
  const std::string left = scores_left(p, scan.input(0), place, overlaps(p, boxes, place), limit, least, sigma);
  const auto as_s32 = [](const Parts& in, const std::string& x) {
    return in.op("Cast", {x}, "to", schema::TensorProto::INT32);
  };
  scan.give(left, QN_F32);
  around.define(scan.give(as_s32(p, p.op("Where", {is, place, p.to.integer(0)})), QN_S32), 0);
  around.define(scan.give(p.op("Where", {is, best, p.to.number(0)}), QN_F32), 1);
  around.define(around.op("ReduceSum", {scan.give(as_s32(p, is), QN_S32)}, "keepdims", 0), 2);
}

// ---- anchors -----------------------------------------------------------------------------------------

struct Anchors {
  int64_t images, boxes, all_classes, classes;
  int64_t most, of_each, places;  // of the output
  bool by_class;
};

Anchors anchors_of(const GraphWriter& to, const Node& node) {
  if (to.model.open) throw Unsupported{"its detections depend on open dimensions"};
  for (const int input : node.inputs) {
    const Tensor& tensor = to.tensor(input);
    if (tensor.sized_by_run || is_empty(tensor.shape)) throw Unsupported{"of inputs that only a run sizes, or of none"};
  }
  const Shape& scores = to.tensor(node.inputs[1]).shape;
  if (scores.size() != 3) throw Unsupported{"its inputs do not fit"};
  Anchors a = {};
  a.images = static_cast<int64_t>(scores[0]);
  a.boxes = static_cast<int64_t>(scores[1]);
  a.all_classes = static_cast<int64_t>(scores[2]);
  a.classes = integer_of(node, "classes", 1);
  a.most = integer_of(node, "most", 1);
  const int64_t of_each = integer_of(node, "classes_of_each", 1);
  a.of_each = std::min(of_each, a.classes);
  a.by_class = integer_of(node, "by_class", 0) != 0;
  constexpr int64_t largest = 1 << 24;
  const bool fits = a.classes >= 1 && a.classes <= a.all_classes && a.most <= largest && of_each <= largest;
  if (!fits) throw Unsupported{"its inputs do not fit"};
  if (a.most < 1 || of_each < 1) throw Unsupported{"that keeps none"};
  a.places = a.most * of_each;
  return a;
}

// Boxes [images, boxes, 4] by their corners. In those `to_compare`, whose sides are below 0 have none: they overlap
// nothing, but ONNX would turn them over.
struct MovedBoxes {
  std::string all, to_compare;
};

MovedBoxes moved_boxes(const Parts& p) {
  const Parameter* const scales = find_parameter(p.node, "scales");
  if (scales == nullptr || scales->floats.size() != 4) throw Unsupported{"without four scales"};
  const std::string changes =
      p.op("Div", {p.to.stored_plain(p.node.inputs[0]), p.to.floats({4}, scales->floats.data())});
  const std::string anchors = p.to.stored_plain(p.node.inputs[2]), sizes = p.last(anchors, 2, 4);
  const std::string centre = p.op("Add", {p.op("Mul", {p.last(changes, 0, 2), sizes}), p.last(anchors, 0, 2)});
  const std::string factor = p.op("Mul", {p.to.number(0.5f), p.op("Exp", {p.last(changes, 2, 4)})});
  const std::string half = p.op("Mul", {factor, sizes});
  const auto around_centre = [&](const std::string& side) {
    return p.op("Concat", {p.op("Sub", {centre, side}), p.op("Add", {centre, side})}, "axis", -1);
  };
  return {around_centre(half), around_centre(p.op("Max", {half, p.to.number(0)}))};
}

// Detections of each image, [images, detections]: the numbers of boxes and classes, scores, and which are some.
struct Found {
  std::string box, label, score, is;
};

// The scores [images, classes, boxes] that reach the threshold; those of other boxes are none.
std::string reaching(const Parts& p, const std::string& scores) {
  const std::string reaches = p.op("GreaterOrEqual", {scores, p.to.number(number_of(p.node, "threshold", 0))});
  return p.op("Where", {reaches, scores, p.to.number(no_score)});
}

Suppressed limits_of(const Node& node, int64_t most) {
  return {most, number_of(node, "overlap", 0), -std::numeric_limits<float>::max()};
}

std::string is_some(const Parts& p, const std::string& score) {
  return p.op("Greater", {score, p.to.number(no_score)});
}

// Boxes of one class suppress each other.
Found found_by_class(const Parts& p, const Anchors& a, const std::string& scores, const std::string& boxes) {
  const Suppressed limits = limits_of(p.node, integer_of(p.node, "most_of_class", 1));
  const std::string kept = kept_scores(p, boxes, reaching(p, p.transpose(scores, {0, 2, 1})), limits);
  const int64_t all = a.classes * a.boxes;
  const auto [score, place] = p.largest(p.reshape(kept, {a.images, all}), std::min(a.most, all), 1);
  const std::string count = p.to.integer(a.boxes);
  return {p.op("Mod", {place, count}), p.op("Div", {place, count}), score, is_some(p, score)};
}

// Boxes suppress each other by the scores of their best classes, and appear with several classes.
Found found_of_boxes(const Parts& p, const Anchors& a, const std::string& scores, const std::string& boxes) {
  const std::string best = p.op("ReduceMax", {scores, p.to.integers({2})}, "keepdims", 0);
  const std::string kept =
      kept_scores(p, boxes, p.reshape(reaching(p, best), {a.images, 1, a.boxes}), limits_of(p.node, a.most));
  const int64_t most = std::min(a.most, a.boxes);
  const auto [score, place] = p.largest(p.reshape(kept, {a.images, a.boxes}), most, 1);
  const std::string column = p.reshape(place, {a.images, most, 1});
  const auto [own, label] = p.largest(p.op("GatherND", {scores, column}, "batch_dims", 1), a.of_each, 2);
  const Vector<int64_t> row = {a.images, most * a.of_each};
  const auto repeated = [&](const std::string& x) {
    return p.reshape(p.op("Expand", {x, p.to.integers({a.images, most, a.of_each})}), row);
  };
  return {repeated(column), p.reshape(label, row), p.reshape(own, row),
          repeated(p.reshape(is_some(p, score), {a.images, most, 1}))};
}

// What stands in the output: zeros where there is no detection, up to the last place.
std::string in_places(const Parts& p, const Anchors& a, const std::string& is, const std::string& x, int64_t found,
                      size_t rank) {
  const std::string some = p.op("Where", {is, x, p.to.number(0)});
  Vector<int64_t> pads(2 * rank);
  pads[rank + 1] = a.places - found;
  return p.op("Pad", {some, p.to.integers(pads)});
}

void write_anchor_detections(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Parts p = {to, node};
  const Anchors a = anchors_of(to, node);
  to.need_opset(18);
  const MovedBoxes boxes = moved_boxes(p);
  const std::string scores = p.last(to.stored_plain(node.inputs[1]), a.all_classes - a.classes, a.all_classes);
  const Found f = (a.by_class ? found_by_class : found_of_boxes)(p, a, scores, boxes.to_compare);
  const int64_t found = a.by_class ? std::min(a.most, a.classes * a.boxes) : std::min(a.most, a.boxes) * a.of_each;
  const std::string chosen = p.op("GatherND", {boxes.all, p.reshape(f.box, {a.images, found, 1})}, "batch_dims", 1);
  const std::string is_box = p.reshape(f.is, {a.images, found, 1});
  const std::string labels = p.op("Cast", {f.label}, "to", schema::TensorProto::FLOAT);
  const std::string ones = p.op("Cast", {f.is}, "to", schema::TensorProto::FLOAT);
  const std::string count = p.op("ReduceSum", {ones, to.integers({1})}, "keepdims", 0);
  p.define(in_places(p, a, is_box, chosen, found, 3), 0);
  p.define(in_places(p, a, f.is, labels, found, 2), 1);
  p.define(in_places(p, a, f.is, f.score, found, 2), 2);
  p.define(p.op("Div", {count, to.number(static_cast<float>(a.by_class ? 1 : a.of_each))}), 3);
}

const std::vector<const char*> anchor_parameters = {"classes",  "most",      "classes_of_each", "most_of_class",
                                                    "by_class", "threshold", "overlap",         "scales"};

}  // namespace

const ExportTable& exported_anchors() {
  static const ExportTable table = {
      {"anchor_detections", reads(anchor_parameters, {write_anchor_detections})},
      {"suppress_boxes", reads({"most", "above"}, {write_suppress_boxes})},
  };
  return table;
}

}  // namespace quern::onnx
