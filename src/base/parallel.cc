#include "base/parallel.h"

#include <pthreadpool.h>

#include <cstdint>

#include "base/sanitized.h"
#include "base/status.h"

#if QN_SANITIZE_THREAD
#include <sanitizer/tsan_interface.h>
#endif

namespace {

// The register that controls floating-point arithmetic, and its bits that do. The others say what has happened so far.
#if defined(__x86_64__)
using Mode = uint32_t;  // MXCSR
constexpr Mode control_bits = 0xffc0;
Mode get_mode() { return __builtin_ia32_stmxcsr(); }
void set_mode(Mode mode) { __builtin_ia32_ldmxcsr(mode); }
#elif defined(__aarch64__)
using Mode = uint64_t;  // FPCR
constexpr Mode control_bits = ~Mode{0};
Mode get_mode() {
  Mode mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void set_mode(Mode mode) { asm volatile("msr fpcr, %0" ::"r"(mode) : "memory"); }
#elif defined(__arm__)
using Mode = uint32_t;  // FPSCR
constexpr Mode control_bits = 0x07f79f00;
Mode get_mode() {
  Mode mode;
  asm volatile("vmrs %0, fpscr" : "=r"(mode));
  return mode;
}
void set_mode(Mode mode) { asm volatile("vmsr fpscr, %0" ::"r"(mode) : "memory"); }
#endif

struct ModeTasks {
  void (*task)(void*, size_t);
  void* arg;
  Mode mode;
};

void run_in_mode(void* context, size_t index) {
  const ModeTasks& tasks = *static_cast<const ModeTasks*>(context);
  const Mode own = get_mode();
  const bool same = ((own ^ tasks.mode) & control_bits) == 0;
  if (!same) set_mode(tasks.mode);
  tasks.task(tasks.arg, index);
  if (!same) set_mode(own);
}

}  // namespace

void quern::run_in_callers_mode(void* parallel, void (*task)(void*, size_t), void* arg, size_t count) {
  const auto& host = *static_cast<const qn_parallel*>(parallel);
  ModeTasks tasks = {task, arg, get_mode()};
  call_host(host.run, host.context, run_in_mode, static_cast<void*>(&tasks), count);
}

namespace {

#if QN_SANITIZE_THREAD
// The packaged pthreadpool is not instrumented, so TSan cannot see that a parallel loop orders its tasks
// after what came before it and before what comes after: say so.
struct Work {
  void (*task)(void*, size_t);
  void* arg;
};

void run_one(void* of, size_t index) {
  const Work& work = *static_cast<const Work*>(of);
  __tsan_acquire(of);
  work.task(work.arg, index);
  __tsan_release(of);
}

void run_on_pthreadpool(void* context, void (*task)(void*, size_t), void* arg, size_t count) {
  Work work = {task, arg};
  __tsan_release(&work);
  pthreadpool_parallelize_1d(static_cast<pthreadpool_t>(context), run_one, &work, count, 0);
  __tsan_acquire(&work);
}
#else
void run_on_pthreadpool(void* context, void (*task)(void*, size_t), void* arg, size_t count) {
  pthreadpool_parallelize_1d(static_cast<pthreadpool_t>(context), task, arg, count, 0);
}
#endif

}  // namespace

qn_status quern::check_cancelled(const qn_parallel* parallel) {
  return is_cancelled(parallel) ? fail(QN_CANCELLED, "cancelled") : QN_OK;
}

extern "C" qn_status qn_parallel_from_pthreadpool(struct pthreadpool* pool, qn_parallel* parallel) {
  return quern::guarded([=] {
    if (parallel == nullptr) return quern::fail(QN_INVALID_ARGUMENT, "qn_parallel_from_pthreadpool: parallel is NULL");
    *parallel = {pool, run_on_pthreadpool, pthreadpool_get_threads_count(pool), {}, {}};
    return QN_OK;
  });
}
