// Pooling over windows of one to three dimensions: maximums and their places, averages, norms; and the inverse of maximums.
#include <cmath>
#include <limits>

#include "extra/node.h"

namespace quern::extra {
namespace pools {
namespace {

// ---- windows ------------------------------------------------------------------------------------

// Parameters of all: `kernel`, `strides`, `dilations`, `pads` (before, then after), one number for each dimension behind
// the first two; `same`: padding follows the size, so that the output has size / stride, and an odd pixel of padding comes
// last (1) or first (2); `ceil`: a window that begins within the image and its padding in front counts, even if it leaves
// the padding behind.
constexpr size_t most_dimensions = 3;

// One dimension of an image and its windows.
struct Extent {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
};
// The dimensions of an image; those that it lacks come first, and have size 1.
using Extents = Extent[most_dimensions];

int64_t at_least(const Node& node, const char* parameter, size_t i, size_t count, int64_t least, int64_t otherwise) {
  const auto values = node.integers(parameter);
  if (values.empty()) return otherwise;
  if (values.size() != count) node.fail(std::string(parameter) + " does not fit the dimensions");
  if (values[i] < least || values[i] > std::numeric_limits<int32_t>::max()) {
    node.fail(std::string(parameter) + " is out of range");
  }
  return values[i];
}

void pad_to_same(int64_t same, Extent& e) {
  e.out = (e.in + e.stride - 1) / e.stride;
  const int64_t padding = std::max<int64_t>((e.out - 1) * e.stride + e.reach() - e.in, 0);
  e.before = same == 2 ? padding - padding / 2 : padding / 2;
  e.after = padding - e.before;
}

Extent extent_of(const Node& node, size_t i, size_t rank) {
  Extent e;
  if (node.shape(0)[2 + i] > std::numeric_limits<int32_t>::max()) node.fail("the image is too large");
  e.in = static_cast<int64_t>(node.shape(0)[2 + i]);
  e.kernel = at_least(node, "kernel", i, rank, 1, 0);
  if (e.kernel == 0) node.fail("kernel is missing");
  e.stride = at_least(node, "strides", i, rank, 1, 1);
  e.dilation = at_least(node, "dilations", i, rank, 1, 1);
  const int64_t same = node.integer("same", 0);
  if (same != 0) {
    pad_to_same(same, e);
    return e;
  }
  e.before = at_least(node, "pads", i, 2 * rank, 0, 0);
  e.after = at_least(node, "pads", rank + i, 2 * rank, 0, 0);
  const int64_t free = e.in + e.before + e.after - e.reach();
  if (free < 0) node.fail("the kernel is larger than the image with its padding");
  e.out = free / e.stride + 1;
  const bool more = node.integer("ceil", 0) != 0 && free % e.stride != 0 && e.out * e.stride < e.in + e.before;
  e.out += more ? 1 : 0;
  return e;
}

size_t read_extents(const Node& node, Extents& extents) {
  const size_t rank = node.rank(0) < 2 ? 0 : node.rank(0) - 2;
  if (rank < 1 || rank > most_dimensions) {
    node.fail("expected an image tensor, got rank " + std::to_string(node.rank(0)));
  }
  for (size_t i = 0; i < rank; ++i) extents[most_dimensions - rank + i] = extent_of(node, i, rank);
  return rank;
}

Shape pooled_shape(const Node& node) {
  Extents extents;
  const size_t rank = read_extents(node, extents);
  Shape shape = node.shape(0).part(0, 2);
  for (size_t i = 0; i < rank; ++i) shape.push_back(static_cast<size_t>(extents[most_dimensions - rank + i].out));
  return shape;
}

// What of one window lies in the image: `count` pixels from `first` on. `padded`: with those in the padding.
struct Taps {
  int64_t first, count, padded;
};

std::vector<Taps> taps_of(const Extent& e) {
  const auto steps = [&](int64_t distance) { return distance <= 0 ? 0 : (distance - 1) / e.dilation + 1; };
  std::vector<Taps> taps(static_cast<size_t>(e.out));
  for (int64_t o = 0; o < e.out; ++o) {
    const int64_t begin = o * e.stride - e.before, skipped = steps(-begin);
    const int64_t last = std::min(e.kernel, steps(e.in - begin));
    taps[static_cast<size_t>(o)] = {begin + skipped * e.dilation, std::max<int64_t>(last - skipped, 0),
                                    std::min(e.kernel, steps(e.in + e.after - begin))};
  }
  return taps;
}

// The windows of an image. each() calls visit(output element, image, taps of the three dimensions).
class Windows {
 public:
  explicit Windows(const Node& node) {
    if (count(pooled_shape(node)) == 0) return;
    read_extents(node, extents);
    for (size_t i = 0; i < most_dimensions; ++i) taps_[i] = taps_of(extents[i]);
    images_ = count(node.shape(0).part(0, 2));
  }

  Extents extents;

  size_t image_size() const { return static_cast<size_t>(extents[0].in * extents[1].in * extents[2].in); }

  template <class Visit>
  void each(Visit&& visit) const {
    size_t o = 0;
    for (size_t image = 0; image < images_; ++image) {
      for (const Taps& z : taps_[0]) {
        for (const Taps& y : taps_[1]) {
          for (const Taps& x : taps_[2]) visit(o++, image, z, y, x);
        }
      }
    }
  }

  // Calls visit(index within the image) for each pixel of a window.
  template <class Visit>
  void pixels(const Taps& z, const Taps& y, const Taps& x, Visit&& visit) const {
    look(static_cast<size_t>(z.count * y.count * x.count));
    for (int64_t i = 0; i < z.count; ++i) {
      const int64_t plane = (z.first + i * extents[0].dilation) * extents[1].in;
      for (int64_t j = 0; j < y.count; ++j) {
        const int64_t row = (plane + y.first + j * extents[1].dilation) * extents[2].in + x.first;
        for (int64_t k = 0; k < x.count; ++k) visit(static_cast<size_t>(row + k * extents[2].dilation));
      }
    }
  }

 private:
  std::vector<Taps> taps_[most_dimensions];
  size_t images_ = 0;
};

// ---- maximums -----------------------------------------------------------------------------------

// Outputs: the maximums, and their places in the whole input; with `column_major` a place within its image counts the
// first dimension fastest.
void infer_window_max(Inference& node) {
  const Shape shape = pooled_shape(node);
  node.set(0, node.type(0), shape);
  node.set(1, QN_S64, shape);
}

// Counts a pixel of an image with its first dimension the fastest.
size_t column_major(const Extents& e, size_t index) {
  const auto height = static_cast<size_t>(e[1].in), width = static_cast<size_t>(e[2].in);
  const auto depth = static_cast<size_t>(e[0].in);
  const size_t x = index % width, y = index / width % height, z = index / width / height;
  return z + depth * (y + height * x);
}

template <class T>
void window_max(const Run& node) {
  const Windows windows(node);
  const T* const x = node.data<T>(0);
  T* const y = node.output<T>(0);
  int64_t* const places = node.output_count() > 1 && node.output_type(1) != 0 ? node.output<int64_t>(1) : nullptr;
  const bool columns = node.integer("column_major", 0) != 0;
  const size_t size = windows.image_size();
  constexpr T nothing =
      std::is_same_v<T, float> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  windows.each([&](size_t o, size_t image, const Taps& a, const Taps& b, const Taps& c) {
    const T* const pixels = x + image * size;
    T best = nothing;
    size_t place = SIZE_MAX;
    windows.pixels(a, b, c, [&](size_t i) {
      if (place != SIZE_MAX && !(pixels[i] > best)) return;
      best = pixels[i];
      place = i;
    });
    y[o] = best;
    if (places == nullptr) return;
    const size_t within = columns && place != SIZE_MAX ? column_major(windows.extents, place) : place;
    places[o] = place == SIZE_MAX ? -1 : static_cast<int64_t>(image * size + within);
  });
}

void run_window_max(const Run& node) {
  with_type(node.type(0), [&](auto tag) { window_max<typename decltype(tag)::type>(node); });
}

// ---- averages and norms -------------------------------------------------------------------------

void infer_window_of_floats(Inference& node) {
  node.expect(0, QN_F32);
  node.set(0, QN_F32, pooled_shape(node));
}

// `count_padding`: pixels of the padding count, as zeros.
void run_window_average(const Run& node) {
  const Windows windows(node);
  const float* const x = node.data<float>(0);
  float* const y = node.output<float>(0);
  const bool padded = node.integer("count_padding", 0) != 0;
  windows.each([&](size_t o, size_t image, const Taps& a, const Taps& b, const Taps& c) {
    const float* const pixels = x + image * windows.image_size();
    double sum = 0;
    windows.pixels(a, b, c, [&](size_t i) { sum += pixels[i]; });
    double n = 1;
    for (const Taps* taps : {&a, &b, &c}) n *= static_cast<double>(padded ? taps->padded : taps->count);
    y[o] = n == 0 ? 0 : static_cast<float>(sum / n);
  });
}

// (sum of |x|^p)^(1/p)
void run_window_norm(const Run& node) {
  const Windows windows(node);
  const float* const x = node.data<float>(0);
  float* const y = node.output<float>(0);
  const double p = node.number("p", 2);
  windows.each([&](size_t o, size_t image, const Taps& a, const Taps& b, const Taps& c) {
    const float* const pixels = x + image * windows.image_size();
    double sum = 0;
    windows.pixels(a, b, c, [&](size_t i) { sum += std::pow(std::fabs(static_cast<double>(pixels[i])), p); });
    y[o] = static_cast<float>(std::pow(sum, 1 / p));
  });
}

void infer_window_norm(Inference& node) {
  if (!(node.number("p", 2) > 0)) node.fail("p is not positive");
  infer_window_of_floats(node);
}

// ---- the inverse of maximums --------------------------------------------------------------------

// Inputs: maximums, their places in the tensor that they come from, and optionally a shape for the output, which holds
// this tensor at its beginning. The rest is 0.
Shape unpooled_shape(const Node& node) {
  const size_t rank = node.rank(0) < 2 ? 0 : node.rank(0) - 2;
  if (rank < 1) node.fail("expected an image tensor, got rank " + std::to_string(node.rank(0)));
  Shape shape = node.shape(0).part(0, 2);
  for (size_t i = 0; i < rank; ++i) {
    const auto in = static_cast<int64_t>(node.shape(0)[2 + i]);
    const int64_t kernel = at_least(node, "kernel", i, rank, 1, 1), stride = at_least(node, "strides", i, rank, 1, 1);
    const int64_t pads = at_least(node, "pads", i, 2 * rank, 0, 0) + at_least(node, "pads", rank + i, 2 * rank, 0, 0);
    if (in > std::numeric_limits<int32_t>::max()) node.fail("the image is too large");
    const int64_t out = (in - 1) * stride - pads + kernel;
    if (out < 0) node.fail("the output would have a negative size");
    shape.push_back(static_cast<size_t>(out));
  }
  return shape;
}

void infer_max_unpool(Inference& node) {
  node.expect(1, QN_S64);
  if (!(node.shape(1) == node.shape(0))) node.fail("places do not have the shape of the maximums");
  Shape shape = unpooled_shape(node);
  if (node.has(2)) {
    const Shape inner = shape;
    const std::vector<int64_t> wanted = node.values(2);
    if (wanted.size() != shape.size()) node.fail("the shape of the output has another rank");
    for (size_t d = 0; d < shape.size(); ++d) {
      if (wanted[d] < static_cast<int64_t>(inner[d])) node.fail("the shape of the output is too small");
      shape[d] = static_cast<size_t>(wanted[d]);
    }
  }
  node.set(0, node.type(0), shape);
}

template <class T>
void max_unpool(const Run& node) {
  const Shape inner = unpooled_shape(node), shape = node.output_shape(0);
  const size_t inner_size = count(inner), n = count(node.shape(0));
  const Shape strides = strides_of(shape);
  const T* const x = node.data<T>(0);
  const int64_t* const places = node.data<int64_t>(1);
  T* const y = node.output<T>(0);
  std::fill_n(y, count(shape), T());
  Pace pace;
  for (size_t i = 0; i < n; ++i) {
    pace.did(8);
    if (places[i] < 0 || static_cast<uint64_t>(places[i]) >= inner_size) node.fail("a place lies outside the output");
    size_t rest = static_cast<size_t>(places[i]), at = 0;
    for (size_t d = inner.size(); d-- > 0; rest /= inner[d]) at += rest % inner[d] * strides[d];
    y[at] = x[i];
  }
}

void run_max_unpool(const Run& node) {
  with_type(node.type(0), [&](auto tag) { max_unpool<typename decltype(tag)::type>(node); });
}

constexpr qn_kind pool_table[] = {
    kind<infer_window_max, run_window_max>("window_max", {1, 1}, 2),
    kind<infer_window_of_floats, run_window_average>("window_average", {1, 1}, 1),
    kind<infer_window_norm, run_window_norm>("window_norm", {1, 1}, 1),
    kind<infer_max_unpool, run_max_unpool>("max_unpool", {2, 3}, 1, 0, 1u << 2),
};

}  // namespace
}  // namespace pools

Kinds pool_kinds() { return needed<pools::pool_table>(); }

}  // namespace quern::extra
