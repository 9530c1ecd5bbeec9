// Tensors of a source model as importers of every format hold them.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "convert/common/layout.h"

namespace quern::convert {

// What the elements of a source's tensor are. Every format numbers its types in its own way and translates.
enum class ElementType : uint8_t { f32, f16, f64, i64, s32, s8, u8, boolean };

size_t element_size(ElementType type);  // in bytes
bool is_float(ElementType type);
// An input or output of this type at the border of our graph. Throws Unsupported for types that the border lacks.
qn_type port_type(ElementType type);

// A constant as a file holds it: dense, in its own type.
struct Array {
  ElementType type = ElementType::f32;
  Shape shape;  // may have zeros
  std::vector<uint8_t> bytes;

  size_t elements() const { return bytes.size() / element_size(type); }
};

// `T` is what `type` stores.
template <class T>
Array make_array(ElementType type, Shape shape, const std::vector<T>& values) {
  Array array{type, std::move(shape), std::vector<uint8_t>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

// Integers known at import: shapes, axes, sizes.
struct Integers {
  Shape shape;
  std::vector<int64_t> values;
  // Per value: what it is where inputs have other sizes, if it comes from the shape of a tensor.
  std::vector<Symbol> symbols;

  Symbols::Number at(size_t index) const { return {values[index], symbols[index]}; }
  void add(const Symbols::Number& number) {
    values.push_back(number.value);
    symbols.push_back(number.symbol);
  }
};

// A tensor of the source: one of our graph, computed or constant, or known integers.
struct Value {
  View view;
  std::shared_ptr<const Integers> integers;
  ElementType type = ElementType::f32;  // in the source; what floats of fewer or more bits are computed as is float

  Value() = default;
  Value(View of) : view(std::move(of)) {}  // NOLINT(google-explicit-constructor): importers return lists of views

  explicit operator bool() const { return view || integers != nullptr; }
};
using Values = std::vector<Value>;

// `integers` may have no symbols yet, if no value has one.
Value integer_value(Integers integers, ElementType type = ElementType::i64);
// A constant of the file: floats become a constant of our graph, integers are known. Without any elements, floats are
// kept like integers: a tensor of ours has no empty dimension.
Value constant_value(Builder& builder, const Array& array);

// Counts integers that are read or made against what the builder allows.
void charge_integers(Builder& builder, const Value& value);

}  // namespace quern::convert
