#include "tool/output/detections.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "tool/input/npy.h"

namespace quern {
namespace {

// An output that describes objects, as rows of `width` numbers.
struct Rows {
  const Output* output;
  std::vector<double> numbers;
  size_t width = 1;

  size_t count() const { return numbers.size() / width; }
  const double* row(size_t i) const { return &numbers[i * width]; }
};

Rows rows_of(const Output& output, size_t width) {
  const bool fits = width == 1 || (output.tensor.rank > 0 && output.tensor.shape[output.tensor.rank - 1] == width);
  if (!fits)
    throw Error(fmt::format("detections: output \"{}\" of shape {} does not have rows of {} numbers", output.name,
                            shape_text(output.tensor.shape, output.tensor.rank), width));
  return {&output, real_numbers(output), width};
}

// Adds an object, unless its class or score says that it is none. NaN is no score.
void add(const Postprocessing& how, size_t image, double label, double score, const Box& box,
         std::vector<Detection>* found) {
  constexpr double most_classes = 1e6;
  if (!(label >= 0 && label < most_classes) || static_cast<int>(label) == how.background) return;
  if (!(score > 0 && score >= double{how.threshold})) return;
  for (const double edge : {box.left, box.top, box.right, box.bottom})
    if (!std::isfinite(edge)) return;
  found->push_back({image, static_cast<size_t>(label), score, box});
}

using Parts = std::vector<const Output*>;

// One output; in each row the image's number, class, score, left, top, right, bottom.
std::vector<Detection> from_rows(const Postprocessing& how, const Parts& parts) {
  const Rows rows = rows_of(*parts[0], 7);
  std::vector<Detection> found;
  for (size_t i = 0; i < rows.count(); ++i) {
    const double* const r = rows.row(i);
    const size_t image = r[0] >= 0 && r[0] < 1e6 ? static_cast<size_t>(r[0]) : 0;
    add(how, image, r[1], r[2], {r[3], r[4], r[5], r[6]}, &found);
  }
  return found;
}

void expect_count(const Rows& rows, size_t count) {
  if (rows.count() == count) return;
  throw Error(fmt::format("detections: output \"{}\" describes {} objects instead of {}", rows.output->name,
                          rows.count(), count));
}

// Boxes (top, left, bottom, right), classes, scores, and how many of them count. Of one image.
std::vector<Detection> from_lists(const Postprocessing& how, const Parts& parts) {
  const Rows boxes = rows_of(*parts[0], 4), classes = rows_of(*parts[1], 1), scores = rows_of(*parts[2], 1);
  const Rows valid = rows_of(*parts[3], 1);
  expect_count(classes, boxes.count());
  expect_count(scores, boxes.count());
  expect_count(valid, 1);
  std::vector<Detection> found;
  for (size_t i = 0; i < boxes.count() && static_cast<double>(i) < valid.numbers[0]; ++i) {
    const double* const b = boxes.row(i);
    add(how, 0, classes.numbers[i], scores.numbers[i], {b[1], b[0], b[3], b[2]}, &found);
  }
  return found;
}

double area(const Box& box) { return std::max(0.0, box.right - box.left) * std::max(0.0, box.bottom - box.top); }

double overlap(const Box& a, const Box& b) {
  const double both = area(
      {std::max(a.left, b.left), std::max(a.top, b.top), std::min(a.right, b.right), std::min(a.bottom, b.bottom)});
  const double either = area(a) + area(b) - both;
  return either > 0 ? both / either : 0;
}

bool is_better(const Detection& a, const Detection& b) { return a.score > b.score; }

// Of objects of one class that overlap too much, the one with the highest score stays.
std::vector<Detection> without_doubles(std::vector<Detection> candidates, double most) {
  std::stable_sort(candidates.begin(), candidates.end(), is_better);
  std::vector<Detection> kept;
  for (const Detection& candidate : candidates) {
    const auto hides = [&](const Detection& k) {
      return k.image == candidate.image && k.label == candidate.label && overlap(k.box, candidate.box) > most;
    };
    if (std::none_of(kept.begin(), kept.end(), hides)) kept.push_back(candidate);
  }
  return kept;
}

// Boxes (left, top, right, bottom) and a score of each box for each class. Boxes of one object are several.
std::vector<Detection> from_scores(const Postprocessing& how, const Parts& parts) {
  const Output& scores_output = *parts[1];
  const size_t rank = scores_output.tensor.rank;
  const Rows boxes = rows_of(*parts[0], 4);
  const Rows scores = rows_of(scores_output, rank > 1 ? std::max<size_t>(scores_output.tensor.shape[rank - 1], 1) : 1);
  expect_count(scores, boxes.count());
  const size_t images = parts[0]->tensor.rank == 3 ? std::max<size_t>(parts[0]->tensor.shape[0], 1) : 1;
  const size_t each = boxes.count() / images;
  std::vector<Detection> found;
  for (size_t i = 0; i < boxes.count(); ++i) {
    const double* const b = boxes.row(i);
    for (size_t label = 0; label < scores.width; ++label) {
      add(how, i / each, static_cast<double>(label), scores.row(i)[label], {b[0], b[1], b[2], b[3]}, &found);
    }
  }
  constexpr size_t most_candidates = 20000;  // each is compared with all that are kept
  if (found.size() > most_candidates)
    throw Error(
        fmt::format("detections: {} boxes have a score of {} or more: see --threshold", found.size(), how.threshold));
  return without_doubles(std::move(found), double{how.overlap});
}

// The ways in which outputs describe objects. Files name them: a name keeps its meaning.
struct Way {
  const char* name;
  size_t outputs;
  std::vector<Detection> (*find)(const Postprocessing&, const Parts&);
};
constexpr Way ways[] = {{"rows", 1, from_rows}, {"lists", 4, from_lists}, {"scores", 2, from_scores}};

const Way& find_way(const String& name) {
  for (const Way& way : ways)
    if (name == way.name) return way;
  throw Error(fmt::format("detections \"{}\": this version knows rows, lists and scores", name.c_str()));
}

void check_outputs(const Postprocessing& how, size_t count) {
  const Way& way = find_way(how.detections);
  if (how.outputs.size() != way.outputs)
    throw Error(fmt::format("detections \"{}\" take {} outputs, not {}: see --detection-outputs", way.name, way.outputs,
                            how.outputs.size()));
  for (const uint32_t output : how.outputs)
    if (output >= count)
      throw Error(fmt::format("detections \"{}\" take {} outputs, but the model has {}", way.name, way.outputs, count));
}

// The kinds of nodes whose outputs are detections.
struct Detector {
  const char* kind;
  const char* way;
};
constexpr Detector detectors[] = {{"ssd_detections", "rows"}, {"ssd_detections_found", "rows"}};

}  // namespace

void DetectionFlags::apply(Postprocessing* model, const std::vector<std::string>& names) const {
  if (!kind.empty()) {
    model->detections = String(kind.c_str());
    model->outputs.clear();
    for (uint32_t i = 0; i < find_way(model->detections).outputs; ++i) model->outputs.push_back(i);
  }
  if (!outputs.empty()) model->outputs.clear();
  for (const std::string& name : outputs) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) throw Error(fmt::format("--detection-outputs: the model has no output \"{}\"", name));
    model->outputs.push_back(static_cast<uint32_t>(at - names.begin()));
  }
  if (pixels) model->pixels = *pixels;
  if (background) model->background = *background;
  if (threshold) model->threshold = *threshold;
  if (overlap) model->overlap = *overlap;
  if (!model->detections.empty()) check_outputs(*model, names.size());
  if (model->detections.empty() && any()) throw Error("the model does not describe detections; pass --detections");
}

void add_detection_flags(CLI::App& app, DetectionFlags* flags) {
  constexpr const char* group = "Detections";
  app.add_option("--detections", flags->kind,
                 "How outputs describe objects. rows: image, class, score, left, top, right, bottom in each row of one "
                 "output (Caffe's DetectionOutput; known by itself). lists: four outputs, boxes (top, left, bottom, "
                 "right), classes, scores, count (TensorFlow Lite). scores: two outputs, boxes (left, top, right, "
                 "bottom) and the scores of all classes for each")
      ->check(CLI::IsMember({"rows", "lists", "scores"}).description(""))
      ->type_name("KIND")
      ->group(group);
  app.add_option("--detection-outputs", flags->outputs, "Names of these outputs; by default the first ones")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...")
      ->group(group);
  app.add_flag_callback(
         "--box-pixels", [flags] { flags->pixels = true; },
         "Boxes are in pixels of the model's input, not in parts of its width and height")
      ->group(group);
  app.add_option("--background", flags->background, "The class that stands for no object")
      ->check(CLI::Range(0, 1000000).description(""))
      ->type_name("CLASS")
      ->group(group);
  app.add_option("--threshold", flags->threshold, "The lowest score of objects to show (0.5)")
      ->check(CLI::Range(0.0, 1.0).description(""))
      ->type_name("SCORE")
      ->group(group);
  app.add_option("--overlap", flags->overlap,
                 "scores: of two boxes of a class with a larger intersection over union only one is shown (0.45)")
      ->check(CLI::Range(0.0, 1.0).description(""))
      ->type_name("IOU")
      ->group(group);
}

void recognize_detections(Graph* graph) {
  if (!graph->postprocessing.detections.empty()) return;
  for (const Node& node : graph->nodes) {
    for (const Detector& detector : detectors) {
      if (node.type != detector.kind) continue;
      Vector<uint32_t> outputs;
      for (const int tensor : node.outputs) {
        for (uint32_t i = 0; i < graph->outputs.size(); ++i)
          if (graph->outputs[i].tensor == tensor) outputs.push_back(i);
      }
      if (outputs.size() != find_way(String(detector.way)).outputs) continue;
      graph->postprocessing.detections = String(detector.way);
      graph->postprocessing.outputs = std::move(outputs);
      return;
    }
  }
}

std::vector<Detection> find_detections(const Postprocessing& how, const std::vector<Output>& outputs) {
  check_outputs(how, outputs.size());
  Parts parts;
  for (const uint32_t output : how.outputs) parts.push_back(&outputs[output]);
  std::vector<Detection> found = find_way(how.detections).find(how, parts);
  std::stable_sort(found.begin(), found.end(), is_better);
  return found;
}

}  // namespace quern
