// What detectors of several kinds share.
#pragma once

#include <limits>
#include <string>

#include "convert/onnx/export/parts.h"

namespace quern::onnx {

constexpr float no_score = -std::numeric_limits<float>::infinity();  // of a box that is none

// Tensors of the shape of `like` without any score.
std::string without_scores(const Parts& p, const std::string& like);

// Limits of a suppression of boxes.
struct Suppressed {
  int64_t most;     // boxes of a class
  float overlap;    // how much of two boxes may overlap
  float threshold;  // which all scores must exceed
};

// The scores [images, classes, boxes], without those of boxes [images, boxes, 4] that a better one of the class overlaps.
std::string kept_scores(const Parts& p, const std::string& boxes, const std::string& scores, const Suppressed& limits);

}  // namespace quern::onnx
