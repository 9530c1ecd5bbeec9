#include "base/thread_pool.h"

#include <pthread.h>
#include <pthreadpool.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "base/border.h"
#include "base/cpus.h"
#include "base/journal.h"
#include "base/memory.h"
#include "base/needs.h"
#include "base/status.h"

namespace quern {
namespace {

Mutex one_at_a_time;  // lest two pools be promised the same last threads

struct Trial {
  Mutex* gate;
  pthread_t thread;
  long id;
  char pool_needs[256];  // room that the pool takes for each thread once this is freed
};

void* wait_at_gate(void* argument) {
  auto* trial = static_cast<Trial*>(argument);
#ifdef __linux__
  trial->id = syscall(SYS_gettid);
#endif
  trial->gate->lock();
  trial->gate->unlock();
  return nullptr;
}

// A thread that has been joined counts against limits of the system until that knows no such thread.
void await_end([[maybe_unused]] long id) {
#ifdef __linux__
  constexpr int most = 10000;  // the number may be another thread's by now
  for (int i = 0; i < most && syscall(SYS_tkill, id, 0) == 0; ++i) syscall(SYS_sched_yield);
#endif
}

// Starts `count` threads like a pool's, which all live at the same time, and ends them. Returns how many could be
// started, and the system's error.
size_t try_threads(size_t count, int* error) {
  Buffer memory(count * sizeof(Trial));
  auto* const trials = static_cast<Trial*>(memory.data());
  Mutex gate;
  size_t started = 0;
  gate.lock();
  for (; started < count; ++started) {
    Trial& trial = trials[started];
    trial.gate = &gate;
    *error = pthread_create(&trial.thread, nullptr, wait_at_gate, &trial);
    if (*error != 0) break;
  }
  gate.unlock();
  for (size_t i = 0; i < started; ++i) {
    pthread_join(trials[i].thread, nullptr);
    await_end(trials[i].id);
  }
  return started;
}

}  // namespace

void PoolDeleter::operator()(pthreadpool* pool) const {
  forget(pool);
  pthreadpool_destroy(pool);
}

qn_status make_pool(size_t threads, Pool* pool) {
  pool->reset();
  if (threads <= 1) return QN_OK;
  if (threads > max_threads) {
    return fail(QN_INVALID_ARGUMENT, "%zu threads are more than %zu", threads, max_threads);
  }
  threads = std::min(threads, usable_cpus());
  if (threads == 1) return QN_OK;
  // pthreadpool does not look whether its threads could be started, and would wait for them forever.
  const Lock lock(one_at_a_time);
  int error = 0;
  const size_t started = try_threads(threads - 1, &error) + 1;  // with the caller
  if (started < threads) {
    return fail(QN_OUT_OF_MEMORY, "the system lets this process start %zu of %zu threads: %s", started, threads,
                has_messages ? std::strerror(error) : "");
  }
  pool->reset(pthreadpool_create(threads));
  if (*pool == nullptr) return fail(QN_OUT_OF_MEMORY, "out of memory");
  note(pool->get(), 0, [](void* made, size_t) { pthreadpool_destroy(static_cast<pthreadpool*>(made)); });
  return QN_OK;
}

}  // namespace quern
