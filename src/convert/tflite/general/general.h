// Imports TensorFlow Lite's operators as nodes of libquern-extra's kinds, which compute with all types and shapes. The
// importer comes here for what layers.cc and shapes.cc do not have or cannot express.
#pragma once

#include "convert/common/kinds.h"
#include "convert/tflite/node.h"

namespace quern::tflite {

// Imports an operator without options that matter as a kind whose output has the type of the first input.
template <Name kind>
Values plain(const TfliteNode& node) {
  return {node.typed(make(node, kind.text, node.all()))};
}

// The only integer that an input holds.
int64_t only_integer_of(const TfliteNode& node, size_t input);

const TfliteTable& general_elementwise();
const TfliteTable& general_reductions();
const TfliteTable& general_moving();
const TfliteTable& general_choosing();
const TfliteTable& general_products();
const TfliteTable& general_recurrent();
const TfliteTable& general_control();
const TfliteTable& general_mediapipe();
const TfliteTable& general_spectra();

}  // namespace quern::tflite
