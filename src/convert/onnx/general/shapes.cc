// Operators that change shapes and orders, or make tensors of numbers.
#include <bit>

#include "convert/onnx/general/general.h"
#include "convert/onnx/tensor.h"

namespace quern::onnx {
namespace {

// ---- other shapes and orders

Values reshape(const OnnxNode& node) {
  return same_type(node, "reshape_to", Parameters().integer("allow_zero", node.integer("allowzero", 0)));
}

Values flatten(const OnnxNode& node) {
  return same_type(node, "flatten", Parameters().integer("axis", node.integer("axis", 1)));
}

template <Name kind>
Values by_axes(const OnnxNode& node) {
  return node.custom(kind.text, {node.operand(0), list_operand(node, "axes", 1, 13)}, {}, {node.value(0).type});
}

Values transpose(const OnnxNode& node) {
  Parameters parameters;
  if (node.has_attribute("perm")) parameters = Parameters().integers("perm", node.integer_list("perm"));
  return same_type(node, "permute", std::move(parameters));
}

Values depth_to_space(const OnnxNode& node) {
  const std::string mode = node.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") throw Unsupported{mode};
  return same_type(node, "depth_to_space",
                   Parameters().integer("block", node.integer("blocksize", 0)).integer("crd", mode == "CRD"));
}
Values space_to_depth(const OnnxNode& node) {
  return same_type(node, "space_to_depth", Parameters().integer("block", node.integer("blocksize", 0)));
}

std::optional<ElementType> type_attribute(const OnnxNode& node, const char* attribute) {
  if (!node.has_attribute(attribute)) return std::nullopt;
  const auto number = static_cast<int32_t>(node.integer(attribute, 0));
  const std::optional<ElementType> type = element_type(number);
  if (!type) throw Unsupported{"type " + type_name(number)};
  return type;
}

// Our graphs hold all floats as 32-bit ones, so the bits of others are lost.
Values bit_cast(const OnnxNode& node) {
  const ElementType from = node.value(0).type, to = type_attribute(node, "to").value_or(from);
  for (const ElementType type : {from, to}) {
    if (is_float(type) && type != ElementType::f32) throw Unsupported{"of floats that have not 32 bits"};
  }
  return of_kind(node, "bit_cast", {}, {to});
}

// ---- numbers

Values shape_of(const OnnxNode& node) {
  Parameters parameters = Parameters().integer("start", node.integer("start", 0));
  if (node.has_attribute("end")) parameters = std::move(parameters).integer("end", node.integer("end", 0));
  return of_kind(node, "shape_of", std::move(parameters), {ElementType::i64});
}
Values size_of(const OnnxNode& node) { return of_kind(node, "size_of", {}, {ElementType::i64}); }

Values constant_of_shape(const OnnxNode& node) {
  Array one = make_array<float>(ElementType::f32, {}, {0});
  if (const schema::TensorProto* tensor = node.tensor("value")) one = read_tensor(*tensor, node.folder);
  if (one.elements() != 1) node.fail("value is not one number");
  return {filled(node, node.value(0), constant_value(node.builder, one))};
}

Values eye_like(const OnnxNode& node) {
  const ElementType type = type_attribute(node, "dtype").value_or(node.value(0).type);
  return of_kind(node, "eye_like", Parameters().integer("k", node.integer("k", 0)), {type});
}

// The bits of a positive float that stands for the text (FNV-1a): a seed as ONNX has them.
int32_t seed_of(const std::string& text) {
  uint32_t hash = 0x811c9dc5;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193;
  return static_cast<int32_t>(hash & 0x3fffffff);
}

// Random numbers in the shape of `like`. Without a seed, the node's name is one.
Values random(const OnnxNode& node, const Value& like, Parameters parameters) {
  const ElementType type = type_attribute(node, "dtype").value_or(is_float(like.type) ? like.type : ElementType::f32);
  if (!is_float(type)) throw Unsupported{"of integers"};
  const int32_t seed = node.has_attribute("seed") ? std::bit_cast<int32_t>(node.number("seed", 0)) : seed_of(node.name);
  return {make(node, "random_like", {like}, std::move(parameters).integer("seed", seed), type)};
}

Values random_normal(const OnnxNode& node, const Value& like) {
  Parameters parameters = Parameters().integer("normal", 1).number("mean", node.number("mean", 0));
  return random(node, like, std::move(parameters).number("scale", node.number("scale", 1)));
}
Values random_uniform(const OnnxNode& node, const Value& like) {
  Parameters parameters = Parameters().number("low", node.number("low", 0));
  return random(node, like, std::move(parameters).number("high", node.number("high", 1)));
}

template <auto values>
Values like_input(const OnnxNode& node) {
  return values(node, node.value(0));
}
template <auto values>
Values of_shape(const OnnxNode& node) {
  const Value shape = integer_list(node.integer_list("shape"));
  return values(node, filled(node, shape, number_of(node, 0, ElementType::f32)));
}

Values one_hot(const OnnxNode& node) {
  return of_kind(node, "one_hot", Parameters().integer("axis", node.integer("axis", -1)), {node.value(2).type});
}

Values range(const OnnxNode& node) { return {range_of(node, node.value(0), node.value(1), node.value(2))}; }

// Of tensors; those that may be absent, by their types, are no inputs of our graphs.
Values has_element(const OnnxNode& node) {
  return {integer_value({{}, {node.has(0) ? 1 : 0}, {}}, ElementType::boolean)};
}
Values get_element(const OnnxNode& node) { return {node.value(0)}; }

}  // namespace

const OnnxTable& general_shapes() {
  static const OnnxTable table = {
      {"BitCast", {bit_cast, 1, 1}},
      {"ConstantOfShape", {constant_of_shape, 1, 1}},
      {"DepthToSpace", {depth_to_space, 1, 1}},
      {"EyeLike", {eye_like, 1, 1}},
      {"Flatten", {flatten, 1, 1}},
      {"OneHot", {one_hot, 3, 3}},
      {"OptionalGetElement", {get_element, 1, 1}},
      {"OptionalHasElement", {has_element, 0, 1}},
      {"RandomNormal", {of_shape<random_normal>, 0, 0}},
      {"RandomNormalLike", {like_input<random_normal>, 1, 1}},
      {"RandomUniform", {of_shape<random_uniform>, 0, 0}},
      {"RandomUniformLike", {like_input<random_uniform>, 1, 1}},
      {"Range", {range, 3, 3}},
      {"Reshape", {reshape, 2, 2}},
      {"Shape", {shape_of, 1, 1}},
      {"Size", {size_of, 1, 1}},
      {"SpaceToDepth", {space_to_depth, 1, 1}},
      {"Squeeze", {by_axes<"squeeze">, 1, 2}},
      {"Transpose", {transpose, 1, 1}},
      {"Unsqueeze", {by_axes<"unsqueeze">, 1, 2}},
  };
  return table;
}

}  // namespace quern::onnx
