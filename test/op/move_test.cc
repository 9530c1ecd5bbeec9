// Concat, slice, pad and transpose: exact copies.
#include <cstring>
#include <functional>

#include "harness.h"

namespace quern::test {
namespace move_test {

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
      const uint32_t parts = shape.size() == 2 ? 40 : 4;  // also more than an integer has bits
      for (uint32_t i = 0; i < parts; ++i) {
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

// ---- types

using MakeMover = std::function<qn_status(qn_type type, float fill, qn_operator** op)>;

template <class Params>
MakeMover mover(void (*init)(Params*), qn_status (*create)(const Params*, qn_operator**),
                const std::function<void(Params&)>& change) {
  return [=](qn_type type, float fill, qn_operator** op) {
    Params p;
    init(&p);
    p.type = type;
    change(p);
    if constexpr (std::is_same_v<Params, qn_pad_params>) p.value = fill;
    return create(&p, op);
  };
}

struct Moved {
  const char* name;
  std::vector<Shape> inputs;
  MakeMover make;
};

std::vector<Moved> movers() {
  const auto transpose = [](const std::vector<uint32_t>& order) {
    return mover<qn_transpose_params>(qn_transpose_params_init, qn_transpose_create, [=](qn_transpose_params& p) {
      p.rank = static_cast<uint32_t>(order.size());
      std::copy(order.begin(), order.end(), p.permutation);
    });
  };
  const auto slice = [](qn_slice_params& p) { p.rank = 3, p.begin[0] = p.begin[2] = 1, p.end[1] = 4; };
  const auto pad = [](qn_pad_params& p) { p.rank = 3, p.before[0] = p.before[2] = 2, p.after[1] = 3; };
  return {{"transpose", {{1, 19, 23, 5}}, transpose({0, 3, 1, 2})},
          {"transpose of planes", {{1, 21, 9, 30}}, transpose({0, 2, 3, 1})},
          {"transpose of colours", {{1, 3, 130, 131}}, transpose({0, 2, 3, 1})},
          {"shuffle", {{2, 2, 37}}, transpose({0, 2, 1})},
          {"transpose of 8", {{2, 3, 1, 2, 2, 3, 2, 5}}, transpose({7, 0, 5, 3, 1, 2, 4, 6})},
          {"slice", {{3, 5, 40}}, mover<qn_slice_params>(qn_slice_params_init, qn_slice_create, slice)},
          {"pad", {{3, 5, 7}}, mover<qn_pad_params>(qn_pad_params_init, qn_pad_create, pad)},
          {"concat",
           {{2, 3}, {2, 8}},
           mover<qn_concat_params>(qn_concat_params_init, qn_concat_create, [](qn_concat_params&) {})}};
}

std::vector<char> run_mover(const Moved& moved, qn_type type, float fill, size_t tasks,
                            const std::vector<std::vector<char>>& inputs) {
  Op op;
  EXPECT_QN_OK(moved.make(type, fill, &op));
  std::vector<qn_tensor> tensors;
  std::vector<const void*> addresses;
  for (size_t i = 0; i < inputs.size(); ++i) {
    tensors.push_back(dense(moved.inputs[i]));
    tensors.back().type = type;
    addresses.push_back(inputs[i].data());
  }
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.tasks = tasks;
  qn_plan* plan = nullptr;
  EXPECT_QN_OK(qn_operator_plan(op, tensors.data(), tensors.size(), nullptr, 0, &options, &plan));
  qn_tensor out;
  EXPECT_QN_OK(qn_plan_output(plan, 0, &out));
  EXPECT_EQ(out.type, type);
  std::vector<char> result(qn_tensor_bytes(&out));
  void* const output = result.data();
  EXPECT_QN_OK(qn_plan_run(plan, addresses.data(), &output, nullptr, 0, nullptr));
  qn_plan_release(plan);
  return result;
}

// An element of a type moves where the float of the same number does.
TEST(Move, ElementsOfAllTypes) {
  for (const Moved& moved : movers()) {
    std::vector<std::vector<char>> numbers;
    size_t all = 0;
    for (const Shape& shape : moved.inputs) {
      std::vector<char>& bytes = numbers.emplace_back(count_of(shape) * sizeof(float));
      for (size_t i = 0; i < count_of(shape); ++i, ++all) {
        const auto number = static_cast<float>(all);
        std::memcpy(&bytes[i * sizeof number], &number, sizeof number);
      }
    }
    const std::vector<char> placed = run_mover(moved, QN_F32, -1, 1, numbers);
    for (const qn_type type : {QN_S8, QN_U8, QN_BOOL, QN_F16, QN_S32, QN_S64}) {
      for (const size_t tasks : {1, 4}) {
        SCOPED_TRACE(std::string(moved.name) + " of " + qn_type_string(type));
        const size_t item = qn_type_size(type);
        const auto byte = [&](size_t number, size_t i) { return static_cast<char>((number * 7 + i * 31) % 251); };
        std::vector<std::vector<char>> inputs;
        size_t first = 0;
        for (const std::vector<char>& bytes : numbers) {
          const size_t count = bytes.size() / sizeof(float);
          std::vector<char>& elements = inputs.emplace_back();
          for (size_t n = first; n < first + count; ++n) {
            for (size_t i = 0; i < item; ++i) elements.push_back(byte(n, i));
          }
          first += count;
        }
        const bool has_one = type != QN_F16;
        const std::vector<char> result = run_mover(moved, type, has_one ? 1 : 0, tasks, inputs);
        ASSERT_EQ(result.size() / item, placed.size() / sizeof(float));
        for (size_t at = 0; at < result.size(); ++at) {
          float number;
          std::memcpy(&number, &placed[at / item * sizeof number], sizeof number);
          const char fill = has_one && at % item == 0 ? 1 : 0;
          const char expected = number < 0 ? fill : byte(static_cast<size_t>(number), at % item);
          ASSERT_EQ(result[at], expected) << "byte " << at;
        }
      }
    }
  }
}

TEST(Move, KeepsTheQuantization) {
  qn_transpose_params p;
  qn_transpose_params_init(&p);
  p.type = QN_U8;
  p.rank = 2;
  p.permutation[0] = 1;
  Op op;
  ASSERT_QN_OK(qn_transpose_create(&p, &op));
  qn_tensor in = dense({3, 5});
  in.type = QN_U8;
  in.quantization.scale = 0.5f;
  in.quantization.zero_point = 128;
  qn_plan* plan = nullptr;
  ASSERT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, nullptr, &plan));
  qn_tensor out;
  ASSERT_QN_OK(qn_plan_output(plan, 0, &out));
  qn_plan_release(plan);
  EXPECT_EQ(out.quantization.scale, 0.5f);
  EXPECT_EQ(out.quantization.zero_point, 128);
  out.quantization.zero_point = 127;
  EXPECT_EQ(qn_operator_plan(op, &in, 1, &out, 1, nullptr, &plan), QN_UNSUPPORTED);
  EXPECT_STREQ(qn_last_message(), "transpose: inputs and output are not quantized alike, with one scale");
  const float scales[] = {1, 2, 3};
  in.quantization = {0, 0, scales, nullptr, 3, 0, 0};
  EXPECT_EQ(qn_operator_plan(op, &in, 1, nullptr, 0, nullptr, &plan), QN_UNSUPPORTED);
}

}  // namespace move_test
}  // namespace quern::test
