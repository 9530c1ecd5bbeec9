// The form in which importers of all formats hold the tensors of a source model.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "convert/common/layout.h"

namespace quern::convert {

// Type of the elements of a source's tensor. Each importer translates the numbers that its format has for types.
enum class ElementType : uint8_t { f32, f16, f64, i64, s32, s8, u8, boolean };

size_t element_size(ElementType type);  // in bytes
bool is_float(ElementType type);
// Returns the type of a graph's input or output that has this type in the source. Throws Unsupported if inputs and
// outputs of graphs cannot have the type.
qn_type port_type(ElementType type);
// Returns the type that a tensor of the source has within our graphs.
qn_type operand_type(ElementType type);

// A constant as the file holds it: dense, and with the type that it has there.
struct Array {
  ElementType type = ElementType::f32;
  Shape shape;  // may have zeros
  std::vector<uint8_t> bytes;

  size_t elements() const { return bytes.size() / element_size(type); }
};

// Makes int8 or uint8 elements of 4-bit ones, of which each byte has two, the first in its low half. There are enough.
Array unpacked_int4(const std::vector<uint8_t>& halves, const Shape& shape, size_t count, bool is_signed);

// Makes an array. `T` must be the C++ type of an element of `type`.
template <class T>
Array make_array(ElementType type, Shape shape, const std::vector<T>& values) {
  Array array{type, std::move(shape), std::vector<uint8_t>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

// Integers whose values are known at import: shapes, axes, sizes.
struct Integers {
  Shape shape;
  std::vector<int64_t> values;
  // One per value. If the value comes from the shape of a tensor, the symbol says how it follows from the sizes of the
  // inputs.
  std::vector<Symbol> symbols;

  Symbols::Number at(size_t index) const { return {values[index], symbols[index]}; }
  void add(const Symbols::Number& number) {
    values.push_back(number.value);
    symbols.push_back(number.symbol);
  }
};

struct TensorList;

// A tensor of the source. It is either a tensor of our graph, computed or constant (`view`), or known integers.
struct Value {
  View view;
  std::shared_ptr<const Integers> integers;
  // The type in the source. Our graph computes all types of floats as 32-bit floats. Bytes without a sign become bytes
  // with a sign, by subtracting 128 from elements and zero points.
  ElementType type = ElementType::f32;
  // If `view` is a constant that the file holds as quantized integers: the same numbers as a constant of such integers,
  // for layers that can compute with them. Bytes minus their zero point may be too large for a byte: then they are the
  // sum of several constants.
  std::vector<View> quantized = {};
  // If this is no tensor, but a list of tensors of one shape: what is known of it. Its elements are the rows of the tensor
  // that `view` or `integers` is. A list into which nothing has been stored yet may be neither.
  std::shared_ptr<const TensorList> list;
  // If `view` has pairs as its last dimension, each of which is one complex number of the source: see spectra.h.
  bool is_complex = false;

  Value() = default;
  Value(View of) : view(std::move(of)) {}  // NOLINT(google-explicit-constructor): importers return lists of views

  explicit operator bool() const { return view || integers != nullptr || list != nullptr; }
  // Whether this is a list of tensors whose shape is not known yet.
  bool is_unshaped() const { return list != nullptr && !view && integers == nullptr; }
};
using Values = std::vector<Value>;

struct TensorList {
  Value length = {};         // of an unshaped list
  mutable Value shape = {};  // of the tensor that an unshaped list will be, once something has been stored in it
};

// How integers of a source stand for real numbers: one scale for all, or one for each index of a dimension.
struct Scales {
  std::vector<float> scales;
  std::vector<int64_t> zero_points;  // as many, of the source's type; or empty: all are 0
  size_t axis = 0;                   // the dimension, if there are several scales

  // Returns the scale and zero point of an element, given by its index in a dense tensor.
  size_t channel(const Shape& shape, size_t element) const;
  int64_t zero_point(size_t channel) const { return zero_points.empty() ? 0 : zero_points[channel]; }
};

// Turns quantized integers of the file into real numbers. Value::quantized is set if they fit a layer of bytes.
Value dequantized_constant(Builder& builder, const Integers& integers, ElementType type, const Scales& scales);
// Rounds real numbers to integers of a type with eight bits.
Integers quantized_integers(const Shape& shape, const float* data, ElementType type, const Scales& scales);

// Makes a value of known integers. `integers.symbols` may be empty if no integer has a symbol.
Value integer_value(Integers integers, ElementType type = ElementType::i64);
// Makes a value of a constant of the file: floats become a constant of our graph, and integers become known integers.
// So do floats without any elements, because our tensors cannot have empty dimensions.
Value constant_value(Builder& builder, const Array& array);
// Makes a constant of known integers.
View integer_constant(Builder& builder, const Integers& integers, ElementType type);
// Makes a tensor of known integers. Those that come from the sizes of inputs follow these sizes: a node computes them. If
// no node can, the sizes are fixed by the name of what is made.
View integers_in_run(Builder& builder, const std::string& name, const Integers& integers, ElementType type);

// Count integers towards the limit of Builder::allow(): what a node reads, and what is made and held as eight bytes each.
void charge_reading(Builder& builder, const Value& value);
void charge_integers(Builder& builder, const Value& value);

}  // namespace quern::convert
