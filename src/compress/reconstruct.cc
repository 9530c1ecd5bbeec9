#include "compress/reconstruct.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "base/math.h"
#include "base/status.h"
#include "compress/rounding.h"
#include "op/core/window.h"

namespace quern {
namespace {

// Columns over all samples: several times the unknowns of most layers.
constexpr size_t most_columns = 8192;
constexpr size_t most_depth = 4608;
static_assert(most_depth * 127 <= most_weights);
// Weights are held at those before as if so many times the mean square of what they multiply spoke for them, and more
// strongly the fewer columns there are beside unknowns. Of 0.01 to 16, photographs that had not calibrated MobileNet v1 and
// SqueezeNet were best off with 4 where all is int8, and with 0.5 where only weights are quantized, to 4 bits.
constexpr double damping_of_8_bits = 4, damping_of_4_bits = 0.5;
constexpr double rounding = 1e-5;  // sums of products are floats: what they are off by, and more

size_t product_of(const Vector<size_t>& shape, size_t from) {
  size_t product = 1;
  for (size_t d = from; d < shape.size(); ++d) product *= shape[d];
  return product;
}

bool has_bias(const Node& node) { return node.inputs.size() > 2 && node.inputs[2] != no_tensor; }

Axis axis_of(size_t in, size_t kernel, size_t stride, size_t dilation, size_t before, size_t after) {
  return {
      kernel, stride, dilation, before, after, in, window_output(in, kernel, stride, dilation, before, after, false)};
}

// The windows over an image of this shape. Rows of a matrix are images of one pixel.
Window window_of(const Node& node, const Vector<size_t>& weights, const Vector<size_t>& shape) {
  if (node.kind != OpKind::conv2d) return {};
  const Attributes& a = node.attributes;
  const qn_padding& p = a.padding;
  return {axis_of(shape[1], weights[1], a.stride.h, a.dilation.h, p.top, p.bottom),
          axis_of(shape[2], weights[2], a.stride.w, a.dilation.w, p.left, p.right)};
}

constexpr size_t padding = ~size_t{0};

// Calls take(tap, pixel or padding) for each tap of an output's window. Pixels and outputs count through all images.
template <class Take>
void read_window(const Window& window, size_t output, const Take& take) {
  const size_t image = output / window.pixels(), y = output / window.w.out % window.h.out, x = output % window.w.out;
  for (size_t t = 0; t < window.taps(); ++t) {
    const int64_t row = window.h.at(y, t / window.w.kernel), col = window.w.at(x, t % window.w.kernel);
    const bool inside = window.h.inside(row) && window.w.inside(col);
    take(t,
         inside ? (image * window.h.in + static_cast<size_t>(row)) * window.w.in + static_cast<size_t>(col) : padding);
  }
}

double dot(const double* a, const double* b, size_t n) {
  constexpr size_t lanes = 8;  // sums that do not wait for one another
  double sums[lanes] = {}, rest = 0;
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (size_t k = 0; k < lanes; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) rest += a[i] * b[i];
  return std::accumulate(sums, sums + lanes, rest);
}

// The lower triangle of a symmetric matrix becomes its Cholesky factor L: L Lt is the matrix.
void factorize(Vector<double>& matrix, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    double* const row = &matrix[i * n];
    for (size_t j = 0; j <= i; ++j) {
      const double* const other = &matrix[j * n];
      const double rest = row[j] - dot(row, other, j);
      row[j] = i == j ? std::sqrt(rest) : rest / other[j];
    }
  }
}

// Makes x the solution of L Lt y = x.
void solve(const Vector<double>& factor, Vector<double>& x) {
  const size_t n = x.size();
  for (size_t i = 0; i < n; ++i) x[i] = (x[i] - dot(&factor[i * n], x.data(), i)) / factor[i * n + i];
  for (size_t i = n; i-- > 0;) {
    x[i] /= factor[i * n + i];
    for (size_t k = 0; k < i; ++k) x[k] -= x[i] * factor[i * n + k];
  }
}

// Rounds weights to steps, the last one first. Each makes up for what those behind it have lost: the sum of squares of
// Lt (weights - steps) stays small. The weights of a run get their scale when what came before has been made up for.
void round(const Vector<double>& factor, const Vector<double>& weights, const WeightFormat& format, float least,
           Vector<int8_t>* bytes, Vector<float>* scales) {
  const size_t n = weights.size(), run = format.run(n);
  bytes->resize(n);
  scales->resize(divide_up(n, run));
  Vector<double> lost(n, 0.0), wanted(weights);
  for (size_t i = n; i-- > 0;) {
    if (i + 1 == n || (i + 1) % run == 0) {
      const size_t first = i / run * run;
      for (size_t k = first; k <= i; ++k) wanted[k] = weights[k] + lost[k] / factor[k * n + k];
      (*scales)[i / run] = scale_of_weights(&wanted[first], i + 1 - first, format, least);
    }
    const auto scale = double{(*scales)[i / run]};
    (*bytes)[i] = format.nearest((weights[i] + lost[i] / factor[i * n + i]) / scale);
    const double error = weights[i] - (*bytes)[i] * scale;
    for (size_t k = 0; k < i; ++k) lost[k] += error * factor[i * n + k];
  }
}

}  // namespace

bool can_reconstruct(const Graph& real, const LayerPair& layer) {
  return product_of(tensor_of(real, real.nodes[layer.real].inputs[1]).shape, 1) <= most_depth;
}

Graph input_of(const Graph& graph, size_t node) {
  Graph part = graph;
  const int tensor = graph.nodes[node].inputs[0];
  part.nodes.resize(node);
  String& name = part.tensors[at(tensor)].name;  // outputs must have one
  if (name.empty()) name = ("input of " + std::to_string(node)).c_str();
  part.outputs.clear();
  part.outputs.push_back({.tensor = tensor, .type = tensor_of(graph, tensor).type});
  return part;
}

qn_status Reconstruction::Moments::add(const Vector<float>& x, const Vector<float>& x_bytes, size_t count) {
  const size_t n = real.size();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Vector<float> shift(x.size()), sums(n * n);
  for (size_t i = 0; i < x.size(); ++i) {
    shift[i] = x[i] - x_bytes[i];
    real[i / count] += double{x[i]};
    bytes[i / count] += double{x_bytes[i]};
  }
  const auto add_products = [&](const Vector<float>& left, Vector<double>& to) {
    QN_TRY(qn_gemm_f32(n, n, count, left.data(), count, x_bytes.data(), count, 1, nullptr, -infinity, infinity,
                       sums.data(), n, nullptr));
    for (size_t i = 0; i < n * n; ++i) to[i] += double{sums[i]};
    return QN_OK;
  };
  columns += count;
  QN_TRY(add_products(x_bytes, products));
  return add_products(shift, shifted);
}

void Reconstruction::Moments::finish(double least_damping) {
  const size_t n = real.size();
  const auto count = static_cast<double>(columns), unknowns = static_cast<double>(n);
  double whole = 0, power = 0;
  for (size_t i = 0; i < n; ++i) whole += products[i * n + i];
  for (size_t i = 0; i < n; ++i) real[i] /= count, bytes[i] /= count;
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < n; ++k) {
      products[i * n + k] -= count * bytes[i] * bytes[k];
      shifted[i * n + k] -= count * (real[i] - bytes[i]) * bytes[k];
    }
    power += products[i * n + i];
  }
  double damping = std::max(power * (least_damping + unknowns / count), whole * rounding) / unknowns;
  if (!(damping > 0)) damping = 1;  // the input is 0
  for (size_t i = 0; i < n; ++i) products[i * n + i] += damping;
}

Reconstruction::Reconstruction(const Graph& real, const Graph& quantized, const LayerPair& layer,
                               const WeightFormat& wanted, size_t samples)
    : node_(real.nodes[layer.real]),
      weights_(tensor_of(real, node_.inputs[1])),
      weight_data_(constant_floats(real, node_.inputs[1])),
      bias_(has_bias(node_) ? constant_floats(real, node_.inputs[2]) : nullptr),
      layer_(layer),
      groups_(node_.kind == OpKind::conv2d ? node_.attributes.groups : 1),
      depth_(product_of(weights_.shape, 1)),
      format_(format_of_layer(wanted, weights_.shape[0] * depth_)),
      columns_(divide_up(most_columns, std::max<size_t>(samples, 1))),
      generator_(static_cast<uint32_t>(layer.bytes)),
      moments_(groups_) {
  const Quantization& input = tensor_of(quantized, quantized.nodes[layer.bytes].inputs[0]).quantization;
  scale_ = input.scales.empty() ? 0 : input.scales[0];
  zero_ = input.zero_points.empty() ? 0 : input.zero_points[0];
  for (Moments& m : moments_) {
    m.real.resize(depth_), m.bytes.resize(depth_);
    m.products.resize(depth_ * depth_), m.shifted.resize(depth_ * depth_);
  }
}

qn_status Reconstruction::add(const float* real, const void* quantized, const Vector<size_t>& shape) {
  const auto* const bytes = static_cast<const int8_t*>(quantized);
  const auto* const floats = static_cast<const float*>(quantized);
  const Window window = window_of(node_, weights_.shape, shape);
  const size_t of_group = depth_ / window.taps(), channels = of_group * groups_;  // of the input
  const size_t images = product_of(shape, 0) / (window.h.in * window.w.in * channels);
  const size_t outputs = images * window.pixels(), count = std::min(outputs, columns_);
  Vector<size_t> chosen(count);
  for (size_t i = 0; i < count; ++i) chosen[i] = outputs <= columns_ ? i : generator_() % outputs;
  Vector<float> x(depth_ * count), x_bytes(depth_ * count);
  for (size_t group = 0; count != 0 && group < groups_; ++group) {
    const auto read = [&](size_t column, size_t tap, size_t pixel) {
      for (size_t k = 0; k < of_group; ++k) {
        const size_t to = (tap * of_group + k) * count + column, from = pixel * channels + group * of_group + k;
        x[to] = pixel == padding ? 0 : real[from];
        if (pixel == padding) {
          x_bytes[to] = 0;
        } else {
          x_bytes[to] = scale_ == 0 ? floats[from] : scale_ * static_cast<float>(bytes[from] - zero_);
        }
      }
    };
    for (size_t i = 0; i < count; ++i) {
      read_window(window, chosen[i], [&](size_t tap, size_t pixel) { read(i, tap, pixel); });
    }
    QN_TRY(moments_[group].add(x, x_bytes, count));
  }
  return QN_OK;
}

std::optional<Reconstruction::Channel> Reconstruction::fit(const Moments& moments, const Vector<double>& factor,
                                                           size_t o) const {
  const float* const before = weight_data_ + o * depth_;
  Vector<double> weights(depth_, 0.0);  // first the products with what the quantized model has changed
  for (size_t i = 0; i < depth_; ++i) {
    for (size_t k = 0; k < depth_; ++k) weights[k] += double{before[i]} * moments.shifted[i * depth_ + k];
  }
  solve(factor, weights);
  for (size_t i = 0; i < depth_; ++i) weights[i] += double{before[i]};
  if (!std::all_of(weights.begin(), weights.end(), [](double x) { return std::isfinite(static_cast<float>(x)); }))
    return std::nullopt;
  const float bias = bias_ == nullptr ? 0 : bias_[o];
  Channel channel = {.bytes = {}, .scales = {}, .bias = double{bias}};
  round(factor, weights, format_, least_scale(bias, scale_), &channel.bytes, &channel.scales);
  for (size_t i = 0; i < depth_; ++i) {
    const auto scale = double{channel.scales[i / format_.run(depth_)]};
    channel.bias += double{before[i]} * moments.real[i] - channel.bytes[i] * scale * moments.bytes[i];
  }
  if (scale_ != 0) channel.bias = std::nearbyint(channel.bias / (double{channel.scales[0]} * double{scale_}));
  const double most = scale_ != 0 ? most_bias : double{std::numeric_limits<float>::max()};
  if (!(std::abs(channel.bias) <= most)) return std::nullopt;
  return channel;
}

void Reconstruction::finish(Graph& quantized) {
  Node& node = quantized.nodes[layer_.bytes];
  const auto constant = [&](int tensor) { return quantized.constants[at(tensor_of(quantized, tensor).constant)].data; };
  Quantization scales = tensor_of(quantized, node.inputs[1]).quantization;
  const size_t rows = weights_.shape[0], of_group = rows / groups_, runs = scales.scales.size() / rows;
  Vector<int8_t> bytes(rows * depth_);
  Vector<double> bias(rows, 0.0);
  std::copy_n(static_cast<const int8_t*>(constant(node.inputs[1])), bytes.size(), bytes.begin());
  if (has_bias(node) && scale_ != 0) {
    std::copy_n(static_cast<const int32_t*>(constant(node.inputs[2])), rows, bias.begin());
  } else if (has_bias(node)) {
    std::copy_n(static_cast<const float*>(constant(node.inputs[2])), rows, bias.begin());
  }
  for (size_t group = 0; group < groups_; ++group) {
    Moments& moments = moments_[group];
    if (moments.columns == 0) return;
    moments.finish(format_.bits == 4 ? damping_of_4_bits : damping_of_8_bits);
    factorize(moments.products, depth_);
    for (size_t o = group * of_group; o < (group + 1) * of_group; ++o) {
      const std::optional<Channel> channel = fit(moments, moments.products, o);
      if (!channel) continue;
      std::copy(channel->bytes.begin(), channel->bytes.end(), bytes.begin() + static_cast<ptrdiff_t>(o * depth_));
      std::copy(channel->scales.begin(), channel->scales.end(),
                scales.scales.begin() + static_cast<ptrdiff_t>(o * runs));
      bias[o] = channel->bias;
    }
  }
  node.inputs.resize(3);
  node.inputs[2] = add_bias(quantized, scales, bias);
  node.inputs[1] = add_constant(quantized, String(), QN_S8, weights_.shape, bytes.data());
  quantized.tensors[at(node.inputs[1])].quantization = std::move(scales);
}

// Adds the bias: in steps of input times weights, or f32 if the input is.
int Reconstruction::add_bias(Graph& quantized, const Quantization& of_weights, const Vector<double>& bias) const {
  if (scale_ == 0) {
    const Vector<float> floats(bias.begin(), bias.end());
    return add_constant(quantized, String(), QN_F32, {bias.size()}, floats.data());
  }
  const Vector<int32_t> steps(bias.begin(), bias.end());
  const int added = add_constant(quantized, String(), QN_S32, {bias.size()}, steps.data());
  Quantization& numbers = quantized.tensors[at(added)].quantization;
  numbers.scales = of_weights.scales;
  for (float& scale : numbers.scales) scale *= scale_;
  numbers.axis = bias.size() == 1 ? -1 : 0;
  return added;
}

}  // namespace quern
