// Running tasks on the user's threads.
#pragma once

#include <quern/base.h>

#include <cstddef>

#include "base/border.h"

namespace quern {

// Whether the host says that work is to stop.
inline bool is_cancelled(const qn_parallel* parallel) {
  return parallel != nullptr && parallel->cancelled != nullptr &&
         call_host(parallel->cancelled, parallel->context) != 0;
}
// Returns QN_CANCELLED if the host says so.
qn_status check_cancelled(const qn_parallel* parallel);

// Runs tasks through `parallel`, a const qn_parallel*, in the floating-point mode of the calling thread: rounding,
// denormals, traps. Threads of the host and of a pool may have another mode, and get it back after each task. The
// function is a `run` of qn_parallel whose context is the struct that it wraps.
void run_in_callers_mode(void* parallel, void (*task)(void* arg, size_t index), void* arg, size_t count);

// Calls task(i) for i in 0..count-1 through `parallel`; on this thread and in order when `parallel` is NULL or count is
// 1.
template <class Task>
void run_tasks(const qn_parallel* parallel, size_t count, Task& task) {
  const auto call = [](void* arg, size_t index) { (*static_cast<Task*>(arg))(index); };
  if (parallel == nullptr || parallel->run == nullptr || count <= 1) {
    for (size_t i = 0; i < count; ++i) task(i);
  } else {
    const HostsTurn turn;
    run_in_callers_mode(const_cast<qn_parallel*>(parallel), call, &task, count);
  }
}

}  // namespace quern
