// A pthreadpool that the library owns.
#pragma once

#include <quern/base.h>

#include <cstddef>
#include <memory>

struct pthreadpool;

namespace quern {

struct PoolDeleter {
  void operator()(pthreadpool* pool) const;
};
using Pool = std::unique_ptr<pthreadpool, PoolDeleter>;

constexpr size_t max_threads = 1024;

// Makes a pool of so many threads, or of as many as the process may use CPUs (usable_cpus()): pthreadpool's threads look
// for work for some time before they sleep, so more would keep others from their work. For one thread the pool is NULL,
// and work runs on the caller. Returns QN_OUT_OF_MEMORY if the system
// cannot start so many threads: make_pool() starts and ends as many once, because pthreadpool would wait forever for
// threads that never come. It still would if another process, or another part of this one, took the last threads
// between this trial and the pool's start.
qn_status make_pool(size_t threads, Pool* pool);

}  // namespace quern
