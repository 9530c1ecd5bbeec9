// Operators of com.microsoft that are not of quantized numbers alone: what ONNX Runtime's optimizer and its tools for
// transformers write.
#pragma once

#include "convert/onnx/node.h"

namespace quern::onnx {

// The name by which the graph that an operator becomes (OnnxNode::expand) reads the operator's input.
std::string input_of_expanded(size_t input);

// Finds the function that imports an operator by importing standard operators in its place. Returns null if there is none.
const OnnxRow* find_contrib(const std::string& op_type);

}  // namespace quern::onnx
