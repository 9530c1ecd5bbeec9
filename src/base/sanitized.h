// Which sanitizers this is compiled with: GCC says it with macros, clang with features.
#pragma once

#if defined(__has_feature)
#define QN_HAS_FEATURE(name) __has_feature(name)
#else
#define QN_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || QN_HAS_FEATURE(address_sanitizer)
#define QN_SANITIZE_ADDRESS 1
#else
#define QN_SANITIZE_ADDRESS 0
#endif

#if defined(__SANITIZE_THREAD__) || QN_HAS_FEATURE(thread_sanitizer)
#define QN_SANITIZE_THREAD 1
#else
#define QN_SANITIZE_THREAD 0
#endif

namespace quern {
// Either of them has an allocator of its own, reserves more addresses than any limit leaves, and opens files.
constexpr bool sanitized = QN_SANITIZE_ADDRESS || QN_SANITIZE_THREAD;
}  // namespace quern
