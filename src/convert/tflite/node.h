// The form in which functions that import TensorFlow Lite's operators see an operator, and the tables of these
// functions.
#pragma once

// FlatBuffers' headers would need its library to read numbers in texts, of which there are none here.
#ifndef FLATBUFFERS_LOCALE_INDEPENDENT
#define FLATBUFFERS_LOCALE_INDEPENDENT 0
#endif

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convert/common/quantized.h"
#include "convert/common/table.h"
#include "convert/tflite/tflite_generated.h"

namespace quern::tflite {

// Namespace `schema` is the generated code of the file format. Names that all importers share need no prefix here.
using namespace convert;

// Translates a type of the file. Returns nothing for types that importers do not read.
std::optional<ElementType> element_type(schema::TensorType type);

// The name of a type of the file, for messages.
std::string type_name(schema::TensorType type);

// Says that an index of the file is out of range.
std::string beyond(const char* what, size_t count, int64_t index);

// The scales of a tensor of the file. Without any, the tensor is not quantized.
Scales scales_of(Builder& builder, const schema::Tensor& tensor);

class TfliteNode : public SourceNode {
 public:
  // `tensors` are those of the inputs, with null for inputs that the operator does not have. There is an output.
  TfliteNode(Builder& to, const schema::Operator& from, const std::string& its_name, const std::string& type,
             std::vector<const Value*> inputs, std::vector<const schema::Tensor*> tensors,
             std::vector<const schema::Tensor*> outputs)
      : SourceNode(to, its_name, "operator '" + its_name + "' (" + type + ")", std::move(inputs)),
        op(from),
        tensors_(std::move(tensors)),
        outputs_(std::move(outputs)) {}

  const schema::Operator& op;
  // Imports the nodes of another graph of the model into a builder. Returns the graph's outputs.
  std::function<Values(Builder& to, int32_t graph, const Values& inputs)> call;
  // For each output of a graph, whether it is the input of the same number.
  std::function<std::vector<bool>(int32_t graph)> passed_on;

  // The operator's options, which must be there.
  template <class Table>
  const Table& options() const {
    const Table* table = op.options_as<Table>();
    if (table == nullptr) fail("the options are missing, or another operator's");
    return *table;
  }

  // Returns an input as real numbers: computed ones as floats, constants also as the integers that the file holds.
  Value real(size_t input) const;
  View real_view(size_t input) const { return real(input).view; }
  // The same as an image N, C, H, W, as our builder wants it.
  View image(size_t input) const;
  // Returns constant real numbers.
  std::vector<float> real_numbers(size_t input) const;
  Scales scales(size_t input) const;
  // Throws Unsupported if an input is quantized: for operators that compute with the integers as they are.
  void expect_plain(size_t input) const;

  // Whether an input is a variable of the model, as it is when a run begins: zeros are a constant.
  bool is_state(size_t input) const { return has(input) && tensors_[input]->is_variable() && !is_constant(input); }

  // Whether the first input and the result are bytes of one scale and zero point.
  bool keeps_bytes() const;

  // Makes the operator's result of real numbers: with its activation, and quantized if the file says so.
  Value result(const View& y, schema::Activation activation = schema::Activation::none, size_t output = 0) const;
  Value image_result(const View& y, schema::Activation activation = schema::Activation::none) const;

  // For operators that compute with all types: an input as real numbers or, if it is not quantized, as it is; an empty
  // value if the operator does not have it. And a result: integers get the type that the file says, real numbers its scales.
  Value any(size_t input) const;
  Values all() const;
  Value typed(const Value& y, size_t output = 0, schema::Activation activation = schema::Activation::none) const;
  size_t output_count() const { return outputs_.size(); }
  ElementType output_type(size_t output) const;

 private:
  Scales scales_of(const schema::Tensor& tensor) const { return tflite::scales_of(builder, tensor); }

  const std::vector<const schema::Tensor*> tensors_;
  const std::vector<const schema::Tensor*> outputs_;
};

using TfliteRow = ImportRow<TfliteNode>;
using TfliteTable = ImportTable<TfliteNode>;

// The name of a built-in operator with this number; null if there is none.
const char* operator_name(int32_t code);

// Each finds the function that imports an operator, in the table of one file. Returns null if the table has none.
const TfliteRow* find_layer(const std::string& type);  // layers.cc: operators that compute
const TfliteRow* find_shape(const std::string& type);  // shapes.cc: shapes, constants, views
// general/: operators of any type and shape, for what the others do not have or cannot express.
const TfliteRow* find_general(const std::string& type);
// general/spectra.cc: operators of complex numbers.
const TfliteRow* find_complex(const std::string& type);

}  // namespace quern::tflite
