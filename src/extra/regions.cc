// Regions of interest: rectangles of images, sampled or pooled to one size.
#include <cmath>
#include <limits>

#include "extra/node.h"

namespace quern::extra {
namespace regions {
namespace {

// Inputs: images [N, C, H, W], and regions. Parameters: `size` (height, width) of the output, and `scale`, by which the
// places of regions are multiplied.
struct Regions {
  size_t images, channels, height, width;  // of the input
  size_t count, rows, columns;             // of the output
  float scale;
};

// `numbers`: of each region
Regions regions_of(const Node& node, size_t numbers) {
  node.expect(0, QN_F32);
  node.expect(1, QN_F32);
  const Shape x = node.shape(0), regions = node.shape(1);
  if (x.size() != 4) node.fail("the images do not have four dimensions");
  if (regions.size() != 2 || regions[1] != numbers) {
    node.fail("regions do not have " + std::to_string(numbers) + " numbers each");
  }
  const auto size = node.integers("size");
  constexpr int64_t most = 1 << 16;
  if (size.size() != 2 || size[0] < 1 || size[1] < 1 || size[0] > most || size[1] > most) {
    node.fail("the size of the output is out of range");
  }
  if (x[2] < 1 || x[3] < 1 || x[2] > (1u << 24) || x[3] > (1u << 24)) node.fail("the size of images is out of range");
  return {x[0],
          x[1],
          x[2],
          x[3],
          regions[0],
          static_cast<size_t>(size[0]),
          static_cast<size_t>(size[1]),
          node.number("scale", 1)};
}

void infer_regions(Inference& node, const Regions& r, size_t channels) {
  node.set(0, QN_F32, {r.count, channels, r.rows, r.columns});
}

// The image of a region.
template <class T>
size_t image_of(const Node& node, const Regions& r, T number) {
  if (!(number >= 0 && number < static_cast<T>(r.images))) node.fail("a region lies in no image");
  return static_cast<size_t>(number);
}

// ---- regions sampled between pixels -------------------------------------------------------------

// Regions: left, top, right, bottom; input 2 is the image of each. Each pixel of the output is the average (or the
// largest, with `maximum`) of `samples` x `samples` places, without the parameter of as many as there are pixels. With
// `half_pixel` the centre of the first pixel is at 0.5.
constexpr float most_samples = 1 << 20;  // in one dimension of a region

// One place in one dimension lies between two pixels. Places outside have no weight.
struct Between {
  size_t low, high;
  float low_weight, high_weight;
};

Between between(float place, size_t size) {
  if (!(place >= -1 && place <= static_cast<float>(size))) return {0, 0, 0, 0};
  place = std::max(place, 0.0f);
  const auto low = static_cast<size_t>(place);
  if (low >= size - 1) return {size - 1, size - 1, 1, 0};
  const float part = place - static_cast<float>(low);
  return {low, low + 1, 1 - part, part};
}

// The samples of one dimension of a region, those of one pixel of the output after the other.
struct Samples {
  size_t each;
  std::vector<Between> places;
};

Samples samples_of(const Node& node, float begin, float end, size_t pixels, size_t size) {
  const bool half_pixel = node.integer("half_pixel", 0) != 0;
  const float shift = half_pixel ? 0.5f : 0.0f;
  const float first = begin - shift;
  const float length = half_pixel ? end - begin : std::max(end - begin, 1.0f);
  const float bin = length / static_cast<float>(pixels);
  const auto wanted = static_cast<float>(node.integer("samples", 0));
  const float each = wanted > 0 ? wanted : std::max(std::ceil(bin), 0.0f);
  if (!(each * static_cast<float>(pixels) <= most_samples)) node.fail("a region is too large");
  Samples samples = {static_cast<size_t>(each), {}};
  for (size_t p = 0; p < pixels; ++p) {
    for (size_t i = 0; i < samples.each; ++i) {
      const float at = first + static_cast<float>(p) * bin + (static_cast<float>(i) + 0.5f) * bin / each;
      samples.places.push_back(between(at, size));
    }
  }
  return samples;
}

float sample(const float* x, size_t width, const Between& v, const Between& h, bool maximum) {
  const float parts[4] = {v.low_weight * h.low_weight * x[v.low * width + h.low],
                          v.low_weight * h.high_weight * x[v.low * width + h.high],
                          v.high_weight * h.low_weight * x[v.high * width + h.low],
                          v.high_weight * h.high_weight * x[v.high * width + h.high]};
  return maximum ? *std::max_element(parts, parts + 4) : parts[0] + parts[1] + parts[2] + parts[3];
}

// One pixel of the output.
float sampled(const float* x, size_t width, const Between* rows, size_t height, const Between* columns, size_t across,
              bool maximum) {
  float sum = 0, largest = 0;
  for (size_t i = 0; i < height; ++i) {
    for (size_t j = 0; j < across; ++j) {
      const float value = sample(x, width, rows[i], columns[j], maximum);
      sum += value;
      largest = i + j == 0 ? value : std::max(largest, value);
    }
  }
  return maximum ? largest : sum / static_cast<float>(std::max<size_t>(height * across, 1));
}

void infer_roi_align(Inference& node) {
  const Regions r = regions_of(node, 4);
  if (node.rank(2) != 1 || node.shape(2)[0] != r.count) node.fail("images of regions do not fit the regions");
  infer_regions(node, r, r.channels);
}

void run_roi_align(const Run& node) {
  const Regions r = regions_of(node, 4);
  const bool maximum = node.integer("maximum", 0) != 0;
  const std::vector<int64_t> images = node.values(2);
  float* y = node.output<float>(0);
  Pace pace;
  for (size_t i = 0; i < r.count; ++i) {
    const float* const region = node.data<float>(1) + 4 * i;
    const Samples rows = samples_of(node, region[1] * r.scale, region[3] * r.scale, r.rows, r.height);
    const Samples columns = samples_of(node, region[0] * r.scale, region[2] * r.scale, r.columns, r.width);
    const float* x = node.data<float>(0) + image_of(node, r, images[i]) * r.channels * r.height * r.width;
    for (size_t c = 0; c < r.channels; ++c, x += r.height * r.width) {
      for (size_t row = 0; row < r.rows; ++row) {
        for (size_t column = 0; column < r.columns; ++column) {
          pace.did(4 * rows.each * columns.each);
          *y++ = sampled(x, r.width, rows.places.data() + row * rows.each, rows.each,
                         columns.places.data() + column * columns.each, columns.each, maximum);
        }
      }
    }
  }
}

// ---- regions pooled -----------------------------------------------------------------------------

// Regions: number of the image, left, top, right, bottom.
struct Interval {
  size_t begin, end;
};

// The pixels of bin `i` of a region from `first` on. They may be none.
Interval interval_of(const Node& node, float first, float bin, size_t i, size_t size) {
  const float whole = std::floor(first), part = first - whole;
  const float begin = std::floor(static_cast<float>(i) * bin + part) + whole;
  const float end = std::ceil(static_cast<float>(i + 1) * bin + part) + whole;
  if (!(std::fabs(begin) < 1e9f && std::fabs(end) < 1e9f)) node.fail("a region is out of range");
  const auto within = [&](float place) {
    return static_cast<size_t>(std::clamp(place, 0.0f, static_cast<float>(size)));
  };
  return {within(begin), within(end)};
}

// Calls visit(image, region, row, column, vertical, horizontal) for each bin; `widen`(begin, end) makes of two places,
// not yet scaled, the first place and the length of a region.
template <class Widen, class Visit>
void each_bin(const Node& node, const Regions& r, Widen&& widen, Visit&& visit) {
  for (size_t i = 0; i < r.count; ++i) {
    const float* const region = node.data<float>(1) + 5 * i;
    const size_t image = image_of(node, r, region[0]);
    const auto [left, width] = widen(region[1], region[3]);
    const auto [top, height] = widen(region[2], region[4]);
    for (size_t row = 0; row < r.rows; ++row) {
      const Interval v = interval_of(node, top, height / static_cast<float>(r.rows), row, r.height);
      for (size_t column = 0; column < r.columns; ++column) {
        const Interval h = interval_of(node, left, width / static_cast<float>(r.columns), column, r.width);
        visit(image, i, row, column, v, h);
        look(r.channels * (std::max(v.end, v.begin) - v.begin) * (std::max(h.end, h.begin) - h.begin));
      }
    }
  }
}

struct Line {
  float first, length;
};

void infer_roi_max(Inference& node) {
  const Regions r = regions_of(node, 5);
  infer_regions(node, r, r.channels);
}

// The largest pixel of each bin; 0 where a bin has none.
void run_roi_max(const Run& node) {
  const Regions r = regions_of(node, 5);
  const auto widen = [&](float begin, float end) -> Line {
    const float first = std::round(begin * r.scale);
    return {first, std::max(std::round(end * r.scale) - first + 1, 1.0f)};
  };
  const size_t size = r.height * r.width;
  each_bin(node, r, widen, [&](size_t image, size_t region, size_t row, size_t column, Interval v, Interval h) {
    const float* x = node.data<float>(0) + image * r.channels * size;
    for (size_t c = 0; c < r.channels; ++c, x += size) {
      float largest = v.begin < v.end && h.begin < h.end ? -std::numeric_limits<float>::infinity() : 0;
      for (size_t i = v.begin; i < v.end; ++i) {
        for (size_t j = h.begin; j < h.end; ++j) largest = std::max(largest, x[i * r.width + j]);
      }
      node.output<float>(0)[((region * r.channels + c) * r.rows + row) * r.columns + column] = largest;
    }
  });
}

// The channels of the input belong to the pixels of the output: all first of these, then all second, ... of each channel
// of the output, of which there are `size` times `size` times fewer. A pixel is the average of its bin in its channel.
size_t channels_by_place(const Node& node, const Regions& r) {
  const size_t bins = r.rows * r.columns;
  if (r.channels % bins != 0) node.fail("the channels do not divide among the pixels of the output");
  return r.channels / bins;
}

void infer_roi_average_by_place(Inference& node) {
  const Regions r = regions_of(node, 5);
  infer_regions(node, r, channels_by_place(node, r));
}

void run_roi_average_by_place(const Run& node) {
  const Regions r = regions_of(node, 5);
  const size_t channels = channels_by_place(node, r), bins = r.rows * r.columns, size = r.height * r.width;
  const auto widen = [&](float begin, float end) -> Line {
    const float first = std::round(begin) * r.scale;
    return {first, std::max((std::round(end) + 1) * r.scale - first, 0.1f)};
  };
  each_bin(node, r, widen, [&](size_t image, size_t region, size_t row, size_t column, Interval v, Interval h) {
    const size_t bin = row * r.columns + column;
    const float* x = node.data<float>(0) + (image * r.channels + bin) * size;
    for (size_t c = 0; c < channels; ++c, x += bins * size) {
      float sum = 0;
      for (size_t i = v.begin; i < v.end; ++i) {
        for (size_t j = h.begin; j < h.end; ++j) sum += x[i * r.width + j];
      }
      const bool empty = v.begin >= v.end || h.begin >= h.end;
      const size_t pixels = empty ? 1 : (v.end - v.begin) * (h.end - h.begin);
      node.output<float>(0)[(region * channels + c) * bins + bin] = sum / static_cast<float>(pixels);
    }
  });
}

// ---- regions resized ----------------------------------------------------------------------------

// Regions: top, left, bottom, right, as parts of the way from the first pixel's centre to the last one's; input 2 is the
// image of each. The outermost pixels of the output lie on the edges of the region. Parameters: `nearest`, and
// `extrapolation`, the pixels that lie outside of the image.

// Where a pixel of the output lies between pixels of the input, in one dimension.
struct Place {
  bool inside;
  size_t low, high;
  float part;  // how much of it lies towards `high`
};

std::vector<Place> places_of(float begin, float end, size_t pixels, size_t size, bool nearest) {
  const float last = static_cast<float>(size) - 1;
  const float step = pixels > 1 ? (end - begin) * last / (static_cast<float>(pixels) - 1) : 0;
  const float first = pixels > 1 ? begin * last : 0.5f * (begin + end) * last;
  std::vector<Place> places;
  for (size_t i = 0; i < pixels; ++i) {
    const float at = first + static_cast<float>(i) * step;
    const bool inside = at >= 0 && at <= last;  // NaN is outside
    const float low = !inside ? 0 : nearest ? std::round(at) : std::floor(at);
    const auto index = static_cast<size_t>(low);
    places.push_back({inside, index, nearest ? index : std::min(index + 1, size - 1), nearest ? 0 : at - low});
  }
  return places;
}

void infer_crop_and_resize(Inference& node) {
  const Regions r = regions_of(node, 4);
  if (node.rank(2) != 1 || node.shape(2)[0] != r.count) node.fail("images of regions do not fit the regions");
  infer_regions(node, r, r.channels);
}

void crop_channel(const float* x, size_t width, const std::vector<Place>& rows, const std::vector<Place>& columns,
                  float outside, float* y) {
  for (const Place& v : rows) {
    for (const Place& h : columns) {
      const float *top = x + v.low * width, *bottom = x + v.high * width;
      const float above = top[h.low] + (top[h.high] - top[h.low]) * h.part;
      const float below = bottom[h.low] + (bottom[h.high] - bottom[h.low]) * h.part;
      *y++ = v.inside && h.inside ? above + (below - above) * v.part : outside;
    }
  }
}

void run_crop_and_resize(const Run& node) {
  const Regions r = regions_of(node, 4);
  const bool nearest = node.integer("nearest", 0) != 0;
  const float outside = node.number("extrapolation", 0);
  const std::vector<int64_t> images = node.values(2);
  const size_t size = r.height * r.width;
  float* y = node.output<float>(0);
  Pace pace;
  for (size_t i = 0; i < r.count; ++i) {
    const float* const region = node.data<float>(1) + 4 * i;
    const std::vector<Place> rows = places_of(region[0], region[2], r.rows, r.height, nearest);
    const std::vector<Place> columns = places_of(region[1], region[3], r.columns, r.width, nearest);
    const float* x = node.data<float>(0) + image_of(node, r, images[i]) * r.channels * size;
    for (size_t c = 0; c < r.channels; ++c, x += size, y += r.rows * r.columns) {
      pace.did(4 * r.rows * r.columns);
      crop_channel(x, r.width, rows, columns, outside, y);
    }
  }
}

constexpr qn_kind region_table[] = {
    kind<infer_crop_and_resize, run_crop_and_resize>("crop_and_resize", {3, 3}, 1),
    kind<infer_roi_align, run_roi_align>("roi_align", {3, 3}, 1),
    kind<infer_roi_max, run_roi_max>("roi_max", {2, 2}, 1),
    kind<infer_roi_average_by_place, run_roi_average_by_place>("roi_average_by_place", {2, 2}, 1),
};

}  // namespace
}  // namespace regions

Kinds region_kinds() { return needed<regions::region_table>(); }

}  // namespace quern::extra
