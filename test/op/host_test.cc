// Functions of the host that throw: the process ends, whichever it is and whoever called it.
#include <cstdlib>
#include <stdexcept>

#include "base/status.h"
#include "harness.h"

namespace quern::test {
namespace host_test {

using namespace testing;

void throw_from_run(void*, void (*)(void*, size_t), void*, size_t) { throw std::runtime_error("run"); }
void* throw_from_allocate(void*, size_t, size_t) { throw std::bad_alloc(); }
void throw_from_release(void*, void*, size_t) { throw std::runtime_error("release"); }
void* allocate(void*, size_t size, size_t) { return std::aligned_alloc(64, (size + 63) / 64 * 64); }

// Ends as std::terminate does, and not by an exception that the library let through.
#define EXPECT_TERMINATES(statement)                \
  EXPECT_EXIT(                                      \
      {                                             \
        std::set_terminate([] { std::_Exit(77); }); \
        try {                                       \
          statement;                                \
        } catch (...) {                             \
          std::_Exit(1);                            \
        }                                           \
        std::_Exit(0);                              \
      },                                            \
      ExitedWithCode(77), "")

const float ones[1 << 16] = {1};

void plan_and_run(const qn_weights& weights, const qn_parallel* parallel) {
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = p.out_channels = 16;
  Op op;
  if (qn_conv2d_create(&p, &weights, nullptr, nullptr, &op) != QN_OK) return;
  const qn_tensor in = dense({1, 64, 64, 16});
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.tasks = 4;
  options.algorithm = QN_ALGORITHM_GEMM;
  qn_plan* plan;
  if (qn_operator_plan(op, &in, 1, nullptr, 0, &options, &plan) != QN_OK) return;
  static float out[1 << 16];
  const void* inputs[] = {ones};
  void* outputs[] = {out};
  qn_plan_run(plan, inputs, outputs, nullptr, 0, parallel);
  qn_plan_release(plan);
}

qn_weights some_weights() {
  qn_weights w;
  qn_weights_init(&w);
  w.data = ones;
  return w;
}

TEST(ThrowingHost, Parallel) {
  const qn_parallel parallel = {nullptr, throw_from_run, 4, {}, {}};
  EXPECT_TERMINATES(plan_and_run(some_weights(), &parallel));
  static float c[1 << 16];
  EXPECT_TERMINATES(qn_gemm_f32(512, 64, 64, ones, 64, ones, 64, 0, nullptr, 0, 1, c, 64, &parallel));
}

TEST(ThrowingHost, Allocator) {
  const qn_allocator throws = {nullptr, throw_from_allocate, throw_from_release, {}};
  EXPECT_TERMINATES(qn_set_allocator(&throws); plan_and_run(some_weights(), nullptr));
  const qn_allocator releases = {nullptr, allocate, throw_from_release, {}};
  EXPECT_TERMINATES(qn_set_allocator(&releases); plan_and_run(some_weights(), nullptr));
}

TEST(ThrowingHost, Log) {
  EXPECT_TERMINATES(qn_set_log([](void*, qn_log_level, const char*) { throw std::runtime_error("log"); }, nullptr);
                    log(QN_LOG_INFO, "line"));
}

TEST(ThrowingHost, Weights) {
  qn_weights decoded = some_weights();
  decoded.encoding = QN_WEIGHTS_DECODED;
  decoded.decode = [](void*, size_t, size_t, void*) -> qn_status { throw std::bad_alloc(); };
  EXPECT_TERMINATES(plan_and_run(decoded, nullptr));
  qn_weights told = some_weights();
  told.was_read = [](void*, const void*, size_t) { throw std::bad_alloc(); };
  EXPECT_TERMINATES(plan_and_run(told, nullptr));
}

}  // namespace host_test
}  // namespace quern::test
