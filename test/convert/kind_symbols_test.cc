// Sizes that nodes of libquern-extra's kinds make, as symbols: each is fixed, that of an input, or made of few sizes. Each
// node is made at two sizes of its inputs, so that a rule that says too much is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "convert/common/layout.h"

namespace quern::convert {
namespace kind_symbols_test {

using List = std::vector<int64_t>;

constexpr int fixed = -1, alone = -2;  // alone: not fixed, and no size of an input

// An input with sizes that change, or constant integers.
struct In {
  Shape shape, later;
  List values = {};
};
struct Case {
  const char* kind;
  std::vector<In> inputs;
  Parameters parameters;
  // For each dimension of the first output: `fixed`, `alone`, or which dimension of all inputs it is.
  std::vector<int> sizes;
  size_t outputs = 1;
};

In ints(const List& values) { return {{values.size()}, {values.size()}, values}; }
In weights(const Shape& shape) { return {shape, shape, {0}}; }
const In absent = {{0}, {0}};
In number(int64_t value) { return {{}, {}, {value}}; }

std::vector<Case> cases() {
  const In x = {{2, 3, 4}, {5, 3, 4}}, image = {{2, 8, 5, 6}, {3, 8, 7, 9}};
  std::vector<Case> list;
  const auto add = [&](const char* kind, const std::vector<In>& inputs, Parameters parameters,
                       const std::vector<int>& sizes, size_t outputs = 1) {
    list.push_back({kind, inputs, std::move(parameters), sizes, outputs});
  };
  add("gelu", {x}, {}, {0, 1, 2});
  add("any_add", {x, {{4}, {4}}}, {}, {0, 1, alone});
  add("any_add", {weights({3, 1}), x}, {}, {0, fixed, 2});
  add("max", {{{2, 1, 1}, {5, 1, 1}}, {{3, 1}, {6, 1}}}, {}, {0, alone, alone});
  add("gather", {weights({9, 7}), {{2, 3}, {5, 4}}}, {}, {0, 1, fixed});
  add("gather", {x, {{2}, {3}}}, Parameters().integer("axis", 1), {0, 3, 2});
  add("gather_nd", {x, {{4, 2}, {6, 2}}}, {}, {3, 2});
  add("permute", {x}, Parameters().integers("perm", {2, 0, 1}), {2, 0, 1});
  add("permute", {x}, {}, {2, 1, 0});
  add("reshape_to", {x, ints({-1, 2, 6})}, {}, {alone, fixed, fixed});
  add("reshape_to", {x, ints({0, 12})}, {}, {0, fixed});
  add("reshape_to", {x, ints({-1, 4})}, {}, {alone, fixed});
  add("squeeze", {{{2, 1, 4}, {5, 1, 4}}, ints({1})}, {}, {0, 2});
  add("unsqueeze", {x, ints({0, -1})}, {}, {fixed, 0, 1, 2, fixed});
  add("reduce_sum", {x}, Parameters().integers("axes", {1}).integer("keep_dimensions", 0), {0, 2});
  add("reduce_sum", {x, ints({-1})}, {}, {0, 1, fixed});
  add("reduce_mean", {x}, {}, {fixed, fixed, fixed});
  add("arg_max", {x}, Parameters().integer("axis", -1).integer("keep_dimensions", 0), {0, 1});
  add("matmul", {x, weights({4, 6})}, {}, {0, 1, fixed});
  add("matmul", {x, {{2, 4, 3}, {5, 4, 8}}}, {}, {alone, 1, 5});
  const auto equation = [](const std::string& text) {
    return Parameters().integers("equation", {text.begin(), text.end()});
  };
  add("einsum", {x, weights({4, 7})}, equation("abc,cd->adb"), {0, fixed, 1});
  add("einsum", {x, weights({4, 7})}, equation("... c, cd -> ...d"), {0, 1, fixed});
  add("einsum", {x, {{2, 4, 3}, {5, 4, 8}}}, equation("abc,acd->abd"), {alone, 1, 5});
  add("einsum", {x}, equation("abc->ca"), {2, 0});
  add("all_true", {x}, {}, {0, 1, 2});
  add("join", {x, {{2, 3, 2}, {5, 3, 2}}}, Parameters().integer("axis", 2), {0, 1, alone});
  add("split_to", {x, ints({1, 3})}, Parameters().integer("axis", 2), {0, 1, fixed}, 2);
  add("slice_by", {x, ints({1}), ints({3}), ints({2})}, {}, {0, 1, alone});
  add("slice_by", {x, ints({1}), ints({9})}, {}, {alone, 1, 2});
  add("pad_by", {x, ints({0, 1, 0, 0, 0, 0})}, {}, {0, alone, 2});
  add("resample", {image, absent, absent, ints({9, 7})}, Parameters().integers("axes", {2, 3}), {0, 1, fixed, fixed});
  add("tile", {x, ints({1, 2, 1})}, {}, {0, alone, 2});
  add("expand", {{{2, 1}, {5, 1}}, ints({3, 1, 4})}, {}, {fixed, 0, fixed});
  add("one_hot", {{{2, 3}, {5, 3}}, number(6), ints({0, 1})}, {}, {0, 1, fixed});
  add("top_k", {x, ints({2})}, {}, {0, 1, fixed}, 2);
  add("conv_transposed", {image, weights({8, 4, 3, 3})}, Parameters().integers("strides", {2, 2}),
      {0, fixed, alone, alone});
  add("window_average", {image}, Parameters().integers("kernel", {2, 2}), {0, 1, alone, alone});
  add("depth_to_space", {image}, Parameters().integer("block", 2), {0, alone, alone, alone});
  add("lstm", {{{7, 2, 3}, {4, 5, 3}}, weights({1, 16, 3}), weights({1, 16, 4})}, {}, {0, fixed, 1, fixed}, 3);
  return list;
}

// A graph with the node alone, at the first or the second sizes.
struct Made {
  Builder builder{"test"};
  std::vector<View> inputs, outputs;

  Made(const Case& c, bool later) {
    for (const In& in : c.inputs) {
      const Shape& shape = later ? in.later : in.shape;
      size_t count = 1;
      for (const size_t d : shape) count *= d;
      const std::string kind = c.kind;
      const bool is_index = inputs.size() == 1 && kind.starts_with("gather");
      const bool is_class = inputs.empty() && kind == "one_hot";
      if (shape == absent.shape) {
        inputs.emplace_back();
      } else if (in.values == List{0} && shape.size() > 1) {
        inputs.push_back(builder.constant(shape, QN_F32, std::vector<float>(count).data()));
      } else if (!in.values.empty()) {
        inputs.push_back(builder.constant(shape, QN_S64, in.values.data()));
      } else {
        inputs.push_back(
            builder.input("x" + std::to_string(inputs.size()), shape, is_index || is_class ? QN_S64 : QN_F32, {}));
      }
    }
    std::vector<qn_type> types(c.outputs, std::string(c.kind) == "arg_max" ? QN_S64 : QN_F32);
    if (std::string(c.kind) == "one_hot") types[0] = QN_S64;
    if (std::string(c.kind) == "all_true") types[0] = QN_BOOL;
    if (std::string(c.kind) == "top_k") types[1] = QN_S64;
    Parameters parameters = c.parameters;
    outputs = builder.custom(c.kind, "node", inputs, std::move(parameters), types);
  }
};

TEST(KindSymbols, SizesAreThoseOfInputs) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.kind);
    Made now(c, false), later(c, true);
    const Shape shape = now.builder.shape(now.outputs[0]), shape_later = later.builder.shape(later.outputs[0]);
    ASSERT_EQ(shape.size(), c.sizes.size());
    std::vector<Symbol> of_inputs;
    std::vector<size_t> sizes, sizes_later;
    for (size_t i = 0; i < now.inputs.size(); ++i) {
      for (size_t d = 0; d < now.inputs[i].rank() && c.inputs[i].values.empty(); ++d) {
        of_inputs.push_back(now.builder.symbol(now.inputs[i], d));
        sizes.push_back(now.builder.shape(now.inputs[i])[d]);
        sizes_later.push_back(later.builder.shape(later.inputs[i])[d]);
      }
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      SCOPED_TRACE(d);
      const Symbol symbol = now.builder.symbol(now.outputs[0], d);
      if (c.sizes[d] == fixed) {
        EXPECT_EQ(symbol, no_symbol);
        EXPECT_EQ(shape[d], shape_later[d]);
      } else if (c.sizes[d] == alone) {
        EXPECT_NE(symbol, no_symbol);
        EXPECT_EQ(std::count(of_inputs.begin(), of_inputs.end(), symbol), 0);
      } else {
        const auto at = static_cast<size_t>(c.sizes[d]);
        EXPECT_EQ(symbol, of_inputs[at]);
        EXPECT_EQ(shape[d], sizes[at]);
        EXPECT_EQ(shape_later[d], sizes_later[at]);
      }
    }
  }
}

}  // namespace kind_symbols_test
}  // namespace quern::convert
