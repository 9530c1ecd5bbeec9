#include "base/parallel.h"

#include <pthreadpool.h>

#include "base/sanitized.h"
#include "base/status.h"

#if QN_SANITIZE_THREAD
#include <sanitizer/tsan_interface.h>
#endif

namespace {

// The packaged pthreadpool is not instrumented, so TSan cannot see that a parallel loop orders its tasks
// after what came before it and before what comes after: say so.
struct Work {
  void (*task)(void*, size_t);
  void* arg;
};

void run_one(Work* work, size_t index) {
#if QN_SANITIZE_THREAD
  __tsan_acquire(work);
#endif
  work->task(work->arg, index);
#if QN_SANITIZE_THREAD
  __tsan_release(work);
#endif
}

void run_on_pthreadpool(void* context, void (*task)(void*, size_t), void* arg, size_t count) {
  Work work = {task, arg};
#if QN_SANITIZE_THREAD
  __tsan_release(&work);
#endif
  pthreadpool_parallelize_1d(static_cast<pthreadpool_t>(context), reinterpret_cast<pthreadpool_task_1d_t>(run_one),
                             &work, count, 0);
#if QN_SANITIZE_THREAD
  __tsan_acquire(&work);
#endif
}

}  // namespace

extern "C" qn_status qn_parallel_from_pthreadpool(struct pthreadpool* pool, qn_parallel* parallel) {
  return quern::guarded([=] {
    if (parallel == nullptr) return quern::fail(QN_INVALID_ARGUMENT, "qn_parallel_from_pthreadpool: parallel is NULL");
    *parallel = {pool, run_on_pthreadpool, pthreadpool_get_threads_count(pool), {}};
    return QN_OK;
  });
}
