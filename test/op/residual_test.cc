// A convolution with a residual gives the bits of the convolution, then the sum.
#include <cstring>

#include "base/cpu.h"
#include "base/memory.h"
#include "harness.h"
#include "kernel/gemm.h"
#include "kernel/igemm.h"
#include "kernel/select.h"
#include "kernel/spmm.h"
#include "kernel/winograd.h"

namespace quern::test {
namespace residual_test {

struct Case {
  qn_algorithm algorithm;
  Shape in;
  size_t out, groups, kernel, stride;
};

qn_conv2d_params params_of(const Case& c) {
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = c.in[3];
  p.out_channels = c.out;
  p.groups = c.groups;
  p.kernel = {c.kernel, c.kernel};
  p.stride = {c.stride, c.stride};
  p.padding = {c.kernel / 2, c.kernel / 2, c.kernel / 2, c.kernel / 2};
  p.min = -0.75f;
  return p;
}

// Runs `op` with its workspace; `residual` may be NULL.
std::vector<float> run_with(const qn_operator* op, const Case& c, const std::vector<float>& x, const float* residual,
                            const Shape& shape, size_t tasks) {
  const qn_tensor ins[] = {dense(c.in), dense(shape)};
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.algorithm = c.algorithm;
  options.tasks = tasks;
  options.residual_min = -0.5f;
  options.residual_max = 1;
  qn_plan* plan = nullptr;
  EXPECT_QN_OK(qn_operator_plan(op, ins, residual == nullptr ? 1 : 2, nullptr, 0, &options, &plan));
  std::vector<float> y(count_of(shape));
  const Buffer workspace(qn_plan_workspace_size(plan));
  const void* const inputs[] = {x.data(), residual};
  void* const outputs[] = {y.data()};
  EXPECT_QN_OK(qn_plan_run(plan, inputs, outputs, workspace.data(), workspace.size(), nullptr));
  qn_plan_release(plan);
  return y;
}

TEST(Residual, IsAddedAndClamped) {
  const Case cases[] = {
      {QN_ALGORITHM_GEMM, {2, 9, 11, 20}, 37, 1, 1, 1},      {QN_ALGORITHM_GEMM, {1, 30, 29, 40}, 70, 2, 1, 1},
      {QN_ALGORITHM_IGEMM, {2, 13, 12, 8}, 40, 1, 3, 1},     {QN_ALGORITHM_IGEMM, {1, 23, 25, 3}, 33, 1, 5, 2},
      {QN_ALGORITHM_DIRECT, {1, 13, 12, 8}, 18, 2, 3, 2},    {QN_ALGORITHM_WINOGRAD, {2, 15, 17, 19}, 45, 1, 3, 1},
      {QN_ALGORITHM_WINOGRAD, {1, 14, 14, 64}, 64, 1, 3, 1}, {QN_ALGORITHM_SPARSE, {2, 13, 12, 8}, 70, 2, 3, 2},
      {QN_ALGORITHM_SPARSE, {1, 14, 14, 64}, 64, 1, 1, 1},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << qn_algorithm_string(c.algorithm) << ", " << c.out << " outputs");
    const std::vector<float> weights = reals(c.out * c.in[3] / c.groups * c.kernel * c.kernel, 1, -0.2f, 0.2f);
    const std::vector<float> x = reals(count_of(c.in), 2);
    const qn_conv2d_params p = params_of(c);
    qn_weights w;
    qn_weights_init(&w);
    w.data = weights.data();
    Op op;
    ASSERT_QN_OK(qn_conv2d_create(&p, &w, weights.data(), nullptr, &op));
    const Shape shape = {c.in[0], (c.in[1] - 1) / c.stride + 1, (c.in[2] - 1) / c.stride + 1, c.out};
    const std::vector<float> residual = reals(count_of(shape), 3);
    std::vector<float> expected = run_with(op, c, x, nullptr, shape, 1);
    size_t clamped = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const float sum = expected[i] + residual[i];
      expected[i] = std::min(std::max(sum, -0.5f), 1.0f);
      clamped += sum != expected[i];
    }
    EXPECT_GT(clamped, 0u);
    for (const size_t tasks : {1, 3}) EXPECT_EQ(expected, run_with(op, c, x, residual.data(), shape, tasks));
  }
}

TEST(Residual, IsAddedInEveryLayoutOfTheOutput) {
  const Case c = {QN_ALGORITHM_SPARSE, {2, 13, 12, 24}, 70, 1, 1, 1};
  const Shape shape = {2, 13, 12, 70};
  const std::vector<float> x = reals(count_of(c.in), 2), residual = reals(count_of(shape), 3);
  for (const size_t kernel : {1, 3}) {
    const std::vector<float> weights = reals(70 * 24 * kernel * kernel, 1, -0.2f, 0.2f);
    const qn_conv2d_params p = params_of({c.algorithm, c.in, c.out, 1, kernel, 1});
    qn_weights w;
    qn_weights_init(&w);
    w.data = weights.data();
    Op op;
    ASSERT_QN_OK(qn_conv2d_create(&p, &w, weights.data(), nullptr, &op));
    const std::vector<Input> inputs = {{c.in, x}, {shape, residual}};
    const Result nhwc = run(op, inputs, {.algorithm = c.algorithm});
    ASSERT_EQ(nhwc.status, QN_OK) << nhwc.message;
    constexpr qn_layout blocked = QN_LAYOUT_PIXEL_BLOCKED;
    for (const size_t tasks : {1, 3}) {
      const Result r =
          run(op, inputs, {.tasks = tasks, .algorithm = c.algorithm, .in_layout = blocked, .out_layout = blocked});
      EXPECT_TRUE(same_bits(r.values, nhwc.values)) << r.message;
    }
  }
}

// Names of all kernels of an algorithm that this machine runs.
std::vector<std::string> kernels_of(qn_algorithm algorithm) {
  std::vector<std::string> names;
  const auto add = [&](const auto& rows) {
    for (const auto& row : rows) {
      if (runs_on(row, cpu().isa)) names.push_back(row.name);
    }
  };
  if (algorithm == QN_ALGORITHM_GEMM || algorithm == QN_ALGORITHM_DIRECT) add(gemm_rows());
  if (algorithm == QN_ALGORITHM_IGEMM) add(igemm_rows());
  if (algorithm == QN_ALGORITHM_WINOGRAD) add(winograd_rows());
  if (algorithm == QN_ALGORITHM_SPARSE) add(spmm_rows());
  return names;
}

// Runs with the residual as output, or apart from it.
Result run_residual(const qn_operator* op, const Input& x, const Input& residual, bool in_place,
                    const Options& options) {
  Strided in(x.shape, options.in_gap, options.in_layout), added(residual.shape, options.out_gap, options.out_layout);
  Strided out = added;
  in.set(x.values);
  added.set(residual.values);
  if (in_place) out = added;
  const qn_tensor ins[] = {in.tensor(), out.tensor()};
  qn_plan_options o;
  qn_plan_options_init(&o);
  o.algorithm = options.algorithm;
  o.kernel = options.kernel.c_str();
  o.tasks = options.tasks;
  qn_plan* plan = nullptr;
  Result result;
  result.status = qn_operator_plan(op, ins, 2, &out.tensor(), 1, &o, &plan);
  if (result.status != QN_OK) return result;
  const size_t size = qn_plan_workspace_size(plan);
  Buffer workspace(size + cache_line);
  std::memset(workspace.data(), 0xff, workspace.size());
  const void* const inputs[] = {in.data(), in_place ? out.data() : added.data()};
  void* const outputs[] = {out.data()};
  Threads threads(options.tasks);
  EXPECT_QN_OK(qn_plan_run(plan, inputs, outputs, workspace.data(), size, threads.parallel()));
  qn_plan_release(plan);
  for (size_t i = size; i < workspace.size(); ++i) {
    EXPECT_EQ(static_cast<const unsigned char*>(workspace.data())[i], 0xff) << "workspace overrun";
  }
  EXPECT_TRUE(out.canaries_intact());
  result.values = out.get();
  return result;
}

// By every kernel, and in every layout, the bits of a residual that lies apart.
TEST(Residual, MayBeTheOutput) {
  const Case cases[] = {
      {QN_ALGORITHM_GEMM, {2, 9, 11, 20}, 37, 1, 1, 1},      {QN_ALGORITHM_GEMM, {1, 1, 3, 40}, 700, 1, 1, 1},
      {QN_ALGORITHM_GEMM, {1, 30, 29, 40}, 70, 2, 1, 1},     {QN_ALGORITHM_IGEMM, {2, 13, 12, 8}, 40, 1, 3, 1},
      {QN_ALGORITHM_IGEMM, {1, 23, 25, 3}, 33, 1, 5, 2},     {QN_ALGORITHM_DIRECT, {1, 13, 12, 8}, 18, 2, 3, 2},
      {QN_ALGORITHM_WINOGRAD, {2, 15, 17, 19}, 45, 1, 3, 1}, {QN_ALGORITHM_WINOGRAD, {1, 14, 14, 64}, 64, 1, 3, 1},
      {QN_ALGORITHM_SPARSE, {2, 13, 12, 8}, 70, 2, 3, 2},    {QN_ALGORITHM_SPARSE, {1, 14, 14, 64}, 64, 1, 1, 1},
      {QN_ALGORITHM_SPARSE, {2, 13, 12, 24}, 70, 1, 3, 1},   {QN_ALGORITHM_SPARSE, {3, 1, 1, 700}, 33, 1, 1, 1},
  };
  for (const Case& c : cases) {
    std::vector<float> weights = weights_with(c.out, c.in[3] / c.groups * c.kernel * c.kernel, 1, 0.3f);
    const qn_conv2d_params p = params_of(c);
    qn_weights w;
    qn_weights_init(&w);
    w.data = weights.data();
    Op op;
    ASSERT_QN_OK(qn_conv2d_create(&p, &w, weights.data(), nullptr, &op));
    const Shape shape = {c.in[0], (c.in[1] - 1) / c.stride + 1, (c.in[2] - 1) / c.stride + 1, c.out};
    const Input x = {c.in, reals(count_of(c.in), 2)}, residual = {shape, reals(count_of(shape), 3)};
    size_t compared = 0;
    for (const std::string& kernel : kernels_of(c.algorithm)) {
      for (const qn_layout layout : {QN_LAYOUT_NHWC, QN_LAYOUT_PIXEL_BLOCKED}) {
        for (const size_t gap : {0, 3}) {
          SCOPED_TRACE(testing::Message() << kernel << ", " << layout_text(layout) << ", gap " << gap << ", " << c.out);
          Options options = {.algorithm = c.algorithm,
                             .kernel = kernel,
                             .in_gap = gap,
                             .out_gap = gap,
                             .in_layout = layout,
                             .out_layout = layout};
          const Result expected = run_residual(op, x, residual, false, options);
          for (const size_t tasks : {1, 3}) {
            options.tasks = tasks;
            const Result r = run_residual(op, x, residual, true, options);
            ASSERT_EQ(r.status, expected.status);
            if (r.status != QN_OK) continue;
            ASSERT_TRUE(same_bits(r.values, expected.values));
            ++compared;
          }
        }
      }
    }
    EXPECT_GE(compared, 4u) << qn_algorithm_string(c.algorithm) << ", " << c.out << " outputs";
  }
}

TEST(Residual, IsRefusedWhereItDoesNotFit) {
  const std::vector<float> weights = reals(9 * 40, 1);
  qn_weights w;
  qn_weights_init(&w);
  w.data = weights.data();
  const auto plan = [&](size_t groups, qn_algorithm algorithm, const qn_tensor& residual, float low) {
    const qn_conv2d_params p =
        params_of({QN_ALGORITHM_AUTO, {1, 6, 6, 40}, 40, groups, groups == 1 ? size_t{1} : 3, 1});
    std::vector<float> many(40 * 40);
    qn_weights of_all = w;
    of_all.data = many.data();
    Op op;
    EXPECT_QN_OK(qn_conv2d_create(&p, &of_all, nullptr, nullptr, &op));
    const qn_tensor ins[] = {dense({1, 6, 6, 40}), residual};
    qn_plan_options options;
    qn_plan_options_init(&options);
    options.algorithm = algorithm;
    options.residual_min = low;
    options.residual_max = 0;
    qn_plan* made = nullptr;
    const qn_status status = qn_operator_plan(op, ins, 2, nullptr, 0, &options, &made);
    EXPECT_EQ(status == QN_OK, made != nullptr);
    qn_plan_release(made);
    return status;
  };
  const Strided gaps({1, 6, 6, 40}, 3);
  EXPECT_EQ(QN_OK, plan(1, QN_ALGORITHM_AUTO, dense({1, 6, 6, 40}), -1));
  EXPECT_EQ(QN_OK, plan(40, QN_ALGORITHM_AUTO, dense({1, 6, 6, 40}), -1)) << "not by a depthwise kernel";
  EXPECT_EQ(QN_UNSUPPORTED, plan(40, QN_ALGORITHM_DEPTHWISE, dense({1, 6, 6, 40}), -1));
  EXPECT_EQ(QN_UNSUPPORTED, plan(1, QN_ALGORITHM_AUTO, gaps.tensor(), -1));
  EXPECT_EQ(QN_INVALID_ARGUMENT, plan(1, QN_ALGORITHM_AUTO, dense({1, 6, 6, 39}), -1));
  EXPECT_EQ(QN_INVALID_ARGUMENT, plan(1, QN_ALGORITHM_AUTO, dense({1, 6, 6, 40}), 1)) << "min above max";
}

}  // namespace residual_test
}  // namespace quern::test
