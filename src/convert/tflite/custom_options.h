// The options of a custom operator: a map of numbers.
#pragma once

#include <memory>

#include "convert/tflite/node.h"

namespace quern::tflite {

class CustomOptions {
 public:
  explicit CustomOptions(const TfliteNode& node);
  ~CustomOptions();

  // A number from `least` on; `otherwise` if the map does not have it.
  int64_t integer(const char* name, int64_t least, int64_t otherwise) const;
  float number(const char* name) const;

 private:
  struct Map;
  const TfliteNode& node_;
  std::unique_ptr<Map> map_;
};

}  // namespace quern::tflite
