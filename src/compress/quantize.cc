#include "compress/quantize.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>

#include "base/status.h"
#include "compress/linear_layer.h"
#include "compress/rounding.h"
#include "graph/file/sparse.h"
#include "graph/ir/kinds.h"
#include "graph/ir/rules.h"
#include "graph/pass/passes.h"

namespace quern {
namespace {

// ---- what becomes bytes -----------------------------------------------------------------------

// Decides which nodes compute with bytes, and which tensors are bytes between them.
class Plan {
 public:
  // Nodes whose format says so compute with floats in any case.
  Plan(const Graph& graph, const Formats& formats)
      : graph_(graph),
        formats_(formats),
        readers_(graph.tensors.size(), 0),
        concat_(graph.tensors.size(), nullptr),
        bytes_(graph.tensors.size()),
        follows_(graph.tensors.size()) {
    for (const Node& node : graph.nodes) {
      for (const int input : node.inputs) {
        if (input == no_tensor) continue;
        ++readers_[at(input)];
        if (node.kind == OpKind::concat) concat_[at(input)] = &node;
      }
    }
    for (const Port& port : graph.outputs) ++readers_[at(port.tensor)];
    mark();
  }

  // Does the node compute with bytes, so that its inputs and its output are bytes?
  bool computes(const Node& node) const {
    const WeightFormat& format = formats_[static_cast<size_t>(&node - graph_.nodes.data())];
    if (format.bits == f32_bits || format.f32_activations) return false;
    if (!is_float(node.outputs[0]) || node.outputs.size() != 1) return false;
    for (size_t i = 0; i < data_inputs(node); ++i) {
      if (!is_float(node.inputs[i]) || is_constant(node.inputs[i])) return false;
    }
    switch (kind_of(node.kind).types) {
      case TypeRule::sums: return fits(node);
      case TypeRule::steps: return node.kind != OpKind::softmax;  // of many classes, most are less than a step
      case TypeRule::chosen: return !moves(node) && (node.kind != OpKind::resize || nearest(node));
      default: return false;
    }
  }

  // Is the tensor bytes with a scale of its own?
  bool has_numbers(int tensor) const { return bytes_[at(tensor)] && !follows_[at(tensor)]; }

  // The concat whose numbers the tensor takes, because nothing else reads it; NULL if there is none.
  const Node* part_of(int tensor) const {
    const Node* concat = concat_[at(tensor)];
    const bool only = concat != nullptr && readers_[at(tensor)] == 1;
    return only && has_numbers(tensor) && has_numbers(concat->outputs[0]) ? concat : nullptr;
  }

 private:
  bool is_float(int tensor) const { return graph_.tensors[at(tensor)].type == QN_F32; }
  bool is_constant(int tensor) const { return graph_.tensors[at(tensor)].constant >= 0; }
  static bool nearest(const Node& node) { return node.attributes.mode == QN_RESIZE_NEAREST; }

  // Are the elements of the output elements of the input, so that they keep its scale?
  static bool moves(const Node& node) {
    const Attributes& a = node.attributes;
    switch (kind_of(node.kind).types) {
      case TypeRule::moved: return node.kind != OpKind::pad || a.alpha == 0;
      case TypeRule::chosen:
        return node.kind == OpKind::resize ? nearest(node) : a.min == -infinity && a.max == infinity;
      default: return false;
    }
  }

  // Are the weights floats whose sums fit when they are bytes?
  bool fits(const Node& node) const {
    const Tensor& weights = graph_.tensors[at(node.inputs[1])];
    if (weights.type != QN_F32 || graph_.constants[at(weights.constant)].encoded != nullptr) return false;
    const float* w = constant_floats(graph_, node.inputs[1]);
    const size_t rows = weights.shape[0], depth = graph_.constants[at(weights.constant)].bytes / sizeof(float) / rows;
    for (size_t o = 0; o < rows; ++o, w += depth) {
      double sum = 0, largest = 0;
      for (size_t i = 0; i < depth; ++i) {
        sum += double{std::abs(w[i])};
        largest = std::max(largest, double{std::abs(w[i])});
      }
      if (!std::isfinite(sum)) return false;
      if (largest > 0 && sum / largest * 127 + static_cast<double>(depth) / 2 > most_weights) return false;
    }
    return true;
  }

  bool all_float_inputs(const Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](int x) { return is_float(x) && !is_constant(x); });
  }

  void mark() {
    for (const Node& node : graph_.nodes) {
      if (!computes(node)) continue;
      bytes_[at(node.outputs[0])] = true;
      for (size_t i = 0; i < data_inputs(node); ++i) bytes_[at(node.inputs[i])] = true;
    }
    // What only moves elements does so with bytes if somebody needs its output as bytes.
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      if (!moves(node) || !bytes_[at(node.outputs[0])] || !all_float_inputs(node)) continue;
      for (const int input : node.inputs) bytes_[at(input)] = true;
    }
    for (const Node& node : graph_.nodes) {
      if (!moves(node) || node.inputs.size() != 1 || !all_float_inputs(node)) continue;
      if (bytes_[at(node.inputs[0])]) follows_[at(node.outputs[0])] = true;
    }
  }

  const Graph& graph_;
  const Formats& formats_;
  // Per tensor:
  Vector<size_t> readers_;        // being an output of the graph counts
  Vector<const Node*> concat_;    // that reads it
  Vector<bool> bytes_, follows_;  // one that follows has the scale of the tensor that it comes from
};

// ---- weights ----------------------------------------------------------------------------------

// Adds the weights of a layer as integers. An input scale of 0: the input is f32.
int quantized_weights(Graph& graph, const Node& node, float input_scale, const WeightFormat& format) {
  const Tensor weights = graph.tensors[at(node.inputs[1])];
  const size_t rows = weights.shape[0], depth = graph.constants[at(weights.constant)].bytes / sizeof(float) / rows;
  const float* bias = has_bias(node) ? constant_floats(graph, node.inputs[2]) : nullptr;
  const float* w = constant_floats(graph, node.inputs[1]);
  Vector<int8_t> bytes(rows * depth);
  Quantization q;
  q.axis = 0;
  q.block = format.block;
  for (size_t o = 0; o < rows; ++o) {
    const float least = least_scale(bias == nullptr ? 0 : bias[o], input_scale);
    for (size_t i = 0; i < depth; i += format.run(depth)) {
      const float* const run = w + o * depth + i;
      const size_t count = std::min(format.run(depth), depth - i);
      const Vector<double> values(run, run + count);
      q.scales.push_back(scale_of_weights(values.data(), count, format, least));
      for (size_t k = 0; k < count; ++k)
        bytes[o * depth + i + k] = format.nearest(double{run[k]} / double{q.scales.back()});
    }
  }
  const int tensor = add_constant(graph, String(), QN_S8, weights.shape, bytes.data());
  graph.tensors[at(tensor)].quantization = std::move(q);
  return tensor;
}

// ---- the graph --------------------------------------------------------------------------------

// Puts nodes that convert to bytes and back after the tensors that become bytes. The optimizer then makes the nodes in
// between compute with them.
class Quantizer {
 public:
  Quantizer(Graph& graph, const std::map<int, Quantization>& numbers) : graph_(graph), numbers_(numbers) {}

  void run() {
    Vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    std::map<int, int> read_instead;  // inputs of the graph
    for (const Port& port : graph_.inputs) {
      const auto found = numbers_.find(port.tensor);
      if (found == numbers_.end()) continue;
      const int floats = add_tensor(graph_, String(), QN_F32, graph_.tensors[at(port.tensor)].shape);
      read_instead[port.tensor] = floats;
      add_conversions(graph_.tensors[at(port.tensor)].name, port.tensor, found->second, floats);
    }
    for (Node& node : nodes) {
      for (int& input : node.inputs) {
        if (const auto found = read_instead.find(input); found != read_instead.end()) input = found->second;
      }
      const int output = node.outputs[0];
      const auto found = numbers_.find(output);
      if (found == numbers_.end()) {
        graph_.nodes.push_back(std::move(node));
        continue;
      }
      const int floats = add_tensor(graph_, String(), QN_F32, graph_.tensors[at(output)].shape);
      const String name = node.name;
      node.outputs[0] = floats;
      graph_.nodes.push_back(std::move(node));
      add_conversions(name, floats, found->second, output);
    }
  }

 private:
  // The name may be that of a tensor of the graph, which grows: it is copied.
  void add_conversions(const String name, int from, const Quantization& numbers, int to) {
    const auto named = [&](const char* part) {
      String text = name;
      text += part;
      return text;
    };
    const int bytes = add_tensor(graph_, String(), QN_S8, graph_.tensors[at(from)].shape);
    graph_.tensors[at(bytes)].quantization = numbers;
    graph_.nodes.push_back({OpKind::quantize, named("/quantize"), {from}, {bytes}, {}});
    graph_.nodes.push_back({OpKind::dequantize, named("/dequantize"), {bytes}, {to}, {}});
  }

  Graph& graph_;
  const std::map<int, Quantization>& numbers_;
};

Vector<int> tensors_with_numbers(const Graph& graph, const Plan& plan) {
  Vector<int> tensors;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (plan.has_numbers(static_cast<int>(i))) tensors.push_back(static_cast<int>(i));
  }
  return tensors;
}

// Sorts ranges by their tensors.
qn_status check_ranges(const Graph& graph, const Vector<Range>& ranges, std::map<int, Range>* by_tensor) {
  const Vector<int> tensors = tensors_to_observe(graph);
  if (ranges.size() != tensors.size())
    return fail(QN_INVALID_ARGUMENT, "%zu ranges of %zu tensors", ranges.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!std::isfinite(ranges[i].low) || !std::isfinite(ranges[i].high)) {
      return fail(QN_BAD_MODEL, "tensor %d ('%.100s') has had values that are not finite", tensors[i],
                  graph.tensors[at(tensors[i])].name.c_str());
    }
    (*by_tensor)[tensors[i]] = ranges[i];
  }
  return QN_OK;
}

// The part of a concat takes the numbers of the whole, so that it need not be rounded twice. A concat may itself be a
// part of another.
void share_numbers(const Plan& plan, std::map<int, Quantization>* numbers) {
  for (auto at = numbers->rbegin(); at != numbers->rend(); ++at) {
    if (const Node* concat = plan.part_of(at->first)) at->second = numbers->at(concat->outputs[0]);
  }
}

// Is the second node, which computes with bytes, made of the first?
bool is_pair(const Graph& real, const Node& node, const Graph& quantized, const Node& bytes) {
  const auto is = [](const Graph& graph, int tensor, qn_type type, bool constant) {
    return tensor_of(graph, tensor).type == type && (tensor_of(graph, tensor).constant >= 0) == constant;
  };
  return node.kind == bytes.kind && is(real, node.inputs[0], QN_F32, false) && is(real, node.inputs[1], QN_F32, true) &&
         (!has_bias(node) || is(real, node.inputs[2], QN_F32, true)) &&
         (is(quantized, bytes.inputs[0], QN_S8, false) || is(quantized, bytes.inputs[0], QN_F32, false)) &&
         is(quantized, bytes.inputs[1], QN_S8, true) &&
         tensor_of(real, node.inputs[1]).shape == tensor_of(quantized, bytes.inputs[1]).shape;
}

// 4 if all weights fit, as kernels then keep them.
int bits_of(const Graph& graph, const Tensor& weights) {
  const Constant& constant = graph.constants[at(weights.constant)];
  const std::span all(static_cast<const int8_t*>(constant.data), constant.bytes);
  return std::all_of(all.begin(), all.end(), [](int8_t w) { return w >= -8 && w <= 7; }) ? 4 : 8;
}

// Are the layer's weights f32, dense and finite?
bool has_finite_weights(const Graph& graph, const Node& node) {
  const Tensor& weights = tensor_of(graph, node.inputs[1]);
  if (weights.type != QN_F32 || weights.constant < 0) return false;
  const Constant& constant = graph.constants[at(weights.constant)];
  if (constant.encoded != nullptr) return false;
  const std::span all(static_cast<const float*>(constant.data), constant.bytes / sizeof(float));
  return std::all_of(all.begin(), all.end(), [](float w) { return std::isfinite(w); });
}

// Signal to noise of a layer's weights, in decibels.
double noise_of(const Graph& real, const Node& before, const Graph& quantized, const Node& node) {
  const Tensor& weights = tensor_of(quantized, node.inputs[1]);
  const Constant& constant = quantized.constants[at(weights.constant)];
  const auto* const bytes = static_cast<const int8_t*>(constant.data);
  const float* const floats = constant_floats(real, before.inputs[1]);
  const Vector<float>& scales = weights.quantization.scales;
  const size_t rows = weights.shape[0], depth = constant.bytes / rows, runs = scales.size() / rows;
  const size_t run = weights.quantization.block == 0 ? depth : weights.quantization.block;
  double power = 0, error = 0;
  for (size_t i = 0; i < constant.bytes; ++i) {
    const double scale = scales[scales.size() == 1 ? 0 : i / depth * runs + i % depth / run];
    power += double{floats[i]} * double{floats[i]};
    error += std::pow(double{floats[i]} - bytes[i] * scale, 2);
  }
  return 10 * std::log10(power / error);
}

// Finds what tensors of a graph have held on samples.
class Seen {
 public:
  Seen(const Graph& graph, std::span<const Histogram> histograms) {
    if (histograms.empty()) return;
    const Vector<int> observed = tensors_to_observe(graph);
    for (size_t i = 0; i < observed.size(); ++i) of_[observed[i]] = &histograms[i];
    for (const Node& node : graph.nodes) {
      if (!node.inputs.empty()) source_[node.outputs[0]] = node.inputs[0];
    }
  }
  // A tensor that was not observed has the values of the one that it comes from.
  double saturation(int tensor, const Quantization& numbers) const {
    while (!of_.contains(tensor)) {
      const auto source = source_.find(tensor);
      if (source == source_.end()) return 0;
      tensor = source->second;
    }
    return of_.at(tensor)->saturation(numbers);
  }

 private:
  std::map<int, const Histogram*> of_;
  std::map<int, int> source_;
};

// Makes weights of a layer integers that reads and writes f32, if its format says so and they are finite.
bool quantize_weights_alone(Graph& graph, Node& node, const WeightFormat& format) {
  const bool integers = kind_of(node.kind).has_weights() && format.bits != f32_bits;
  if (!integers || !has_finite_weights(graph, node)) return false;
  const int weights = quantized_weights(graph, node, 0, format);
  node.inputs[1] = weights;
  return true;
}

}  // namespace

Formats formats_for(const Graph& graph, const WeightFormat& wanted) {
  Formats formats(graph.nodes.size());
  for (size_t i = 0; i < formats.size(); ++i) {
    if (!kind_of(graph.nodes[i].kind).has_weights()) continue;
    const Tensor& weights = tensor_of(graph, graph.nodes[i].inputs[1]);
    formats[i] = format_of_layer(wanted, graph.constants[at(weights.constant)].bytes / qn_type_size(weights.type));
  }
  return formats;
}

Vector<int> tensors_to_observe(const Graph& graph) {
  const Formats formats = formats_for(graph);
  return tensors_with_numbers(graph, Plan(graph, formats));
}

Graph observed(const Graph& graph, const Vector<int>& tensors) {
  Graph copy = graph;
  copy.outputs.clear();
  for (const int tensor : tensors) {
    String& name = copy.tensors[at(tensor)].name;  // outputs must have one
    if (name.empty()) name = ("observed " + std::to_string(tensor)).c_str();
    copy.outputs.push_back({.tensor = tensor, .type = QN_F32});
  }
  return copy;
}

Vector<size_t> quantizable_nodes(const Graph& graph) {
  const Formats formats = formats_for(graph);
  const Plan plan(graph, formats);
  Vector<size_t> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (plan.computes(graph.nodes[i])) nodes.push_back(i);
  }
  return nodes;
}

qn_status quantize_weights(Graph& graph, const Formats& formats) {
  QN_TRY(check_plain(graph));
  size_t layers = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) layers += quantize_weights_alone(graph, graph.nodes[i], formats[i]);
  return layers != 0 ? optimize(graph) : fail(QN_UNSUPPORTED, "no layer of the model has f32 weights to quantize");
}

qn_status quantize(Graph& graph, const Vector<Range>& ranges, const Formats& formats) {
  QN_TRY(check_plain(graph));
  const Plan plan(graph, formats);
  std::map<int, Range> observed;
  QN_TRY(check_ranges(graph, ranges, &observed));
  std::map<int, Quantization> numbers;
  for (const int tensor : tensors_with_numbers(graph, plan)) numbers[tensor] = numbers_of(observed.at(tensor));
  if (numbers.empty()) return fail(QN_UNSUPPORTED, "no node of the model can compute in int8");
  share_numbers(plan, &numbers);
  Vector<size_t> computing;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (kind_of(graph.nodes[i].kind).has_weights() && plan.computes(graph.nodes[i])) computing.push_back(i);
  }
  std::map<int, int> source;  // tensor that follows another's numbers -> that tensor
  for (const Node& node : graph.nodes) {
    if (!plan.has_numbers(node.outputs[0]) && !node.inputs.empty()) source[node.outputs[0]] = node.inputs[0];
  }
  for (const size_t i : computing) {
    Node& node = graph.nodes[i];
    int input = node.inputs[0];
    while (!numbers.contains(input)) input = source.at(input);
    const int weights = quantized_weights(graph, node, numbers.at(input).scales[0], formats[i]);
    node.inputs[1] = weights;
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (formats[i].f32_activations) quantize_weights_alone(graph, graph.nodes[i], formats[i]);
  }
  Quantizer(graph, numbers).run();
  return optimize(graph);
}

Vector<LayerPair> layer_pairs(const Graph& real, const Graph& quantized) {
  std::map<std::string, size_t> named;
  for (size_t i = 0; i < real.nodes.size(); ++i) named[real.nodes[i].name.c_str()] = i;
  Vector<LayerPair> pairs;
  for (size_t i = 0; i < quantized.nodes.size(); ++i) {
    const Node& node = quantized.nodes[i];
    if (!kind_of(node.kind).has_weights()) continue;
    const auto found = named.find(node.name.c_str());
    if (found != named.end() && is_pair(real, real.nodes[found->second], quantized, node))
      pairs.push_back({found->second, i});
  }
  return pairs;
}

Vector<QuantizedLayer> quantized_layers(const Graph& real, const Graph& quantized, std::span<const Histogram> seen) {
  const Vector<LayerPair> pairs = layer_pairs(real, quantized);
  const Seen values(real, seen);
  Vector<QuantizedLayer> layers;
  for (size_t i = 0; i < quantized.nodes.size(); ++i) {
    const Node& node = quantized.nodes[i];
    if (!kind_of(node.kind).has_weights()) continue;
    const Tensor &in = tensor_of(quantized, node.inputs[0]), &weights = tensor_of(quantized, node.inputs[1]);
    QuantizedLayer& layer = layers.emplace_back();
    layer.name = node.name;
    layer.kind = node.kind;
    layer.bytes = in.type == QN_S8;
    layer.weights = quantized.constants[at(weights.constant)].bytes / qn_type_size(weights.type);
    layer.weight_bits = weights.type == QN_S8 ? bits_of(quantized, weights) : f32_bits;
    layer.noise_db = double{infinity};
    const auto pair = std::find_if(pairs.begin(), pairs.end(), [&](const LayerPair& p) { return p.bytes == i; });
    if (pair != pairs.end()) layer.noise_db = noise_of(real, real.nodes[pair->real], quantized, node);
    if (!layer.bytes) continue;
    layer.input = in.quantization;
    layer.output = tensor_of(quantized, node.outputs[0]).quantization;
    if (pair == pairs.end()) continue;
    layer.input_saturation = values.saturation(real.nodes[pair->real].inputs[0], layer.input);
    layer.output_saturation = values.saturation(real.nodes[pair->real].outputs[0], layer.output);
  }
  return layers;
}

}  // namespace quern
