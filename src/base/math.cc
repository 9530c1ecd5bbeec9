#include "base/math.h"

#include <cstring>

namespace quern {

void heap_sort_bytes(void* elements, size_t count, size_t size, bool (*less)(const void*, const void*, void*),
                     void* context) {
  const auto at = [&](size_t i) { return static_cast<char*>(elements) + i * size; };
  const auto swap = [&](size_t i, size_t j) {
    char kept[16];
    std::memcpy(kept, at(i), size);
    std::memcpy(at(i), at(j), size);
    std::memcpy(at(j), kept, size);
  };
  // First each parent, from the last one on, sinks to where no child is greater; then the greatest goes to the end.
  size_t parent = count / 2, end = count;
  while (end > 1) {
    if (parent > 0) {
      --parent;
    } else {
      swap(0, --end);
    }
    for (size_t i = parent, child; (child = 2 * i + 1) < end; i = child) {
      if (child + 1 < end && less(at(child), at(child + 1), context)) ++child;
      if (!less(at(i), at(child), context)) break;
      swap(i, child);
    }
  }
}

}  // namespace quern
