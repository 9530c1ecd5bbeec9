// A string that owns its characters, like std::string, in less code: it keeps them in a Vector. Functions that read
// text take a std::string_view, to which a String converts by itself.
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

  // `text` must not be part of this string.
  String& append(std::string_view text);
  String& operator+=(std::string_view text) { return append(text); }
  String& operator+=(char c) { return append({&c, 1}); }

  friend bool operator==(const String& a, const String& b) { return compare(a, b) == 0; }
  friend bool operator==(const String& a, std::string_view b) { return compare(a, b) == 0; }
  friend bool operator==(const String& a, const char* b) { return compare(a, b) == 0; }
  friend bool operator<(const String& a, const String& b) { return compare(a, b) < 0; }

 private:
  Vector<char> characters_;  // with a zero at the end; an empty string has no elements at all
};

}  // namespace quern
