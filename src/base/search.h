// Searches through lists from front to end, as those of <algorithm>. The standard library writes the loop of each
// search out four times and more, which small builds have no room for.
#pragma once

#include <cstddef>
#include <iterator>

namespace quern {

// The place of the first element that meets the condition; the size of the list if none does.
template <class List, class Condition>
constexpr size_t place_of(const List& list, Condition meets) {
  size_t place = 0;
  for (const auto& x : list) {
    if (meets(x)) break;
    ++place;
  }
  return place;
}

template <class List, class Condition>
constexpr bool any_of(const List& list, Condition meets) {
  return place_of(list, meets) < std::size(list);
}

template <class List, class Condition>
constexpr bool all_of(const List& list, Condition meets) {
  return !any_of(list, [&](const auto& x) { return !meets(x); });
}

template <class List, class Value>
constexpr bool contains(const List& list, const Value& value) {
  return any_of(list, [&](const auto& x) { return x == value; });
}

}  // namespace quern
