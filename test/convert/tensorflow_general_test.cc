// Operators of TensorFlow that the importer makes nodes of libquern-extra's kinds of, on integers too.
// tensorflow_graphs.py beside this file compares more with TensorFlow.
#include <gtest/gtest.h>

#include <cmath>

#include "convert/convert.h"
#include "onnx_model.h"
#include "tensorflow_graph.h"

namespace quern {
namespace tensorflow_general_test {

using test::Array;
using test::Dims;
using test::Ints;
using test::make;
using test::TfAttributes;
using test::TfGraph;
namespace schema = tensorflow::schema;

// A tensor that the graph is given, or a constant.
struct In {
  Array array;
  schema::DataType type = schema::DT_FLOAT;
  bool constant = false;
};
In given(const Dims& dims, const std::vector<float>& data) { return {make(dims, data)}; }
In ints(const Dims& dims, const std::vector<float>& data) { return {make(dims, data), schema::DT_INT32}; }
In known(const std::vector<float>& data) { return {make({data.size()}, data), schema::DT_INT32, true}; }
In known(const Dims& dims, const std::vector<float>& data) { return {make(dims, data), schema::DT_INT32, true}; }
In number(float value) { return {make({}, {value}), schema::DT_INT32, true}; }
In real(const Dims& dims, const std::vector<float>& data) { return {make(dims, data), schema::DT_FLOAT, true}; }

struct Case {
  std::string op;
  std::vector<In> inputs;
  std::vector<Array> outputs;
  TfAttributes attributes = {};
};

class TensorFlowGeneral : public testing::Test {
 protected:
  static TfGraph graph_of(const Case& c) {
    TfGraph graph;
    std::vector<std::string> names;
    for (const In& in : c.inputs) {
      names.push_back("x" + std::to_string(names.size()));
      if (!in.constant) {
        graph.placeholder(names.back(), Ints(in.array.dims.begin(), in.array.dims.end()), in.type);
      } else if (in.type == schema::DT_FLOAT) {
        graph.floats(names.back(), in.array);
      } else {
        graph.integers(names.back(), in.array.dims, Ints(in.array.data.begin(), in.array.data.end()));
      }
    }
    return graph.node(c.op, "y", names, c.attributes);
  }
  Graph import(const TfGraph& graph, const std::vector<std::string>& outputs) {
    return import_tensorflow(folder_.write("net.pb", graph.bytes()), {outputs, {}, {}});
  }
  void expect(const Case& c) {
    SCOPED_TRACE(c.op);
    std::vector<std::string> outputs;
    for (size_t i = 0; i < c.outputs.size(); ++i) outputs.push_back("y:" + std::to_string(i));
    std::vector<Array> inputs;
    for (const In& in : c.inputs) {
      if (!in.constant) inputs.push_back(in.array);
    }
    test::expect_outputs(import(graph_of(c), outputs), inputs, c.outputs, 1e-5f);
  }
  void expect_refusal(const Case& c, const std::string& part) {
    const std::string message = test::error_of([&] { import(graph_of(c), {"y"}); });
    EXPECT_NE(message.find(part), std::string::npos) << message << "\ninstead of " << part;
  }
  test::Folder folder_;
};

TEST_F(TensorFlowGeneral, Elements) {
  const In a = ints({2, 3}, {7, -7, 5, -5, 9, 0}), b = ints({3}, {2, 3, -4});
  const In x = given({4}, {-1, 0, 1e-6f, 2});
  for (const Case& c : std::vector<Case>{
           {"AddV2", {a, b}, {make({2, 3}, {9, -4, 1, -3, 12, -4})}},
           {"FloorDiv", {a, b}, {make({2, 3}, {3, -3, -2, -3, 3, 0})}},
           {"FloorMod", {a, b}, {make({2, 3}, {1, 2, -3, 1, 0, 0})}},
           {"TruncateDiv", {a, b}, {make({2, 3}, {3, -2, -1, -2, 3, 0})}},
           {"Div", {a, b}, {make({2, 3}, {3, -2, -1, -2, 3, 0})}},
           {"Mod", {a, b}, {make({2, 3}, {1, -1, 1, -1, 0, 0})}},
           {"TruncateMod", {a, b}, {make({2, 3}, {1, -1, 1, -1, 0, 0})}},
           {"BitwiseAnd", {a, ints({}, {3})}, {make({2, 3}, {3, 1, 1, 3, 1, 0})}},
           {"Invert", {a}, {make({2, 3}, {-8, 6, -6, 4, -10, -1})}},
           {"Sign", {a}, {make({2, 3}, {1, -1, 1, -1, 1, 0})}},
           {"NotEqual", {a, b}, {make({2, 3}, {1, 1, 1, 1, 1, 1})}},
           {"DivNoNan", {x, given({4}, {2, 0, 1, 0})}, {make({4}, {-0.5f, 0, 1e-6f, 0})}},
           {"Xdivy", {x, given({4}, {2, 0, 1, 4})}, {make({4}, {-0.5f, 0, 1e-6f, 0.5f})}},
           {"Expm1", {x}, {make({4}, {std::expm1(-1.0f), 0, 1e-6f, std::expm1(2.0f)})}},
           {"Log1p", {given({3}, {-0.5f, 0, 1e30f})}, {make({3}, {std::log1p(-0.5f), 0, std::log(1e30f)})}},
           {"Erfc", {x}, {make({4}, {std::erfc(-1.0f), 1, 1 - 1.128379e-6f, std::erfc(2.0f)})}},
           {"IsFinite", {given({3}, {1, INFINITY, NAN})}, {make({3}, {1, 0, 0})}},
           {"IsInf", {given({3}, {1, -INFINITY, NAN})}, {make({3}, {0, 1, 0})}},
           {"Pow", {given({2}, {2, 3}), given({2, 1}, {2, -1})}, {make({2, 2}, {4, 9, 0.5f, 1 / 3.0f})}},
           {"EuclideanNorm", {given({1, 2}, {3, 4}), known({1})}, {make({1}, {5})}},
       }) {
    expect(c);
  }
}

// Biases that are no constants, or integers.
TEST_F(TensorFlowGeneral, Biases) {
  const In image = given({1, 2, 2, 1}, {1, 2, 3, 4}), bias = given({2}, {10, 20});
  expect({"BiasAdd", {given({2, 2}, {1, 2, 3, 4}), bias}, {make({2, 2}, {11, 22, 13, 24})}});
  expect({"BiasAdd", {image, bias}, {make({1, 2, 2, 1}, {11, 12, 23, 24})}, {{"data_format", "NCHW"}}});
  expect({"BiasAdd", {ints({1, 2}, {1, 2}), known({3, 4})}, {make({1, 2}, {4, 6})}});
  expect_refusal({"BiasAdd", {given({2}, {1, 2}), bias}, {}}, "the input has no channels");
  expect_refusal({"BiasAdd", {image, given({1, 2}, {10, 20})}, {}}, "the bias does not fit");
}

// Small numbers keep their digits.
TEST_F(TensorFlowGeneral, ExponentialsAndLogarithmsNearZero) {
  for (const char* op : {"Expm1", "Log1p"}) {
    const std::vector<float> x = {1e-12f, -1e-12f, 3e-8f};
    const Case c = {op, {given({3}, x)}, {}};
    const Array y = test::run(import(graph_of(c), {"y"}), {make({3}, x)}).at(0);
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(y.data[i] / x[i], 1, 1e-6) << op;
  }
}

TEST_F(TensorFlowGeneral, Places) {
  const In x = given({3, 2}, {1, 2, 3, 4, 5, 6}), places = ints({2, 1}, {2, 0}), update = given({2, 2}, {9, 0, 1, 8});
  for (const Case& c : std::vector<Case>{
           {"TopKV2",
            {given({3}, {2, 5, 3}), number(2)},
            {make({2}, {5, 3}), make({2}, {1, 2})},
            {{"Tk", schema::DT_INT32}, {"sorted", true}}},
           {"TopK", {given({3}, {2, 5, 3})}, {make({1}, {5}), make({1}, {1})}, {{"k", 1}}},
           {"TensorScatterSub", {x, places, update}, {make({3, 2}, {0, -6, 3, 4, -4, 6})}},
           {"TensorScatterMax", {x, places, update}, {make({3, 2}, {1, 8, 3, 4, 9, 6})}},
           {"TensorScatterMin", {x, places, update}, {make({3, 2}, {1, 2, 3, 4, 5, 0})}},
           {"UnsortedSegmentSum", {x, known({1, 3, 1}), number(4)}, {make({4, 2}, {0, 0, 6, 8, 0, 0, 3, 4})}},
       }) {
    expect(c);
  }
  expect_refusal({"UnsortedSegmentSum", {x, known({1, 4, 1}), number(4)}, {}}, "segment 4");
}

TEST_F(TensorFlowGeneral, ShapesAndParts) {
  const In x = ints({2, 3}, {1, 2, 3, 4, 5, 6}), image = given({1, 4, 1}, {1, 2, 3, 4});
  const In one = known({1, 1}), i = ints({1}, {1});
  for (const Case& c : std::vector<Case>{
           {"StridedSlice", {x, i, ints({1}, {2}), known({1})}, {make({3}, {4, 5, 6})}, {{"shrink_axis_mask", 1}}},
           {"StridedSlice", {x, i, ints({1}, {9}), known({1})}, {make({1, 3}, {4, 5, 6})}},
           {"StridedSlice",  // [..., ::-2, None]
            {x, known({0, 0, 0}), known({0, 0, 0}), known({1, -2, 1})},
            {make({2, 2, 1}, {3, 1, 6, 4})},
            {{"ellipsis_mask", 1}, {"begin_mask", 2}, {"end_mask", 2}, {"new_axis_mask", 4}}},
           {"SplitV",
            {x, known({1, 2}), number(1)},
            {make({2, 1}, {1, 4}), make({2, 2}, {2, 3, 5, 6})},
            {{"num_split", 2}}},
           {"ShapeN", {x, image}, {make({2}, {2, 3}), make({3}, {1, 4, 1})}},
           {"MatrixBandPart", {x, number(0), number(1)}, {make({2, 3}, {1, 2, 0, 0, 5, 6})}},
           {"ReverseSequence",
            {x, ints({2}, {3, 2})},
            {make({2, 3}, {3, 2, 1, 5, 4, 6})},
            {{"seq_dim", 1}, {"batch_dim", 0}}},
           {"SpaceToBatchND", {image, known({2}), known({1, 2}, {1, 1})}, {make({2, 3, 1}, {0, 2, 4, 1, 3, 0})}},
           {"BatchToSpaceND",
            {given({2, 3, 1}, {0, 2, 4, 1, 3, 0}), known({2}), known({1, 2}, {1, 1})},
            {make({1, 4, 1}, {1, 2, 3, 4})}},
       }) {
    expect(c);
  }
  expect_refusal({"SpaceToBatchND", {image, known({3}), known({1, 2}, {0, 0})}, {}}, "do not divide dimension 1");
  expect_refusal({"BatchToSpaceND", {image, known({3}), known({1, 2}, {0, 0})}, {}}, "do not divide the batch");
  expect_refusal(
      {"BatchToSpaceND",
       {given({1, 1, 1, 1, 1}, {0}), known({65536, 65536, 65536, 65536}), known({4, 2}, std::vector<float>(8))},
       {}},
      "the blocks are too large");
  expect_refusal(
      {"ReverseSequence", {given({2, 2, 2}, std::vector<float>(8)), ints({2}, {1, 1})}, {}, {{"seq_dim", 2}}},
      "along these dimensions");
  expect_refusal(
      {"StridedSlice", {x, i, i, known({1})}, {}, {{"ellipsis_mask", 1}, {"new_axis_mask", 0}, {"unknown", 1}}},
      "attribute unknown");
}

TEST_F(TensorFlowGeneral, TypesOfShapes) {
  const Case shape = {"Shape", {given({1, 2}, {0, 0})}, {}};
  EXPECT_EQ(import(graph_of(shape), {"y"}).outputs[0].type, QN_S32);
  Case of_64_bits = shape;
  of_64_bits.attributes = {{"out_type", schema::DT_INT64}};
  EXPECT_EQ(import(graph_of(of_64_bits), {"y"}).outputs[0].type, QN_S64);
  of_64_bits.attributes = {{"out_type", schema::DT_FLOAT}};
  expect_refusal(of_64_bits, "attribute out_type");
}

// The batch of an image that is divided may have another size.
TEST_F(TensorFlowGeneral, BlocksOfAnOpenBatch) {
  TfGraph graph;
  graph.placeholder("x", {-1, 4, 1}).integers("block", {2}).integers("pads", {1, 2}, {0, 0});
  graph.node("SpaceToBatchND", "blocks", {"x", "block", "pads"}).node("Neg", "neg", {"blocks"});
  graph.node("BatchToSpaceND", "y", {"neg", "block", "pads"});
  const Graph imported = import(graph, {"y"});
  EXPECT_EQ(imported.inputs[0].open, 1);
}

TEST_F(TensorFlowGeneral, TransposedConvolution) {
  const In x = given({1, 2, 2, 1}, {1, 2, 3, 4}), w = real({2, 2, 1, 1}, {1, 10, 100, 1000});
  const auto with = [](const char* padding, const Ints& strides = {1, 2, 2, 1}) {
    return TfAttributes{{"strides", strides}, {"padding", padding}, {"dilations", Ints{1, 1, 1, 1}}};
  };
  const Array whole = make({1, 4, 4, 1}, {1, 10, 2, 20, 100, 1000, 200, 2000, 3, 30, 4, 40, 300, 3000, 400, 4000});
  const Array more = test::pad(whole, {0, 0, 0, 0}, {0, 1, 1, 0}, 0);
  expect({"Conv2DBackpropInput", {known({1, 4, 4, 1}), w, x}, {whole}, with("SAME")});
  expect({"Conv2DBackpropInput", {known({4, 4}), w, x}, {whole}, with("VALID")});
  expect({"Conv2DBackpropInput", {known({1, 5, 5, 1}), w, x}, {more}, with("VALID")});
  expect({"Conv2DBackpropInput",
          {known({1, 3, 3, 1}), w, x},
          {test::slice(whole, {0, 0, 0, 0}, {1, 3, 3, 1})},
          with("SAME")});
  expect(
      {"Conv2DBackpropInput",
       {known({1, 3, 2, 1}), w, x},
       {test::slice(whole, {0, 1, 2, 0}, {1, 4, 4, 1})},
       {{"strides", Ints{1, 2, 2, 1}}, {"padding", "EXPLICIT"}, {"explicit_paddings", Ints{0, 0, 1, 0, 2, 0, 0, 0}}}});
  const auto refused = [&](const In& size, const TfAttributes& attributes, const char* part) {
    expect_refusal({"Conv2DBackpropInput", {size, w, x}, {}, attributes}, part);
  };
  refused(known({1, 6, 4, 1}), with("VALID"), "an output of 6 pixels does not fit an input of 2");
  refused(known({1, 5, 4, 1}), with("SAME"), "an output of 5 pixels does not fit an input of 2");
  refused(known({1, 1, 4, 1}), with("VALID"), "an output of 1 pixels does not fit");
  refused(known({1, 4, 4, 2}), with("SAME"), "channels of the output");
  refused(known({1, 4, 4}), with("SAME"), "expected an output shape of 2 or 4 sizes, got 3");
  refused(known({1, 4, 4, 1}), with("same"), "padding is 'same'");
  refused(known({1, 4, 4, 1}), with("SAME", {2, 2, 2, 1}), "strides of batch or channels");
  refused(known({1, 4, 4, 1}), with("SAME", {1, 0, 2, 1}), "a stride is out of range");
}

TEST_F(TensorFlowGeneral, Images) {
  const TfAttributes window = {{"strides", Ints{1, 1, 1, 1, 1}}, {"padding", "VALID"}, {"ksize", Ints{1, 2, 2, 2, 1}}};
  const TfAttributes convolution = {{"strides", Ints{1, 1, 1, 1, 1}}, {"padding", "SAME"}};
  const In cube = given({1, 2, 2, 2, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  const In image = given({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6});
  for (const Case& c : std::vector<Case>{
           {"MaxPool3D", {cube}, {make({1, 1, 1, 1, 1}, {8})}, window},
           {"AvgPool3D", {cube}, {make({1, 1, 1, 1, 1}, {4.5f})}, window},
           {"Conv3D",
            {cube, real({2, 1, 1, 1, 2}, {1, 2, 10, 20})},
            {make({1, 2, 2, 2, 2}, {51, 102, 62, 124, 73, 146, 84, 168, 5, 10, 6, 12, 7, 14, 8, 16})},
            convolution},
           {"Conv2D",  // of weights that a run gives
            {image, given({1, 2, 1, 1}, {1, -1})},
            {make({1, 2, 2, 1}, {-1, -1, -1, -1})},
            {{"strides", Ints{1, 1, 1, 1}}, {"padding", "VALID"}}},
           {"CropAndResize",
            {image, given({2, 4}, {0, 0, 1, 1, 0, 0.5f, 1, 1.5f}), ints({2}, {0, 0}), known({1, 3})},
            {make({2, 1, 3, 1}, {2.5f, 3.5f, 4.5f, 3.5f, 4.5f, -1})},
            {{"method", "bilinear"}, {"extrapolation_value", -1.0f}}},
       }) {
    expect(c);
  }
}

TEST_F(TensorFlowGeneral, ResizeBicubic) {
  const In two = given({1, 1, 2, 1}, {0, 1}), size = known({1, 4});
  for (const Case& c : std::vector<Case>{
           {"ResizeBicubic", {two, size}, {make({1, 1, 4, 1}, {0, 0.5f, 1, 1.09375f})}},
           {"ResizeBicubic", {ints({1, 1, 2, 1}, {0, 2}), size}, {make({1, 1, 4, 1}, {0, 1, 2, 2.1875f})}},
           {"ResizeBicubic", {two, known({1, 3})}, {make({1, 1, 3, 1}, {0, 0.5f, 1})}, {{"align_corners", true}}},
           {"ResizeBicubic",
            {two, size},
            {make({1, 1, 4, 1}, {-0.0882353f, 0.2071429f, 0.7928571f, 1.0882353f})},
            {{"half_pixel_centers", true}}},
       }) {
    expect(c);
  }
  expect_refusal({"ResizeBicubic", {two, size}, {}, {{"align_corners", true}, {"half_pixel_centers", true}}},
                 "align_corners and half_pixel_centers");
  expect_refusal({"ResizeBicubic", {given({2, 2}, {1, 2, 3, 4}), size}, {}},
                 "expected a rank-4 image tensor (NHWC), got rank 2");
}

// Weights whose channels are rounded to steps of their own.
TEST_F(TensorFlowGeneral, FakeQuantizationOfChannels) {
  TfGraph graph;
  graph.placeholder("x", {1, 2}).floats("w", make({2, 2}, {0.3f, 0.3f, -9, 9}));
  graph.floats("min", make({2}, {-1, 0})).floats("max", make({2}, {2, 3}));
  graph.node("FakeQuantWithMinMaxVarsPerChannel", "rounded", {"w", "min", "max"}, {{"num_bits", 2}});
  graph.node("MatMul", "y", {"x", "rounded"});
  test::expect_outputs(import(graph, {"y"}), {make({1, 2}, {10, 1})}, {make({1, 2}, {-1, 3})}, 1e-5f);
  expect_refusal(
      {"FakeQuantWithMinMaxVarsPerChannel", {given({1, 2}, {0, 0}), real({2}, {-1, 0}), real({2}, {2, 3})}, {}},
      "of other than constants");
}

TEST_F(TensorFlowGeneral, Boxes) {
  const In boxes = given({3, 4}, {0, 0, 1, 1, 0, 0, 1, 0.9f, 2, 2, 3, 3}), scores = given({3}, {0.5f, 0.9f, 0.7f});
  const In limit = real({}, {0.5f}), least = real({}, {0.1f}), sigma = real({}, {0}), most = number(3);
  const TfAttributes threshold = {{"T_threshold", schema::DT_FLOAT}};
  for (const Case& c : std::vector<Case>{
           {"NonMaxSuppression", {boxes, scores, most}, {make({2}, {1, 2})}, {{"iou_threshold", 0.5f}}},
           {"NonMaxSuppressionV2", {boxes, scores, most, limit}, {make({2}, {1, 2})}, threshold},
           {"NonMaxSuppressionV3", {boxes, scores, most, limit, real({}, {0.8f})}, {make({1}, {1})}, threshold},
           {"NonMaxSuppressionV4", {boxes, scores, most, limit, least}, {make({2}, {1, 2}), make({}, {2})}},
           {"NonMaxSuppressionV4",
            {boxes, scores, most, limit, least},
            {make({3}, {1, 2, 0}), make({}, {2})},
            {{"pad_to_max_output_size", true}}},
           {"NonMaxSuppressionV5",
            {boxes, scores, most, limit, least, sigma},
            {make({2}, {1, 2}), make({2}, {0.9f, 0.7f}), make({}, {2})}},
           {"NonMaxSuppressionV5",  // boxes that overlap lose part of their score, and none is dropped for it
            {boxes, scores, most, limit, least, real({}, {0.5f})},
            {make({3}, {1, 2, 0}), make({3}, {0.9f, 0.7f, 0.5f * std::exp(-0.81f)}), make({}, {3})}},
       }) {
    expect(c);
  }
}

// The best boxes of two classes: three boxes that both share, of which the first two lie on each other, or one for each.
TEST_F(TensorFlowGeneral, CombinedSuppression) {
  const In boxes = given({1, 3, 1, 4}, {0, 0, 1, 1, 0, 0, 1, 0.9f, 2, 2, 3, 3});
  const In scores = given({1, 3, 2}, {0.5f, 0.8f, 0.9f, 0.3f, 0.05f, 0.7f});
  const auto limits = [](const In& x, const In& s, float total) {
    return std::vector<In>{x, s, number(2), number(total), real({}, {0.5f}), real({}, {0.1f})};
  };
  const char* const op = "CombinedNonMaxSuppression";
  expect({op,
          limits(boxes, scores, 4),
          {make({1, 4, 4}, {0, 0, 1, 0.9f, 0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 0, 0}), make({1, 4}, {0.9f, 0.8f, 0.7f, 0}),
           make({1, 4}, {0, 1, 1, 0}), make({1}, {3})},
          {{"clip_boxes", false}}});
  expect(
      {op,
       limits(boxes, scores, 2),
       {make({1, 2, 4}, {0, 0, 1, 0.9f, 0, 0, 1, 1}), make({1, 2}, {0.9f, 0.8f}), make({1, 2}, {0, 1}), make({1}, {2})},
       {{"pad_per_class", true}}});
  const In own = given({2, 1, 2, 4}, {0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 0.5f, 1, 4, 4, 5, 5});
  const In none_and_both = given({2, 1, 2}, {0, 0.1f, 0.2f, 0.4f});
  expect({op,
          limits(own, none_and_both, 9),
          {make({2, 4, 4},
                {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 5, 5, 0, 0, 0.5f, 1, 0, 0, 0, 0, 0, 0, 0, 0}),
           make({2, 4}, {0, 0, 0, 0, 0.4f, 0.2f, 0, 0}), make({2, 4}, {0, 0, 0, 0, 1, 0, 0, 0}), make({2}, {0, 2})},
          {{"pad_per_class", true}, {"clip_boxes", false}}});
  expect_refusal({op, limits(boxes, given({1, 2, 2}, {1, 2, 3, 4}), 4), {}}, "boxes and scores do not fit");
  expect_refusal({op, limits(given({1, 3, 3, 4}, std::vector<float>(36)), scores, 4), {}},
                 "boxes and scores do not fit");
  expect_refusal({op, limits(boxes, scores, 0), {}}, "input 3 is out of range");
  expect_refusal(
      {op, limits(given({65, 1, 1, 4}, std::vector<float>(260)), given({65, 1, 1}, std::vector<float>(65)), 4), {}},
      "of 65 images");
}

// ---- spectra --------------------------------------------------------------------------------------

// The transform of 1, 2, 3, 4 is 10, -2 + 2i, -2. Operators that do not know complex numbers do not see pairs of floats.
TEST_F(TensorFlowGeneral, Spectra) {
  TfGraph graph;
  graph.placeholder("x", {1, 4}).integers("length", {4}).integers("shape", {3, 1}).integers("last", {-1});
  graph.node("RFFT", "y", {"x", "length"}, {{"Treal", schema::DT_FLOAT}, {"Tcomplex", schema::DT_COMPLEX64}});
  graph.node("Reshape", "column", {"y", "shape"}, {{"T", schema::DT_COMPLEX64}});
  graph.node("ComplexAbs", "abs", {"column"}, {{"T", schema::DT_COMPLEX64}, {"Tout", schema::DT_FLOAT}});
  graph.node("Real", "re", {"y"}, {{"T", schema::DT_COMPLEX64}, {"Tout", schema::DT_FLOAT}});
  graph.node("Squeeze", "row", {"y"}, {{"T", schema::DT_COMPLEX64}, {"squeeze_dims", Ints{-2}}});
  graph.node("Imag", "im", {"row"}, {{"T", schema::DT_COMPLEX64}, {"Tout", schema::DT_FLOAT}});
  graph.node("AddV2", "sum", {"y", "y"}, {{"T", schema::DT_COMPLEX64}});
  graph.node("Real", "real_of_real", {"x"}, {{"T", schema::DT_COMPLEX64}, {"Tout", schema::DT_FLOAT}});
  test::expect_outputs(import(graph, {"abs", "re", "im"}), {make({1, 4}, {1, 2, 3, 4})},
                       {make({3, 1}, {10, std::sqrt(8.0f), 2}), make({1, 3}, {10, -2, -2}), make({3}, {0, 2, 0})},
                       1e-5f);
  const auto refusal = [&](const std::string& output) { return test::error_of([&] { import(graph, {output}); }); };
  EXPECT_NE(refusal("sum").find("AddV2: of complex numbers (1 node: sum)"), std::string::npos) << refusal("sum");
  EXPECT_NE(refusal("y").find("output 'y' (complex numbers)"), std::string::npos) << refusal("y");
  EXPECT_NE(refusal("real_of_real").find("Real: of real numbers (1 node: "), std::string::npos)
      << refusal("real_of_real");
}

}  // namespace tensorflow_general_test
}  // namespace quern
