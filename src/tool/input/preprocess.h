// From a picture to a model's input tensor.
#pragma once

#include <quern/graph.h>

#include <optional>
#include <string>
#include <vector>

#include "tool/input/image.h"
#include "tool/model.h"

namespace CLI {
class App;
}

namespace quern {

// Where a tensor holds an image.
struct ImagePort {
  size_t channels, height, width;
  bool channels_first;  // N,C,H,W; else N,H,W,C
};
// A tensor of rank 4 with one or three channels takes images.
std::optional<ImagePort> image_port(const size_t* shape, size_t rank);

// The flags --mean --scale --bgr --rgb --resize --crop; those not given leave what the model says.
struct ImageFlags {
  std::vector<float> mean, scale;  // empty, one for all channels, or one per channel
  std::optional<bool> bgr;
  std::optional<uint32_t> resize;
  std::vector<uint32_t> crop;

  bool any() const { return !mean.empty() || !scale.empty() || bgr || resize || !crop.empty(); }
  // What to do with images: the model's preprocessing where it has any (else RGB as it is), the flags over it.
  qn_preprocessing over(const qn_preprocessing& model, size_t channels) const;
};
void add_image_flags(CLI::App& app, ImageFlags* flags);

// Resizes as Pillow's BILINEAR: a triangle filter as wide as the scale where it shrinks, rows first, each direction
// rounded to 8 bits.
Image resize_image(const Image& image, size_t width, size_t height);

// The centre, from (W - side) / 2 and (H - side) / 2 rounded down.
Image crop_image(const Image& image, size_t side, const std::string& who);

// Resize, crop, bring to the port's size if that still differs, order channels, (x - mean) * scale.
// Returns one image in the port's layout.
std::vector<float> image_tensor(Image image, const qn_preprocessing& how, const ImagePort& port,
                                const std::string& who);

// A picture file as the content of `port`, batch 1, by the model's preprocessing under the flags.
InputData image_input(const std::string& path, const qn_port& port, const qn_preprocessing& model,
                      const ImageFlags& flags);

}  // namespace quern
