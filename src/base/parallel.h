// Running tasks on the user's threads.
#pragma once

#include <quern/base.h>

#include <cstddef>

#include "base/border.h"

namespace quern {

// Calls task(i) for i in 0..count-1 through `parallel`; on this thread and in order when `parallel` is NULL or count is
// 1.
template <class Task>
void run_tasks(const qn_parallel* parallel, size_t count, Task& task) {
  const auto call = [](void* arg, size_t index) { (*static_cast<Task*>(arg))(index); };
  if (parallel == nullptr || parallel->run == nullptr || count <= 1) {
    for (size_t i = 0; i < count; ++i) task(i);
  } else {
    const HostsTurn turn;
    call_host(parallel->run, parallel->context, +call, static_cast<void*>(&task), count);
  }
}

}  // namespace quern
