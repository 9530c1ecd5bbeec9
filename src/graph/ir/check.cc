// check_graph and infer_shapes: everything that reads a graph relies on them.
#include "graph/ir/check.h"

#include <cmath>

#include "base/search.h"
#include "base/tensor.h"
#include "graph/ir/custom.h"
#include "graph/pass/passes.h"

namespace quern {
namespace {

// Far above any real network. The limit bounds the time of steps that are quadratic in the number of nodes (the memory
// plan).
constexpr size_t max_nodes = 20000;
#ifndef QN_SMALL  // has_subgraphs
// How many graphs may lie within each other, with the outermost one. Readers of files take no more if the innermost
// graph has nodes.
constexpr size_t max_depth = 6;
#endif

// ---- nodes

qn_status check_attributes(const Node& node) {
#ifndef QN_SMALL  // small builds get graphs from files only, and the reader of files has checked this
  const Attributes& a = node.attributes;
#define QN_ATTRIBUTE(name, field, low, high)                                                     \
  if (!in_range(a.field, low, high)) {                                                           \
    return fail_node(node, #name " is %g, which is out of range", static_cast<double>(a.field)); \
  }
#include "graph/ir/attributes.inc"
#undef QN_ATTRIBUTE
#endif
  const size_t values = node.attributes.values.size();
  const bool is_loop = node.kind == OpKind::loop;  // check_loop() checks them
  if (!is_loop && values > 2 * QN_MAX_RANK) return fail_node(node, "%zu values are too many", values);
  return check_rule(node);
}

// `defined` says which tensors have a value when the node runs.
qn_status check_inputs(const Graph& graph, const Node& node, const Vector<bool>& defined) {
  const Kind& kind = kind_of(node.kind);
  const bool parameters = kind.has(Kind::parameters), custom = node.kind > OpKind::copy;
  if (node.inputs.size() < kind.min_inputs || node.inputs.size() > kind.max_inputs) {
    return fail_node(node, "%zu inputs instead of %d to %d", node.inputs.size(), kind.min_inputs, kind.max_inputs);
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const int input = node.inputs[i];
    const bool optional = node.kind == OpKind::loop ? i < 2 : (parameters || custom) && i >= kind.min_inputs;
    if (input == no_tensor && optional) continue;
    if (input < 0 || static_cast<size_t>(input) >= graph.tensors.size()) {
      return fail_node(node, "input %zu is tensor %d, which does not exist", i, input);
    }
    const Tensor& tensor = tensor_of(graph, input);
    if (!defined[static_cast<size_t>(input)]) {
      return fail_node(node, "input %zu, tensor %d, has no value yet", i, input);
    }
    const int first = custom ? input : node.inputs[0];
    QN_TRY(check_input_type(node, i, tensor.type, tensor_of(graph, first).type));
    if (is_encoded(graph, tensor) && !(kind.has_weights() && i == 1)) {
      return fail_node(node, "input %zu is an encoded constant, but only weights may be encoded", i);
    }
    if (has_blocks(tensor) && !(kind.has_weights() && i == 1)) {
      return fail_node(node, "input %zu has scales for blocks, but only weights may have them", i);
    }
    if (parameters && i > 0 && tensor.constant < 0) return fail_node(node, "input %zu is not a constant", i);
    if (parameters && i > 0 && is_empty(tensor.shape)) return fail_node(node, "input %zu has no elements", i);
  }
  return QN_OK;
}

qn_status check_outputs(const Graph& graph, const Node& node, Vector<bool>* defined) {
  const size_t most = kind_of(node.kind).max_outputs;
  if (node.outputs.empty() || node.outputs.size() > most) {
    return fail_node(node, "%zu outputs instead of 1 to %zu", node.outputs.size(), most);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const int output = node.outputs[i];
    if (output < 0 || static_cast<size_t>(output) >= graph.tensors.size()) {
      return fail_node(node, "output %zu is tensor %d, which does not exist", i, output);
    }
    if ((*defined)[static_cast<size_t>(output)]) return fail_node(node, "tensor %d is written twice", output);
    (*defined)[static_cast<size_t>(output)] = true;
  }
  return QN_OK;
}

#ifdef QN_SMALL  // has_subgraphs
qn_status check_subgraphs_of(const Graph&, const Node&) { return QN_OK; }
#else
// Compares types of the tensors of a node, from `first` on, with those of a subgraph's inputs or outputs.
qn_status check_types(const Graph& graph, const Node& node, const Vector<int>& tensors, size_t first,
                      const Graph& subgraph, const Vector<Port>& ports, size_t first_port) {
  if (tensors.size() - first != ports.size() - first_port) {
    return fail_node(node, "a subgraph has %zu inputs or outputs where the node has %zu", ports.size(), tensors.size());
  }
  for (size_t i = first; i < tensors.size(); ++i) {
    const Port& port = ports[first_port + i - first];
    if (tensors[i] < 0 || at(tensors[i]) >= graph.tensors.size() || port.tensor < 0 ||
        at(port.tensor) >= subgraph.tensors.size()) {
      return fail_node(node, "a tensor of the node or of its subgraph does not exist");
    }
    const qn_type type = tensor_of(graph, tensors[i]).type;
    if (type != tensor_of(subgraph, port.tensor).type || type != port.type) {
      return fail_node(node, "a subgraph has another type than the node for tensor %zu", i);
    }
  }
  return QN_OK;
}

qn_status check_branch(const Graph& graph, const Node& node) {
  if (node.subgraphs.size() != 2) return fail_node(node, "%zu subgraphs instead of two", node.subgraphs.size());
  if (tensor_of(graph, node.inputs[0]).type != QN_BOOL) return fail_node(node, "the condition is not bool");
  for (const uint32_t index : node.subgraphs) {
    const Graph& subgraph = graph.subgraphs[index];
    QN_TRY(check_types(graph, node, node.inputs, 1, subgraph, subgraph.inputs, 0));
    QN_TRY(check_types(graph, node, node.outputs, 0, subgraph, subgraph.outputs, 0));
  }
  return QN_OK;
}

// Checks the declared shapes of a loop's scan outputs (declared_row).
qn_status check_rows(const Node& node, size_t outputs) {
  const Vector<int64_t>& values = node.attributes.values;
  if (!values.empty() && values.size() != outputs * QN_MAX_RANK) {
    return fail_node(node, "expected %zu values for %zu scan outputs, got %zu", outputs * QN_MAX_RANK, outputs,
                     values.size());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_rank = i % QN_MAX_RANK == 0;
    if (values[i] >= 0 && (is_rank ? values[i] < QN_MAX_RANK : std::in_range<size_t>(values[i]))) continue;
    const char* const what = is_rank ? "rank of 0 to 7" : "size of 0 or more";
    return fail_node(node, "scan output %zu: expected a %s, got %lld", i / QN_MAX_RANK, what,
                     static_cast<long long>(values[i]));
  }
  for (size_t i = 0; i < outputs; ++i) {
    size_t bytes;
    if (!tensor_size(QN_F32, declared_row(node, i), &bytes)) {
      return fail_node(node, "scan output %zu: the declared size overflows", i);
    }
  }
  return QN_OK;
}

qn_status check_loop(const Graph& graph, const Node& node) {
  const size_t carried = node.attributes.size;
  if (node.subgraphs.size() != 1) return fail_node(node, "%zu subgraphs instead of one", node.subgraphs.size());
  if (carried > node.inputs.size() - 2 || carried > node.outputs.size()) {
    return fail_node(node, "more carried tensors than inputs or outputs");
  }
  QN_TRY(check_rows(node, node.outputs.size() - carried));
  const Graph& body = graph.subgraphs[node.subgraphs[0]];
  const qn_type types[] = {QN_S64, QN_BOOL};
  for (size_t i = 0; i < 2; ++i) {
    if (node.inputs[i] != no_tensor && tensor_of(graph, node.inputs[i]).type != types[i]) {
      return fail_node(node, "input %zu is not %s", i, qn_type_string(types[i]));
    }
    const bool typed = body.inputs.size() > i && body.inputs[i].type == types[i];
    if (!typed) return fail_node(node, "input %zu of the body is not %s", i, qn_type_string(types[i]));
  }
  if (body.outputs.empty() || body.outputs[0].type != QN_BOOL) {
    return fail_node(node, "expected a condition as the first output of the body");
  }
  QN_TRY(check_types(graph, node, node.inputs, 2, body, body.inputs, 2));
  return check_types(graph, node, node.outputs, 0, body, body.outputs, 1);
}

// The node's tensors have been checked.
qn_status check_subgraphs_of(const Graph& graph, const Node& node) {
  for (const uint32_t index : node.subgraphs) {
    if (index >= graph.subgraphs.size()) return fail_node(node, "subgraph %u does not exist", index);
  }
  if (node.kind == OpKind::branch) return check_branch(graph, node);
  if (node.kind == OpKind::loop) return check_loop(graph, node);
  return node.subgraphs.empty() ? QN_OK : fail_node(node, "this kind of node takes no subgraphs");
}
#endif

qn_status check_node(const Graph& graph, const Node& node, Vector<bool>* defined) {
  if (node.kind == OpKind::count || node.kind == OpKind::copy || node.kind > last_kind)
    return fail(QN_BAD_MODEL, "node '%.100s': unknown operator", node.name.c_str());
  if (!kind_of(node.kind).built) return fail_without("operator", op_name(node.kind));
  if (!is_name(node.name)) return fail(QN_BAD_MODEL, "a node's name is not plain text");
  QN_TRY(check_attributes(node));
  if (has_kinds && node.kind == OpKind::custom) QN_TRY(check_custom(node));
  QN_TRY(check_inputs(graph, node, *defined));
  QN_TRY(check_outputs(graph, node, defined));
  return check_subgraphs_of(graph, node);
}

// ---- ports

qn_status check_preprocessing(const qn_preprocessing& p) {
  if (p.present == 0) return QN_OK;
  for (int i = 0; i < 4; ++i) {
    if (!std::isfinite(p.mean[i]) || !std::isfinite(p.scale[i])) {
      return fail(QN_BAD_MODEL, "a mean or scale of the preprocessing is not finite");
    }
  }
  constexpr uint32_t max_side = 1u << 14;
  if (p.resize > max_side || p.crop[0] > max_side || p.crop[1] > max_side) {
    return fail(QN_BAD_MODEL, "a size of the preprocessing is above %u", max_side);
  }
  return QN_OK;
}

#ifndef QN_NO_MESSAGES
qn_status check_dimensions(const Vector<String>& names) {
  if (names.size() > QN_MAX_RANK) return fail(QN_BAD_MODEL, "an input or output names %zu dimensions", names.size());
  for (const String& name : names) {
    if (!is_name(name)) return fail(QN_BAD_MODEL, "a dimension's name is not plain text");
  }
  return QN_OK;
}
#endif

qn_status check_port(const Graph& graph, const Port& port, const char* what, size_t index) {
  if (port.tensor < 0 || static_cast<size_t>(port.tensor) >= graph.tensors.size()) {
    return fail(QN_BAD_MODEL, "%s %zu: tensor %d does not exist", what, index, port.tensor);
  }
  const qn_type type = tensor_of(graph, port.tensor).type;
  if (type == QN_F16) return fail(QN_BAD_MODEL, "%s %zu: f16 is converted at the border, not kept", what, index);
  if (port.type != type && !(port.type == QN_F16 && type == QN_F32)) {
    return fail(QN_BAD_MODEL, "%s %zu: its type is %s, that of its tensor %s", what, index, qn_type_string(port.type),
                qn_type_string(type));
  }
#ifndef QN_NO_MESSAGES
  QN_TRY(check_dimensions(port.dimensions));
#endif
  return check_preprocessing(port.preprocessing);
}

qn_status check_graph_inputs(const Graph& graph, Vector<bool>* defined) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    QN_TRY(check_port(graph, graph.inputs[i], "input", i));
    const auto tensor = static_cast<size_t>(graph.inputs[i].tensor);
    if ((*defined)[tensor]) return fail(QN_BAD_MODEL, "input %zu: its tensor is a constant or another input", i);
    QN_TRY(check_shape(graph.tensors[tensor].shape, graph.tensors[tensor].type, "input", i));
    QN_TRY(check_quantized(graph, tensor));
#ifndef QN_NO_MESSAGES
    if (!is_name(graph.inputs[i].fixed_by)) return fail(QN_BAD_MODEL, "a node's name is not plain text");
#endif
    (*defined)[tensor] = true;
  }
  return QN_OK;
}

qn_status check_graph_outputs(const Graph& graph, const Vector<bool>& defined) {
  if (graph.outputs.empty()) return fail(QN_BAD_MODEL, "the model has no output");
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    QN_TRY(check_port(graph, graph.outputs[i], "output", i));
    if (is_encoded(graph, tensor_of(graph, graph.outputs[i].tensor))) {
      return fail(QN_BAD_MODEL, "output %zu is an encoded constant, but only weights may be encoded", i);
    }
    if (has_blocks(tensor_of(graph, graph.outputs[i].tensor))) {
      return fail(QN_BAD_MODEL, "output %zu has scales for blocks, but only weights may have them", i);
    }
    if (!defined[static_cast<size_t>(graph.outputs[i].tensor)]) {
      return fail(QN_BAD_MODEL, "output %zu: no node writes its tensor", i);
    }
  }
  return QN_OK;
}

// Checks a graph apart from its states and subgraphs.
qn_status check_flat(const Graph& graph) {
  if (graph.nodes.size() > max_nodes) {
    return fail(QN_BAD_MODEL, "%zu nodes are more than %zu", graph.nodes.size(), max_nodes);
  }
  if (!is_name(graph.source) || !is_name(graph.name)) {
    return fail(QN_BAD_MODEL, "the name or source of the model is not plain text");
  }
  QN_TRY(check_tensors(graph));
  Vector<bool> defined(graph.tensors.size());
  for (size_t i = 0; i < graph.tensors.size(); ++i) defined[i] = graph.tensors[i].constant >= 0;
  QN_TRY(check_graph_inputs(graph, &defined));
  for (const Node& node : graph.nodes) QN_TRY(check_node(graph, node, &defined));
  return check_graph_outputs(graph, defined);
}

// ---- labels and the meaning of outputs

#ifndef QN_SMALL  // has_postprocessing
qn_status check_postprocessing(const Graph& graph) {
  const Postprocessing& p = graph.postprocessing;
  if (!is_name(p.detections)) return fail(QN_BAD_MODEL, "the kind of detections is not plain text");
  for (size_t i = 0; i < p.labels.size(); ++i) {
    if (!is_name(p.labels[i])) return fail(QN_BAD_MODEL, "label %zu is not plain text", i);
  }
  for (const uint32_t output : p.outputs) {
    if (output >= graph.outputs.size()) return fail(QN_BAD_MODEL, "detections: output %u does not exist", output);
  }
  for (const float limit : {p.threshold, p.overlap}) {
    if (!(limit >= 0 && limit <= 1)) return fail(QN_BAD_MODEL, "detections: a limit is not between 0 and 1");
  }
  return QN_OK;
}
#endif

// ---- states and subgraphs

#ifndef QN_SMALL  // has_subgraphs
qn_status check_states(const Graph& graph) {
  Vector<bool> read(graph.inputs.size()), left(graph.outputs.size());
  for (size_t i = 0; i < graph.states.size(); ++i) {
    const auto [input, output] = graph.states[i];
    if (input >= read.size() || output >= left.size()) {
      return fail(QN_BAD_MODEL, "state %zu: input %u or output %u does not exist", i, input, output);
    }
    if (read[input] || left[output]) {
      return fail(QN_BAD_MODEL, "state %zu: its input or output belongs to another state", i);
    }
    read[input] = left[output] = true;
  }
  return QN_OK;
}

// Calls run() for each subgraph. If it fails, the message says for which one.
template <class AnyGraph, class Run>
qn_status each_subgraph(AnyGraph& graph, Run&& run) {
  for (size_t i = 0; i < graph.subgraphs.size(); ++i) {
    const qn_status status = run(graph.subgraphs[i]);
    if (status != QN_OK) return fail_within(status, "subgraph %zu", i);
  }
  return QN_OK;
}

// Checks all graphs within a graph. `depth`: the number of graphs that lie within each other, up to this one.
qn_status check_subgraphs(const Graph& graph, size_t depth) {
  return each_subgraph(graph, [depth](const Graph& subgraph) {
    if (depth == max_depth) return fail(QN_BAD_MODEL, "more than %zu graphs lie within each other", max_depth);
    if (!subgraph.states.empty()) {
      return fail(QN_BAD_MODEL, "only the outermost graph may carry tensors from run to run");
    }
    if (subgraph.postprocessing != Postprocessing()) {
      return fail(QN_BAD_MODEL, "only the outermost graph says what its outputs mean");
    }
    QN_TRY(check_flat(subgraph));
    return check_subgraphs(subgraph, depth + 1);
  });
}

// Checks that what a run leaves in an output can be what the next one reads in the input. Shapes must be known.
qn_status check_carried(const Graph& graph) {
  for (size_t i = 0; i < graph.states.size(); ++i) {
    const Port &input = graph.inputs[graph.states[i].input], &output = graph.outputs[graph.states[i].output];
    const Tensor &to = tensor_of(graph, input.tensor), &from = tensor_of(graph, output.tensor);
    const bool same_shape = from.sized_by_run || to.shape == from.shape;  // of the former, a run checks it
    // Tensors have equal types if their ports have.
    if (input.type == output.type && same_shape && to.quantization == from.quantization) continue;
    return fail(QN_BAD_MODEL, "state %zu: input and output differ in type, shape or quantization", i);
  }
  return QN_OK;
}
#endif

}  // namespace

#ifdef QN_SMALL  // has_subgraphs
qn_status check_graph(const Graph& graph) { return check_flat(graph); }
#else
qn_status check_graph(const Graph& graph) {
  QN_TRY(check_flat(graph));
  QN_TRY(check_states(graph));
  QN_TRY(check_postprocessing(graph));
  return check_subgraphs(graph, 1);
}

qn_status check_plain(const Graph& graph) {
  if (graph.subgraphs.empty() && graph.states.empty()) return QN_OK;
  return fail(QN_UNSUPPORTED, "a model with %s can be run, but not changed or exported",
              graph.subgraphs.empty() ? "states" : "subgraphs");
}
#endif

// Of the CPU's kinds none but a concat and a pad has elements that come from no input.
static qn_status check_empty(const Graph& graph, const Node& node, const Shape& output) {
  if (is_empty(output) || node.kind == OpKind::concat || node.kind == OpKind::pad) return QN_OK;
  for (size_t i = 0; i < data_inputs(node); ++i) {
    if (is_empty(tensor_of(graph, node.inputs[i]).shape)) {
      return fail_node(node, "input %zu has no elements, but the output has", i);
    }
  }
  return QN_OK;
}

// A run sizes the outputs. What the file says of their shapes is forgotten.
static qn_status leave_to_run(Graph& graph, const Node& node) {
  for (const int output : node.outputs) {
    graph.tensors[at(output)].shape.clear();
    QN_TRY(check_quantized(graph, at(output)));
  }
  return node.kind <= OpKind::copy ? check_parameters({graph, node}) : QN_OK;
}

qn_status infer_node(Graph& graph, const Node& node) {
  if (node.kind <= OpKind::copy) QN_TRY(infer_type(graph, node));
  const bool sized = !has_kinds || is_sized_before_run(graph, node);
  for (const int output : node.outputs) graph.tensors[at(output)].sized_by_run = !sized;
  if (!sized) return leave_to_run(graph, node);
  if (has_kinds && node.kind == OpKind::custom) return infer_custom(graph, node);
  Shape shapes[most_outputs];
  QN_TRY(infer_outputs({graph, node}, shapes));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Tensor& output = graph.tensors[static_cast<size_t>(node.outputs[i])];
    size_t bytes;
    if (!tensor_size(output.type, shapes[i], &bytes)) return fail_node(node, "the size of the output overflows");
    if (shapes[i].size() > QN_MAX_RANK) return fail_node(node, "the output has rank %zu", shapes[i].size());
    QN_TRY(check_empty(graph, node, shapes[i]));
    output.shape = std::move(shapes[i]);
    QN_TRY(check_quantized(graph, static_cast<size_t>(node.outputs[i])));
  }
  return QN_OK;
}

qn_status infer_shapes(Graph& graph) {
  for (const Port& input : graph.inputs) graph.tensors[at(input.tensor)].sized_by_run = input.unsized;
  for (const Node& node : graph.nodes) QN_TRY(infer_node(graph, node));
#ifdef QN_SMALL  // has_subgraphs
  return QN_OK;
#else
  QN_TRY(check_carried(graph));
  return each_subgraph(graph, infer_shapes);
#endif
}

}  // namespace quern
