// Constants of an ONNX file as plain numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "convert/common/layout.h"
#include "convert/onnx/onnx.pb.h"

namespace quern {

// Whatever floating-point type the file has becomes float, whatever integer or boolean type int64.
struct Numbers {
  int32_t type = 0;  // of onnx::TensorProto::DataType
  Shape shape;       // may have zeros
  std::vector<float> floats;
  std::vector<int64_t> integers;
};

bool is_float_type(int32_t type);
bool is_integer_type(int32_t type);

// Of a tensor whose data lies outside the model: where. Links are resolved; throws if it leads out of the folder.
std::filesystem::path external_file(const onnx::TensorProto& tensor, const std::string& folder);

// Throws if writing `target` would replace what the tensor's data is read from.
void keep_external_file(const onnx::TensorProto& tensor, const std::string& folder, const std::string& target);

// `folder`: of the model, where external data lies; nothing outside it is read. Throws Unsupported for other types.
Numbers read_tensor(const onnx::TensorProto& tensor, const std::string& folder);

}  // namespace quern
