// Operators that work along an axis of a tensor, whose shape stays: softmax, running sums, LRN; and windows of signals.
#include <algorithm>
#include <cmath>

#include "extra/copy.h"
#include "extra/numbers.h"

namespace quern::extra {
namespace along_axes {
namespace {

// ---- softmax and its kin: one axis, or (`to_end`) all dimensions from the axis on as if they were one

Lanes axis_of(const Node& node) {
  const size_t rank = node.rank(0);
  const bool to_end = node.integer("to_end", 0) != 0;
  const int64_t given = node.integer("axis", to_end ? 1 : -1);
  if (to_end && given == static_cast<int64_t>(rank)) return {node.shape(0), rank, rank};
  const size_t axis = node.axis(given, rank);
  return {node.shape(0), axis, to_end ? rank : axis + 1};
}

void infer_softmax(Inference& node) {
  node.expect(0, QN_F32);
  (void)axis_of(node);
  node.set(0, QN_F32, node.shape(0));
}

constexpr size_t work_of_exponential = 16;

// Calls function(line) for the elements along the axis, which lie a.inner apart; it replaces them by its results.
template <auto function>
void each_line(const Run& node) {
  const Lanes a = axis_of(node);
  const float* const x = node.data<float>(0);
  float* const y = node.output<float>(0);
  std::vector<float> line(a.size);
  Pace pace;
  for (size_t o = 0; o < a.outer; ++o) {
    for (size_t k = 0; k < a.inner; ++k) {
      pace.did(work_of_exponential * a.size);
      const size_t first = o * a.size * a.inner + k;
      for (size_t i = 0; i < a.size; ++i) line[i] = x[first + i * a.inner];
      if (a.size != 0) function(line);
      for (size_t i = 0; i < a.size; ++i) y[first + i * a.inner] = line[i];
    }
  }
}
template <auto function>
constexpr qn_kind of_lines(const char* name) {
  return kind<infer_softmax, each_line<function>>(name, {1, 1}, 1, QN_KIND_IN_PLACE);
}

// The largest is subtracted first, so that nothing overflows.
void softmax(std::vector<float>& line) {
  const float largest = *std::max_element(line.begin(), line.end());
  float sum = 0;
  for (float& x : line) sum += x = std::exp(x - largest);
  for (float& x : line) x /= sum;
}
void log_softmax(std::vector<float>& line) {
  const float largest = *std::max_element(line.begin(), line.end());
  float sum = 0;
  for (const float x : line) sum += std::exp(x - largest);
  const float log_sum = std::log(sum);
  for (float& x : line) x = x - largest - log_sum;
}
// 1 for the first of the largest, 0 for all others.
void hardmax(std::vector<float>& line) {
  const auto at = std::max_element(line.begin(), line.end()) - line.begin();
  std::fill(line.begin(), line.end(), 0.0f);
  line[static_cast<size_t>(at)] = 1;
}

// ---- running sums and products

void infer_running(Inference& node) {
  expect_numbers(node, 0);
  if (count(node.shape(1)) != 1) node.fail("the axis is not one number");
  if (node.type(1) != QN_S32) node.expect(1, QN_S64);
  node.set(0, node.type(0), node.shape(0));
}

// Row i of the result is row i - 1 of the result (i + 1 in reverse) with an element of x: of row i, or (`exclusive`) of
// the row before.
template <class T, class Function>
void run_along(const Lanes& a, bool exclusive, bool reverse, T start, const T* x, T* y, const Function& function) {
  const auto row = [&](size_t o, size_t step) { return (o * a.size + (reverse ? a.size - 1 - step : step)) * a.inner; };
  Pace pace;
  for (size_t o = 0; o < a.outer; ++o) {
    for (size_t step = 0; step < a.size; ++step) {
      pace.did(a.inner);
      const size_t to = row(o, step);
      for (size_t k = 0; k < a.inner; ++k) {
        const T before = step == 0 ? start : y[row(o, step - 1) + k];
        if (!exclusive) y[to + k] = function(before, x[to + k]);
        if (exclusive) y[to + k] = step == 0 ? start : function(before, x[row(o, step - 1) + k]);
      }
    }
  }
}

template <auto function, int start>
void running(const Run& node) {
  const size_t axis = node.axis(node.values(1)[0], node.rank(0));
  const bool exclusive = node.integer("exclusive", 0) != 0, reverse = node.integer("reverse", 0) != 0;
  with_number(node.type(0), [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_along(Lanes(node.shape(0), axis), exclusive, reverse, T{start}, node.data<T>(0), node.output<T>(0),
              [](T a, T b) { return wrapped(a, b, function); });
  });
}
constexpr auto add = [](auto a, auto b) { return a + b; };
constexpr auto multiply = [](auto a, auto b) { return a * b; };

// ---- LRN: divides by a power of the sum of squares of neighbours along dimension 1

void infer_lrn(Inference& node) {
  node.expect(0, QN_F32);
  if (node.rank(0) < 2) node.fail("the input has rank " + std::to_string(node.rank(0)));
  if (node.integer("size", 0) < 1) node.fail("size is not positive");
  node.set(0, QN_F32, node.shape(0));
}

// Sums of squares of neighbouring rows, in time that does not depend on how many there are. The rows are divided into
// parts as long as a window: a window is the end of one part and the beginning of the next, whose sums are kept, or
// lies within a part. Nothing is subtracted, so a large square leaves no error, and no NaN, in windows without it.
class WindowSums {
 public:
  WindowSums(const Lanes& a, size_t part)
      : rows_(a.size),
        width_(a.inner),
        part_(part),
        from_begin_(rows_ * width_),
        to_end_(rows_ * width_),
        sum_(width_) {}

  void read(const float* x) {
    Pace pace;
    for (size_t r = 0; r < rows_; ++r) add(x, r, r % part_ == 0 ? r : r - 1, &from_begin_), pace.did(width_);
    for (size_t r = rows_; r-- > 0;) {
      const bool last = r + 1 == rows_ || (r + 1) % part_ == 0;
      add(x, r, last ? r : r + 1, &to_end_), pace.did(width_);
    }
  }
  // The sums of the rows first .. last. If they lie in one part, they begin or end with it.
  const float* of(size_t first, size_t last) {
    const float* const begin = &from_begin_[last * width_];
    const float* const end = &to_end_[first * width_];
    if (first / part_ == last / part_) return first % part_ == 0 ? begin : end;
    for (size_t k = 0; k < width_; ++k) sum_[k] = end[k] + begin[k];
    return sum_.data();
  }

 private:
  // Sets the sum of row r to its square and the sum of row `before`, unless that is row r itself.
  void add(const float* x, size_t r, size_t before, std::vector<float>* sums) const {
    const float* const row = x + r * width_;
    float* const to = sums->data() + r * width_;
    const float* const from = sums->data() + before * width_;
    for (size_t k = 0; k < width_; ++k) to[k] = before == r ? row[k] * row[k] : from[k] + row[k] * row[k];
  }

  size_t rows_, width_, part_;
  std::vector<float> from_begin_, to_end_, sum_;  // of each row: from its part's first row to it, from it to the last
};

constexpr size_t work_of_power = 32;

void lrn(const Run& node) {
  const int64_t size = node.integer("size", 0);
  const float scale = node.number("alpha", 1e-4f) / static_cast<float>(size);
  const float beta = node.number("beta", 0.75f), bias = node.number("bias", 1);
  const Lanes a(node.shape(0), 1);
  const size_t before = static_cast<size_t>(size - 1) / 2, after = static_cast<size_t>(size) / 2;
  const size_t part = before >= a.size || after >= a.size - before ? a.size : before + after + 1;
  const float* const x = node.data<float>(0);
  float* const y = node.output<float>(0);
  WindowSums sums(a, part);
  Pace pace;
  for (size_t o = 0; o < a.outer && a.inner != 0; ++o) {
    sums.read(x + o * a.size * a.inner);
    for (size_t c = 0; c < a.size; ++c) {
      pace.did(work_of_power * a.inner);
      const float* const of_window = sums.of(c - std::min(c, before), after < a.size - c ? c + after : a.size - 1);
      const size_t at = (o * a.size + c) * a.inner;
      for (size_t k = 0; k < a.inner; ++k) y[at + k] = x[at + k] / std::pow(bias + scale * of_window[k], beta);
    }
  }
}

// ---- windows

void infer_window(Inference& node) {
  if (count(node.shape(0)) != 1) node.fail("the size is not one number");
  const int64_t size = node.values(0)[0];
  if (size < 0) node.fail("the size is negative");
  if (node.wanted(0) == QN_BOOL) node.fail("a window is not bool");
  node.set(0, node.wanted(0), {static_cast<size_t>(size)});
}

// w(i) = a0 - a1 * cos(t) + a2 * cos(2 * t), where t goes round once in `period` steps
void window(const Run& node) {
  const float a0 = node.number("a0", 0.5f), a1 = node.number("a1", 0.5f), a2 = node.number("a2", 0);
  const size_t size = node.output_shape(0)[0], period = node.integer("periodic", 1) != 0 ? size : size - 1;
  with_number(node.output_type(0), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Pace pace;
    for (size_t i = 0; i < size; ++i) {
      pace.did(2 * work_of_power);
      const double t = 2 * 3.14159265358979324 * static_cast<double>(i) / static_cast<double>(period);
      node.output<T>(0)[i] = number<T>(a0 - a1 * std::cos(t) + a2 * std::cos(2 * t));
    }
  });
}

constexpr qn_kind kinds[] = {
    of_lines<hardmax>("hardmax"),
    of_lines<log_softmax>("log_softmax"),
    of_lines<softmax>("any_softmax"),
    kind<infer_running, running<multiply, 1>>("cumulative_product", {2, 2}, 1),
    kind<infer_running, running<add, 0>>("cumulative_sum", {2, 2}, 1),
    kind<infer_lrn, lrn>("any_lrn", {1, 1}, 1),
    kind<infer_window, window>("window", {1, 1}, 1, 0, 1 << 0),
};

}  // namespace
}  // namespace along_axes

Kinds along_kinds() { return needed<along_axes::kinds>(); }

}  // namespace quern::extra
