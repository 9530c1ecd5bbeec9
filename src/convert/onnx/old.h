// Operators of opsets 1 to 6 whose form changed with opset 7.
#pragma once

#include <deque>
#include <vector>

#include "convert/onnx/node.h"

namespace quern::onnx {

constexpr int64_t first_modern_opset = 7;

// A node as opset 7 has it.
struct Modern {
  schema::NodeProto proto;
  std::vector<const Value*> inputs;
  std::deque<Value> made;  // inputs that the old node does not have, or has in another shape
};
// `node` is of an older opset.
Modern modernized(const OnnxNode& node);

}  // namespace quern::onnx
