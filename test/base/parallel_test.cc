// Tasks on the user's threads, and the adapter for pthreadpool.
#include "base/parallel.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "base/math.h"
#include "base/sanitized.h"
#include "base/thread_pool.h"
#include "pretended.h"

namespace quern {
namespace parallel_test {

TEST(RunTasks, InOrderOnTheCallerWithoutThreads) {
  std::vector<size_t> order;
  const auto caller = std::this_thread::get_id();
  auto task = [&](size_t i) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(i);
  };
  run_tasks(nullptr, 4, task);
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3}));
  run_tasks(nullptr, 0, task);
  EXPECT_EQ(order.size(), 4u);
}

// A host that runs tasks backwards, on the caller.
TEST(RunTasks, ThroughTheHost) {
  struct Host {
    size_t calls = 0, tasks = 0;
  } host;
  const qn_parallel parallel = {&host,
                                [](void* context, void (*task)(void*, size_t), void* arg, size_t count) {
                                  auto* self = static_cast<Host*>(context);
                                  ++self->calls;
                                  self->tasks += count;
                                  for (size_t i = count; i-- > 0;) task(arg, i);
                                },
                                0,
                                {},
                                {}};
  std::vector<size_t> order;
  auto task = [&](size_t i) { order.push_back(i); };
  run_tasks(&parallel, 3, task);
  EXPECT_EQ(order, (std::vector<size_t>{2, 1, 0}));
  run_tasks(&parallel, 1, task);  // one task needs no host
  EXPECT_EQ(order.back(), 0u);
  EXPECT_EQ(host.calls, 1u);
  EXPECT_EQ(host.tasks, 3u);
}

TEST(ThreadPool, OneThreadNeedsNoPool) {
  Pool pool;
  ASSERT_EQ(make_pool(1, &pool), QN_OK);
  EXPECT_EQ(pool, nullptr);
}

TEST(ThreadPool, HasNoMoreThreadsThanCpus) {
  for (const char* cpus : {"1", "2", "5"}) {
    const Pretended machine({{"QUERN_CPUS", cpus}});
    Pool pool;
    ASSERT_EQ(make_pool(4, &pool), QN_OK);
    qn_parallel parallel;
    ASSERT_EQ(qn_parallel_from_pthreadpool(pool.get(), &parallel), QN_OK);
    EXPECT_EQ(parallel.threads, std::min<size_t>(std::strtoul(cpus, nullptr, 10), 4));
  }
}

TEST(ThreadPool, EveryTaskRunsOnce) {
  const Pretended machine({{"QUERN_CPUS", "4"}});
  for (const size_t threads : {1, 2, 4}) {
    Pool pool;
    ASSERT_EQ(make_pool(threads, &pool), QN_OK);
    qn_parallel parallel;
    ASSERT_EQ(qn_parallel_from_pthreadpool(pool.get(), &parallel), QN_OK);
    EXPECT_EQ(parallel.threads, threads);
    for (const size_t count : {0, 1, 2, 3, 1000}) {
      std::vector<std::atomic<int>> runs(count);
      auto task = [&](size_t i) { ++runs[i]; };
      run_tasks(&parallel, count, task);
      for (const auto& n : runs) EXPECT_EQ(n, 1);
    }
  }
}

TEST(ThreadPool, WhatTasksWroteIsSeenAfterwards) {
  const Pretended machine({{"QUERN_CPUS", "4"}});
  Pool pool;
  ASSERT_EQ(make_pool(4, &pool), QN_OK);
  qn_parallel parallel;
  ASSERT_EQ(qn_parallel_from_pthreadpool(pool.get(), &parallel), QN_OK);
  std::vector<size_t> squares(500);  // not atomic: the loop itself must order the writes
  for (size_t round = 0; round < 20; ++round) {
    auto task = [&](size_t i) { squares[i] = i * i + round; };
    run_tasks(&parallel, squares.size(), task);
    for (size_t i = 0; i < squares.size(); ++i) ASSERT_EQ(squares[i], i * i + round);
  }
}

constexpr int unlimited = 77;

// Lets this process map so many bytes more. False where that is not obeyed.
bool limit_addresses(size_t left) {
  size_t pages = 0;
  FILE* statm = std::fopen("/proc/self/statm", "r");
  const bool read = statm != nullptr && std::fscanf(statm, "%zu", &pages) == 1;
  if (statm != nullptr) std::fclose(statm);
  const rlim_t most = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) + left;
  const rlimit limit = {most, most};
  return read && setrlimit(RLIMIT_AS, &limit) == 0 &&
         mmap(nullptr, 2 * left, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

// Runs `body` in a process of its own; the number that it returns, or -1 if it has not come back after a while.
template <class Body>
int run_apart(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int state = 0; child > 0;) {
    if (waitpid(child, &state, WNOHANG) == child) return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    if (std::chrono::steady_clock::now() > end) {
      kill(child, SIGKILL);
      waitpid(child, &state, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return -1;
}

TEST(ThreadPool, ThreadsThatCannotBeStartedAreAStatus) {
  if (sanitized) GTEST_SKIP() << "a sanitizer needs all addresses";
  const Pretended machine({{"QUERN_CPUS", "1024"}});
  const int result = run_apart([] {
    if (!limit_addresses(size_t{64} << 20)) return unlimited;
    Pool pool;
    if (make_pool(max_threads, &pool) != QN_OUT_OF_MEMORY || pool != nullptr) return 1;
    if (std::strstr(qn_last_message(), "of 1024 threads: ") == nullptr) return 2;
    if (make_pool(2, &pool) != QN_OK || pool == nullptr) return 3;  // nothing was lost
    qn_parallel parallel;
    std::atomic<int> runs{0};
    auto task = [&](size_t) { ++runs; };
    if (qn_parallel_from_pthreadpool(pool.get(), &parallel) != QN_OK) return 4;
    run_tasks(&parallel, 10, task);
    return runs == 10 ? 0 : 5;
  });
  if (result == unlimited) GTEST_SKIP() << "no limit of addresses here";
  EXPECT_EQ(result, 0);
}

// Also where it is the last thread that fails: three stacks, usually of 8 MiB.
TEST(ThreadPool, IsMadeOrRefusedAtEveryLimit) {
  if (sanitized) GTEST_SKIP() << "a sanitizer needs all addresses";
  const Pretended machine({{"QUERN_CPUS", "4"}});
  for (size_t left = size_t{20} << 20; left < size_t{32} << 20; left += size_t{96} << 10) {
    const int result = run_apart([&] {
      if (!limit_addresses(left)) return unlimited;
      Pool pool;
      const qn_status status = make_pool(4, &pool);
      return status == QN_OK || status == QN_OUT_OF_MEMORY ? 0 : 1;
    });
    if (result == unlimited) GTEST_SKIP() << "no limit of addresses here";
    ASSERT_EQ(result, 0) << left << " bytes";
  }
}

TEST(ThreadPool, AbsurdNumbersAreRefused) {
  for (const size_t threads : {max_threads + 1, SIZE_MAX / 2, SIZE_MAX - 1, SIZE_MAX}) {
    Pool pool;
    EXPECT_EQ(make_pool(threads, &pool), QN_INVALID_ARGUMENT);
    EXPECT_EQ(pool, nullptr);
  }
}

TEST(ThreadPool, AdapterNeedsSomewhereToWrite) {
  EXPECT_EQ(qn_parallel_from_pthreadpool(nullptr, nullptr), QN_INVALID_ARGUMENT);
}

TEST(Math, CheckedArithmetic) {
  size_t result = 0;
  EXPECT_TRUE(checked_mul<size_t>(3, 4, &result));
  EXPECT_EQ(result, 12u);
  EXPECT_FALSE(checked_mul<size_t>(SIZE_MAX / 2, 3, &result));
  EXPECT_TRUE(checked_add<size_t>(SIZE_MAX - 1, 1, &result));
  EXPECT_FALSE(checked_add<size_t>(SIZE_MAX, 1, &result));
  EXPECT_EQ(divide_up(7, 4), 2);
  EXPECT_EQ(divide_up(8, 4), 2);
  EXPECT_EQ(round_up(9, 8), 16);
}

}  // namespace parallel_test
}  // namespace quern
