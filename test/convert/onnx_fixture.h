// Tests of the ONNX importer: models of one node, and what is wrong with a model.
#pragma once

#include <gtest/gtest.h>
#include <quern/extra.h>

#include <string>
#include <vector>

#include "convert/convert.h"
#include "onnx_model.h"

namespace quern::test {

class Onnx : public testing::Test {
 protected:
  static void SetUpTestSuite() { expect_ok(qn_extra_register()); }
  Graph import(const OnnxModel& model, const std::vector<std::string>& outputs = {}) {
    return import_onnx(folder_.write("net.onnx", model.bytes()), {outputs});
  }
  std::string refusal(const OnnxModel& model) {
    return error_of([&] { import(model); });
  }
  std::vector<Array> run(const OnnxModel& model, const std::vector<Array>& inputs) {
    return test::run(import(model), inputs);
  }
  // A node reads the input "x" of the dimensions of `x` and constants c0, c1, ...; it writes "y".
  OnnxModel one_node(int64_t opset, const std::string& type, const std::string& attributes, const Dims& x,
                     const std::vector<Array>& constants = {}) {
    OnnxModel model(opset);
    model.input("x", x).output("y");
    std::vector<std::string> inputs = {"x"};
    for (const Array& constant : constants) {
      inputs.push_back(std::string("c").append(std::to_string(inputs.size() - 1)));
      model.floats(inputs.back(), constant);
    }
    return model.node(type, inputs, {"y"}, attributes);
  }
  void expect_node(int64_t opset, const std::string& type, const std::string& attributes, const Array& x,
                   const std::vector<Array>& constants, const Array& want) {
    SCOPED_TRACE(type + "-" + std::to_string(opset) + " " + attributes);
    expect_near(run(one_node(opset, type, attributes, x.dims, constants), {x}).at(0), want);
  }
  // The same with constants of integers.
  void expect_shaping(int64_t opset, const std::string& type, const std::string& attributes, const Array& x,
                      const std::vector<std::vector<int64_t>>& constants, const Array& want) {
    SCOPED_TRACE(type + "-" + std::to_string(opset) + " " + attributes);
    OnnxModel model(opset);
    model.input("x", x.dims).output("y");
    std::vector<std::string> inputs = {"x"};
    for (const auto& constant : constants) {
      inputs.push_back(std::string("c").append(std::to_string(inputs.size() - 1)));
      model.integers(inputs.back(), constant);
    }
    expect_near(run(model.node(type, inputs, {"y"}, attributes), {x}).at(0), want);
  }

  Folder folder_;
};

}  // namespace quern::test
