// Constants of an ONNX file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "convert/common/values.h"
#include "convert/onnx/onnx.pb.h"

namespace quern::onnx {

// Translates a schema::TensorProto::DataType. Returns nothing for types that importers do not read.
std::optional<convert::ElementType> element_type(int32_t type);

// The name of such a type, for messages.
std::string type_name(int64_t type);

// Returns the file with the data of a tensor whose data lies outside the model. Resolves links. Throws if the file is
// not inside the folder.
std::filesystem::path external_file(const schema::TensorProto& tensor, const std::string& folder);

// Throws if writing `target` would replace the file from which the tensor's data is read.
void keep_external_file(const schema::TensorProto& tensor, const std::string& folder, const std::string& target);
void keep_external_file(const schema::SparseTensorProto& sparse, const std::string& folder, const std::string& target);

// Reads a tensor. External data is read from `folder`, the model's, and never from outside it. Throws Unsupported for
// types that importers do not read. Elements of int4 and uint4 become int8 and uint8.
convert::Array read_tensor(const schema::TensorProto& tensor, const std::string& folder);

// Reads a sparse tensor as a dense one. Calls charge() with the size in bytes before it allocates.
convert::Array read_tensor(const schema::SparseTensorProto& sparse, const std::string& folder,
                           const std::function<void(size_t)>& charge);

}  // namespace quern::onnx
