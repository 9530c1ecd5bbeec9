// Constants of an ONNX file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "convert/common/values.h"
#include "convert/onnx/onnx.pb.h"

namespace quern::onnx {

// Translates a schema::TensorProto::DataType. Returns nothing for types that importers do not read.
std::optional<convert::ElementType> element_type(int32_t type);

// Returns the file with the data of a tensor whose data lies outside the model. Resolves links. Throws if the file is
// not inside the folder.
std::filesystem::path external_file(const schema::TensorProto& tensor, const std::string& folder);

// Throws if writing `target` would replace the file from which the tensor's data is read.
void keep_external_file(const schema::TensorProto& tensor, const std::string& folder, const std::string& target);

// Reads a tensor. External data is read from `folder`, the model's, and never from outside it. Throws Unsupported for
// types that importers do not read.
convert::Array read_tensor(const schema::TensorProto& tensor, const std::string& folder);

}  // namespace quern::onnx
