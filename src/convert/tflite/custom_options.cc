#include "convert/tflite/custom_options.h"

#include <flatbuffers/flexbuffers.h>

namespace quern::tflite {

constexpr int64_t largest_option = 1 << 24;

struct CustomOptions::Map {
  flexbuffers::Map map;
};

CustomOptions::CustomOptions(const TfliteNode& node) : node_(node) {
  const auto* const bytes = node.op.custom_options();
  std::vector<uint8_t> seen;
  if (bytes == nullptr || !flexbuffers::VerifyBuffer(bytes->data(), bytes->size(), &seen)) {
    node.fail("the options are missing or damaged");
  }
  const flexbuffers::Reference root = flexbuffers::GetRoot(bytes->data(), bytes->size());
  if (!root.IsMap()) node.fail("expected a map of options");
  map_ = std::make_unique<Map>(Map{root.AsMap()});
}

CustomOptions::~CustomOptions() = default;

int64_t CustomOptions::integer(const char* name, int64_t least, int64_t otherwise) const {
  const flexbuffers::Reference at = map_->map[name];
  if (!at.IsNull() && !at.IsBool() && !at.IsIntOrUint()) node_.fail(std::string(name) + " must be an integer");
  const int64_t value = at.IsNull() ? otherwise : at.IsBool() ? int64_t{at.AsBool()} : at.AsInt64();
  if (value < least || value > largest_option) node_.fail(std::string(name) + " is out of range");
  return value;
}

float CustomOptions::number(const char* name) const {
  const flexbuffers::Reference at = map_->map[name];
  if (!at.IsNumeric()) node_.fail(std::string(name) + " is missing");
  return node_.finite(at.AsFloat(), name);
}

}  // namespace quern::tflite
