#include "base/string.h"

namespace quern {

String& String::append(std::string_view text) {
  if (text.empty()) return *this;
  const size_t old = size();
  characters_.reserve(old + text.size() + 1);  // as nothing is to happen where there is no memory
  characters_.resize(old);
  characters_.insert(characters_.end(), text.begin(), text.end());
  characters_.push_back(0);
  return *this;
}

int compare(std::string_view a, std::string_view b) { return a.compare(b); }

}  // namespace quern
