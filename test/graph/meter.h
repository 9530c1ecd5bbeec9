// Measures the library's memory: an allocator that counts.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>

namespace quern::test {

// Remembers the most that was in use.
struct Meter {
  std::atomic<size_t> now{0}, most{0};

  static void* allocate(void* context, size_t size, size_t alignment) {
    auto* self = static_cast<Meter*>(context);
    void* pointer = nullptr;
    if (posix_memalign(&pointer, std::max(alignment, sizeof(void*)), size) != 0) return nullptr;
    const size_t total = self->now.fetch_add(size) + size;
    if (total > self->most) self->most = total;
    return pointer;
  }
  static void release(void* context, void* pointer, size_t size) {
    static_cast<Meter*>(context)->now -= size;
    std::free(pointer);
  }
};

}  // namespace quern::test
