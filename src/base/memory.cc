#include "base/memory.h"

#include <cstdlib>

#include "base/status.h"

namespace quern {
namespace {

void* default_allocate(void*, size_t size, size_t alignment) {
  void* pointer = nullptr;
  return posix_memalign(&pointer, alignment < sizeof(void*) ? sizeof(void*) : alignment, size) == 0 ? pointer : nullptr;
}

void default_release(void*, void* pointer, size_t) { std::free(pointer); }

constexpr qn_allocator default_allocator = {nullptr, default_allocate, default_release};
qn_allocator current = default_allocator;

constexpr size_t unlimited = SIZE_MAX;
thread_local size_t memory_limit = unlimited, memory_left = unlimited;

}  // namespace

MemoryLimit::MemoryLimit(size_t bytes) { memory_limit = memory_left = bytes; }
MemoryLimit::~MemoryLimit() { memory_limit = memory_left = unlimited; }

void* allocate(size_t size, size_t alignment) {
  if (size > memory_left) throw MemoryLimit::Exceeded(memory_limit);
  void* pointer = current.allocate(current.context, size == 0 ? 1 : size, alignment);
  if (pointer == nullptr) throw std::bad_alloc();
  if (memory_limit != unlimited) memory_left -= size;
  return pointer;
}

void release(void* pointer, size_t size) noexcept {
  if (pointer == nullptr) return;
  current.release(current.context, pointer, size == 0 ? 1 : size);
  memory_left = size > memory_limit - memory_left ? memory_limit : memory_left + size;
}

}  // namespace quern

extern "C" qn_status qn_set_allocator(const qn_allocator* allocator) {
  if (allocator == nullptr) {
    quern::current = quern::default_allocator;
    return QN_OK;
  }
  if (allocator->allocate == nullptr || allocator->release == nullptr) {
    return quern::fail(QN_INVALID_ARGUMENT, "qn_set_allocator: a function is NULL");
  }
  quern::current = *allocator;
  return QN_OK;
}
