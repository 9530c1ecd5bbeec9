// Each importer has tables that say which function imports which operator.
#pragma once

#include <map>
#include <string>

#include "convert/common/values.h"

namespace quern::convert {

// The function that imports operators of one name, and how many inputs such operators have.
template <class Node>
struct ImportRow {
  Values (*import)(const Node&);
  size_t min_inputs, max_inputs;
};
template <class Node>
using ImportTable = std::map<std::string, ImportRow<Node>>;
constexpr size_t many_inputs = 256;

// Returns the value of a key; null if the map does not have the key.
template <class Map>
const typename Map::mapped_type* find_in(const Map& map, const typename Map::key_type& key) {
  const auto at = map.find(key);
  return at == map.end() ? nullptr : &at->second;
}

}  // namespace quern::convert
