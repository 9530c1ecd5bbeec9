// Pooling against a naive reference.
#include "kernel/pool.h"

#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/memory.h"
#include "harness.h"

namespace quern::test {
namespace pool2d_test {

struct Pool {
  qn_pool_kind kind = QN_POOL_MAX;
  bool global = false;
  qn_hw kernel = {1, 1}, stride = {1, 1}, dilation = {1, 1};
  qn_padding padding = {0, 0, 0, 0};
  bool ceil_mode = false, count_padding = false;
  float min = -std::numeric_limits<float>::infinity(), max = std::numeric_limits<float>::infinity();
};

qn_status create(const Pool& pool, qn_operator** op) {
  qn_pool2d_params p;
  qn_pool2d_params_init(&p);
  p.kind = pool.kind;
  p.global = pool.global;
  p.kernel = pool.kernel;
  p.stride = pool.stride;
  p.dilation = pool.dilation;
  p.padding = pool.padding;
  p.ceil_mode = pool.ceil_mode;
  p.count_padding = pool.count_padding;
  p.min = pool.min;
  p.max = pool.max;
  return qn_pool2d_create(&p, op);
}

// Output size as PyTorch documents it.
size_t out_size(size_t in, size_t before, size_t after, size_t kernel, size_t stride, size_t dilation, bool ceil_mode) {
  const double room = static_cast<double>(in + before + after) - static_cast<double>((kernel - 1) * dilation + 1);
  const double steps = room / static_cast<double>(stride);
  size_t out = static_cast<size_t>(ceil_mode ? std::ceil(steps) : std::floor(steps)) + 1;
  if (ceil_mode && (out - 1) * stride >= in + before) --out;
  return out;
}

std::vector<double> reference(Pool p, const Shape& s, const std::vector<float>& x, Shape* out) {
  if (p.global) p = {.kind = p.kind, .kernel = {s[1], s[2]}, .min = p.min, .max = p.max};
  const size_t height =
      out_size(s[1], p.padding.top, p.padding.bottom, p.kernel.h, p.stride.h, p.dilation.h, p.ceil_mode);
  const size_t width =
      out_size(s[2], p.padding.left, p.padding.right, p.kernel.w, p.stride.w, p.dilation.w, p.ceil_mode);
  *out = {s[0], height, width, s[3]};
  std::vector<double> result;
  for (size_t i = 0; i < count_of(*out); ++i) {
    const size_t c = i % s[3], ox = i / s[3] % width, oy = i / s[3] / width % height, n = i / s[3] / width / height;
    double sum = 0, largest = -std::numeric_limits<double>::infinity();
    size_t inside = 0, padded = 0;
    for (size_t ky = 0; ky < p.kernel.h; ++ky) {
      for (size_t kx = 0; kx < p.kernel.w; ++kx) {
        const long y = static_cast<long>(oy * p.stride.h + ky * p.dilation.h) - static_cast<long>(p.padding.top);
        const long z = static_cast<long>(ox * p.stride.w + kx * p.dilation.w) - static_cast<long>(p.padding.left);
        padded += y < static_cast<long>(s[1] + p.padding.bottom) && z < static_cast<long>(s[2] + p.padding.right);
        if (y < 0 || z < 0 || y >= static_cast<long>(s[1]) || z >= static_cast<long>(s[2])) continue;
        const double v =
            static_cast<double>(x[((n * s[1] + static_cast<size_t>(y)) * s[2] + static_cast<size_t>(z)) * s[3] + c]);
        ++inside;
        sum += v;
        largest = std::max(largest, v);
      }
    }
    if (inside == 0) largest = std::numeric_limits<float>::lowest();
    const size_t counted = p.count_padding ? padded : inside;
    const double average = counted == 0 ? 0 : sum / static_cast<double>(counted);
    const double v = p.kind == QN_POOL_MAX ? largest : average;
    result.push_back(std::min(std::max(v, static_cast<double>(p.min)), static_cast<double>(p.max)));
  }
  return result;
}

const std::vector<Pool>& pools() {
  static const std::vector<Pool> list = {
      {},
      {.kernel = {2, 2}, .stride = {2, 2}},
      {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true},
      {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1, 1, 1}},
      {.kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 1, 2, 0}, .ceil_mode = true},
      {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1, 1, 1}, .ceil_mode = true, .count_padding = true},
      {.kernel = {2, 3}, .stride = {3, 2}, .padding = {1, 2, 0, 1}, .count_padding = true},
      {.kernel = {2, 2}, .stride = {1, 2}, .dilation = {2, 3}, .padding = {1, 1, 1, 1}},
      {.kernel = {5, 5}, .stride = {5, 5}, .ceil_mode = true},
      {.global = true},
      {.kernel = {3, 3}, .padding = {1, 1, 1, 1}, .min = -1, .max = 2},
      // Larger than most images, with their padding.
      {.kernel = {14, 12}, .stride = {10, 10}, .ceil_mode = true},
      {.kernel = {14, 13}, .stride = {10, 9}, .padding = {1, 0, 2, 1}, .ceil_mode = true, .count_padding = true},
      {.kernel = {7, 2}, .stride = {21, 2}, .dilation = {4, 3}, .padding = {2, 1, 0, 1}, .ceil_mode = true},
      // Some windows step over the image.
      {.kernel = {2, 2}, .dilation = {14, 9}, .padding = {13, 8, 13, 8}},
      {.kernel = {2, 2}, .stride = {2, 3}, .dilation = {8, 9}, .padding = {6, 5, 8, 8}, .count_padding = true},
      {.kernel = {2, 3}, .stride = {3, 2}, .dilation = {13, 8}, .padding = {11, 8, 13, 7}, .min = -1, .max = 2},
  };
  return list;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> list = {{1, 5, 5, 1}, {2, 7, 6, 3}, {1, 6, 9, 16}, {2, 8, 5, 37}, {1, 13, 11, 67}};
  return list;
}

void expect(const Result& r, const std::vector<double>& expected, const Shape& shape) {
  ASSERT_EQ(r.status, QN_OK) << r.message;
  ASSERT_EQ(r.shape, shape);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(r.values[i]), expected[i], 2e-6 * std::abs(expected[i])) << i << " " << r.kernel;
  }
}

TEST(Pool2d, AgreesWithReference) {
  size_t index = 0;
  for (Pool pool : pools()) {
    SCOPED_TRACE("pool " + std::to_string(index++));
    for (const qn_pool_kind kind : {QN_POOL_MAX, QN_POOL_AVERAGE}) {
      pool.kind = kind;
      Op op;
      ASSERT_QN_OK(create(pool, &op));
      for (const Shape& shape : shapes()) {
        const std::vector<float> input = integers(count_of(shape), 1, -9, 9);
        Shape out;
        const std::vector<double> expected = reference(pool, shape, input, &out);
        Result one;
        for (const size_t gap : {0, 3}) {
          one = run(op, {{shape, input}}, {.in_gap = gap, .out_gap = gap});
          expect(one, expected, out);
          if (HasFatalFailure()) return;
        }
        for (const size_t tasks : {2, 4}) {
          const Result many = run(op, {{shape, input}}, {.tasks = tasks});
          EXPECT_TRUE(same_bits(one.values, many.values));
        }
        for (const PoolRow& row : pool_rows()) {
          const bool fits = row.type == KernelType::f32 && (row.kind == PoolKind::max) == (kind == QN_POOL_MAX) &&
                            runs_on(row, cpu().isa);
          const Result r = run(op, {{shape, input}}, {.kernel = row.name, .out_gap = 1});
          EXPECT_EQ(r.status, fits ? QN_OK : QN_UNSUPPORTED) << row.name;
          if (fits) expect(r, expected, out);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

constexpr qn_layout blocked = QN_LAYOUT_PIXEL_BLOCKED;

TEST(Pool2d, PixelBlocked) {
  std::vector<Shape> sizes = shapes();
  sizes.insert(sizes.end(), {{1, 28, 27, 2}, {1, 5, 90, 2}, {3, 56, 56, 1}});
  size_t index = 0;
  for (Pool pool : pools()) {
    SCOPED_TRACE("pool " + std::to_string(index++));
    for (const qn_pool_kind kind : {QN_POOL_MAX, QN_POOL_AVERAGE}) {
      pool.kind = kind;
      Op op;
      ASSERT_QN_OK(create(pool, &op));
      for (const Shape& shape : sizes) {
        const std::vector<float> input = integers(count_of(shape), 1, -9, -1);  // no maximum is that of padding
        Shape out;
        const std::vector<double> expected = reference(pool, shape, input, &out);
        const Result nhwc = run(op, {{shape, input}});
        for (const size_t gap : {0, 3}) {
          const Result r =
              run(op, {{shape, input}},
                  {.tasks = 1 + gap, .in_gap = gap, .out_gap = gap, .in_layout = blocked, .out_layout = blocked});
          expect(r, expected, out);
          if (HasFatalFailure()) return;
          EXPECT_TRUE(same_bits(r.values, nhwc.values)) << r.kernel;
        }
        for (const PoolPlaneRow& row : pool_plane_rows()) {
          const bool fits = (row.kind == PoolKind::max) == (kind == QN_POOL_MAX) && row.block == qn_pixel_block() &&
                            may_choose(row, KernelType::f32, row.name);
          const Result r = run(op, {{shape, input}}, {.kernel = row.name, .in_layout = blocked, .out_layout = blocked});
          EXPECT_EQ(r.status, fits ? QN_OK : QN_UNSUPPORTED) << row.name;
          if (fits) expect(r, expected, out);
          if (HasFatalFailure()) return;
        }
        const bool one_pixel = out[1] * out[2] == 1;
        const Result mixed = run(op, {{shape, input}}, {.in_layout = blocked});
        EXPECT_EQ(mixed.status, one_pixel ? QN_OK : QN_UNSUPPORTED);
        EXPECT_TRUE(!one_pixel || same_bits(mixed.values, nhwc.values));
        EXPECT_EQ(run(op, {{shape, input}}, {.out_layout = blocked}).status, QN_UNSUPPORTED);
      }
    }
  }
}

// NaN and infinity in every place: they reach the windows that they lie in, and no other.
TEST(Pool2d, PixelBlockedSeesNanWhereItIs) {
  const Shape shape = {1, 6, 7, 1};
  for (Pool pool : pools()) {
    for (const qn_pool_kind kind : {QN_POOL_MAX, QN_POOL_AVERAGE}) {
      pool.kind = kind;
      Op op;
      ASSERT_QN_OK(create(pool, &op));
      for (const float odd : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
        for (size_t at = 0; at < count_of(shape); ++at) {
          std::vector<float> input = reals(count_of(shape), 1);
          input[at] = odd;
          const Result nhwc = run(op, {{shape, input}});
          const Result r = run(op, {{shape, input}}, {.in_layout = blocked, .out_layout = blocked});
          ASSERT_EQ(r.status, QN_OK) << r.message;
          for (size_t i = 0; i < r.values.size(); ++i) {
            if (std::isnan(nhwc.values[i]) && std::isnan(r.values[i])) continue;
            ASSERT_EQ(r.values[i], nhwc.values[i]) << i << " with " << odd << " at " << at;
          }
        }
      }
    }
  }
}

TEST(Pool2d, LargeGlobalAverageIsDividedOverChannels) {
  Op op;
  ASSERT_QN_OK(create({.kind = QN_POOL_AVERAGE, .global = true}, &op));
  const Shape shape = {1, 24, 24, 200};
  const std::vector<float> input = reals(count_of(shape), 3);
  const Result one = run(op, {{shape, input}});
  Shape out;
  const std::vector<double> expected = reference({.kind = QN_POOL_AVERAGE, .global = true}, shape, input, &out);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(static_cast<double>(one.values[i]), expected[i], 1e-6);
  for (const size_t tasks : {2, 4}) {
    EXPECT_TRUE(same_bits(one.values, run(op, {{shape, input}}, {.tasks = tasks}).values));
  }
}

TEST(Pool2d, NanInAWindowIsSeen) {
  for (const qn_pool_kind kind : {QN_POOL_MAX, QN_POOL_AVERAGE}) {
    Op op;
    ASSERT_QN_OK(create({.kind = kind, .kernel = {2, 2}, .stride = {2, 2}, .min = 0, .max = 5}, &op));
    const Result r = run(op, {{{1, 2, 4, 1}, {1, std::nanf(""), 2, 3, 4, 7, 8, 9}}});
    EXPECT_TRUE(std::isnan(r.values[0]));
    EXPECT_EQ(r.values[1], 5);
  }
}

// An image of -infinity is not what padding alone is.
TEST(Pool2d, WindowWithoutAPixel) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), lowest = std::numeric_limits<float>::lowest();
  Pool pool = {.kernel = {1, 2}, .dilation = {1, 3}, .padding = {0, 2, 0, 2}};
  for (const auto& [kind, expected] : {std::pair(QN_POOL_MAX, lowest), std::pair(QN_POOL_AVERAGE, 0.0f)}) {
    pool.kind = kind;
    Op op;
    ASSERT_QN_OK(create(pool, &op));
    for (const qn_layout layout : {QN_LAYOUT_NHWC, blocked}) {
      const Result r = run(op, {{{1, 1, 2, 1}, {-infinity, 1}}}, {.in_layout = layout, .out_layout = layout});
      ASSERT_EQ(r.status, QN_OK) << r.message;
      EXPECT_EQ(r.values, (std::vector<float>{1, expected, -infinity}));
      const Result alone = run(op, {{{1, 1, 1, 1}, {-infinity}}}, {.in_layout = layout, .out_layout = layout});
      EXPECT_EQ(alone.values, (std::vector<float>{expected, expected}));
    }
  }
}

// Rounding up makes one window out of a part of one, and not out of less than nothing.
TEST(Pool2d, ImageSmallerThanTheWindow) {
  const Pool pool = {.kernel = {5, 5}, .stride = {2, 2}, .ceil_mode = true};
  Op op, op_down;
  ASSERT_QN_OK(create(pool, &op));
  EXPECT_EQ(run(op, {{{1, 4, 4, 1}, integers(16, 1, -9, 9)}}).shape, (Shape{1, 1, 1, 1}));
  EXPECT_EQ(run(op, {{{1, 3, 4, 1}, integers(12, 1, -9, 9)}}).status, QN_INVALID_ARGUMENT);
  Pool down = pool;
  down.ceil_mode = false;
  ASSERT_QN_OK(create(down, &op_down));
  EXPECT_EQ(run(op_down, {{{1, 4, 4, 1}, integers(16, 1, -9, 9)}}).status, QN_INVALID_ARGUMENT);
}

// A window sees no more than its image, however far its padding reaches: its other taps cost neither time nor tables.
TEST(Pool2d, WindowFarLargerThanTheImage) {
  constexpr size_t large = size_t{1} << 24, half = large / 2;
  Pool pool = {.kernel = {large, large}, .stride = {2, 1}, .padding = {half, half, half, half}};
  for (const bool all : {false, true}) {
    pool.count_padding = all;
    for (const qn_pool_kind kind : {QN_POOL_MAX, QN_POOL_AVERAGE}) {
      pool.kind = kind;
      Op op;
      ASSERT_QN_OK(create(pool, &op));
      const float average = all ? 9 / (static_cast<float>(large) * large) : 9.0f / 2;
      for (const qn_layout layout : {QN_LAYOUT_NHWC, blocked}) {
        const Result r = run(op, {{{1, 1, 2, 1}, {4, 5}}}, {.in_layout = layout, .out_layout = layout});
        ASSERT_EQ(r.status, QN_OK) << r.message;
        EXPECT_EQ(r.values, (std::vector<float>(3, kind == QN_POOL_MAX ? 5 : average)));
      }
    }
  }
}

// Small parameters can ask for enormous tables: refused, neither allocated nor walked through.
TEST(Pool2d, EnormousWindowsAreRefused) {
  constexpr size_t large = size_t{1} << 27;
  Op op;
  ASSERT_QN_OK(create({.kernel = {large, 3}, .padding = {large - 1, 1, large - 1, 1}}, &op));
  EXPECT_EQ(run(op, {{{1, 1, 1, 1}, {1}}}).status, QN_UNSUPPORTED);
  EXPECT_EQ(run(op, {{{1, 1, 1, 1}, {1}}}, {.in_layout = blocked, .out_layout = blocked}).status, QN_UNSUPPORTED);
}

// Addresses without memory behind them, but for pages that are used.
class Sparse {
 public:
  explicit Sparse(size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Sparse() {
    if (data() != nullptr) munmap(data_, bytes_);
  }
  char* data() const { return data_ == MAP_FAILED ? nullptr : static_cast<char*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

constexpr uint64_t far_row = (uint64_t{1} << 30) - 1024;  // two of them are less than 2 GiB, a row's pixels included

// Runs on an image whose rows are as far apart, and compares with the same image, dense.
void expect_far_rows(const qn_operator* op, const Shape& shape, qn_algorithm algorithm = QN_ALGORITHM_AUTO) {
  const auto stride = static_cast<size_t>(far_row);
  const Sparse memory(shape[1] * stride);
  if (memory.data() == nullptr) GTEST_SKIP() << "the system does not give so many addresses";
  const std::vector<float> x = reals(count_of(shape), 1);
  const size_t row = shape[2] * shape[3];
  for (size_t y = 0; y < shape[1]; ++y) std::memcpy(memory.data() + y * stride, &x[y * row], row * sizeof(float));
  qn_tensor in = dense(shape);
  const size_t strides[] = {shape[1] * stride, stride, shape[3] * sizeof(float), sizeof(float)};
  std::copy(strides, strides + 4, in.stride);
  const Result expected = run(op, {{shape, x}}, {.algorithm = algorithm});
  ASSERT_EQ(expected.status, QN_OK) << expected.message;
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.algorithm = algorithm;
  qn_plan* plan = nullptr;
  ASSERT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, &options, &plan));
  const Buffer workspace(qn_plan_workspace_size(plan));
  std::vector<float> y(count_of(expected.shape));
  const void* inputs[] = {memory.data()};
  void* outputs[] = {y.data()};
  EXPECT_QN_OK(qn_plan_run(plan, inputs, outputs, workspace.data(), workspace.size(), nullptr));
  qn_plan_release(plan);
  EXPECT_TRUE(same_bits(y, expected.values));
}

TEST(Pool2d, ImagesMayBeLargerThan32BitsReach) {
  if (sizeof(size_t) == 4) GTEST_SKIP() << "no address is as far";
  for (const qn_pool_kind kind : {QN_POOL_MAX, QN_POOL_AVERAGE}) {
    for (const qn_hw stride : {qn_hw{1, 1}, qn_hw{2, 2}}) {
      for (const size_t padding : {0, 1}) {
        Op op;
        ASSERT_QN_OK(create(
            {.kind = kind, .kernel = {3, 3}, .stride = stride, .padding = {padding, padding, padding, padding}}, &op));
        expect_far_rows(op, {1, 7, 9, 5});
      }
    }
  }
}

TEST(DwConv2d, ImagesMayBeLargerThan32BitsReach) {
  if (sizeof(size_t) == 4) GTEST_SKIP() << "no address is as far";
  qn_dwconv2d_params p;
  qn_dwconv2d_params_init(&p);
  p.channels = 20;
  p.kernel = {3, 3};
  p.stride = {2, 2};
  p.padding = {1, 1, 1, 1};
  const std::vector<float> weights = reals(180, 2);
  qn_weights w;
  qn_weights_init(&w);
  w.data = weights.data();
  Op op;
  ASSERT_QN_OK(qn_dwconv2d_create(&p, &w, nullptr, nullptr, &op));
  expect_far_rows(op, {1, 7, 9, 20}, QN_ALGORITHM_DEPTHWISE);
}

TEST(Pool2d, WindowsBeyond32BitsAreRefused) {
  if (sizeof(size_t) == 4) GTEST_SKIP() << "no address is as far";
  const auto refused = [](const Pool& pool, size_t stride) {
    Op op;
    EXPECT_QN_OK(create(pool, &op));
    qn_tensor in = dense({1, 7, 9, 5});
    const size_t strides[] = {7 * stride, stride, 20, 4};
    std::copy(strides, strides + 4, in.stride);
    qn_plan* plan = nullptr;
    const qn_status status = qn_operator_plan(op, &in, 1, nullptr, 0, nullptr, &plan);
    qn_plan_release(plan);
    if (status == QN_OK) return false;
    EXPECT_EQ(status, QN_UNSUPPORTED);
    const std::string message = qn_last_message();
    EXPECT_NE(message.find(std::to_string(stride) + " bytes apart, reach further than 2 GiB"), message.npos) << message;
    return true;
  };
  const auto stride = static_cast<size_t>(far_row);
  EXPECT_FALSE(refused({.kernel = {3, 3}}, stride));
  EXPECT_TRUE(refused({.kernel = {3, 3}}, stride + 1024));
  EXPECT_TRUE(refused({.kernel = {4, 3}}, stride));
  EXPECT_TRUE(refused({.kernel = {2, 3}, .dilation = {3, 1}}, stride));
  EXPECT_TRUE(refused({.global = true}, stride));
  EXPECT_FALSE(refused({.global = true}, stride / 3));
}

}  // namespace pool2d_test
}  // namespace quern::test
