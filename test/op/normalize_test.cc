// Softmax, LRN and resize against naive references in double precision.
#include <cmath>
#include <limits>

#include "harness.h"
#include "kernel/eltwise.h"

namespace quern::test {
namespace normalize_test {

void expect_near(const Result& r, const Shape& shape, const std::vector<double>& expected, double relative,
                 double absolute) {
  ASSERT_EQ(r.status, QN_OK) << r.message;
  ASSERT_EQ(r.shape, shape);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(r.values[i]), expected[i], relative * std::abs(expected[i]) + absolute) << i;
  }
}

// Gaps, and tasks that must not change a bit.
void expect_all(const qn_operator* op, const Input& input, const Shape& shape, const std::vector<double>& expected,
                double relative, double absolute) {
  const Result one = run(op, {input});
  expect_near(one, shape, expected, relative, absolute);
  for (const size_t gap : {0, 3}) {
    for (const size_t tasks : {1, 2, 4}) {
      const Result r = run(op, {input}, {.tasks = tasks, .in_gap = gap, .out_gap = 2 * gap});
      ASSERT_EQ(r.status, QN_OK) << r.message;
      ASSERT_TRUE(same_bits(r.values, one.values)) << "gap " << gap << " tasks " << tasks;
    }
  }
}

std::vector<double> softmax(const Shape& shape, size_t axis, const std::vector<float>& x) {
  size_t inner = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  const size_t n = shape[axis];
  std::vector<double> y(x.size());
  for (size_t row = 0; row < x.size() / n; ++row) {
    const size_t first = row / inner * inner * n + row % inner;
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[first + i * inner]));
    for (size_t i = 0; i < n; ++i) y[first + i * inner] = std::exp(static_cast<double>(x[first + i * inner])) / sum;
  }
  return y;
}

TEST(Softmax, AlongEveryAxis) {
  for (const Shape& shape : {Shape{1}, Shape{10}, Shape{3, 1000}, Shape{2, 5, 6, 7}, Shape{2, 21, 1, 1},
                             Shape{1, 30, 31, 21}, Shape{2, 3, 1, 2, 3, 2}}) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const std::vector<float> x = reals(count_of(shape), 1, -8, 8);
      for (const int sign : {0, 1}) {
        qn_softmax_params p;
        qn_softmax_params_init(&p);
        p.axis = static_cast<int>(axis) - sign * static_cast<int>(shape.size());
        Op op;
        ASSERT_QN_OK(qn_softmax_create(&p, &op));
        expect_all(op, {shape, x}, shape, softmax(shape, axis, x), 1e-6, 1e-9);
        if (HasFatalFailure()) return;
        for (const ReduceRow& row : reduce_rows()) {
          if (!runs_on(row, cpu().isa)) continue;
          const Result r = run(op, {{shape, x}}, {.kernel = row.name});
          EXPECT_EQ(r.status, row.kind == ReduceKind::expsum ? QN_OK : QN_UNSUPPORTED) << row.name;
          if (r.status == QN_OK) expect_near(r, shape, softmax(shape, axis, x), 1e-6, 1e-9);
        }
      }
    }
  }
}

TEST(Softmax, LargeValuesAndNan) {
  qn_softmax_params p;
  qn_softmax_params_init(&p);
  Op op;
  ASSERT_QN_OK(qn_softmax_create(&p, &op));
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Result r = run(op, {{{4, 3}, {1e30f, 1e30f, -1e30f, -infinity, 0, 0, -1e4f, -1e4f, -1e4f, 1, nan, 2}}});
  const std::vector<float> expected = {0.5f, 0.5f, 0, 0, 0.5f, 0.5f};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(r.values[i], expected[i]) << i;
  for (size_t i = 6; i < 9; ++i) EXPECT_FLOAT_EQ(r.values[i], 1.0f / 3) << i;
  for (size_t i = 9; i < 12; ++i) EXPECT_TRUE(std::isnan(r.values[i])) << i;
}

// In time linear in the channels. A large square must leave nothing in the sums of windows without it.
TEST(Lrn, WindowsAsLongAsTheRow) {
  constexpr size_t channels = 65536;
  for (const size_t size : {size_t{3}, size_t{64}, size_t{1000}, channels - 1, channels, 2 * channels, SIZE_MAX}) {
    qn_lrn_params p;
    qn_lrn_params_init(&p);
    p.size = size;
    p.alpha = static_cast<float>(size) * 1e-3f;
    std::vector<float> x = reals(channels, 3);
    x[100] = 1e12f;
    std::vector<double> squares(channels + 1);  // without that one
    for (size_t c = 0; c < channels; ++c) {
      squares[c + 1] = squares[c] + (c == 100 ? 0 : std::pow(static_cast<double>(x[c]), 2));
    }
    std::vector<double> expected;
    for (size_t c = 0; c < channels; ++c) {
      const size_t first = c - std::min(c, (size - 1) / 2),
                   last = size / 2 < channels - c ? c + size / 2 : channels - 1;
      const double sum = squares[last + 1] - squares[first] + (first <= 100 && last >= 100 ? 1e24 : 0);
      const double factor = static_cast<double>(p.alpha) / static_cast<double>(size);
      expected.push_back(static_cast<double>(x[c]) * std::pow(1 + factor * sum, -0.75));
    }
    Op op;
    ASSERT_QN_OK(qn_lrn_create(&p, &op));
    expect_all(op, {{1, channels}, x}, {1, channels}, expected, 2e-6, 1e-30);
  }
}

TEST(Lrn, AgreesWithReference) {
  for (const size_t size : {1, 2, 5, 6, 100}) {
    for (const float beta : {0.75f, 0.5f, 1.3f}) {
      qn_lrn_params p;
      qn_lrn_params_init(&p);
      p.size = size;
      p.alpha = 0.3f;
      p.beta = beta;
      p.k = 1.5f;
      Op op;
      ASSERT_QN_OK(qn_lrn_create(&p, &op));
      for (const Shape& shape : {Shape{1}, Shape{3, 9}, Shape{2, 3, 4, 33}, Shape{1, 17, 13, 40}}) {
        const std::vector<float> x = reals(count_of(shape), 1, -3, 3);
        const long channels = static_cast<long>(shape.back());
        std::vector<double> expected;
        for (size_t i = 0; i < x.size(); ++i) {
          const long c = static_cast<long>(i) % channels, half = static_cast<long>(size - 1) / 2;
          double sum = 0;
          for (long j = std::max(0l, c - half); j <= std::min(channels - 1, c + static_cast<long>(size / 2)); ++j) {
            const double v = static_cast<double>(x[i - static_cast<size_t>(c) + static_cast<size_t>(j)]);
            sum += v * v;
          }
          const double base = static_cast<double>(p.k) + static_cast<double>(p.alpha) / static_cast<double>(size) * sum;
          expected.push_back(static_cast<double>(x[i]) / std::pow(base, static_cast<double>(beta)));
        }
        expect_all(op, {shape, x}, shape, expected, 2e-6, 1e-7);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// What op.h says, in double precision.
struct Resize {
  qn_resize_kind kind;
  qn_resize_coordinates coordinates;
  qn_resize_rounding rounding;
  double s;  // in / out, or 1 / scale
  long in;
  size_t out;

  double position(size_t i) const {
    const double x = static_cast<double>(i);
    if (coordinates == QN_COORDINATES_ASYMMETRIC) return x * s;
    if (coordinates == QN_COORDINATES_HALF_PIXEL) return (x + 0.5) * s - 0.5;
    if (coordinates == QN_COORDINATES_HALF_PIXEL_OR_0) return out == 1 ? 0 : (x + 0.5) * s - 0.5;
    return out == 1 ? 0 : x * static_cast<double>(in - 1) / static_cast<double>(out - 1);
  }
  // Weights of the input's pixels.
  std::vector<std::pair<size_t, double>> taps(size_t i) const {
    const auto pixel = [&](double x) {
      return static_cast<size_t>(std::min(std::max(static_cast<long>(x), 0l), in - 1));
    };
    const double x = position(i), low = std::floor(x);
    if (kind == QN_RESIZE_BILINEAR) return {{pixel(low), 1 - (x - low)}, {pixel(low + 1), x - low}};
    const double fraction = x - low;
    bool up = false;
    switch (rounding) {
      case QN_ROUND_FLOOR: break;
      case QN_ROUND_CEIL: up = fraction > 0; break;
      case QN_ROUND_HALF_DOWN: up = fraction > 0.5; break;
      case QN_ROUND_HALF_UP: up = fraction >= 0.5; break;
    }
    return {{pixel(low + (up ? 1 : 0)), 1}};
  }
};

TEST(Resize2d, AgreesWithReference) {
  const Shape shape = {2, 5, 6, 7};
  const std::vector<float> x = reals(count_of(shape), 1);
  const struct {
    qn_hw size;
    float scale;
  } targets[] = {{{10, 12}, 1}, {{7, 11}, 1},   {{3, 2}, 1},    {{1, 1}, 1},
                 {{0, 0}, 2},   {{0, 0}, 0.5f}, {{0, 0}, 1.7f}, {{0, 9}, 3}};
  for (const qn_resize_kind kind : {QN_RESIZE_NEAREST, QN_RESIZE_BILINEAR}) {
    for (const auto coordinates : {QN_COORDINATES_HALF_PIXEL, QN_COORDINATES_ASYMMETRIC, QN_COORDINATES_ALIGN_CORNERS,
                                   QN_COORDINATES_HALF_PIXEL_OR_0}) {
      for (const auto rounding : {QN_ROUND_FLOOR, QN_ROUND_CEIL, QN_ROUND_HALF_DOWN, QN_ROUND_HALF_UP}) {
        for (const auto& target : targets) {
          qn_resize2d_params p;
          qn_resize2d_params_init(&p);
          p.kind = kind;
          p.coordinates = coordinates;
          p.rounding = rounding;
          p.size = target.size;
          p.scale_h = p.scale_w = target.scale;
          const auto direction = [&](size_t in, size_t size) {
            const double scale = static_cast<double>(target.scale);
            const size_t out = size != 0 ? size : static_cast<size_t>(std::floor(static_cast<double>(in) * scale));
            const double s = size != 0 ? static_cast<double>(in) / static_cast<double>(size) : 1 / scale;
            return Resize{kind, coordinates, rounding, s, static_cast<long>(in), out};
          };
          const Resize h = direction(shape[1], target.size.h), w = direction(shape[2], target.size.w);
          const Shape out = {shape[0], h.out, w.out, shape[3]};
          std::vector<double> expected;
          for (size_t i = 0; i < count_of(out); ++i) {
            const size_t c = i % out[3], ox = i / out[3] % out[2], oy = i / out[3] / out[2] % out[1],
                         n = i / out[3] / out[2] / out[1];
            double sum = 0;
            for (const auto& [iy, wy] : h.taps(oy)) {
              for (const auto& [ix, wx] : w.taps(ox)) {
                sum += wy * wx * static_cast<double>(x[((n * shape[1] + iy) * shape[2] + ix) * shape[3] + c]);
              }
            }
            expected.push_back(sum);
          }
          Op op;
          ASSERT_QN_OK(qn_resize2d_create(&p, &op));
          expect_all(op, {shape, x}, out, expected, 0, 1e-6);
          if (HasFatalFailure()) {
            FAIL() << "kind " << kind << " coordinates " << coordinates << " rounding " << rounding << " size "
                   << target.size.h << "x" << target.size.w << " scale " << target.scale;
          }
        }
      }
    }
  }
}

}  // namespace normalize_test
}  // namespace quern::test
