#include "convert/tflite/general/general.h"

namespace quern::tflite {

int64_t only_integer_of(const TfliteNode& node, size_t input) {
  const std::vector<int64_t>& values = node.integers(input).values;
  if (values.size() != 1) node.fail("input " + std::to_string(input) + " is not one number");
  return values[0];
}

const TfliteRow* find_general(const std::string& type) {
  for (const TfliteTable* table :
       {&general_elementwise(), &general_reductions(), &general_moving(), &general_choosing(), &general_products(),
        &general_recurrent(), &general_control(), &general_mediapipe(), &general_spectra()}) {
    if (const TfliteRow* row = find_in(*table, type)) return row;
  }
  return nullptr;
}

}  // namespace quern::tflite
