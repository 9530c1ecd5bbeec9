// Convolutions of any rank whose weights may be computed; transposed and deformable ones. Tensors are N, C, and then the
// dimensions of space, as in ONNX. All are products with a matrix of columns (im2col): a row for each channel and tap of
// the kernel, a column for each place of the output. It is made a block of columns after the other.
#include <algorithm>
#include <cmath>
#include <vector>

#include "extra/axis.h"
#include "extra/library.h"
#include "extra/node.h"

namespace quern::extra {
namespace convolution {
namespace {

// ---- windows

constexpr size_t limit = size_t{1} << 31;  // for every number of a window, so that sums and products cannot overflow

// Reads strides, dilations and pads (before and after each dimension). The kernel is that of the weights, input 1.
struct Window {
  Axes axes;
  Shape after;  // padding behind each dimension
};
Window window_of(const Node& node) {
  const size_t rank = node.rank(0) < 2 ? 0 : node.rank(0) - 2;
  const std::span<const int64_t> pads = node.integers("pads");
  const auto number = [&](std::span<const int64_t> list, size_t at, size_t count, int64_t otherwise, const char* what) {
    if (!list.empty() && list.size() != count) node.fail(std::string(what) + " do not fit the rank");
    const int64_t value = list.empty() ? otherwise : list[at];
    if (value < (otherwise == 0 ? 0 : 1) || static_cast<uint64_t>(value) >= limit)
      node.fail(std::string(what) + " are out of range");
    return static_cast<size_t>(value);
  };
  Window window;
  for (size_t d = 0; d < rank; ++d) {
    Axis axis = {};
    axis.pixels = node.shape(0)[2 + d];
    axis.taps = node.shape(1)[2 + d];
    axis.stride = number(node.integers("strides"), d, rank, 1, "strides");
    axis.dilation = number(node.integers("dilations"), d, rank, 1, "dilations");
    axis.before = number(pads, d, 2 * rank, 0, "pads");
    if (axis.taps == 0) node.fail("the kernel is empty");
    if (axis.pixels >= limit || axis.taps >= limit || (axis.taps - 1) * axis.dilation >= limit)
      node.fail("the window is too large");
    window.axes.push_back(axis);
    window.after.push_back(number(pads, rank + d, 2 * rank, 0, "pads"));
  }
  return window;
}

Shape places_of(const Axes& axes) {
  Shape places;
  for (const Axis& axis : axes) places.push_back(axis.places);
  return places;
}
Shape pixels_of(const Axes& axes) {
  Shape pixels;
  for (const Axis& axis : axes) pixels.push_back(axis.pixels);
  return pixels;
}
Shape taps_of(const Axes& axes) {
  Shape taps;
  for (const Axis& axis : axes) taps.push_back(axis.taps);
  return taps;
}

constexpr size_t enough_columns = 128;  // of a block

// Some columns, which are those of the places [begin, end).
struct Block {
  size_t begin, end;
  size_t size() const { return end - begin; }
};

// Calls visit(row, column, pixel, stride, count) for each run of a block's columns along the last dimension: `count`
// columns of the row from the block's column `column` on show pixels from `pixel` on, each `stride` from the one before.
// A row is a tap. The other columns show padding.
template <class Visit>
void each_run(const Axes& axes, Block block, Visit&& visit) {
  const Axis& inner = axes.back();
  const Axes outer(axes.begin(), axes.end() - 1);
  const Shape taps = taps_of(axes), places = places_of(outer);
  const Shape pixel_strides = strides_of(pixels_of(axes));
  Shape tap(taps.size(), 0), first_place(places.size(), 0), begin = first_place, end = first_place;
  for (size_t d = places.size(), line = block.begin / inner.places; d-- > 0; line /= places[d])
    first_place[d] = line % places[d];
  Pace pace;
  for (size_t row = 0, rows = count(taps); row < rows; ++row) {
    const size_t t = tap.back(), first_seen = inner.first(t), last_seen = inner.last(t);
    for (size_t d = 0; d < outer.size(); ++d) {
      begin[d] = outer[d].first(tap[d]);
      end[d] = outer[d].last(tap[d]);
    }
    pace.did(1);
    Shape place = first_place;
    for (size_t line = block.begin - block.begin % inner.places; line < block.end && first_seen < last_seen;
         line += inner.places) {
      const size_t first = std::max(line + first_seen, block.begin), last = std::min(line + last_seen, block.end);
      size_t pixel = inner.pixel(first - line, t);
      bool inside = first < last;
      for (size_t d = 0; d < outer.size(); ++d) {
        inside = inside && place[d] >= begin[d] && place[d] < end[d];
        if (inside) pixel += outer[d].pixel(place[d], tap[d]) * pixel_strides[d];
      }
      if (inside) {
        pace.did(last - first);
        visit(row, first - block.begin, pixel, inner.stride, last - first);
      }
      for (size_t d = places.size(); d-- > 0 && ++place[d] == places[d];) place[d] = 0;
    }
    for (size_t d = taps.size(); d-- > 0 && ++tap[d] == taps[d];) tap[d] = 0;
  }
}

// Writes columns of some channels, whose images lie one after the other.
void gather(const Axes& axes, Block block, size_t channels, const float* images, float* columns) {
  const size_t pixels = count(pixels_of(axes)), size = count(taps_of(axes)) * block.size();
  std::fill_n(columns, channels * size, 0.0f);
  each_run(axes, block, [&](size_t row, size_t column, size_t pixel, size_t stride, size_t n) {
    look(channels * n);
    for (size_t c = 0; c < channels; ++c) {
      const float* const from = images + c * pixels + pixel;
      float* const to = columns + c * size + row * block.size() + column;
      for (size_t i = 0; i < n; ++i) to[i] = from[i * stride];
    }
  });
}
// Adds columns of one channel to the pixels that they show.
void scatter(const Axes& axes, Block block, const float* columns, float* image) {
  each_run(axes, block, [&](size_t row, size_t column, size_t pixel, size_t stride, size_t n) {
    const float* const from = columns + row * block.size() + column;
    for (size_t i = 0; i < n; ++i) image[pixel + i * stride] += from[i];
  });
}

// ---- convolution

struct Convolution {
  Axes axes;
  size_t batch, groups, in, out;  // channels of one group
  size_t taps, places, pixels;    // of all dimensions together
};

void expect_floats(const Node& node) {
  for (size_t i = 0; i < node.input_count(); ++i) {
    if (node.has(i)) node.expect(i, QN_F32);
  }
}

size_t groups_of(const Node& node) {
  const int64_t groups = node.integer("groups", 1);
  if (groups < 1 || static_cast<uint64_t>(groups) >= limit) node.fail("groups are out of range");
  return static_cast<size_t>(groups);
}

// Checks ranks, and sets everything but the places.
Convolution begun(const Node& node, Window* window) {
  expect_floats(node);
  if (node.rank(0) < 3 || node.rank(1) != node.rank(0)) {
    node.fail("an input of rank " + std::to_string(node.rank(0)) + " and weights of rank " +
              std::to_string(node.rank(1)));
  }
  *window = window_of(node);
  Convolution c = {window->axes, node.shape(0)[0], groups_of(node), 0, 0, 1, 1, 1};
  for (const Axis& axis : c.axes) {
    c.taps = Layout::product(c.taps, axis.taps);
    c.pixels *= axis.pixels;
  }
  return c;
}

void expect_bias(const Node& node, size_t input, size_t channels) {
  if (node.has(input)) node.expect_shape(input, {channels});
}

// Sets how many places a window has in each dimension.
void place(const Node& node, const Window& window, Convolution* c) {
  for (size_t d = 0; d < c->axes.size(); ++d) {
    Axis& axis = c->axes[d];
    const size_t padded = axis.pixels + axis.before + window.after[d], reach = (axis.taps - 1) * axis.dilation + 1;
    if (padded < reach) node.fail("the window is larger than the image");
    axis.places = (padded - reach) / axis.stride + 1;
    c->places = Layout::product(c->places, axis.places);
  }
}

Convolution convolution_of(const Node& node) {
  Window window;
  Convolution c = begun(node, &window);
  const Shape x = node.shape(0), w = node.shape(1);
  c.in = w[1];
  c.out = w[0] / c.groups;
  if (w[0] % c.groups != 0 || x[1] % c.groups != 0 || x[1] / c.groups != c.in)
    node.fail("input, weights and groups do not fit");
  place(node, window, &c);
  return c;
}

Shape output_of(const Convolution& c) {
  Shape shape = {c.batch, c.groups * c.out};
  shape.append(places_of(c.axes));
  return shape;
}

void infer_conv(Inference& node) {
  const Convolution c = convolution_of(node);
  expect_bias(node, 2, c.groups * c.out);
  node.set(0, QN_F32, output_of(c));
}

void add_bias(const Node& node, size_t input, size_t batch, size_t channels, size_t pixels, float* y) {
  if (!node.has(input)) return;
  const float* const bias = node.data<float>(input);
  for (size_t i = 0; i < batch * channels; ++i) {
    look(pixels);
    for (size_t p = 0; p < pixels; ++p) y[i * pixels + p] += bias[i % channels];
  }
}

// Multiplies the weights of each group by the columns that `fill(image, group, block, columns)` writes.
template <class Fill>
void convolve(const Run& node, const Convolution& c, Fill&& fill) {
  float* const y = node.output<float>(0);
  if (c.in == 0) {  // there may be any number of taps
    std::fill_n(y, count(node.output_shape(0)), 0.0f);
    return;
  }
  const size_t depth = Layout::product(c.in, c.taps), size = block_size(depth, c.places, enough_columns);
  std::vector<float> columns(Layout::product(depth, size));
  const float* const w = node.data<float>(1);
  for (size_t n = 0; n < c.batch; ++n) {
    for (size_t g = 0; g < c.groups; ++g) {
      for (Block block = {0, 0}; block.begin < c.places; block.begin = block.end) {
        block.end = block.begin + std::min(size, c.places - block.begin);
        fill(n, g, block, columns.data());
        matrix_product(c.out, block.size(), depth, Factor<float>{w + g * c.out * depth, depth},
                       Factor<float>{columns.data(), block.size()},
                       y + (n * c.groups + g) * c.out * c.places + block.begin, c.places, node.parallel());
      }
    }
  }
}

void run_conv(const Run& node) {
  const Convolution c = convolution_of(node);
  convolve(node, c, [&](size_t n, size_t g, Block block, float* columns) {
    gather(c.axes, block, c.in, node.data<float>(0) + (n * c.groups + g) * c.in * c.pixels, columns);
  });
  add_bias(node, 2, c.batch, c.groups * c.out, c.places, node.output<float>(0));
}

// ---- transposed convolution

// The image of the convolution that is transposed is the output, and its places are the input's pixels.
Convolution transposed_of(const Node& node) {
  Window window;
  Convolution c = begun(node, &window);
  const Shape x = node.shape(0), w = node.shape(1);
  c.in = w[0] / c.groups;
  c.out = w[1];
  if (w[0] != x[1] || w[0] % c.groups != 0) node.fail("input, weights and groups do not fit");
  const std::span<const int64_t> more = node.integers("output_padding");
  if (!more.empty() && more.size() != c.axes.size()) node.fail("output_padding does not fit the rank");
  c.places = c.pixels;
  c.pixels = 1;
  for (size_t d = 0; d < c.axes.size(); ++d) {
    Axis& axis = c.axes[d];
    axis.places = axis.pixels;
    const int64_t extra = more.empty() ? 0 : more[d];
    if (extra < 0 || static_cast<uint64_t>(extra) >= limit) node.fail("output_padding is out of range");
    const size_t reach = (axis.taps - 1) * axis.dilation + 1 + static_cast<size_t>(extra);
    const size_t whole = axis.places == 0 ? 0 : (axis.places - 1) * axis.stride + reach;
    if (whole < axis.before + window.after[d]) node.fail("the padding is larger than the output");
    axis.pixels = whole - axis.before - window.after[d];
    c.pixels = Layout::product(c.pixels, axis.pixels);
  }
  return c;
}

void infer_transposed(Inference& node) {
  const Convolution c = transposed_of(node);
  expect_bias(node, 2, Layout::product(c.groups, c.out));
  Shape shape = {c.batch, c.groups * c.out};
  shape.append(pixels_of(c.axes));
  node.set(0, QN_F32, shape);
}

void add_products(const Run& node, const Convolution& c, float* y) {
  const size_t rows = Layout::product(c.out, c.taps), size = block_size(rows, c.places, enough_columns);
  std::vector<float> columns(Layout::product(rows, size));
  for (size_t g = 0; g < c.groups; ++g) {
    const std::vector<float> w = transposed_copy(node.data<float>(1) + g * c.in * rows, c.in, rows, rows);
    for (size_t n = 0; n < c.batch; ++n) {
      const float* const x = node.data<float>(0) + (n * c.groups + g) * c.in * c.places;
      float* const images = y + (n * c.groups + g) * c.out * c.pixels;
      // The first tap of a pixel belongs to its last place: from the last block to the first, taps are added in order.
      for (Block block = {c.places, c.places}; block.end > 0; block.end = block.begin) {
        block.begin = block.end - std::min(size, block.end);
        matrix_product(rows, block.size(), c.in, Factor<float>{w.data(), c.in},
                       Factor<float>{x + block.begin, c.places}, columns.data(), node.parallel());
        for (size_t o = 0; o < c.out; ++o) {
          scatter(c.axes, block, columns.data() + o * c.taps * block.size(), images + o * c.pixels);
        }
      }
    }
  }
}

void run_transposed(const Run& node) {
  const Convolution c = transposed_of(node);
  float* const y = node.output<float>(0);
  std::fill_n(y, c.batch * c.groups * c.out * c.pixels, 0.0f);
  if (c.in > 0) add_products(node, c, y);  // otherwise there may be any number of taps and places
  add_bias(node, 2, c.batch, c.groups * c.out, c.pixels, y);
}

// ---- deformable convolution: inputs are x, weights, offsets, bias, mask

size_t offset_groups_of(const Node& node, const Convolution& c) {
  const int64_t groups = node.integer("offset_groups", 1);
  const size_t channels = c.groups * c.in;
  if (groups < 1 || static_cast<uint64_t>(groups) > channels || channels % static_cast<size_t>(groups) != 0)
    node.fail("offset_groups do not divide the channels");
  return static_cast<size_t>(groups);
}

void infer_deformable(Inference& node) {
  const Convolution c = convolution_of(node);
  if (c.axes.size() != 2) node.fail("a deformable convolution of other than images");
  expect_bias(node, 3, c.groups * c.out);
  const size_t rows = Layout::product(offset_groups_of(node, c), c.taps);
  node.expect_shape(2, {c.batch, Layout::product(rows, 2), c.axes[0].places, c.axes[1].places});
  if (node.has(4)) node.expect_shape(4, {c.batch, rows, c.axes[0].places, c.axes[1].places});
  node.set(0, QN_F32, output_of(c));
}

// The value of an image between its pixels, which are surrounded by zeros.
float interpolated(const float* image, size_t height, size_t width, float y, float x) {
  if (!(y > -1 && x > -1 && y < static_cast<float>(height) && x < static_cast<float>(width))) return 0;
  const float top = std::floor(y), left = std::floor(x);
  const float down = y - top, right = x - left;
  const auto at = [&](float row, float column) {
    if (row < 0 || column < 0 || row >= static_cast<float>(height) || column >= static_cast<float>(width)) return 0.0f;
    return image[static_cast<size_t>(row) * width + static_cast<size_t>(column)];
  };
  return (1 - down) * ((1 - right) * at(top, left) + right * at(top, left + 1)) +
         down * ((1 - right) * at(top + 1, left) + right * at(top + 1, left + 1));
}

// Writes columns of one channel. `offsets`: for each tap, an image of offsets down, and one of offsets to the right.
void gather_deformed(const Convolution& c, Block block, const float* image, const float* offsets, const float* mask,
                     float* columns) {
  const Axis &rows = c.axes[0], &line = c.axes[1];
  Pace pace;
  for (size_t tap = 0; tap < c.taps; ++tap) {
    const auto down = static_cast<float>(tap / line.taps * rows.dilation) - static_cast<float>(rows.before);
    const auto right = static_cast<float>(tap % line.taps * line.dilation) - static_cast<float>(line.before);
    for (size_t place = block.begin; place < block.end; ++place) {
      pace.did(16);
      const float y =
          static_cast<float>(place / line.places * rows.stride) + down + offsets[2 * tap * c.places + place];
      const float x =
          static_cast<float>(place % line.places * line.stride) + right + offsets[(2 * tap + 1) * c.places + place];
      const float value = interpolated(image, rows.pixels, line.pixels, y, x);
      *columns++ = mask == nullptr ? value : value * mask[tap * c.places + place];
    }
  }
}

void run_deformable(const Run& node) {
  const Convolution c = convolution_of(node);
  const size_t offset_groups = offset_groups_of(node, c), channels = c.groups * c.in;
  convolve(node, c, [&](size_t n, size_t g, Block block, float* columns) {
    for (size_t i = 0; i < c.in; ++i) {
      const size_t channel = g * c.in + i;
      const size_t mask = (n * offset_groups + channel / (channels / offset_groups)) * c.taps * c.places;
      gather_deformed(c, block, node.data<float>(0) + (n * channels + channel) * c.pixels,
                      node.data<float>(2) + 2 * mask, node.has(4) ? node.data<float>(4) + mask : nullptr,
                      columns + i * c.taps * block.size());
    }
  });
  add_bias(node, 3, c.batch, c.groups * c.out, c.places, node.output<float>(0));
}

constexpr qn_kind kinds[] = {
    kind<infer_conv, unless_empty<run_conv>>("conv", {2, 3}, 1),
    kind<infer_transposed, unless_empty<run_transposed>>("conv_transposed", {2, 3}, 1),
    kind<infer_deformable, unless_empty<run_deformable>>("deform_conv", {3, 5}, 1),
};

}  // namespace
}  // namespace convolution

Kinds convolution_kinds() { return needed<convolution::kinds>(); }

}  // namespace quern::extra
