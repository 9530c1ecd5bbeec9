#include "base/thread_pool.h"

#include <pthreadpool.h>

#include "base/status.h"

namespace quern {

void PoolDeleter::operator()(pthreadpool* pool) const { pthreadpool_destroy(pool); }

qn_status make_pool(size_t threads, Pool* pool) {
  pool->reset(threads > 1 ? pthreadpool_create(threads) : nullptr);
  if (threads > 1 && *pool == nullptr) return fail(QN_OUT_OF_MEMORY, "no thread pool of %zu threads", threads);
  return QN_OK;
}

}  // namespace quern
