#include "tool/quantization.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "graph/file/encoded.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"
#include "tool/output/outputs.h"
#include "tool/progress.h"
#include "tool/reconstruction.h"

namespace quern {
namespace {

void observe(const qn_session* session, std::vector<Histogram>* histograms) {
  for (size_t i = 0; i < histograms->size(); ++i) {
    qn_tensor tensor;
    const void* data = nullptr;
    check(qn_session_output_tensor(session, i, &tensor));
    check(qn_session_output(session, i, &data));
    (*histograms)[i].add(static_cast<const float*>(data), qn_tensor_bytes(&tensor) / sizeof(float));
  }
}

// Reconstructs the layers of the nodes that `wanted` marks.
void reconstruct(const Graph& real, Graph* quantized, const Formats& formats, const Vector<bool>& wanted,
                 const std::vector<size_t>& samples, const Sample& sample, const SessionSettings& settings) {
  Vector<LayerPair> pairs;
  for (const LayerPair& pair : layer_pairs(real, *quantized)) {
    if (wanted[pair.real] && can_reconstruct(real, pair)) pairs.push_back(pair);
  }
  if (pairs.empty()) return;
  reconstruct_layers(real, *quantized, pairs, formats, samples, sample, settings, 0,
                     [&](size_t, Reconstruction& layer) { check(layer.finish(*quantized)); });
  check(optimize(*quantized));
}

// Observes the tensors of a model on samples.
std::vector<Histogram> observe_values(const Graph& graph, const std::vector<size_t>& samples, const Sample& sample,
                                      const SessionSettings& settings) {
  const Vector<int> tensors = tensors_to_observe(graph);
  std::vector<Histogram> histograms(tensors.size());
  if (!tensors.empty()) {
    qn_model* made = nullptr;
    check(make_model(observed(graph, tensors), nullptr, &made));
    const ModelPtr model(made);
    const SessionPtr session = make_session(model.get(), settings);
    Progress progress("samples", samples.size());
    for (const size_t i : samples) {
      run_session(session.get(), sample(model.get(), session.get(), i));
      observe(session.get(), &histograms);
      progress.step();
    }
  }
  return histograms;
}

// Quantizes a model until its outputs have a signal-to-noise ratio, or once.
class Search {
 public:
  Search(const Graph& real, const Vector<Range>& ranges, const std::vector<size_t>& samples, const Sample& sample,
         const SessionSettings& settings, const QuantizationOptions& options)
      : real_(real),
        ranges_(ranges),
        samples_(samples),
        sample_(sample),
        settings_(settings),
        options_(options),
        formats_(formats_for(real, options.weights)),
        reconstructed_(real.nodes.size(), options.reconstructs) {
    for (size_t i = 0; i < options.plans.size(); ++i) obey(i, options.plans[i]);
    qn_model* made = nullptr;
    check(make_model(real, nullptr, &made));
    model_.reset(made);
  }

  // Leaves more nodes f32, if need be.
  Graph run();
  // What has become of the nodes.
  LayerPlans plans(const Graph& quantized) const;

 private:
  void obey(size_t node, const LayerPlan& plan);
  void leave_f32(const Vector<size_t>& nodes, Formats* formats) const;
  Graph quantized(const Vector<size_t>& f32, bool reconstructs) const;
  double snr_db(const Graph& graph, size_t samples) const;
  bool reaches(const Graph& graph) const { return snr_db(graph, samples_.size()) >= *options_.least_snr_db; }
  Vector<size_t> worst_first() const;

  const Graph& real_;
  const Vector<Range>& ranges_;
  const std::vector<size_t>& samples_;
  const Sample& sample_;
  const SessionSettings& settings_;
  const QuantizationOptions& options_;
  Formats formats_;             // by node
  Vector<bool> reconstructed_;  // by node
  ModelPtr model_;
};

void Search::obey(size_t node, const LayerPlan& plan) {
  WeightFormat& format = formats_[node];
  if (plan.bits) format.bits = static_cast<int>(*plan.bits);
  if (plan.block) format.block = *plan.block;
  if (plan.keep) format.bits = f32_bits;
  format.f32_activations = plan.f32_activations;
  if (plan.reconstructs) reconstructed_[node] = *plan.reconstructs;
}

LayerPlans Search::plans(const Graph& quantized) const {
  LayerPlans plans(real_.nodes.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i].keep = formats_[i].bits == f32_bits;
    plans[i].f32_activations = formats_[i].f32_activations;
  }
  for (const LayerPair& pair : layer_pairs(real_, quantized)) {
    LayerPlan& plan = plans[pair.real];
    plan.bits = formats_[pair.real].bits;
    plan.block = formats_[pair.real].block;
    plan.reconstructs = reconstructed_[pair.real];
  }
  return plans;
}

void Search::leave_f32(const Vector<size_t>& nodes, Formats* formats) const {
  for (const size_t node : nodes) {
    WeightFormat& format = (*formats)[node];
    (options_.only_activations ? format.f32_activations = true : format.bits = f32_bits);
  }
}

Graph Search::quantized(const Vector<size_t>& f32, bool reconstructs) const {
  Graph graph = real_;
  Formats formats = formats_;
  leave_f32(f32, &formats);
  check(options_.f32_activations ? quantize_weights(graph, formats) : quantize(graph, ranges_, formats));
  if (reconstructs) reconstruct(real_, &graph, formats, reconstructed_, samples_, sample_, settings_);
  return graph;
}

// The smallest one of all outputs, on some of the samples.
double Search::snr_db(const Graph& graph, size_t count) const {
  qn_model* made = nullptr;
  check(make_model(graph, nullptr, &made));
  const ModelPtr model(made);
  double least = std::numeric_limits<double>::infinity();
  for (const OutputQuality& output :
       compare_outputs(model_.get(), model.get(), some_of(samples_, count), sample_, settings_))
    least = std::min(least, output.snr_db);
  return least;
}

// Nodes by what the outputs lose if each alone computes in int8.
Vector<size_t> Search::worst_first() const {
  Vector<size_t> nodes = quantizable_nodes(real_);
  erase_if(nodes, [&](size_t node) { return formats_[node].bits == f32_bits || formats_[node].f32_activations; });
  const size_t count = std::min<size_t>(samples_.size(), 8);
  std::vector<std::pair<double, size_t>> order;
  Progress progress("nodes", nodes.size());
  for (const size_t node : nodes) {
    Vector<size_t> others;
    for (const size_t other : nodes) {
      if (other != node) others.push_back(other);
    }
    order.emplace_back(snr_db(quantized(others, false), count), node);
    progress.step();
  }
  std::sort(order.begin(), order.end());
  Vector<size_t> worst;
  for (const auto& [snr, node] : order) worst.push_back(node);
  return worst;
}

// Bisects how many of the worst nodes remain f32, with the nearest weights. Reconstruction takes too long for that; it
// comes last, and only improves the result.
Graph Search::run() {
  Graph graph = quantized({}, true);
  if (!options_.least_snr_db || reaches(graph)) return graph;
  const Vector<size_t> worst = worst_first();
  const auto first = [&](size_t count) {
    return Vector<size_t>(worst.begin(), worst.begin() + static_cast<ptrdiff_t>(count));
  };
  size_t few = 0, enough = worst.size();
  while (enough - few > 1) {
    const size_t count = (few + enough) / 2;
    (reaches(quantized(first(count), false)) ? enough : few) = count;
  }
  if (enough == worst.size()) {
    throw Error(fmt::format("no part of the model can be int8: its outputs would have less than {} dB",
                            *options_.least_snr_db));
  }
  graph = quantized(first(enough), true);
  const bool helps = reaches(graph);
  if (!helps) graph = quantized(first(enough), false), reconstructed_.assign(reconstructed_.size(), false);
  leave_f32(first(enough), &formats_);
  return graph;
}

}  // namespace

Vector<QuantizedLayer> quantize_model(Graph& graph, const std::vector<size_t>& samples, const Sample& sample,
                                      const SessionSettings& settings, const QuantizationOptions& options,
                                      LayerPlans* made) {
  check(make_dense(graph));
  std::vector<Histogram> seen;
  if (!options.f32_activations) seen = observe_values(graph, samples, sample, settings);
  Vector<Range> ranges;
  for (const Histogram& histogram : seen) ranges.push_back(histogram.range(options.ranges));
  const Graph real = graph;
  Search search(real, ranges, samples, sample, settings, options);
  graph = search.run();
  if (made != nullptr) *made = search.plans(graph);
  return quantized_layers(real, graph, seen);
}

SampleSplit split_samples(size_t count) {
  constexpr size_t parts = 5;
  SampleSplit split;
  split.held_out = count >= parts;
  for (size_t i = 0; i < count; ++i) {
    const bool apart = i % parts == parts - 1;
    if (!split.held_out || !apart) split.calibration.push_back(i);
    if (!split.held_out || apart) split.measured.push_back(i);
  }
  return split;
}

namespace {

// Sums over all samples.
struct Quality {
  double signal = 0, noise = 0;
  size_t items = 0, same = 0;

  void add(const std::vector<double>& expected, const std::vector<double>& got, size_t classes);
  OutputQuality finish(const std::string& name) const;
};

// `classes`: values of each item, of which the largest counts; 0: the output is no classification.
void Quality::add(const std::vector<double>& expected, const std::vector<double>& got, size_t classes) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool equal = expected[i] == got[i] || (std::isnan(expected[i]) && std::isnan(got[i]));
    const double difference = equal ? 0 : expected[i] - got[i];
    signal += std::isfinite(expected[i]) ? expected[i] * expected[i] : 0;
    noise += std::isfinite(difference) ? difference * difference : std::numeric_limits<double>::infinity();
  }
  for (size_t i = 0; classes != 0 && i + classes <= expected.size(); i += classes) {
    const auto best = [&](const std::vector<double>& values) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(i);
      return std::max_element(first, first + static_cast<std::ptrdiff_t>(classes)) - first;
    };
    ++items;
    same += best(expected) == best(got);
  }
}

OutputQuality Quality::finish(const std::string& name) const {
  OutputQuality quality;
  quality.name = name;
  quality.snr_db = noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
  if (items != 0) quality.top1 = static_cast<double>(same) / static_cast<double>(items);
  return quality;
}

// The length of the vectors, if an output has one for each item of the batch, such as [N, C] and [N, C, 1, 1]; else 0.
size_t classes_of(const qn_tensor& tensor) {
  const bool shaped = tensor.rank == 2 || tensor.rank == 4;
  size_t classes = 1, vectors = 0;
  for (uint32_t d = 1; d < tensor.rank; ++d) {
    classes *= tensor.shape[d];
    vectors += tensor.shape[d] != 1;
  }
  return shaped && vectors == 1 ? classes : 0;
}

}  // namespace

std::vector<OutputQuality> compare_outputs(qn_model* real, qn_model* quantized, const std::vector<size_t>& samples,
                                           const Sample& sample, const SessionSettings& settings) {
  const SessionPtr before = make_session(real, settings), after = make_session(quantized, settings);
  const std::vector<qn_port> ports = output_ports(real);
  const bool detects = !model_graph(*real).postprocessing.detections.empty();
  std::vector<Quality> sums(ports.size());
  Progress progress("compared samples", samples.size());
  for (const size_t i : samples) {
    const std::vector<InputData> inputs = sample(real, before.get(), i);
    run_session(before.get(), inputs);
    run_session(after.get(), inputs);
    const std::vector<Output> expected = session_outputs(before.get(), ports),
                              got = session_outputs(after.get(), ports);
    for (size_t o = 0; o < ports.size(); ++o) {
      const std::vector<double> values = real_numbers(expected[o]), other = real_numbers(got[o]);
      if (values.size() != other.size()) throw Error(fmt::format("output \"{}\" has another size now", ports[o].name));
      sums[o].add(values, other, detects ? 0 : classes_of(expected[o].tensor));
    }
    progress.step();
  }
  std::vector<OutputQuality> qualities;
  for (size_t o = 0; o < ports.size(); ++o) qualities.push_back(sums[o].finish(ports[o].name));
  return qualities;
}

}  // namespace quern
