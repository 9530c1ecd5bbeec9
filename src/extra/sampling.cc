// Samples of images: at places that a grid lists, in regions; the grids; images put together from blocks.
#include <cmath>
#include <limits>

#include "extra/node.h"

namespace quern::extra {
namespace sampling {
namespace {

constexpr size_t most_spatial = 3;

// The number of dimensions of an image [N, C, ...].
size_t spatial_rank(const Node& node, size_t input) {
  const size_t rank = node.rank(input) < 2 ? 0 : node.rank(input) - 2;
  if (rank < 1 || rank > most_spatial) {
    node.fail("expected an image tensor, got rank " + std::to_string(node.rank(input)));
  }
  return rank;
}

// ---- samples at the places of a grid ------------------------------------------------------------

// Inputs: images [N, C, ...], and a grid [N, ..., places], whose places are x, y, ... from -1 to 1 across the image. With
// `align_corners` these are the centres of the outermost pixels, else their outer edges. `mode`: as of resample.
// `padding`: what is outside of the image, zeros (0), the outermost pixel (1), the mirrored image (2).
enum Padding : int64_t { zeros = 0, border = 1, reflection = 2 };

void infer_grid_sample(Inference& node) {
  const size_t n = spatial_rank(node, 0);
  const Shape x = node.shape(0), grid = node.shape(1);
  node.expect(1, QN_F32);
  if (node.integer("mode", 1) != 0) node.expect(0, QN_F32);
  if (grid.size() != x.size() || grid.back() != n || grid[0] != x[0]) node.fail("the grid does not fit the images");
  for (size_t d = 2; d < x.size(); ++d) {
    if (x[d] == 0) node.fail("the images have no pixels");
  }
  Shape shape = x.part(0, 2);
  shape.append(grid.part(1, n + 1));
  node.set(0, node.type(0), shape);
}

// Mirrors a place between two others. NaN stays.
float mirrored(float place, float low, float high) {
  const float range = high - low;
  if (range <= 0) return low;
  const float way = std::fmod(std::fabs(place - low), 2 * range);
  return low + (way <= range ? way : 2 * range - way);
}

// The pixels of one dimension that make a sample, and how much each counts.
struct Neighbours {
  size_t count;
  size_t index[4];
  float weight[4];
};

struct Sampler {
  int64_t mode;
  Padding padding;
  bool align_corners;

  explicit Sampler(const Node& node)
      : mode(node.integer("mode", 1)),
        padding(static_cast<Padding>(node.integer("padding", zeros))),
        align_corners(node.integer("align_corners", 0) != 0) {}

  // The pixel that stands at `place`, which may be outside. Returns false if that is 0.
  bool pixel(float place, size_t size, size_t* index) const {
    const float last = static_cast<float>(size) - 1;
    if (padding == zeros && !(place >= 0 && place <= last)) return false;
    if (padding == reflection) place = mirrored(place, low(), last - low());
    *index = std::min(static_cast<size_t>(std::fmin(std::fmax(place, 0.0f), last)), size - 1);
    return true;
  }

  Neighbours neighbours(float place, size_t size) const {
    const float last = static_cast<float>(size) - 1;
    float x = align_corners ? (place + 1) / 2 * last : ((place + 1) * static_cast<float>(size) - 1) / 2;
    if (mode == 0) x = std::nearbyint(x);
    if (!(x >= low() && x <= last - low())) {
      // Cubic convolution takes the place as it is, as PyTorch does, unless it is so far away that all neighbours are one.
      const float beyond = mode == 2 ? 3.0f : 0.0f;
      if (padding == border) x = std::fmin(std::fmax(x, -beyond), last + beyond);
      if (padding == reflection) x = mirrored(x, low(), last - low());
    }
    const float base = mode == 0 ? x : std::floor(x);
    const auto taps = static_cast<size_t>(mode == 0 ? 1 : mode == 1 ? 2 : 4);
    Neighbours n = {};
    for (size_t i = 0; i < taps; ++i) {
      const float at = base + static_cast<float>(i) - (mode == 2 ? 1.0f : 0.0f);
      if (!pixel(at, size, &n.index[n.count])) continue;
      n.weight[n.count++] = mode == 0 ? 1 : weight(x - at);
    }
    return n;
  }

 private:
  float low() const { return align_corners ? 0.0f : -0.5f; }

  float weight(float distance) const {
    constexpr float a = -0.75f;
    const float d = std::fabs(distance);
    if (mode == 1) return 1 - d;
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return a * (((d - 5) * d + 8) * d - 4);
  }
};

// The pixels of an image that make one sample.
struct Pixels {
  std::vector<size_t> index, new_index;
  std::vector<float> weight, new_weight;

  // `place`: x, y, ... of the sample; `shape`: ..., y, x of the image
  void find(const Sampler& sampler, const float* place, const Shape& shape) {
    index.assign(1, 0);
    weight.assign(1, 1.0f);
    for (size_t d = 0; d < shape.size(); ++d) {
      const Neighbours n = sampler.neighbours(place[shape.size() - 1 - d], shape[d]);
      new_index.clear();
      new_weight.clear();
      for (size_t i = 0; i < index.size(); ++i) {
        for (size_t k = 0; k < n.count; ++k) {
          new_index.push_back(index[i] * shape[d] + n.index[k]);
          new_weight.push_back(weight[i] * n.weight[k]);
        }
      }
      index.swap(new_index);
      weight.swap(new_weight);
    }
  }
};

template <class T>
void grid_sample(const Run& node) {
  const Sampler sampler(node);
  const Shape x_shape = node.shape(0), image = x_shape.part(2, x_shape.size());
  const size_t n = image.size(), channels = x_shape[1], size = count(image);
  const size_t places = count(node.shape(1).part(1, n + 1));
  const T* x = node.data<T>(0);
  const float* place = node.data<float>(1);
  T* y = node.output<T>(0);
  Pixels pixels;
  Pace pace;
  for (size_t item = 0; item < x_shape[0]; ++item, x += channels * size, y += channels * places) {
    for (size_t p = 0; p < places; ++p, place += n) {
      pixels.find(sampler, place, image);
      pace.did((channels + 8) * pixels.index.size());
      for (size_t c = 0; c < channels; ++c) {
        T sum = T();
        for (size_t i = 0; i < pixels.index.size(); ++i) {
          const T pixel = x[c * size + pixels.index[i]];
          if constexpr (std::is_same_v<T, float>) sum += pixels.weight[i] * pixel;
          if constexpr (!std::is_same_v<T, float>) sum = pixel;  // the nearest
        }
        y[c * places + p] = sum;
      }
    }
  }
}

void run_grid_sample(const Run& node) {
  with_type(node.type(0), [&](auto tag) { grid_sample<typename decltype(tag)::type>(node); });
}

// ---- grids --------------------------------------------------------------------------------------

// Inputs: matrices [N, n, n + 1], and the shape [N, C, ...] of images with n dimensions. The output is the grid of their
// pixels' places, transformed by the matrices.
void infer_affine_grid(Inference& node) {
  node.expect(0, QN_F32);
  const Shape matrices = node.shape(0);
  if (matrices.size() != 3 || matrices[1] < 1 || matrices[1] > most_spatial || matrices[2] != matrices[1] + 1) {
    node.fail("the matrices do not have 1 to 3 rows and one column more");
  }
  const std::vector<int64_t> size = node.values(1);
  if (size.size() != matrices[1] + 2) node.fail("the shape of the images does not fit the matrices");
  if (size[0] < 0 || static_cast<uint64_t>(size[0]) != matrices[0])
    node.fail("the number of matrices and images differ");
  Shape shape = {matrices[0]};
  for (size_t d = 2; d < size.size(); ++d) {
    if (size[d] < 0 || size[d] > std::numeric_limits<int32_t>::max()) node.fail("the images have no size");
    shape.push_back(static_cast<size_t>(size[d]));
  }
  shape.push_back(matrices[1]);
  node.set(0, QN_F32, shape);
}

void run_affine_grid(const Run& node) {
  const bool align = node.integer("align_corners", 0) != 0;
  const Shape shape = node.output_shape(0), image = shape.part(1, shape.size() - 1);
  const size_t n = image.size();
  const auto place = [&](size_t i, size_t size) {
    const auto at = static_cast<double>(i), last = static_cast<double>(size) - 1;
    if (align) return last == 0 ? 0 : 2 * at / last - 1;
    return (2 * at + 1) / (last + 1) - 1;
  };
  const float* matrix = node.data<float>(0);
  Pace pace;
  float* y = node.output<float>(0);
  for (size_t item = 0; item < shape[0]; ++item, matrix += n * (n + 1)) {
    for (size_t i = 0; i < count(image); ++i) {
      pace.did(16);
      double places[most_spatial + 1];
      size_t rest = i;
      for (size_t d = n; d-- > 0; rest /= image[d]) places[n - 1 - d] = place(rest % image[d], image[d]);
      places[n] = 1;
      for (size_t row = 0; row < n; ++row) {
        double sum = 0;
        for (size_t k = 0; k <= n; ++k) sum += double{matrix[row * (n + 1) + k]} * places[k];
        *y++ = static_cast<float>(sum);
      }
    }
  }
}

// ---- images of blocks ---------------------------------------------------------------------------

// Inputs: blocks [N, C * size of a block, number of blocks], the shape of the image and that of a block. The output [N, C,
// image] is the sum of the blocks, each at its place. Parameters `strides`, `dilations`, `pads` as of windows.
struct Blocks {
  Shape image, block, places;  // `places`: number of blocks in each dimension
  std::vector<int64_t> stride, dilation, before;
};

std::vector<int64_t> list_or(const Node& node, const char* parameter, size_t size, int64_t least, int64_t otherwise) {
  const auto given = node.integers(parameter);
  if (given.empty()) return std::vector<int64_t>(size, otherwise);
  if (given.size() != size) node.fail(std::string(parameter) + " does not fit the dimensions");
  for (const int64_t value : given) {
    if (value < least || value > std::numeric_limits<int32_t>::max()) {
      node.fail(std::string(parameter) + " is out of range");
    }
  }
  return {given.begin(), given.end()};
}

Blocks blocks_of(const Node& node) {
  const std::vector<int64_t> image = node.values(1), block = node.values(2);
  const size_t n = image.size();
  if (n < 1 || n > QN_MAX_RANK - 2 || block.size() != n) node.fail("the shapes of image and block do not fit");
  Blocks b;
  b.stride = list_or(node, "strides", n, 1, 1);
  b.dilation = list_or(node, "dilations", n, 1, 1);
  b.before = list_or(node, "pads", 2 * n, 0, 0);
  for (size_t d = 0; d < n; ++d) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    if (image[d] < 0 || image[d] > most || block[d] < 1 || block[d] > most) node.fail("a size is out of range");
    const int64_t free = image[d] + b.before[d] + b.before[n + d] - (b.dilation[d] * (block[d] - 1) + 1);
    if (free < 0) node.fail("a block is larger than the image");
    b.image.push_back(static_cast<size_t>(image[d]));
    b.block.push_back(static_cast<size_t>(block[d]));
    b.places.push_back(static_cast<size_t>(free / b.stride[d] + 1));
  }
  return b;
}

size_t checked_count(const Node& node, const Shape& shape) {
  size_t n = 1;
  for (const size_t d : shape) n = node.product(n, d);
  return n;
}

void infer_join_blocks(Inference& node) {
  const Blocks b = blocks_of(node);
  const Shape x = node.shape(0);
  const size_t block = checked_count(node, b.block);
  if (node.type(0) == QN_BOOL) node.fail("blocks of booleans");
  if (x.size() != 3 || x[1] % block != 0 || x[2] != checked_count(node, b.places)) {
    node.fail("the blocks do not fit the image");
  }
  Shape shape = {x[0], x[1] / block};
  shape.append(b.image);
  node.set(0, node.type(0), shape);
}

// Calls visit(place in the image) for each block, in their order, with its element at `offset`. Places outside are
// SIZE_MAX.
template <class Visit>
void each_place(const Blocks& b, const Shape& offset, Visit&& visit) {
  const size_t n = b.image.size(), total = count(b.places);
  Shape place(n, 0);
  Pace pace;
  for (size_t i = 0; i < total; ++i) {
    pace.did(8);
    size_t at = 0;
    for (size_t d = 0; d < n; ++d) {
      const int64_t p =
          static_cast<int64_t>(place[d]) * b.stride[d] - b.before[d] + static_cast<int64_t>(offset[d]) * b.dilation[d];
      const bool inside = at != SIZE_MAX && p >= 0 && p < static_cast<int64_t>(b.image[d]);
      at = inside ? at * b.image[d] + static_cast<size_t>(p) : SIZE_MAX;
    }
    visit(at);
    for (size_t d = n; d-- > 0 && ++place[d] == b.places[d];) place[d] = 0;
  }
}

template <class T>
void join_blocks(const Run& node) {
  using Sum = std::conditional_t<std::is_same_v<T, float>, float, uint64_t>;  // integers wrap around
  const Blocks b = blocks_of(node);
  const Shape x_shape = node.shape(0);
  const size_t block = count(b.block), size = count(b.image), images = x_shape[0] * (x_shape[1] / block);
  const T* x = node.data<T>(0);
  T* y = node.output<T>(0);
  std::fill_n(y, images * size, T());
  for (size_t image = 0; image < images; ++image, y += size) {
    Shape offset(b.block.size(), 0);
    for (size_t i = 0; i < block; ++i) {
      each_place(b, offset, [&](size_t at) {
        const T value = *x++;
        if (at != SIZE_MAX) y[at] = static_cast<T>(static_cast<Sum>(y[at]) + static_cast<Sum>(value));
      });
      for (size_t d = offset.size(); d-- > 0 && ++offset[d] == b.block[d];) offset[d] = 0;
    }
  }
}

void run_join_blocks(const Run& node) {
  with_type(node.type(0), [&](auto tag) { join_blocks<typename decltype(tag)::type>(node); });
}

constexpr qn_kind sampling_table[] = {
    kind<infer_grid_sample, run_grid_sample>("grid_sample", {2, 2}, 1),
    kind<infer_affine_grid, run_affine_grid>("affine_grid", {2, 2}, 1, 0, 1u << 1),
    kind<infer_join_blocks, run_join_blocks>("join_blocks", {3, 3}, 1, 0, 1u << 1 | 1u << 2),
};

}  // namespace
}  // namespace sampling

Kinds sampling_kinds() { return needed<sampling::sampling_table>(); }

}  // namespace quern::extra
