// Tasks on the user's threads, and the adapter for pthreadpool.
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/math.h"
#include "base/thread_pool.h"

namespace quern {
namespace {

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
  const qn_parallel parallel = {&host, [](void* context, void (*task)(void*, size_t), void* arg, size_t count) {
                                  auto* self = static_cast<Host*>(context);
                                  ++self->calls;
                                  self->tasks += count;
                                  for (size_t i = count; i-- > 0;) task(arg, i);
                                }};
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

TEST(ThreadPool, EveryTaskRunsOnce) {
  for (const size_t threads : {1, 2, 4}) {
    Pool pool;
    ASSERT_EQ(make_pool(threads, &pool), QN_OK);
    qn_parallel parallel;
    ASSERT_EQ(qn_parallel_from_pthreadpool(pool.get(), &parallel), QN_OK);
    for (const size_t count : {0, 1, 2, 3, 1000}) {
      std::vector<std::atomic<int>> runs(count);
      auto task = [&](size_t i) { ++runs[i]; };
      run_tasks(&parallel, count, task);
      for (const auto& n : runs) EXPECT_EQ(n, 1);
    }
  }
}

TEST(ThreadPool, WhatTasksWroteIsSeenAfterwards) {
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

}  // namespace
}  // namespace quern
