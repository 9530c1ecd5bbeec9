// Tests of the TensorFlow Lite importer: models of one operator, and what is wrong with a model.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "convert/convert.h"
#include "tflite_model.h"

namespace quern::test {

class Tflite : public testing::Test {
 protected:
  Graph import(const std::string& bytes, const std::vector<std::string>& outputs = {}) {
    return import_tflite(folder_.write("net.tflite", bytes), {outputs});
  }
  Graph import(const TfliteModel& model) { return import(model.bytes()); }
  // What is wrong, without the file's name.
  std::string refusal(const std::string& bytes) {
    const std::string message = error_of([&] { import(bytes); }), path = folder_.path("net.tflite") + ": ";
    EXPECT_EQ(message.find(path), 0u) << message;
    return message.substr(std::min(path.size(), message.size()));
  }
  std::string refusal(const TfliteModel& model) { return refusal(model.bytes()); }

  // As imported and after the optimiser.
  void expect(const TfliteModel& model, const std::vector<Array>& inputs, const std::vector<Array>& want,
              float tolerance = 1e-5f) {
    expect_outputs(import(model), inputs, want, tolerance);
  }

  // The model of one operator with inputs of other ranks, of fixed or open sizes, or without an input or its last output:
  // the importer takes it or says what is wrong.
  void expect_imported_or_refused(const TfliteModel& model) {
    for (const int32_t changed : model.operators[0].inputs) {
      if (changed >= 0) try_ranks(model, static_cast<size_t>(changed));
    }
    for (size_t i = 0; i < model.operators[0].inputs.size(); ++i) {
      TfliteModel without = model;
      without.operators[0].inputs[i] = -1;
      try_import(without);
    }
    TfliteModel fewer = model;
    for (std::vector<int32_t>* list : {&fewer.operators[0].outputs, &fewer.operators[0].inputs}) {
      list->pop_back();
      try_import(fewer);
    }
  }

  Folder folder_;

 private:
  // Whatever else is thrown ends the test.
  void try_import(const TfliteModel& model) {
    try {
      import(model);
    } catch (const Error&) {}
  }
  void try_ranks(const TfliteModel& model, size_t changed) {
    const std::vector<int32_t> shape = model.tensors[changed].shape;
    const int32_t count = std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>());
    for (size_t rank = 0; rank <= 6; ++rank) {
      for (const bool is_open : {false, true}) {
        TfliteModel other = model;
        TfliteModel::Tensor& tensor = other.tensors[changed];
        tensor.shape.assign(rank, 1);
        if (rank > 0) tensor.shape.back() = count;
        if (is_open) tensor.signature.assign(rank, -1);
        try_import(other);
      }
    }
  }
};

// An input of an operator: a tensor that the model is given, or a constant of floats or of integers.
struct TfliteOperand {
  TfliteOperand(Array x) : array(std::move(x)) {}  // NOLINT(google-explicit-constructor): the table is easier to read
  TfliteOperand(std::vector<int32_t> list) : integers(std::move(list)), kind(Kind::integers) {}  // NOLINT
  TfliteOperand(int32_t number) : integers{number}, kind(Kind::integer) {}                       // NOLINT
  static TfliteOperand constant(Array x) {
    TfliteOperand in(std::move(x));
    in.kind = Kind::constant;
    return in;
  }

  Array array;
  std::vector<int32_t> integers;
  enum class Kind { computed, constant, integers, integer } kind = Kind::computed;
};

struct TfliteCase {
  int32_t code;  // the number of the operator
  std::vector<TfliteOperand> inputs;
  std::vector<Array> want;
  TfliteOptions options = {};
};

inline TfliteModel model_of(const TfliteCase& c) {
  TfliteModel model;
  std::vector<int32_t> inputs, outputs;
  for (const TfliteOperand& in : c.inputs) {
    switch (in.kind) {
      case TfliteOperand::Kind::computed: inputs.push_back(model.input(in.array.dims)); break;
      case TfliteOperand::Kind::constant: inputs.push_back(model.floats(in.array)); break;
      case TfliteOperand::Kind::integers: inputs.push_back(model.integers(in.integers)); break;
      case TfliteOperand::Kind::integer: inputs.push_back(model.integer(in.integers[0])); break;
    }
  }
  for (const Array& array : c.want) {
    outputs.push_back(model.computed(array.dims));
    model.output(outputs.back());
  }
  model.node(c.code, inputs, outputs, c.options);
  return model;
}

inline Array relu6(const Array& x) {
  return map(x, [](float v) { return std::clamp(v, 0.f, 6.f); });
}

// SAME padding of one direction: the odd pixel comes last.
inline void pad_same(Window& w, size_t d, size_t size) {
  const size_t out = (size + w.stride[d] - 1) / w.stride[d];
  const size_t span = (out - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1;
  const size_t total = span > size ? span - size : 0;
  w.begin[d] = total / 2, w.end[d] = total - total / 2;
}

}  // namespace quern::test
