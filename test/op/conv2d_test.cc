// Convolution, depthwise convolution and fully connected against a naive reference.
#include <algorithm>
#include <cmath>
#include <limits>

#include "harness.h"
#include "kernel/dwconv.h"
#include "kernel/gemm.h"
#include "kernel/igemm.h"
#include "kernel/spmm.h"
#include "kernel/winograd.h"

namespace quern::test {
namespace conv2d_test {

struct Conv {
  size_t batch = 1, height = 5, width = 5, in = 4, out = 6, groups = 1;
  qn_hw kernel = {1, 1}, stride = {1, 1}, dilation = {1, 1};
  qn_padding padding = {0, 0, 0, 0};
  float min = -std::numeric_limits<float>::infinity(), max = std::numeric_limits<float>::infinity();
  bool bias = true;

  size_t out_height() const {
    return (height + padding.top + padding.bottom - ((kernel.h - 1) * dilation.h + 1)) / stride.h + 1;
  }
  size_t out_width() const {
    return (width + padding.left + padding.right - ((kernel.w - 1) * dilation.w + 1)) / stride.w + 1;
  }
  size_t group_in() const { return in / groups; }
  size_t weights() const { return out * group_in() * kernel.h * kernel.w; }
  Shape shape() const { return {batch, height, width, in}; }

  std::string text() const {
    const auto two = [](qn_hw v) { return std::to_string(v.h) + "x" + std::to_string(v.w); };
    return std::to_string(batch) + "x" + two({height, width}) + "x" + std::to_string(in) + " to " +
           std::to_string(out) + " groups " + std::to_string(groups) + " kernel " + two(kernel) + " stride " +
           two(stride) + " dilation " + two(dilation) + " padding " + two({padding.top, padding.left}) + "," +
           two({padding.bottom, padding.right});
  }
};

// Index of weight (o, y, x, i) in each layout.
size_t weight_index(const Conv& c, qn_weights_layout layout, size_t o, size_t y, size_t x, size_t i) {
  switch (layout) {
    case QN_WEIGHTS_OHWI: return ((o * c.kernel.h + y) * c.kernel.w + x) * c.group_in() + i;
    case QN_WEIGHTS_OIHW: return ((o * c.group_in() + i) * c.kernel.h + y) * c.kernel.w + x;
    case QN_WEIGHTS_HWIO: return ((y * c.kernel.w + x) * c.group_in() + i) * c.out + o;
  }
  return 0;
}

double clamp_value(double v, double min, double max) { return v < min ? min : v > max ? max : v; }

// Calls visit(o, y, x, i, value of the input) for all products of one output, in the order of the contract.
template <class Visit>
void each_product(const Conv& c, const std::vector<float>& input, size_t n, size_t oy, size_t ox, size_t o,
                  Visit&& visit) {
  const size_t first = o / (c.out / c.groups) * c.group_in();
  for (size_t y = 0; y < c.kernel.h; ++y) {
    for (size_t x = 0; x < c.kernel.w; ++x) {
      const size_t iy = oy * c.stride.h + y * c.dilation.h, ix = ox * c.stride.w + x * c.dilation.w;
      const bool inside =
          iy >= c.padding.top && iy - c.padding.top < c.height && ix >= c.padding.left && ix - c.padding.left < c.width;
      for (size_t i = 0; i < c.group_in(); ++i) {
        const size_t at = ((n * c.height + iy - c.padding.top) * c.width + ix - c.padding.left) * c.in + first + i;
        visit(y, x, i, inside ? input[at] : 0.0f);
      }
    }
  }
}

// The outputs before the clamp. OHWI weights.
std::vector<double> reference(const Conv& c, const std::vector<float>& input, const std::vector<float>& weights,
                              const std::vector<float>& bias) {
  std::vector<double> result;
  for (size_t n = 0; n < c.batch; ++n) {
    for (size_t oy = 0; oy < c.out_height(); ++oy) {
      for (size_t ox = 0; ox < c.out_width(); ++ox) {
        for (size_t o = 0; o < c.out; ++o) {
          double sum = c.bias ? static_cast<double>(bias[o]) : 0;
          const float* weight = &weights[weight_index(c, QN_WEIGHTS_OHWI, o, 0, 0, 0)];  // they lie in that order
          each_product(c, input, n, oy, ox, o, [&](size_t, size_t, size_t, float a) {
            sum += static_cast<double>(a) * static_cast<double>(*weight++);
          });
          result.push_back(sum);
        }
      }
    }
  }
  return result;
}

std::vector<float> reorder(const Conv& c, const std::vector<float>& weights, qn_weights_layout layout) {
  std::vector<float> result(weights.size());
  for (size_t o = 0; o < c.out; ++o) {
    for (size_t y = 0; y < c.kernel.h; ++y) {
      for (size_t x = 0; x < c.kernel.w; ++x) {
        for (size_t i = 0; i < c.group_in(); ++i) {
          result[weight_index(c, layout, o, y, x, i)] = weights[weight_index(c, QN_WEIGHTS_OHWI, o, y, x, i)];
        }
      }
    }
  }
  return result;
}

qn_status create(const Conv& c, const float* weights, qn_weights_layout layout, const float* bias,
                 qn_weights_cache* cache, qn_operator** op) {
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = c.in;
  p.out_channels = c.out;
  p.groups = c.groups;
  p.kernel = c.kernel;
  p.stride = c.stride;
  p.dilation = c.dilation;
  p.padding = c.padding;
  p.min = c.min;
  p.max = c.max;
  qn_weights w;
  qn_weights_init(&w);
  w.layout = layout;
  w.data = weights;
  return qn_conv2d_create(&p, &w, bias, cache, op);
}

// Makes about this part of all blocks of weights zero: `block` neighbouring output channels of a group at a position.
void prune(const Conv& c, size_t block, double zeros, std::vector<float>* weights) {
  const size_t depth = c.weights() / c.out, out = c.out / c.groups;
  std::vector<float> keep;
  for (size_t o = 0; o < c.out; ++o) {
    const size_t row = o / out * out + o % out / block;
    if (o % out % block == 0) keep = reals(depth, static_cast<uint32_t>(100 + row), 0, 1);
    for (size_t k = 0; k < depth; ++k) {
      if (static_cast<double>(keep[k]) < zeros) (*weights)[o * depth + k] = 0;
    }
  }
}

// What a convolution is made of: values whose sums are exact.
struct Case {
  Conv c;
  std::vector<float> input, weights, bias;
  std::vector<double> expected;
  double largest = 1;  // of the outputs before the clamp

  explicit Case(const Conv& conv, size_t block = 1, double zeros = 0)
      : c(conv),
        input(integers(count_of(conv.shape()), 1)),
        weights(integers(conv.weights(), 2)),
        bias(integers(conv.out, 3)) {
    prune(conv, block, zeros, &weights);
    expected = reference(conv, input, weights, bias);
    for (double& value : expected) {
      largest = std::max(largest, std::abs(value));
      value = clamp_value(value, static_cast<double>(c.min), static_cast<double>(c.max));
    }
  }

  void expect(const Result& r) const {
    ASSERT_EQ(r.status, QN_OK) << r.message;
    ASSERT_EQ(r.shape, (Shape{c.batch, c.out_height(), c.out_width(), c.out}));
    // Sums are exact; winograd's transforms are not.
    const double error = r.algorithm == QN_ALGORITHM_WINOGRAD ? 3e-5 * largest : 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double value = static_cast<double>(r.values[i]);
      if (std::abs(value - expected[i]) <= error) continue;  // an assertion of its own takes longer
      FAIL() << "element " << i << " by " << qn_algorithm_string(r.algorithm) << " " << r.kernel << ": " << value
             << ", expected " << expected[i];
    }
  }
};

const std::vector<Conv>& cases() {
  static const std::vector<Conv> list = {
      {},
      {.batch = 3, .height = 1, .width = 1, .in = 1, .out = 1},
      {.height = 7, .width = 9, .in = 67, .out = 65},
      {.batch = 2, .height = 4, .width = 6, .in = 16, .out = 33, .bias = false},
      {.height = 6, .width = 7, .in = 8, .out = 12, .stride = {2, 3}},
      {.height = 3, .width = 3, .in = 5, .out = 7, .padding = {1, 2, 0, 1}},
      {.height = 9, .width = 8, .in = 3, .out = 17, .kernel = {3, 3}, .padding = {1, 1, 1, 1}},
      {.batch = 2,
       .height = 11,
       .width = 13,
       .in = 3,
       .out = 16,
       .kernel = {3, 3},
       .stride = {2, 2},
       .padding = {1, 0, 0, 1}},
      {.height = 15, .width = 14, .in = 3, .out = 9, .kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3, 3, 3}},
      {.height = 8, .width = 9, .in = 20, .out = 31, .kernel = {3, 3}, .padding = {1, 1, 1, 1}},
      {.batch = 2,
       .height = 9,
       .width = 10,
       .in = 6,
       .out = 10,
       .kernel = {3, 2},
       .stride = {1, 2},
       .dilation = {2, 3},
       .padding = {2, 0, 1, 3}},
      {.height = 2, .width = 2, .in = 4, .out = 5, .kernel = {5, 5}, .padding = {4, 4, 3, 3}},
      {.height = 6, .width = 5, .in = 12, .out = 18, .groups = 3},
      {.batch = 2,
       .height = 6,
       .width = 5,
       .in = 12,
       .out = 18,
       .groups = 6,
       .kernel = {3, 3},
       .padding = {1, 1, 1, 1}},
      {.height = 5, .width = 6, .in = 7, .out = 21, .groups = 7, .kernel = {3, 3}, .padding = {1, 1, 1, 1}},
      {.batch = 2,
       .height = 7,
       .width = 9,
       .in = 35,
       .out = 35,
       .groups = 35,
       .kernel = {3, 3},
       .padding = {1, 1, 1, 1}},
      {.height = 10,
       .width = 9,
       .in = 17,
       .out = 17,
       .groups = 17,
       .kernel = {3, 3},
       .stride = {2, 2},
       .padding = {0, 1, 1, 0}},
      {.height = 9, .width = 11, .in = 8, .out = 8, .groups = 8, .kernel = {5, 5}, .padding = {2, 2, 2, 2}},
      {.height = 12,
       .width = 11,
       .in = 5,
       .out = 5,
       .groups = 5,
       .kernel = {3, 4},
       .stride = {1, 2},
       .dilation = {3, 2},
       .padding = {3, 1, 2, 4}},
      {.height = 3, .width = 40, .in = 1, .out = 1, .kernel = {1, 7}, .padding = {0, 3, 0, 3}},
      {.height = 14,
       .width = 14,
       .in = 33,
       .out = 40,
       .kernel = {3, 3},
       .padding = {1, 1, 1, 1},
       .min = -20,
       .max = 35},
      {.height = 9,
       .width = 9,
       .in = 9,
       .out = 9,
       .groups = 9,
       .kernel = {3, 3},
       .padding = {1, 1, 1, 1},
       .min = 0,
       .max = 6},
  };
  return list;
}

constexpr qn_algorithm algorithms[] = {QN_ALGORITHM_AUTO,  QN_ALGORITHM_DIRECT,    QN_ALGORITHM_GEMM,
                                       QN_ALGORITHM_IGEMM, QN_ALGORITHM_DEPTHWISE, QN_ALGORITHM_WINOGRAD,
                                       QN_ALGORITHM_SPARSE};

bool applies(const Conv& c, qn_algorithm algorithm) {
  const bool one = c.kernel.h == 1 && c.kernel.w == 1 && c.stride.h == 1 && c.stride.w == 1 && c.padding.top == 0 &&
                   c.padding.left == 0 && c.padding.bottom == 0 && c.padding.right == 0;
  if (algorithm == QN_ALGORITHM_GEMM) return one;
  if (algorithm == QN_ALGORITHM_WINOGRAD) {
    return c.groups == 1 && c.kernel.h == 3 && c.kernel.w == 3 && c.stride.h == 1 && c.stride.w == 1 &&
           c.dilation.h == 1 && c.dilation.w == 1;
  }
  if (algorithm == QN_ALGORITHM_DEPTHWISE) return c.groups == c.in && c.groups == c.out;
  return true;
}

TEST(Conv2d, EveryAlgorithmGivesTheExactResult) {
  for (const Conv& c : cases()) {
    SCOPED_TRACE(c.text());
    const Case test(c);
    Op op;
    ASSERT_QN_OK(create(c, test.weights.data(), QN_WEIGHTS_OHWI, c.bias ? test.bias.data() : nullptr, nullptr, &op));
    for (const qn_algorithm algorithm : algorithms) {
      SCOPED_TRACE(qn_algorithm_string(algorithm));
      for (const size_t gap : {0, 5}) {
        const Result r = run(op, {{c.shape(), test.input}}, {.algorithm = algorithm, .in_gap = gap, .out_gap = gap});
        if (!applies(c, algorithm)) {
          EXPECT_EQ(r.status, QN_UNSUPPORTED);
          continue;
        }
        test.expect(r);
        EXPECT_TRUE(algorithm == QN_ALGORITHM_AUTO || r.algorithm == algorithm);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Conv2d, WeightsInEveryLayoutPackAlike) {
  for (const Conv& c : cases()) {
    SCOPED_TRACE(c.text());
    const Case test(c);
    for (const qn_weights_layout layout : {QN_WEIGHTS_OIHW, QN_WEIGHTS_HWIO}) {
      const std::vector<float> weights = reorder(c, test.weights, layout);
      Op op;
      ASSERT_QN_OK(create(c, weights.data(), layout, c.bias ? test.bias.data() : nullptr, nullptr, &op));
      test.expect(run(op, {{c.shape(), test.input}}));
    }
  }
}

// Forces every row of a table on every case it fits.
template <class Table>
void run_rows(const Table& rows) {
  for (const Conv& c : cases()) {
    SCOPED_TRACE(c.text());
    const Case test(c);
    Op op;
    ASSERT_QN_OK(create(c, test.weights.data(), QN_WEIGHTS_OHWI, c.bias ? test.bias.data() : nullptr, nullptr, &op));
    for (const auto& row : rows) {
      if (!runs_on(row, cpu().isa)) continue;
      for (const qn_algorithm algorithm : algorithms) {
        if (algorithm == QN_ALGORITHM_AUTO) continue;
        const Result r = run(op, {{c.shape(), test.input}}, {.algorithm = algorithm, .kernel = row.name, .out_gap = 3});
        if (r.status == QN_UNSUPPORTED) continue;
        EXPECT_EQ(r.kernel, row.name);
        test.expect(r);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Conv2d, EveryGemmRow) { run_rows(gemm_rows()); }
TEST(Conv2d, EveryIgemmRow) { run_rows(igemm_rows()); }
TEST(Conv2d, EveryDwconvRow) { run_rows(dwconv_rows()); }
TEST(Conv2d, EveryDwconvTileRow) { run_rows(dwconv_tile_rows()); }
TEST(Conv2d, EveryWinogradRow) { run_rows(winograd_rows()); }

TEST(Conv2d, EverySpmmRow) { run_rows(spmm_rows()); }

// Every row with weights of every pattern, also those that are not its own.
TEST(Conv2d, EverySpmmRowAtEveryDensity) {
  for (const Conv& c : cases()) {
    SCOPED_TRACE(c.text());
    for (const size_t block : {1, 2, 4, 8, 16}) {
      for (const double zeros : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0}) {
        SCOPED_TRACE(std::to_string(zeros) + " zeros in blocks of " + std::to_string(block));
        const Case test(c, block, zeros);
        Op op;
        ASSERT_QN_OK(
            create(c, test.weights.data(), QN_WEIGHTS_OHWI, c.bias ? test.bias.data() : nullptr, nullptr, &op));
        for (const SpmmRow& row : spmm_rows()) {
          if (row.type != KernelType::f32 || !runs_on(row, cpu().isa)) continue;
          const Result r = run(op, {{c.shape(), test.input}}, {.algorithm = QN_ALGORITHM_SPARSE, .kernel = row.name});
          EXPECT_EQ(r.kernel, row.name);
          test.expect(r);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Pixel-blocked inputs and outputs: by the sparse algorithm, whatever is asked for.
TEST(Conv2d, EverySpmmRowInEveryLayout) {
  for (const Conv& c : cases()) {
    SCOPED_TRACE(c.text());
    for (const size_t block : {1, 4}) {
      for (const double zeros : {0.0, 0.7, 1.0}) {
        const Case test(c, block, zeros);
        Op op;
        ASSERT_QN_OK(
            create(c, test.weights.data(), QN_WEIGHTS_OHWI, c.bias ? test.bias.data() : nullptr, nullptr, &op));
        for (const SpmmRow& row : spmm_rows()) {
          for (const auto& [in, out] : layouts) {
            if (row.type != KernelType::f32 || !runs_on(row, cpu().isa) || (in == out && in == QN_LAYOUT_NHWC))
              continue;
            SCOPED_TRACE(std::string(row.name) + ", " + layout_text(in) + " to " + layout_text(out));
            const size_t gap = zeros == 0 ? 0 : 3;
            const Result r = run(op, {{c.shape(), test.input}},
                                 {.algorithm = QN_ALGORITHM_SPARSE,
                                  .kernel = row.name,
                                  .in_gap = gap,
                                  .out_gap = gap,
                                  .in_layout = in,
                                  .out_layout = out});
            if (qn_pixel_block() % row.pixels != 0) {
              EXPECT_EQ(r.status, QN_UNSUPPORTED);
              continue;
            }
            EXPECT_EQ(r.kernel, row.name);
            test.expect(r);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// More products of an output than a set of sparse weights can count steps; one of them lies inside the image.
TEST(Conv2d, SparseWindowsMayBeLargerThanASetCounts) {
  Conv c = {.height = 1, .width = 1, .in = 1, .out = 16, .kernel = {300, 257}, .padding = {150, 128, 149, 128}};
  const Case test(c);
  Op op;
  ASSERT_QN_OK(create(c, test.weights.data(), QN_WEIGHTS_OHWI, test.bias.data(), nullptr, &op));
  for (const SpmmRow& row : spmm_rows()) {
    if (row.type != KernelType::f32 || !runs_on(row, cpu().isa)) continue;
    test.expect(run(op, {{c.shape(), test.input}}, {.algorithm = QN_ALGORITHM_SPARSE, .kernel = row.name}));
  }
}

TEST(Conv2d, EachAlgorithmUsesSomeRow) {
  const Conv point = {.in = 8, .out = 8}, depth = {.in = 8, .out = 8, .groups = 8, .kernel = {3, 3}};
  const Conv square = {.in = 8, .out = 8, .kernel = {3, 3}};
  for (const auto& [c, algorithm] : {std::pair(point, QN_ALGORITHM_GEMM), std::pair(point, QN_ALGORITHM_IGEMM),
                                     std::pair(point, QN_ALGORITHM_DIRECT), std::pair(depth, QN_ALGORITHM_DEPTHWISE),
                                     std::pair(square, QN_ALGORITHM_WINOGRAD), std::pair(point, QN_ALGORITHM_SPARSE)}) {
    const Case test(c);
    Op op;
    ASSERT_QN_OK(create(c, test.weights.data(), QN_WEIGHTS_OHWI, test.bias.data(), nullptr, &op));
    const Result r = run(op, {{c.shape(), test.input}}, {.algorithm = algorithm});
    EXPECT_EQ(r.algorithm, algorithm);
    EXPECT_NE(r.kernel, "");
    // The row's name alone says which algorithm it serves.
    EXPECT_EQ(run(op, {{c.shape(), test.input}}, {.kernel = r.kernel}).kernel, r.kernel);
  }
}

// Larger, with real values: the bits must not depend on the number of tasks, whatever the algorithm.
TEST(Conv2d, BitsDoNotDependOnTasks) {
  const Conv list[] = {
      {.batch = 2, .height = 28, .width = 28, .in = 96, .out = 160},
      {.height = 7, .width = 7, .in = 320, .out = 512},
      {.height = 40, .width = 40, .in = 3, .out = 32, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1, 1, 1}},
      {.height = 28, .width = 27, .in = 32, .out = 48, .kernel = {3, 3}, .padding = {1, 1, 1, 1}},
      {.height = 28, .width = 27, .in = 48, .out = 48, .groups = 48, .kernel = {3, 3}, .padding = {1, 1, 1, 1}},
      {.height = 3, .width = 3, .in = 512, .out = 512, .groups = 512, .kernel = {3, 3}, .padding = {1, 1, 1, 1}},
      {.batch = 3,
       .height = 14,
       .width = 14,
       .in = 64,
       .out = 64,
       .groups = 4,
       .kernel = {3, 3},
       .padding = {1, 1, 1, 1}},
  };
  for (const Conv& c : list) {
    SCOPED_TRACE(c.text());
    const std::vector<float> input = reals(count_of(c.shape()), 4), weights = reals(c.weights(), 5),
                             bias = reals(c.out, 6);
    Op op;
    ASSERT_QN_OK(create(c, weights.data(), QN_WEIGHTS_OHWI, bias.data(), nullptr, &op));
    for (const qn_algorithm algorithm : algorithms) {
      if (!applies(c, algorithm)) continue;
      const Result one = run(op, {{c.shape(), input}}, {.algorithm = algorithm});
      ASSERT_EQ(one.status, QN_OK) << one.message;
      for (const size_t tasks : {2, 4, 7}) {
        const Result many = run(op, {{c.shape(), input}}, {.tasks = tasks, .algorithm = algorithm});
        EXPECT_EQ(many.kernel, one.kernel);
        EXPECT_TRUE(same_bits(one.values, many.values)) << tasks << " tasks, " << qn_algorithm_string(algorithm);
      }
      if (algorithm != QN_ALGORITHM_SPARSE) continue;
      for (const auto& [in, out] : layouts) {  // nor on the layouts
        const Result other =
            run(op, {{c.shape(), input}}, {.tasks = 3, .algorithm = algorithm, .in_layout = in, .out_layout = out});
        EXPECT_TRUE(same_bits(one.values, other.values)) << layout_text(in) << " to " << layout_text(out);
      }
    }
  }
}

// gemm.h promises one ascending chain of fused multiply-adds at every level that has them.
TEST(Conv2d, FusedLevelsGiveTheBitsOfAChainOfFma) {
  const Conv c = {.height = 5, .width = 7, .in = 37, .out = 35, .kernel = {3, 3}, .padding = {1, 1, 1, 1}};
  const std::vector<float> input = reals(count_of(c.shape()), 7), weights = reals(c.weights(), 8),
                           bias = reals(c.out, 9);
  std::vector<float> expected;
  for (size_t y = 0; y < c.out_height(); ++y) {
    for (size_t x = 0; x < c.out_width(); ++x) {
      for (size_t o = 0; o < c.out; ++o) {
        float sum = bias[o];
        each_product(c, input, 0, y, x, o, [&](size_t ky, size_t kx, size_t i, float a) {
          sum = std::fma(a, weights[weight_index(c, QN_WEIGHTS_OHWI, o, ky, kx, i)], sum);
        });
        expected.push_back(sum);
      }
    }
  }
  Op op;
  ASSERT_QN_OK(create(c, weights.data(), QN_WEIGHTS_OHWI, bias.data(), nullptr, &op));
  const auto check = [&](const auto& rows, qn_algorithm algorithm) {
    for (const auto& row : rows) {
      if (!runs_on(row, cpu().isa) || (row.isa & fused_levels) == 0 || row.type != KernelType::f32) continue;
      for (const size_t tasks : {1, 2, 4}) {
        const Result r = run(op, {{c.shape(), input}}, {.tasks = tasks, .algorithm = algorithm, .kernel = row.name});
        ASSERT_EQ(r.status, QN_OK) << r.message;
        EXPECT_TRUE(same_bits(r.values, expected)) << row.name;
      }
    }
  };
  check(igemm_rows(), QN_ALGORITHM_IGEMM);
  check(gemm_rows(), QN_ALGORITHM_DIRECT);
  check(spmm_rows(), QN_ALGORITHM_SPARSE);
}

// Kernels of four channels take the weights in an order of their own, which is the same at every level.
TEST(Conv2d, FusedLevelsOfFourSparseChannelsAgree) {
  const Conv c = {.height = 7, .width = 10, .in = 67, .out = 35, .kernel = {3, 3}, .padding = {1, 1, 1, 1}};
  const std::vector<float> input = reals(count_of(c.shape()), 7), keep = reals(c.weights(), 8, 0, 1);
  for (const float zeros : {0.1f, 0.3f, 0.5f, 0.9f}) {
    std::vector<float> weights = reals(c.weights(), 9);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = keep[i] < zeros ? 0 : weights[i];
    Op op;
    ASSERT_QN_OK(create(c, weights.data(), QN_WEIGHTS_OHWI, nullptr, nullptr, &op));
    std::vector<float> expected;
    for (const SpmmRow& row : spmm_rows()) {
      if (!row.fours() || !runs_on(row, cpu().isa) || row.isa == isa_ref) continue;
      const Result r = run(op, {{c.shape(), input}}, {.algorithm = QN_ALGORITHM_SPARSE, .kernel = row.name});
      ASSERT_EQ(r.status, QN_OK) << r.message;
      if (expected.empty()) expected = r.values;
      EXPECT_TRUE(same_bits(r.values, expected)) << row.name << ", " << zeros << " zeros";
    }
  }
}

TEST(Conv2d, NanStaysNanAndClampsInfinity) {
  const Conv c = {.height = 1, .width = 3, .in = 2, .out = 3, .min = -1, .max = 1};
  const std::vector<float> weights = {1, 0, 0, 1, 1, 1}, bias = {0, 0, 0};
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  Op op;
  ASSERT_QN_OK(create(c, weights.data(), QN_WEIGHTS_OHWI, bias.data(), nullptr, &op));
  for (const qn_algorithm algorithm : {QN_ALGORITHM_GEMM, QN_ALGORITHM_IGEMM, QN_ALGORITHM_DIRECT}) {
    const Result r = run(op, {{c.shape(), {nan, 1, 5, -7, infinity, -infinity}}}, {.algorithm = algorithm});
    ASSERT_EQ(r.status, QN_OK);
    for (const size_t i : {0, 1, 2}) EXPECT_TRUE(std::isnan(r.values[i])) << i;  // NaN * 0 is NaN
    EXPECT_EQ(r.values[3], 1);
    EXPECT_EQ(r.values[4], -1);
    EXPECT_EQ(r.values[5], -1);
    for (const size_t i : {6, 7, 8}) EXPECT_TRUE(std::isnan(r.values[i])) << i;  // inf * 0, inf - inf
  }
}

TEST(Conv2d, MacsIncludePadding) {
  const Conv c = {
      .batch = 2, .height = 6, .width = 5, .in = 8, .out = 12, .groups = 2, .kernel = {3, 3}, .padding = {1, 1, 1, 1}};
  const Case test(c);
  Op op;
  ASSERT_QN_OK(create(c, test.weights.data(), QN_WEIGHTS_OHWI, nullptr, nullptr, &op));
  const qn_tensor in = dense(c.shape());
  qn_plan* plan;
  ASSERT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, nullptr, &plan));
  EXPECT_EQ(qn_plan_macs(plan), 2u * 6 * 5 * 12 * 9 * 4);
  qn_plan_release(plan);
}

TEST(DwConv2d, MultipliersAndLayouts) {
  for (const size_t channels : {1, 5, 16, 33}) {
    for (const size_t multiplier : {1, 2, 3}) {
      const Conv c = {.batch = 2,
                      .height = 6,
                      .width = 7,
                      .in = channels,
                      .out = channels * multiplier,
                      .groups = channels,
                      .kernel = {3, 2},
                      .stride = {1, 2},
                      .padding = {1, 0, 1, 1}};
      SCOPED_TRACE(c.text());
      const Case test(c);
      qn_dwconv2d_params p;
      qn_dwconv2d_params_init(&p);
      p.channels = channels;
      p.multiplier = multiplier;
      p.kernel = c.kernel;
      p.stride = c.stride;
      p.padding = c.padding;
      for (const qn_weights_layout layout : {QN_WEIGHTS_OHWI, QN_WEIGHTS_OIHW, QN_WEIGHTS_HWIO}) {
        const std::vector<float> weights = reorder(c, test.weights, layout);
        qn_weights w;
        qn_weights_init(&w);
        w.layout = layout;
        w.data = weights.data();
        Op op;
        ASSERT_QN_OK(qn_dwconv2d_create(&p, &w, test.bias.data(), nullptr, &op));
        const Result r = run(op, {{c.shape(), test.input}}, {.in_gap = 2, .out_gap = 3});
        test.expect(r);
        EXPECT_TRUE(r.algorithm == QN_ALGORITHM_DEPTHWISE || multiplier > 1 || channels < 16);
      }
    }
  }
}

// Depthwise windows of every kind: padding that keeps the size, none, more than the window, on one side.
std::vector<Conv> depthwise_cases() {
  std::vector<Conv> list;
  for (const Conv& c : cases()) {
    if (c.groups == c.in && c.groups == c.out) list.push_back(c);
  }
  const std::pair<qn_hw, qn_hw> strides[] = {{{1, 1}, {1, 1}}, {{2, 2}, {1, 1}}, {{3, 3}, {1, 1}},
                                             {{1, 2}, {2, 1}}, {{3, 1}, {1, 3}}, {{2, 2}, {3, 3}}};
  const qn_padding paddings[] = {{1, 1, 1, 1}, {0, 0, 0, 0}, {2, 2, 2, 2}, {0, 1, 0, 1}, {1, 0, 3, 9}};
  for (const qn_hw size : {qn_hw{7, 7}, {14, 13}, {9, 30}, {28, 28}}) {
    for (const qn_hw kernel : {qn_hw{3, 3}, {5, 5}, {1, 1}, {2, 3}}) {
      for (const auto& [stride, dilation] : strides) {
        for (const qn_padding& padding : paddings) {
          const size_t extent_h = (kernel.h - 1) * dilation.h + 1, extent_w = (kernel.w - 1) * dilation.w + 1;
          if (extent_h > size.h + padding.top + padding.bottom) continue;
          if (extent_w > size.w + padding.left + padding.right) continue;
          list.push_back({.batch = 2,
                          .height = size.h,
                          .width = size.w,
                          .in = 5,
                          .out = 5,
                          .groups = 5,
                          .kernel = kernel,
                          .stride = stride,
                          .dilation = dilation,
                          .padding = padding,
                          .min = -60,
                          .max = 60});
        }
      }
    }
  }
  list.push_back({.height = 7, .width = 7, .in = 33, .out = 33, .groups = 33, .kernel = {7, 7}});
  list.push_back({.height = 20, .width = 20, .in = 3, .out = 3, .groups = 3, .kernel = {20, 20}});
  list.push_back(
      {.height = 3, .width = 200, .in = 3, .out = 3, .groups = 3, .kernel = {3, 3}, .padding = {1, 1, 1, 1}});
  return list;
}

constexpr qn_layout blocked = QN_LAYOUT_PIXEL_BLOCKED;

TEST(DwConv2d, PixelBlocked) {
  size_t special = 0, image = 0;  // cases that rows for one kind of window took
  for (const Conv& c : depthwise_cases()) {
    SCOPED_TRACE(c.text());
    const Case test(c);
    Op op;
    ASSERT_QN_OK(create(c, test.weights.data(), QN_WEIGHTS_OHWI, c.bias ? test.bias.data() : nullptr, nullptr, &op));
    for (const size_t gap : {0, 5}) {
      const Result r =
          run(op, {{c.shape(), test.input}},
              {.tasks = 1 + gap, .in_gap = gap, .out_gap = gap, .in_layout = blocked, .out_layout = blocked});
      test.expect(r);
      if (HasFatalFailure()) return;
      EXPECT_EQ(r.algorithm, QN_ALGORITHM_DEPTHWISE);
    }
    for (const DwconvPlaneRow& row : dwconv_plane_rows()) {
      const Result r =
          run(op, {{c.shape(), test.input}},
              {.algorithm = QN_ALGORITHM_DEPTHWISE, .kernel = row.name, .in_layout = blocked, .out_layout = blocked});
      EXPECT_TRUE(row.kernel != 0 ||
                  (r.status == QN_OK) == (row.block == qn_pixel_block() && may_choose(row, KernelType::f32, row.name)))
          << row.name;
      if (r.status == QN_OK) test.expect(r), special += row.kernel != 0;
      if (HasFatalFailure()) return;
    }
    for (const DwconvImageRow& row : dwconv_image_rows()) {
      const Result r = run(op, {{c.shape(), test.input}},
                           {.tasks = 2,
                            .algorithm = QN_ALGORITHM_DEPTHWISE,
                            .kernel = row.name,
                            .in_gap = 3,
                            .out_gap = 1,
                            .in_layout = blocked,
                            .out_layout = blocked});
      if (r.status == QN_OK) test.expect(r), ++image;
      if (HasFatalFailure()) return;
    }
    const bool one_pixel = c.out_height() * c.out_width() == 1;
    const Result mixed = run(op, {{c.shape(), test.input}}, {.in_layout = blocked});
    EXPECT_EQ(mixed.status, one_pixel ? QN_OK : QN_UNSUPPORTED);
    if (one_pixel) test.expect(mixed);
    EXPECT_EQ(run(op, {{c.shape(), test.input}}, {.out_layout = blocked}).status, QN_UNSUPPORTED);
  }
  const auto rows = dwconv_plane_rows();
  EXPECT_EQ(special > 0, std::any_of(rows.begin(), rows.end(), [](const DwconvPlaneRow& row) {
              return row.kernel != 0 && may_choose(row, KernelType::f32, nullptr) && row.block == qn_pixel_block();
            }));
  EXPECT_GT(image, 0u);
}

// What is beyond the edges is 0 in either layout, and what lies behind an image or between its rows is seen by nobody.
// 32-bit ARM has references for planes alone; these round products, which its kernels with fused multiply-adds do not.
TEST(DwConv2d, PixelBlockedHasTheBitsOfNhwc) {
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  for (const Conv& c : depthwise_cases()) {
    SCOPED_TRACE(c.text());
    std::vector<float> input = reals(count_of(c.shape()), 4);
    const std::vector<float> weights = reals(c.weights(), 5), bias = reals(c.out, 6);
    for (size_t i = 0; i < input.size(); i += 37) input[i] = i % 3 == 0 ? nan : i % 3 == 1 ? infinity : -infinity;
    Op op;
    ASSERT_QN_OK(create(c, weights.data(), QN_WEIGHTS_OHWI, bias.data(), nullptr, &op));
    const Result nhwc = run(op, {{c.shape(), input}}, {.algorithm = QN_ALGORITHM_DEPTHWISE});
    for (const size_t tasks : {1, 3}) {
      const Result r = run(op, {{c.shape(), input}}, {.tasks = tasks, .in_layout = blocked, .out_layout = blocked});
      ASSERT_EQ(r.status, QN_OK) << r.message;
      for (size_t i = 0; i < r.values.size(); ++i) {
        const float value = r.values[i], expected = nhwc.values[i];
        if (value == expected || (std::isnan(expected) && std::isnan(value))) continue;
        const bool rounded = QN_ARCH_ARM32 && r.kernel.ends_with("_ref") && !nhwc.kernel.ends_with("_ref");
        ASSERT_TRUE(rounded && std::abs(value - expected) <= 1e-5f) << i << " " << r.kernel << " " << value;
      }
    }
  }
}

TEST(DwConv2d, PixelBlockedWithAMultiplierIsUnsupported) {
  const Conv c = {.in = 3, .out = 6, .groups = 3};
  const Case test(c);
  Op op;
  ASSERT_QN_OK(create(c, test.weights.data(), QN_WEIGHTS_OHWI, test.bias.data(), nullptr, &op));
  EXPECT_EQ(run(op, {{c.shape(), test.input}},
                {.algorithm = QN_ALGORITHM_DEPTHWISE, .in_layout = blocked, .out_layout = blocked})
                .status,
            QN_UNSUPPORTED);
}

TEST(FullyConnected, AnyRankOfInput) {
  for (const Shape& shape : {Shape{7}, Shape{1, 5}, Shape{3, 67}, Shape{2, 3, 64}, Shape{2, 2, 3, 33}, Shape{19, 130},
                             Shape{2, 1, 2, 2, 1, 9}}) {
    for (const size_t out : {1, 10, 65}) {
      const size_t in = shape.back(), rows = count_of(shape) / in;
      const Conv c = {.batch = rows, .height = 1, .width = 1, .in = in, .out = out, .min = -30, .max = 40};
      const Case test(c);
      qn_fully_connected_params p;
      qn_fully_connected_params_init(&p);
      p.in_channels = in;
      p.out_channels = out;
      p.min = c.min;
      p.max = c.max;
      for (const qn_weights_layout layout : {QN_WEIGHTS_OHWI, QN_WEIGHTS_HWIO}) {
        const std::vector<float> weights = reorder(c, test.weights, layout);
        qn_weights w;
        qn_weights_init(&w);
        w.layout = layout;
        w.data = weights.data();
        Op op;
        ASSERT_QN_OK(qn_fully_connected_create(&p, &w, test.bias.data(), nullptr, &op));
        for (const size_t gap : {0, 3}) {
          for (const size_t tasks : {1, 3}) {
            Result r = run(op, {{shape, test.input}}, {.tasks = tasks, .in_gap = gap, .out_gap = gap});
            Shape expected = shape;
            expected.back() = out;
            EXPECT_EQ(r.shape, expected);
            r.shape = {rows, 1, 1, out};
            test.expect(r);
          }
        }
      }
    }
  }
}

}  // namespace conv2d_test
}  // namespace quern::test
