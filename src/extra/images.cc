// Resizing of tensors along any of their dimensions.
#include <cmath>
#include <cstring>
#include <limits>

#include "extra/node.h"
#include "extra/sized.h"

namespace quern::extra {
namespace resizing {
namespace {

// Inputs: x, and optionally a region (first places of all axes, then last ones, as parts of the tensor), scales and sizes,
// each for the dimensions `axes` (without it for all). Either scales or sizes are given.
//
// `mode`: how a place between elements gets its value. `coordinates`: which place of x an element of the output shows.
// `rounding`: which neighbour is nearest. `policy`, for sizes: 1 and 2 give all axes one scale, the least or the largest
// that the sizes ask for. `antialias`: if the output is smaller, more neighbours count. `exclude_outside`: neighbours
// outside of x count nothing instead of like the nearest one within. `cubic`: the parameter of cubic interpolation.
// `extrapolation`: the value of places outside of x, if the output shows a region.
enum Mode : int64_t { nearest = 0, linear = 1, cubic = 2 };
enum Coordinates : int64_t {
  half_pixel = 0,
  half_pixel_symmetric = 1,
  half_pixel_or_0 = 2,
  asymmetric = 3,
  align_corners = 4,
  region = 5,
  half_pixel_up = 6,  // half a pixel is not subtracted
};
enum Rounding : int64_t { prefer_floor = 0, prefer_ceil = 1, down = 2, up = 3, up_if_smaller = 4 };

// ---- sizes --------------------------------------------------------------------------------------

// How one dimension changes.
struct Change {
  size_t in = 0, out = 0;
  double scale = 1, wanted = 0;  // `wanted`: the size of the output before it was rounded
  double first = 0, last = 1;    // of the region

  bool is_none(Coordinates coordinates) const { return in == out && scale == 1 && coordinates != region; }
};
using Changes = std::vector<Change>;

std::vector<size_t> axes_of(const Node& node) {
  std::vector<size_t> axes;
  const size_t rank = node.rank(0);
  for (const int64_t axis : node.integers("axes")) axes.push_back(node.axis(axis, rank));
  if (!axes.empty()) return axes;
  for (size_t d = 0; d < rank; ++d) axes.push_back(d);
  return axes;
}

// The floats of an input, one (or two) for each axis.
const float* floats_for(const Node& node, size_t input, size_t wanted) {
  node.expect(input, QN_F32);
  if (count(node.shape(input)) != wanted) {
    node.fail("input " + std::to_string(input) + " does not have " + std::to_string(wanted) + " numbers");
  }
  return node.data<float>(input);
}

size_t size_from(const Node& node, double size) {
  if (!(size >= 0 && size <= std::numeric_limits<int32_t>::max())) node.fail("a size of the output is out of range");
  return static_cast<size_t>(size);
}

void set_scales(const Node& node, const std::vector<size_t>& axes, Coordinates coordinates, Changes& changes) {
  const float* const scales = floats_for(node, 2, axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    Change& c = changes[axes[i]];
    if (!(scales[i] > 0) || std::isinf(scales[i])) node.fail("a scale is not positive");
    c.scale = double{scales[i]};
    const float part = coordinates == region ? static_cast<float>(c.last - c.first) : 1.0f;
    c.out = size_from(node, std::floor(double{static_cast<float>(c.in) * part * scales[i]}));
    c.wanted = c.scale * static_cast<double>(c.in) * double{part};
  }
}

void set_sizes(const Node& node, const std::vector<size_t>& axes, Changes& changes) {
  const std::vector<int64_t> sizes = node.values(3);
  if (sizes.size() != axes.size()) node.fail("sizes do not fit the axes");
  const int64_t policy = node.integer("policy", 0);
  double common = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    Change& c = changes[axes[i]];
    c.out = size_from(node, static_cast<double>(sizes[i]));
    if (c.in == 0 && c.out != 0) node.fail("a dimension without elements cannot grow");
    c.scale = c.in == 0 ? 1 : static_cast<double>(c.out) / static_cast<double>(c.in);
    c.wanted = static_cast<double>(c.out);
    const bool replaces = policy == 1 ? c.scale < common : c.scale > common;
    if (i == 0 || replaces) common = c.scale;
  }
  if (policy == 0) return;
  for (const size_t axis : axes) {
    Change& c = changes[axis];
    c.scale = common;
    c.wanted = common * static_cast<double>(c.in);
    c.out = size_from(node, std::floor(c.wanted + 0.5));
  }
}

Changes changes_of(const Node& node) {
  const std::vector<size_t> axes = axes_of(node);
  const auto coordinates = static_cast<Coordinates>(node.integer("coordinates", half_pixel));
  Changes changes(node.rank(0));
  for (size_t d = 0; d < changes.size(); ++d) {
    changes[d].in = changes[d].out = node.shape(0)[d];
    changes[d].wanted = static_cast<double>(changes[d].in);
  }
  if (coordinates == region) {
    if (!node.has(1)) node.fail("the region is missing");
    const float* const region = floats_for(node, 1, 2 * axes.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      changes[axes[i]].first = double{region[i]};
      changes[axes[i]].last = double{region[axes.size() + i]};
    }
  }
  if (coordinates == region && node.integer("antialias", 0) != 0) node.fail("antialias of a region");
  if (node.has(2) == node.has(3)) node.fail("needs either scales or sizes");
  node.has(2) ? set_scales(node, axes, coordinates, changes) : set_sizes(node, axes, changes);
  for (const Change& c : changes) {
    if (c.in == 0 && c.out != 0) node.fail("a dimension without elements cannot grow");
  }
  return changes;
}

void infer_resample(Inference& node) {
  Shape shape;
  for (const Change& c : changes_of(node)) shape.push_back(c.out);
  node.set(0, node.type(0), shape);
}

// ---- places and weights -------------------------------------------------------------------------

// The place of x that element `i` of the output shows.
double place_of(const Change& c, Coordinates coordinates, size_t i) {
  const auto at = static_cast<double>(i), n = static_cast<double>(c.in);
  switch (coordinates) {
    case asymmetric:
      return double{static_cast<float>(i) / static_cast<float>(c.scale)};  // as ONNX Runtime: 3 / (1 / 3) is 9
    case align_corners: return c.wanted == 1 ? 0 : at * (n - 1) / (c.wanted - 1);
    case half_pixel_or_0: return c.out > 1 ? (at + 0.5) / c.scale - 0.5 : 0;
    case half_pixel_up: return (at + 0.5) / c.scale;
    case half_pixel_symmetric: return n / 2 * (1 - static_cast<double>(c.out) / c.wanted) + (at + 0.5) / c.scale - 0.5;
    case region:
      if (c.out == 1) return (c.first + c.last) / 2 * (n - 1);
      return c.first * (n - 1) + at * (c.last - c.first) * (n - 1) / (c.wanted - 1);
    default: return (at + 0.5) / c.scale - 0.5;
  }
}

// How much a neighbour counts at this distance.
double linear_weight(double distance) { return std::max(1 - std::fabs(distance), 0.0); }

double cubic_weight(double distance, double a) {
  const double x = std::fabs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? a * (((x - 5) * x + 8) * x - 4) : 0;
}

// The elements of x that make one of the output, and how much each counts. All lists of a dimension have one length.
struct Taps {
  size_t each = 0;
  std::vector<size_t> index;
  std::vector<float> weight;
  std::vector<char> outside;  // empty, or 1 for elements of the output that show nothing of x
};

class Resampling {
 public:
  explicit Resampling(const Node& node)
      : mode(static_cast<Mode>(node.integer("mode", nearest))),
        coordinates_(static_cast<Coordinates>(node.integer("coordinates", half_pixel))),
        rounding_(static_cast<Rounding>(node.integer("rounding", prefer_floor))),
        antialias_(node.integer("antialias", 0) != 0),
        exclude_outside_(node.integer("exclude_outside", 0) != 0),
        cubic_(double{node.number("cubic", -0.75f)}) {}

  const Mode mode;

  bool keeps(const Change& c) const { return c.is_none(coordinates_); }

  Taps taps(const Change& c) const {
    Taps taps;
    const double stretch = antialias_ ? std::min(c.scale, 1.0) : 1.0;  // of distances
    const double reach = (mode == cubic ? 2 : 1) / stretch;  // at most 4 times the elements, as there is an output
    const auto start = mode == nearest ? int64_t{0} : static_cast<int64_t>(std::floor(-reach)) + 1;
    taps.each = mode == nearest ? 1 : static_cast<size_t>(2 - 2 * start);
    Pace pace;
    for (size_t i = 0; i < c.out; ++i) {
      pace.did(8 * taps.each);
      double place = place_of(c, coordinates_, i);
      const auto end = static_cast<double>(c.in) - 1;
      const bool outside = coordinates_ == region && !(place >= 0 && place <= end);
      if (outside) taps.outside.resize(c.out);
      if (outside) taps.outside[i] = 1;
      place = std::fmin(std::fmax(place, -1 - end), 2 * end + 1);  // for hostile scales and regions
      mode == nearest ? add_nearest(place, c, taps) : add_neighbours(place, start, stretch, c.in, taps);
    }
    return taps;
  }

 private:
  void add_nearest(double place, const Change& c, Taps& taps) const {
    const double low = std::floor(place), part = place - low;
    const bool above = rounding_ == prefer_floor ? part > 0.5 : rounding_ == prefer_ceil ? part >= 0.5 : part > 0;
    const bool is_down = rounding_ == down || (rounding_ == up_if_smaller && c.scale >= 1);
    const double chosen = is_down || !above ? low : low + 1;
    taps.index.push_back(within(static_cast<int64_t>(chosen), c.in));
    taps.weight.push_back(1);
  }

  void add_neighbours(double place, int64_t start, double stretch, size_t in, Taps& taps) const {
    const double base = std::ceil(place) - 1;
    const size_t first = taps.weight.size();
    std::vector<double> weights(taps.each);
    double sum = 0;
    for (size_t k = 0; k < taps.each; ++k) {
      const int64_t index = static_cast<int64_t>(base) + start + static_cast<int64_t>(k);
      const double distance = (static_cast<double>(index) - place) * stretch;
      const bool counts = !exclude_outside_ || (index >= 0 && index < static_cast<int64_t>(in));
      if (counts) weights[k] = mode == linear ? linear_weight(distance) : cubic_weight(distance, cubic_);
      taps.index.push_back(within(index, in));
      sum += weights[k];
    }
    const bool normalize = (antialias_ || exclude_outside_) && sum != 0;
    taps.weight.resize(first + taps.each);
    for (size_t k = 0; k < taps.each; ++k) {
      taps.weight[first + k] = static_cast<float>(normalize ? weights[k] / sum : weights[k]);
    }
  }

  static size_t within(int64_t index, size_t in) {
    return static_cast<size_t>(std::clamp<int64_t>(index, 0, static_cast<int64_t>(in) - 1));
  }

  const Coordinates coordinates_;
  const Rounding rounding_;
  const bool antialias_, exclude_outside_;
  const double cubic_;
};

// ---- one dimension after the other --------------------------------------------------------------

// Makes [outer, out, inner] of [outer, in, inner].
template <class T>
void gather(const T* x, const Change& c, const Taps& taps, size_t outer, size_t inner, T* y) {
  Pace pace;
  for (size_t o = 0; o < outer; ++o, x += c.in * inner) {
    for (size_t i = 0; i < c.out; ++i, y += inner) pace.did(inner), std::copy_n(x + taps.index[i] * inner, inner, y);
  }
}

template <class T>
void mix(const T* x, const Change& c, const Taps& taps, size_t outer, size_t inner, T* y) {
  Pace pace;
  for (size_t o = 0; o < outer; ++o, x += c.in * inner) {
    const size_t* index = taps.index.data();
    const float* weight = taps.weight.data();
    for (size_t i = 0; i < c.out; ++i, y += inner) {
      std::fill_n(y, inner, T());
      for (size_t k = 0; k < taps.each; ++k, ++index, ++weight) {
        pace.did(inner);
        const T* const from = x + *index * inner;
        const T w = *weight;
        for (size_t j = 0; j < inner; ++j) y[j] += w * from[j];
      }
    }
  }
}

// Changes one dimension of x, which has `shape`.
template <class T>
void change(const Resampling& resampling, const Change& c, size_t d, Shape& shape, std::vector<T>& x) {
  const Taps taps = resampling.taps(c);
  const size_t outer = count(shape.part(0, d)), inner = count(shape.part(d + 1, shape.size()));
  shape[d] = c.out;
  std::vector<T> y(count(shape));
  if constexpr (std::is_floating_point_v<T>) {
    if (resampling.mode != nearest) mix(x.data(), c, taps, outer, inner, y.data());
  }
  if (resampling.mode == nearest) gather(x.data(), c, taps, outer, inner, y.data());
  x.swap(y);
}

// Dimensions that become smaller come first, so that no buffer is larger than input and output.
template <class T>
std::vector<T> resampled(const Resampling& resampling, const Changes& changes, std::vector<T> x) {
  Shape shape;
  for (const Change& c : changes) shape.push_back(c.in);
  for (const bool shrinks : {true, false}) {
    for (size_t d = 0; d < changes.size(); ++d) {
      const Change& c = changes[d];
      if ((c.out < c.in) == shrinks && !resampling.keeps(c)) change(resampling, c, d, shape, x);
    }
  }
  return x;
}

// Writes `value` to all elements that show nothing of x.
template <class T>
void extrapolate(const Resampling& resampling, const Changes& changes, const Shape& shape, T value, T* y) {
  for (size_t d = 0; d < changes.size(); ++d) {
    const std::vector<char> outside = resampling.taps(changes[d]).outside;
    const size_t inner = count(shape.part(d + 1, shape.size()));
    for (size_t i = 0; !outside.empty() && i < count(shape); ++i) {
      if (outside[i / inner % shape[d]] != 0) y[i] = value;
    }
  }
}

template <class T>
T saturated(double value) {
  if constexpr (std::is_same_v<T, float>) return static_cast<float>(value);
  const double rounded = std::nearbyint(value);
  if (rounded >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  if (!(rounded > static_cast<double>(std::numeric_limits<T>::lowest()))) return std::numeric_limits<T>::lowest();
  return static_cast<T>(rounded);
}

// Computes with numbers of type Sum.
template <class T, class Sum>
void resample_as(const Run& node, const Resampling& resampling, const Changes& changes) {
  const T* const x = node.data<T>(0);
  T* const y = node.output<T>(0);
  const std::vector<Sum> sums = resampled<Sum>(resampling, changes, std::vector<Sum>(x, x + count(node.shape(0))));
  if constexpr (std::is_same_v<T, Sum>) std::copy(sums.begin(), sums.end(), y);
  if constexpr (!std::is_same_v<T, Sum>) {
    std::transform(sums.begin(), sums.end(), y, [](Sum sum) { return saturated<T>(static_cast<double>(sum)); });
  }
  if (node.integer("coordinates", half_pixel) != region) return;
  extrapolate(resampling, changes, node.output_shape(0), saturated<T>(double{node.number("extrapolation", 0)}), y);
}

void run_resample(const Run& node) {
  const Changes changes = changes_of(node);
  const Shape shape = node.output_shape(0);
  if (count(shape) == 0) return;
  const Resampling resampling(node);
  with_type(node.type(0), [&](auto tag) {
    using Type = typename decltype(tag)::type;
    using T = std::conditional_t<std::is_same_v<Type, bool>, uint8_t, Type>;
    if (resampling.mode == nearest) return resample_as<T, T>(node, resampling, changes);
    if (std::is_same_v<Type, bool>) node.fail("booleans cannot be interpolated");
    using Sum = std::conditional_t<sizeof(T) == 1 || std::is_same_v<T, float>, float, double>;
    resample_as<T, Sum>(node, resampling, changes);
  });
}

constexpr qn_kind resample = kind<infer_resample, run_resample>("resample", {1, 4}, 1, 0, 1u << 1 | 1u << 2 | 1u << 3);

constexpr qn_kind image_table[] = {
    resample,
    sized<resample>("resample_sizes"),
};

}  // namespace
}  // namespace resizing

Kinds image_kinds() { return needed<resizing::image_table>(); }

}  // namespace quern::extra
