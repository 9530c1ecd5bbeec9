#include "convert/tensorflow/general/general.h"

namespace quern::tensorflow {

Values all_inputs(const TfNode& node) {
  Values values;
  for (size_t i = 0; i < node.input_count(); ++i) values.push_back(node.value(i));
  return values;
}

const TfRow* find_general(const std::string& op) {
  for (const TfTable* table :
       {&general_elementwise(), &general_along(), &general_choosing(), &general_moving(), &general_products(),
        &general_control(), &general_lists(), &general_detection(), &general_spectra()}) {
    if (const TfRow* row = find_in(*table, op)) return row;
  }
  return nullptr;
}

}  // namespace quern::tensorflow
