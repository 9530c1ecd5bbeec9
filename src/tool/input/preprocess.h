// Makes a model's input tensor from a picture.
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

// The dimensions of a tensor that holds an image.
struct ImagePort {
  size_t channels, height, width;  // height and width: 0 if they are dynamic, and each image keeps its own
  bool channels_first;             // N,C,H,W; else N,H,W,C
};
// Returns the dimensions if a tensor of this shape takes images: rank 4, with one or three channels. Bit d of `open`
// says that dimension d is dynamic (Port::open).
std::optional<ImagePort> image_port(const size_t* shape, size_t rank, unsigned open = 0);

// The flags --mean --scale --bgr --rgb --resize --crop. A flag that is not given leaves what the model says.
struct ImageFlags {
  std::vector<float> mean, scale;  // empty, one for all channels, or one per channel
  std::optional<bool> bgr;
  std::optional<uint32_t> resize;
  std::vector<uint32_t> crop;

  bool any() const { return !mean.empty() || !scale.empty() || bgr || resize || !crop.empty(); }
  // Returns how to prepare images: the model's preprocessing, if it has any (else RGB as it is), changed by the flags.
  qn_preprocessing over(const qn_preprocessing& model, size_t channels) const;
};
void add_image_flags(CLI::App& app, ImageFlags* flags);

// Resizes as Pillow's BILINEAR does: by a triangle filter, which is as wide as the scale when it shrinks; rows first,
// and rounded to 8 bits after each direction.
Image resize_image(const Image& image, size_t width, size_t height);

// Cuts a square out of the centre, from (W - side) / 2 and (H - side) / 2, rounded down.
Image crop_image(const Image& image, size_t side, const std::string& who);

// Resizes and crops, and resizes to the port's size if that still differs.
Image fit_image(Image image, const qn_preprocessing& how, const ImagePort& port, const std::string& who);

// Does the same, then orders the channels and computes (x - mean) * scale. Returns one image in the port's layout.
std::vector<float> image_tensor(Image image, const qn_preprocessing& how, const ImagePort& port,
                                const std::string& who);

// The part of a picture of this size that a model sees, in pixels of the picture.
struct Frame {
  double left, top, width, height;
};
Frame seen_frame(size_t width, size_t height, const qn_preprocessing& how);

// Makes the content of `port` from an image: batch 1, by the model's preprocessing changed by the flags. Bit d of `open`
// says that dimension d is dynamic: the image keeps its own height or width there. An input of int8 or uint8 gets the
// pixels as they are if neither knows a mean or scale; else the values, quantized as the port says. `who` names the
// image in messages.
InputData image_input(Image image, const std::string& who, const qn_port& port, unsigned open,
                      const qn_preprocessing& model, const ImageFlags& flags);

}  // namespace quern
