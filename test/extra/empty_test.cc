// Tensors without elements whose other dimensions are huge: no loop may go through these, and no memory is asked for
// them without an answer. The sizes are what an Expand in a file can make of a few bytes.
#include "near.h"

namespace quern::test {
namespace empty_test {

constexpr size_t huge = SIZE_MAX / 16 + 1;  // 2^60 where sizes have 64 bits

Elements empty(std::vector<size_t> shape, qn_type type = QN_F32) { return {type, std::move(shape), {}}; }
Parameter equation(const char* text) {
  Vector<int64_t> codes;
  for (; *text != 0; ++text) codes.push_back(*text);
  return integers("equation", codes);
}

// Constants may be empty, inputs of models may not.
void expect_alone(const NodeCase& node) {
  std::vector<Elements> outputs;
  EXPECT_EQ(NodeModel(node, 0).run(&outputs), "") << node.kind;
  EXPECT_EQ(outputs, node.outputs) << node.kind;
}
void expect_error(const NodeCase& node, const std::string& text) {
  std::vector<Elements> outputs;
  const std::string message = NodeModel(node, 0).run(&outputs);
  EXPECT_NE(message.find(text), std::string::npos) << node.kind << ": " << message;
}

TEST(ExtraEmpty, MoreThanAVectorHolds) {
  const Elements none = list({});
  expect_error({"unique", {empty({huge * 2, 0})}, {empty({}), none, none, none}, {integers("axis", {0})}},
               "out of memory");
  std::vector<Elements> factors;
  for (size_t i = 0; i < 4; ++i) {
    std::vector<size_t> shape(4, 1);
    shape[i] = size_t{1} << (2 * sizeof(size_t) - (i < 3 ? 0 : 2));
    factors.push_back(random_floats(shape));
  }
  expect_error({"einsum", factors, {scalar(0, QN_F32)}, {equation("abcd,abcd,abcd,abcd->")}}, "out of memory");
}

// Labels of one term alone are summed before products are taken, which would have 2^36 elements here.
TEST(ExtraEmpty, SumsBeforeProducts) {
  const size_t n = size_t{1} << 18;
  const std::vector<double> ones(n, 1);
  expect_near({"einsum",
               {floats({n}, ones), floats({n}, ones), floats({2, 2}, {1, 2, 3, 4})},
               {floats({2}, {0x1p36, 4 * 0x1p36})},
               {equation("a,b,cc->c")}});
}

TEST(ExtraEmpty, Sums) {
  const Elements x = empty({huge, 2, 0});
  expect_alone({"reduce_sum", {x, list({0, 2})}, {floats({1, 2, 1}, {0, 0})}});
  expect_alone({"reduce_max", {empty({huge, 2, 0}, QN_U8), list({0, 2})}, {{QN_U8, {1, 2, 1}, {0, 0}}}});
  expect_alone({"einsum",
                {empty({huge, 0}, QN_S64), empty({0}, QN_S64), empty({huge, 0}, QN_S64)},
                {scalar(0)},
                {equation("ab,c,ac->")}});
}

TEST(ExtraEmpty, Convolutions) {
  const size_t side = size_t{1} << (4 * sizeof(size_t) - 2);
  const auto half = static_cast<int64_t>(side / 2);
  const Elements x = empty({1, 0, side, side}), y = floats({1, 2, 1, 1}, {3, 4}), bias = floats({2}, {3, 4});
  expect_alone({"conv", {x, empty({2, 0, side, side}), bias}, {y}});
  expect_alone({"conv_transposed",
                {empty({1, 0, 1, 1}), empty({0, 2, side, side}), bias},
                {y},
                {integers("pads", {half, half, half - 1, half - 1})}});
  expect_alone({"conv_transposed",
                {empty({1, 0, side, 2}), empty({0, 1, side, 2})},
                {floats({1, 1, 1, 3}, {0, 0, 0})},
                {integers("pads", {4 * half - 2, 0, 0, 0})}});
  const Elements bytes = empty({1, 0, side, side}, QN_U8), weights = empty({2, 0, side, side}, QN_U8);
  expect_alone({"conv_integer", {bytes, weights}, {{QN_S32, {1, 2, 1, 1}, {0, 0}}}});
  const Elements one = scalar(1, QN_F32), zero = scalar(0, QN_U8);
  expect_alone({"conv_quantized",
                {bytes, one, zero, weights, one, zero, one, zero, list({3, 4}, QN_S32)},
                {{QN_U8, {1, 2, 1, 1}, {3, 4}}}});
}

TEST(ExtraEmpty, Choices) {
  const Elements none = list({});
  expect_alone({"unique",
                {empty({huge, 2, 0})},
                {empty({huge, 1, 0}), list({0}), list({0, 0}), list({2})},
                {integers("axis", {1})}});
  expect_alone({"compress", {empty({huge, 0}), list({}, QN_BOOL)}, {empty({huge, 0})}, {integers("axis", {1})}});
  expect_alone({"nonzero", {empty({huge, 2, 0})}, {empty({3, 0}, QN_S64)}});
}

TEST(ExtraEmpty, Boxes) {
  expect_alone({"non_max_suppression", {empty({huge, 0, 4}), empty({huge, 1, 0}), scalar(1)}, {empty({0, 3}, QN_S64)}});
  const std::vector<Parameter> parameters = {integers("classes", {INT32_MAX}), integers("keep", {1})};
  const std::vector<Elements> inputs = {empty({1, 0}), empty({1, 0}), empty({1, 2, 0})};
  const std::vector<Elements> images = {empty({huge >> 20, 0}), empty({huge >> 20, 0}), empty({1, 2, 0})};
  expect_error({"ssd_detections", inputs, {floats({1, 1, 1, 7}, {})}, parameters}, "expected 1 prior or more, got 0");
  expect_error({"ssd_detections_found", images, {floats({1, 1, 1, 7}, {})}, parameters},
               "expected 1 prior or more, got 0");
}

}  // namespace empty_test
}  // namespace quern::test
