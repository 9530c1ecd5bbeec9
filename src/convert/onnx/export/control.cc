// Nodes that run graphs: If, Loop, Scan.
#include "convert/onnx/export/rows.h"

namespace quern::onnx {
namespace {

schema::GraphProto* add_graph(schema::NodeProto* to, const char* attribute) {
  schema::GraphProto* graph = add_attribute(to, attribute, schema::AttributeProto::GRAPH)->mutable_g();
  graph->set_name(attribute);
  return graph;
}

// Adds an operator with as many outputs as our node has.
schema::NodeProto* add_control(GraphWriter& to, const Node& node, const char* op,
                               const std::vector<std::string>& inputs) {
  schema::NodeProto* made = to.add_op(op, node_name(node), inputs);
  for (size_t i = 1; i < node.outputs.size(); ++i) made->add_output(to.model.new_name());
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    to.define_stored(node.outputs[i], made->output(static_cast<int>(i)), to.order_as_is(node.outputs[i]));
  }
  return made;
}

// The node's inputs from `first` on, which its graphs read by their names.
std::vector<std::string> captured(GraphWriter& to, const Node& node, size_t first) {
  std::vector<std::string> values;
  for (size_t i = first; i < node.inputs.size(); ++i) values.push_back(to.stored_plain(node.inputs[i]));
  return values;
}

void write_branch(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const std::vector<std::string> values = captured(to, node, 1);
  schema::NodeProto* choice = add_control(to, node, "If", {to.stored_plain(node.inputs[0])});
  const char* const names[] = {"then_branch", "else_branch"};
  for (size_t i = 0; i < 2; ++i) {
    GraphWriter inner(to.model, to.graph().subgraphs[node.subgraphs[i]], *add_graph(choice, names[i]));
    for (size_t k = 0; k < values.size(); ++k) inner.capture(k, values[k]);
    inner.write_nodes();
    for (size_t k = 0; k < node.outputs.size(); ++k) inner.add_result(k);
  }
}

// ---- loops: their graphs read the number of the run, the condition, what is carried, and what they capture. They give
// the condition, what is carried, and rows.

constexpr size_t run_input = 0, condition_input = 1, first_carried = 2;

// Whether all runs take place because the graph passes the condition on.
bool passes_condition(const Graph& body) {
  const int condition = body.inputs[condition_input].tensor, next = body.outputs[0].tensor;
  return next == condition || std::any_of(body.nodes.begin(), body.nodes.end(), [&](const Node& node) {
           return node.kind == OpKind::custom && node.type == "identity" && node.outputs[0] == next &&
                  node.inputs[0] == condition;
         });
}

// The number of runs if it is a constant; -1 if it is not, or is too large for a list of the runs.
int64_t known_runs(const GraphWriter& to, const Node& node) {
  constexpr int64_t most = 1 << 20;
  if (!has(node, run_input) || !to.is_constant(node.inputs[run_input])) return -1;
  const Constant& constant = to.constant_of(node.inputs[run_input]);
  const int64_t runs = constant.bytes == sizeof(int64_t) ? *static_cast<const int64_t*>(constant.data) : -1;
  return runs > most ? -1 : runs;
}

// Whether a loop has carried tensors of a fixed shape, and its number of runs is known. ONNX cannot say that of Loop.
bool is_scan(const GraphWriter& to, const Node& node, const Graph& body) {
  if (known_runs(to, node) < 0 || has(node, condition_input) || node.attributes.size == 0 || !passes_condition(body))
    return false;
  for (size_t i = 0; i < node.attributes.size; ++i) {
    if (body.inputs[first_carried + i].unsized) return false;
  }
  return true;
}

void write_body(GraphWriter& inner, const Node& node, const std::vector<std::string>& values) {
  for (size_t i = 0; i < values.size(); ++i) inner.capture(first_carried + node.attributes.size + i, values[i]);
  inner.write_nodes();
}

// Adds the outputs of a loop's graph from output `first` on. Scan outputs get the shapes that the loop declares.
void add_results(GraphWriter& inner, const Node& node, size_t first, schema::GraphProto* body) {
  const size_t results = node.outputs.size() + 1;
  for (size_t i = first; i < results; ++i) inner.add_result(i);
  for (size_t i = 1 + node.attributes.size; i < results && !node.attributes.values.empty(); ++i) {
    auto* type = body->mutable_output(static_cast<int>(i - first))->mutable_type()->mutable_tensor_type();
    for (const size_t size : declared_row(node, i - 1 - node.attributes.size)) {
      auto* dim = type->mutable_shape()->add_dim();
      if (size != 0) dim->set_dim_value(static_cast<int64_t>(size));
    }
  }
}

// Scans the numbers of the runs.
void write_scan(GraphWriter& to, const Node& node, Graph& body) {
  const std::vector<std::string> values = captured(to, node, first_carried + node.attributes.size);
  const int64_t runs = known_runs(to, node);
  Vector<int64_t> numbers;
  for (int64_t run = 0; run < runs; ++run) numbers.push_back(run);
  std::vector<std::string> inputs;
  for (size_t i = 0; i < node.attributes.size; ++i) inputs.push_back(to.stored_plain(node.inputs[first_carried + i]));
  inputs.push_back(to.integers(numbers));
  const bool yes = true;
  const std::string condition = to.initializer(QN_BOOL, {}, &yes);
  schema::NodeProto* scan = add_control(to, node, "Scan", inputs);
  set_integer(scan, "num_scan_inputs", 1);
  schema::GraphProto* const graph = add_graph(scan, "body");
  GraphWriter inner(to.model, body, *graph);
  for (size_t i = 0; i < node.attributes.size; ++i) {
    const Port& port = body.inputs[first_carried + i];
    inner.add_formal(port.tensor, port.type, false);
  }
  inner.add_formal(body.inputs[run_input].tensor, QN_S64, true);
  inner.capture(condition_input, condition);
  write_body(inner, node, values);
  add_results(inner, node, 1, graph);
}

void write_loop(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  Graph& body = to.graph().subgraphs[node.subgraphs[0]];
  if (is_scan(to, node, body)) return write_scan(to, node, body);
  const std::vector<std::string> values = captured(to, node, first_carried + node.attributes.size);
  std::vector<std::string> inputs;
  for (size_t i = 0; i < first_carried + node.attributes.size; ++i) {
    inputs.push_back(has(node, i) ? to.stored_plain(node.inputs[i]) : "");
  }
  schema::NodeProto* loop = add_control(to, node, "Loop", inputs);
  schema::GraphProto* const graph = add_graph(loop, "body");
  GraphWriter inner(to.model, body, *graph);
  for (size_t i = 0; i < inputs.size(); ++i) {
    inner.add_formal(body.inputs[i].tensor, body.inputs[i].type, i < first_carried);
  }
  write_body(inner, node, values);
  add_results(inner, node, 0, graph);
}

}  // namespace

const ExportTable& exported_control() {
  static const ExportTable table = {
      {"branch", {write_branch}},
      {"loop", {write_loop}},
  };
  return table;
}

}  // namespace quern::onnx
