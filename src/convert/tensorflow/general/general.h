// Imports TensorFlow's operators as nodes of libquern-extra's kinds, which compute with all types and shapes. The importer
// comes here for what layers.cc and shapes.cc do not have or cannot express.
#pragma once

#include "convert/common/kinds.h"
#include "convert/tensorflow/node.h"

namespace quern::tensorflow {

Values all_inputs(const TfNode& node);

// Imports an operator as a kind whose output has the type of the first input.
template <Name kind>
Values plain(const TfNode& node) {
  return {make(node, kind.text, all_inputs(node))};
}

// Gives lists of tensors into which nothing has been stored yet the shape of what the function stores there. It is
// imported for this alone: nodes on which no shape depends vanish.
void shape_lists(const TfNode& node, Values* values, const std::string& function);

const TfTable& general_elementwise();
const TfTable& general_along();
const TfTable& general_choosing();
const TfTable& general_moving();
const TfTable& general_products();
const TfTable& general_control();
const TfTable& general_lists();
const TfTable& general_detection();
const TfTable& general_spectra();

}  // namespace quern::tensorflow
