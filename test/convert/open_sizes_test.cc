// ONNX models with open dimensions whose nodes take shapes and places from these dimensions, as PyTorch's exporters
// write them. Each must run at other sizes as if it had been imported at these, and its shapes must be known before a
// run.
#include <gtest/gtest.h>
#include <quern/extra.h>

#include <functional>

#include "convert/convert.h"
#include "onnx_model.h"

namespace quern {
namespace open_sizes_test {

using test::Array;
using test::Dims;
using test::OnnxModel;
using test::random;

struct OpenModel {
  const char* name;
  Dims inner;  // of input x, behind the two open dimensions
  std::function<void(OnnxModel&)> add;
};

// Adds the numbers "n" and "m", of dimensions 0 and 1 of x, and the constants 0, 1 and -1, as lists of one number.
void add_sizes(OnnxModel& model) {
  model.integers("zero", {0}).integers("one", {1}).integers("minus", {-1}).node("Shape", {"x"}, {"shape"});
  model.node("Slice", {"shape", "zero", "one"}, {"n"}).integers("two", {2});
  model.node("Slice", {"shape", "one", "two"}, {"m"});
}

const OpenModel open_models[] = {
    {"ZerosOfABatch",
     {3},
     [](OnnxModel& model) {
       model.node("Concat", {"n", "one", "two"}, {"s"}, "axis=0").node("ConstantOfShape", {"s"}, {"zeros"});
       model.node("Slice", {"x", "zero", "two", "two"}, {"part"});
       model.node("Add", {"zeros", "part"}, {"y"});
     }},
    {"ConstantExpanded",
     {3},
     [](OnnxModel& model) {
       model.floats("token", random({1, 1, 3}, 2)).integers("w", {3});
       model.node("Concat", {"n", "one", "w"}, {"s"}, "axis=0").node("Expand", {"token", "s"}, {"tokens"});
       model.node("Concat", {"tokens", "x"}, {"y"}, "axis=1");
     }},
    {"ComputedExpanded",
     {3},
     [](OnnxModel& model) {
       model.node("Slice", {"x", "zero", "one", "one"}, {"row"}).node("Concat", {"n", "m", "one"}, {"s"}, "axis=0");
       model.node("Expand", {"row", "s"}, {"y"});
     }},
    {"Places",
     {3},
     [](OnnxModel& model) {
       model.integers("0", {0}).integers("1", {1}).node("Squeeze", {"m", "0"}, {"limit"});
       model.node("Squeeze", {"zero", "0"}, {"start"}).node("Squeeze", {"one", "0"}, {"step"});
       model.node("Range", {"start", "limit", "step"}, {"places"}).floats("table", random({20, 3}, 2));
       model.node("Gather", {"table", "places"}, {"rows"}).node("Add", {"x", "rows"}, {"y"});
     }},
    {"PlacesOf32Bits",
     {3},
     [](OnnxModel& model) {
       model.integers("0", {0}).node("Squeeze", {"m", "0"}, {"m0"}).node("Cast", {"m0"}, {"limit"}, "to=6");
       model.node("Squeeze", {"zero", "0"}, {"z0"}).node("Cast", {"z0"}, {"start"}, "to=6");
       model.node("Squeeze", {"one", "0"}, {"o0"}).node("Cast", {"o0"}, {"step"}, "to=6");
       model.node("Range", {"start", "limit", "step"}, {"up"}).node("Sub", {"start", "step"}, {"back"});
       model.node("Range", {"limit", "start", "back"}, {"down"}).floats("table", random({20, 3}, 2));
       model.node("Gather", {"table", "up"}, {"a"}).node("Gather", {"table", "down"}, {"b"});
       model.node("Sub", {"a", "b"}, {"rows"}).node("Mul", {"x", "rows"}, {"y"});
     }},
    {"TimesASize",
     {3},
     [](OnnxModel& model) {
       model.node("Cast", {"m"}, {"m real"}, "to=1").node("CastLike", {"n", "x"}, {"n real"});
       model.node("Mul", {"x", "m real"}, {"xm"}).node("Div", {"xm", "n real"}, {"y"});
     }},
    {"SeveralSizesReshaped",
     {6},
     [](OnnxModel& model) {
       model.integers("h", {2}).integers("w", {3}).node("Mul", {"n", "h"}, {"nh"});
       model.node("Concat", {"m", "nh", "w"}, {"heads"}, "axis=0").node("Transpose", {"x"}, {"t"}, "perm=[1,0,2]");
       model.node("Reshape", {"t", "heads"}, {"parts"}).node("Transpose", {"parts"}, {"u"}, "perm=[1,0,2]");
       model.node("Concat", {"n", "h", "m", "w"}, {"four"}, "axis=0").node("Reshape", {"u", "four"}, {"y"});
     }},
    {"SizesOfAReshapeAreKnown",
     {6},
     [](OnnxModel& model) {
       model.node("Concat", {"m", "n", "minus"}, {"s"}, "axis=0");
       model.node("Reshape", {"x", "s"}, {"r"})
           .node("Shape", {"r"}, {"shape2"})
           .node("ReduceMax", {"r"}, {"most"}, "axes=[2]");
       model.node("Slice", {"shape2", "zero", "two"}, {"rows"}).node("ConstantOfShape", {"rows"}, {"c"});
       model.node("Reshape", {"most", "rows"}, {"most2"}).node("Sub", {"most2", "c"}, {"y"});
     }},
    {"EmbeddingsScaled",
     {},
     [](OnnxModel& model) {
       model.floats("table", random({20, 3}, 2)).floats("scale", random({3}, 3)).node("Abs", {"x"}, {"abs"});
       model.node("Cast", {"abs"}, {"places"}, "to=7").node("Gather", {"table", "places"}, {"rows"});
       model.node("Mul", {"rows", "scale"}, {"y"});
     }},
    {"Repeated",
     {3},
     [](OnnxModel& model) {
       model.node("Slice", {"x", "zero", "one", "zero"}, {"row"})
           .node("Concat", {"n", "one", "one"}, {"times"}, "axis=0");
       model.node("Tile", {"row", "times"}, {"y"});
     }},
    {"CutToASize",
     {3},
     [](OnnxModel& model) {
       model.floats("table", random({20, 3}, 2)).node("Slice", {"table", "zero", "m", "zero"}, {"rows"});
       model.node("Add", {"x", "rows"}, {"y"});
     }},
    {"PaddedByASize",
     {3},
     [](OnnxModel& model) {
       model.node("Concat", {"zero", "m", "zero", "n", "zero", "one"}, {"pads"}, "axis=0");
       model.node("Pad", {"x", "pads"}, {"y"});
     }},
    {"PaddedToASize",
     {3},
     [](OnnxModel& model) {
       model.integers("9", {9}).node("Sub", {"9", "m"}, {"more"}).node("Div", {"more", "two"}, {"before"});
       model.node("Sub", {"more", "before"}, {"after"});
       model.node("Concat", {"zero", "before", "zero", "zero", "after", "zero"}, {"pads"}, "axis=0");
       model.node("Pad", {"x", "pads"}, {"y"});
     }},
    {"ResizedToOpenSizes",
     {3, 4},
     [](OnnxModel& model) {
       model.node("Mul", {"n", "two"}, {"2n"}).node("Add", {"m", "two"}, {"m2"});
       model.node("Concat", {"n", "m", "2n", "m2"}, {"s"}, "axis=0")
           .node("Resize", {"x", "", "", "s"}, {"r"}, "mode='linear'");
       model.node("ReduceMax", {"r"}, {"most"}, "axes=[3] keepdims=0")
           .node("Concat", {"n", "m", "2n"}, {"s3"}, "axis=0");
       model.node("Reshape", {"most", "s3"}, {"y"});
     }},
    {"ResizedByAFactor",
     {3, 4},
     [](OnnxModel& model) {
       model.floats("factors", {{4}, {1, 1, 1.5f, 2}}).node("Concat", {"n", "m", "minus"}, {"s"}, "axis=0");
       model.node("Resize", {"x", "", "factors"}, {"r"}, "mode='cubic'").node("Reshape", {"r", "s"}, {"y"});
     }},
    {"PaddedToAnEvenSize",
     {3},
     [](OnnxModel& model) {
       model.node("Div", {"m", "two"}, {"half"})
           .node("Mul", {"two", "half"}, {"even"})
           .node("Sub", {"m", "even"}, {"odd"});
       model.node("Concat", {"zero", "odd", "zero", "zero", "zero", "zero"}, {"pads"}, "axis=0");
       model.node("Pad", {"x", "pads"}, {"padded"}).floats("w", random({3, 4}, 4));
       model.node("MatMul", {"padded", "w"}, {"y"});
     }},
    {"SecondHalfOfAnOddSize",
     {3},
     [](OnnxModel& model) {
       model.node("Add", {"m", "one"}, {"m1"})
           .node("Div", {"m1", "two"}, {"half"})
           .node("Mul", {"half", "two"}, {"end"});
       model.node("Concat", {"x", "x"}, {"xx"}, "axis=1");
       model.node("Slice", {"xx", "half", "end", "one"}, {"y"});
     }},
    {"TwiceAHalfIsLessThanAnOddSize",
     {3},
     [](OnnxModel& model) {
       model.node("Add", {"m", "two"}, {"m2"}).node("Div", {"m2", "two"}, {"half"});
       model.node("ConstantOfShape", {"half"}, {"zeros"}).node("Shape", {"zeros"}, {"size"});
       model.node("Mul", {"size", "two"}, {"end"}).node("Concat", {"x", "x", "x"}, {"xxx"}, "axis=1");
       model.node("Slice", {"xxx", "zero", "end", "one"}, {"y"});
     }},
    {"InferredBesideAMultiple",
     {6},
     [](OnnxModel& model) {
       model.node("Mul", {"n", "two"}, {"2n"}).node("Concat", {"2n", "m", "minus"}, {"s"}, "axis=0");
       model.node("Reshape", {"x", "s"}, {"r"}).node("Shape", {"r"}, {"shape2"});
       model.node("ConstantOfShape", {"shape2"}, {"zeros"}).node("Add", {"r", "zeros"}, {"y"});
     }},
    {"InferredBesideEqualSizes",
     {2, 6},
     [](OnnxModel& model) {
       model.node("Transpose", {"x"}, {"t"}, "perm=[1,0,2,3]").node("Mul", {"n", "two"}, {"2n"});
       model.node("Concat", {"2n", "m", "minus"}, {"s"}, "axis=0").node("Concat", {"t", "t"}, {"tt"}, "axis=1");
       model.node("Reshape", {"tt", "s"}, {"r"}).node("Shape", {"r"}, {"shape2"});
       model.node("ConstantOfShape", {"shape2"}, {"zeros"}).node("Add", {"r", "zeros"}, {"y"});
     }},
    {"NoPlacesBelowNothing",
     {3},
     [](OnnxModel& model) {
       model.integers("5", {5}).integers("0", {0}).node("Sub", {"m", "5"}, {"m5"});
       model.node("Squeeze", {"m5", "0"}, {"limit"}).node("Squeeze", {"zero", "0"}, {"start"});
       model.node("Squeeze", {"one", "0"}, {"step"}).node("Range", {"start", "limit", "step"}, {"places"});
       model.node("Shape", {"places"}, {"count"}).node("Add", {"count", "one"}, {"end"});
       model.node("Slice", {"x", "zero", "end", "one"}, {"y"});
     }},
    {"MeanBesideOpenSizes", {4}, [](OnnxModel& model) { model.node("ReduceMean", {"x"}, {"y"}, "axes=[2]"); }},
    {"MeanOfAnOpenSize", {4}, [](OnnxModel& model) { model.node("ReduceMean", {"x"}, {"y"}, "axes=[1] keepdims=0"); }},
};

class OpenSizes : public testing::TestWithParam<OpenModel> {
 protected:
  static void SetUpTestSuite() { expect_ok(qn_extra_register()); }

  // The model with its first two dimensions open, or of these sizes.
  Graph import(size_t n, size_t m, bool open) {
    OnnxModel model(15);
    Dims dims = {n, m};
    dims.insert(dims.end(), GetParam().inner.begin(), GetParam().inner.end());
    model.input("x", dims).output("y");
    add_sizes(model);
    GetParam().add(model);
    auto* shape = model.model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    for (int d = 0; d < 2 && open; ++d) shape->mutable_dim(d)->clear_dim_value();
    return import_onnx(folder_.write("net.onnx", model.bytes()));
  }

  test::Folder folder_;
};

TEST_P(OpenSizes, GiveWhatFixedOnesGive) {
  const Graph graph = import(1, 1, true);
  for (const Tensor& tensor : graph.tensors) EXPECT_FALSE(tensor.sized_by_run) << tensor.name.c_str();
  export_onnx(graph, folder_.path("again.onnx"));
  for (const auto& [n, m] : {std::pair<size_t, size_t>{1, 1}, {4, 3}, {2, 7}, {7, 2}}) {
    Dims dims = {n, m};
    dims.insert(dims.end(), GetParam().inner.begin(), GetParam().inner.end());
    const Array x = random(dims, 3), want = test::run(import(n, m, false), {x}).at(0);
    for (const Graph& open : {import(1, 1, true), import_onnx(folder_.path("again.onnx"))}) {
      const Array got = test::run(open, {x}).at(0);
      EXPECT_EQ(got.dims, want.dims);
      test::expect_near(got, want);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpenSizes, testing::ValuesIn(open_models),
                         [](const auto& made) { return std::string(made.param.name); });

}  // namespace open_sizes_test
}  // namespace quern
