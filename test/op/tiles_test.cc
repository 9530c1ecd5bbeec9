// Layers by tiles (AMX) in processes that fork, have many threads, or use tiles in a handler of signals.
#include <gtest/gtest.h>

#include "base/cpu.h"

#if defined(__x86_64__) && defined(__linux__)
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/memory.h"
#include "harness.h"
#include "kernel/gemm.h"
#include "kernel/requantize.h"
#include "kernel/select.h"

namespace quern::test {
namespace tiles_test {

using Bytes = std::vector<int8_t>;

bool has_tiles_here() { return (cpu().isa & feature_amxint8) != 0 && may_use(isa_amxint8); }

Bytes bytes(size_t count, uint32_t seed) {
  Bytes list(count);
  for (int8_t& x : list) x = static_cast<int8_t>((seed = seed * 1664525 + 1013904223) >> 24);
  return list;
}

qn_tensor tensor(const Shape& shape, float scale) {
  qn_tensor t;
  EXPECT_QN_OK(qn_tensor_init(&t, QN_S8, static_cast<uint32_t>(shape.size()), shape.data()));
  t.quantization.scale = scale;
  t.quantization.zero_point = 3;
  return t;
}

// A convolution of bytes, planned as the library chooses, and what it has to return.
class Layer {
 public:
  explicit Layer(size_t kernel)
      : input_(bytes(20 * 21 * 64, 1)), weights_(bytes(96 * kernel * kernel * 64, 2)), scale_(0.01f) {
    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.type = QN_S8;
    p.in_channels = 64, p.out_channels = 96;
    p.kernel = {kernel, kernel};
    p.padding = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
    qn_weights w;
    qn_weights_init(&w);
    w.type = QN_S8;
    w.data = weights_.data();
    w.scales = &scale_;
    w.scale_count = 1;
    w.bias_type = QN_S32;
    EXPECT_QN_OK(qn_conv2d_create(&p, &w, nullptr, nullptr, &op_));
    plan_ = plan(QN_ALGORITHM_AUTO, nullptr);
    qn_plan* const reference = plan(QN_ALGORITHM_DIRECT, "qn_gemm_qs8c_4x8_ref");
    expected_ = run(reference);
    qn_plan_release(reference);
  }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  ~Layer() {
    qn_plan_release(plan_);
    qn_operator_release(op_);
  }

  bool of_tiles() const { return std::strstr(qn_plan_kernel(plan_), "amxint8") != nullptr; }
  bool is_right() const { return run(plan_) == expected_; }

 private:
  qn_plan* plan(qn_algorithm algorithm, const char* kernel) const {
    const qn_tensor in = tensor({1, 20, 21, 64}, 0.05f), out = tensor({1, 20, 21, 96}, 2);
    qn_plan_options options;
    qn_plan_options_init(&options);
    options.algorithm = algorithm;
    options.kernel = kernel;
    qn_plan* made = nullptr;
    EXPECT_QN_OK(qn_operator_plan(op_, &in, 1, &out, 1, &options, &made));
    return made;
  }
  Bytes run(const qn_plan* made) const {
    Bytes output(20 * 21 * 96);
    const Buffer workspace(qn_plan_workspace_size(made));
    const void* const inputs[] = {input_.data()};
    void* const outputs[] = {output.data()};
    EXPECT_QN_OK(qn_plan_run(made, inputs, outputs, workspace.data(), workspace.size(), nullptr));
    return output;
  }

  Bytes input_, weights_, expected_;
  float scale_;
  qn_operator* op_ = nullptr;
  qn_plan* plan_ = nullptr;
};

TEST(TilesInUse, ServeAfterFork) {
  if (!has_tiles_here()) GTEST_SKIP() << "needs AMX";
  for (const size_t kernel : {1, 3}) {
    const Layer layer(kernel);
    EXPECT_TRUE(layer.of_tiles());
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(layer.is_right() ? 0 : 1);
    EXPECT_TRUE(layer.is_right());
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

TEST(TilesInUse, ServeEightThreads) {
  if (!has_tiles_here()) GTEST_SKIP() << "needs AMX";
  const Layer pointwise(1), windows(3);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int run = 0; run < 25; ++run) wrong += !pointwise.is_right() + !windows.is_right();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// A product that a handler computes: 5 rows x 32 channels of 64 elements. Its operands are there before, since a handler
// may not allocate.
struct Product {
  alignas(64) int8_t a[5][64], panel[32 * (64 + 4)];
  struct {
    qn_requantize p = {0, -128, 127, 0};
    float scales[32];
  } epilogue;
  int8_t c[5][32], expected[5][32];
  qn_gemm_fn kernel;

  void begin() {
    const Bytes values = bytes(sizeof a + sizeof panel, 5);
    std::memcpy(a, values.data(), sizeof a);
    std::memcpy(panel, values.data() + sizeof a, sizeof panel);
    for (size_t n = 0; n < 32; ++n) panel[4 * n + 2] = panel[4 * n + 3] = 0;  // biases are small
    std::fill_n(epilogue.scales, 32, 1e-3f);
    kernel = best(gemm_rows(), KernelType::qs8c).run;
    run();
    std::memcpy(expected, c, sizeof c);
  }
  void run() { kernel(5, 32, 64, a, 64, panel, c, 32, &epilogue); }
};
Product product;
volatile sig_atomic_t handled = 0, handled_wrongly = 0;

void multiply_in_handler(int) {
  std::memset(product.c, 0, sizeof product.c);
  product.run();
  handled = handled + 1;
  if (std::memcmp(product.c, product.expected, sizeof product.c) != 0) handled_wrongly = handled_wrongly + 1;
}

TEST(TilesInUse, ServeBesideAHandlerThatUsesThem) {
  if (!has_tiles_here()) GTEST_SKIP() << "needs AMX";
  const Layer pointwise(1), windows(3);
  product.begin();
  struct sigaction action = {}, before;
  action.sa_handler = multiply_in_handler;
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  const itimerval often = {{0, 100}, {0, 100}}, never = {};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  int wrong = 0;
  for (int run = 0; run < 20000 && (run < 200 || handled < 100); ++run)
    wrong += !pointwise.is_right() + !windows.is_right();
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(handled, 100);
  EXPECT_EQ(handled_wrongly, 0);
}

}  // namespace tiles_test
}  // namespace quern::test
#endif
