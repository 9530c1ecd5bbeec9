// Detections drawn into pictures.
#pragma once

#include <string>
#include <vector>

#include "tool/input/image.h"
#include "tool/output/detections.h"

namespace quern {

// Draws a frame for each detection, whose box is in pixels, in a colour of its class, and its label and score above the
// frame. Labels are drawn as capital letters; characters that have none leave a gap.
void draw_detections(Image* picture, const std::vector<Detection>& detections, const std::vector<std::string>& labels);

// Encodes a picture as a PNG file.
std::string encode_png(const Image& image);

}  // namespace quern
