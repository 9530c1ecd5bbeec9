// Operators that a model defines itself.
#pragma once

#include "convert/onnx/onnx.pb.h"

namespace quern::onnx {

// Puts the nodes of functions in the place of the nodes that call them, in all graphs of the model, so that only nodes
// of operators are left. Throws if a function calls itself, or if the model would grow far beyond its size.
void inline_functions(schema::ModelProto* model);

}  // namespace quern::onnx
