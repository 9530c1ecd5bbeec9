// What importers say about layers that they do not support, and names and numbers of files as our graphs may have them.
#pragma once

#include <cstddef>
#include <string>

namespace quern::convert {

// Thrown for a node that is valid, but that our operators cannot express. Importers collect these exceptions and report
// all of them at once.
struct Unsupported {
  std::string reason;  // "" if the type of the layer is reason enough
};

// Collects the text of a message like "3 layers are not supported: a (LSTM), b (Pooling: stochastic), ...".
class UnsupportedList {
 public:
  void add(const std::string& name, const std::string& type, const std::string& reason);
  void throw_if_any() const;
  const std::string& text() const { return text_; }

 private:
  size_t count_ = 0;
  std::string text_;
};

// Turns a name of a file into one that our graphs may have: UTF-8 without control characters, of at most `limit` bytes.
// Bytes that are not a valid character become '?'.
constexpr size_t name_limit = 1024;
std::string plain_name(const std::string& name, size_t limit = name_limit);

// Returns a number of a file. Throws Error if it is not finite; the message says `where`.
float finite(float value, const std::string& where);

}  // namespace quern::convert
