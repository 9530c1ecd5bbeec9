// If, Loop, Scan.
#include "convert/onnx/general/general.h"

namespace quern::onnx {
namespace {

std::vector<qn_type> types_of(const std::vector<ElementType>& types, size_t first) {
  std::vector<qn_type> ours;
  for (size_t i = first; i < types.size(); ++i) ours.push_back(operand_type(types[i]));
  return ours;
}

Values values_of(const std::vector<View>& views, const std::vector<ElementType>& types, size_t first) {
  Values values;
  for (size_t i = 0; i < views.size(); ++i) {
    values.emplace_back(views[i]);
    values.back().type = types[first + i];
  }
  return values;
}

// The shapes that a loop's body declares for its scan outputs, from output `first` on; empty if it declares none.
std::vector<Shape> declared_rows(const schema::GraphProto& body, size_t first) {
  std::vector<Shape> rows;
  bool any = false;
  for (int i = static_cast<int>(first); i < body.output_size(); ++i) {
    Shape& row = rows.emplace_back();
    const schema::TensorShapeProto& shape = body.output(i).type().tensor_type().shape();
    if (shape.dim_size() >= QN_MAX_RANK) continue;  // a scan output has one dimension more
    for (const auto& dim : shape.dim()) row.push_back(static_cast<size_t>(std::max<int64_t>(dim.dim_value(), 0)));
    any |= !row.empty();
  }
  return any ? rows : std::vector<Shape>();
}

Values if_then_else(const OnnxNode& node) {
  const schema::GraphProto &yes = node.graph("then_branch"), &no = node.graph("else_branch");
  if (node.is_integer(0)) {  // the condition is known
    const std::vector<int64_t>& condition = node.integers(0).values;
    if (condition.size() != 1) node.fail("the condition is not one value");
    return node.in_place(condition[0] != 0 ? yes : no);
  }
  Bodies bodies = node.bodies({&yes, &no}, {}, false);
  std::vector<View> inputs = {node.operand(0)};
  inputs.insert(inputs.end(), bodies.captured.begin(), bodies.captured.end());
  const std::vector<View> outputs =
      node.builder.control(OpKind::branch, node.name, inputs, std::move(bodies.graphs), 0, types_of(bodies.outputs, 0));
  return values_of(outputs, bodies.outputs, 0);
}

// Inputs: number of runs, condition, what is carried. The tensors that are carried may change their shapes.
Values loop(const OnnxNode& node) {
  std::vector<Formal> formals = {{ElementType::i64, Shape()}, {ElementType::boolean, Shape()}};
  std::vector<View> inputs = {node.operand(0), node.operand(1)};
  for (size_t i = 2; i < node.input_count(); ++i) {
    formals.push_back({node.value(i).type, std::nullopt});
    inputs.push_back(node.operand(i));
  }
  Bodies bodies = node.bodies({&node.graph("body")}, formals, false);
  inputs.insert(inputs.end(), bodies.captured.begin(), bodies.captured.end());
  if (bodies.outputs.empty()) node.fail("the body has no outputs");
  const size_t carried = formals.size() - 2;
  const std::vector<View> outputs =
      node.builder.control(OpKind::loop, node.name, inputs, std::move(bodies.graphs), carried,
                           types_of(bodies.outputs, 1), declared_rows(node.graph("body"), 1 + carried));
  return values_of(outputs, bodies.outputs, 1);
}

// A constant vector of one index.
View index_of(const OnnxNode& node, int64_t value) { return node.builder.constant({1}, QN_S64, &value); }

// The tensor with one dimension in reverse.
View reversed(const OnnxNode& node, const View& x, int64_t axis) {
  const std::vector<View> inputs = {x, index_of(node, -1), index_of(node, INT64_MIN), index_of(node, axis),
                                    index_of(node, -1)};
  return node.builder.custom("slice_by", node.name + "/reverse", inputs, {}, {node.builder.type(x)})[0];
}

// Stacked rows with their dimension moved from the front to `axis`. `row` is the body's output.
View stacked_at(const OnnxNode& node, const View& rows, const Tensor& row, int64_t axis) {
  if (axis == 0) return rows;
  if (row.sized_by_run) throw Unsupported{"scan_output_axes of rows whose rank is known only at run time"};
  const size_t rank = row.shape.size() + 1, to = node.axis(axis, rank);
  std::vector<int64_t> order;
  for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int64_t>(d < to ? d + 1 : d == to ? 0 : d));
  return node.builder.custom("permute", node.name + "/axis", {rows}, Parameters().integers("perm", order),
                             {node.builder.type(rows)})[0];
}

// A number of the list, which is absent if all have the value `otherwise`.
int64_t at_or(const std::vector<int64_t>& list, size_t index, int64_t otherwise) {
  return index < list.size() ? list[index] : otherwise;
}

// A loop whose body reads one row of each scanned input in each run. Outputs are what is carried, then the rows.
Values scan_of(const OnnxNode& node, const std::vector<View>& operands, const std::vector<ElementType>& operand_types) {
  const int64_t scanned = node.integer("num_scan_inputs", 0);
  const auto all = static_cast<int64_t>(operands.size());
  if (scanned < 1 || scanned > all) node.fail("num_scan_inputs is out of range");
  const auto carried = static_cast<size_t>(all - scanned);
  const std::vector<int64_t> axes = node.integer_list("scan_input_axes"),
                             directions = node.integer_list(node.opset < 9 ? "directions" : "scan_input_directions"),
                             out_axes = node.integer_list("scan_output_axes"),
                             out_directions = node.integer_list("scan_output_directions");
  std::vector<Formal> formals;
  std::vector<View> inputs = {{}, {}};
  int64_t runs = -1;
  for (size_t i = 0; i < operands.size(); ++i) {
    const View x = operands[i];
    const Shape shape = node.builder.shape(x);
    Formal& formal = formals.emplace_back(Formal{operand_types[i], shape});
    if (i < carried) {
      inputs.push_back(x);
      continue;
    }
    formal.axis = node.axis(at_or(axes, i - carried, 0), shape.size());
    const bool back = at_or(directions, i - carried, 0) != 0;
    formal.whole = back ? reversed(node, x, static_cast<int64_t>(formal.axis)) : x;
    const auto rows = static_cast<int64_t>(shape[formal.axis]);
    if (runs >= 0 && rows != runs) node.fail("scanned inputs of different lengths");
    runs = rows;
    node.fix(node.builder.symbol(x, formal.axis));
  }
  inputs[0] = node.builder.constant({}, QN_S64, &runs);
  Bodies bodies = node.bodies({&node.graph("body")}, formals, true);
  inputs.insert(inputs.end(), bodies.captured.begin(), bodies.captured.end());
  if (bodies.outputs.size() < carried) node.fail("the body has too few outputs");
  std::vector<Tensor> rows;
  for (const Port& port : bodies.graphs[0].outputs) rows.push_back(tensor_of(bodies.graphs[0], port.tensor));
  rows.erase(rows.begin());  // whether to go on
  std::vector<View> outputs =
      node.builder.control(OpKind::loop, node.name, inputs, std::move(bodies.graphs), carried,
                           types_of(bodies.outputs, 0), declared_rows(node.graph("body"), carried));
  for (size_t i = carried; i < outputs.size(); ++i) {
    if (at_or(out_directions, i - carried, 0) != 0) outputs[i] = reversed(node, outputs[i], 0);
    outputs[i] = stacked_at(node, outputs[i], rows[i], at_or(out_axes, i - carried, 0));
  }
  return values_of(outputs, bodies.outputs, 0);
}

// Scan of opset 8 has a batch in front of all dimensions, and lengths as first input. Each batch is one by itself.
Values scan_of_batch(const OnnxNode& node) {
  if (node.has(0)) throw Unsupported{"sequence lengths"};
  std::vector<View> operands;
  std::vector<ElementType> types;
  for (size_t i = 1; i < node.input_count(); ++i) {
    if (node.dims(i).empty() || node.dims(i)[0] != 1) throw Unsupported{"a batch of more than one"};
    node.fix(node.dimension(i, 0).symbol);
    const Value x = make(node, "squeeze", {node.value(i), integer_list({0})});
    operands.push_back(x.view ? x.view : integer_constant(node.builder, *x.integers, x.type));
    types.push_back(x.type);
  }
  Values outputs = scan_of(node, operands, types);
  for (Value& y : outputs) y = with_axis(node, y, 0);
  return outputs;
}

Values scan(const OnnxNode& node) {
  if (node.opset < 9) return scan_of_batch(node);
  std::vector<View> operands;
  std::vector<ElementType> types;
  for (size_t i = 0; i < node.input_count(); ++i) {
    operands.push_back(node.operand(i));
    types.push_back(node.value(i).type);
  }
  return scan_of(node, operands, types);
}

}  // namespace

const OnnxTable& general_control() {
  static const OnnxTable table = {
      {"If", {if_then_else, 1, 1}},
      {"Loop", {loop, 2, many_inputs}},
      {"Scan", {scan, 1, many_inputs}},
  };
  return table;
}

}  // namespace quern::onnx
