// The border of the C API. Code behind it returns a qn_status where it can. Where it cannot (a standard container that
// gets no memory, for one) it gives up: it throws an exception. Small builds have no exceptions; there it jumps to the
// border, which releases everything that the call has acquired (journal.h) and every mutex that a Lock holds.
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

// A mutex that, unlike std::mutex, needs nothing of the C++ runtime. It has no destructor, because systems keep nothing
// for a mutex that is free.
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

// Both run body() and return its status, or the status that it gave up with. Every call of the C API that can fail goes
// through cross_border(), which also puts back the thread's earlier message when body() succeeds: failures that body()
// has dealt with leave no message. After a failure the thread's message is that of this failure.
qn_status beyond_border(qn_status (*body)(void*), void* context) noexcept;
qn_status cross_border(qn_status (*body)(void*), void* context) noexcept;

// For bodies that are lambdas. A lambda captures by value: that costs one load for each argument, where a capture by
// reference costs a store, an address and two loads.
template <class Body>
qn_status guarded(Body&& body) noexcept {
  return cross_border([](void* context) { return (*static_cast<std::remove_reference_t<Body>*>(context))(); }, &body);
}

// Calls a function of the host. If it throws, the process ends here: no exception of the host passes through the
// library, and builds without exceptions could not pass it on.
template <class Function, class... Arguments>
auto call_host(Function* function, Arguments... arguments) noexcept {
  return function(arguments...);
}

// Runs body(), which changes an object that may be older than the call; `block` is the object's block of memory. The
// object keeps what body() acquires, even if the call gives up later. If body() itself gives up, it must not have
// changed the object yet. (Builds with exceptions need no such care: an exception takes nothing from an owner.)
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

// While such an object lives, its thread runs the host's code; calls of the C API from there get a border of their own.
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
