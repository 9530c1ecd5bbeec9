// Concat, slice, pad and transpose: exact copies.
#include "harness.h"

namespace quern::test {
namespace {

// Position in a dense tensor, outermost first.
std::vector<size_t> position(const Shape& shape, size_t index) {
  std::vector<size_t> at(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    at[d] = index % shape[d];
    index /= shape[d];
  }
  return at;
}

size_t index_of(const Shape& shape, const std::vector<size_t>& at) {
  size_t index = 0;
  for (size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + at[d];
  return index;
}

// Runs with gaps and tasks in all combinations and expects these values.
void expect_all(const qn_operator* op, const std::vector<Input>& inputs, const Shape& shape,
                const std::vector<float>& expected) {
  for (const size_t in_gap : {0, 3}) {
    for (const size_t out_gap : {0, 5}) {
      for (const size_t tasks : {1, 2, 4}) {
        const Result r = run(op, inputs, {.tasks = tasks, .in_gap = in_gap, .out_gap = out_gap});
        ASSERT_EQ(r.status, QN_OK) << r.message;
        ASSERT_EQ(r.shape, shape);
        ASSERT_TRUE(same_bits(r.values, expected)) << "gaps " << in_gap << " " << out_gap << " tasks " << tasks;
      }
    }
  }
}

TEST(Concat, AlongEveryAxis) {
  for (const Shape& shape : {Shape{3}, Shape{2, 3}, Shape{2, 3, 4, 5}, Shape{1, 20, 30, 17}, Shape{2, 1, 2, 3, 1, 2}}) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      std::vector<Input> inputs;
      Shape total = shape;
      total[axis] = 0;
      for (uint32_t i = 0; i < 4; ++i) {
        Shape s = shape;
        s[axis] += i * 2;
        total[axis] += s[axis];
        inputs.push_back({s, reals(count_of(s), i)});
      }
      std::vector<float> expected(count_of(total));
      size_t first = 0;
      for (const Input& input : inputs) {
        for (size_t i = 0; i < input.values.size(); ++i) {
          std::vector<size_t> at = position(input.shape, i);
          at[axis] += first;
          expected[index_of(total, at)] = input.values[i];
        }
        first += input.shape[axis];
      }
      for (const int sign : {0, 1}) {
        qn_concat_params p;
        qn_concat_params_init(&p);
        p.axis = static_cast<int>(axis) - sign * static_cast<int>(shape.size());
        Op op;
        ASSERT_QN_OK(qn_concat_create(&p, &op));
        expect_all(op, inputs, total, expected);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Slice, TakesRanges) {
  constexpr size_t end = SIZE_MAX;
  const struct {
    Shape shape;
    std::vector<size_t> begin, until;
  } cases[] = {{{}, {}, {}},
               {{9}, {2}, {7}},
               {{9}, {8}, {end}},
               {{2, 5, 6, 7}, {0, 1, 2, 3}, {end, 4, end, 5}},
               {{9}, {end - 3}, {end - 1}},
               {{9}, {end - 9}, {2}},
               {{2, 5, 6, 7}, {0, 3, end - 4, end - 1}, {end, end - 1, 3, end}},
               {{2, 5, 6, 7}, {1, 0, 0, 0}, {2, end, end, end}},
               {{1, 60, 70, 11}, {0, 5, 6, 0}, {1, 55, 66, 11}},
               {{2, 2, 3, 2, 2, 3}, {1, 0, 1, 0, 1, 1}, {2, 2, 3, 1, 2, 2}}};
  for (const auto& c : cases) {
    qn_slice_params p;
    qn_slice_params_init(&p);
    p.rank = static_cast<uint32_t>(c.shape.size());
    Shape shape, first;
    const auto bound = [&](size_t value, size_t i) { return value > end / 2 ? c.shape[i] - (end - value) : value; };
    for (size_t i = 0; i < c.shape.size(); ++i) {
      p.begin[i] = c.begin[i];
      p.end[i] = c.until[i];
      first.push_back(bound(c.begin[i], i));
      shape.push_back(bound(c.until[i], i) - first[i]);
    }
    const std::vector<float> x = reals(count_of(c.shape), 1);
    std::vector<float> expected;
    for (size_t i = 0; i < count_of(shape); ++i) {
      std::vector<size_t> at = position(shape, i);
      for (size_t d = 0; d < at.size(); ++d) at[d] += first[d];
      expected.push_back(x[index_of(c.shape, at)]);
    }
    Op op;
    ASSERT_QN_OK(qn_slice_create(&p, &op));
    expect_all(op, {{c.shape, x}}, shape, expected);
    if (HasFatalFailure()) return;
  }
}

TEST(Pad, Surrounds) {
  const struct {
    Shape shape;
    std::vector<size_t> before, after;
  } cases[] = {{{}, {}, {}},
               {{5}, {0}, {0}},
               {{5}, {3}, {2}},
               {{3, 4}, {0, 2}, {1, 0}},
               {{2, 3, 4, 5}, {1, 2, 0, 3}, {0, 1, 2, 1}},
               {{1, 56, 56, 24}, {0, 1, 1, 0}, {0, 1, 1, 0}},
               {{2, 1, 2, 1, 2, 3}, {1, 1, 1, 1, 1, 1}, {0, 1, 0, 1, 0, 1}}};
  for (const auto& c : cases) {
    qn_pad_params p;
    qn_pad_params_init(&p);
    p.rank = static_cast<uint32_t>(c.shape.size());
    p.value = -2.5f;
    Shape shape;
    for (size_t i = 0; i < c.shape.size(); ++i) {
      p.before[i] = c.before[i];
      p.after[i] = c.after[i];
      shape.push_back(c.shape[i] + c.before[i] + c.after[i]);
    }
    const std::vector<float> x = reals(count_of(c.shape), 1);
    std::vector<float> expected(count_of(shape), p.value);
    for (size_t i = 0; i < x.size(); ++i) {
      std::vector<size_t> at = position(c.shape, i);
      for (size_t d = 0; d < at.size(); ++d) at[d] += c.before[d];
      expected[index_of(shape, at)] = x[i];
    }
    Op op;
    ASSERT_QN_OK(qn_pad_create(&p, &op));
    expect_all(op, {{c.shape, x}}, shape, expected);
    if (HasFatalFailure()) return;
  }
}

TEST(Transpose, EveryPermutation) {
  const std::pair<Shape, std::vector<uint32_t>> cases[] = {
      {{7}, {0}},
      {{3, 5}, {1, 0}},
      {{17, 33}, {1, 0}},
      {{2, 3, 4}, {2, 0, 1}},
      {{2, 3, 4}, {1, 0, 2}},
      {{2, 3, 4}, {0, 2, 1}},
      {{2, 3, 15, 17}, {0, 2, 3, 1}},
      {{2, 15, 17, 3}, {0, 3, 1, 2}},
      {{1, 3, 60, 61}, {0, 2, 3, 1}},
      {{1, 64, 29, 30}, {0, 2, 3, 1}},
      {{1, 29, 30, 61}, {0, 3, 1, 2}},
      {{2, 16, 12, 20}, {3, 2, 1, 0}},
      {{1, 1, 9, 1}, {3, 2, 1, 0}},
      {{4, 1, 5, 1}, {2, 1, 0, 3}},
      {{2, 3, 2, 3, 2, 3}, {5, 3, 1, 4, 2, 0}},
      {{2, 3, 4, 5}, {0, 1, 2, 3}},
      {{3, 5, 2, 58}, {0, 1, 3, 2}},
      {{400, 2, 61}, {0, 2, 1}},
  };
  for (const auto& [shape, permutation] : cases) {
    qn_transpose_params p;
    qn_transpose_params_init(&p);
    p.rank = static_cast<uint32_t>(shape.size());
    Shape out;
    for (size_t i = 0; i < shape.size(); ++i) {
      p.permutation[i] = permutation[i];
      out.push_back(shape[permutation[i]]);
    }
    const std::vector<float> x = reals(count_of(shape), 1);
    std::vector<float> expected;
    for (size_t i = 0; i < x.size(); ++i) {
      const std::vector<size_t> to = position(out, i);
      std::vector<size_t> at(to.size());
      for (size_t d = 0; d < to.size(); ++d) at[permutation[d]] = to[d];
      expected.push_back(x[index_of(shape, at)]);
    }
    Op op;
    ASSERT_QN_OK(qn_transpose_create(&p, &op));
    expect_all(op, {{shape, x}}, out, expected);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace quern::test
