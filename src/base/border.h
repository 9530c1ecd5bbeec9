// The border of the C API, and how what lies behind it gives up where it cannot return a status: standard containers
// that get no memory, for one. By an exception, except in small builds, which have none: there the border is jumped to,
// what the call had acquired is released (journal.h), and mutexes held by a Lock are free again.
#pragma once

#include <pthread.h>
#include <quern/base.h>

#include <cstddef>
#include <type_traits>

namespace quern {

// A failure whose message is recorded already.
struct Failure {
  qn_status status;
};
[[noreturn]] void give_up(qn_status status);

// Throws std::bad_alloc.
[[noreturn]] void out_of_memory();

// Unlike std::mutex it needs nothing of the C++ runtime. Systems keep nothing for one that is free.
class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

// Holds a mutex as long as it lives, or until its thread gives up.
class Lock {
 public:
  explicit Lock(Mutex& mutex);
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
#ifdef QN_SMALL
  friend class Border;
  Lock* const outer_;
#endif
};

// What body() returns, or the status it gave up with. The thread's message is then that of this failure, or, when all
// went well whatever failed on the way, the one that was there before: every call of the C API that can fail passes
// here.
qn_status beyond_border(qn_status (*body)(void*), void* context) noexcept;
qn_status cross_border(qn_status (*body)(void*), void* context) noexcept;

// A body captures by value, which is a load for each argument, not a store, an address and two loads.
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

// Changes an object that may be older than the call, `block` being its block of memory: what body() acquires stays,
// even if the call gives up later. Where body() gives up itself, it must not have changed the object. (Exceptions leave
// to each owner what it has, so nothing is to be done for them.)
#ifdef QN_SMALL
void publish_changes(const void* block, void (*body)(void*), void* context);
#else
inline void publish_changes(const void*, void (*body)(void*), void* context) { body(context); }
#endif

template <class Body>
void publish(const void* block, Body&& body) {
  publish_changes(
      block, [](void* context) { (*static_cast<std::remove_reference_t<Body>*>(context))(); }, &body);
}

// While one lives, its thread is in the host's code: calls of the C API from there have a border of their own.
class HostsTurn {
#ifdef QN_SMALL
 public:
  HostsTurn();
  ~HostsTurn();
  HostsTurn(const HostsTurn&) = delete;
  HostsTurn& operator=(const HostsTurn&) = delete;

 private:
  class Border* const border_;
#else
 public:
  HostsTurn() {}
#endif
};

}  // namespace quern
