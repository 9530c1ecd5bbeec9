// What moves, makes and chooses elements, and shapes as numbers: kinds of libquern-extra.
#include <bit>
#include <cmath>
#include <string_view>

#include "convert/onnx/export/parts.h"
#include "convert/onnx/export/rows.h"

namespace quern::onnx {
namespace {

using Rule = AttributeRule;

// ---- types

// Our graphs hold numbers of 16 bits as floats: they are rounded by a cast there and back.
void write_cast(GraphWriter& to, const Node& node, const ExportRow& row) {
  if (integer_of(node, "half", 0) == 0) return write_operator(to, node, row);
  schema::NodeProto* half = to.add_op("Cast", node_name(node, "half"), {to.stored_plain(node.inputs[0])});
  set_integer(half, "to", schema::TensorProto::FLOAT16);
  write_with(to, node, row, {half->output(0)});
}

// Other engines draw other numbers from the seed, whose bits are those of a float.
void write_random(GraphWriter& to, const Node& node, const ExportRow& row) {
  const bool normal = integer_of(node, "normal", 0) != 0;
  ExportRow written = row;
  written.op = normal ? "RandomNormalLike" : "RandomUniformLike";
  const auto seed = std::bit_cast<float>(static_cast<int32_t>(integer_of(node, "seed", 0)));
  if (integer_of(node, "seed", 0) != std::bit_cast<int32_t>(seed) || !std::isfinite(seed))
    throw Unsupported{"its seed"};
  schema::NodeProto* const made = write_with(to, node, written, stored_inputs(to, node));
  for (const char* name : {normal ? "mean" : "low", normal ? "scale" : "high"}) {
    const bool one = std::string_view(name) == "scale" || std::string_view(name) == "high";
    set_number(made, name, number_of(node, name, one ? 1 : 0));
  }
  set_number(made, "seed", seed);
  set_integer(made, "dtype", schema::TensorProto::FLOAT);
}

// ---- sizes as numbers

// The dimension of an input as a tensor of one number.
std::string dimension_of(GraphWriter& to, const Node& node, int64_t input, int64_t d) {
  if (input < 0 || !has(node, static_cast<size_t>(input))) throw Unsupported{"of an input that is not there"};
  const int x = node.inputs[static_cast<size_t>(input)];
  const Order order = to.is_constant(x) ? to.order_as_is(x) : to.order_of(x);
  const std::string shape = to.add("Shape", node_name(node, "shape"), {to.stored(x, order)});
  const bool sized = d >= 0 && static_cast<size_t>(d) < order.size();
  const int64_t at = sized ? static_cast<int64_t>(position(order, static_cast<size_t>(d))) : d;
  return to.add("Gather", node_name(node, "dimension"), {shape, to.integers({at})});
}

// Reads one number from `factors`: numerator, denominator, how many dimensions, then input and dimension of each. A
// count below 0 stands for its complement, and says that the next number is added (`extra/sized.h` has it all).
std::string size_of(GraphWriter& to, const Node& node, const Vector<int64_t>& factors, size_t* next) {
  const auto take = [&] {
    if (*next == factors.size()) throw Unsupported{"without factors"};
    return factors[(*next)++];
  };
  std::string sum;
  for (bool goes_on = true; goes_on;) {
    const int64_t numerator = take(), denominator = take(), count = take();
    std::string number = to.integers({numerator});
    for (int64_t left = count < 0 ? ~count : count; left > 0; --left) {
      const int64_t input = take();
      number = to.add("Mul", node_name(node, "product"), {number, dimension_of(to, node, input, take())});
    }
    const auto divide = [&](const std::string& x, int64_t by) {
      return to.add("Div", node_name(node, "quotient"), {x, to.integers({by})});
    };
    if (denominator > 1) number = divide(number, denominator);
    const char* const op = denominator == 0 ? "Mul" : "Add";
    sum = sum.empty() ? number : to.add(op, node_name(node, "sum"), {sum, number});
    if (denominator < 0) sum = divide(sum, -denominator);
    goes_on = count < 0;
  }
  return sum;
}

// The list of numbers that a parameter holds as factors.
std::string list_of(GraphWriter& to, const Node& node, const Vector<int64_t>& factors) {
  std::vector<std::string> numbers;
  for (size_t next = 0; next < factors.size();) numbers.push_back(size_of(to, node, factors, &next));
  if (numbers.empty()) return to.integers({});
  schema::NodeProto* list = to.add_op("Concat", node_name(node, "list"), numbers);
  set_integer(list, "axis", 0);
  return list->output(0);
}

void write_sizes(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Parameter* const factors = find_parameter(node, "factors");
  const Parameter* const shape = find_parameter(node, "shape");
  std::string value = factors == nullptr ? to.integers({}) : list_of(to, node, factors->integers);
  const Vector<int64_t> wanted = shape == nullptr ? Vector<int64_t>() : shape->integers;
  schema::NodeProto* reshaped = to.add_op("Reshape", node_name(node, "shaped"), {value, to.integers(wanted)});
  value = reshaped->output(0);
  const int output = node.outputs[0];
  if (to.tensor(output).type != QN_S64) {
    schema::NodeProto* cast = to.add_op("Cast", node_name(node, "cast"), {value});
    set_integer(cast, "to", data_type(to.tensor(output).type));
    value = cast->output(0);
  }
  to.define_stored(output, value, to.order_as_is(output));
}

// ---- tensors of one number

// A list of integers, which has 64 bits in ONNX and may have 32 here.
std::string wide_list(GraphWriter& to, const Node& node, size_t input) {
  const std::string list = to.stored_plain(node.inputs[input]);
  if (to.tensor(node.inputs[input]).type != QN_S32) return list;
  return Parts{to, node}.op("Cast", {list}, "to", schema::TensorProto::INT64);
}

void write_fill(GraphWriter& to, const Node& node, const ExportRow& row) {
  const int number = node.inputs[1];
  if (!to.is_constant(number)) {
    const std::string scalar = to.add("Reshape", node_name(node, "number"), {to.stored_plain(number), to.integers({})});
    const std::string filled = to.add("Expand", node_name(node), {scalar, wide_list(to, node, 0)});
    return to.define_stored(node.outputs[0], filled, to.order_as_is(node.outputs[0]));
  }
  schema::NodeProto* fill = write_with(to, node, row, {wide_list(to, node, 0)});
  schema::TensorProto* value = add_attribute(fill, "value", schema::AttributeProto::TENSOR)->mutable_t();
  value->set_data_type(data_type(to.tensor(number).type));
  value->add_dims(1);
  value->set_raw_data(to.constant_of(number).data, to.constant_of(number).bytes);
}

// ---- sizes that follow dimensions

// Writes a node of a kind that follows dimensions: the operator of the other form of the kind, whose inputs the lists
// are.
template <size_t own>
void write_sized(GraphWriter& to, const Node& node, const ExportRow& row) {
  write_with(to, node, row, sized_inputs(to, node, own));
}

// Its inputs are numbers, not lists.
void write_range_sizes(GraphWriter& to, const Node& node, const ExportRow& row) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < 3; ++i) {
    const Parameter* const factors = find_parameter(node, ("sizes" + std::to_string(i)).c_str());
    const std::string number =
        factors != nullptr ? list_of(to, node, factors->integers) : to.stored_plain(node.inputs[i]);
    inputs.push_back(to.add("Reshape", node_name(node, "bound"), {number, to.integers({})}));
  }
  write_with(to, node, row, std::move(inputs));
}

void write_fill_sizes(GraphWriter& to, const Node& node, const ExportRow& row) {
  const Parameter* const factors = find_parameter(node, "sizes0");
  const std::string shape = factors != nullptr ? list_of(to, node, factors->integers) : to.stored_plain(node.inputs[0]);
  const std::string scalar =
      to.add("Reshape", node_name(node, "number"), {to.stored_plain(node.inputs[1]), to.integers({})});
  write_with(to, node, row, {scalar, shape});
}

const Rule pad_mode = {Rule::word, "mode", "mode", {"constant", "reflect", "edge", "wrap"}};

void write_pad_sizes(GraphWriter& to, const Node& node, const ExportRow& row) {
  const int64_t mode = integer_of(node, "mode", 0);
  if (mode == 4) throw Unsupported{"by pads that follow dimensions and mirror behind the edge"};
  if (mode == 3) to.need_opset(19);  // wrap
  write_sized<4>(to, node, row);
}

// ---- parts

// The inputs of an operator whose second one is a list.
std::vector<std::string> with_wide_list(GraphWriter& to, const Node& node) {
  std::vector<std::string> inputs = stored_inputs(to, node);
  if (has(node, 1)) inputs[1] = wide_list(to, node, 1);
  return inputs;
}
void write_with_list(GraphWriter& to, const Node& node, const ExportRow& row) {
  write_with(to, node, row, with_wide_list(to, node));
}

// How many numbers a list has.
int64_t count_of(const GraphWriter& to, int list) {
  const Shape& shape = to.tensor(list).shape;
  if (to.tensor(list).sized_by_run || shape.size() != 1) throw Unsupported{"of a list that only a run sizes"};
  return static_cast<int64_t>(shape[0]);
}

// ONNX wants as many outputs as there are parts, also where nobody reads the last ones. Parts that are not `even` are
// an error here where the dimension cannot be cut so; ONNX has no form for the error.
void write_split(GraphWriter& to, const Node& node, const ExportRow& row) {
  constexpr int64_t most = 256;
  ExportRow all = row;
  all.outputs = node.outputs.size();
  schema::NodeProto* split = write_with(to, node, all, with_wide_list(to, node));
  const bool sized = has(node, 1);
  const int64_t parts = sized ? count_of(to, node.inputs[1]) : integer_of(node, "parts", 1);
  if (parts > most) throw Unsupported{"into so many parts"};
  while (split->output_size() < parts) split->add_output(to.model.new_name());
  if (!sized) set_integer(split, "num_outputs", parts);
}

// The axes of a list that the file has, or all of them.
Vector<int64_t> axes_of(const GraphWriter& to, const Node& node, size_t input, size_t rank) {
  Vector<int64_t> axes;
  for (size_t d = 0; !has(node, input) && d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
  if (!has(node, input)) return axes;
  const int list = node.inputs[input];
  if (!to.is_constant(list) || to.tensor(list).type != QN_S64) throw Unsupported{"along axes that a run computes"};
  const auto* const from = static_cast<const int64_t*>(to.constant_of(list).data);
  axes.insert(axes.end(), from, from + to.constant_of(list).bytes / sizeof(int64_t));
  return axes;
}

// Where the elements of a padded dimension come from: its elements, forwards and backwards by turns. Pads below 0 take
// elements away before.
std::string mirrored_places(const Parts& p, const std::string& size, const std::string& before,
                            const std::string& after) {
  const std::string zero = p.to.integer(0), one = p.to.integer(1);
  const auto above_0 = [&](const std::string& x) { return p.op("Max", {x, zero}); };
  const std::string back = p.op("Neg", {before}), cut = above_0(back);
  const std::string kept = p.op("Sub", {p.op("Sub", {size, cut}), above_0(p.op("Neg", {after}))});
  const std::string all = p.op("Range", {p.op("Min", {back, zero}), p.op("Add", {kept, above_0(after)}), one});
  const std::string both = p.op("Add", {kept, kept}), forwards = p.op("Mod", {all, both});
  const std::string backwards = p.op("Sub", {p.op("Sub", {both, one}), forwards});
  return p.op("Add", {p.op("Min", {forwards, backwards}), cut});
}

// ONNX mirrors around the element at the edge, not behind it.
void write_symmetric_pad(GraphWriter& to, const Node& node) {
  const Parts p = {to, node};
  to.need_opset(14);
  std::string x = to.stored_plain(node.inputs[0]), pads = to.stored_plain(node.inputs[1]);
  if (to.tensor(node.inputs[1]).type != QN_S64) pads = p.op("Cast", {pads}, "to", schema::TensorProto::INT64);
  const Vector<int64_t> axes = axes_of(to, node, 3, to.tensor(node.inputs[0]).shape.size());
  const auto count = static_cast<int64_t>(axes.size());
  if (count_of(to, node.inputs[1]) != 2 * count) throw Unsupported{"with pads that do not fit the axes"};
  for (int64_t i = 0; i < count; ++i) {
    const std::string axis = to.integer(axes[at(i)]);
    const std::string size = p.op("Gather", {p.op("Shape", {x}), axis});
    const auto pad = [&](int64_t index) { return p.op("Gather", {pads, to.integer(index)}); };
    x = p.op("Gather", {x, mirrored_places(p, size, pad(i), pad(count + i))}, "axis", axes[at(i)]);
  }
  p.define(x);
}

void write_pad_by(GraphWriter& to, const Node& node, const ExportRow& row) {
  const int64_t mode = integer_of(node, "mode", 0);
  if (mode == 4) return write_symmetric_pad(to, node);
  if (mode == 3) to.need_opset(19);  // wrap
  write_with_list(to, node, row);
}

// The lists of tf_idf: its range of lengths is two attributes in ONNX.
void write_tf_idf(GraphWriter& to, const Node& node, const ExportRow& row) {
  schema::NodeProto* counts = write_with(to, node, row, stored_inputs(to, node));
  const Parameter* const lengths = find_parameter(node, "lengths");
  if (lengths == nullptr || lengths->integers.size() != 2) throw Unsupported{"without a range of lengths"};
  set_integer(counts, "min_gram_length", lengths->integers[0]);
  set_integer(counts, "max_gram_length", lengths->integers[1]);
  const Parameter* const weights = find_parameter(node, "weights");
  if (weights == nullptr || weights->floats.empty()) return;
  schema::AttributeProto* list = add_attribute(counts, "weights", schema::AttributeProto::FLOATS);
  for (const float weight : weights->floats) list->add_floats(weight);
}

const std::vector<Rule> tf_idf_rules = {{Rule::word, "mode", "mode", {"TF", "IDF", "TFIDF"}},
                                        {Rule::integer, "max_skip_count", "skips"},
                                        {Rule::integers, "ngram_counts", "starts"},
                                        {Rule::integers, "ngram_indexes", "places"},
                                        {Rule::integers, "pool_int64s", "pool"}};
const Rule reduction = {Rule::word, "reduction", "reduction", {"none", "add", "mul", "max", "min"}};

}  // namespace

std::vector<std::string> sized_inputs(GraphWriter& to, const Node& node, size_t own) {
  std::vector<std::string> inputs(own);
  for (size_t i = 0; i < own; ++i) {
    const Parameter* const factors = find_parameter(node, ("sizes" + std::to_string(i)).c_str());
    if (factors != nullptr) {
      inputs[i] = list_of(to, node, factors->integers);
    } else if (has(node, i)) {
      inputs[i] = to.stored_plain(node.inputs[i]);
    }
  }
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  return inputs;
}

const ExportTable& exported_moves() {
  static const ExportTable table = {
      {"bit_cast", {write_operator, "BitCast", 26, {{Rule::type, "to"}}}},
      {"cast", reads({"half"}, {write_cast, "Cast", 13, {{Rule::type, "to"}}})},
      {"center_crop_pad", {write_operator, "CenterCropPad", 18, {{Rule::integers, "axes", "axes"}}}},
      {"compress", {write_operator, "Compress", 13, axis_rule}},
      {"depth_to_space",
       {write_operator,
        "DepthToSpace",
        13,
        {{Rule::integer, "blocksize", "block"}, {Rule::word, "mode", "crd", {"DCR", "CRD"}}}}},
      {"expand", {write_with_list, "Expand"}},
      {"expand_sizes", reads({"sizes1"}, {write_sized<2>, "Expand"})},
      {"eye_like", {write_operator, "EyeLike", 13, {{Rule::integer, "k", "k"}, {Rule::type, "dtype"}}}},
      {"fill", {write_fill, "ConstantOfShape"}},
      {"fill_sizes", reads({"sizes0"}, {write_fill_sizes, "Expand"})},
      {"flatten", {write_operator, "Flatten", 13, axis_rule}},
      {"gather", {write_operator, "Gather", 13, axis_rule}},
      {"gather_elements", {write_operator, "GatherElements", 13, axis_rule}},
      {"gather_nd", {write_operator, "GatherND", 13, {{Rule::integer, "batch_dims", "batch_dims"}}}},
      {"join", {write_operator, "Concat", 13, axis_rule}},
      {"nonzero", {write_operator, "NonZero"}},
      {"one_hot", {write_operator, "OneHot", 13, axis_rule}},
      {"pad_by", {write_pad_by, "Pad", 18, {pad_mode}}},
      {"pad_sizes", reads({"sizes1", "sizes3"}, {write_pad_sizes, "Pad", 18, {pad_mode}})},
      {"permute", {write_operator, "Transpose", 13, {{Rule::integers, "perm", "perm"}}}},
      {"random_like",
       reads({"normal", "seed", "mean", "scale", "low", "high"}, {write_random, "RandomNormalLike", 13})},
      {"range", {write_operator, "Range"}},
      {"range_sizes", reads({"sizes0", "sizes1", "sizes2"}, {write_range_sizes, "Range"})},
      {"reshape_sizes",
       reads({"sizes1"}, {write_sized<2>, "Reshape", 14, {{Rule::integer, "allowzero", "allow_zero"}}})},
      {"reshape_to", {write_with_list, "Reshape", 14, {{Rule::integer, "allowzero", "allow_zero"}}}},
      {"reverse_sequence",
       {write_operator,
        "ReverseSequence",
        13,
        {{Rule::integer, "batch_axis", "batch_axis"}, {Rule::integer, "time_axis", "time_axis"}}}},
      {"scatter_elements", {write_operator, "ScatterElements", 18, {{Rule::integer, "axis", "axis"}, reduction}}},
      {"scatter_nd", {write_operator, "ScatterND", 18, {reduction}}},
      {"shape_of", {write_operator, "Shape", 15, {{Rule::integer, "start", "start"}, {Rule::integer, "end", "end"}}}},
      {"size_of", {write_operator, "Size"}},
      {"sizes", reads({"factors", "shape"}, {write_sizes})},
      {"slice_by", {write_operator, "Slice"}},
      {"slice_sizes", reads({"sizes1", "sizes2", "sizes3", "sizes4"}, {write_sized<5>, "Slice"})},
      {"space_to_depth", {write_operator, "SpaceToDepth", 13, {{Rule::integer, "blocksize", "block"}}}},
      {"split_to", reads({"parts", "even"}, {write_split, "Split", 18, axis_rule})},
      {"squeeze", {write_operator, "Squeeze"}},
      {"tensor_scatter",
       {write_operator,
        "TensorScatter",
        24,
        {{Rule::integer, "axis", "axis"}, {Rule::word, "mode", "circular", {"linear", "circular"}}}}},
      {"tf_idf", reads({"lengths", "weights"}, {write_tf_idf, "TfIdfVectorizer", 13, tf_idf_rules})},
      {"tile_sizes", reads({"sizes1"}, {write_sized<2>, "Tile"})},
      {"tile", {write_with_list, "Tile"}},
      {"top_k",
       {write_operator, "TopK", 13, {{Rule::integer, "axis", "axis"}, {Rule::integer, "largest", "largest"}}, 2}},
      {"trilu", {write_operator, "Trilu", 14, {{Rule::integer, "upper", "upper"}}}},
      {"unique",
       {write_operator, "Unique", 13, {{Rule::integer, "axis", "axis"}, {Rule::integer, "sorted", "sorted"}}}},
      {"unsqueeze", {write_operator, "Unsqueeze"}},
  };
  return table;
}

}  // namespace quern::onnx
