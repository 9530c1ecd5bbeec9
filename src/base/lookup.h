// A hash table for lists whose elements have numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/vector.h"

namespace quern {

// Finds candidates for equality: indices below `count` that were added with the same hash, in the order in which they
// were added.
class Lookup {
 public:
  explicit Lookup(size_t count) : first_(count | 1, none), last_(count | 1, none), next_(count, none) {}

  template <class Try>  // calls try_one(index) until that returns true; says whether it did
  bool any(size_t hash, Try&& try_one) const {
    for (size_t i = first_[hash % first_.size()]; i != none; i = next_[i]) {
      if (try_one(i)) return true;
    }
    return false;
  }
  void add(size_t hash, size_t index) {
    const size_t bucket = hash % first_.size();
    (first_[bucket] == none ? first_[bucket] : next_[last_[bucket]]) = index;
    last_[bucket] = index;
  }

 private:
  static constexpr size_t none = SIZE_MAX;
  Vector<size_t> first_, last_;  // per bucket
  Vector<size_t> next_;          // per index
};

}  // namespace quern
