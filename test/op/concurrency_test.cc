// One plan in many threads, many plans made at once, and runs on a pool: what the thread sanitizer watches.
#include <thread>

#include "base/memory.h"
#include "harness.h"

namespace quern::test {
namespace concurrency_test {

constexpr size_t n_threads = 4;

struct Model {
  Shape shape;
  std::vector<float> weights, bias;
  qn_conv2d_params params;
};

Model make_model(size_t channels, size_t groups, size_t kernel) {
  Model m = {{2, 15, 14, channels}, reals(channels * channels / groups * kernel * kernel, 1), reals(channels, 2), {}};
  qn_conv2d_params_init(&m.params);
  m.params.in_channels = m.params.out_channels = channels;
  m.params.groups = groups;
  m.params.kernel = {kernel, kernel};
  m.params.padding = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
  return m;
}

void create(const Model& m, qn_weights_cache* cache, qn_operator** op) {
  qn_weights w;
  qn_weights_init(&w);
  w.data = m.weights.data();
  ASSERT_QN_OK(qn_conv2d_create(&m.params, &w, m.bias.data(), cache, op));
}

void in_threads(const std::function<void(size_t thread)>& body) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < n_threads; ++i) threads.emplace_back(body, i);
  for (std::thread& t : threads) t.join();
}

std::vector<float> run_plan(const qn_plan* plan, const std::vector<float>& x, const qn_parallel* parallel) {
  qn_tensor out;
  qn_plan_output(plan, 0, &out);
  std::vector<float> y(qn_tensor_bytes(&out) / sizeof(float));
  const Buffer workspace(qn_plan_workspace_size(plan));
  const void* inputs[] = {x.data()};
  void* outputs[] = {y.data()};
  EXPECT_QN_OK(qn_plan_run(plan, inputs, outputs, workspace.data(), workspace.size(), parallel));
  return y;
}

TEST(Concurrency, OnePlanInManyThreadsOnPoolsOfTheirOwn) {
  for (const qn_algorithm algorithm : {QN_ALGORITHM_IGEMM, QN_ALGORITHM_DIRECT, QN_ALGORITHM_DEPTHWISE,
                                       QN_ALGORITHM_GEMM, QN_ALGORITHM_WINOGRAD, QN_ALGORITHM_SPARSE}) {
    SCOPED_TRACE(qn_algorithm_string(algorithm));
    const size_t groups = algorithm == QN_ALGORITHM_DEPTHWISE ? 40 : algorithm == QN_ALGORITHM_WINOGRAD ? 1 : 2;
    const Model m = make_model(40, groups, algorithm == QN_ALGORITHM_GEMM ? 1 : 3);
    Op op;
    create(m, nullptr, &op);
    const qn_tensor in = dense(m.shape);
    qn_plan_options options;
    qn_plan_options_init(&options);
    options.tasks = 2;
    options.algorithm = algorithm;
    qn_plan* plan;
    ASSERT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, &options, &plan));
    in_threads([&](size_t thread) {
      // Each has an input of its own, so that mixed-up buffers show.
      const std::vector<float> x = reals(count_of(m.shape), 10 + static_cast<uint32_t>(thread));
      const std::vector<float> expected = run_plan(plan, x, nullptr);
      const Threads pool(2);
      for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(same_bits(run_plan(plan, x, pool.parallel()), expected));
    });
    qn_plan_release(plan);
  }
}

TEST(Concurrency, PlansOfManyOperatorsShareOneCache) {
  const Model m = make_model(24, 1, 3);
  qn_weights_cache* cache;
  ASSERT_QN_OK(qn_weights_cache_create(&cache));
  Op shared;
  create(m, cache, &shared);
  const std::vector<float> x = reals(count_of(m.shape), 3);
  constexpr qn_algorithm algorithms[] = {QN_ALGORITHM_IGEMM, QN_ALGORITHM_DIRECT, QN_ALGORITHM_WINOGRAD};
  // One result each: the kernels of two algorithms may be of different levels, with and without FMA.
  std::vector<float> expected[3];
  for (size_t a = 0; a < 3; ++a) expected[a] = run(shared, {{m.shape, x}}, {.algorithm = algorithms[a]}).values;
  in_threads([&](size_t thread) {
    for (size_t i = 0; i < 10; ++i) {
      const size_t a = (thread + i) % 3;
      Op own;
      create(m, cache, &own);
      const qn_tensor in = dense(m.shape);
      qn_plan_options options;
      qn_plan_options_init(&options);
      options.algorithm = algorithms[a];
      for (const qn_operator* op : {static_cast<const qn_operator*>(own), static_cast<const qn_operator*>(shared)}) {
        qn_plan* plan;
        ASSERT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, &options, &plan));
        EXPECT_TRUE(same_bits(run_plan(plan, x, nullptr), expected[a]));
        EXPECT_GT(qn_weights_cache_bytes(cache), 0u);
        qn_plan_release(plan);
      }
    }
  });
  qn_weights_cache_release(cache);
}

// Every kind of plan on a real pool gives the bits of one thread.
TEST(Concurrency, PoolGivesTheBitsOfOneThread) {
  const Threads pool(4);
  const auto check = [&](const qn_operator* op, const std::vector<Input>& inputs) {
    const Result one = run(op, inputs), many = run(op, inputs, {.tasks = 4, .parallel = pool.parallel()});
    ASSERT_EQ(one.status, QN_OK) << one.message;
    EXPECT_TRUE(same_bits(one.values, many.values));
  };
  const Shape image = {2, 33, 34, 20};
  const std::vector<float> x = reals(count_of(image), 1);
  {
    const Model m = make_model(20, 1, 3);
    Op op;
    create(m, nullptr, &op);
    check(op, {{image, x}});
  }
  {
    qn_pool2d_params p;
    qn_pool2d_params_init(&p);
    p.kind = QN_POOL_AVERAGE;
    p.kernel = {3, 3};
    Op op;
    ASSERT_QN_OK(qn_pool2d_create(&p, &op));
    check(op, {{image, x}});
  }
  {
    qn_binary_params p;
    qn_binary_params_init(&p);
    Op op;
    ASSERT_QN_OK(qn_binary_create(&p, &op));
    check(op, {{image, x}, {{20}, reals(20, 2)}});
  }
  {
    qn_softmax_params p;
    qn_softmax_params_init(&p);
    p.axis = 1;
    Op op;
    ASSERT_QN_OK(qn_softmax_create(&p, &op));
    check(op, {{image, x}});
  }
  {
    qn_lrn_params p;
    qn_lrn_params_init(&p);
    Op op;
    ASSERT_QN_OK(qn_lrn_create(&p, &op));
    check(op, {{image, x}});
  }
  {
    qn_transpose_params p;
    qn_transpose_params_init(&p);
    p.rank = 4;
    p.permutation[1] = 3, p.permutation[2] = 1, p.permutation[3] = 2;
    Op op;
    ASSERT_QN_OK(qn_transpose_create(&p, &op));
    check(op, {{image, x}});
  }
  {
    qn_resize2d_params p;
    qn_resize2d_params_init(&p);
    p.kind = QN_RESIZE_BILINEAR;
    p.scale_h = p.scale_w = 1.5f;
    Op op;
    ASSERT_QN_OK(qn_resize2d_create(&p, &op));
    check(op, {{image, x}});
  }
}

}  // namespace concurrency_test
}  // namespace quern::test
