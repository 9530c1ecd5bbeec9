#include "tool/output/draw.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "convert/common/error.h"
#include "tool/output/labels.h"

namespace quern {
namespace {

using Colour = std::array<uint8_t, 3>;
constexpr Colour black = {0, 0, 0}, white = {255, 255, 255};

// A rectangle in pixels: from left, top to right, bottom exclusively. It may reach beyond the picture.
struct Area {
  long left, top, right, bottom;
};

void fill(Image* picture, const Area& area, const Colour& colour) {
  const long right = std::min(area.right, static_cast<long>(picture->width));
  const long bottom = std::min(area.bottom, static_cast<long>(picture->height));
  for (long y = std::max(area.top, 0L); y < bottom; ++y) {
    for (long x = std::max(area.left, 0L); x < right; ++x) {
      const size_t pixel = static_cast<size_t>(y) * picture->width + static_cast<size_t>(x);
      std::copy(colour.begin(), colour.end(), &picture->pixels[3 * pixel]);
    }
  }
}

// A bright colour. Successive classes get hues that are far from each other.
Colour colour_of(size_t label) {
  constexpr double golden = 0.6180339887498949;
  const double hue = 6 * std::fmod(static_cast<double>(label) * golden, 1.0);
  const auto channel = [&](double shift) {
    const double place = std::fmod(hue + shift, 6.0);
    return static_cast<uint8_t>(std::lround(255 * std::clamp(std::fabs(place - 3) - 1, 0.0, 1.0)));
  };
  return {channel(0), channel(4), channel(2)};
}

// The colour in which text is readable on this one.
const Colour& text_colour(const Colour& field) { return 3 * field[0] + 6 * field[1] + field[2] < 1280 ? white : black; }

// ---- text

// A character: five rows of three pixels from the top, an octal digit for each row, whose bit 4 is the left pixel.
struct Glyph {
  char character;
  unsigned rows;
};
constexpr Glyph glyphs[] = {
    {'0', 075557}, {'1', 026227}, {'2', 071747}, {'3', 071717}, {'4', 055711}, {'5', 074717}, {'6', 074757},
    {'7', 071122}, {'8', 075757}, {'9', 075717}, {'A', 025755}, {'B', 065656}, {'C', 034443}, {'D', 065556},
    {'E', 074647}, {'F', 074644}, {'G', 034553}, {'H', 055755}, {'I', 072227}, {'J', 011152}, {'K', 055655},
    {'L', 044447}, {'M', 057755}, {'N', 065555}, {'O', 025552}, {'P', 065644}, {'Q', 025563}, {'R', 065655},
    {'S', 034216}, {'T', 072222}, {'U', 055557}, {'V', 055552}, {'W', 055775}, {'X', 055255}, {'Y', 055222},
    {'Z', 071247}, {'.', 000002}, {',', 000024}, {'-', 000700}, {'_', 000007}, {'/', 011244}, {'%', 051245},
};
constexpr long glyph_width = 3, glyph_height = 5;

unsigned rows_of_glyph(char character) {
  const char capital = static_cast<char>(std::toupper(static_cast<unsigned char>(character)));
  for (const Glyph& glyph : glyphs)
    if (glyph.character == capital) return glyph.rows;
  return 0;
}

// Writes text on a field of the colour; each pixel of a glyph is a square of `size` pixels.
void write_text(Image* picture, long left, long top, long size, const std::string& text, const Colour& colour) {
  const long step = (glyph_width + 1) * size;
  fill(picture, {left, top, left + static_cast<long>(text.size()) * step + size, top + (glyph_height + 2) * size},
       colour);
  for (const char character : text) {
    const unsigned rows = rows_of_glyph(character);
    for (long y = 0; y < glyph_height; ++y) {
      for (long x = 0; x < glyph_width; ++x) {
        if ((rows >> (3 * (glyph_height - 1 - y) + glyph_width - 1 - x) & 1) == 0) continue;
        const long px = left + (x + 1) * size, py = top + (y + 1) * size;
        fill(picture, {px, py, px + size, py + size}, text_colour(colour));
      }
    }
    left += step;
  }
}

// Rounds an edge of a box, which may lie anywhere.
long pixel_of(double edge) {
  constexpr double beyond = 2.0 * max_image_side;
  return std::lround(std::clamp(edge, -beyond, beyond));
}

void draw_frame(Image* picture, const Area& box, long line, const Colour& colour) {
  fill(picture, {box.left, box.top, box.right, box.top + line}, colour);
  fill(picture, {box.left, box.bottom - line, box.right, box.bottom}, colour);
  fill(picture, {box.left, box.top, box.left + line, box.bottom}, colour);
  fill(picture, {box.right - line, box.top, box.right, box.bottom}, colour);
}

}  // namespace

void draw_detections(Image* picture, const std::vector<Detection>& detections, const std::vector<std::string>& labels) {
  *picture = with_channels(std::move(*picture), 3);
  const long line = std::max(1L, static_cast<long>(std::min(picture->width, picture->height) / 200));
  for (size_t i = detections.size(); i-- > 0;) {  // the surest come last, over the others
    const Detection& d = detections[i];
    const Area box = {pixel_of(d.box.left), pixel_of(d.box.top), pixel_of(d.box.right), pixel_of(d.box.bottom)};
    const Colour colour = colour_of(d.label);
    draw_frame(picture, box, line, colour);
    const std::string text = fmt::format("{} {:.2f}", label_of(labels, d.label).substr(0, 64), d.score);
    const long size = line + 1, above = box.top - (glyph_height + 2) * size;
    write_text(picture, std::max(box.left, 0L), above < 0 ? std::max(box.top, 0L) : above, size, text, colour);
  }
}

std::string encode_png(const Image& image) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string file(size, '\0');
  if (png_image_write_to_memory(&png, file.data(), &size, 0, image.pixels.data(), 0, nullptr) == 0)
    throw Error(fmt::format("the PNG encoder fails: {}", png.message));
  file.resize(size);
  return file;
}

}  // namespace quern
