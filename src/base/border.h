// The border of the C API, and how what lies behind it gives up where it cannot return a status: standard containers
// that get no memory, for one. By an exception, except in trimmed builds, which have none: there the border is jumped
// to, what the call had allocated is lost, and mutexes held by a Lock are free again.
#pragma once

#include <quern/base.h>

#include <cstddef>
#include <mutex>

namespace quern {

// A failure whose message is recorded already.
struct Failure {
  qn_status status;
};
[[noreturn]] void give_up(qn_status status);

// Throws std::bad_alloc.
[[noreturn]] void out_of_memory();

// Holds a mutex as long as it lives, or until its thread gives up.
#ifdef QN_TRIMMED
class Lock {
 public:
  explicit Lock(std::mutex& mutex);
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  friend qn_status beyond_border(qn_status (*body)(void*), void* context) noexcept;
  std::mutex& mutex_;
  Lock* const outer_;
};
#else
using Lock = std::lock_guard<std::mutex>;
#endif

// What body() returns, or the status it gave up with. The thread's message is then that of this failure, or, when all
// went well whatever failed on the way, the one that was there before: every call of the C API that can fail passes
// here.
qn_status beyond_border(qn_status (*body)(void*), void* context) noexcept;
qn_status cross_border(qn_status (*body)(void*), void* context) noexcept;

template <class Body>
qn_status guarded(Body&& body) noexcept {
  return cross_border([](void* context) { return (*static_cast<std::remove_reference_t<Body>*>(context))(); }, &body);
}

// Calls a function of the host. An exception that it lets out ends the process here: none passes through the library,
// and builds without exceptions could not pass it on.
template <class Function, class... Arguments>
auto call_host(Function* function, Arguments... arguments) noexcept {
  return function(arguments...);
}

}  // namespace quern
