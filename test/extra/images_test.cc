// Kinds for images: windows, resizing, samples, spectra. Expected numbers are worked out by hand.
#include <cmath>
#include <limits>
#include <numbers>

#include "run_node.h"

namespace quern::test {
namespace images_test {

using Shape = std::vector<size_t>;

Elements f32(Shape shape, std::vector<double> values) { return {QN_F32, std::move(shape), std::move(values)}; }
// 0, 1, 2, ...
Elements image(Shape shape, qn_type type = QN_F32) {
  Elements elements = {type, std::move(shape), {}};
  size_t n = 1;
  for (const size_t d : elements.shape) n *= d;
  for (size_t i = 0; i < n; ++i) elements.values.push_back(static_cast<double>(i));
  return elements;
}
Parameter floats(const char* name, Vector<float> values) { return {name, {}, std::move(values)}; }

void expect_all(const std::vector<NodeCase>& cases) {
  for (const NodeCase& node : cases) expect_node(node);
}

// Expects numbers that are not representable.
void expect_near(const NodeCase& node, double tolerance = 1e-6) {
  std::vector<Elements> outputs;
  ASSERT_EQ(NodeModel(node, node.inputs.size()).run(&outputs), "") << node.kind;
  ASSERT_EQ(outputs[0].shape, node.outputs[0].shape) << node.kind;
  for (size_t i = 0; i < outputs[0].values.size(); ++i) {
    EXPECT_NEAR(outputs[0].values[i], node.outputs[0].values[i], tolerance) << node.kind << ", element " << i;
  }
}

// ---- windows

TEST(ExtraWindows, MaximumsAndTheirPlaces) {
  const Elements line = f32({1, 1, 5}, {3, 1, 4, 1, 5});
  const Parameter two = integers("kernel", {2});
  expect_all({
      {"window_max", {line}, {f32({1, 1, 4}, {3, 4, 4, 5})}, {two}},
      {"window_max", {line}, {f32({1, 1, 2}, {3, 4})}, {two, integers("strides", {2})}},
      {"window_max", {line}, {f32({1, 1, 3}, {3, 4, 5})}, {two, integers("strides", {2}), integers("ceil", {1})}},
      {"window_max", {line}, {f32({1, 1, 3}, {4, 1, 5})}, {two, integers("dilations", {2})}},
      {"window_max", {line}, {f32({1, 1, 3}, {3, 4, 5})}, {two, integers("strides", {2}), integers("same", {2})}},
      {"window_max",
       {image({1, 2, 2, 3}, QN_U8)},
       {{QN_U8, {1, 2, 1, 2}, {4, 5, 10, 11}}, {QN_S64, {1, 2, 1, 2}, {4, 5, 10, 11}}},
       {integers("kernel", {2, 2})}},
      {"window_max",
       {image({1, 2, 2, 3}, QN_S8)},
       {{QN_S8, {1, 2, 1, 2}, {4, 5, 10, 11}}, {QN_S64, {1, 2, 1, 2}, {3, 5, 9, 11}}},
       {integers("kernel", {2, 2}), integers("column_major", {1})}},
      {"window_max", {image({1, 1, 2, 2, 2})}, {f32({1, 1, 1, 1, 1}, {7})}, {integers("kernel", {2, 2, 2})}},
      {"window_max", {image({0, 1, 5})}, {f32({0, 1, 4}, {})}, {two}},
  });
}

TEST(ExtraWindows, AveragesAndNorms) {
  const Elements line = f32({1, 1, 4}, {3, 4, 5, 12});
  const Parameter two = integers("kernel", {2}), pads = integers("pads", {1, 1}), step = integers("strides", {2});
  expect_all({
      {"window_average", {line}, {f32({1, 1, 3}, {3.5, 4.5, 8.5})}, {two}},
      {"window_average", {line}, {f32({1, 1, 3}, {3, 4.5, 12})}, {two, pads, step}},
      {"window_average", {line}, {f32({1, 1, 3}, {1.5, 4.5, 6})}, {two, pads, step, integers("count_padding", {1})}},
      {"window_average",
       {f32({1, 1, 3}, {2, 4, 6})},
       {f32({1, 1, 2}, {3, 6})},  // what is behind the padding never counts
       {two, step, integers("ceil", {1}), integers("count_padding", {1})}},
      {"window_norm", {line}, {f32({1, 1, 2}, {5, 13})}, {two, step}},
      {"window_norm", {line}, {f32({1, 1, 2}, {7, 17})}, {two, step, floats("p", {1})}},
  });
}

TEST(ExtraWindows, Refused) {
  const Elements line = image({1, 1, 4});
  const Elements none = f32({1}, {0});
  expect_refused({"window_max", {line}, {none}}, "kernel is missing");
  expect_refused({"window_max", {line}, {none}, {integers("kernel", {5})}}, "larger than the image");
  expect_refused({"window_max", {line}, {none}, {integers("kernel", {0})}}, "kernel is out of range");
  expect_refused({"window_max", {line}, {none}, {integers("kernel", {1, 1})}}, "kernel does not fit");
  expect_refused({"window_max", {line}, {none}, {integers("kernel", {1}), integers("pads", {-1, 0})}},
                 "pads is out of");
  expect_refused({"window_max", {image({4, 4})}, {none}, {integers("kernel", {1})}},
                 "expected an image tensor, got rank 2");
  expect_refused({"window_average", {image({1, 1, 4}, QN_S8)}, {none}, {integers("kernel", {1})}}, "not f32");
  expect_refused({"window_norm", {line}, {none}, {integers("kernel", {1}), floats("p", {0})}}, "p is not positive");
}

TEST(ExtraWindows, InverseOfMaximums) {
  const Elements most = f32({1, 1, 2}, {7, 8}), places = {QN_S64, {1, 1, 2}, {1, 2}};
  const std::vector<Parameter> window = {integers("kernel", {2}), integers("strides", {2})};
  expect_all({
      {"max_unpool", {most, places}, {f32({1, 1, 4}, {0, 7, 8, 0})}, window},
      {"max_unpool", {most, places, list({1, 1, 5})}, {f32({1, 1, 5}, {0, 7, 8, 0, 0})}, window},
  });
  for (const double place : {-1.0, 4.0}) {
    expect_refused({"max_unpool", {most, {QN_S64, {1, 1, 2}, {0, place}}}, {most}, window}, "outside the output");
  }
  expect_refused({"max_unpool", {most, places, list({1, 1, 3})}, {most}, window}, "too small");
  expect_refused({"max_unpool", {most, list({1})}, {most}, window}, "the shape of the maximums");
}

// ---- resizing

TEST(ExtraResample, Nearest) {
  const Elements x = f32({1, 4}, {1, 2, 3, 4}), two = f32({2}, {1, 2}), half = f32({2}, {1, 0.5});
  const Parameter asymmetric = integers("coordinates", {3}), floor = integers("rounding", {2});
  expect_all({
      {"resample", {x, absent, two}, {f32({1, 8}, {1, 1, 2, 2, 3, 3, 4, 4})}, {asymmetric, floor}},
      {"resample", {x, absent, half}, {f32({1, 2}, {1, 3})}, {asymmetric, floor}},
      {"resample", {x, absent, absent, list({1, 2})}, {f32({1, 2}, {1, 3})}},  // halves go down
      {"resample", {x, absent, absent, list({1, 2})}, {f32({1, 2}, {2, 4})}, {integers("rounding", {1})}},
      {"resample", {x, absent, absent, list({1, 2})}, {f32({1, 2}, {2, 4})}, {integers("rounding", {3})}},
      {"resample", {x, absent, absent, list({2})}, {f32({1, 2}, {1, 3})}, {integers("axes", {-1})}},
      {"resample", {image({1, 2}, QN_BOOL), absent, absent, list({1, 4})}, {{QN_BOOL, {1, 4}, {0, 0, 1, 1}}}},
      {"resample", {image({2}, QN_S64), absent, absent, list({4})}, {{QN_S64, {4}, {0, 0, 1, 1}}}},
      {"resample", {image({2, 0}), absent, absent, list({4, 0})}, {f32({4, 0}, {})}},
      {"resample", {image({}), absent, list({}, QN_F32)}, {image({})}},
      {"resample", {image({2, 4}), absent, absent, list({4, 4})}, {image({2, 4})}, {integers("policy", {1})}},
  });
}

TEST(ExtraResample, Interpolated) {
  const Elements x = f32({1, 2}, {0, 4}), four = list({1, 4});
  const Parameter linear = integers("mode", {1}), cubic = integers("mode", {2});
  expect_all({
      {"resample", {x, absent, absent, four}, {f32({1, 4}, {0, 1, 3, 4})}, {linear}},
      {"resample", {x, absent, absent, list({1, 3})}, {f32({1, 3}, {0, 2, 4})}, {linear, integers("coordinates", {4})}},
      {"resample", {image({2}, QN_S32), absent, absent, list({4})}, {{QN_S32, {4}, {0, 0, 1, 1}}}, {linear}},
      {"resample",
       {{QN_U8, {2}, {0, 10}}, absent, absent, list({4})},
       {{QN_U8, {4}, {0, 2, 8, 10}}},  // 2.5 and 7.5, to even
       {linear}},
      {"resample", {f32({4}, {0, 2, 4, 6}), absent, absent, list({2})}, {f32({2}, {1, 5})}, {linear}},
      {"resample",  // weights 1, 3, 3, 1 over 8; without those outside, 3, 3, 1 over 7
       {f32({4}, {0, 7, 14, 21}), absent, absent, list({2})},
       {f32({2}, {5, 16})},
       {linear, integers("antialias", {1}), integers("exclude_outside", {1})}},
      {"resample",  // a region beyond the tensor
       {f32({3}, {1, 2, 3}), f32({2}, {0.5, 1.5}), absent, list({3})},
       {f32({3}, {2, 3, 9})},
       {linear, integers("coordinates", {5}), floats("extrapolation", {9})}},
      {"resample",  // -0.75 and 0.25 of a pixel from both: (-9, 89, 47, -...) of cubic convolution
       {f32({4}, {1, 1, 1, 1}), absent, absent, list({8})},
       {f32({8}, {1, 1, 1, 1, 1, 1, 1, 1})},
       {cubic}},
  });
  expect_near(
      {"resample",
       {f32({2}, {0, 1}), absent, absent, list({4})},
       {f32({4}, {-0.0703125 - 0.03515625, 0.2617188 - 0.03515625, 0.7382813 + 0.03515625, 1.0703125 + 0.03515625})},
       {cubic}});
}

TEST(ExtraResample, Refused) {
  const Elements x = image({1, 4});
  expect_refused({"resample", {x}, {x}}, "either scales or sizes");
  expect_refused({"resample", {x, absent, f32({2}, {1, 1}), list({1, 1})}, {x}}, "either scales or sizes");
  expect_refused({"resample", {x, absent, f32({2}, {1, -1})}, {x}}, "not positive");
  expect_refused({"resample", {x, absent, f32({2}, {1, std::nan("")})}, {x}}, "not positive");
  expect_refused({"resample", {x, absent, f32({1}, {1})}, {x}}, "does not have 2 numbers");
  expect_refused({"resample", {x, absent, f32({2}, {1, 1e30})}, {x}}, "out of range");
  expect_refused({"resample", {x, absent, absent, list({1, -1})}, {x}}, "out of range");
  expect_refused({"resample", {image({0}), absent, absent, list({1})}, {x}}, "cannot grow");
  expect_refused({"resample", {x, absent, absent, list({1})}, {x}, {integers("axes", {2})}}, "axis 2");
  expect_refused(
      {"resample", {image({2}, QN_BOOL), absent, absent, list({3})}, {image({}, QN_BOOL)}, {integers("mode", {1})}},
      "booleans");
  expect_refused({"resample", {x, absent, absent, list({1, 2})}, {x}, {integers("coordinates", {5})}},
                 "region is missing");
}

// ---- samples

TEST(ExtraSamples, Grid) {
  const Elements x = f32({1, 1, 2, 2}, {1, 2, 3, 4});
  const Elements places = f32({1, 1, 4, 2}, {-1, -1, 1, 1, 0, 0, 3, 0});
  const Parameter align = integers("align_corners", {1}), nearest = integers("mode", {0});
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  expect_all({
      {"grid_sample", {x, places}, {f32({1, 1, 1, 4}, {1, 4, 2.5, 0})}, {align}},
      {"grid_sample", {x, places}, {f32({1, 1, 1, 4}, {0.25, 1, 2.5, 0})}},
      {"grid_sample", {x, places}, {f32({1, 1, 1, 4}, {1, 4, 2.5, 3})}, {align, integers("padding", {1})}},
      {"grid_sample", {x, places}, {f32({1, 1, 1, 4}, {1, 4, 2.5, 2})}, {align, integers("padding", {2})}},
      {"grid_sample", {image({1, 1, 2, 2}, QN_U8), places}, {{QN_U8, {1, 1, 1, 4}, {0, 3, 0, 0}}}, {align, nearest}},
      {"grid_sample", {x, f32({1, 1, 2, 2}, {nan, 0, inf, 0})}, {f32({1, 1, 1, 2}, {0, 0})}, {nearest}},
      {"grid_sample",
       {x, f32({1, 1, 2, 2}, {1e30, 0, -1e30, 0})},
       {f32({1, 1, 1, 2}, {2, 1})},
       {nearest, integers("padding", {1})}},
      {"grid_sample",  // cubic convolution between 2, 2, 2, 1, at 1.5 and far beyond
       {x, f32({1, 1, 2, 2}, {2, -1, 9, -1})},
       {f32({1, 1, 1, 2}, {2.09375, 2})},
       {align, integers("mode", {2}), integers("padding", {1})}},
      {"grid_sample", {f32({1, 1, 3}, {1, 2, 4}), f32({1, 2, 1}, {0.5, 0})}, {f32({1, 1, 2}, {3, 2})}, {align}},
  });
  expect_refused({"grid_sample", {x, image({1, 1, 1, 3})}, {x}}, "does not fit");
  expect_refused({"grid_sample", {image({1, 1, 0, 2}), places}, {x}}, "no pixels");
  expect_refused({"grid_sample", {image({1, 1, 2, 2}, QN_U8), places}, {x}}, "not f32");
}

TEST(ExtraSamples, AffineGrid) {
  const Elements mirror = f32({1, 2, 3}, {-1, 0, 0, 0, 1, 0.5}), size = list({1, 1, 1, 2});
  expect_all({
      {"affine_grid", {mirror, size}, {f32({1, 1, 2, 2}, {0.5, 0.5, -0.5, 0.5})}},
      {"affine_grid", {mirror, size}, {f32({1, 1, 2, 2}, {1, 0.5, -1, 0.5})}, {integers("align_corners", {1})}},
  });
  expect_refused({"affine_grid", {mirror, list({2, 1, 1, 2})}, {mirror}}, "differ");
  expect_refused({"affine_grid", {mirror, list({1, 1, 1, -2})}, {mirror}}, "no size");
  expect_refused({"affine_grid", {image({1, 2, 2}), size}, {mirror}}, "matrices");
}

TEST(ExtraSamples, ImagesOfBlocks) {
  const Elements blocks = f32({1, 2, 3}, {1, 2, 3, 10, 20, 30});
  expect_all({
      {"join_blocks", {blocks, list({4}), list({2})}, {f32({1, 1, 4}, {1, 12, 23, 30})}},
      {"join_blocks", {blocks, list({2}), list({2})}, {f32({1, 1, 2}, {12, 23})}, {integers("pads", {1, 1})}},
      {"join_blocks",
       {blocks, list({6}), list({2})},
       {f32({1, 1, 6}, {1, 10, 2, 20, 3, 30})},
       {integers("strides", {2})}},
      {"join_blocks",
       {{QN_U8, {1, 2, 1}, {200, 100}}, list({1}), list({2})},
       {{QN_U8, {1, 1, 1}, {200}}},
       {integers("pads", {0, 1})}},
  });
  expect_refused({"join_blocks", {blocks, list({5}), list({2})}, {blocks}}, "do not fit the image");
  expect_refused({"join_blocks", {blocks, list({4}), list({0})}, {blocks}}, "out of range");
  expect_refused({"join_blocks", {blocks, list({1}), list({2})}, {blocks}}, "larger than the image");
}

// ---- spectra

TEST(ExtraSpectra, SameAsTheSum) {
  for (const size_t n : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 12u, 15u, 30u}) {
    for (const bool inverse : {false, true}) {
      Elements x = f32({1, n, 2}, {}), y = f32({1, n, 2}, {});
      for (size_t i = 0; i < 2 * n; ++i) x.values.push_back(std::round(8 * std::sin(static_cast<double>(3 * i + 1))));
      for (size_t k = 0; k < n; ++k) {
        double re = 0, im = 0;
        for (size_t i = 0; i < n; ++i) {
          const double turn =
              (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(i * k) / static_cast<double>(n);
          re += x.values[2 * i] * std::cos(turn) - x.values[2 * i + 1] * std::sin(turn);
          im += x.values[2 * i] * std::sin(turn) + x.values[2 * i + 1] * std::cos(turn);
        }
        const double factor = inverse ? 1 / static_cast<double>(n) : 1;
        y.values.insert(y.values.end(), {re * factor, im * factor});
      }
      expect_near({"dft", {x}, {y}, {integers("inverse", {inverse})}}, 2e-5);
    }
  }
}

TEST(ExtraSpectra, LengthsAxesAndFrames) {
  const Elements x = f32({1, 3, 1}, {1, 2, 3});
  expect_all({
      {"dft", {x, scalar(2)}, {f32({1, 2, 2}, {3, 0, -1, 0})}},
      {"dft", {x, scalar(4)}, {f32({1, 4, 2}, {6, 0, -2, -2, 2, 0, -2, 2})}},
      {"dft", {x, scalar(4)}, {f32({1, 3, 2}, {6, 0, -2, -2, 2, 0})}, {integers("onesided", {1})}},
      {"dft", {f32({2, 1, 1}, {1, 2}), absent, scalar(0)}, {f32({2, 1, 2}, {3, 0, -1, 0})}},
      {"dft", {f32({2, 1, 1}, {1, 2})}, {f32({2, 1, 2}, {3, 0, -1, 0})}, {integers("axis", {0})}},
      {"stft",
       {x, scalar(1), f32({2}, {1, 0.5})},
       {f32({1, 2, 2, 2}, {2, 0, 0, 0, 3.5, 0, 0.5, 0})},
       {integers("onesided", {1})}},
      {"stft", {x, scalar(2), absent, scalar(2)}, {f32({1, 1, 2, 2}, {3, 0, -1, 0})}},
  });
  expect_refused({"dft", {x, scalar(0)}, {x}}, "the length is out of range");
  expect_refused({"dft", {x, absent, scalar(2)}, {x}}, "the axis is that of the parts");
  expect_refused({"dft", {image({1, 3, 3})}, {x}}, "one or two parts");
  expect_refused({"dft", {image({1, 3, 2})}, {x}, {integers("onesided", {1})}}, "no onesided");
  expect_refused({"stft", {x, scalar(1), absent, scalar(4)}, {x}}, "longer than the signal");
  expect_refused({"stft", {x, scalar(0), absent, scalar(2)}, {x}}, "the step is out of range");
}

TEST(ExtraSpectra, MelWeights) {
  const auto hertz = [](double value) { return scalar(value, QN_F32); };
  expect_near({"mel_weights",  // edges at bins 0, 0, 2, 4
               {scalar(2), scalar(16), scalar(8192), hertz(0), hertz(4096)},
               {f32({9, 2}, {1, 0, 0.5, 0.5, 0, 1, 0, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})}});
  expect_refused({"mel_weights", {scalar(2), scalar(16), scalar(8192), hertz(0), hertz(1e6)}, {f32({}, {})}},
                 "outside");
  expect_refused({"mel_weights", {scalar(2), scalar(16), scalar(0), hertz(0), hertz(1)}, {f32({}, {})}}, "sample rate");
}

}  // namespace images_test
}  // namespace quern::test
