// Pictures: 8 bits per channel, decoded from PNG and JPEG files that nobody vouches for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

struct Image {
  size_t width = 0, height = 0, channels = 0;  // 1: gray, 3: red green blue
  std::vector<uint8_t> pixels;                 // row by row, channels together
};

constexpr size_t max_image_side = 32767;
constexpr size_t max_image_pixels = size_t{1} << 26;

// Throws Error if an image has no pixels, more than the limits, or a longer side. `who` names it in messages.
void check_image_size(size_t width, size_t height, const std::string& who);

// Reads a picture; the file's first bytes tell its format. 16-bit samples are rounded to 8 bits, palettes resolved,
// alpha dropped. CMYK is refused. The orientation that cameras note is ignored. Throws Error, also for a file that ends
// early.
Image read_image(const std::string& path);
// Reads a picture from memory; `who` names it in messages.
Image decode_image(std::string_view file, const std::string& who);

// Does the file's name say that it is a picture (.png, .jpg, .jpeg)?
bool is_image_name(const std::string& path);

// Converts a picture to 1 channel (luma of ITU-R 601) or to 3 (gray repeated).
Image with_channels(Image image, size_t channels);

}  // namespace quern
