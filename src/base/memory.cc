#include "base/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "base/journal.h"
#include "base/status.h"

namespace quern {
namespace {

// Large blocks, packed weights above all, ask for large pages: reading them misses the TLB less.
constexpr size_t large_page = size_t{2} << 20, large_block = 2 * large_page;

void* default_allocate(void*, size_t size, size_t alignment) {
  void* pointer = nullptr;
  const bool large = size >= large_block;
  alignment = std::max(alignment, large ? large_page : sizeof(void*));
  if (posix_memalign(&pointer, alignment, size) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  if (large) madvise(pointer, size, MADV_HUGEPAGE);  // advice: the memory is good either way
#endif
  return pointer;
}

void default_release(void*, void* pointer, size_t) { std::free(pointer); }

constexpr qn_allocator default_allocator = {nullptr, default_allocate, default_release, {}};
qn_allocator current = default_allocator;

constexpr size_t unlimited = SIZE_MAX;
thread_local size_t memory_limit = unlimited, memory_left = unlimited;

}  // namespace

MemoryLimit::MemoryLimit(size_t bytes) { memory_limit = memory_left = bytes; }
void MemoryLimit::lift() { memory_limit = memory_left = unlimited; }

void* allocate(size_t size, size_t alignment) {
  if (size > memory_left) {
    give_up(fail(QN_OUT_OF_MEMORY, "more than the limit of %zu bytes is needed", memory_limit));
  }
  void* const pointer = try_allocate(size, alignment);
  if (pointer == nullptr) out_of_memory();
  if (memory_limit != unlimited) memory_left -= size;
  note(pointer, size, release);
  return pointer;
}

void* try_allocate(size_t size, size_t alignment) {
  return call_host(current.allocate, current.context, size == 0 ? 1 : size, alignment);
}

void untracked_release(void* pointer, size_t size) noexcept {
  current.release(current.context, pointer, size == 0 ? 1 : size);
}

void release(void* pointer, size_t size) noexcept {
  if (pointer == nullptr) return;
  forget(pointer);
  untracked_release(pointer, size);
  memory_left = size > memory_limit - memory_left ? memory_limit : memory_left + size;
}

}  // namespace quern

extern "C" qn_status qn_set_allocator(const qn_allocator* allocator) {
  return quern::guarded([=] {
    const qn_allocator* const wanted = allocator == nullptr ? &quern::default_allocator : allocator;
    if (wanted->allocate == nullptr || wanted->release == nullptr) {
      return quern::fail(QN_INVALID_ARGUMENT, "qn_set_allocator: a function is NULL");
    }
    quern::current = *wanted;
    return QN_OK;
  });
}
