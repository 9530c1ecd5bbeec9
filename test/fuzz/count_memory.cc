#include "count_memory.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/sanitized.h"

#if QN_SANITIZE_ADDRESS || QN_SANITIZE_THREAD
// GCC has these in its sanitizers' libraries, but ships no header that declares them.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*taken)(const volatile void*, size_t),
                                              void (*given_back)(const volatile void*));
size_t __sanitizer_get_allocated_size(const volatile void* pointer);
}
#endif

namespace quern {
namespace {

// What was taken before the counting began and is given back later makes `in_use` negative.
std::atomic<int64_t> in_use{0}, ceiling{INT64_MAX};
std::atomic<size_t> largest{SIZE_MAX};
std::atomic<void (*)()> alarm_function{nullptr};

void taken(size_t size) {
  const auto more = static_cast<int64_t>(size);
  if (in_use.fetch_add(more) + more <= ceiling.load()) return;
  if (auto* function = alarm_function.exchange(nullptr)) function();
}

void given_back(size_t size) { in_use.fetch_sub(static_cast<int64_t>(size)); }

[[maybe_unused]] void asked_for(size_t size) {
  if (size <= largest.load()) return;
  if (auto* function = alarm_function.exchange(nullptr)) function();
}

}  // namespace

#if QN_SANITIZE_ADDRESS || QN_SANITIZE_THREAD

// The sanitizer calls these for every successful request; a request that it finds too large ends the process.
void watch_memory(size_t limit, void (*exceeded)()) {
  [[maybe_unused]] static const int installed =
      __sanitizer_install_malloc_and_free_hooks([](const volatile void*, size_t size) { taken(size); },
                                                [](const volatile void* pointer) {
                                                  if (pointer != nullptr)
                                                    given_back(__sanitizer_get_allocated_size(pointer));
                                                });
  alarm_function = nullptr;
  ceiling = in_use.load() + static_cast<int64_t>(limit);
  largest = limit;
  alarm_function = exceeded;
}

#else

void watch_memory(size_t limit, void (*exceeded)()) {
  alarm_function = nullptr;
  ceiling = in_use.load() + static_cast<int64_t>(limit);
  largest = limit;
  alarm_function = exceeded;
}

#endif

}  // namespace quern

#if !QN_SANITIZE_ADDRESS && !QN_SANITIZE_THREAD

// The C library's allocator under the names that everybody calls, counted.
extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* pointer, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* pointer);

static void* counted(void* pointer) {
  if (pointer != nullptr) quern::taken(malloc_usable_size(pointer));
  return pointer;
}

void* malloc(size_t size) {
  quern::asked_for(size);
  return counted(__libc_malloc(size));
}

void* calloc(size_t count, size_t size) {
  size_t total;
  if (!__builtin_mul_overflow(count, size, &total)) quern::asked_for(total);
  return counted(__libc_calloc(count, size));
}

void* realloc(void* pointer, size_t size) {
  quern::asked_for(size);
  if (pointer != nullptr) quern::given_back(malloc_usable_size(pointer));
  void* moved = __libc_realloc(pointer, size);
  // A failed request leaves the old block in place.
  counted(moved != nullptr || size == 0 ? moved : pointer);
  return moved;
}

void* memalign(size_t alignment, size_t size) {
  quern::asked_for(size);
  return counted(__libc_memalign(alignment, size));
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** pointer, size_t alignment, size_t size) {
  void* block = memalign(alignment, size);
  if (block == nullptr) return ENOMEM;
  *pointer = block;
  return 0;
}

void free(void* pointer) {
  if (pointer != nullptr) quern::given_back(malloc_usable_size(pointer));
  __libc_free(pointer);
}

}  // extern "C"

#endif
