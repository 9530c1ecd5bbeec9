// Small ONNX models for tests.
#pragma once

#include <string>
#include <vector>

#include "arrays.h"
#include "convert/onnx/onnx.pb.h"

namespace quern::test {

class OnnxModel {
 public:
  explicit OnnxModel(int64_t opset) {
    model.set_ir_version(8);
    model.add_opset_import()->set_version(opset);
  }

  onnx::schema::ModelProto model;

  OnnxModel& input(const std::string& name, const Dims& dims,
                   onnx::schema::TensorProto::DataType type = onnx::schema::TensorProto::FLOAT);
  OnnxModel& output(const std::string& name);
  OnnxModel& floats(const std::string& name, const Array& array);
  OnnxModel& integers(const std::string& name, const std::vector<int64_t>& values);
  // A constant of int8, uint8 or int32.
  OnnxModel& steps(const std::string& name, onnx::schema::TensorProto::DataType type, const Dims& dims,
                   const std::vector<int32_t>& values);
  OnnxModel& scalar(const std::string& name, float value) { return floats(name, {{}, {value}}); }

  // A node named after its first output. `attributes`: "axis=1 pads=[0,0,1,1] mode='linear' alpha=0.5f scales=[1f,2f]".
  OnnxModel& node(const std::string& type, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs, const std::string& attributes = "");

  std::string bytes() const { return model.SerializeAsString(); }
};

}  // namespace quern::test
