// Imports TensorFlow's operators as nodes of libquern-extra's kinds, which compute with all types and shapes. The importer
// comes here for what layers.cc and shapes.cc do not have or cannot express.
#include <limits>

#include "convert/common/kinds.h"
#include "convert/tensorflow/node.h"

namespace quern::tensorflow {
namespace general {
namespace {

// ---- elements ---------------------------------------------------------------------------------

Values all_inputs(const TfNode& node) {
  Values values;
  for (size_t i = 0; i < node.input_count(); ++i) values.push_back(node.value(i));
  return values;
}

// Imports an operator as a kind whose output has the type of the first input.
template <Name kind>
Values plain(const TfNode& node) {
  return {make(node, kind.text, all_inputs(node))};
}
// Imports an operator whose result is bool.
template <Name kind>
Values test(const TfNode& node) {
  return {make(node, kind.text, all_inputs(node), {}, ElementType::boolean)};
}
Values equal(const TfNode& node) {
  node.ignore("incompatible_shape_error");
  return test<"equal">(node);
}
Values not_equal(const TfNode& node) { return {make(node, "not", equal(node))}; }

Values floor_mod_of(const TfNode& node) { return {floor_mod(node, node.value(0), node.value(1))}; }
Values floor_div_of(const TfNode& node) { return {floor_div(node, node.value(0), node.value(1))}; }
// Rounds towards 0.
Values truncated_div(const TfNode& node) {
  if (is_float(node.value(0).type)) throw Unsupported{"of floats"};
  return plain<"any_div">(node);
}

Values square(const TfNode& node) { return {make(node, "any_mul", {node.value(0), node.value(0)})}; }
Values squared_difference(const TfNode& node) {
  const Value difference = make(node, "any_sub", all_inputs(node));
  return {make(node, "any_mul", {difference, difference})};
}
Values rsqrt(const TfNode& node) { return {make(node, "reciprocal", {make(node, "sqrt", {node.value(0)})})}; }
Values leaky_relu(const TfNode& node) {
  return {make(node, "leaky_relu", {node.value(0)}, Parameters().number("alpha", node.number("alpha", 0.2f)))};
}
Values relu6(const TfNode& node) {
  const ElementType type = node.value(0).type;
  return {make(node, "clip", {node.value(0), number_of(node, 0, type), number_of(node, 6, type)})};
}
Values log_softmax(const TfNode& node) {
  return {make(node, "log_softmax", {node.value(0)}, Parameters().integer("axis", -1))};
}
Values clip(const TfNode& node) {
  return {make(node, "min", {make(node, "max", {node.value(0), node.value(1)}), node.value(2)})};
}
Values filled_like(const TfNode& node, float number) {
  const Value x = node.value(0);
  return {filled(node, convert::shape_of(node, x), number_of(node, number, x.type))};
}
Values zeros_like(const TfNode& node) { return filled_like(node, 0); }
Values ones_like(const TfNode& node) { return filled_like(node, 1); }

Values select(const TfNode& node) { return {selected(node, node.value(0), node.value(1), node.value(2))}; }
Values select_v2(const TfNode& node) { return {make(node, "where", all_inputs(node), {}, node.value(1).type)}; }

// The type of a result of integers, which an attribute names.
ElementType index_type(const TfNode& node, const char* attribute, ElementType otherwise) {
  if (node.proto.attr().count(attribute) == 0) return otherwise;
  const std::optional<ElementType> type = element_type(node.type(attribute));
  if (type != ElementType::s32 && type != ElementType::i64) throw Unsupported{std::string(attribute)};
  return *type;
}

Values cast(const TfNode& node) {
  const std::optional<ElementType> type = element_type(node.type("DstT"));
  if (!type) throw Unsupported{"to type " + schema::DataType_Name(node.type("DstT"))};
  if (node.flag("Truncate", false)) throw Unsupported{"Truncate"};
  return {cast_to(node, node.value(0), *type)};
}

// ---- along axes -------------------------------------------------------------------------------

template <Name kind>
Values reduce(const TfNode& node) {
  return {make(node, kind.text, {node.value(0)},
               Parameters()
                   .integer("keep_dimensions", node.flag("keep_dims", false))
                   .integer("none_without_axes", 1)
                   .integers("axes", node.integers(1).values))};
}

template <Name kind>
Values place(const TfNode& node) {
  const int64_t axis = node.input_count() > 1 ? node.only_integer(1) : 0;
  const Value found = make(node, kind.text, {node.value(0)},
                           Parameters().integer("axis", axis).integer("keep_dimensions", 0), ElementType::i64);
  return {cast_to(node, found, index_type(node, "output_type", ElementType::i64))};
}

template <Name kind>
Values cumulative(const TfNode& node) {
  return {make(node, kind.text, all_inputs(node),
               Parameters()
                   .integer("exclusive", node.flag("exclusive", false))
                   .integer("reverse", node.flag("reverse", false)))};
}

Values top_k(const TfNode& node) {
  node.ignore("sorted");  // sorted elements are right in any case
  const Value k = node.input_count() > 1 ? node.value(1) : integer_number(node.integer("k"));
  const Values found = make_all(node, "top_k", {node.value(0), reshaped(node, k, {1})},
                                Parameters().integer("axis", -1), {node.value(0).type, ElementType::i64});
  return {found[0], cast_to(node, found[1], index_type(node, "index_type", ElementType::s32))};
}

// ---- places -----------------------------------------------------------------------------------

Values gather(const TfNode& node) {
  const int64_t axis = node.input_count() > 2 ? node.only_integer(2) : 0;
  return {gathered(node, node.value(0), node.value(1), axis, node.integer("batch_dims", 0))};
}
Values gather_nd(const TfNode& node) {
  node.ignore("bad_indices_policy");
  return plain<"gather_nd">(node);
}
Values scatter_nd(const TfNode& node) {
  node.ignore("bad_indices_policy");
  return {scattered(node, node.value(0), node.value(1), node.value(2))};
}
// Imports TensorScatterUpdate and what else changes elements; `reduction` as scatter_nd has it.
template <int64_t reduction>
Values tensor_scatter(const TfNode& node) {
  node.ignore("bad_indices_policy");
  return {make(node, "scatter_nd", all_inputs(node), Parameters().integer("reduction", reduction))};
}
Values one_hot_of(const TfNode& node) {
  node.ignore("TI");
  return {one_hot(node, node.value(0), node.value(1), node.value(2), node.value(3), node.integer("axis", -1))};
}

Values where(const TfNode& node) { return {places_of_nonzero(node, node.value(0))}; }
Values unique(const TfNode& node) {
  const Values found = unique_elements(node, node.value(0));
  return {found[0], cast_to(node, found[1], index_type(node, "out_idx", ElementType::s32))};
}

// ---- shapes and parts -------------------------------------------------------------------------

Values shape_of(const TfNode& node) {
  return {cast_to(node, convert::shape_of(node, node.value(0)), index_type(node, "out_type", ElementType::s32))};
}
Values size_of(const TfNode& node) {
  const Value size = make(node, "size_of", {node.value(0)}, {}, ElementType::i64);
  return {cast_to(node, size, index_type(node, "out_type", ElementType::s32))};
}
Values rank(const TfNode& node) {
  return {integer_number(static_cast<int64_t>(rank_of(node, node.value(0))), ElementType::s32)};
}
Values reshape(const TfNode& node) {
  return {make(node, "reshape_to", all_inputs(node), Parameters().integer("allow_zero", 1))};
}
Values transpose(const TfNode& node) { return {permuted(node, node.value(0), node.integers(1).values)}; }
Values expand_dims(const TfNode& node) { return {with_axis(node, node.value(0), node.only_integer(1))}; }
Values squeeze(const TfNode& node) {
  Values inputs = {node.value(0)};
  if (const std::vector<int64_t> axes = node.integer_list("squeeze_dims"); !axes.empty()) {
    inputs.push_back(integer_list(axes));
  }
  return {make(node, "squeeze", inputs)};
}
Values fill(const TfNode& node) { return {filled(node, node.value(0), node.value(1))}; }
Values concat(const TfNode& node) {
  const size_t last = node.input_count() - 1;
  Values parts = all_inputs(node);
  parts.pop_back();
  return {joined(node, parts, node.only_integer(last))};
}
Values pack(const TfNode& node) {
  const int64_t axis = node.integer("axis", 0);
  Values parts = all_inputs(node);
  for (Value& part : parts) part = with_axis(node, part, axis);
  return {joined(node, parts, axis)};
}
Values unpack(const TfNode& node) {
  const int64_t axis = node.integer("axis", 0), count = node.integer("num");
  if (count < 0 || count > int64_t{many_inputs}) throw Unsupported{"into so many parts"};
  Values parts;
  for (int64_t i = 0; i < count; ++i) {
    parts.push_back(make(node, "gather", {node.value(0), integer_number(i)}, Parameters().integer("axis", axis)));
  }
  return parts;
}
Values split(const TfNode& node) {
  const int64_t parts = node.integer("num_split");
  if (parts < 1 || parts > int64_t{many_inputs}) throw Unsupported{"into so many parts"};
  const std::vector<ElementType> types(static_cast<size_t>(parts), node.value(1).type);
  return make_all(node, "split_to", {node.value(1)},
                  Parameters().integer("axis", node.only_integer(0)).integer("parts", parts).integer("even", 1), types);
}
Values slice(const TfNode& node) {
  return {sliced_sizes(node, node.value(0), node.integers(1).values, node.integers(2).values)};
}
Values reverse_v2(const TfNode& node) { return {reversed(node, node.value(0), node.integers(1).values)}; }
Values pad(const TfNode& node) {
  return {padded(node, node.value(0), 1, PadMode::constant, node.has(2) ? node.value(2) : Value())};
}
Values mirror_pad(const TfNode& node) {
  const std::string mode = node.text("mode");
  if (mode != "REFLECT" && mode != "SYMMETRIC") node.fail("mode is '" + mode + "'");
  return {padded(node, node.value(0), 1, mode == "REFLECT" ? PadMode::reflect : PadMode::symmetric)};
}

// Applies a kind for images N, C, H, W.
template <Name kind>
Values blocks(const TfNode& node) {
  const Parameters parameters = Parameters().integer("block", node.integer("block_size"));
  if (node.channels_first()) return {make(node, kind.text, {node.value(0)}, Parameters(parameters))};
  const Value image = permuted(node, node.value(0), {0, 3, 1, 2});
  return {permuted(node, make(node, kind.text, {image}, Parameters(parameters)), {0, 2, 3, 1})};
}

// ---- products ---------------------------------------------------------------------------------

Values mat_mul(const TfNode& node) {
  return {make(node, "matmul",
               {transposed_if(node, node.flag("transpose_a", false), node.value(0)),
                transposed_if(node, node.flag("transpose_b", false), node.value(1))})};
}
Values batch_mat_mul(const TfNode& node) {
  return {make(node, "matmul",
               {transposed_if(node, node.flag("adj_x", false), node.value(0)),
                transposed_if(node, node.flag("adj_y", false), node.value(1))})};
}
Values einsum(const TfNode& node) {
  const std::string equation = node.text("equation");
  return {
      make(node, "einsum", all_inputs(node), Parameters().integers("equation", {equation.begin(), equation.end()}))};
}

// ---- boxes ------------------------------------------------------------------------------------

// As many rows of boxes as stay, and for V4 and V5 also as many as there may be.
Values non_max_suppression(const TfNode& node) {
  Values inputs = all_inputs(node);
  if (inputs.size() < 5) inputs.push_back(number_of(node, std::numeric_limits<float>::lowest(), ElementType::f32));
  const int64_t most = node.only_integer(2);
  if (most < 0 || most > 1 << 20) node.fail("the number of outputs is out of range");
  const Values found = make_all(node, "suppress_boxes", inputs, Parameters().integer("most", most).integer("above", 1),
                                {ElementType::s32, ElementType::f32, ElementType::s32});
  const Value places =
      make(node, "range", {integer_number(0), integer_number(most), integer_number(1)}, {}, ElementType::i64);
  const Value taken = make(node, "less", {cast_to(node, places, ElementType::s32), found[2]}, {}, ElementType::boolean);
  return {make(node, "compress", {found[0], taken}, Parameters().integer("axis", 0))};
}

const TfRow* find(const std::string& op) {
  static const TfTable table = {
      {"Abs", {plain<"abs">, 1, 1}},
      {"Acos", {plain<"acos">, 1, 1}},
      {"Acosh", {plain<"acosh">, 1, 1}},
      {"Add", {plain<"any_add">, 2, 2}},
      {"AddN", {plain<"sum">, 1, many_inputs}},
      {"AddV2", {plain<"any_add">, 2, 2}},
      {"All", {reduce<"reduce_min">, 2, 2}},
      {"Any", {reduce<"reduce_max">, 2, 2}},
      {"ArgMax", {place<"arg_max">, 1, 2}},
      {"ArgMin", {place<"arg_min">, 1, 2}},
      {"Asin", {plain<"asin">, 1, 1}},
      {"Asinh", {plain<"asinh">, 1, 1}},
      {"Atan", {plain<"atan">, 1, 1}},
      {"Atanh", {plain<"atanh">, 1, 1}},
      {"BatchMatMul", {batch_mat_mul, 2, 2}},
      {"BatchMatMulV2", {batch_mat_mul, 2, 2}},
      {"BroadcastTo", {plain<"expand">, 2, 2}},
      {"Cast", {cast, 1, 1}},
      {"Ceil", {plain<"ceil">, 1, 1}},
      {"ClipByValue", {clip, 3, 3}},
      {"ConcatV2", {concat, 2, many_inputs}},
      {"Cos", {plain<"cos">, 1, 1}},
      {"Cosh", {plain<"cosh">, 1, 1}},
      {"Cumprod", {cumulative<"cumulative_product">, 2, 2}},
      {"Cumsum", {cumulative<"cumulative_sum">, 2, 2}},
      {"DepthToSpace", {blocks<"depth_to_space">, 1, 1}},
      {"Div", {plain<"any_div">, 2, 2}},
      {"Einsum", {einsum, 1, 64}},
      {"Equal", {equal, 2, 2}},
      {"Erf", {plain<"erf">, 1, 1}},
      {"Exp", {plain<"any_exp">, 1, 1}},
      {"ExpandDims", {expand_dims, 2, 2}},
      {"Fill", {fill, 2, 2}},
      {"Floor", {plain<"floor">, 1, 1}},
      {"FloorDiv", {floor_div_of, 2, 2}},
      {"FloorMod", {floor_mod_of, 2, 2}},
      {"Gather", {gather, 2, 2}},
      {"GatherNd", {gather_nd, 2, 2}},
      {"GatherV2", {gather, 3, 3}},
      {"Greater", {test<"greater">, 2, 2}},
      {"GreaterEqual", {test<"greater_or_equal">, 2, 2}},
      {"IsNan", {test<"is_nan">, 1, 1}},
      {"LeakyRelu", {leaky_relu, 1, 1}},
      {"Less", {test<"less">, 2, 2}},
      {"LessEqual", {test<"less_or_equal">, 2, 2}},
      {"Log", {plain<"log">, 1, 1}},
      {"LogSoftmax", {log_softmax, 1, 1}},
      {"LogicalAnd", {plain<"bitwise_and">, 2, 2}},
      {"LogicalNot", {plain<"not">, 1, 1}},
      {"LogicalOr", {plain<"bitwise_or">, 2, 2}},
      {"MatMul", {mat_mul, 2, 2}},
      {"Max", {reduce<"reduce_max">, 2, 2}},
      {"Maximum", {plain<"max">, 2, 2}},
      {"Mean", {reduce<"reduce_mean">, 2, 2}},
      {"Min", {reduce<"reduce_min">, 2, 2}},
      {"Minimum", {plain<"min">, 2, 2}},
      {"MirrorPad", {mirror_pad, 2, 2}},
      {"Mul", {plain<"any_mul">, 2, 2}},
      {"Neg", {plain<"neg">, 1, 1}},
      {"NonMaxSuppressionV2", {non_max_suppression, 4, 4}},
      {"NonMaxSuppressionV3", {non_max_suppression, 5, 5}},
      {"NotEqual", {not_equal, 2, 2}},
      {"OneHot", {one_hot_of, 4, 4}},
      {"OnesLike", {ones_like, 1, 1}},
      {"Pack", {pack, 1, many_inputs}},
      {"Pad", {pad, 2, 2}},
      {"PadV2", {pad, 3, 3}},
      {"Pow", {plain<"pow">, 2, 2}},
      {"Prod", {reduce<"reduce_prod">, 2, 2}},
      {"Range", {plain<"range">, 3, 3}},
      {"Rank", {rank, 1, 1}},
      {"RealDiv", {plain<"any_div">, 2, 2}},
      {"Reciprocal", {plain<"reciprocal">, 1, 1}},
      {"Relu", {plain<"relu">, 1, 1}},
      {"Relu6", {relu6, 1, 1}},
      {"Reshape", {reshape, 2, 2}},
      {"ReverseV2", {reverse_v2, 2, 2}},
      {"Rint", {plain<"round">, 1, 1}},
      {"Round", {plain<"round">, 1, 1}},
      {"Rsqrt", {rsqrt, 1, 1}},
      {"ScatterNd", {scatter_nd, 3, 3}},
      {"Select", {select, 3, 3}},
      {"SelectV2", {select_v2, 3, 3}},
      {"Shape", {shape_of, 1, 1}},
      {"Sigmoid", {plain<"any_sigmoid">, 1, 1}},
      {"Sign", {plain<"sign">, 1, 1}},
      {"Sin", {plain<"sin">, 1, 1}},
      {"Sinh", {plain<"sinh">, 1, 1}},
      {"Size", {size_of, 1, 1}},
      {"Slice", {slice, 3, 3}},
      {"Softplus", {plain<"softplus">, 1, 1}},
      {"Softsign", {plain<"softsign">, 1, 1}},
      {"SpaceToDepth", {blocks<"space_to_depth">, 1, 1}},
      {"Split", {split, 2, 2}},
      {"Sqrt", {plain<"sqrt">, 1, 1}},
      {"Square", {square, 1, 1}},
      {"SquaredDifference", {squared_difference, 2, 2}},
      {"Squeeze", {squeeze, 1, 1}},
      {"Sub", {plain<"any_sub">, 2, 2}},
      {"Sum", {reduce<"reduce_sum">, 2, 2}},
      {"Tan", {plain<"tan">, 1, 1}},
      {"Tanh", {plain<"any_tanh">, 1, 1}},
      {"TensorScatterAdd", {tensor_scatter<1>, 3, 3}},
      {"TensorScatterUpdate", {tensor_scatter<0>, 3, 3}},
      {"Tile", {plain<"tile">, 2, 2}},
      {"TopK", {top_k, 1, 1}},
      {"TopKV2", {top_k, 2, 2}},
      {"Transpose", {transpose, 2, 2}},
      {"TruncateDiv", {truncated_div, 2, 2}},
      {"Unique", {unique, 1, 1}},
      {"Unpack", {unpack, 1, 1}},
      {"Where", {where, 1, 1}},
      {"ZerosLike", {zeros_like, 1, 1}},
  };
  return find_in(table, op);
}

}  // namespace
}  // namespace general

const TfRow* find_general(const std::string& op) { return general::find(op); }

}  // namespace quern::tensorflow
