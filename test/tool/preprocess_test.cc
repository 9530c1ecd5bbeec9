#include "tool/input/preprocess.h"

#include <gtest/gtest.h>
#include <png.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "convert/common/error.h"
#include "pictures.h"

namespace quern {
namespace preprocess_test {

Image pattern(size_t width, size_t height, size_t channels) {
  Image image = {width, height, channels, {}};
  for (size_t y = 0; y < height; ++y)
    for (size_t x = 0; x < width; ++x)
      for (size_t c = 0; c < channels; ++c)
        image.pixels.push_back(static_cast<uint8_t>(x * 37 + y * 59 + c * 83 + x * y * 11));
  return image;
}

// The expected bytes are Pillow's: Image.resize(size, Image.BILINEAR).
TEST(Preprocess, ResizesAsPillowDoes) {
  struct Case {
    size_t width, height, channels, to_width, to_height;
    std::vector<uint8_t> expected;
  };
  const Case cases[] =
      {
          {7, 5, 3, 4, 3, {47,  130, 161, 112, 164, 127, 167, 133, 99,  149, 88,  107,
                           146, 107, 89,  155, 109, 135, 127, 135, 100, 134, 137, 122,
                           176, 78,  154, 135, 156, 132, 126, 112, 134, 122, 122, 143}},  // shrinks both ways
          {9, 8, 1, 3, 8, {46,  148, 90,  119, 166, 127, 160, 126, 100, 169, 116, 138,
                           145, 133, 111, 122, 151, 116, 131, 169, 121, 108, 158, 127}},  // one direction each
          {5, 3, 1, 8, 7, {0,   16,  39,  62,  86, 109, 132, 148, 8,   25,  49,  73,  98,  122,
                           146, 163, 34,  53,  80, 107, 134, 161, 188, 207, 59,  80,  110, 140,
                           170, 200, 230, 251, 84, 107, 140, 173, 172, 136, 162, 185, 110, 135,
                           171, 207, 173, 72,  95, 120, 118, 144, 181, 218, 174, 51,  72,  98}},  // grows
          {6, 4, 3, 3, 6, {26,  109, 192, 93,  176, 131, 159, 132, 69,  60,  143, 153, 136, 155,
                           110, 157, 112, 122, 104, 163, 106, 172, 127, 98,  148, 110, 156, 149,
                           110, 77,  145, 100, 135, 122, 180, 80,  175, 76,  104, 133, 120, 139,
                           113, 142, 96,  190, 54,  137, 128, 147, 134, 111, 85,  131}},  // mixed
      };
  for (const Case& c : cases) {
    const Image out = resize_image(pattern(c.width, c.height, c.channels), c.to_width, c.to_height);
    EXPECT_EQ(out.width, c.to_width);
    EXPECT_EQ(out.height, c.to_height);
    EXPECT_EQ(out.pixels, c.expected) << c.width << "x" << c.height;
  }
}

TEST(Preprocess, ResizingToTheSameSizeChangesNothing) {
  const Image image = pattern(9, 6, 3);
  EXPECT_EQ(resize_image(image, 9, 6).pixels, image.pixels);
}

TEST(Preprocess, CropsTheCentreRoundedDown) {
  const Image image = pattern(6, 5, 1);
  const Image crop = crop_image(image, 3, "x");
  // x0 = (6 - 3) / 2 = 1, y0 = (5 - 3) / 2 = 1
  for (size_t y = 0; y < 3; ++y)
    for (size_t x = 0; x < 3; ++x) EXPECT_EQ(crop.pixels[y * 3 + x], image.pixels[(y + 1) * 6 + x + 1]);
  EXPECT_THROW(crop_image(image, 6, "x"), Error);
}

TEST(Preprocess, KnowsWhichTensorsHoldImages) {
  const size_t first[] = {1, 3, 20, 30}, last[] = {1, 20, 30, 1}, neither[] = {1, 16, 20, 30};
  EXPECT_TRUE(image_port(first, 4)->channels_first);
  EXPECT_EQ(image_port(first, 4)->width, 30u);
  EXPECT_FALSE(image_port(last, 4)->channels_first);
  EXPECT_EQ(image_port(last, 4)->height, 20u);
  EXPECT_FALSE(image_port(neither, 4));
  EXPECT_FALSE(image_port(first, 3));
}

// Sizes of dynamic dimensions are examples, and say nothing about channels.
TEST(Preprocess, DynamicDimensionsAreNoChannels) {
  const size_t last[] = {1, 1, 24, 3}, first[] = {1, 3, 1, 1};
  const auto nhwc = image_port(last, 4, 0b0111);
  ASSERT_TRUE(nhwc);
  EXPECT_FALSE(nhwc->channels_first);
  EXPECT_EQ(nhwc->channels, 3u);
  EXPECT_EQ(nhwc->height + nhwc->width, 0u);
  const auto nchw = image_port(first, 4, 0b1100);
  ASSERT_TRUE(nchw && nchw->channels_first);
  EXPECT_EQ(nchw->height + nchw->width, 0u);
  EXPECT_EQ(image_port(first, 4, 0b1000)->height, 1u);
}

TEST(Preprocess, ImagesKeepDynamicSizes) {
  const qn_preprocessing how = {0, 1, 0, {0, 0, 0, 0}, {1, 1, 1, 1}, 10, {0, 0}};
  const Image own = fit_image(pattern(40, 20, 1), how, {1, 0, 0, true}, "x");
  EXPECT_EQ(own.width, 20u);
  EXPECT_EQ(own.height, 10u);
  const Image wide = fit_image(pattern(40, 20, 1), {}, {1, 0, 30, true}, "x");
  EXPECT_EQ(wide.width, 30u);
  EXPECT_EQ(wide.height, 20u);
}

TEST(Preprocess, OrdersChannelsThenSubtractsThenScales) {
  const Image image = pattern(4, 3, 3);
  const qn_preprocessing how = {0, 1, 1, {1, 2, 3, 0}, {0.5f, 2, 4, 0}, 0, {0, 0}};
  for (const bool first : {true, false}) {
    const std::vector<float> t = image_tensor(image, how, {3, 3, 4, first}, "x");
    ASSERT_EQ(t.size(), 36u);
    for (size_t c = 0; c < 3; ++c)
      for (size_t i = 0; i < 12; ++i) {
        const float pixel = image.pixels[i * 3 + (2 - c)];
        EXPECT_EQ(t[first ? c * 12 + i : i * 3 + c], (pixel - how.mean[c]) * how.scale[c]);
      }
  }
}

TEST(Preprocess, ResizesTheShorterSideCropsTwiceAndFits) {
  const Image image = pattern(40, 20, 1);
  const qn_preprocessing how = {0, 1, 0, {0, 0, 0, 0}, {1, 1, 1, 1}, 10, {9, 6}};
  const Image shrunk = resize_image(image, 20, 10);
  const Image crop = crop_image(crop_image(shrunk, 9, "x"), 6, "x");
  const std::vector<float> same = image_tensor(image, how, {1, 6, 6, true}, "x");
  EXPECT_EQ(same, std::vector<float>(crop.pixels.begin(), crop.pixels.end()));
  const Image fitted = resize_image(crop, 4, 8);
  const std::vector<float> fit = image_tensor(image, how, {1, 8, 4, true}, "x");
  EXPECT_EQ(fit, std::vector<float>(fitted.pixels.begin(), fitted.pixels.end()));
}

TEST(Preprocess, GrayIsLumaAndColourRepeatsGray) {
  // Pillow's convert("L") of these four pixels.
  EXPECT_EQ(with_channels(pattern(4, 1, 3), 1).pixels, (std::vector<uint8_t>{68, 105, 142, 149}));
  EXPECT_EQ(with_channels(Image{1, 1, 1, {7}}, 3).pixels, (std::vector<uint8_t>{7, 7, 7}));
}

ImageFlags parse(std::vector<std::string> arguments) {
  ImageFlags flags;
  CLI::App app;
  add_image_flags(app, &flags);
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  return flags;
}

TEST(ImageFlags, GoOverTheModel) {
  const qn_preprocessing model = {0, 1, 1, {1, 2, 3, 0}, {4, 5, 6, 0}, 7, {8, 9}};
  const qn_preprocessing untouched = parse({}).over(model, 3);
  EXPECT_EQ(untouched.bgr, 1);
  EXPECT_EQ(untouched.mean[2], 3);
  EXPECT_EQ(untouched.crop[1], 9u);
  EXPECT_FALSE(parse({}).any());

  const qn_preprocessing set =
      parse({"--mean", "104,117.5,-3", "--scale", "0.017", "--rgb", "--resize", "0", "--crop", "227"}).over(model, 3);
  EXPECT_EQ(set.bgr, 0);
  EXPECT_EQ(set.mean[0], 104);
  EXPECT_EQ(set.mean[1], 117.5f);
  EXPECT_EQ(set.mean[2], -3);
  EXPECT_EQ(set.scale[2], 0.017f);
  EXPECT_EQ(set.resize, 0u);
  EXPECT_EQ(set.crop[0], 227u);
  EXPECT_EQ(set.crop[1], 0u);
}

TEST(ImageFlags, WithoutAModelsWordPixelsStayAsTheyAre) {
  const qn_preprocessing how = parse({}).over({}, 3);
  EXPECT_EQ(how.present, 1);
  EXPECT_EQ(how.bgr, 0);
  EXPECT_EQ(how.mean[1], 0);
  EXPECT_EQ(how.scale[1], 1);
}

TEST(ImageFlags, RefuseNonsense) {
  for (const char* mean : {"", "1,", ",1", "a", "1;2", "1,2,3,4", "nan", "inf", "1e99", "1 2"})
    EXPECT_THROW(parse({"--mean", mean}), CLI::ParseError) << mean;
  for (const char* crop : {"-1", "1,2,3", "1.5", "99999999999"})
    EXPECT_THROW(parse({"--crop", crop}), CLI::ParseError) << crop;
  EXPECT_THROW(parse({"--bgr", "--rgb"}), CLI::ParseError);
  EXPECT_THROW(parse({"--mean", "1,2"}).over({}, 3), Error);
}

TEST(Preprocess, RefusesPicturesThatGrowBeyondMeasure) {
  const Image image = pattern(3, 1, 1);
  const qn_preprocessing how = {0, 1, 0, {0, 0, 0, 0}, {1, 1, 1, 1}, 4000000000u, {0, 0}};
  EXPECT_THROW(image_tensor(image, how, {1, 2, 2, true}, "x"), Error);
}

// A picture is resized across first, which may be large where picture and input are not.
TEST(Preprocess, RefusesLargePicturesBetweenResizes) {
  const ImagePort port = {1, 1, 1'000'000, true};
  EXPECT_NO_THROW(image_tensor(pattern(3, 2, 1), {}, port, "x"));
  EXPECT_THROW(image_tensor(pattern(1, 32767, 1), {}, port, "x"), Error);
}

TEST(Preprocess, RefusesInputsWithoutPixels) {
  const std::string path = ::testing::TempDir() + "quern_no_pixels.png";
  std::ofstream(path, std::ios::binary) << make_png(2, 1, {8, PNG_COLOR_TYPE_GRAY},
                                                    [](size_t, size_t, size_t) { return 0u; });
  const size_t shapes[][4] = {{1, 1, 0, 2}, {1, 1, 2, 0}, {1, 0, 2, 1}, {1, 2, 0, 3}};
  for (const auto& shape : shapes) {
    qn_port port = {sizeof(qn_port), "x", {}};
    check(qn_tensor_init(&port.tensor, QN_F32, 4, shape));
    EXPECT_THROW(image_input(read_image(path), path, port, 0, {}, {}), Error);
  }
  std::remove(path.c_str());
}

// A picture for inputs of bytes: its pixels as they are, or the numbers that preprocessing makes of them.
TEST(Preprocess, InputsOfBytes) {
  const std::string path = ::testing::TempDir() + "quern_bytes.png";
  std::ofstream(path, std::ios::binary) << make_png(2, 1, {8, PNG_COLOR_TYPE_GRAY},
                                                    [](size_t x, size_t, size_t) { return x == 0 ? 10u : 255u; });
  const size_t shape[] = {1, 1, 1, 2};
  for (const qn_type type : {QN_U8, QN_S8}) {
    qn_port port = {sizeof(qn_port), "x", {}};
    check(qn_tensor_init(&port.tensor, type, 4, shape));
    port.tensor.quantization.scale = 0.5f;
    port.tensor.quantization.zero_point = 3;
    const auto elements = [&](const ImageFlags& flags) {
      std::vector<int> values;
      for (const unsigned char byte : image_input(read_image(path), path, port, 0, {}, flags).bytes)
        values.push_back(type == QN_S8 ? static_cast<signed char>(byte) : byte);
      return values;
    };
    const int low = type == QN_S8 ? -128 : 0;
    EXPECT_EQ(elements({}), (std::vector<int>{10 + low, 255 + low}));
    ImageFlags flags;
    flags.mean = {8};
    EXPECT_EQ(elements(flags), (std::vector<int>{7, low + 255})) << "2 / 0.5 + 3; and what is too much";
  }
  std::remove(path.c_str());
}

}  // namespace preprocess_test
}  // namespace quern
