// Reads constants of TensorFlow's graphs.
#pragma once

#include <optional>
#include <string>

#include "convert/common/values.h"
#include "convert/tensorflow/graph.pb.h"

namespace quern::tensorflow {

// Translates a type of the file. Returns nothing for types that importers do not read.
std::optional<convert::ElementType> element_type(schema::DataType type);

// Reads the constant of node `name`. Throws Unsupported if its type is not read. What is read is charged to `builder`.
convert::Array read_tensor(convert::Builder& builder, const schema::TensorProto& tensor, const std::string& name);

}  // namespace quern::tensorflow
