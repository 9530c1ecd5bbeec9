// Small TensorFlow Lite models for tests.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "convert/tflite/tflite_generated.h"

namespace quern::test {

// The options of an operator, made with `make(builder)`, which returns the place of their table.
class TfliteOptions {
 public:
  using Builder = flatbuffers::FlatBufferBuilder;

  TfliteOptions() = default;
  template <class Make>
  TfliteOptions(Make make)  // NOLINT(google-explicit-constructor): tests pass functions
      : make_([make](Builder& b) { return make(b).Union(); }), type_(type_of(make)) {}

 private:
  friend class TfliteModel;
  template <class Make>
  static tflite::schema::Options type_of(Make make) {
    Builder unused;
    return number(make(unused));
  }
  template <class Table>
  static tflite::schema::Options number(flatbuffers::Offset<Table>) {
    return tflite::schema::OptionsTraits<Table>::enum_value;
  }
  std::function<flatbuffers::Offset<void>(Builder&)> make_;
  tflite::schema::Options type_ = tflite::schema::Options::NONE;
};

class TfliteModel {
 public:
  using Builder = flatbuffers::FlatBufferBuilder;
  using Options = TfliteOptions;
  using Type = tflite::schema::TensorType;

  // A level of a constant that is stored without its zeros, and all of them.
  struct Level {
    bool sparse = false;
    int32_t size = 0;
    std::vector<uint8_t> segments = {}, places = {};
  };
  struct Sparsity {
    std::vector<int32_t> order = {}, blocks = {};
    std::vector<Level> levels = {};
  };

  // What the file says about a tensor.
  struct Tensor {
    std::string name;
    std::vector<int32_t> shape;
    Type type = Type::float32;
    std::string constant = {};  // its bytes; none: it is computed
    std::vector<float> scales = {};
    std::vector<int64_t> zero_points = {};
    int axis = 0;
    std::vector<int32_t> signature = {};
    int32_t buffer = -1;   // a number of a buffer; -1: its own
    bool details = false;  // whether it has such a table
    std::optional<Sparsity> sparsity = {};
    bool variable = false;
    bool misaligned = false;  // zero points lie where no number of 64 bits should
  };

  struct Operator {
    int32_t code;
    std::vector<int32_t> inputs, outputs;
    Options options = {};
    std::string custom = {};  // its name, if it is not built in
    std::string custom_options = {};
  };

  struct Graph {
    std::vector<Tensor> tensors;
    std::vector<Operator> operators;
    std::vector<int32_t> inputs, outputs;
  };

  // Each adds a tensor and returns its number.
  int computed(const Dims& dims, Type type = Type::float32, const std::string& name = "");
  int input(const Dims& dims, Type type = Type::float32, const std::string& name = "");
  int floats(const Array& array);
  int halves(const Array& array);  // of float16
  int integers(const std::vector<int32_t>& values);
  int integer(int32_t value);  // a scalar
  // A constant of int8, uint8 or int32.
  int steps(Type type, const Dims& dims, const std::vector<int32_t>& values);
  // Gives a tensor a scale and zero point, or one for each index of an axis; returns its number.
  int scaled(int tensor, std::vector<float> scales, std::vector<int64_t> zero_points, int axis = 0);

  // Adds an operator, and returns its first output.
  int node(int32_t code, const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs, Options options = {});
  void output(int tensor) { outputs.push_back(tensor); }

  std::string bytes() const;

  // What tests of damaged models change.
  uint32_t version = 3;
  std::vector<Tensor> tensors;
  std::vector<Operator> operators;
  std::vector<int32_t> inputs, outputs;
  size_t graphs = 1;           // how often the file lists the graph
  std::vector<Graph> called;   // graphs behind it, which operators run
  std::vector<Operator> once;  // of a further graph, with the same tensors
  bool outside = false;        // whether elements of constants lie behind the tables

 private:
  static flatbuffers::Offset<tflite::schema::Operator> add_operator(
      Builder& b, const Operator& op, std::vector<flatbuffers::Offset<tflite::schema::OperatorCode>>* codes);
  int constant(Type type, const Dims& dims, const void* data, size_t size);
};

}  // namespace quern::test
