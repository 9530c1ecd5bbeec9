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

// NULL (which runs on the caller) for one thread.  Fails with QN_OUT_OF_MEMORY.
qn_status make_pool(size_t threads, Pool* pool);

}  // namespace quern
