#include "convert/onnx/old.h"

#include <map>

#include "convert/common/elements.h"

namespace quern::onnx {
namespace {

void drop(Modern* modern, const std::string& attribute) {
  auto* const list = modern->proto.mutable_attribute();
  for (int i = list->size(); i-- > 0;) {
    if (list->Get(i).name() == attribute) list->DeleteSubrange(i, 1);
  }
}

// Puts a value in the place of an input, or behind all of them.
void put(Modern* modern, size_t input, Value value) {
  while (modern->inputs.size() <= input) modern->inputs.push_back(nullptr);
  while (modern->proto.input_size() <= static_cast<int>(input)) modern->proto.add_input();
  modern->inputs[input] = &modern->made.emplace_back(std::move(value));
}

void put_list(Modern* modern, size_t input, const std::vector<int64_t>& list) {
  put(modern, input, integer_value({{list.size()}, list, {}}));
}

// Moves the dimensions of an input to those of the first input from `axis` on, by dimensions of 1 behind them.
void align(const OnnxNode& node, Modern* modern, size_t input, int64_t axis) {
  const Shape to = node.dims(0), from = node.dims(input);
  const size_t first = node.axis(axis, to.size());
  if (first + from.size() > to.size()) node.fail("axis " + std::to_string(axis) + " does not fit the inputs");
  if (from.empty() || first + from.size() == to.size()) return;
  std::vector<int64_t> shape;
  for (size_t d = 0; d < from.size(); ++d) {
    node.fix(node.dimension(input, d).symbol);
    shape.push_back(static_cast<int64_t>(from[d]));
  }
  shape.resize(to.size() - first, 1);
  put(modern, input, reshape(node, input, shape));
}

void broadcast(const OnnxNode& node, Modern* modern) {
  if (node.integer("broadcast", 0) != 0 && node.has_attribute("axis")) align(node, modern, 1, node.integer("axis", 0));
  if (node.integer("broadcast", 0) == 0 && node.dims(0) != node.dims(1)) node.fail("the inputs differ in shape");
  drop(modern, "broadcast");
  drop(modern, "axis");
}

// A list of slopes is that of the channels.
void prelu(const OnnxNode& node, Modern* modern) {
  const Shape slope = node.dims(1);
  if (slope.size() == 1 && slope[0] != 1 && node.dims(0).size() > 2) align(node, modern, 1, 1);
}

void reshape_by_attribute(const OnnxNode& node, Modern* modern) {
  if (!node.has_attribute("shape")) return;
  put_list(modern, 1, node.integer_list("shape"));
  drop(modern, "shape");
}

void cast(const OnnxNode&, Modern* modern) {
  static const std::map<std::string, int64_t> types = {{"FLOAT", 1}, {"UINT8", 2}, {"INT8", 3},     {"INT32", 6},
                                                       {"INT64", 7}, {"BOOL", 9},  {"FLOAT16", 10}, {"DOUBLE", 11}};
  for (auto& attribute : *modern->proto.mutable_attribute()) {
    if (attribute.name() != "to" || attribute.s().empty()) continue;
    const int64_t* const type = find_in(types, attribute.s());
    if (type == nullptr) throw Unsupported{"to type " + attribute.s()};
    attribute.clear_s();
    attribute.set_type(schema::AttributeProto::INT);
    attribute.set_i(*type);
  }
}

// Repeats one dimension. Later forms have a number for each.
void tile(const OnnxNode& node, Modern* modern) {
  if (node.input_count() != 3) return;
  const std::vector<int64_t>&tiles = node.integers(1).values, &axis = node.integers(2).values;
  if (tiles.size() != 1 || axis.size() != 1) node.fail("tiles or axis is not one number");
  std::vector<int64_t> repeats(node.dims(0).size(), 1);
  repeats[node.axis(axis[0], repeats.size())] = tiles[0];
  put_list(modern, 1, repeats);
  modern->inputs.resize(2);
  modern->proto.mutable_input()->DeleteSubrange(2, 1);
}

void pad(const OnnxNode&, Modern* modern) {
  for (auto& attribute : *modern->proto.mutable_attribute()) {
    if (attribute.name() == "paddings") attribute.set_name("pads");
  }
}

void upsample(const OnnxNode& node, Modern* modern) {
  if (node.has_attribute("scales")) return;
  auto* const scales = modern->proto.add_attribute();
  scales->set_name("scales");
  scales->set_type(schema::AttributeProto::FLOATS);
  for (const float scale : {1.0f, 1.0f, node.number("height_scale", 0), node.number("width_scale", 0)}) {
    scales->add_floats(scale);
  }
  drop(modern, "height_scale");
  drop(modern, "width_scale");
}

void batch_normalization(const OnnxNode& node, Modern* modern) {
  if (node.integer("is_test", 0) == 0) throw Unsupported{"training: is_test is 0"};
  drop(modern, "is_test");
}
void drop_is_test(const OnnxNode&, Modern* modern) { drop(modern, "is_test"); }
void drop_broadcast(const OnnxNode&, Modern* modern) { drop(modern, "broadcast"); }
void drop_output_sequence(const OnnxNode&, Modern* modern) { drop(modern, "output_sequence"); }

}  // namespace

Modern modernized(const OnnxNode& node) {
  static const std::map<std::string, void (*)(const OnnxNode&, Modern*)> changes = {
      {"Add", broadcast},
      {"And", broadcast},
      {"BatchNormalization", batch_normalization},
      {"Cast", cast},
      {"Div", broadcast},
      {"Dropout", drop_is_test},
      {"Equal", broadcast},
      {"GRU", drop_output_sequence},
      {"Gemm", drop_broadcast},
      {"Greater", broadcast},
      {"LSTM", drop_output_sequence},
      {"Less", broadcast},
      {"Mul", broadcast},
      {"Or", broadcast},
      {"PRelu", prelu},
      {"Pad", pad},
      {"Pow", broadcast},
      {"RNN", drop_output_sequence},
      {"Reshape", reshape_by_attribute},
      {"Sub", broadcast},
      {"Tile", tile},
      {"Upsample", upsample},
      {"Xor", broadcast},
  };
  Modern modern{node.proto, {}, {}};
  for (size_t i = 0; i < node.input_count(); ++i) modern.inputs.push_back(node.has(i) ? &node.value(i) : nullptr);
  drop(&modern, "consumed_inputs");  // which inputs an operator may overwrite
  if (const auto* const change = find_in(changes, node.proto.op_type())) (*change)(node, &modern);
  return modern;
}

}  // namespace quern::onnx
