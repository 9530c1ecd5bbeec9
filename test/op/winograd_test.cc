// Winograd's convolution against exact sums: its error is bounded, by the largest output, as op/algorithm/cost.h says.
#include "kernel/winograd.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "harness.h"
#include "kernel/gemm.h"
#include "kernel/select.h"
#include "op/algorithm/cost.h"

namespace quern::test {
namespace winograd_test {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Image {
  size_t batch = 1, height, width, in, out;
  qn_padding padding = {1, 1, 1, 1};
  float min = -infinity, max = infinity;
  bool bias = true;

  size_t out_height() const { return height + padding.top + padding.bottom - 2; }
  size_t out_width() const { return width + padding.left + padding.right - 2; }
  Shape shape() const { return {batch, height, width, in}; }
  std::string text() const {
    return std::to_string(batch) + "x" + std::to_string(height) + "x" + std::to_string(width) + "x" +
           std::to_string(in) + " to " + std::to_string(out) + " padding " + std::to_string(padding.top) + "," +
           std::to_string(padding.left) + "," + std::to_string(padding.bottom) + "," + std::to_string(padding.right);
  }
};

// Values and what an exact convolution makes of them, before the clamp.
struct Problem {
  explicit Problem(const Image& i, float lowest = -1)
      : image(i),
        low(lowest),
        input(reals(count_of(i.shape()), 1, lowest)),
        weights(reals(i.out * 9 * i.in, 2)),
        bias(reals(i.out, 3)) {
    if (!image.bias) std::fill(bias.begin(), bias.end(), 0.0f);
    for (size_t n = 0; n < image.batch; ++n) {
      for (size_t y = 0; y < image.out_height(); ++y) {
        for (size_t x = 0; x < image.out_width(); ++x) {
          for (size_t o = 0; o < image.out; ++o) exact.push_back(sum_of(n, y, x, o));
        }
      }
    }
    for (const double value : exact) largest = std::max(largest, std::abs(value));
  }

  double sum_of(size_t n, size_t y, size_t x, size_t o) const {
    double sum = static_cast<double>(bias[o]);
    for (size_t tap = 0; tap < 9; ++tap) {
      const size_t iy = y + tap / 3 - image.padding.top, ix = x + tap % 3 - image.padding.left;
      if (iy >= image.height || ix >= image.width) continue;
      const float* a = &input[((n * image.height + iy) * image.width + ix) * image.in];
      const float* w = &weights[(o * 9 + tap) * image.in];
      for (size_t i = 0; i < image.in; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(w[i]);
    }
    return sum;
  }

  void create(qn_operator** op) const {
    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.in_channels = image.in;
    p.out_channels = image.out;
    p.kernel = {3, 3};
    p.padding = image.padding;
    p.min = image.min;
    p.max = image.max;
    qn_weights w;
    qn_weights_init(&w);
    w.data = weights.data();
    ASSERT_QN_OK(qn_conv2d_create(&p, &w, image.bias ? bias.data() : nullptr, nullptr, op));
  }

  // The largest error by the largest output.
  double error(const std::vector<float>& values) const {
    double worst = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double want = std::clamp(exact[i], static_cast<double>(image.min), static_cast<double>(image.max));
      const double error = std::abs(static_cast<double>(values[i]) - want);
      worst = std::isnan(error) ? error : std::max(worst, error);
    }
    return worst / largest;
  }

  Image image;
  float low;
  std::vector<float> input, weights, bias;
  std::vector<double> exact;
  double largest = 1e-3;
};

const std::vector<Image>& images() {
  static const std::vector<Image> list = {
      {.height = 8, .width = 8, .in = 16, .out = 32},
      {.height = 1, .width = 1, .in = 1, .out = 1},
      {.height = 3, .width = 3, .in = 5, .out = 7, .padding = {0, 0, 0, 0}},
      {.height = 2, .width = 9, .in = 17, .out = 33, .padding = {1, 0, 2, 3}},
      {.batch = 3, .height = 7, .width = 5, .in = 3, .out = 65, .padding = {2, 2, 1, 0}, .bias = false},
      {.batch = 2, .height = 13, .width = 14, .in = 40, .out = 20, .min = -1, .max = 2},
      {.height = 2, .width = 2, .in = 9, .out = 10, .padding = {9, 12, 15, 7}},
      {.height = 31, .width = 37, .in = 21, .out = 34, .padding = {0, 1, 1, 0}, .min = 0},
      {.batch = 9, .height = 4, .width = 4, .in = 64, .out = 96},
      {.height = 7, .width = 7, .in = 256, .out = 100},
  };
  return list;
}

double bound(const WinogradRow& row, const Image& image) { return winograd_error(row.outputs, image.in); }

template <class Body>
void each_row(Body body) {
  for (const WinogradRow& row : winograd_rows()) {
    if (runs_on(row, cpu().isa)) body(row);
  }
}

TEST(Winograd, EveryRowKeepsItsBoundOnOddShapes) {
  for (const Image& image : images()) {
    SCOPED_TRACE(image.text());
    const Problem problem(image);
    Op op;
    problem.create(&op);
    each_row([&](const WinogradRow& row) {
      for (const size_t gap : {0, 3}) {
        const Result r = run(op, {{image.shape(), problem.input}},
                             {.algorithm = QN_ALGORITHM_WINOGRAD, .kernel = row.name, .in_gap = gap, .out_gap = gap});
        ASSERT_EQ(r.status, QN_OK) << r.message;
        EXPECT_EQ(r.algorithm, QN_ALGORITHM_WINOGRAD);
        EXPECT_EQ(r.kernel, row.name);
        EXPECT_LE(problem.error(r.values), bound(row, image)) << row.name;
      }
    });
  }
}

// Deep sums, as in the models that winograd is for. Prints what it measures.
TEST(Winograd, ErrorStaysBelowTheBoundWhateverTheDepth) {
  const struct {
    size_t channels, outputs;
    float low;  // of the inputs
  } deep[] = {{64, 64, -1}, {64, 64, 0}, {256, 32, -1}, {256, 32, 0}, {512, 32, -1}, {512, 32, 0}, {2048, 16, -1}};
  for (const auto& [channels, outputs, low] : deep) {
    const Image shown = {.height = 12, .width = 12, .in = channels, .out = outputs};
    const Problem problem(shown, low);
    Op op;
    problem.create(&op);
    each_row([&](const WinogradRow& row) {
      const Result r = run(op, {{shown.shape(), problem.input}}, {.kernel = row.name});
      ASSERT_EQ(r.status, QN_OK) << r.message;
      const double error = problem.error(r.values);
      std::printf("%s, %zu channels of inputs from %g: %.2g, bound %.2g\n", row.name, shown.in,
                  static_cast<double>(problem.low), error, bound(row, shown));
      EXPECT_LE(error, bound(row, shown)) << row.name;
    });
  }
}

TEST(Winograd, BitsDoNotDependOnTasksNorOnTheBatch) {
  const Image list[] = {{.batch = 2, .height = 28, .width = 27, .in = 32, .out = 48},
                        {.batch = 2, .height = 7, .width = 7, .in = 64, .out = 512},
                        {.batch = 2, .height = 50, .width = 61, .in = 8, .out = 12}};
  for (const Image& image : list) {
    SCOPED_TRACE(image.text());
    const Problem problem(image);
    Op op;
    problem.create(&op);
    Shape half = image.shape();
    half[0] = 1;
    const std::vector<float> first(problem.input.begin(),
                                   problem.input.begin() + static_cast<ptrdiff_t>(count_of(half)));
    each_row([&](const WinogradRow& row) {
      const Result one = run(op, {{image.shape(), problem.input}}, {.kernel = row.name});
      ASSERT_EQ(one.status, QN_OK) << one.message;
      for (const size_t tasks : {2, 4, 7}) {
        const Result many = run(op, {{image.shape(), problem.input}}, {.tasks = tasks, .kernel = row.name});
        EXPECT_TRUE(same_bits(one.values, many.values)) << tasks << " tasks, " << row.name;
      }
      const Result alone = run(op, {{half, first}}, {.kernel = row.name});
      const std::vector<float> part(one.values.begin(),
                                    one.values.begin() + static_cast<ptrdiff_t>(alone.values.size()));
      EXPECT_TRUE(same_bits(part, alone.values)) << row.name;
    });
  }
}

// Levels with FMA share their bits: the transforms have none, and gemm is one chain of them.
TEST(Winograd, FusedLevelsGiveTheSameBits) {
  const Problem problem({.height = 15, .width = 16, .in = 19, .out = 37});
  Op op;
  problem.create(&op);
  std::vector<float> expected[7];
  each_row([&](const WinogradRow& row) {
    if ((row.isa & fused_levels) == 0) return;
    const Result r = run(op, {{problem.image.shape(), problem.input}}, {.kernel = row.name});
    ASSERT_EQ(r.status, QN_OK) << r.message;
    std::vector<float>& first = expected[row.outputs];
    if (first.empty()) first = r.values;
    EXPECT_TRUE(same_bits(r.values, first)) << row.name;
  });
}

TEST(Winograd, NanReachesItsTileAndInfinityIsClampedOrNan) {
  const Image image = {.height = 13, .width = 13, .in = 2, .out = 3, .min = -1, .max = 1};
  Problem problem(image);
  Op op;
  problem.create(&op);
  problem.input[0] = std::nanf("");
  each_row([&](const WinogradRow& row) {
    const Result r = run(op, {{image.shape(), problem.input}}, {.kernel = row.name});
    ASSERT_EQ(r.status, QN_OK) << r.message;
    EXPECT_TRUE(std::isnan(r.values[0])) << row.name;
    // Pixel 12, 12 is of another tile.
    for (size_t i = 0; i < image.out; ++i) EXPECT_FALSE(std::isnan(r.values[r.values.size() - 1 - i])) << row.name;
  });
}

TEST(Winograd, AppliesToNothingElse) {
  struct {
    const char* what;
    size_t groups;
    qn_hw kernel, stride, dilation;
  } const cases[] = {{"groups", 2, {3, 3}, {1, 1}, {1, 1}},
                     {"kernel", 1, {3, 4}, {1, 1}, {1, 1}},
                     {"kernel", 1, {1, 3}, {1, 1}, {1, 1}},
                     {"stride", 1, {3, 3}, {1, 2}, {1, 1}},
                     {"dilation", 1, {3, 3}, {1, 1}, {2, 1}}};
  const std::vector<float> weights(8 * 8 * 12);
  for (const auto& c : cases) {
    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.in_channels = p.out_channels = 8;
    p.groups = c.groups;
    p.kernel = c.kernel;
    p.stride = c.stride;
    p.dilation = c.dilation;
    qn_weights w;
    qn_weights_init(&w);
    w.data = weights.data();
    Op op;
    ASSERT_QN_OK(qn_conv2d_create(&p, &w, nullptr, nullptr, &op));
    const std::vector<float> input(9 * 9 * 8);
    const Result r = run(op, {{{1, 9, 9, 8}, input}}, {.algorithm = QN_ALGORITHM_WINOGRAD});
    EXPECT_EQ(r.status, QN_UNSUPPORTED) << c.what;
  }
}

qn_algorithm chosen(size_t size, size_t channels, const char* kernel = nullptr) {
  const std::vector<float> weights(channels * channels * 9, 1);  // zeros would be sparse
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = p.out_channels = channels;
  p.kernel = {3, 3};
  p.padding = {1, 1, 1, 1};
  qn_weights w;
  qn_weights_init(&w);
  w.data = weights.data();
  Op op;
  EXPECT_QN_OK(qn_conv2d_create(&p, &w, nullptr, nullptr, &op));
  const qn_tensor in = dense({1, size, size, channels});
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.kernel = kernel;
  qn_plan* plan = nullptr;
  EXPECT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, &options, &plan));
  const qn_algorithm algorithm = qn_plan_algorithm(plan);
  qn_plan_release(plan);
  return algorithm;
}

// Where it pays it is chosen, but not for weights that would become too large; those need to be asked for.
TEST(Winograd, IsChosenWhereItPays) {
  if ((best(winograd_rows(), KernelType::f32).isa == isa_ref) == (best(gemm_rows(), KernelType::f32).isa == isa_ref)) {
    EXPECT_EQ(chosen(56, 64), QN_ALGORITHM_WINOGRAD);
  }
  EXPECT_NE(chosen(1, 64), QN_ALGORITHM_WINOGRAD);
  EXPECT_NE(chosen(56, 832), QN_ALGORITHM_WINOGRAD) << "more than 40 MiB";
  EXPECT_EQ(chosen(56, 832, "qn_winograd_f32_2x2_ref"), QN_ALGORITHM_WINOGRAD);
}

}  // namespace winograd_test
}  // namespace quern::test
