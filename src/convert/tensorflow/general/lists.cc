// Lists of tensors, as loops carry them. A list is one tensor, whose rows are its elements.
//
// TensorFlow reserves a list before it knows the shape of its elements: the size of a batch is often open. Such a list is
// unshaped until something is stored in it, which shape_lists() finds out before a loop begins.
#include <algorithm>

#include "convert/common/fold.h"
#include "convert/tensorflow/general/general.h"

namespace quern::tensorflow {
namespace {

Value as_list(Value rows) {
  rows.list = std::make_shared<const TensorList>();
  return rows;
}

// Returns an input that is a list.
const Value& list(const TfNode& node, size_t input) {
  if (node.value(input).list == nullptr) node.fail("expected a list of tensors as input " + std::to_string(input));
  return node.value(input);
}

// Returns the rows of an input that is a list.
Value rows(const TfNode& node, size_t input) {
  if (list(node, input).is_unshaped()) throw Unsupported{"a list of tensors whose shape is not known"};
  Value value = node.value(input);
  value.list = nullptr;
  return value;
}

ElementType elements_type(const TfNode& node) {
  const std::optional<ElementType> type = element_type(node.type("element_dtype"));
  if (!type) throw Unsupported{"of " + schema::DataType_Name(node.type("element_dtype"))};
  for (const char* unused : {"shape_type", "Tshape", "num_elements"}) node.ignore(unused);
  return *type;
}

// The shape of x from dimension `first` on: known integers where the source fixes the rank.
Value shape_from(const TfNode& node, const Value& x, size_t first) {
  const bool is_sized = x.integers != nullptr || node.builder.is_sized(x.view);
  if (is_sized) return convert::shape_of(node.with({&x}, node.name), 0, first, rank_of(node, x));
  return sliced(node, shape_of(node, x), {static_cast<int64_t>(first)}, {INT64_MAX}, {0});
}

// Two lists of integers, the first of which may be a number.
Value joined_integers(const TfNode& node, const Value& a, const Value& b) {
  if (a.integers != nullptr && b.integers != nullptr) {
    Integers all;
    for (const Value* part : {&a, &b}) {
      for (size_t i = 0; i < part->integers->values.size(); ++i) all.add(part->integers->at(i));
    }
    all.shape = {all.values.size()};
    return integer_value(std::move(all));
  }
  const Value first = reshaped(node, cast_to(node, a, ElementType::i64), {-1});
  return joined(node, {first, cast_to(node, b, ElementType::i64)}, 0);
}

// Whether the sizes of a shape follow from dimensions, or are no open ones.
bool follows_dimensions(const TfNode& node, const Integers& shape) {
  std::vector<View> tensors;
  std::vector<int64_t> factors;
  for (size_t i = 0; i < shape.values.size(); ++i) {
    const bool is_open = shape.symbols[i] != no_symbol && node.builder.is_open(shape.symbols[i]);
    if (is_open && !node.builder.factors(shape.at(i), &tensors, &factors)) return false;
  }
  return true;
}

// Zeros of a shape. Sizes that are computed of others that are open are known in a run.
Value zeros(const TfNode& node, Value shape, ElementType type) {
  if (shape.integers != nullptr && !follows_dimensions(node, *shape.integers)) {
    shape.view = integers_in_run(node.builder, node.name + "/shape", *shape.integers, shape.type);
    shape.integers = nullptr;
  }
  return filled(node, shape, number_of(node, 0, type));
}

// ---- lists without elements -------------------------------------------------------------------

Value empty_list(const TfNode& node, const Value& length, const Value& element_shape) {
  const ElementType type = elements_type(node);
  if (element_shape.integers != nullptr) {
    const std::vector<int64_t>& sizes = element_shape.integers->values;
    const bool known = std::none_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; });
    if (known) return as_list(zeros(node, joined_integers(node, length, element_shape), type));
  }
  Value unshaped;
  unshaped.type = type;
  unshaped.list = std::make_shared<const TensorList>(TensorList{length, {}});
  return unshaped;
}

Values reserve(const TfNode& node) {
  if (node.is_integer(1) && node.only_integer(1) < 0) node.fail("the number of elements is negative");
  return {empty_list(node, node.value(1), node.value(0))};
}

Values from_tensor(const TfNode& node) {
  elements_type(node);
  return {as_list(node.value(0))};
}

// ---- elements ---------------------------------------------------------------------------------

// The rows of a list into which an item is stored; zeros if it is the first one.
Value rows_for(const TfNode& node, const Value& item) {
  const Value& to = list(node, 0);
  if (to.type != item.type) node.fail("the item has another type");
  if (!to.is_unshaped()) return rows(node, 0);
  to.list->shape = joined_integers(node, to.list->length, shape_from(node, item, 0));
  return zeros(node, to.list->shape, item.type);
}

Values set_item(const TfNode& node) {
  elements_type(node);
  if (node.flag("resize_if_index_out_of_bounds", false)) throw Unsupported{"a list that grows"};
  const Value at = reshaped(node, cast_to(node, node.value(1), ElementType::i64), {1, 1});
  const Value item = with_axis(node, node.value(2), 0);
  return {as_list(make(node, "scatter_nd", {rows_for(node, node.value(2)), at, item}))};
}

// One element, or several.
Values get_items(const TfNode& node) {
  elements_type(node);
  return {make(node, "gather", {rows(node, 0), node.value(1)}, Parameters().integer("axis", 0))};
}

Values stack(const TfNode& node) {
  elements_type(node);
  return {rows(node, 0)};
}

Value length_of(const TfNode& node, size_t input) {
  const Value& of = list(node, input);
  if (of.is_unshaped()) return of.list->length;
  const Value shape = shape_from(node, rows(node, input), 0);
  if (shape.integers == nullptr)
    return cast_to(node, make(node, "gather", {shape, integer_number(0)}), ElementType::s32);
  if (shape.integers->values.empty()) node.fail("the list is a single number");
  Integers size;
  size.add(shape.integers->at(0));
  return integer_value(std::move(size), ElementType::s32);
}
Values length(const TfNode& node) { return {length_of(node, 0)}; }

Values element_shape(const TfNode& node) {
  return {cast_to(node, shape_from(node, rows(node, 0), 1), node.index_type("shape_type", ElementType::s32))};
}

// ---- TensorArray of version 1, whose inputs are a handle first and last the flow, which is the list here --------------

const Value& flow(const TfNode& node) { return node.value(node.input_count() - 1); }

void ignore_of_arrays(const TfNode& node) {
  for (const char* unused :
       {"clear_after_read", "identical_element_shapes", "tensor_array_name", "dtype", "element_shape"}) {
    node.ignore(unused);
  }
}

// Gives a handle, which is nothing here, and the flow.
Values array(const TfNode& node) {
  ignore_of_arrays(node);
  if (node.flag("dynamic_size", false)) throw Unsupported{"a list that grows"};
  const std::optional<ElementType> type = element_type(node.type("dtype"));
  if (!type) throw Unsupported{"of " + schema::DataType_Name(node.type("dtype"))};
  Value unshaped;
  unshaped.type = *type;
  unshaped.list = std::make_shared<const TensorList>(TensorList{node.value(0), {}});
  return {integer_number(0), unshaped};
}

// Stores the parts of a tensor at indices: `first` is the input with the indices, one or several.
Values store(const TfNode& node, const Value& places, const Value& parts, const Value& item_shape) {
  ignore_of_arrays(node);
  const Value& to = flow(node);
  if (to.list == nullptr) node.fail("expected a list of tensors as flow");
  if (to.type != parts.type) node.fail("the item has another type");
  Value rows = to;
  rows.list = nullptr;
  if (to.is_unshaped()) {
    to.list->shape = joined_integers(node, to.list->length, item_shape);
    rows = zeros(node, to.list->shape, parts.type);
  }
  const Value at = reshaped(node, cast_to(node, places, ElementType::i64), {-1, 1});
  return {as_list(make(node, "scatter_nd", {rows, at, parts}))};
}
Values array_write(const TfNode& node) {
  return store(node, node.value(1), with_axis(node, node.value(2), 0), shape_from(node, node.value(2), 0));
}
Values array_scatter(const TfNode& node) {
  return store(node, node.value(1), node.value(2), shape_from(node, node.value(2), 1));
}
Values array_read(const TfNode& node) {
  ignore_of_arrays(node);
  return {make(node, "gather", {rows(node, node.input_count() - 1), node.value(1)}, Parameters().integer("axis", 0))};
}
Values array_size(const TfNode& node) { return {length_of(node, 1)}; }

}  // namespace

void shape_lists(const TfNode& node, Values* values, const std::string& function) {
  const auto is_unshaped = [](const Value& value) { return value.is_unshaped(); };
  if (std::none_of(values->begin(), values->end(), is_unshaped)) return;
  node.call(node.builder, function, *values);
  for (Value& value : *values) {
    if (value.is_unshaped() && value.list->shape) value = as_list(zeros(node, value.list->shape, value.type));
  }
}

bool takes_lists(const std::string& op) {
  return find_in(general_lists(), op) != nullptr || find_in(general_control(), op) != nullptr ||
         op.starts_with("Identity");
}

const TfTable& general_lists() {
  static const TfTable table = {
      {"TensorArrayGatherV3", {array_read, 3, 3}},
      {"TensorArrayReadV3", {array_read, 3, 3}},
      {"TensorArrayScatterV3", {array_scatter, 4, 4}},
      {"TensorArraySizeV3", {array_size, 2, 2}},
      {"TensorArrayV3", {array, 1, 1}},
      {"TensorArrayWriteV3", {array_write, 4, 4}},
      {"TensorListElementShape", {element_shape, 1, 1}},
      {"TensorListFromTensor", {from_tensor, 2, 2}},
      {"TensorListGather", {get_items, 3, 3}},
      {"TensorListGetItem", {get_items, 3, 3}},
      {"TensorListLength", {length, 1, 1}},
      {"TensorListReserve", {reserve, 2, 2}},
      {"TensorListSetItem", {set_item, 3, 3}},
      {"TensorListStack", {stack, 2, 2}},
  };
  return table;
}

}  // namespace quern::tensorflow
