// ONNX's operators on sequences of tensors. Our graphs have no sequences: a sequence whose length is known at import is a
// list of values, as shapes are lists of integers.
#pragma once

#include <string>

#include "convert/onnx/node.h"

namespace quern::onnx {

struct SequenceResult {
  Values values;  // of the sequence, or the one tensor
  bool is_sequence;
};

bool is_about_sequences(const std::string& op_type);
// `sequence` is that of the first input, which the node then does not have; null if the first input is a tensor.
SequenceResult import_sequence(const OnnxNode& node, const Values* sequence);

}  // namespace quern::onnx
