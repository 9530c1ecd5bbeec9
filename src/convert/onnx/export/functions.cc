// Functions of elements, reductions, and what works along an axis: kinds of libquern-extra.
#include "convert/onnx/export/rows.h"

namespace quern::onnx {
namespace {

using Rule = AttributeRule;

// Writes an operator of bits or, without the beginning of its name, of truth values.
void write_bits(GraphWriter& to, const Node& node, const ExportRow& row) {
  ExportRow of_type = row;
  if (to.tensor(node.inputs[0]).type == QN_BOOL) of_type.op += std::string_view("Bitwise").size();
  write_elementwise(to, node, of_type);
}

// Dropout's mask when nothing is dropped.
void write_all_true(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const bool yes = true;
  const std::string shape = to.add("Shape", node_name(node, "shape"), {to.stored_plain(node.inputs[0])});
  to.define_stored(node.outputs[0], to.add("Expand", node_name(node), {to.initializer(QN_BOOL, {}, &yes), shape}),
                   to.order_as_is(node.outputs[0]));
}

// Axes are an input, or a parameter.
void write_reduction(GraphWriter& to, const Node& node, const ExportRow& row) {
  std::vector<std::string> inputs = stored_inputs(to, node);
  const Parameter* const axes = find_parameter(node, "axes");
  if (inputs.size() < 2 && axes != nullptr && !axes->integers.empty()) inputs.push_back(to.integers(axes->integers));
  if (to.tensor(node.inputs[0]).type == QN_BOOL) to.need_opset(20);
  write_with(to, node, row, std::move(inputs));
}

// With `to_end`, all dimensions from `axis` on are as one.
void write_along_line(GraphWriter& to, const Node& node, const ExportRow& row) {
  if (integer_of(node, "to_end", 0) == 0) return write_operator(to, node, row);
  to.need_opset(14);  // of allowzero
  const std::string x = to.stored_plain(node.inputs[0]);
  schema::NodeProto* flat = to.add_op("Flatten", node_name(node, "flat"), {x});
  set_integer(flat, "axis", integer_of(node, "axis", 1));
  schema::NodeProto* lines = to.add_op(row.op, node_name(node), {flat->output(0)});
  set_integer(lines, "axis", 1);
  const std::string shape = to.add("Shape", node_name(node, "shape"), {x});
  schema::NodeProto* back = to.add_op("Reshape", node_name(node, "back"), {lines->output(0), shape});
  set_integer(back, "allowzero", 1);  // a dimension of 0 is meant so
  to.define_stored(node.outputs[0], back->output(0), to.order_as_is(node.outputs[0]));
}

// Which window it is, its coefficients say.
void write_window_function(GraphWriter& to, const Node& node, const ExportRow& row) {
  const float a0 = number_of(node, "a0", 0.5f), a1 = number_of(node, "a1", 0.5f), a2 = number_of(node, "a2", 0);
  ExportRow of_window = row;
  if (a0 == 0.5f && a1 == 0.5f && a2 == 0) {
    of_window.op = "HannWindow";
  } else if (a0 == 0.42f && a1 == 0.5f && a2 == 0.08f) {
    of_window.op = "BlackmanWindow";
  } else if (a0 == 25.0f / 46 && a1 == 21.0f / 46 && a2 == 0) {
    of_window.op = "HammingWindow";
  } else {
    throw Unsupported{"coefficients of no window of ONNX"};
  }
  write_operator(to, node, of_window);
}

const std::vector<Rule> alpha_rule = {{Rule::number, "alpha", "alpha"}};
const std::vector<Rule> kept_rules = {{Rule::integer, "keepdims", "keep_dimensions"},
                                      {Rule::integer, "noop_with_empty_axes", "none_without_axes"}};
const std::vector<Rule> place_rules = {{Rule::integer, "axis", "axis"},
                                       {Rule::integer, "keepdims", "keep_dimensions"},
                                       {Rule::integer, "select_last_index", "last"}};
const std::vector<Rule> running_rules = {{Rule::integer, "exclusive", "exclusive"},
                                         {Rule::integer, "reverse", "reverse"}};

}  // namespace

const ExportTable& exported_functions() {
  static const ExportTable table = {
      {"abs", {write_elementwise, "Abs"}},
      {"acos", {write_elementwise, "Acos"}},
      {"acosh", {write_elementwise, "Acosh"}},
      {"all_true", {write_all_true}},
      {"any_add", {write_elementwise, "Add"}},
      {"any_div", {write_elementwise, "Div"}},
      {"any_exp", {write_elementwise, "Exp"}},
      {"any_hard_swish", {write_elementwise, "HardSwish"}},
      {"any_mul", {write_elementwise, "Mul"}},
      {"any_prelu", {write_elementwise, "PRelu"}},
      {"any_sigmoid", {write_elementwise, "Sigmoid"}},
      {"any_softmax", reads({"to_end"}, {write_along_line, "Softmax", 13, axis_rule})},
      {"any_sub", {write_elementwise, "Sub"}},
      {"any_tanh", {write_elementwise, "Tanh"}},
      {"arg_max", {write_operator, "ArgMax", 13, place_rules}},
      {"arg_min", {write_operator, "ArgMin", 13, place_rules}},
      {"asin", {write_elementwise, "Asin"}},
      {"asinh", {write_elementwise, "Asinh"}},
      {"atan", {write_elementwise, "Atan"}},
      {"atanh", {write_elementwise, "Atanh"}},
      {"bit_shift", {write_elementwise, "BitShift", 13, {{Rule::word, "direction", "left", {"RIGHT", "LEFT"}}}}},
      {"bitwise_and", {write_bits, "BitwiseAnd", 18}},
      {"bitwise_not", {write_elementwise, "BitwiseNot", 18}},
      {"bitwise_or", {write_bits, "BitwiseOr", 18}},
      {"bitwise_xor", {write_bits, "BitwiseXor", 18}},
      {"ceil", {write_elementwise, "Ceil"}},
      {"celu", {write_elementwise, "Celu", 13, alpha_rule}},
      {"clip", {write_operator, "Clip"}},
      {"cos", {write_elementwise, "Cos"}},
      {"cosh", {write_elementwise, "Cosh"}},
      {"cumulative_product", {write_operator, "CumProd", 26, running_rules}},
      {"cumulative_sum", {write_operator, "CumSum", 14, running_rules}},
      {"det", {write_operator, "Det"}},
      {"elu", {write_elementwise, "Elu", 13, alpha_rule}},
      {"equal", {write_elementwise, "Equal"}},
      {"erf", {write_elementwise, "Erf"}},
      {"floor", {write_elementwise, "Floor"}},
      {"gelu", {write_elementwise, "Gelu", 20}},
      {"gelu_tanh", {write_elementwise, "Gelu", 20, {{Rule::word, "approximate", nullptr, {"tanh"}}}}},
      {"greater", {write_elementwise, "Greater"}},
      {"greater_or_equal", {write_elementwise, "GreaterOrEqual", 16}},
      {"hard_sigmoid",
       {write_elementwise, "HardSigmoid", 13, {{Rule::number, "alpha", "alpha"}, {Rule::number, "beta", "beta"}}}},
      {"hardmax", reads({"to_end"}, {write_along_line, "Hardmax", 13, axis_rule})},
      {"identity", {write_elementwise, "Identity"}},
      {"is_inf",
       {write_elementwise,
        "IsInf",
        13,
        {{Rule::integer, "detect_negative", "negative"}, {Rule::integer, "detect_positive", "positive"}}}},
      {"is_nan", {write_elementwise, "IsNaN"}},
      {"leaky_relu", {write_elementwise, "LeakyRelu", 16, alpha_rule}},
      {"less", {write_elementwise, "Less"}},
      {"less_or_equal", {write_elementwise, "LessOrEqual", 16}},
      {"log", {write_elementwise, "Log"}},
      {"log_softmax", reads({"to_end"}, {write_along_line, "LogSoftmax", 13, axis_rule})},
      {"max", {write_elementwise, "Max"}},
      {"mean", {write_elementwise, "Mean"}},
      {"min", {write_elementwise, "Min"}},
      {"mish", {write_elementwise, "Mish", 18}},
      {"mod", {write_elementwise, "Mod", 13, {{Rule::integer, "fmod", "truncates"}}}},
      {"neg", {write_elementwise, "Neg"}},
      {"not", {write_elementwise, "Not"}},
      {"pow", {write_elementwise, "Pow"}},
      {"reciprocal", {write_elementwise, "Reciprocal"}},
      {"reduce_l1", reads({"axes"}, {write_reduction, "ReduceL1", 18, kept_rules})},
      {"reduce_l2", reads({"axes"}, {write_reduction, "ReduceL2", 18, kept_rules})},
      {"reduce_log_sum", reads({"axes"}, {write_reduction, "ReduceLogSum", 18, kept_rules})},
      {"reduce_log_sum_exp", reads({"axes"}, {write_reduction, "ReduceLogSumExp", 18, kept_rules})},
      {"reduce_max", reads({"axes"}, {write_reduction, "ReduceMax", 18, kept_rules})},
      {"reduce_mean", reads({"axes"}, {write_reduction, "ReduceMean", 18, kept_rules})},
      {"reduce_min", reads({"axes"}, {write_reduction, "ReduceMin", 18, kept_rules})},
      {"reduce_prod", reads({"axes"}, {write_reduction, "ReduceProd", 18, kept_rules})},
      {"reduce_sum", reads({"axes"}, {write_reduction, "ReduceSum", 13, kept_rules})},
      {"reduce_sum_square", reads({"axes"}, {write_reduction, "ReduceSumSquare", 18, kept_rules})},
      {"relu", {write_elementwise, "Relu", 14}},
      {"round", {write_elementwise, "Round"}},
      {"selu", {write_elementwise, "Selu", 13, {{Rule::number, "alpha", "alpha"}, {Rule::number, "gamma", "gamma"}}}},
      {"shrink", {write_elementwise, "Shrink", 13, {{Rule::number, "bias", "bias"}, {Rule::number, "lambd", "lambd"}}}},
      {"sign", {write_elementwise, "Sign"}},
      {"sin", {write_elementwise, "Sin"}},
      {"sinh", {write_elementwise, "Sinh"}},
      {"softplus", {write_elementwise, "Softplus"}},
      {"softsign", {write_elementwise, "Softsign"}},
      {"sqrt", {write_elementwise, "Sqrt"}},
      {"sum", {write_elementwise, "Sum"}},
      {"swish", {write_elementwise, "Swish", 24, alpha_rule}},
      {"tan", {write_elementwise, "Tan"}},
      {"thresholded_relu", {write_elementwise, "ThresholdedRelu", 13, alpha_rule}},
      {"where", {write_elementwise, "Where", 16}},
      {"window",
       reads({"a0", "a1", "a2"}, {write_window_function,
                                  nullptr,
                                  17,
                                  {{Rule::integer, "periodic", "periodic"}, {Rule::type, "output_datatype"}}})},
  };
  return table;
}

}  // namespace quern::onnx
