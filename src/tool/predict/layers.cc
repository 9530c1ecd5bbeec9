#include "tool/predict/layers.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>

#include "convert/common/error.h"
#include "graph/backend/backend.h"
#include "graph/file/encoded.h"
#include "op/weights/density.h"
#include "op/weights/quantized.h"

namespace quern::predict {
namespace {

double elements_of(const Tensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), 1.0, std::multiplies<>());
}

double bytes_of(const Tensor& tensor) { return elements_of(tensor) * static_cast<double>(qn_type_size(tensor.type)); }

bool of_bytes(const Tensor& tensor) { return tensor.type == QN_S8 || tensor.type == QN_U8; }

WeightsShape shape_of_weights(const Layer& layer) { return {layer.groups, layer.out, layer.in, layer.kernel}; }

// Counts the zeros of a product's weights, and finds out which demands of kernels they meet. A few zeros do not count: the
// library takes such weights for dense, too.
void describe_weights(const Graph& graph, const Node& node, Layer* layer) {
  const Tensor& tensor = tensor_of(graph, node.inputs[1]);
  const Constant& constant = graph.constants[static_cast<size_t>(tensor.constant)];
  const WeightsShape shape = shape_of_weights(*layer);
  qn_weights weights;
  qn_weights_init(&weights);
  weights.type = tensor.type;
  ConstantRows rows(constant, shape.groups * shape.out);
  expect_ok(rows.read(0, shape.groups * shape.out, &weights.data));
  if (tensor.type == QN_S8) {
    const std::span bytes(static_cast<const int8_t*>(weights.data), constant.bytes);
    if (std::find(bytes.begin(), bytes.end(), INT8_MIN) == bytes.end()) layer->weights_are |= w127;
  }
  const WeightsDensity density = count_density(weights, shape);
  if (density.blocks[0][0] != density.elements) layer->zeros = density;
}

void describe_convolution(const Graph& graph, const Node& node, Layer* layer) {
  const Attributes& a = node.attributes;
  const auto &weights = tensor_of(graph, node.inputs[1]).shape, &out = tensor_of(graph, node.outputs[0]).shape;
  layer->images = out[0];
  layer->height = out[1];
  layer->width = out[2];
  layer->groups = a.groups;
  layer->out = weights[0] / a.groups;
  layer->in = weights[3];
  layer->kernel = {weights[1], weights[2]};
  layer->stride = a.stride;
  layer->undilated = a.stride.h * a.stride.w * a.dilation.h * a.dilation.w == 1;
  layer->contiguous = a.groups * a.dilation.w == 1;
  const qn_padding& p = a.padding;
  layer->pointwise = layer->taps() == 1 && layer->undilated && p.top + p.left + p.bottom + p.right == 0;
}

void describe_matrix(const Graph& graph, const Node& node, Layer* layer) {
  const auto& weights = tensor_of(graph, node.inputs[1]).shape;
  layer->out = weights[0];
  layer->in = weights[1];
  layer->width = static_cast<size_t>(layer->outputs) / layer->out;
}

// The kernel of bytes whose loop does all the work of an elementwise node. A function of one number is a table.
const char* loop_of(const Graph& graph, const Node& node) {
  const Kind& kind = kind_of(node.kind);
  const bool from_bytes = of_bytes(tensor_of(graph, node.inputs[0]));
  const bool to_bytes = of_bytes(tensor_of(graph, node.outputs[0]));
  if (node.kind == OpKind::quantize) return "qn_vquantize_qs8_neon";
  if (node.kind == OpKind::dequantize && from_bytes) return "qn_vdequantize_qs8_neon";
  if (!from_bytes || !to_bytes) return nullptr;
  const bool one_number = kind.min_inputs == 2 && elements_of(tensor_of(graph, node.inputs[1])) == 1;
  if (node.kind == OpKind::mul) return one_number ? "qn_vmulc_qs8_neon" : "qn_vmul_qs8_neon";
  if (kind.min_inputs == 2) return one_number ? "qn_vaddc_qs8_neon" : "qn_vadd_qs8_neon";
  const bool table = node.kind == OpKind::requantize || (kind.has(Kind::elementwise) && kind.types == TypeRule::steps);
  return table ? "qn_vlookup_qs8_neon" : nullptr;
}

// Does a layer of floats pack these weights as 4 bits?
bool packs_4_bits(const Graph& graph, const Node& node, const Layer& layer) {
  const Tensor& tensor = tensor_of(graph, node.inputs[1]);
  qn_weights weights;
  qn_weights_init(&weights);
  weights.data = graph.constants[static_cast<size_t>(tensor.constant)].data;
  weights.block_length = tensor.quantization.block;
  return fit_4_bits(weights, shape_of_weights(layer));
}

// The type of the kernels that multiply by the node's weights.
KernelType type_of(const Graph& graph, const Node& node, const Layer& layer) {
  const Tensor& weights = tensor_of(graph, node.inputs[1]);
  const bool blocks = weights.quantization.block != 0;
  if (of_bytes(tensor_of(graph, node.inputs[0]))) return KernelType::qs8c;
  if (node.attributes.quantize_input) return blocks ? KernelType::qd8b4 : KernelType::qd8c;
  if (layer.pointwise && !layer.depthwise() && packs_4_bits(graph, node, layer)) return KernelType::qw4b;
  const bool one_row = layer.pointwise && !layer.depthwise() && layer.pixels() * layer.images == 1;
  return one_row && of_bytes(weights) && !blocks ? KernelType::qw8c : KernelType::f32;
}

Layer layer_of(const Graph& graph, const Node& node) {
  if (node.kind > OpKind::copy) {
    throw Error(std::string("node '") + node.name.c_str() + "' (" + kind_name(node) +
                "): no cost model for this operator");
  }
  Layer layer;
  layer.name = std::string_view(node.name);
  layer.op = op_name(node.kind);
  for (const int input : node.inputs) {
    if (input != no_tensor && tensor_of(graph, input).constant < 0)
      layer.input_bytes += bytes_of(tensor_of(graph, input));
  }
  for (const int output : node.outputs) {
    layer.output_bytes += bytes_of(tensor_of(graph, output));
    layer.outputs += elements_of(tensor_of(graph, output));
  }
  const Kind& kind = kind_of(node.kind);
  const bool bytes = of_bytes(tensor_of(graph, node.inputs[0]));
  if (kind.has_weights()) {
    layer.work = Work::products;
    (node.kind == OpKind::conv2d ? describe_convolution : describe_matrix)(graph, node, &layer);
    layer.type = type_of(graph, node, layer);
    describe_weights(graph, node, &layer);
  } else if (!is_view(graph, node) && !kind.has(Kind::placed)) {
    layer.work = Work::vectors;
    if (bytes) layer.type = KernelType::qs8;
    layer.operations = static_cast<double>(terms_of(graph, node) + kind.operations);
    layer.loop = loop_of(graph, node);
  }
  return layer;
}

// Does everything that passes through the caches in a run fit into the last cache?
bool weights_stay(const std::vector<Layer>& layers, const PhoneCore& core) {
  double bytes = 0;
  for (const Layer& layer : layers) {
    bytes += layer.output_bytes;
    if (layer.work == Work::products) {
      const size_t element = bytes_of(info_of(layer.type).weights);
      bytes += static_cast<double>(layer.groups * layer.out * layer.depth() * element);
    }
  }
  return bytes <= static_cast<double>(core.last_bytes);
}

// ---- Pixel-blocked tensors

bool is_sparse(const Estimate& e) { return std::strcmp(e.algorithm, "sparse") == 0; }

// Which operators with windows take pixel-blocked tensors: none, or those that work on planes?
enum class Windows { none, planes };

// Does the node read and write pixel-blocked tensors, all of them so, as the runner's operators do? Windows do where
// they go plane by plane.
bool stays_blocked(const Graph& graph, const Node& node, const Layer& layer, Windows windows) {
  if (is_view(graph, node) || layouts_of(graph, node) != Layouts::same) return false;
  if (layer.work == Work::products) return layer.depthwise() && windows == Windows::planes;
  return kind_of(node.kind).terms != Terms::window || windows == Windows::planes;
}

// Does it take any layout, and give another?
bool changes_layout(const Graph& graph, const Node& node, const Estimate& estimate) {
  return layouts_of(graph, node) == Layouts::any && (!kind_of(node.kind).has_weights() || is_sparse(estimate));
}

// Finds the tensors that can be pixel-blocked: only such operators and sparse convolutions write and read them.
std::vector<bool> blocked_tensors(const Graph& graph, const std::vector<Layer>& layers,
                                  const std::vector<Estimate>& estimates, Windows windows) {
  std::vector<bool> blocked;
  for (const Tensor& tensor : graph.tensors) blocked.push_back(may_be_blocked(tensor));
  const auto drop = [&](int tensor) {
    if (tensor == no_tensor || !blocked[static_cast<size_t>(tensor)]) return false;
    blocked[static_cast<size_t>(tensor)] = false;
    return true;
  };
  for (const Vector<Port>* ports : {&graph.inputs, &graph.outputs})
    for (const Port& port : *ports) drop(port.tensor);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      if (changes_layout(graph, node, estimates[i])) continue;
      std::vector<int> all(node.outputs.begin(), node.outputs.end());
      for (const int input : node.inputs)
        if (input != no_tensor && tensor_of(graph, input).constant < 0) all.push_back(input);
      bool stays = stays_blocked(graph, node, layers[i], windows);
      for (const int tensor : all) stays = stays && blocked[static_cast<size_t>(tensor)];
      if (stays) continue;
      for (const int tensor : all) changed |= drop(tensor);
    }
  }
  return blocked;
}

// Estimates those convolutions again whose time changes when tensors are pixel-blocked.
std::vector<Estimate> estimate_blocked(const Graph& graph, std::vector<Layer> layers, std::vector<Estimate> estimates,
                                       const Machine& machine, Windows windows) {
  const std::vector<bool> blocked = blocked_tensors(graph, layers, estimates, windows);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.kind != OpKind::conv2d || !(is_sparse(estimates[i]) || layers[i].depthwise())) continue;
    layers[i].in_blocked = blocked[static_cast<size_t>(node.inputs[0])];
    layers[i].out_blocked = blocked[static_cast<size_t>(node.outputs[0])];
    estimates[i] = estimate(layers[i], machine);
  }
  return estimates;
}

double total_ms(const std::vector<Estimate>& estimates) {
  return std::accumulate(estimates.begin(), estimates.end(), 0.0,
                         [](double sum, const Estimate& e) { return sum + e.ms; });
}

}  // namespace

std::vector<Layer> layers_of(const Graph& graph) {
  std::vector<Layer> layers;
  for (const Node& node : graph.nodes) layers.push_back(layer_of(graph, node));
  return layers;
}

std::vector<Estimate> estimate_layers(const Graph& graph, std::vector<Layer> layers, Machine machine) {
  machine.weights_stay = weights_stay(layers, *machine.core);
  std::vector<Estimate> estimates;
  for (const Layer& layer : layers) estimates.push_back(estimate(layer, machine));
  const auto with = [&](Windows windows) { return estimate_blocked(graph, layers, estimates, machine, windows); };
  const std::vector<Estimate> none = with(Windows::none), planes = with(Windows::planes);
  return total_ms(planes) < total_ms(none) ? planes : none;
}

}  // namespace quern::predict
