// Operators of ONNX that move, resize and count, against plain computations.
#include <fp16.h>

#include <cmath>

#include "onnx_fixture.h"

namespace quern::test {
namespace onnx_shapes_test {

// ---- shapes -----------------------------------------------------------------------------------

TEST_F(Onnx, ShapesOfTensors) {
  const Array x = random({2, 3, 4, 5}, 1), thin = random({2, 1, 4, 1}, 2);
  expect_node(7, "Flatten", "", x, {}, test::reshape(x, {2, 60}));
  expect_node(7, "Flatten", "axis=0", x, {}, test::reshape(x, {1, 120}));
  expect_node(11, "Flatten", "axis=-1", x, {}, test::reshape(x, {24, 5}));
  expect_shaping(7, "Reshape", "", x, {{0, -1, 10}}, test::reshape(x, {2, 6, 10}));
  expect_node(7, "Squeeze", "", thin, {}, test::reshape(thin, {2, 4}));
  expect_node(11, "Squeeze", "axes=[-1]", thin, {}, test::reshape(thin, {2, 1, 4}));
  expect_shaping(13, "Squeeze", "", thin, {{1}}, test::reshape(thin, {2, 4, 1}));
  expect_node(7, "Unsqueeze", "axes=[0,3]", thin, {}, test::reshape(thin, {1, 2, 1, 1, 4, 1}));
  expect_shaping(13, "Unsqueeze", "", x, {{-1}}, test::reshape(x, {2, 3, 4, 5, 1}));
  expect_node(7, "Transpose", "", x, {}, test::transpose(x, {3, 2, 1, 0}));
  expect_node(7, "Transpose", "perm=[0,2,3,1]", x, {}, test::transpose(x, {0, 2, 3, 1}));
  expect_shaping(8, "Expand", "", x, {{1, 1, 5}}, x);
}

TEST_F(Onnx, Parts) {
  const Array x = random({2, 6, 4, 5}, 1);
  expect_node(7, "Slice", "starts=[1,-3] ends=[9,-1] axes=[1,3]", x, {}, test::slice(x, {0, 1, 0, 2}, {2, 6, 4, 4}));
  expect_node(9, "Slice", "starts=[0,2] ends=[1,5]", x, {}, test::slice(x, {0, 2, 0, 0}, {1, 5, 4, 5}));
  expect_shaping(10, "Slice", "", x, {{2}, {INT64_MAX}, {2}, {1}}, test::slice(x, {0, 0, 2, 0}, {2, 6, 4, 5}));
  OnnxModel split(13);
  split.input("x", x.dims).output("p").output("q").integers("sizes", {2, 4});
  split.node("Split", {"x", "sizes"}, {"p", "q"}, "axis=1");
  expect_near(run(split, {x}).at(1), test::slice(x, {0, 2, 0, 0}, {2, 6, 4, 5}));
  OnnxModel first(1);
  first.input("x", x.dims).output("q").integers("sizes", {1, 5});
  first.node("Split", {"x", "sizes"}, {"p", "q"}, "axis=1");
  expect_near(run(first, {x}).at(0), test::slice(x, {0, 1, 0, 0}, {2, 6, 4, 5}));
  OnnxModel uneven(18);
  uneven.input("x", x.dims).output("p").output("q").node("Split", {"x"}, {"p", "q"}, "axis=-1 num_outputs=2");
  expect_near(run(uneven, {x}).at(0), test::slice(x, {0, 0, 0, 0}, {2, 6, 4, 3}));
  expect_shaping(
      13, "Gather", "axis=1", x, {{2, 3, 0}},
      test::concat({test::slice(x, {0, 2, 0, 0}, {2, 4, 4, 5}), test::slice(x, {0, 0, 0, 0}, {2, 1, 4, 5})}, 1));
  OnnxModel scalar(13);
  scalar.input("x", x.dims).output("y").integers("at", {-1}).integers("none", {});
  scalar.node("Reshape", {"at", "none"}, {"last"}).node("Gather", {"x", "last"}, {"y"}, "axis=2");
  expect_near(run(scalar, {x}).at(0), test::reshape(test::slice(x, {0, 0, 3, 0}, {2, 6, 4, 5}), {2, 6, 5}));
  OnnxModel joined(13);
  joined.input("x", x.dims).output("y").floats("c", random({2, 2, 4, 5}, 2));
  joined.node("Concat", {"x", "c", "x"}, {"y"}, "axis=-3");
  expect_near(run(joined, {x}).at(0), test::concat({x, random({2, 2, 4, 5}, 2), x}, 1));
}

TEST_F(Onnx, Pad) {
  const Array x = random({2, 3, 4, 5}, 1);
  expect_node(7, "Pad", "pads=[0,0,1,2,0,0,3,0] value=0.5f", x, {}, test::pad(x, {0, 0, 1, 2}, {0, 0, 3, 0}, 0.5f));
  expect_shaping(13, "Pad", "mode='constant'", x, {{0, 1, 0, 0, 0, 0, 0, 1}},
                 test::pad(x, {0, 1, 0, 0}, {0, 0, 0, 1}, 0));
  OnnxModel model(18);
  model.input("x", x.dims).output("y").integers("pads", {1, 2}).scalar("v", 7).integers("axes", {-1});
  model.node("Pad", {"x", "pads", "v", "axes"}, {"y"});
  expect_near(run(model, {x}).at(0), test::pad(x, {0, 0, 0, 1}, {0, 0, 0, 2}, 7));
  EXPECT_NE(
      refusal(one_node(7, "Pad", "pads=[0,0,1,1,0,0,1,1] mode='mirror'", x.dims)).find("Pad: mode mirror (1 node: y)"),
      std::string::npos);
}

TEST_F(Onnx, DepthToSpace) {
  const Array x = random({2, 12, 3, 4}, 1);
  const Array dcr = test::transpose(test::reshape(x, {2, 2, 2, 3, 3, 4}), {0, 3, 4, 1, 5, 2});
  expect_node(11, "DepthToSpace", "blocksize=2", x, {}, test::reshape(dcr, {2, 3, 6, 8}));
  const Array crd = test::transpose(test::reshape(x, {2, 3, 2, 2, 3, 4}), {0, 1, 4, 2, 5, 3});
  expect_node(11, "DepthToSpace", "blocksize=2 mode='CRD'", x, {}, test::reshape(crd, {2, 3, 6, 8}));
}

// ---- resize -----------------------------------------------------------------------------------

// Output pixel (i, j) of nearest and bilinear with the position given by `where(index, in, out)`.
Array nearest(const Array& x, size_t h, size_t w, const std::function<double(double, double, double)>& where,
              double (*choose)(double)) {
  const auto pick = [&](size_t at, size_t in, size_t out) {
    const double p = choose(where(static_cast<double>(at), static_cast<double>(in), static_cast<double>(out)));
    return static_cast<size_t>(std::clamp(p, 0.0, static_cast<double>(in - 1)));
  };
  return test::generate({x.dims[0], x.dims[1], h, w}, [&](const Dims& i) {
    return x.at({i[0], i[1], pick(i[2], x.dims[2], h), pick(i[3], x.dims[3], w)});
  });
}

Array bilinear(const Array& x, size_t h, size_t w, const std::function<double(double, double, double)>& where) {
  return test::generate({x.dims[0], x.dims[1], h, w}, [&](const Dims& i) {
    double sum = 0;
    const auto place = [&](size_t at, size_t in, size_t out) {
      const double p = where(static_cast<double>(at), static_cast<double>(in), static_cast<double>(out));
      return std::clamp(p, 0.0, static_cast<double>(in - 1));
    };
    const double y = place(i[2], x.dims[2], h), z = place(i[3], x.dims[3], w);
    for (size_t r = 0; r < x.dims[2]; ++r) {
      for (size_t s = 0; s < x.dims[3]; ++s) {
        const double weight = std::max(0.0, 1 - std::fabs(y - static_cast<double>(r))) *
                              std::max(0.0, 1 - std::fabs(z - static_cast<double>(s)));
        sum += weight * x.at({i[0], i[1], r, s});
      }
    }
    return static_cast<float>(sum);
  });
}

double half_pixel(double i, double in, double out) { return (i + 0.5) * in / out - 0.5; }
double asymmetric(double i, double in, double out) { return i * in / out; }
double align_corners(double i, double in, double out) { return i * (in - 1) / (out - 1); }

TEST_F(Onnx, Upsample) {
  const Array x = random({2, 3, 4, 5}, 1);
  const auto floor = static_cast<double (*)(double)>(std::floor);
  expect_node(7, "Upsample", "mode='nearest' scales=[1f,1f,2f,3f]", x, {}, nearest(x, 8, 15, asymmetric, floor));
  expect_node(9, "Upsample", "mode='linear'", x, {{{4}, {1, 1, 2, 2}}}, bilinear(x, 8, 10, asymmetric));
  expect_node(10, "Resize", "mode='nearest'", x, {{{4}, {1, 1, 0.5f, 2}}}, nearest(x, 2, 10, asymmetric, floor));
  // Resize of opset 10 rounds up where it takes pixels away.
  const Array row = test::make({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_node(10, "Resize", "", row, {{{4}, {1, 1, 0.6f, 0.6f}}}, test::make({1, 1, 1, 2}, {1, 3}));
  expect_node(10, "Resize", "", row, {{{4}, {1, 1, 2, 0.6f}}}, test::make({1, 1, 4, 2}, {1, 3, 1, 3, 5, 7, 5, 7}));
  // With the scale of a third every third pixel stays, although the number is no third.
  const Array nine = test::make({1, 1, 1, 9}, {0, 1, 2, 3, 4, 5, 6, 7, 8}), third = test::make({4}, {1, 1, 1, 1 / 3.f});
  expect_node(10, "Resize", "", nine, {third}, test::make({1, 1, 1, 3}, {0, 3, 6}));
  OnnxModel down(13);
  down.input("x", nine.dims).output("y").floats("scales", third);
  down.node("Resize", {"x", "", "scales"}, {"y"},
            "mode='nearest' nearest_mode='floor' coordinate_transformation_mode='asymmetric'");
  expect_near(run(down, {nine}).at(0), test::make({1, 1, 1, 3}, {0, 3, 6}));
}

TEST_F(Onnx, Resize) {
  const Array x = random({2, 3, 4, 5}, 1);
  const auto expect_sizes = [&](const std::string& attributes, const Array& want) {
    SCOPED_TRACE(attributes);
    OnnxModel model(13);
    model.input("x", x.dims).output("y").integers("sizes", {2, 3, 7, 9});
    expect_near(run(model.node("Resize", {"x", "", "", "sizes"}, {"y"}, attributes), {x}).at(0), want);
  };
  const auto floor = static_cast<double (*)(double)>(std::floor);
  const auto ceil = static_cast<double (*)(double)>(std::ceil);
  expect_sizes("", nearest(x, 7, 9, half_pixel, [](double p) { return std::ceil(p - 0.5); }));
  expect_sizes("nearest_mode='round_prefer_ceil'",
               nearest(x, 7, 9, half_pixel, [](double p) { return std::floor(p + 0.5); }));
  expect_sizes("nearest_mode='floor' coordinate_transformation_mode='asymmetric'", nearest(x, 7, 9, asymmetric, floor));
  expect_sizes("nearest_mode='ceil' coordinate_transformation_mode='asymmetric'", nearest(x, 7, 9, asymmetric, ceil));
  expect_sizes("mode='linear'", bilinear(x, 7, 9, half_pixel));
  expect_sizes("mode='linear' coordinate_transformation_mode='pytorch_half_pixel'", bilinear(x, 7, 9, half_pixel));
  expect_sizes("mode='linear' coordinate_transformation_mode='align_corners'", bilinear(x, 7, 9, align_corners));
  OnnxModel scaled(11);
  scaled.input("x", x.dims).output("y").floats("roi", {{0}, {}}).floats("scales", {{4}, {1, 1, 2, 2}});
  scaled.node("Resize", {"x", "roi", "scales"}, {"y"}, "mode='linear'");
  expect_near(run(scaled, {x}).at(0), bilinear(x, 8, 10, half_pixel));
  OnnxModel axes(18);
  axes.input("x", x.dims).output("y").integers("sizes", {8, 10});
  axes.node("Resize", {"x", "", "", "sizes"}, {"y"}, "mode='linear' axes=[2,3]");
  expect_near(run(axes, {x}).at(0), bilinear(x, 8, 10, half_pixel));
  OnnxModel unknown(13);
  unknown.input("x", x.dims).output("y").integers("sizes", {2, 3, 8, 10});
  unknown.node("Resize", {"x", "", "", "sizes"}, {"y"}, "mode='quintic'");
  EXPECT_NE(refusal(unknown).find("(Resize): mode is 'quintic'"), std::string::npos);
}

// ---- shape arithmetic -------------------------------------------------------------------------

TEST_F(Onnx, ViewByComputedShapeFollowsTheBatch) {
  OnnxModel model(11);
  model.input("x", {2, 3, 4, 5}).output("y").integers("zero", {0}).integers("rest", {-1}).integers("none", {});
  model.node("Shape", {"x"}, {"shape"}).node("Reshape", {"zero", "none"}, {"first"});
  model.node("Gather", {"shape", "first"}, {"batch"}).node("Unsqueeze", {"batch"}, {"batch1"}, "axes=[0]");
  model.node("Concat", {"batch1", "rest"}, {"to"}, "axis=0").node("Reshape", {"x", "to"}, {"y"});
  for (const size_t batch : {2, 5}) {
    const Array x = random({batch, 3, 4, 5}, 1);
    expect_near(run(model, {x}).at(0), test::reshape(x, {batch, 60}));
  }
}

// Sequences whose lengths are known at import vanish.
TEST_F(Onnx, SequencesOfParts) {
  const Array x = random({5, 3, 2}, 1), first = test::slice(x, {0, 0, 0}, {2, 3, 2}),
              last = test::slice(x, {4, 0, 0}, {5, 3, 2});
  OnnxModel parts(13);
  parts.input("x", x.dims).output("y").steps("two", onnx::schema::TensorProto::INT32, {}, {2}).integers("0", {0});
  parts.integers("-1", {-1}).node("SplitToSequence", {"x", "two"}, {"s"});
  parts.node("SequenceAt", {"s", "0"}, {"a"}).node("SequenceAt", {"s", "-1"}, {"b"});
  parts.node("SequenceErase", {"s", "-1"}, {"t"}).node("SequenceInsert", {"t", "b", "0"}, {"u"});
  parts.node("ConcatFromSequence", {"u"}, {"turned"}, "axis=0").node("Concat", {"turned", "a"}, {"y"}, "axis=0");
  expect_near(run(parts, {x}).at(0), test::concat({last, test::slice(x, {0, 0, 0}, {4, 3, 2}), first}, 0));

  OnnxModel rows(13);
  rows.input("x", x.dims).output("y").node("SplitToSequence", {"x"}, {"s"}, "axis=1 keepdims=0");
  rows.node("ConcatFromSequence", {"s"}, {"y"}, "axis=-1 new_axis=1");
  expect_near(run(rows, {x}).at(0), test::transpose(x, {0, 2, 1}));

  OnnxModel list(13);
  list.input("x", x.dims).output("y").integers("3, 2", {3, 2}).node("SplitToSequence", {"x", "3, 2"}, {"s"});
  list.node("SequenceEmpty", {}, {"none"}).node("SequenceConstruct", {"x", "x"}, {"two"});
  list.node("SequenceLength", {"two"}, {"n"}).node("SequenceLength", {"none"}, {"0"}).node("Sub", {"n", "0"}, {"2"});
  list.integers("1", {1}).node("Sub", {"2", "1"}, {"at"}).node("SequenceAt", {"s", "at"}, {"y"});
  expect_near(run(list, {x}).at(0), test::slice(x, {3, 0, 0}, {5, 3, 2}));
}

TEST_F(Onnx, SequencesThatStayAreRefused) {
  const auto refused = [&](const char* type, const std::vector<std::string>& inputs) {
    OnnxModel model(13);
    model.input("x", {5, 3}).output("y").integers("5", {5}).integers("none", {}).node("SplitToSequence", {"x"}, {"s"});
    model.node(type, inputs, {"y"});
    return refusal(model);
  };
  EXPECT_NE(refused("Relu", {"s"}).find("Relu: of a sequence (1 node: y)"), std::string::npos);
  EXPECT_NE(refused("SequenceConstruct", {"x"}).find("output 'y' (of a sequence)"), std::string::npos);
  EXPECT_NE(refused("SequenceInsert", {"s", "s"}).find("of a sequence"), std::string::npos);
  EXPECT_NE(refused("SequenceAt", {"s", "5"}).find("outside of the sequence"), std::string::npos);
  EXPECT_NE(refused("SequenceAt", {"s", "none"}).find("not one number"), std::string::npos);
  EXPECT_NE(refused("SequenceAt", {"x", "5"}).find("expected a sequence as input 0"), std::string::npos);
  EXPECT_NE(refused("SplitToSequence", {"s"}).find("input 0 is missing"), std::string::npos);
}

TEST_F(Onnx, TellsWhichDimensionIsOpen) {
  OnnxModel model(11);
  model.input("x", {2, 3, 4, 5}).input("y", {2, 3, 4, 5}).output("z").node("Add", {"x", "y"}, {"z"});
  const auto first_of = [&](int input) {
    auto* type = model.model.mutable_graph()->mutable_input(input)->mutable_type()->mutable_tensor_type();
    return type->mutable_shape()->mutable_dim(0);
  };
  first_of(0)->clear_dim_value();
  first_of(0)->set_dim_param("batch");
  first_of(1)->set_dim_value(1);
  const Graph graph = import(model);
  EXPECT_EQ(graph.inputs[0].open, 1);
  ASSERT_EQ(graph.inputs[0].dimensions.size(), 1u);
  EXPECT_EQ(graph.inputs[0].dimensions[0], "batch");
  EXPECT_EQ(graph.inputs[1].open, 0);
  EXPECT_TRUE(graph.inputs[1].dimensions.empty());
}

// How many of the largest elements are taken is known at import alone: this fixes the size that says so, also of a
// tensor that a branch captures.
TEST_F(Onnx, BranchesFixSizes) {
  OnnxModel model(13), yes(13), no(13);
  yes.integers("zero", {0}).integers("one", {1}).node("Shape", {"r"}, {"s"}).output("most");
  yes.node("Slice", {"s", "zero", "one"}, {"n"}).node("TopK", {"r", "n"}, {"most", "places"}, "axis=0");
  no.node("Neg", {"r"}, {"minus"}).output("minus");
  model.input("c", {}, onnx::schema::TensorProto::BOOL).input("x", {0, 3}).output("y");
  model.node("Relu", {"x"}, {"r"}).node("If", {"c"}, {"y"});
  for (const auto& [name, branch] : {std::pair{"then_branch", &yes}, {"else_branch", &no}}) {
    onnx::schema::AttributeProto* const attribute = model.model.mutable_graph()->mutable_node(1)->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::schema::AttributeProto::GRAPH);
    *attribute->mutable_g() = branch->model.graph();
  }
  const Graph graph = import(model);
  EXPECT_EQ(graph.inputs[1].open, 1);
  EXPECT_EQ(graph.inputs[1].fixed, 1);
  EXPECT_EQ(graph.inputs[1].fixed_by, "most");
}

// How many places a tuple has says how many dimensions the output has, and nodes behind it are made for these.
TEST_F(Onnx, LengthsOfTuplesAreFixed) {
  OnnxModel model(13);
  model.input("x", {2, 3}).input("tuples", {4, 1}, onnx::schema::TensorProto::INT64).output("y");
  model.node("GatherND", {"x", "tuples"}, {"y"});
  auto* shape = model.model.mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (auto& dim : *shape->mutable_dim()) dim.clear_dim_value();
  const Graph graph = import(model);
  EXPECT_EQ(graph.inputs[1].open, 3);
  EXPECT_EQ(graph.inputs[1].fixed, 2);
  EXPECT_EQ(graph.inputs[1].fixed_by, "y");
}

TEST_F(Onnx, SizesWorkedOutAtImport) {
  // resize(x, (shape(x)[2:] as floats * 2) as integers)
  OnnxModel model(13);
  model.input("x", {1, 2, 3, 4}).output("y").integers("two", {2}).integers("four", {4}).integers("zero", {0});
  model.scalar("factor", 2.2f);
  model.node("Shape", {"x"}, {"shape"}).node("Slice", {"shape", "two", "four", "zero"}, {"hw"});
  model.node("Slice", {"shape", "zero", "two"}, {"nc"}).node("Cast", {"hw"}, {"hw_f"}, "to=1");
  model.node("Mul", {"hw_f", "factor"}, {"twice_f"}).node("Floor", {"twice_f"}, {"floor"});
  model.node("Cast", {"floor"}, {"twice"}, "to=7").node("Concat", {"nc", "twice"}, {"sizes"}, "axis=0");
  model.node("Resize", {"x", "", "", "sizes"}, {"y"}, "mode='linear'");
  const Array x = random({1, 2, 3, 4}, 1);
  expect_near(run(model, {x}).at(0), bilinear(x, 6, 8, half_pixel));
}

TEST_F(Onnx, IntegerOperators) {
  // y = reshape(x, where(range(0, 4, 1) / 2 == [0, 0, 9, 9], [4, 6] ++ ..., constant_of_shape([4]) ...))
  OnnxModel model(13);
  model.input("x", {2, 3, 4})
      .output("y")
      .integers("none", {})
      .integers("c0", {0})
      .integers("c4", {4})
      .integers("c1", {1});
  for (const char* name : {"c0", "c4", "c1"}) model.node("Reshape", {name, "none"}, {std::string(name) + "s"});
  model.node("Range", {"c0s", "c4s", "c1s"}, {"range"}).integers("two", {2}).node("Div", {"range", "two"}, {"half"});
  model.integers("pattern", {0, 0, 9, 1}).node("Equal", {"half", "pattern"}, {"same"});
  model.node("ConstantOfShape", {"c4"}, {"zeros"});
  model.node("Cast", {"zeros"}, {"zeros_i"}, "to=7").node("Sub", {"zeros_i", "c1"}, {"minus"});
  model.node("Shape", {"x"}, {"shape"}).node("ReduceProd", {"shape"}, {"all"}, "keepdims=1");
  model.integers("sizes", {4, 3, 5, 2}).node("Where", {"same", "sizes", "minus"}, {"to"});
  model.node("Add", {"all", "c0"}, {"unused"}).node("Size", {"x"}, {"size"}).node("Mul", {"size", "c1"}, {"unused2"});
  model.node("Reshape", {"x", "to"}, {"y"});
  const Array x = random({2, 3, 4}, 1);
  expect_near(run(model, {x}).at(0), test::reshape(x, {4, 3, 1, 2}));
}

TEST_F(Onnx, ConstantsOfAllForms) {
  const Array x = random({2, 3}, 1);
  OnnxModel model(13);
  model.input("x", x.dims).output("y");
  onnx::schema::GraphProto* graph = model.model.mutable_graph();
  const auto add = [&](const char* name, onnx::schema::TensorProto::DataType type) {
    onnx::schema::TensorProto* tensor = graph->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    tensor->add_dims(3);
    return tensor;
  };
  onnx::schema::TensorProto* typed = add("float_data", onnx::schema::TensorProto::FLOAT);
  onnx::schema::TensorProto* doubles = add("double_data", onnx::schema::TensorProto::DOUBLE);
  onnx::schema::TensorProto* halves = add("half_data", onnx::schema::TensorProto::FLOAT16);
  onnx::schema::TensorProto* raw_halves = add("raw_half", onnx::schema::TensorProto::FLOAT16);
  std::vector<uint16_t> bits;
  for (int i = 0; i < 3; ++i) {
    typed->add_float_data(static_cast<float>(i));
    doubles->add_double_data(0.5 * i);
    halves->add_int32_data(fp16_ieee_from_fp32_value(0.25f * static_cast<float>(i)));
    bits.push_back(fp16_ieee_from_fp32_value(1.0f + static_cast<float>(i)));
  }
  raw_halves->set_raw_data(bits.data(), 6);
  model.node("Add", {"x", "float_data"}, {"a"}).node("Add", {"a", "double_data"}, {"b"});
  model.node("Add", {"b", "half_data"}, {"c"}).node("Add", {"c", "raw_half"}, {"d"});
  model.node("Constant", {}, {"k"}, "value_floats=[1f,2f,3f]").node("Mul", {"d", "k"}, {"e"});
  model.node("Constant", {}, {"i"}, "value_ints=[3,2]").node("Reshape", {"e", "i"}, {"y"});
  const Array want = test::generate({2, 3}, [&](const Dims& i) {
    const float n = static_cast<float>(i[1]);
    return (x.at(i) + n + 0.5f * n + 0.25f * n + 1 + n) * (1 + n);
  });
  expect_near(run(model, {x}).at(0), test::reshape(want, {3, 2}));
}

TEST_F(Onnx, NumbersBelowOneAreTrue) {
  OnnxModel model(13);
  model.input("x", {4}).output("y").floats("c", {{4}, {0.25f, 0, -0.5f, 2}});
  model.node("Cast", {"c"}, {"b"}, "to=9").node("Cast", {"b"}, {"f"}, "to=1").node("Mul", {"x", "f"}, {"y"});
  EXPECT_EQ(run(model, {test::make({4}, {1, 2, 3, 4})}).at(0).data, (std::vector<float>{1, 0, 3, 4}));
}

}  // namespace onnx_shapes_test
}  // namespace quern::test
