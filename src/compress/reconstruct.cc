#include "compress/reconstruct.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "base/status.h"
#include "compress/dot.h"
#include "compress/linear_layer.h"
#include "compress/rate.h"
#include "compress/rounding.h"
#include "graph/ir/rules.h"
#include "op/core/window.h"

namespace quern {
namespace {

// Columns over all samples: several times the unknowns of most layers at least. SqueezeNet, whose layers have up to 576
// unknowns, lost a seventh less by weights of few bits with 50,000 than with 25,000.
constexpr size_t least_columns = 8192, most_columns = 100'000;
constexpr double column_work = 5e10;  // of a layer, in multiply-adds
constexpr size_t most_depth = 4608;
static_assert(most_depth * 127 <= most_weights);
// Weights are held at those before as if so many times the mean square of what they multiply spoke for them, and more
// strongly the fewer columns there are beside unknowns. Of 0.01 to 16, photographs that had not calibrated MobileNet v1 and
// SqueezeNet were best off with 4 where all is int8, and with 0.5 where only weights are quantized, to 4 bits. Where prices
// choose, SqueezeNet lost less with 0.12 than with 0.06 or 0.25.
constexpr double damping_of_8_bits = 4, damping_of_4_bits = 0.5, damping_of_priced = 0.12;
// The square of a step, by the price of a bit and what an error costs. At high rates 6 / ln 2 would be best; of weights,
// most are 0 or near it.
constexpr double steps_per_price = 12, bias_steps_per_price = 8;
constexpr size_t rounded_together = 64;  // weights of a channel, before others make up for them
constexpr double rounding = 1e-5;        // sums of products are floats: what they are off by, and more

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

bool any(const Vector<bool>& list) { return std::find(list.begin(), list.end(), true) != list.end(); }

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

// Did the matrix have a factor?
bool is_factor(const Vector<double>& factor, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (!(factor[i * n + i] > 0 && std::isfinite(factor[i * n + i]))) return false;
  }
  return true;
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

// Weights of some output channels that become levels, the last ones of each first. Each makes up for what those behind it
// have lost: the sum of squares of Lt (weights - levels * scales) stays small, for each channel.
class Rounder {
 public:
  // `weights` and `levels` have `rows` rows of n.
  Rounder(const Vector<double>& factor, size_t n, const double* weights, size_t rows, int8_t* levels)
      : factor_(factor), n_(n), weights_(weights), rows_(rows), levels_(levels), lost_(rows * n, 0.0) {}

  // What weight i of channel o should be, if the levels behind it are chosen.
  double best(size_t o, size_t i) const { return weights_[o * n_ + i] + lost_[o * n_ + i] / factor_[i * n_ + i]; }
  // scale(o, i) is the scale of a weight, choose(o, i, steps) its level. Weights are taken in blocks of all channels, which
  // begin at multiples of `block`, so that what they lose is a matrix product.
  template <class Scale, class Choose>
  qn_status round(size_t block, const Scale& scale, const Choose& choose) {
    for (size_t end = n_; end > 0;) {
      const size_t begin = (end - 1) / block * block;
      Vector<float> errors(rows_ * (end - begin));
      for (size_t o = 0; o < rows_; ++o) {
        for (size_t i = end; i-- > begin;) {
          const double step = scale(o, i);
          levels_[o * n_ + i] = choose(o, i, best(o, i) / step);
          const double error = weights_[o * n_ + i] - levels_[o * n_ + i] * step;
          errors[o * (end - begin) + i - begin] = static_cast<float>(error);
          for (size_t k = begin; k < i; ++k) lost_[o * n_ + k] += error * factor_[i * n_ + k];
        }
      }
      QN_TRY(lose(errors, begin, end));
      end = begin;
    }
    return QN_OK;
  }

 private:
  // Adds what the weights of a block lose to those before it.
  qn_status lose(const Vector<float>& errors, size_t begin, size_t end) {
    if (begin == 0) return QN_OK;
    Vector<float> rows((end - begin) * begin), products(rows_ * begin);
    for (size_t i = begin; i < end; ++i) {
      for (size_t k = 0; k < begin; ++k) rows[(i - begin) * begin + k] = static_cast<float>(factor_[i * n_ + k]);
    }
    QN_TRY(qn_gemm_f32(rows_, begin, end - begin, errors.data(), end - begin, rows.data(), begin, 0, nullptr, -infinity,
                       infinity, products.data(), begin, nullptr));
    for (size_t o = 0; o < rows_; ++o) {
      for (size_t k = 0; k < begin; ++k) lost_[o * n_ + k] += double{products[o * begin + k]};
    }
    return QN_OK;
  }

  const Vector<double>& factor_;
  size_t n_;
  const double* weights_;
  size_t rows_;
  int8_t* levels_;
  Vector<double> lost_;
};

// The square of what the error of weight i adds to the errors of the outputs, if the weights before it make up for what
// they can.
double curvature(const Vector<double>& factor, size_t n, size_t i) { return factor[i * n + i] * factor[i * n + i]; }

// The bits of levels, if each takes what its frequency says.
double bits_of(std::span<const int8_t> levels) {
  LevelRates rates;
  rates.count(levels);
  double bits = 0;
  for (const int8_t level : levels) bits += rates.bits(level);
  return bits;
}

// Steps become one of two values in each octave, so that they take few bits themselves.
double rounded_step(double step) { return std::exp2(std::ceil(2 * std::log2(step) - 0.5) / 2); }

// A power of two: what the bias is rounded to has few bits that are not 0.
double bias_step(double price, double of_errors) {
  const double step = std::exp2(std::floor(std::log2(bias_steps_per_price * price / of_errors) / 2));
  return std::isfinite(step) ? step : 0;
}

size_t columns_for(size_t groups, size_t depth) {
  constexpr size_t of_reading = 512;  // multiply-adds that take as long as reading an element
  const double work = static_cast<double>(groups) * static_cast<double>(depth * (depth + of_reading));
  return std::clamp(static_cast<size_t>(column_work / work), least_columns, most_columns);
}

}  // namespace

bool can_reconstruct(const Graph& real, const LayerPair& layer) {
  return product_of(tensor_of(real, real.nodes[layer.real].inputs[1]).shape, 1) <= most_depth;
}

qn_status Reconstruction::Moments::add(const Vector<float>& x, const Vector<float>& x_bytes, size_t count) {
  const size_t n = real.size();
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
  double largest = 0, power = 0;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, products[i * n + i]);
  for (size_t i = 0; i < n; ++i) real[i] /= count, bytes[i] /= count;
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < n; ++k) {
      products[i * n + k] -= count * bytes[i] * bytes[k];
      shifted[i * n + k] -= count * (real[i] - bytes[i]) * bytes[k];
    }
    power += products[i * n + i];
  }
  damping = std::max(power * (least_damping + unknowns / count) / unknowns, largest * rounding);
  if (!(damping > 0)) damping = 1;  // the input is 0
  for (size_t i = 0; i < n; ++i) products[i * n + i] += damping;
}

Reconstruction::Reconstruction(const Graph& real, const Graph& quantized, const LayerPair& layer,
                               const WeightFormat& format, size_t samples, uint32_t seed)
    : node_(real.nodes[layer.real]),
      weights_(tensor_of(real, node_.inputs[1])),
      weight_data_(constant_floats(real, node_.inputs[1])),
      bias_(has_bias(node_) ? constant_floats(real, node_.inputs[2]) : nullptr),
      layer_(layer),
      groups_(node_.kind == OpKind::conv2d ? node_.attributes.groups : 1),
      depth_(product_of(weights_.shape, 1)),
      format_(format),
      columns_(divide_up(columns_for(groups_, depth_), std::max<size_t>(samples, 1))),
      generator_(static_cast<uint32_t>(layer.bytes) + seed),
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
  const size_t images = product_of(shape) / (window.h.in * window.w.in * channels);
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

// Where the real weights of a group's channels would be best. `fits` tells the channels whose are not too large there; the
// others' weights are those before.
qn_status Reconstruction::wanted(size_t group, Vector<double>* weights, Vector<bool>* fits) const {
  const Moments& moments = moments_[group];
  const size_t rows = channels(), n = depth_;
  const float* const before = weight_data_ + group * rows * n;
  // First the products with what the quantized model has changed.
  Vector<float> changes(moments.shifted.begin(), moments.shifted.end()), products(rows * n);
  QN_TRY(qn_gemm_f32(rows, n, n, before, n, changes.data(), n, 0, nullptr, -infinity, infinity, products.data(), n,
                     nullptr));
  weights->assign(before, before + rows * n);
  fits->assign(rows, false);
  if (!is_factor(moments.products, n)) return QN_OK;  // what the layer reads is not finite
  for (size_t o = 0; o < rows; ++o) {
    Vector<double> row(products.begin() + static_cast<ptrdiff_t>(o * n),
                       products.begin() + static_cast<ptrdiff_t>((o + 1) * n));
    if (std::any_of(row.begin(), row.end(), [](double x) { return x != 0; })) solve(moments.products, row);
    for (size_t i = 0; i < n; ++i) row[i] += double{before[o * n + i]};
    if (!std::all_of(row.begin(), row.end(), [](double x) { return std::isfinite(static_cast<float>(x)); })) continue;
    (*fits)[o] = true;
    std::copy(row.begin(), row.end(), weights->begin() + static_cast<ptrdiff_t>(o * n));
  }
  return QN_OK;
}

// The bias that makes up for the weights of a channel, a multiple of `step` if that is not 0; nothing if it is too large.
std::optional<double> Reconstruction::bias_for(size_t o, const int8_t* levels, const float* scales, double step) const {
  const Moments& moments = moments_[o / channels()];
  const float* const before = weight_data_ + o * depth_;
  double bias = bias_ == nullptr ? 0 : double{bias_[o]};
  for (size_t i = 0; i < depth_; ++i) {
    const auto scale = double{scales[i / format_.run(depth_)]};
    bias += double{before[i]} * moments.real[i] - levels[i] * scale * moments.bytes[i];
  }
  if (step > 0) bias = std::nearbyint(bias / step) * step;
  if (scale_ != 0) bias = std::nearbyint(bias / (double{scales[0]} * double{scale_}));
  const double most = scale_ != 0 ? most_bias : double{std::numeric_limits<float>::max()};
  return std::abs(bias) <= most ? std::optional(bias) : std::nullopt;
}

// Puts levels and scales of a group's channels into the layer, but for those that do not fit, or whose biases would be too
// large.
void Reconstruction::put(size_t group, const Vector<bool>& fits, const int8_t* levels, const float* scales,
                         const Vector<double>& bias_steps, Layer* layer) const {
  const size_t rows = channels(), runs = layer->scales.size() / layer->bias.size();
  for (size_t o = 0; o < rows; ++o) {
    if (!fits[o]) continue;
    const size_t channel = group * rows + o;
    const std::optional<double> bias = bias_for(channel, &levels[o * depth_], &scales[o * runs], bias_steps[channel]);
    if (!bias) continue;
    layer->bias[channel] = *bias;
    std::copy_n(&levels[o * depth_], depth_, &layer->bytes[channel * depth_]);
    std::copy_n(&scales[o * runs], runs, &layer->scales[channel * runs]);
  }
}

Reconstruction::Layer Reconstruction::layer_of(const Graph& quantized) const {
  const Node& node = quantized.nodes[layer_.bytes];
  const auto constant = [&](int tensor) { return quantized.constants[at(tensor_of(quantized, tensor).constant)].data; };
  const size_t rows = weights_.shape[0];
  Layer layer;
  layer.bytes.resize(rows * depth_);
  layer.bias.assign(rows, 0.0);
  layer.scales = tensor_of(quantized, node.inputs[1]).quantization.scales;
  std::copy_n(static_cast<const int8_t*>(constant(node.inputs[1])), layer.bytes.size(), layer.bytes.begin());
  if (has_bias(node) && scale_ != 0) {
    std::copy_n(static_cast<const int32_t*>(constant(node.inputs[2])), rows, layer.bias.begin());
  } else if (has_bias(node)) {
    std::copy_n(static_cast<const float*>(constant(node.inputs[2])), rows, layer.bias.begin());
  }
  return layer;
}

void Reconstruction::set_layer(Graph& quantized, const Layer& layer) const {
  Node& node = quantized.nodes[layer_.bytes];
  Quantization scales = tensor_of(quantized, node.inputs[1]).quantization;
  scales.scales = layer.scales;
  node.inputs.resize(3);
  node.inputs[2] = add_bias(quantized, scales, layer.bias);
  node.inputs[1] = add_constant(quantized, String(), QN_S8, weights_.shape, layer.bytes.data());
  quantized.tensors[at(node.inputs[1])].quantization = std::move(scales);
}

void Reconstruction::factorize_moments() {
  if (!prices_of_errors_.empty()) return;
  for (Moments& moments : moments_) {
    moments.finish(format_.bits == 8 ? damping_of_8_bits : format_.bits == 4 ? damping_of_4_bits : damping_of_priced);
    factorize(moments.products, depth_);
  }
  constexpr double least_power = 0.01;  // of a channel, beside the mean of all
  prices_of_errors_ = errors_of(weight_data_);
  const double sum = std::accumulate(prices_of_errors_.begin(), prices_of_errors_.end(), 0.0);
  const double least = least_power * sum / static_cast<double>(prices_of_errors_.size());
  for (double& price : prices_of_errors_) price = sum > 0 && std::isfinite(sum) ? 1 / (price + least) : 1;
}

qn_status Reconstruction::finish(Graph& quantized) {
  if (moments_[0].columns == 0) return QN_OK;
  factorize_moments();
  Layer layer = layer_of(quantized);
  const size_t rows = channels(), n = depth_, run = format_.run(n), runs = divide_up(n, run);
  const Vector<double> exact(rows * groups_, 0.0);  // steps of biases
  for (size_t group = 0; group < groups_; ++group) {
    Vector<double> weights, best(n);
    Vector<bool> fits;
    Vector<int8_t> levels(rows * n);
    Vector<float> scales(rows * runs);
    QN_TRY(wanted(group, &weights, &fits));
    if (!any(fits)) continue;
    Rounder rounder(moments_[group].products, n, weights.data(), rows, levels.data());
    // The weights of a run get their scale when what came before has been made up for.
    const auto scale = [&](size_t o, size_t i) {
      float& of_run = scales[o * runs + i / run];
      if (i + 1 == n || (i + 1) % run == 0) {
        const size_t first = i / run * run;
        for (size_t k = first; k <= i; ++k) best[k] = rounder.best(o, k);
        const float bias = bias_ == nullptr ? 0 : bias_[group * rows + o];
        of_run = scale_of_weights(&best[first], i + 1 - first, format_, least_scale(bias, scale_));
      }
      return double{of_run};
    };
    const auto choose = [&](size_t, size_t, double steps) { return format_.nearest(steps); };
    QN_TRY(rounder.round(format_.block == 0 ? rounded_together : format_.block, scale, choose));
    put(group, fits, levels.data(), scales.data(), exact, &layer);
  }
  set_layer(quantized, layer);
  return QN_OK;
}

void Reconstruction::prune(double sparsity, const BlockShape& shape) {
  factorize_moments();
  const size_t rows = weights_.shape[0], of_group = channels();
  Vector<float> costs(rows * depth_);
  for (size_t o = 0; o < rows; ++o) {
    const Vector<double>& factor = moments_[o / of_group].products;
    for (size_t i = 0; i < depth_; ++i) {
      const double cost = double{weight_data_[o * depth_ + i]} * factor[i * depth_ + i];
      costs[o * depth_ + i] = static_cast<float>(cost * std::sqrt(prices_of_errors_[o]));
    }
  }
  zeros_ = smallest_blocks({groups_, of_group, depth_, weights_.shape.back(), shape}, costs.data(), sparsity);
}

float Reconstruction::step_of(const Vector<double>& factor, const double* weights, double price,
                              double of_errors) const {
  double mean = 0, largest = 0;
  for (size_t i = 0; i < depth_; ++i) {
    mean += curvature(factor, depth_, i) / static_cast<double>(depth_ * moments_[0].columns);
    largest = std::max(largest, std::abs(weights[i]));
  }
  if (largest == 0) return 1;
  double step = std::sqrt(steps_per_price * price / (of_errors * mean));
  if (!std::isfinite(step)) step = 0;
  return static_cast<float>(rounded_step(std::clamp(step, largest / LevelRates::most * 1.2, largest * 4)));
}

qn_status Reconstruction::finish(Graph& quantized, double bits, double* made) {
  *made = 0;
  if (moments_[0].columns == 0) return QN_OK;
  factorize_moments();
  const double price = price_for(bits);
  Layer layer = layer_of(quantized);
  const size_t rows = channels(), n = depth_, all = rows * groups_;
  Vector<Vector<double>> weights(groups_);
  Vector<Vector<bool>> fits(groups_);
  Vector<int8_t> levels(all * n);
  Vector<float> steps(all);
  for (size_t group = 0; group < groups_; ++group) {
    QN_TRY(wanted(group, &weights[group], &fits[group]));
    for (size_t o = 0; o < rows; ++o) {
      const double* const row = &weights[group][o * n];
      const size_t channel = group * rows + o;
      const float bias = bias_ == nullptr ? 0 : bias_[channel];
      steps[channel] = std::max(step_of(moments_[group].products, row, price, prices_of_errors_[channel]),
                                least_scale(bias, scale_));
      for (size_t i = 0; i < n; ++i) levels[channel * n + i] = WeightFormat().nearest(row[i] / double{steps[channel]});
    }
  }
  constexpr int rounds = 3;  // costs of levels follow from the levels chosen before
  LevelRates rates;
  for (int r = 0; r < rounds; ++r) {
    rates.count({levels.data(), levels.size()});
    for (size_t group = 0; group < groups_; ++group) {
      if (!any(fits[group])) continue;
      const Vector<double>& factor = moments_[group].products;
      const float* const step = &steps[group * rows];
      Vector<double> of_errors(rows);
      for (size_t o = 0; o < rows; ++o) {
        of_errors[o] = prices_of_errors_[group * rows + o] * double{step[o]} * double{step[o]} /
                       static_cast<double>(moments_[0].columns);
      }
      Rounder rounder(factor, n, weights[group].data(), rows, &levels[group * rows * n]);
      const auto scale = [&](size_t o, size_t) { return double{step[o]}; };
      const auto choose = [&](size_t o, size_t i, double value) {
        if (is_zero((group * rows + o) * n + i)) return int8_t{0};
        return rates.choose(value, of_errors[o] * curvature(factor, n, i), price);
      };
      QN_TRY(rounder.round(rounded_together, scale, choose));
    }
  }
  Vector<double> bias_steps(all);
  for (size_t o = 0; o < all; ++o) bias_steps[o] = bias_step(price, prices_of_errors_[o]);
  for (size_t group = 0; group < groups_; ++group) {
    put(group, fits[group], &levels[group * rows * n], &steps[group * rows], bias_steps, &layer);
  }
  set_layer(quantized, layer);
  *made = bits_of({layer.bytes.data(), layer.bytes.size()});
  return QN_OK;
}

double Reconstruction::bits(double price) {
  factorize_moments();
  const size_t rows = weights_.shape[0], of_group = channels();
  Vector<int8_t> levels(rows * depth_);
  Vector<double> steps(rows);
  const auto choose = [&](const auto& level) {
    for (size_t o = 0; o < rows; ++o) {
      const Vector<double>& factor = moments_[o / of_group].products;
      const double of_error = prices_of_errors_[o] * steps[o] * steps[o] / static_cast<double>(moments_[0].columns);
      for (size_t i = 0; i < depth_; ++i) {
        if (is_zero(o * depth_ + i)) continue;
        levels[o * depth_ + i] =
            level(double{weight_data_[o * depth_ + i]} / steps[o], of_error * curvature(factor, depth_, i));
      }
    }
  };
  for (size_t o = 0; o < rows; ++o) {
    const Vector<double> weights(weight_data_ + o * depth_, weight_data_ + (o + 1) * depth_);
    steps[o] = double{step_of(moments_[o / of_group].products, weights.data(), price, prices_of_errors_[o])};
  }
  LevelRates rates;
  choose([&](double value, double) { return WeightFormat().nearest(value); });
  rates.count({levels.data(), levels.size()});
  choose([&](double value, double weight) { return rates.choose(value, weight, price); });
  return bits_of({levels.data(), levels.size()});
}

// Bisects the logarithm.
double Reconstruction::price_for(double wanted) {
  double low = -70, high = 70;
  while (high - low > 0.002) {
    const double price = (low + high) / 2;
    (bits(std::exp(price)) > wanted ? low : high) = price;
  }
  return std::exp(high);
}

double Reconstruction::relative_error(const Vector<float>& weight_errors) {
  factorize_moments();
  const Vector<double> errors = errors_of(weight_errors.data());
  return std::inner_product(errors.begin(), errors.end(), prices_of_errors_.begin(), 0.0);
}

// The mean square errors of outputs, by channel.
Vector<double> Reconstruction::errors_of(const float* weight_errors) const {
  const size_t rows = weights_.shape[0], of_group = channels();
  Vector<double> errors(rows, 0.0), sums(depth_);
  for (size_t o = 0; o < rows; ++o) {
    const Moments& moments = moments_[o / of_group];
    const float* const row = weight_errors + o * depth_;
    std::fill(sums.begin(), sums.end(), 0.0);  // becomes Lt times the row
    for (size_t k = 0; k < depth_; ++k) {
      for (size_t i = 0; i <= k; ++i) sums[i] += moments.products[k * depth_ + i] * double{row[k]};
    }
    for (size_t i = 0; i < depth_; ++i)
      errors[o] += sums[i] * sums[i] - moments.damping * double{row[i]} * double{row[i]};
    errors[o] = std::max(errors[o] / static_cast<double>(moments.columns), 0.0);
  }
  return errors;
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
