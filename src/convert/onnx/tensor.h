// Constants of an ONNX file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "convert/common/values.h"
#include "convert/onnx/onnx.pb.h"

namespace quern::onnx {

// What our importers call a schema::TensorProto::DataType; nothing for types that they do not read.
std::optional<convert::ElementType> element_type(int32_t type);

// Of a tensor whose data lies outside the model: where. Links are resolved; throws if it leads out of the folder.
std::filesystem::path external_file(const schema::TensorProto& tensor, const std::string& folder);

// Throws if writing `target` would replace what the tensor's data is read from.
void keep_external_file(const schema::TensorProto& tensor, const std::string& folder, const std::string& target);

// `folder`: of the model, where external data lies; nothing outside it is read. Throws Unsupported for other types.
convert::Array read_tensor(const schema::TensorProto& tensor, const std::string& folder);

}  // namespace quern::onnx
