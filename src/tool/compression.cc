#include "tool/compression.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <span>

#include "convert/common/error.h"
#include "convert/model_stats.h"
#include "graph/file/format.h"
#include "graph/ir/kinds.h"
#include "graph/pass/passes.h"
#include "tool/output/outputs.h"
#include "tool/progress.h"
#include "tool/quantization.h"
#include "tool/reconstruction.h"

namespace quern {
namespace {

// What outputs lose that should be like others. Of distributions the Kullback-Leibler divergence, of other outputs half
// the square of the difference as a part of what they are.
double loss_of(const std::vector<double>& expected, const std::vector<double>& got) {
  constexpr double tiny = 1e-12, one = 1e-3;
  const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
  const bool distribution =
      std::abs(sum - 1) < one && std::all_of(expected.begin(), expected.end(), [](double p) { return p >= 0; });
  double loss = 0, power = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double p = expected[i], q = got[i];
    loss += distribution ? p * std::log((p + tiny) / (q + tiny)) : (p - q) * (p - q) / 2;
    power += p * p;
  }
  return distribution ? loss : loss / std::max(power, tiny);
}

// Knows the outputs of a model, and tells what other models lose.
class Judge {
 public:
  Judge(const Graph& real, std::vector<size_t> samples, const Sample& sample, const SessionSettings& settings)
      : samples_(std::move(samples)), sample_(sample), settings_(settings) {
    Part part(real, settings);
    for (const size_t i : samples_) expected_.push_back(outputs_of(part, i));
  }

  double loss(const Graph& graph) const {
    Part part(graph, settings_);
    double loss = 0;
    for (size_t n = 0; n < samples_.size(); ++n) {
      const std::vector<std::vector<double>> got = outputs_of(part, samples_[n]);
      for (size_t o = 0; o < got.size(); ++o) loss += loss_of(expected_[n][o], got[o]);
    }
    return loss / static_cast<double>(samples_.size());
  }

 private:
  std::vector<std::vector<double>> outputs_of(Part& part, size_t i) const {
    part.run(sample_, i);
    std::vector<std::vector<double>> numbers;
    for (const Output& output : session_outputs(part.session(), output_ports(part.model())))
      numbers.push_back(real_numbers(output));
    return numbers;
  }

  std::vector<size_t> samples_;
  const Sample& sample_;
  const SessionSettings& settings_;
  std::vector<std::vector<std::vector<double>>> expected_;
};

class Compressor {
 public:
  Compressor(const Graph& real, const std::vector<size_t>& samples, const Sample& sample,
             const SessionSettings& settings, const CompressionOptions& options);

  // Do plans say the bits of all layers, so that there is nothing to search?
  bool decided() const { return open_.empty(); }
  // The price of a bit at which all weights take so many, about.
  double price_for(double bits) const;
  // With this price of a bit.
  Compression compress(double price) const;
  // How many weights have a price.
  double weights() const;

 private:
  // A layer whose bits are searched.
  struct Open {
    size_t pair;
    std::unique_ptr<Reconstruction> layer = {};  // with what it reads in the real model
    double sensitivity = 0;                      // what the outputs lose by its relative error
  };
  void refuse_other_plans(const LayerPlans& plans) const;
  double weights_of(size_t pair) const;
  void prune(size_t pair, Reconstruction* layer) const;
  std::vector<double> bits_for(double price) const;
  CompressedLayer layer_row(size_t pair, double bits, const Graph& graph) const;
  void observe_layers();
  Graph noisy(const Open& open, Vector<float>* noise) const;
  void price_errors();

  const Graph& real_;
  const std::vector<size_t>& samples_;
  const Sample& sample_;
  const SessionSettings& settings_;
  uint32_t seed_;
  LayerPlans plans_;  // of the nodes of the real model
  Formats formats_;   // of the same nodes
  Graph start_;       // with weights in int8
  Vector<LayerPair> pairs_;
  std::vector<Open> open_;
};

Compressor::Compressor(const Graph& real, const std::vector<size_t>& samples, const Sample& sample,
                       const SessionSettings& settings, const CompressionOptions& options)
    : real_(real),
      samples_(samples),
      sample_(sample),
      settings_(settings),
      seed_(options.seed * 2654435769u),  // far from the indices that are added
      plans_(real.nodes.size()),
      formats_(real.nodes.size(), WeightFormat{0, 0}),
      start_(real) {
  for (size_t i = 0; i < options.plans.size(); ++i) {
    const LayerPlan& plan = options.plans[i];
    plans_[i] = {
        .keep = plan.keep, .f32_activations = plan.f32_activations, .sparsity = plan.sparsity, .pattern = plan.pattern};
  }
  LayerPlans started;
  quantize_model(start_, samples_, sample_, settings_,
                 {.plans = plans_,
                  .f32_activations = !options.int8_activations,
                  .ranges = RangeMethod::mse,
                  .least_snr_db = options.least_snr_db,
                  .only_activations = true},
                 &started);
  for (size_t i = 0; i < plans_.size(); ++i) plans_[i].f32_activations = started[i].f32_activations;
  for (const LayerPair& pair : layer_pairs(real_, start_)) {
    if (!can_reconstruct(real_, pair)) continue;
    if (!options.plans.empty()) plans_[pair.real].bits = options.plans[pair.real].bits;
    if (!plans_[pair.real].bits) open_.push_back({.pair = pairs_.size()});
    pairs_.push_back(pair);
  }
  refuse_other_plans(options.plans);
  if (decided()) return;
  if (!options.target && !options.most_drop) {
    throw Error(fmt::format("expected bits for \"{}\" in the plan, or a target, from which they follow",
                            real_.nodes[pairs_[open_[0].pair].real].name.c_str()));
  }
  observe_layers();
  price_errors();
}

// Nothing that a plan says is ignored in silence.
void Compressor::refuse_other_plans(const LayerPlans& plans) const {
  for (size_t i = 0; i < plans.size(); ++i) {
    const bool is_layer = kind_of(real_.nodes[i].kind).has_weights() && !plans[i].keep;
    if (!is_layer || !(plans[i].bits || plans[i].sparsity)) continue;
    if (std::any_of(pairs_.begin(), pairs_.end(), [&](const LayerPair& pair) { return pair.real == i; })) continue;
    throw Error(fmt::format(
        "\"{}\" can have no bits and zeros of a plan: its weights are not finite, or too many for an output channel",
        real_.nodes[i].name.c_str()));
  }
}

double Compressor::price_for(double bits) const {
  double low = -60, high = 20;  // logarithms
  while (high - low > 0.002) {
    const double price = (low + high) / 2;
    const std::vector<double> estimated = bits_for(std::exp(price));
    (std::accumulate(estimated.begin(), estimated.end(), 0.0) > bits ? low : high) = price;
  }
  return std::exp(high);
}

// The bits of each layer. They have few digits, as plans have.
std::vector<double> Compressor::bits_for(double price) const {
  constexpr double digits = 1000;
  std::vector<double> bits(pairs_.size());
  for (const Open& open : open_) {
    const double of_weight = open.layer->bits(price / open.sensitivity) / weights_of(open.pair);
    bits[open.pair] = std::max(std::nearbyint(of_weight * digits), 1.0) / digits;
  }
  for (size_t i = 0; i < pairs_.size(); ++i) bits[i] = plans_[pairs_[i].real].bits.value_or(bits[i]) * weights_of(i);
  return bits;
}

// Collects what open layers read in the real model.
void Compressor::observe_layers() {
  Vector<int> tensors;
  std::vector<size_t> output_of;
  for (Open& open : open_) {
    const size_t node = pairs_[open.pair].real;
    const int input = real_.nodes[node].inputs[0];
    const auto found = std::find(tensors.begin(), tensors.end(), input);
    output_of.push_back(static_cast<size_t>(found - tensors.begin()));
    if (found == tensors.end()) tensors.push_back(input);
    open.layer =
        std::make_unique<Reconstruction>(real_, real_, LayerPair{node, node}, formats_[node], samples_.size(), seed_);
  }
  Part part(observed(real_, tensors), settings_);
  Progress progress("samples", samples_.size());
  for (const size_t i : samples_) {
    progress.step();
    part.run(sample_, i);
    for (size_t l = 0; l < open_.size(); ++l) {
      const auto* const x = static_cast<const float*>(part.output(output_of[l]));
      check(open_[l].layer->add(x, x, part.shape(output_of[l])));
    }
  }
  for (const Open& open : open_) prune(open.pair, open.layer.get());
}

// A copy of the model in which one layer's weights are noisy, and the noise.
Graph Compressor::noisy(const Open& open, Vector<float>* noise) const {
  constexpr double part_of_weights = 0.1;
  Graph graph = real_;
  Node& node = graph.nodes[pairs_[open.pair].real];
  const Tensor weights = tensor_of(real_, node.inputs[1]);
  const float* const before = constant_floats(real_, node.inputs[1]);
  const size_t rows = weights.shape[0], depth = real_.constants[at(weights.constant)].bytes / sizeof(float) / rows;
  std::mt19937 random(static_cast<uint32_t>(open.pair) + seed_);
  noise->resize(rows * depth);
  Vector<float> changed(rows * depth);
  for (size_t o = 0; o < rows; ++o) {
    const std::span row(before + o * depth, depth);
    const double power = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
    const double size = part_of_weights * std::sqrt(3 * power / static_cast<double>(depth));
    for (size_t i = o * depth; i < (o + 1) * depth; ++i) {
      (*noise)[i] = static_cast<float>(size * std::uniform_real_distribution<double>(-1, 1)(random));
      changed[i] = before[i] + (*noise)[i];
    }
  }
  node.inputs[1] = add_constant(graph, String(), QN_F32, weights.shape, changed.data());
  return graph;
}

// Adds noise to the weights of one layer after the other, and compares what the model's outputs lose with the errors of the
// layer's.
void Compressor::price_errors() {
  // Small models are sure of most samples, and lose nearly all on a few: they take more samples, which takes no longer.
  constexpr uint64_t least_samples = 128, most_samples = 2000, enough_macs = uint64_t{20} << 30;
  const uint64_t macs = std::max<uint64_t>(model_stats(real_).macs, 1);
  const auto enough = static_cast<size_t>(std::clamp(enough_macs / macs, least_samples, most_samples));
  constexpr double least = 1e-9;
  const Judge judge(real_, some_of(samples_, enough), sample_, settings_);
  Progress progress("layers", open_.size());
  for (Open& open : open_) {
    progress.step();
    Vector<float> noise;
    const double loss = judge.loss(noisy(open, &noise)), error = open.layer->relative_error(noise);
    const double sensitivity = error > 0 ? loss / error : 1;  // a layer that has read 0 keeps its weights
    open.sensitivity = std::isfinite(sensitivity) ? std::max(sensitivity, least) : least;
  }
}

Compression Compressor::compress(double price) const {
  Compression result;
  result.graph = start_;
  result.plans = plans_;
  const std::vector<double> bits = bits_for(price);
  result.planned_bits = std::accumulate(bits.begin(), bits.end(), 0.0);
  const auto finish = [&](size_t i, Reconstruction& layer) {
    double made;
    prune(i, &layer);
    check(layer.finish(result.graph, bits[i], &made));
    result.plans[pairs_[i].real].bits = bits[i] / weights_of(i);
    result.layers.push_back(layer_row(i, made, result.graph));
  };
  reconstruct_layers(real_, result.graph, pairs_, formats_, samples_, sample_, settings_, seed_, finish);
  check(optimize(result.graph));
  Vector<unsigned char> file;
  check(write_model(result.graph, &file, FileForm::coded));
  result.file_bytes = file.size();
  return result;
}

// If the plan says so.
void Compressor::prune(size_t pair, Reconstruction* layer) const {
  const LayerPlan& plan = plans_[pairs_[pair].real];
  if (plan.sparsity) layer->prune(*plan.sparsity, plan.pattern.value_or(BlockShape()));
}

double Compressor::weights_of(size_t pair) const {
  const Tensor& weights = tensor_of(real_, real_.nodes[pairs_[pair].real].inputs[1]);
  return static_cast<double>(real_.constants[at(weights.constant)].bytes / sizeof(float));
}

double Compressor::weights() const {
  double all = 0;
  for (size_t i = 0; i < pairs_.size(); ++i) all += weights_of(i);
  return all;
}

CompressedLayer Compressor::layer_row(size_t pair, double bits, const Graph& graph) const {
  CompressedLayer row;
  row.name = real_.nodes[pairs_[pair].real].name.c_str();
  row.bits = bits;
  const auto open = std::find_if(open_.begin(), open_.end(), [&](const Open& o) { return o.pair == pair; });
  if (open != open_.end()) row.sensitivity = open->sensitivity;
  const Tensor& weights = tensor_of(graph, graph.nodes[pairs_[pair].bytes].inputs[1]);
  const Constant& constant = graph.constants[at(weights.constant)];
  row.weights = constant.bytes;
  const auto* const levels = static_cast<const int8_t*>(constant.data);
  row.zeros = static_cast<uint64_t>(std::count(levels, levels + constant.bytes, 0));
  row.levels = std::set<int8_t>(levels, levels + constant.bytes).size() - (row.zeros != 0);
  return row;
}

// The time that a search has.
class Patience {
 public:
  explicit Patience(std::optional<double> seconds) : seconds_(seconds) {}
  bool ends() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    return seconds_ && passed.count() > *seconds_;
  }

 private:
  std::optional<double> seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The layers that stand in the way of fewer bytes.
std::string largest_layers(std::vector<CompressedLayer> layers) {
  constexpr size_t most = 3;
  std::sort(layers.begin(), layers.end(),
            [](const CompressedLayer& a, const CompressedLayer& b) { return a.bits > b.bits; });
  double all = 0;
  for (const CompressedLayer& layer : layers) all += layer.bits;
  std::string text;
  for (size_t i = 0; i < std::min(most, layers.size()); ++i)
    text += fmt::format("{}{} ({:.0f}%)", i == 0 ? "" : ", ", layers[i].name, 100 * layers[i].bits / all);
  return text;
}

// Steps towards the target by what the last file has missed, and bisects where files become smaller by jumps.
Compression compress_to_size(const Compressor& compressor, uint64_t target, const Patience& patience) {
  constexpr int passes = 8;
  constexpr double close = 0.997;
  const auto bytes = static_cast<double>(target);
  double wanted = 8 * bytes, fits = 0, exceeds = 64 * compressor.weights();  // bits of all weights
  Compression best;
  for (int pass = 0; pass < passes; ++pass) {
    Compression made = compressor.compress(compressor.price_for(wanted));
    const bool small = made.file_bytes <= target, first = best.file_bytes == 0;
    const bool same = !first && (made.planned_bits == fits || made.planned_bits == exceeds);  // it has an end
    (small ? fits : exceeds) = made.planned_bits;
    wanted = made.planned_bits + 8 * (bytes * (1 + close) / 2 - static_cast<double>(made.file_bytes));
    if (!(wanted > fits && wanted < exceeds)) wanted = (fits + exceeds) / 2;
    const bool better =
        small ? best.file_bytes > target || made.file_bytes > best.file_bytes : made.file_bytes < best.file_bytes;
    if (first || better) best = std::move(made);
    const bool ends = patience.ends() || static_cast<double>(best.file_bytes) >= close * bytes;
    if (compressor.decided() || same || (best.file_bytes <= target && ends)) break;
  }
  if (best.file_bytes > target) {
    throw Error(fmt::format("the file would have {} bytes at least, not {}; most of it is {}", best.file_bytes, target,
                            largest_layers(best.layers)));
  }
  return best;
}

// The samples that are views of these images, which are in order.
std::vector<size_t> views_of(const std::vector<size_t>& samples, size_t all_images, const std::vector<size_t>& images) {
  std::vector<size_t> views;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(views),
               [&](size_t i) { return std::binary_search(images.begin(), images.end(), i % all_images); });
  return views;
}

// Bisects the bits of a weight. `make(bits)` measures the drop, too.
template <class Make>
Compression compress_within_drop(double most, bool decided, const Patience& patience, const Make& make) {
  constexpr double most_bits = 8, least_bits = 0.5;
  const int passes = decided ? 0 : 7;
  Compression best = make(most_bits);
  const bool certain = best.drop->high <= most;
  const auto fits = [&](const Drop& drop) { return (certain ? drop.high : drop.points) <= most; };
  if (!fits(*best.drop)) {
    const std::string bits = decided ? "the bits of the plan" : fmt::format("{} bits for each weight", most_bits);
    throw Error(fmt::format("with {} the model loses {:.2f} points, not {:.3g}", bits, best.drop->points, most));
  }
  double enough = most_bits, few = least_bits;
  for (int pass = 0; pass < passes && !patience.ends(); ++pass) {
    const double bits = std::sqrt(enough * few);
    Compression made = make(bits);
    if (fits(*made.drop)) {
      enough = bits;
      best = std::move(made);
    } else {
      few = bits;
    }
  }
  return best;
}

// The bits of a choice between two, one of which has this probability.
double entropy(double p) { return p <= 0 || p >= 1 ? 0 : -p * std::log2(p) - (1 - p) * std::log2(1 - p); }

CurvePoint curve_point(const Compression& made) {
  CurvePoint point = {.file_bytes = made.file_bytes, .loss = made.loss, .drop = made.drop};
  for (const CompressedLayer& layer : made.layers) {
    const auto weights = static_cast<double>(layer.weights), others = weights - static_cast<double>(layer.zeros);
    const double positions = weights * entropy(others / weights);
    const double integers = others * std::ceil(std::log2(std::max<size_t>(layer.levels, 1)));
    point.zeros += (32 * (weights - others) - positions) / 8;
    point.integers += (32 * others - integers) / 8;
    point.coding += (positions + integers - layer.bits) / 8;
  }
  return point;
}

// Adds files that take less and more bits for each weight.
template <class Make>
void add_curve(double weights, const Patience& patience, const Judge& judge, const Make& make, Compression* best) {
  constexpr double most_bits = 8;
  for (const double part : {0.5, 0.7, 1.4, 2.0}) {
    if (patience.ends()) break;
    Compression made = make(std::min(part * best->planned_bits / weights, most_bits));
    made.loss = judge.loss(made.graph);
    best->curve.push_back(curve_point(made));
  }
  std::map<uint64_t, CurvePoint> by_size;  // as none has more bits than the most, some may be the same
  for (const CurvePoint& point : best->curve) by_size.emplace(point.file_bytes, point);
  best->curve.clear();
  for (const auto& [bytes, point] : by_size) best->curve.push_back(point);
}

}  // namespace

bool has_same_outputs(const Graph& before, const Graph& after, size_t samples, const Sample& sample,
                      const SessionSettings& settings) {
  constexpr size_t enough = 16;
  constexpr double most_loss = 1e-6;
  std::vector<size_t> all(samples);
  std::iota(all.begin(), all.end(), size_t{0});
  return Judge(before, some_of(all, enough), sample, settings).loss(after) <= most_loss;
}

Compression compress_model(const Graph& real, size_t samples, const Sample& sample, const SessionSettings& settings,
                           const CompressionOptions& options) {
  const Patience patience(options.seconds);
  const SampleSplit split = split_samples(options.images);
  std::vector<size_t> calibration(samples);
  std::iota(calibration.begin(), calibration.end(), size_t{0});
  const std::vector<size_t> held_out = views_of(calibration, options.images, split.measured);
  if (options.most_drop) calibration = views_of(calibration, options.images, split.calibration);
  const Compressor compressor(real, calibration, sample, settings, options);
  std::optional<DropMeter> meter;
  if (options.most_drop) meter.emplace(real, samples, options.images, sample, settings, options.labels);
  const auto make = [&](double bits_per_weight) {
    Compression made = compressor.compress(compressor.price_for(bits_per_weight * compressor.weights()));
    if (meter) made.drop = meter->measure(made.graph, held_out);
    return made;
  };
  Compression best;
  if (options.target) {
    best = compress_to_size(compressor, *options.target, patience);
  } else if (options.most_drop) {
    const double most = *options.most_drop * (options.relative_drop ? meter->accuracy() / 100 : 1);
    best = compress_within_drop(most, compressor.decided(), patience, make);
    best.most_drop = most;
  } else {
    best = compressor.compress(0);
  }
  const Judge judge(real, calibration, sample, settings);
  best.loss = judge.loss(best.graph);
  if (options.curve) best.curve = {curve_point(best)};
  if (options.curve && !compressor.decided()) add_curve(compressor.weights(), patience, judge, make, &best);
  return best;
}

}  // namespace quern
