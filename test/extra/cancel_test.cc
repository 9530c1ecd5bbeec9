// Nodes of libquern-extra that are cancelled: long ones ask often enough, and stop. What counts is how often they ask.
#include <numeric>

#include "near.h"

namespace quern::test {
namespace cancel_test {

// A host that cancels after some questions.
struct Host {
  size_t asked = 0, until = SIZE_MAX;

  qn_parallel parallel() {
    return {this,
            [](void*, void (*task)(void*, size_t), void* argument, size_t count) {
              for (size_t i = 0; i < count; ++i) task(argument, i);
            },
            1,
            [](void* context) -> int {
              auto* const host = static_cast<Host*>(context);
              return ++host->asked > host->until;
            },
            {}};
  }
};

// `work`: about how many multiply-adds, comparisons or elements.
void check(double work, const NodeCase& node) {
  SCOPED_TRACE(node.kind);
  Host host;
  const qn_parallel parallel = host.parallel();
  std::vector<Elements> outputs;
  ASSERT_EQ(NodeModel(node, node.inputs.size(), 1, &parallel).run(&outputs), "");
  const size_t all = host.asked;
  EXPECT_GE(static_cast<double>(all), work / 4e6);
  EXPECT_LE(static_cast<double>(all), 100 + work / 1000) << "questions cost time";
  for (const size_t until : {size_t{3}, all / 2}) {
    host = {0, until};
    const std::string message = NodeModel(node, node.inputs.size(), 1, &parallel).run(&outputs);
    EXPECT_NE(message.find("cancelled"), std::string::npos) << message << ", after " << until << " of " << all;
    EXPECT_LE(host.asked, until + 8) << "it does not stop";
  }
}

Elements f32(std::vector<size_t> shape) { return random_floats(std::move(shape)); }
Elements any(qn_type type = QN_F32) { return {type, {}, {}}; }

// Boxes that do not overlap, so that each is compared with all before it.
Elements boxes(size_t count) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) {
    const auto at = static_cast<double>(2 * i);
    values.insert(values.end(), {at, at, at + 1, at + 1});
  }
  return floats({1, count, 4}, values);
}

TEST(ExtraCancel, Choices) {
  check(6e6, {"top_k", {f32({200000}), list({100000})}, {any(), any(QN_S64)}});
  check(6e6, {"top_places", {f32({200000})}, {any()}, {integers("count", {100000})}});
  check(6e6, {"unique", {f32({200000})}, {any()}});
  check(8e6, {"non_max_suppression", {boxes(3000), f32({1, 1, 3000}), list({3000})}, {any(QN_S64)}});
  check(8e6, {"nonzero", {f32({4000, 2000})}, {any(QN_S64)}});
}

TEST(ExtraCancel, AlongAxes) {
  check(16e6, {"cumulative_sum", {f32({4000, 4000}), scalar(1)}, {any()}});
  check(16e6, {"any_softmax", {f32({1000, 1000})}, {any()}, {integers("axis", {0})}});
  check(32e6, {"any_lrn", {f32({1, 1000, 1000})}, {any()}, {integers("size", {500})}});
  check(16e6, {"reduce_sum", {f32({4000, 4000}), list({1})}, {any()}});
  check(16e6, {"reduce_sum", {f32({4000, 4000}), list({0})}, {any()}});
  check(16e6, {"arg_max", {f32({4000, 4000})}, {any(QN_S64)}});
  check(5e6, {"det", {f32({250, 250})}, {any()}});
}

TEST(ExtraCancel, Products) {
  Elements integers_of_64 = f32({200, 200});
  integers_of_64.type = QN_S64;
  check(8e6, {"matmul", {integers_of_64, integers_of_64}, {any(QN_S64)}});
  check(64e6, {"matmul", {f32({400, 400}), f32({400, 400})}, {any()}});
  check(8e6, {"matmul", {f32({1, 2000}), f32({2000, 4000})}, {any()}});
  check(64e6,
        {"einsum", {f32({400, 400}), f32({400, 400})}, {any()}, {integers("equation", {'i', 'j', ',', 'k', 'j'})}});
  check(64e6, {"conv", {f32({1, 32, 128, 64}), f32({32, 32, 3, 3})}, {any()}});
  check(64e6, {"attention", {f32({1, 2, 500, 64}), f32({1, 2, 500, 64}), f32({1, 2, 500, 64})}, {any()}});
}

TEST(ExtraCancel, RecurrentLoops) {
  check(200 * 64 * 256, {"lstm", {f32({200, 1, 64}), f32({1, 256, 64}), f32({1, 256, 64})}, {any(), any(), any()}});
}

TEST(ExtraCancel, Spectra) {
  check(12e6, {"dft", {f32({1, 5003, 1})}, {any()}, {integers("axis", {1})}});
  check(6e6, {"dft", {f32({8, 65536, 1})}, {any()}, {integers("axis", {1})}});
}

TEST(ExtraCancel, Images) {
  check(8e6, {"resample",
              {f32({1, 1, 100, 100}), absent, absent, list({1, 1, 2000, 2000})},
              {any()},
              {integers("mode", {1})}});
  check(32.0 * 32 * 8 * 961, {"window_average", {f32({1, 8, 62, 62})}, {any()}, {integers("kernel", {31, 31})}});
}

TEST(ExtraCancel, Elements) {
  check(8e6, {"cast", {f32({4000, 2000})}, {any(QN_S32)}});
  check(8e6, {"any_add", {f32({4000, 2000}), f32({1, 2000})}, {any()}});
  check(8e6, {"gather", {f32({4000, 2000}), list(std::vector<double>(4000, 7))}, {any()}});
  check(8e6, {"expand", {f32({4000, 1}), list({4000, 2000})}, {any()}});
}

}  // namespace cancel_test
}  // namespace quern::test
