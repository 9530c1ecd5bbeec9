// Convolutions whose weights may be computed, against loops over taps and pixels.
#include "near.h"

namespace quern::test {
namespace convolution_test {

// An image has two dimensions of space; a signal is one with a single row.
struct Window {
  size_t in = 4, out = 6, groups = 1;  // channels
  size_t h = 5, w = 6, kh = 3, kw = 2;
  int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t top = 0, left = 0, bottom = 0, right = 0;
  int64_t more_h = 0, more_w = 0;  // output_padding
};

std::vector<Parameter> parameters_of(const Window& c, bool transposed) {
  std::vector<Parameter> all = {
      integers("strides", {c.stride_h, c.stride_w}), integers("dilations", {c.dilation_h, c.dilation_w}),
      integers("pads", {c.top, c.left, c.bottom, c.right}), integers("groups", {static_cast<int64_t>(c.groups)})};
  if (transposed) all.push_back(integers("output_padding", {c.more_h, c.more_w}));
  return all;
}

// Calls visit(input pixel, output pixel, tap, input channel, output channel, sample) for all that a convolution multiplies;
// a transposed one the other way round. `big` and `small` are its image and the image of its places.
template <class Visit>
void each_product(const Window& c, size_t big_h, size_t big_w, size_t small_h, size_t small_w, Visit&& visit) {
  for (size_t y = 0; y < small_h; ++y) {
    for (size_t x = 0; x < small_w; ++x) {
      for (size_t i = 0; i < c.kh; ++i) {
        for (size_t j = 0; j < c.kw; ++j) {
          const int64_t row = static_cast<int64_t>(y) * c.stride_h + static_cast<int64_t>(i) * c.dilation_h - c.top;
          const int64_t column = static_cast<int64_t>(x) * c.stride_w + static_cast<int64_t>(j) * c.dilation_w - c.left;
          if (row < 0 || column < 0 || row >= static_cast<int64_t>(big_h) || column >= static_cast<int64_t>(big_w))
            continue;
          visit(static_cast<size_t>(row) * big_w + static_cast<size_t>(column), y * small_w + x, i * c.kw + j);
        }
      }
    }
  }
}

size_t places(size_t pixels, size_t taps, int64_t stride, int64_t dilation, int64_t before, int64_t after) {
  return static_cast<size_t>(
      (static_cast<int64_t>(pixels) + before + after - static_cast<int64_t>(taps - 1) * dilation - 1) / stride + 1);
}

constexpr size_t batch = 2;

NodeCase convolution(const Window& c) {
  const size_t h = places(c.h, c.kh, c.stride_h, c.dilation_h, c.top, c.bottom);
  const size_t w = places(c.w, c.kw, c.stride_w, c.dilation_w, c.left, c.right);
  const size_t in = c.in / c.groups, out = c.out / c.groups, taps = c.kh * c.kw;
  const Elements x = random_floats({batch, c.in, c.h, c.w}, 1), weights = random_floats({c.out, in, c.kh, c.kw}, 2);
  const Elements bias = random_floats({c.out}, 3);
  Elements y = random_floats({batch, c.out, h, w});
  for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = bias.values[i / (h * w) % c.out];
  for (size_t n = 0; n < batch * c.out * in; ++n) {
    const size_t sample = n / (c.out * in), o = n / in % c.out, i = n % in;
    each_product(c, c.h, c.w, h, w, [&](size_t pixel, size_t place, size_t tap) {
      y.values[(sample * c.out + o) * h * w + place] +=
          x.values[(sample * c.in + o / out * in + i) * c.h * c.w + pixel] * weights.values[(o * in + i) * taps + tap];
    });
  }
  return {"conv", {x, weights, bias}, {y}, parameters_of(c, false)};
}

NodeCase transposed(const Window& c) {
  const auto size = [](size_t n, int64_t stride, size_t taps, int64_t dilation, int64_t more, int64_t pads) {
    return static_cast<size_t>(static_cast<int64_t>(n - 1) * stride + static_cast<int64_t>(taps - 1) * dilation + 1 +
                               more - pads);
  };
  const size_t h = size(c.h, c.stride_h, c.kh, c.dilation_h, c.more_h, c.top + c.bottom);
  const size_t w = size(c.w, c.stride_w, c.kw, c.dilation_w, c.more_w, c.left + c.right);
  const size_t in = c.in / c.groups, out = c.out / c.groups, taps = c.kh * c.kw;
  const Elements x = random_floats({batch, c.in, c.h, c.w}, 1), weights = random_floats({c.in, out, c.kh, c.kw}, 2);
  const Elements bias = random_floats({c.out}, 3);
  Elements y = random_floats({batch, c.out, h, w});
  for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = bias.values[i / (h * w) % c.out];
  for (size_t n = 0; n < batch * c.in * out; ++n) {
    const size_t sample = n / (c.in * out), i = n / out % c.in, o = n % out;
    each_product(c, h, w, c.h, c.w, [&](size_t pixel, size_t place, size_t tap) {
      y.values[(sample * c.out + i / in * out + o) * h * w + pixel] +=
          x.values[(sample * c.in + i) * c.h * c.w + place] * weights.values[(i * out + o) * taps + tap];
    });
  }
  return {"conv_transposed", {x, weights, bias}, {y}, parameters_of(c, true)};
}

const Window windows[] = {
    {},
    {.top = 1, .left = 2, .bottom = 0, .right = 1},
    {.groups = 2, .stride_h = 2, .stride_w = 3},
    {.in = 3, .out = 6, .groups = 3, .dilation_h = 2, .dilation_w = 3},
    {.h = 1, .w = 12, .kh = 1, .kw = 5, .stride_w = 2, .left = 3, .right = 4},
    {.h = 2, .w = 2, .kh = 4, .kw = 4, .top = 3, .left = 3, .bottom = 3, .right = 3},  // wider than the image
    {.stride_h = 4, .stride_w = 4, .top = 1, .left = 1, .bottom = 1, .right = 1, .more_h = 2, .more_w = 3},
};

TEST(ExtraConvolution, Windows) {
  for (const Window& window : windows) expect_near(convolution(window));
}

TEST(ExtraConvolution, Transposed) {
  for (const Window& window : windows) {
    const bool grows = window.h > 2;  // the padding of a small image would leave nothing
    if (grows || window.kh == 1) expect_near(transposed(window));
  }
}

// Images whose columns do not fit into one block. The blocks end within lines.
TEST(ExtraConvolution, ManyColumns) {
  expect_near(convolution({.h = 61, .w = 67, .kh = 7, .kw = 9, .top = 3, .left = 4, .bottom = 2, .right = 5}), 1e-4);
  expect_near(transposed({.h = 47, .w = 53, .kh = 9, .kw = 7, .stride_h = 2, .dilation_w = 2, .top = 3, .left = 9}),
              1e-4);
}

TEST(ExtraConvolution, OneAndThreeDimensions) {
  const Elements x = floats({1, 1, 4}, {1, 2, 3, 4}), weights = floats({1, 1, 2}, {1, 10});
  expect_near({"conv", {x, weights}, {floats({1, 1, 3}, {21, 32, 43})}});
  expect_near({"conv_transposed", {x, weights}, {floats({1, 1, 5}, {1, 12, 23, 34, 40})}});
  const Elements cube = floats({1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_near({"conv", {cube, floats({1, 1, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 2})}, {floats({1, 1, 1, 1, 1}, {44})}});
}

TEST(ExtraConvolution, Deformed) {
  const Elements x = floats({1, 1, 2, 2}, {1, 2, 3, 4}), weights = floats({1, 1, 1, 1}, {1});
  const auto expect = [&](const std::vector<double>& offsets, const std::vector<double>& y) {
    expect_near({"deform_conv", {x, weights, floats({1, 2, 2, 2}, offsets)}, {floats({1, 1, 2, 2}, y)}});
  };
  expect({0, 0, 0, 0, 0, 0, 0, 0}, {1, 2, 3, 4});
  expect({1, 0, -1, 0, 0, 0, 0, -1}, {3, 2, 1, 3});        // down, up; left
  expect({0.5, 0, 0, 0, 0.5, 0, 0, 0}, {2.5, 2, 3, 4});    // between four pixels
  expect({-0.5, -1, 5, NAN, 0, 0, 0, 0}, {0.5, 0, 0, 0});  // outside are zeros
  const Elements still = floats({1, 2, 2, 2}, std::vector<double>(8));
  expect_near({"deform_conv",
               {x, weights, still, floats({1}, {10}), floats({1, 1, 2, 2}, {1, 0, 2, 0.5})},
               {floats({1, 1, 2, 2}, {11, 10, 16, 12})}});
}

// Without offsets it is a convolution.
TEST(ExtraConvolution, DeformedByNothing) {
  for (const Window& window : windows) {
    NodeCase node = convolution(window);
    const auto& y = node.outputs[0].shape;
    node.kind = "deform_conv";
    for (const size_t groups : {size_t{1}, window.in}) {
      NodeCase same = node;
      const std::vector<size_t> shape = {batch, 2 * groups * window.kh * window.kw, y[2], y[3]};
      same.inputs.insert(same.inputs.begin() + 2, floats(shape, std::vector<double>(size_of(shape))));
      same.parameters.push_back(integers("offset_groups", {static_cast<int64_t>(groups)}));
      expect_near(same);
    }
  }
}

TEST(ExtraConvolution, Refusals) {
  const Elements x = random_floats({1, 4, 5, 5}), w = random_floats({2, 4, 3, 3}), y = floats({}, {});
  const auto refused = [&](std::vector<Elements> inputs, std::vector<Parameter> parameters, const char* why,
                           const char* kind = "conv") {
    expect_refused({kind, std::move(inputs), {y}, std::move(parameters)}, why);
  };
  refused({random_floats({1, 4}), random_floats({2, 4})}, {}, "an input of rank 2");
  refused({x, random_floats({2, 4, 3})}, {}, "weights of rank 3");
  refused({x, random_floats({2, 3, 3, 3})}, {}, "input, weights and groups do not fit");
  refused({x, w}, {integers("groups", {3})}, "input, weights and groups do not fit");
  refused({x, w}, {integers("groups", {0})}, "groups are out of range");
  refused({x, w}, {integers("strides", {0, 1})}, "strides are out of range");
  refused({x, w}, {integers("strides", {1})}, "strides do not fit the rank");
  refused({x, w}, {integers("pads", {0, 0, -1, 0})}, "pads are out of range");
  refused({x, w}, {integers("dilations", {int64_t{1} << 40, 1})}, "dilations are out of range");
  refused({x, w}, {integers("dilations", {3, 1})}, "the window is larger than the image");
  refused({x, w, random_floats({3})}, {}, "input 2 is [3], not [2]");
  refused({x, random_floats({4, 2, 3, 3})}, {integers("pads", {9, 0, 9, 0})}, "the padding is larger",
          "conv_transposed");
  refused({x, random_floats({3, 2, 3, 3})}, {}, "do not fit", "conv_transposed");
  refused({x, w, random_floats({1, 18, 3, 2})}, {}, "input 2 is [1, 18, 3, 2], not [1, 18, 3, 3]", "deform_conv");
  refused({x, w, random_floats({1, 18, 3, 3})}, {integers("offset_groups", {3})}, "do not divide", "deform_conv");
}

}  // namespace convolution_test
}  // namespace quern::test
