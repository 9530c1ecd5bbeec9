// Pictures for tests, written by the libraries that the tool reads with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace quern {

struct PngKind {
  int bit_depth, color_type;  // PNG_COLOR_TYPE_*
  bool interlaced = false;
};
// Pixel values come from `sample(x, y, channel)`, taken as the kind's bit depth.
std::string make_png(size_t width, size_t height, const PngKind& kind,
                     const std::function<unsigned(size_t, size_t, size_t)>& sample);

struct JpegKind {
  int components;  // 1 gray, 3 colour, 4 CMYK
  bool progressive = false;
};
std::string make_jpeg(size_t width, size_t height, const JpegKind& kind,
                      const std::function<unsigned(size_t, size_t, size_t)>& sample);

// A PNG that only claims to have these pixels.
std::string png_claiming(uint32_t width, uint32_t height);

}  // namespace quern
