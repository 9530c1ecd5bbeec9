// A pthreadpool the library owns.
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

// NULL (which runs on the caller) for one thread. QN_OUT_OF_MEMORY where the system starts no more threads, which is
// tried before: only if another process, or another part of this one, takes the last ones in that moment, pthreadpool
// will still wait for threads that never come.
qn_status make_pool(size_t threads, Pool* pool);

}  // namespace quern
