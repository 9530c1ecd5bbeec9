#include "naive.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "base/math.h"
#include "small_graphs.h"

namespace quern::test {

Graph graph_of_kind(OpKind kind) {
  GraphBuilder b;
  const int x = b.input("x", {2, 5, 6, 4});
  const auto one = [&](Vector<int> inputs, Attributes attributes = {}) {
    b.output(b.node(kind, std::move(inputs), std::move(attributes)), "y");
  };
  switch (kind) {
    case OpKind::conv2d:
      one({x, b.constant({8, 3, 3, 2}), b.constant({8})}, [] {
        Attributes a = window(1, 2, 1);
        a.groups = 2;
        a.max = 1.5f;
        return a;
      }());
      break;
    case OpKind::fully_connected: one({x, b.constant({3, 4})}, range(0, 1)); break;
    case OpKind::max_pool: one({x}, window(3, 2, 1)); break;
    case OpKind::average_pool:
      one({x}, [] {
        Attributes a = window(3, 2, 1);
        a.ceil_mode = a.count_padding = true;
        return a;
      }());
      break;
    case OpKind::add:
    case OpKind::sub: one({x, b.input("z", {6, 1})}, range(-0.5, 0.75)); break;
    case OpKind::mul: one({b.input("z", {1, 4}), x}); break;
    case OpKind::div: one({x, b.constant({2, 1, 1, 4}, 1, 2)}); break;
    case OpKind::clamp: one({x}, range(-0.5, 0.5)); break;
    case OpKind::power: one({x}, power(0.5, 2, -0.75)); break;
    case OpKind::prelu: one({x, b.constant({4})}); break;
    case OpKind::scale: one({x, b.constant({4}), b.constant({4})}, range(0, 1)); break;
    case OpKind::softmax: one({x}, axis(1)); break;
    case OpKind::concat: one({x, b.input("z", {2, 5, 3, 4}), b.constant({2, 5, 1, 4})}, axis(2)); break;
    case OpKind::lrn:
      one({x}, [] {
        Attributes a = power(1, 0.75, 2);
        a.size = 3;
        return a;
      }());
      break;
    case OpKind::pad:
      one({x}, [] {
        Attributes a = values({0, 1, 2, 0, 1, 0, 3, 2});
        a.alpha = -2;
        return a;
      }());
      break;
    case OpKind::resize:
      one({x}, [] {
        Attributes a = values({7, 9});
        a.mode = QN_RESIZE_BILINEAR;
        return a;
      }());
      break;
    case OpKind::reshape: one({x}, values({0, 10, -1})); break;
    case OpKind::transpose: one({x}, values({3, 0, 2, 1})); break;
    case OpKind::slice: one({x}, values({1, 0, 2, 1, 2, -1, 5, 3})); break;
    case OpKind::quantize:
    case OpKind::dequantize: b.output(b.node(OpKind::dequantize, {b.quantized(x, 0.0625f, 3)}), "y"); break;
    case OpKind::requantize: {
      const int q = b.as_bytes(b.node(kind, {b.quantized(x, 0.0625f, 3)}), 0.125f, -5);
      b.output(b.node(OpKind::dequantize, {q}), "y");
      break;
    }
    default: one({x}); break;
  }
  return b.done();
}

namespace {

using Shape = std::vector<size_t>;
using Index = std::vector<size_t>;

Shape shape_of(const Graph& graph, int tensor) {
  const auto& shape = graph.tensors[static_cast<size_t>(tensor)].shape;
  return {shape.begin(), shape.end()};
}

size_t count(const Shape& shape) {
  size_t n = 1;
  for (const size_t d : shape) n *= d;
  return n;
}

size_t offset(const Shape& shape, const Index& index) {
  size_t n = 0;
  for (size_t d = 0; d < shape.size(); ++d) n = n * shape[d] + index[d];
  return n;
}

Index unravel(const Shape& shape, size_t n) {
  Index index(shape.size());
  for (size_t d = shape.size(); d-- > 0; n /= shape[d]) index[d] = n % shape[d];
  return index;
}

// A node with its values at hand.
struct Call {
  const Graph& graph;
  const Node& node;
  Values& values;

  const Attributes& a() const { return node.attributes; }
  bool has(size_t i) const { return i < node.inputs.size() && node.inputs[i] != no_tensor; }
  Shape shape(size_t i) const { return shape_of(graph, node.inputs[i]); }
  Shape out_shape() const { return shape_of(graph, node.outputs[0]); }
  const std::vector<float>& in(size_t i) const { return values.at(node.inputs[i]); }
  float in(size_t i, const Index& index) const { return in(i)[offset(shape(i), index)]; }

  double clamped(double x) const { return std::min<double>(std::max<double>(x, a().min), a().max); }

  // Fills the output from a function of the index. A quantized output gets the nearest numbers that it can hold.
  void fill(const std::function<double(const Index&)>& f) const {
    const Shape shape = out_shape();
    const Tensor& tensor = graph.tensors[static_cast<size_t>(node.outputs[0])];
    std::vector<float> out(count(shape));
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(held(tensor, f(unravel(shape, i))));
    values[node.outputs[0]] = out;
  }

  static double held(const Tensor& tensor, double x) {
    if (tensor.type == QN_F32) return x;
    const qn_quantization q = quantization_of(tensor);
    const double low = tensor.type == QN_S8 ? -128 : 0, zero = q.zero_point, scale = double{q.scale};
    return (std::clamp(std::nearbyint(x / scale) + zero, low, low + 255) - zero) * scale;
  }
};

void convert(const Call& c) {
  c.fill([&](const Index& o) { return double{c.in(0, o)}; });
}

void conv2d(const Call& c) {
  const Attributes& a = c.a();
  const Shape x = c.shape(0), w = c.shape(1);
  const size_t outputs_per_group = w[0] / a.groups;
  c.fill([&](const Index& o) {
    double sum = c.has(2) ? c.in(2)[o[3]] : 0;
    for (size_t kh = 0; kh < w[1]; ++kh) {
      for (size_t kw = 0; kw < w[2]; ++kw) {
        const size_t h = o[1] * a.stride.h + kh * a.dilation.h - a.padding.top;  // huge where negative
        const size_t v = o[2] * a.stride.w + kw * a.dilation.w - a.padding.left;
        if (h >= x[1] || v >= x[2]) continue;
        const float* in = &c.in(0)[offset(x, {o[0], h, v, o[3] / outputs_per_group * w[3]})];
        const float* weights = &c.in(1)[offset(w, {o[3], kh, kw, 0})];
        for (size_t i = 0; i < w[3]; ++i) sum += double{in[i]} * double{weights[i]};
      }
    }
    return c.clamped(sum);
  });
}

void fully_connected(const Call& c) {
  const size_t n = c.shape(1)[1], outputs = c.shape(1)[0];
  const Shape out = c.out_shape();
  c.fill([&](const Index& o) {
    const size_t row = offset(out, o) / outputs;
    double sum = c.has(2) ? c.in(2)[o.back()] : 0;
    for (size_t i = 0; i < n; ++i) sum += double{c.in(0)[row * n + i]} * double{c.in(1)[o.back() * n + i]};
    return c.clamped(sum);
  });
}

// An average of bytes, rounded as the node says; other averages are left as they are.
double rounded_average(const Call& c, double average) {
  const Tensor& tensor = c.graph.tensors[static_cast<size_t>(c.node.inputs[0])];
  if (c.a().pool_rounding == QN_POOL_ROUND_REAL || tensor.type != QN_S8) return average;
  const double scale = double{tensor.quantization.scales[0]};
  const int zero = tensor.quantization.zero_points[0] + (c.a().pool_rounding == QN_POOL_ROUND_U8 ? 128 : 0);
  return (std::round(average / scale + zero) - zero) * scale;
}

void pool(const Call& c) {
  const Attributes& a = c.a();
  const Shape x = c.shape(0);
  const bool average = c.node.kind == OpKind::average_pool || c.node.kind == OpKind::global_average_pool;
  const bool global = c.node.kind == OpKind::global_max_pool || c.node.kind == OpKind::global_average_pool;
  const qn_hw kernel = global ? qn_hw{x[1], x[2]} : a.kernel;
  c.fill([&](const Index& o) {
    double sum = 0, max = -INFINITY;
    size_t inside = 0, padded = 0;
    for (size_t kh = 0; kh < kernel.h; ++kh) {
      for (size_t kw = 0; kw < kernel.w; ++kw) {
        const size_t ph = o[1] * a.stride.h + kh * a.dilation.h, pw = o[2] * a.stride.w + kw * a.dilation.w;
        if (ph < x[1] + a.padding.top + a.padding.bottom && pw < x[2] + a.padding.left + a.padding.right) ++padded;
        const size_t h = ph - a.padding.top, w = pw - a.padding.left;
        if (h >= x[1] || w >= x[2]) continue;
        const double value = c.in(0, {o[0], h, w, o[3]});
        sum += value;
        max = std::max(max, value);
        ++inside;
      }
    }
    if (inside == 0) return c.clamped(average ? 0 : double{std::numeric_limits<float>::lowest()});
    if (!average) return c.clamped(max);
    return c.clamped(rounded_average(c, sum / static_cast<double>(a.count_padding && !global ? padded : inside)));
  });
}

double binary_value(OpKind kind, double a, double b) {
  return kind == OpKind::add ? a + b : kind == OpKind::sub ? a - b : kind == OpKind::mul ? a * b : a / b;
}

void binary(const Call& c) {
  const auto broadcast = [&](size_t input, const Index& o) {
    const Shape shape = c.shape(input);
    Index index(shape.size());
    for (size_t d = 0; d < shape.size(); ++d) index[d] = shape[d] == 1 ? 0 : o[o.size() - shape.size() + d];
    return double{c.in(input, index)};
  };
  c.fill([&](const Index& o) { return c.clamped(binary_value(c.node.kind, broadcast(0, o), broadcast(1, o))); });
}

double unary_value(OpKind kind, const Attributes& a, double x) {
  switch (kind) {
    case OpKind::clamp: return std::min<double>(std::max<double>(x, a.min), a.max);
    case OpKind::sigmoid: return 1 / (1 + std::exp(-x));
    case OpKind::tanh: return std::tanh(x);
    case OpKind::hard_swish: return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case OpKind::exp: return std::exp(x);
    default: return std::pow(a.alpha * x + a.beta, a.gamma);
  }
}

void unary(const Call& c) {
  c.fill([&](const Index& o) { return unary_value(c.node.kind, c.a(), c.in(0, o)); });
}

void prelu(const Call& c) {
  c.fill([&](const Index& o) {
    const double x = c.in(0, o);
    return x < 0 ? x * c.in(1)[o.back()] : x;
  });
}

void scale(const Call& c) {
  c.fill([&](const Index& o) {
    return c.clamped(double{c.in(0, o)} * c.in(1)[o.back()] + (c.has(2) ? double{c.in(2)[o.back()]} : 0.0));
  });
}

void softmax(const Call& c) {
  const size_t axis = static_cast<size_t>(c.a().axis);
  const size_t n = c.out_shape()[axis];
  c.fill([&](const Index& o) {
    Index i = o;
    double max = -INFINITY, sum = 0;
    for (i[axis] = 0; i[axis] < n; ++i[axis]) max = std::max<double>(max, c.in(0, i));
    for (i[axis] = 0; i[axis] < n; ++i[axis]) sum += std::exp(c.in(0, i) - max);
    return std::exp(c.in(0, o) - max) / sum;
  });
}

void concat(const Call& c) {
  const size_t axis = static_cast<size_t>(c.a().axis);
  c.fill([&](const Index& o) {
    Index i = o;
    size_t input = 0;
    for (; i[axis] >= c.shape(input)[axis]; ++input) i[axis] -= c.shape(input)[axis];
    return double{c.in(input, i)};
  });
}

void lrn(const Call& c) {
  const Attributes& a = c.a();
  const size_t channels = c.out_shape().back();
  c.fill([&](const Index& o) {
    const size_t before = (a.size - 1) / 2, at = o.back();
    double sum = 0;
    Index i = o;
    for (i.back() = at - std::min(at, before); i.back() < std::min(channels, at + a.size / 2 + 1); ++i.back()) {
      sum += double{c.in(0, i)} * double{c.in(0, i)};
    }
    return c.in(0, o) / std::pow(a.gamma + a.alpha / static_cast<double>(a.size) * sum, a.beta);
  });
}

void pad(const Call& c) {
  const Shape x = c.shape(0);
  c.fill([&](const Index& o) {
    Index i(o.size());
    for (size_t d = 0; d < o.size(); ++d) {
      i[d] = o[d] - static_cast<size_t>(c.a().values[d]);
      if (i[d] >= x[d]) return double{c.a().alpha};
    }
    return double{c.in(0, i)};
  });
}

double source_position(const Attributes& a, size_t i, size_t in, size_t out, float scale) {
  const double s = a.values.empty() ? 1 / double{scale} : static_cast<double>(in) / static_cast<double>(out);
  const double x = static_cast<double>(i);
  switch (a.coordinates) {
    case QN_COORDINATES_HALF_PIXEL_OR_0:
      if (out == 1) return 0;
      [[fallthrough]];
    case QN_COORDINATES_HALF_PIXEL: return (x + 0.5) * s - 0.5;
    case QN_COORDINATES_ASYMMETRIC: return x * s;
    default: return out == 1 ? 0 : x * static_cast<double>(in - 1) / static_cast<double>(out - 1);
  }
}

double round_position(qn_resize_rounding rounding, double x) {
  switch (rounding) {
    case QN_ROUND_FLOOR: return std::floor(x);
    case QN_ROUND_CEIL: return std::ceil(x);
    case QN_ROUND_HALF_DOWN: return std::ceil(x - 0.5);
    default: return std::floor(x + 0.5);
  }
}

void resize(const Call& c) {
  const Attributes& a = c.a();
  const Shape x = c.shape(0), y = c.out_shape();
  const auto edge = [](double v, size_t n) {
    return static_cast<size_t>(std::clamp(v, 0.0, static_cast<double>(n - 1)));
  };
  c.fill([&](const Index& o) {
    const double h = source_position(a, o[1], x[1], y[1], a.alpha), w = source_position(a, o[2], x[2], y[2], a.beta);
    if (a.mode == QN_RESIZE_NEAREST) {
      return double{
          c.in(0, {o[0], edge(round_position(a.rounding, h), x[1]), edge(round_position(a.rounding, w), x[2]), o[3]})};
    }
    const double fh = std::clamp(h, 0.0, static_cast<double>(x[1] - 1)),
                 fw = std::clamp(w, 0.0, static_cast<double>(x[2] - 1));
    const double dh = fh - std::floor(fh), dw = fw - std::floor(fw);
    const auto pixel = [&](double ph, double pw) {
      return double{c.in(0, {o[0], edge(ph, x[1]), edge(pw, x[2]), o[3]})};
    };
    return (1 - dh) * ((1 - dw) * pixel(fh, fw) + dw * pixel(fh, fw + 1)) +
           dh * ((1 - dw) * pixel(fh + 1, fw) + dw * pixel(fh + 1, fw + 1));
  });
}

void reshape(const Call& c) { c.values[c.node.outputs[0]] = c.in(0); }

void transpose(const Call& c) {
  c.fill([&](const Index& o) {
    Index i(o.size());
    for (size_t d = 0; d < o.size(); ++d) i[static_cast<size_t>(c.a().values[d])] = o[d];
    return double{c.in(0, i)};
  });
}

void slice(const Call& c) {
  c.fill([&](const Index& o) {
    Index i = o;
    for (size_t d = 0; d < o.size(); ++d) i[d] += static_cast<size_t>(slice_bound(c.a().values[d], c.shape(0)[d]));
    return double{c.in(0, i)};
  });
}

constexpr auto max_pool = pool, average_pool = pool, global_max_pool = pool, global_average_pool = pool;
constexpr auto add = binary, sub = binary, mul = binary, div = binary;
constexpr auto quantize = convert, dequantize = convert, requantize = convert;
constexpr auto clamp = unary, sigmoid = unary, tanh = unary, hard_swish = unary, exp = unary, power = unary;

constexpr void (*functions[])(const Call&) = {
#define QN_OP(kind, ...) kind,
#include "graph/ir/op.inc"
#undef QN_OP
};

// The real numbers that the elements of a constant stand for.
std::vector<float> numbers_of(const Graph& graph, const Tensor& tensor) {
  const void* data = graph.constants[static_cast<size_t>(tensor.constant)].data;
  const Quantization& q = tensor.quantization;
  const Shape shape(tensor.shape.begin(), tensor.shape.end());
  std::vector<float> numbers(count(shape));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t channel = q.axis < 0 ? 0 : unravel(shape, i)[static_cast<size_t>(q.axis)];
    const int32_t zero = q.zero_points.empty() ? 0 : q.zero_points[channel];
    switch (tensor.type) {
      case QN_F32: numbers[i] = static_cast<const float*>(data)[i]; break;
      case QN_S8:
        numbers[i] = static_cast<float>(static_cast<const int8_t*>(data)[i] - zero) * q.scales[channel];
        break;
      case QN_S32:
        numbers[i] = static_cast<float>(static_cast<const int32_t*>(data)[i] - zero) * q.scales[channel];
        break;
      default: break;
    }
  }
  return numbers;
}

}  // namespace

void evaluate_naively(const Graph& graph, Values& values) {
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].constant >= 0) values[static_cast<int>(i)] = numbers_of(graph, graph.tensors[i]);
  }
  for (const Node& node : graph.nodes) functions[static_cast<size_t>(node.kind)]({graph, node, values});
}

Values random_inputs(const Graph& graph, unsigned seed) {
  std::mt19937 random(seed);
  Values values;
  for (const Port& port : graph.inputs) {
    std::vector<float>& x = values[port.tensor];
    x.resize(count(shape_of(graph, port.tensor)));
    for (float& v : x) v = std::uniform_real_distribution<float>(-1, 1)(random);
  }
  return values;
}

float difference(const std::vector<float>& expected, const float* actual) {
  float magnitude = 1, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(actual[i])) return INFINITY;
    magnitude = std::max(magnitude, std::abs(expected[i]));
    largest = std::max(largest, std::abs(expected[i] - actual[i]));
  }
  return largest / magnitude;
}

}  // namespace quern::test
