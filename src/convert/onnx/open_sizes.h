// Dimensions of a model's inputs that the file leaves open, and sizes to import the model with.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "convert/onnx/onnx.pb.h"

namespace quern::onnx {

// Sizes that stand for open dimensions, by key_of() of the dimension.
using OpenSizes = std::map<std::string, size_t>;

// Whether the model leaves a dimension open. Some programs write 0 for the size of a batch.
bool is_open(const schema::TensorShapeProto& shape, size_t d);

// Dimensions of one name have one size.
std::string key_of(const schema::ValueInfoProto& input, int dimension);

// Assignments of sizes to the open dimensions, those first that change the least; one without sizes if there are none.
std::vector<OpenSizes> example_sizes(const schema::GraphProto& graph);

}  // namespace quern::onnx
