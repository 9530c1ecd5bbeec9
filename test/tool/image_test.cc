#include "tool/input/image.h"

#include <gtest/gtest.h>
#include <png.h>

#include <cstdlib>

#include "convert/common/error.h"
#include "convert/zoo/random.h"
#include "pictures.h"

namespace quern {
namespace image_test {

unsigned pattern(size_t x, size_t y, size_t c) { return static_cast<unsigned>(x * 13 + y * 29 + c * 71) & 255; }

void expect_samples(const Image& image, size_t channels, unsigned (*sample)(size_t, size_t, size_t)) {
  ASSERT_EQ(image.channels, channels);
  ASSERT_EQ(image.pixels.size(), image.width * image.height * channels);
  for (size_t y = 0; y < image.height; ++y)
    for (size_t x = 0; x < image.width; ++x)
      for (size_t c = 0; c < channels; ++c)
        ASSERT_EQ(image.pixels[(y * image.width + x) * channels + c], sample(x, y, c)) << x << ' ' << y << ' ' << c;
}

TEST(Image, DecodesEveryKindOfPng) {
  for (const bool interlaced : {false, true}) {
    expect_samples(decode_image(make_png(9, 5, {8, PNG_COLOR_TYPE_RGB, interlaced}, pattern), "x"), 3, pattern);
    expect_samples(decode_image(make_png(9, 5, {8, PNG_COLOR_TYPE_RGB_ALPHA, interlaced}, pattern), "x"), 3, pattern);
    expect_samples(decode_image(make_png(9, 5, {8, PNG_COLOR_TYPE_GRAY, interlaced}, pattern), "x"), 1, pattern);
    expect_samples(decode_image(make_png(9, 5, {8, PNG_COLOR_TYPE_GRAY_ALPHA, interlaced}, pattern), "x"), 1, pattern);
  }
  // 16 bits: 257 times an 8-bit value is that value.
  const auto wide = [](size_t x, size_t y, size_t c) { return pattern(x, y, c) * 257; };
  expect_samples(decode_image(make_png(9, 5, {16, PNG_COLOR_TYPE_RGB}, wide), "x"), 3, pattern);
  // One bit: black and white.
  const auto bit = [](size_t x, size_t y, size_t) { return static_cast<unsigned>(x + y) & 1; };
  expect_samples(decode_image(make_png(9, 5, {1, PNG_COLOR_TYPE_GRAY}, bit), "x"), 1,
                 [](size_t x, size_t y, size_t) { return (x + y) % 2 == 1 ? 255u : 0u; });
  const auto index = [](size_t x, size_t, size_t) { return static_cast<unsigned>(x) & 3; };
  const Image palette = decode_image(make_png(4, 1, {2, PNG_COLOR_TYPE_PALETTE}, index), "x");
  EXPECT_EQ(palette.pixels, (std::vector<uint8_t>{255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30}));
}

TEST(Image, DecodesJpeg) {
  const auto smooth = [](size_t x, size_t y, size_t c) { return static_cast<unsigned>(40 + 2 * x + 3 * y + 20 * c); };
  for (const bool progressive : {false, true}) {
    const Image gray = decode_image(make_jpeg(20, 17, {1, progressive}, smooth), "x");
    const Image colour = decode_image(make_jpeg(20, 17, {3, progressive}, smooth), "x");
    ASSERT_EQ(gray.channels, 1u);
    ASSERT_EQ(colour.channels, 3u);
    for (size_t y = 0; y < 17; ++y)
      for (size_t x = 0; x < 20; ++x) {
        EXPECT_LE(std::abs(gray.pixels[y * 20 + x] - static_cast<int>(smooth(x, y, 0))), 2);
        for (size_t c = 0; c < 3; ++c)
          EXPECT_LE(std::abs(colour.pixels[(y * 20 + x) * 3 + c] - static_cast<int>(smooth(x, y, c))), 5);
      }
  }
}

TEST(Image, RefusesCmykAndOtherFormats) {
  EXPECT_THROW(decode_image(make_jpeg(8, 8, {4}, pattern), "x"), Error);
  EXPECT_THROW(decode_image("GIF89a", "x"), Error);
  EXPECT_THROW(decode_image("", "x"), Error);
  EXPECT_THROW(read_image("/nonexistent.png"), Error);
  EXPECT_THROW(read_image("/"), Error);
}

TEST(Image, RefusesClaimsOfHugeSizes) {
  for (const auto& [width, height] :
       {std::pair{32767u, 32767u}, {65535u, 1u}, {2147483647u, 2147483647u}, {8000u, 8000u}})
    EXPECT_THROW(decode_image(png_claiming(width, height), "x"), Error) << width;
  std::string jpeg = make_jpeg(8, 8, {3}, pattern);
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (size_t i = 5; i < 9; ++i) jpeg[frame + i] = static_cast<char>(0xff);  // 65535 x 65535
  EXPECT_THROW(decode_image(jpeg, "x"), Error);
}

TEST(Image, SaysWhenAFileEndsEarly) {
  const std::string files[] = {make_png(30, 20, {8, PNG_COLOR_TYPE_RGB}, pattern), make_jpeg(30, 20, {3}, pattern),
                               make_jpeg(30, 20, {3, true}, pattern)};
  for (const std::string& file : files)
    for (size_t size = 0; size + 2 < file.size(); size += 7)
      EXPECT_THROW(decode_image(file.substr(0, size), "x"), Error) << size << " of " << file.size();
}

TEST(Image, SurvivesFlippedBits) {
  const std::string files[] = {make_png(30, 20, {8, PNG_COLOR_TYPE_RGB, true}, pattern),
                               make_jpeg(30, 20, {3}, pattern), make_jpeg(30, 20, {3, true}, pattern),
                               make_jpeg(30, 20, {1}, pattern)};
  zoo::Random random(3);
  size_t decoded = 0, refused = 0;
  for (const std::string& file : files) {
    for (int i = 0; i < 400; ++i) {
      std::string bad = file;
      for (uint64_t flips = 1 + random.bits() % 3; flips > 0; --flips)
        bad[random.bits() % bad.size()] ^= static_cast<char>(1 << random.bits() % 8);
      try {
        const Image image = decode_image(bad, "x");
        EXPECT_LE(image.pixels.size(), max_image_pixels * 3);
        ++decoded;
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        ++refused;
      }
    }
  }
  // JPEG has no checksum, PNG has one over everything: both ends occur.
  EXPECT_GT(decoded, 0u);
  EXPECT_GT(refused, 400u);
}

TEST(Image, KnowsPicturesByName) {
  for (const char* name : {"a.png", "A.PNG", "x/y.jpeg", "b.c.JpG"}) EXPECT_TRUE(is_image_name(name)) << name;
  for (const char* name : {"a.npy", "png", "a.png.npy", ""}) EXPECT_FALSE(is_image_name(name)) << name;
}

}  // namespace image_test
}  // namespace quern
