// Products of bytes with zero points: their sums as 32-bit integers, which wrap around, or quantized again.
#include <algorithm>
#include <cmath>

#include "extra/axis.h"
#include "extra/numbers.h"

namespace quern::extra {
namespace integer_functions {
namespace {

// Where a node has its operands. Input `zero` holds the zero points of input `bytes`, and may be absent.
struct Operand {
  size_t bytes, scale, zero;
};
// The outputs' own scale and zero point, and the bias of a convolution.
struct Result {
  size_t scale, zero, bias;
};

void expect_bytes(const Node& node, size_t input) {
  if (node.type(input) != QN_S8) node.expect(input, QN_U8);
}

// Fails unless input `input`, as a tensor of shape `as`, broadcasts to shape `to`.
void expect_to_fit(const Node& node, size_t input, const Shape& as, const Shape& to) {
  if (count(as) != count(node.shape(input)) || node.broadcast(as, to) != to) {
    node.fail("input " + std::to_string(input) + " does not fit the tensor that it scales or shifts");
  }
}

void check_operand(const Node& node, const Operand& operand, const Shape& zero_shape, const Shape& shape) {
  expect_bytes(node, operand.bytes);
  if (!node.has(operand.zero)) return;
  node.expect(operand.zero, node.type(operand.bytes));
  expect_to_fit(node, operand.zero, zero_shape, shape);
}

// Scales and zero point of a quantized result of shape `shape`.
void check_result(const Node& node, const Operand& a, const Shape& scale_a, const Operand& b, const Shape& scale_b,
                  const Result& result, qn_type type, const Shape& shape) {
  for (const size_t i : {a.scale, b.scale, result.scale}) node.expect(i, QN_F32);
  expect_to_fit(node, a.scale, scale_a, shape);
  expect_to_fit(node, b.scale, scale_b, shape);
  if (count(node.shape(result.scale)) != 1) node.fail("the result has several scales");
  if (type != QN_S8 && type != QN_U8) node.fail("the result is neither s8 nor u8");
  if (!node.has(result.zero)) return;
  node.expect(result.zero, type);
  if (count(node.shape(result.zero)) != 1) node.fail("the result has several zero points");
}

template <class Visit>
void with_byte(qn_type type, Visit&& visit) {
  if (type == QN_S8) return visit(Tag<int8_t>());
  visit(Tag<uint8_t>());
}

// The elements of an operand minus their zero points.
std::vector<int32_t> centred(const Run& node, const Operand& operand, const Shape& zero_shape, const Shape& shape) {
  std::vector<int32_t> out(count(shape));
  with_byte(node.type(operand.bytes), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T none = 0, *x = node.data<T>(operand.bytes);
    const bool has = node.has(operand.zero);
    const T* const zeros = has ? node.data<T>(operand.zero) : &none;
    const Rows<1> rows(shape, {broadcast_strides(has ? zero_shape : Shape{}, shape)});
    int32_t* to = out.data();
    rows.walk([&](const size_t(&at)[1]) {
      for (size_t i = 0; i < rows.length; ++i) *to++ = *x++ - zeros[at[0] + i * rows.steps[0]];
    });
  });
  return out;
}

// Scales sums, rounds them with halves to even, and limits them to the range of the output's type.
void requantize(const Run& node, const std::vector<int32_t>& sums, const Operand& a, const Shape& scale_a,
                const Operand& b, const Shape& scale_b, const Result& result) {
  const Shape shape = node.output_shape(0);
  const float scale = *node.data<float>(result.scale);
  const float *const of_a = node.data<float>(a.scale), *const of_b = node.data<float>(b.scale);
  with_byte(node.output_type(0), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const float zero = node.has(result.zero) ? *node.data<T>(result.zero) : 0.0f;
    T* const y = node.output<T>(0);
    walk(shape, {broadcast_strides(scale_a, shape), broadcast_strides(scale_b, shape)},
         [&](size_t i, const size_t(&at)[2]) {
           const float factor = of_a[at[0]] * of_b[at[1]] / scale;
           y[i] = number<T>(std::nearbyint(static_cast<float>(sums[i]) * factor) + zero);
         });
  });
}

// ---- matrix products

// NumPy's product of two tensors: matrices in the last two dimensions, the others are broadcast. Vectors count as a row
// and as a column.
struct Product {
  Shape a, b, y;  // with the dimensions that vectors lack
  Shape result;   // without them
};

Product product_of(const Node& node, const Operand& a, const Operand& b) {
  Product p{node.shape(a.bytes), node.shape(b.bytes), {}, {}};
  if (p.a.empty() || p.b.empty()) node.fail("an operand is a scalar");
  const bool row = p.a.size() == 1, column = p.b.size() == 1;
  if (row) p.a.insert(0, 1);
  if (column) p.b.push_back(1);
  const size_t depth = p.b[p.b.size() - 2];
  if (p.a.back() != depth) {
    node.fail("rows of " + std::to_string(p.a.back()) + " and columns of " + std::to_string(depth) + " do not fit");
  }
  p.y = node.broadcast(p.a.part(0, p.a.size() - 2), p.b.part(0, p.b.size() - 2));
  p.result = p.y;
  p.y.push_back(p.a[p.a.size() - 2]);
  p.y.push_back(p.b.back());
  if (!row) p.result.push_back(p.a[p.a.size() - 2]);
  if (!column) p.result.push_back(p.b.back());
  return p;
}

// Scales and zero points of rows: a vector has one for each row, as if it were a column.
Shape of_rows(const Node& node, size_t input) {
  Shape shape = node.has(input) ? node.shape(input) : Shape{};
  if (count(shape) == 1) return {};
  if (shape.size() == 1) shape.push_back(1);
  return shape;
}
Shape of_columns(const Node& node, size_t input) {
  const Shape shape = node.has(input) ? node.shape(input) : Shape{};
  return count(shape) == 1 ? Shape{} : shape;
}

std::vector<int32_t> multiply(const Run& node, const Operand& a, const Operand& b) {
  const Product p = product_of(node, a, b);
  const std::vector<int32_t> from_a = centred(node, a, of_rows(node, a.zero), p.a);
  const std::vector<int32_t> from_b = centred(node, b, of_columns(node, b.zero), p.b);
  std::vector<int32_t> sums(count(p.y));
  const size_t rank = p.y.size(), m = p.y[rank - 2], n = p.y[rank - 1], depth = p.a.back();
  const Shape batch = p.y.part(0, rank - 2);
  const Shape stride_a = broadcast_strides(p.a.part(0, p.a.size() - 2), batch);
  const Shape stride_b = broadcast_strides(p.b.part(0, p.b.size() - 2), batch);
  Pace pace;
  walk(batch, {stride_a, stride_b}, [&](size_t i, const size_t(&at)[2]) {
    for (size_t row = 0; row < m; ++row) {
      int32_t* const y = sums.data() + (i * m + row) * n;
      for (size_t k = 0; k < depth; ++k) {
        pace.did(n);
        const auto factor = static_cast<uint32_t>(from_a[(at[0] * m + row) * depth + k]);
        const int32_t* const line = from_b.data() + (at[1] * depth + k) * n;
        for (size_t j = 0; j < n; ++j) {
          y[j] = static_cast<int32_t>(static_cast<uint32_t>(y[j]) + factor * static_cast<uint32_t>(line[j]));
        }
      }
    }
  });
  return sums;
}

void check_product(const Node& node, const Operand& a, const Operand& b) {
  const Product p = product_of(node, a, b);
  check_operand(node, a, of_rows(node, a.zero), p.a);
  check_operand(node, b, of_columns(node, b.zero), p.b);
}

constexpr Operand plain_a = {0, 0, 2}, plain_b = {1, 0, 3};
void infer_product(Inference& node) {
  check_product(node, plain_a, plain_b);
  node.set(0, QN_S32, product_of(node, plain_a, plain_b).result);
}
void integer_product(const Run& node) {
  const std::vector<int32_t> sums = multiply(node, plain_a, plain_b);
  std::copy(sums.begin(), sums.end(), node.output<int32_t>(0));
}

constexpr Operand scaled_a = {0, 1, 2}, scaled_b = {3, 4, 5};
constexpr Result scaled_result = {6, 7, 8};
void infer_quantized_product(Inference& node) {
  check_product(node, scaled_a, scaled_b);
  const Product p = product_of(node, scaled_a, scaled_b);
  check_result(node, scaled_a, of_rows(node, scaled_a.scale), scaled_b, of_columns(node, scaled_b.scale), scaled_result,
               node.wanted(0), p.result);
  node.set(0, node.wanted(0), p.result);
}
void quantized_product(const Run& node) {
  requantize(node, multiply(node, scaled_a, scaled_b), scaled_a, of_rows(node, scaled_a.scale), scaled_b,
             of_columns(node, scaled_b.scale), scaled_result);
}

// ---- convolutions: images N, C, ...; weights O, C / groups, ...

struct Convolution {
  size_t images, channels, groups, outputs;
  Shape x, weights, y;
  Axes axes;
};

// Number `index` of a parameter that has `size` numbers, none of them below `least`.
size_t item(const Node& node, const char* list, size_t index, size_t size, size_t otherwise, int64_t least) {
  const std::span<const int64_t> values = node.integers(list);
  if (values.empty()) return otherwise;
  if (values.size() != size || values[index] < least || values[index] > INT32_MAX) {
    node.fail(std::string(list) + " has not the image's rank, or a value that is out of range");
  }
  return static_cast<size_t>(values[index]);
}

// `same`: 1 and 2 pad so that there are as many outputs as strides fit; of an odd number of pixels the last or the first
// gets one more.
Axis axis_of(const Node& node, size_t d, size_t dimensions, size_t in, size_t kernel) {
  if (in > INT32_MAX || kernel > INT32_MAX || kernel == 0) node.fail("a dimension of input or weights is out of range");
  if (item(node, "kernel", d, dimensions, kernel, 1) != kernel) node.fail("kernel differs from the weights");
  Axis axis = {in, kernel, 0, item(node, "strides", d, dimensions, 1, 1), item(node, "dilations", d, dimensions, 1, 1),
               0};
  const int64_t same = node.integer("same", 0);
  const size_t span = (kernel - 1) * axis.dilation + 1;
  size_t after = 0;
  if (same == 0) {
    axis.before = item(node, "pads", d, 2 * dimensions, 0, 0);
    after = item(node, "pads", dimensions + d, 2 * dimensions, 0, 0);
  }
  if (same != 0) {
    axis.places = (in + axis.stride - 1) / axis.stride;
    const size_t needed = axis.places == 0 ? 0 : (axis.places - 1) * axis.stride + span,
                 more = needed > in ? needed - in : 0;
    axis.before = (more + (same == 2 ? 1 : 0)) / 2;
  } else if (in + axis.before + after >= span) {
    axis.places = (in + axis.before + after - span) / axis.stride + 1;
  }
  return axis;
}

Convolution convolution_of(const Node& node, const Operand& x, const Operand& weights) {
  Convolution c = {};
  c.x = node.shape(x.bytes);
  c.weights = node.shape(weights.bytes);
  if (c.x.size() < 3 || c.weights.size() != c.x.size()) node.fail("input and weights have not the ranks of images");
  c.images = c.x[0];
  c.channels = c.weights[1];
  c.outputs = c.weights[0];
  const int64_t groups = node.integer("groups", 1);
  if (groups < 1 || groups > INT32_MAX) node.fail("groups is out of range");
  c.groups = static_cast<size_t>(groups);
  if (c.x[1] % c.groups != 0 || c.x[1] / c.groups != c.channels || c.outputs % c.groups != 0) {
    node.fail("the channels of input and weights do not fit");
  }
  c.y = {c.images, c.outputs};
  const size_t dimensions = c.x.size() - 2;
  for (size_t d = 0; d < dimensions; ++d) {
    c.axes.push_back(axis_of(node, d, dimensions, c.x[2 + d], c.weights[2 + d]));
    c.y.push_back(c.axes.back().places);
  }
  return c;
}

// One number for all, or one for each output channel, in front of `inner` dimensions.
Shape of_outputs(const Node& node, size_t input, size_t inner) {
  const Shape given = node.has(input) ? node.shape(input) : Shape{};
  if (count(given) == 1) return {};
  if (given.size() != 1)
    node.fail("input " + std::to_string(input) + ": expected a 1-D tensor, got rank " + std::to_string(given.size()));
  Shape shape = given;
  for (size_t d = 0; d < inner; ++d) shape.push_back(1);
  return shape;
}

Shape place(const Shape& shape, size_t element) {
  Shape at(shape.size());
  for (size_t d = shape.size(); d-- > 0; element /= shape[d]) at[d] = element % shape[d];
  return at;
}

// The places of the output for which a tap of the kernel is a pixel: how many there are in each dimension, and the first
// one and its pixel, as offsets in their images.
struct Seen {
  Shape places;
  size_t first, pixel;
};
Seen seen_by(const Axes& axes, const Shape& tap, const Shape& y_strides, const Shape& x_strides) {
  Seen seen = {};
  for (size_t d = 0; d < axes.size(); ++d) {
    const size_t first = axes[d].first(tap[d]);
    seen.places.push_back(axes[d].last(tap[d]) - first);
    seen.first += first * y_strides[d];
    seen.pixel += axes[d].pixel(first, tap[d]) * x_strides[d];
  }
  return seen;
}

// to += from * factor at all places, which have strides in `to` and in `from`. Sums wrap around.
void add_products(const Shape& places, const Shape (&strides)[2], const int32_t* from, int32_t factor, int32_t* to) {
  walk(places, strides, [&](size_t, const size_t* at) {
    const auto product = static_cast<uint32_t>(from[at[1]]) * static_cast<uint32_t>(factor);
    to[at[0]] = static_cast<int32_t>(static_cast<uint32_t>(to[at[0]]) + product);
  });
}

std::vector<int32_t> convolve(const Run& node, const Operand& x_operand, const Operand& weight_operand) {
  const Convolution c = convolution_of(node, x_operand, weight_operand);
  std::vector<int32_t> sums(count(c.y));
  if (sums.empty() || c.channels == 0) return sums;  // there may be any number of taps
  const std::vector<int32_t> x = centred(node, x_operand, {}, c.x);
  const Shape zero_shape = of_outputs(node, weight_operand.zero, c.weights.size() - 1);
  const std::vector<int32_t> weights = centred(node, weight_operand, zero_shape, c.weights);
  const Shape kernel = c.weights.part(2, c.weights.size()), image = c.x.part(2, c.x.size()),
              out = c.y.part(2, c.y.size());
  const size_t taps = count(kernel), in = count(image), pixels = count(out);
  const Shape x_strides = strides_of(image), y_strides = strides_of(out);
  Shape steps = x_strides;  // from a place to the next one
  for (size_t d = 0; d < steps.size(); ++d) steps[d] *= c.axes[d].stride;
  // Tap by tap, so that padding costs nothing: a kernel may be far larger than the image.
  for (size_t t = 0; t < taps; ++t) {
    look(64);
    const Seen seen = seen_by(c.axes, place(kernel, t), y_strides, x_strides);
    if (count(seen.places) == 0) continue;
    for (size_t i = 0; i < c.images * c.outputs; ++i) {
      const size_t output = i % c.outputs, group = i / c.outputs * c.groups + output / (c.outputs / c.groups);
      const int32_t* const images = x.data() + group * c.channels * in + seen.pixel;
      const int32_t* const factors = weights.data() + output * c.channels * taps + t;
      int32_t* const to = sums.data() + i * pixels + seen.first;
      for (size_t k = 0; k < c.channels; ++k) {
        add_products(seen.places, {y_strides, steps}, images + k * in, factors[k * taps], to);
      }
    }
  }
  return sums;
}

Convolution checked_convolution(const Node& node, const Operand& x, const Operand& weights) {
  Convolution c = convolution_of(node, x, weights);
  check_operand(node, x, {}, c.x);
  check_operand(node, weights, of_outputs(node, weights.zero, c.weights.size() - 1), c.weights);
  return c;
}

void infer_convolution(Inference& node) { node.set(0, QN_S32, checked_convolution(node, plain_a, plain_b).y); }
void integer_convolution(const Run& node) {
  const std::vector<int32_t> sums = convolve(node, plain_a, plain_b);
  std::copy(sums.begin(), sums.end(), node.output<int32_t>(0));
}

void infer_quantized_convolution(Inference& node) {
  const Convolution c = checked_convolution(node, scaled_a, scaled_b);
  check_result(node, scaled_a, {}, scaled_b, of_outputs(node, scaled_b.scale, c.axes.size()), scaled_result,
               node.wanted(0), c.y);
  if (node.has(scaled_result.bias)) {
    node.expect(scaled_result.bias, QN_S32);
    if (node.shape(scaled_result.bias) != Shape{c.outputs}) node.fail("there is not one bias for each output channel");
  }
  node.set(0, node.wanted(0), c.y);
}
void quantized_convolution(const Run& node) {
  std::vector<int32_t> sums = convolve(node, scaled_a, scaled_b);
  const Shape shape = node.output_shape(0);
  const size_t dimensions = shape.size() - 2, pixels = count(shape.part(2, shape.size()));
  if (node.has(scaled_result.bias)) {
    const int32_t* const bias = node.data<int32_t>(scaled_result.bias);
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] =
          static_cast<int32_t>(static_cast<uint32_t>(sums[i]) + static_cast<uint32_t>(bias[i / pixels % shape[1]]));
    }
  }
  requantize(node, sums, scaled_a, {}, scaled_b, of_outputs(node, scaled_b.scale, dimensions), scaled_result);
}

constexpr qn_kind kinds[] = {
    kind<infer_convolution, integer_convolution>("conv_integer", {2, 4}, 1),
    kind<infer_product, integer_product>("mat_mul_integer", {2, 4}, 1),
    kind<infer_quantized_convolution, quantized_convolution>("conv_quantized", {8, 9}, 1),
    kind<infer_quantized_product, quantized_product>("mat_mul_quantized", {8, 8}, 1),
};

}  // namespace
}  // namespace integer_functions

Kinds integer_kinds() { return needed<integer_functions::kinds>(); }

}  // namespace quern::extra
