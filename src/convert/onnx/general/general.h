// Imports ONNX operators as nodes of libquern-extra's kinds, which compute with all types and shapes that ONNX allows.
// The importer comes here for what layers.cc, shapes.cc and quantized.cc do not have or cannot express. Each file beside
// this one has a table of some operators, as the file of the same name in src/extra/ has of kinds.
#pragma once

#include <vector>

#include "convert/common/kinds.h"
#include "convert/onnx/node.h"

namespace quern::onnx {

// Makes a node of a kind whose inputs are those of the node. `types`: of the outputs that the kind has.
Values of_kind(const OnnxNode& node, const char* kind, Parameters parameters, const std::vector<ElementType>& types);

// The same, with one output of the type of the first input.
Values same_type(const OnnxNode& node, const char* kind, Parameters parameters);
// A list that was an attribute before opset `since` and is an input from it on, as an input of a kind. An empty view if
// the node does not have it.
Value list_value(const OnnxNode& node, const char* attribute, size_t input, int64_t since);
View list_operand(const OnnxNode& node, const char* attribute, size_t input, int64_t since);

// Imports an operator without attributes as a kind whose output has the type of the first input.
template <Name kind>
Values plain(const OnnxNode& node) {
  return same_type(node, kind.text, {});
}

const OnnxTable& general_elementwise();
const OnnxTable& general_reductions();
const OnnxTable& general_types();
const OnnxTable& general_shapes();
const OnnxTable& general_moving();
const OnnxTable& general_products();
const OnnxTable& general_recurrent();
const OnnxTable& general_normalization();
const OnnxTable& general_attention();
const OnnxTable& general_images();
const OnnxTable& general_detection();
const OnnxTable& general_control();

}  // namespace quern::onnx
