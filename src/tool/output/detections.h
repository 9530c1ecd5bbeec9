// Objects that a detector has found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/ir/ir.h"
#include "tool/output/outputs.h"

namespace CLI {
class App;
}

namespace quern {

struct Box {
  double left, top, right, bottom;
};

struct Detection {
  size_t image, label;  // of the batch; the class
  double score;
  Box box;
};

// The flags --detections and those that say more about it. A flag that is not given leaves what the model says.
struct DetectionFlags {
  std::string kind;
  std::vector<std::string> outputs;  // names
  std::optional<bool> pixels;
  std::optional<int> background;
  std::optional<float> threshold, overlap;

  bool any() const { return !kind.empty() || !outputs.empty() || pixels || background || threshold || overlap; }
  // Changes what the model says by the flags. `names`: of the model's outputs. Throws Error if the result makes no
  // sense for a model with these outputs.
  void apply(Postprocessing* model, const std::vector<std::string>& names) const;
};
void add_detection_flags(CLI::App& app, DetectionFlags* flags);

// Sets what a model's outputs mean if the nodes that write them are known to give detections.
void recognize_detections(Graph* graph);

// Reads the objects from all outputs of the model, those with the highest scores first. Boxes are in pixels of the
// input or, without `how.pixels`, in parts of its width and height. Throws Error if the outputs do not have the right
// shapes.
std::vector<Detection> find_detections(const Postprocessing& how, const std::vector<Output>& outputs);

}  // namespace quern
