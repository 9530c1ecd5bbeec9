#include "base/border.h"

#include <stdexcept>

#include "base/memory.h"
#include "base/status.h"

#ifdef QN_TRIMMED
#include <pthread.h>

#include <csetjmp>
#endif

namespace quern {
#ifdef QN_TRIMMED

namespace {

thread_local std::jmp_buf* border = nullptr;
thread_local Lock* innermost = nullptr;

}  // namespace

Lock::Lock(std::mutex& mutex) : mutex_(mutex), outer_(innermost) {
  pthread_mutex_lock(mutex_.native_handle());  // lock() would need exceptions of the C++ library
  innermost = this;
}

Lock::~Lock() {
  innermost = outer_;
  mutex_.unlock();
}

void give_up(qn_status status) {
  if (border == nullptr) __builtin_trap();  // whatever allocates stands behind the border
  std::longjmp(*border, status);
}

void out_of_memory() { give_up(fail(QN_OUT_OF_MEMORY, "out of memory")); }

qn_status beyond_border(qn_status (*body)(void*), void* context) noexcept {
  std::jmp_buf* const outer = border;
  Lock* const held = innermost;
  std::jmp_buf here;
  const int given_up = setjmp(here);
  if (given_up == 0) {
    border = &here;
    const qn_status status = body(context);
    border = outer;
    return status;
  }
  border = outer;
  while (innermost != held) innermost->~Lock();
  MemoryLimit::lift();
  return static_cast<qn_status>(given_up);
}

#else

void give_up(qn_status status) { throw Failure{status}; }

void out_of_memory() { throw std::bad_alloc(); }

qn_status beyond_border(qn_status (*body)(void*), void* context) noexcept {
  try {
    return body(context);
  } catch (const Failure& failure) {
    return failure.status;
  } catch (const std::bad_alloc&) {
    return fail(QN_OUT_OF_MEMORY, "out of memory");
  } catch (const std::length_error&) {
    return fail(QN_OUT_OF_MEMORY, "a size is too large");
  }
}

#endif

qn_status cross_border(qn_status (*body)(void*), void* context) noexcept {
  const EarlierMessage earlier;
  const qn_status status = beyond_border(body, context);
  if (status == QN_OK) earlier.put_back();
  return status;
}

}  // namespace quern

// What the standard library's headers call instead of `throw`; libc++ before 15 calls abort().
#ifdef QN_TRIMMED
#ifdef _LIBCPP_VERSION
#if _LIBCPP_VERSION >= 15000
#ifndef _LIBCPP_VERBOSE_ABORT_NOEXCEPT
#define _LIBCPP_VERBOSE_ABORT_NOEXCEPT
#endif
_LIBCPP_BEGIN_NAMESPACE_STD
void __libcpp_verbose_abort(const char*, ...) _LIBCPP_VERBOSE_ABORT_NOEXCEPT { quern::out_of_memory(); }
_LIBCPP_END_NAMESPACE_STD
#endif
#else
namespace std {
void __throw_bad_alloc() { quern::out_of_memory(); }
void __throw_bad_array_new_length() { quern::out_of_memory(); }
void __throw_length_error(const char*) { quern::out_of_memory(); }
}  // namespace std
#endif
#endif
