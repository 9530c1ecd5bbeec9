// Text that its object owns, like std::string, in less code: characters in a Vector. Whatever reads text takes a
// std::string_view, which a String becomes by itself.
#pragma once

#include <string_view>

#include "base/vector.h"

namespace quern {

int compare(std::string_view a, std::string_view b);

class String {
 public:
  String() = default;
  String(std::string_view text) { append(text); }
  String(const char* text) : String(std::string_view(text)) {}

  operator std::string_view() const { return {data(), size()}; }
  const char* c_str() const { return empty() ? "" : data(); }
  const char* data() const { return characters_.data(); }
  size_t size() const { return empty() ? 0 : characters_.size() - 1; }
  bool empty() const { return characters_.empty(); }

  // `text` lies elsewhere.
  String& append(std::string_view text);
  String& operator+=(std::string_view text) { return append(text); }
  String& operator+=(char c) { return append({&c, 1}); }

  friend bool operator==(const String& a, const String& b) { return compare(a, b) == 0; }
  friend bool operator==(const String& a, std::string_view b) { return compare(a, b) == 0; }
  friend bool operator==(const String& a, const char* b) { return compare(a, b) == 0; }
  friend bool operator<(const String& a, const String& b) { return compare(a, b) < 0; }

 private:
  Vector<char> characters_;  // and a zero behind, or none at all
};

}  // namespace quern
