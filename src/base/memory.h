// The library gets all its memory here, and so from the user's allocator.
#pragma once

#include <quern/base.h>

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "base/border.h"

namespace quern {

constexpr size_t cache_line = 64;

// Gives up (border.h) when there is no memory: throws std::bad_alloc, or Failure when a MemoryLimit is exceeded. `size`
// may be 0.
void* allocate(size_t size, size_t alignment = cache_line);
void release(void* pointer, size_t size) noexcept;  // `pointer` may be NULL
// For the journal's own memory (journal.h), which the journal does not note. NULL when there is no memory.
void* try_allocate(size_t size, size_t alignment);
void untracked_release(void* pointer, size_t size) noexcept;

// While a MemoryLimit lives, its thread may hold at most `bytes` more than at the beginning; beyond that allocate()
// gives up. For content that nobody has vouched for. A thread has one limit at a time.
class MemoryLimit {
 public:
  explicit MemoryLimit(size_t bytes);
  ~MemoryLimit() { lift(); }
  static void lift();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
};

// Base of classes whose objects `new` is to make by the same allocator.
struct Allocated {
  static void* operator new(size_t size) { return quern::allocate(size); }
  static void operator delete(void* pointer, size_t size) { quern::release(pointer, size); }
};

// A block of bytes aligned to a cache line; uninitialised.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size) : data_(quern::allocate(size)), size_(size) {}
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() { quern::release(data_, size_); }
  void* data() const { return data_; }
  size_t size() const { return size_; }
  // From now on somebody else owns the bytes and releases them.
  void forget() { data_ = nullptr; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace quern
