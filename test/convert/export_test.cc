// Graphs exported to ONNX and imported again give the same outputs under the same names.
#include <gtest/gtest.h>
#include <quern/extra.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

#include "arrays.h"
#include "convert/convert.h"
#include "convert/onnx/export/rows.h"
#include "convert/onnx/onnx.pb.h"
#include "extra/node.h"
#include "graph/ir/rules.h"
#include "graph/pass/passes.h"
#include "onnx_model.h"

namespace quern {
namespace {

using test::Array;
using test::Dims;
using test::random;

// A graph of one node with inputs "a", "b", ... and the output "y".
struct OneNode {
  OpKind kind;
  Attributes attributes;
  std::vector<Dims> inputs;
  std::vector<Array> constants = {};
};

Graph graph_of(const OneNode& one) {
  Graph graph;
  graph.source = "test";
  Vector<int> inputs;
  const char* const names[] = {"a", "b"};
  for (const Dims& dims : one.inputs) {
    const char* name = names[inputs.size()];
    const int tensor = add_tensor(graph, name, QN_F32, Vector<size_t>(dims.begin(), dims.end()));
    graph.inputs.push_back({.tensor = tensor, .type = QN_F32, .preprocessing = {}});
    inputs.push_back(tensor);
  }
  for (const Array& c : one.constants) {
    inputs.push_back(add_constant(graph, "", QN_F32, Vector<size_t>(c.dims.begin(), c.dims.end()), c.data.data()));
  }
  const int output = add_node(graph, one.kind, "node", inputs, one.attributes);
  graph.tensors[static_cast<size_t>(output)].name = String("y");
  graph.outputs.push_back({.tensor = output, .type = QN_F32, .preprocessing = {}});
  EXPECT_EQ(check_graph(graph), QN_OK) << qn_last_message();
  EXPECT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
  return graph;
}

Attributes with(const std::function<void(Attributes&)>& set) {
  Attributes a;
  set(a);
  return a;
}

// The input as bytes, with two scales one after the other, and as floats again.
Graph graph_of_bytes() {
  Graph graph;
  graph.source = "test";
  int x = add_tensor(graph, "a", QN_F32, {2, 5, 6, 4});
  graph.inputs.push_back({.tensor = x});
  const auto as_bytes = [&](OpKind kind, const char* name, float scale, int32_t zero) {
    x = add_node(graph, kind, name, {x}, {});
    graph.tensors[static_cast<size_t>(x)].quantization = {{scale}, {zero}, -1};
  };
  as_bytes(OpKind::quantize, "first", 0.03125f, -3);
  as_bytes(OpKind::requantize, "second", 0.0625f, 10);
  x = add_node(graph, OpKind::dequantize, "last", {x}, {});
  graph.tensors[static_cast<size_t>(x)].name = String("y");
  graph.outputs.push_back({.tensor = x});
  EXPECT_EQ(check_graph(graph), QN_OK) << qn_last_message();
  EXPECT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
  return graph;
}

// A pointwise convolution and a matrix product that quantize the rows of their inputs, of rank 4 and of `rank`.
Graph graph_that_quantizes(size_t rank) {
  Graph graph;
  graph.source = "test";
  int x = add_tensor(graph, "a", QN_F32, {2, 5, 6, 4});
  graph.inputs.push_back({.tensor = x});
  const Attributes a = with([](Attributes& attributes) {
    attributes.quantize_input = true;
    attributes.min = -1;
  });
  const auto add_layer = [&](OpKind kind, const Vector<size_t>& shape, Vector<float> scales, bool has_bias,
                             size_t block = 0) {
    std::vector<int8_t> bytes(shape[0] * shape.back());
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<int8_t>(block != 0 ? 7 * i % 16 - 8 : 37 * i % 256 - 128);
    }
    const int weights = add_constant(graph, "", QN_S8, shape, bytes.data());
    const int axis = scales.size() == 1 ? -1 : 0;
    graph.tensors[static_cast<size_t>(weights)].quantization = {std::move(scales), {}, axis, block};
    Vector<int> inputs = {x, weights};
    const Array bias = random({shape[0]}, 3);
    if (has_bias) inputs.push_back(add_constant(graph, "", QN_F32, {shape[0]}, bias.data.data()));
    x = add_node(graph, kind, "layer", inputs, a);
  };
  add_layer(OpKind::conv2d, {3, 1, 1, 4}, {0.01f, 0.02f, 0.005f}, true);
  const Attributes joined = with([&](Attributes& attributes) {
    attributes.values = rank == 1   ? Vector<int64_t>{-1}
                        : rank == 2 ? Vector<int64_t>{-1, 3}
                                    : Vector<int64_t>{2, -1, 3};
  });
  x = add_node(graph, OpKind::reshape, "rows", {x}, joined);
  add_layer(OpKind::fully_connected, {35, rank == 1 ? 180u : 3u}, {0.01f}, false);
  add_layer(OpKind::fully_connected, {3, 35}, {0.01f, 0.02f, 0.005f, 0.03f, 0.01f, 0.04f}, true, 32);
  graph.tensors[static_cast<size_t>(x)].name = String("y");
  graph.outputs.push_back({.tensor = x});
  EXPECT_EQ(check_graph(graph), QN_OK) << qn_last_message();
  EXPECT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
  return graph;
}

std::vector<OneNode> all_kinds() {
  const Attributes none;
  const Dims image = {2, 5, 6, 4};
  const Attributes window = with([](Attributes& a) {
    a.kernel = {3, 2};
    a.stride = {2, 1};
    a.padding = {1, 0, 2, 1};
    a.ceil_mode = true;
  });
  const auto resized = [](qn_resize_kind mode, qn_resize_coordinates coordinates, qn_resize_rounding rounding) {
    return with([&](Attributes& a) {
      a.mode = mode;
      a.coordinates = coordinates;
      a.rounding = rounding;
      a.values = {7, 9};
    });
  };
  return {
      {OpKind::conv2d,
       with([](Attributes& a) {
         a.stride = {2, 1};
         a.dilation = {1, 2};
         a.padding = {1, 0, 0, 2};
         a.groups = 2;
         a.min = -0.5f;
         a.max = 0.75f;
       }),
       {image},
       {random({6, 3, 2, 2}, 1), random({6}, 2)}},
      {OpKind::fully_connected, with([](Attributes& a) { a.min = 0; }), {{3, 4}}, {random({5, 4}, 1), random({5}, 2)}},
      {OpKind::fully_connected, none, {{2, 3, 4}}, {random({5, 4}, 1), random({5}, 2)}},
      {OpKind::fully_connected, none, {{4}}, {random({5, 4}, 1)}},
      {OpKind::max_pool, window, {image}},
      {OpKind::average_pool, window, {image}},
      {OpKind::average_pool,
       with([&](Attributes& a) {
         a = window;
         a.count_padding = true;
       }),
       {image}},
      {OpKind::average_pool,
       with([&](Attributes& a) {
         a = window;
         a.ceil_mode = false;
         a.dilation = {2, 1};
       }),
       {image}},
      {OpKind::global_max_pool, none, {image}},
      {OpKind::global_average_pool, with([](Attributes& a) { a.max = 0.1f; }), {image}},
      {OpKind::add, none, {image, {6, 1}}},
      {OpKind::sub, with([](Attributes& a) { a.min = 0; }), {image, image}},
      {OpKind::mul, none, {image}, {random({5, 1, 1}, 3)}},
      {OpKind::div, none, {image}, {test::make({1}, {3})}},
      {OpKind::clamp,
       with([](Attributes& a) {
         a.min = 0;
         a.max = 0.5f;
       }),
       {image}},
      {OpKind::clamp, none, {image}},
      {OpKind::sigmoid, none, {image}},
      {OpKind::tanh, none, {{7}}},
      {OpKind::hard_swish, none, {image}},
      {OpKind::exp, none, {image}},
      {OpKind::power,
       with([](Attributes& a) {
         a.alpha = 0.5f;
         a.beta = 2;
         a.gamma = 1.5f;
       }),
       {image}},
      {OpKind::power, with([](Attributes& a) { a.alpha = a.gamma = 1; }), {image}},
      {OpKind::prelu, none, {image}, {random({4}, 1)}},
      {OpKind::prelu, none, {{3, 4}}, {random({4}, 1)}},
      {OpKind::scale, with([](Attributes& a) { a.min = 0; }), {image}, {random({4}, 1), random({4}, 2)}},
      {OpKind::scale, none, {image}, {random({4}, 1)}},
      {OpKind::softmax, with([](Attributes& a) { a.axis = 1; }), {image}},
      {OpKind::concat, with([](Attributes& a) { a.axis = 3; }), {image, image}, {random({2, 5, 6, 1}, 1)}},
      {OpKind::lrn,
       with([](Attributes& a) {
         a.size = 3;
         a.alpha = 0.5f;
         a.beta = 0.75f;
         a.gamma = 2;
       }),
       {image}},
      {OpKind::pad,
       with([](Attributes& a) {
         a.values = {0, 1, 0, 2, 1, 0, 0, 3};
         a.alpha = 0.5f;
       }),
       {image}},
      {OpKind::resize, resized(QN_RESIZE_NEAREST, QN_COORDINATES_HALF_PIXEL, QN_ROUND_HALF_DOWN), {image}},
      {OpKind::resize, resized(QN_RESIZE_NEAREST, QN_COORDINATES_ASYMMETRIC, QN_ROUND_CEIL), {image}},
      {OpKind::resize, resized(QN_RESIZE_BILINEAR, QN_COORDINATES_ALIGN_CORNERS, QN_ROUND_FLOOR), {image}},
      {OpKind::resize, resized(QN_RESIZE_NEAREST, QN_COORDINATES_HALF_PIXEL_OR_0, QN_ROUND_FLOOR), {image}},
      {OpKind::resize,
       with([](Attributes& a) {
         a.mode = QN_RESIZE_BILINEAR;
         a.alpha = 2;
         a.beta = 1.5f;
       }),
       {image}},
      {OpKind::reshape,
       with([](Attributes& a) {
         a.values = {0, -1, 3};
       }),
       {image}},
      {OpKind::reshape,
       with([](Attributes& a) {
         a.values = {1, -5, -2, -1};
       }),
       {image}},
      {OpKind::reshape,
       with([](Attributes& a) {
         a.values = {1, 0, -4, -2, -5};
       }),
       {image}},
      {OpKind::transpose,
       with([](Attributes& a) {
         a.values = {3, 1, 0, 2};
       }),
       {image}},
      {OpKind::slice, with([](Attributes& a) { a.values = {0, 1, 2, 0, -1, 4, -1, 3}; }), {image}},
      {OpKind::slice, with([](Attributes& a) { a.values = {-3, 1, -4, 0, -1, -2, -2, 3}; }), {image}},
  };
}

class Export : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_EQ(qn_extra_register(), QN_OK) << qn_last_message(); }
  onnx::schema::ModelProto exported(const Graph& graph) {
    export_onnx(graph, folder_.path("net.onnx"));
    std::ifstream file(folder_.path("net.onnx"), std::ios::binary);
    onnx::schema::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(std::string(std::istreambuf_iterator<char>(file), {})));
    return model;
  }
  Graph again() { return import_onnx(folder_.path("net.onnx")); }

  test::Folder folder_;
};

// Every name is written once and before it is read.
void expect_sorted(const onnx::schema::GraphProto& graph) {
  std::set<std::string> known = {""};
  for (const auto& input : graph.input()) EXPECT_TRUE(known.insert(input.name()).second);
  for (const auto& initializer : graph.initializer()) EXPECT_TRUE(known.insert(initializer.name()).second);
  for (const auto& node : graph.node()) {
    for (const auto& input : node.input()) EXPECT_EQ(known.count(input), 1u) << node.op_type() << " reads " << input;
    for (const auto& output : node.output()) EXPECT_TRUE(known.insert(output).second) << output;
  }
  for (const auto& output : graph.output()) EXPECT_EQ(known.count(output.name()), 1u);
}

TEST_F(Export, EveryKindOfNodeSurvives) {
  std::set<OpKind> seen;
  std::vector<Graph> graphs = {graph_of_bytes()};
  for (const OneNode& one : all_kinds()) graphs.push_back(graph_of(one));
  for (const Graph& graph : graphs) {
    SCOPED_TRACE(op_name(graph.nodes[0].kind));
    for (const Node& node : graph.nodes) seen.insert(node.kind);
    expect_sorted(exported(graph).graph());
    const Graph copy = again();
    ASSERT_EQ(copy.inputs.size(), graph.inputs.size());
    std::vector<Array> inputs;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const Tensor& tensor = graph.tensors[static_cast<size_t>(graph.inputs[i].tensor)];
      const Tensor& other = copy.tensors[static_cast<size_t>(copy.inputs[i].tensor)];
      EXPECT_EQ(tensor.name, other.name);
      EXPECT_EQ(tensor.shape, other.shape);
      inputs.push_back(random(Dims(tensor.shape.begin(), tensor.shape.end()), static_cast<uint32_t>(i + 10)));
    }
    EXPECT_STREQ(copy.tensors[static_cast<size_t>(copy.outputs[0].tensor)].name.c_str(), "y");
    const std::vector<Array> want = test::run(graph, inputs), got = test::run(copy, inputs);
    test::expect_near(got.at(0), want.at(0), 1e-6f);
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(OpKind::count)) << "a kind of node is not tested";
}

// Layers that quantize their input come back as such, with the same bits once the graph is optimized.
TEST_F(Export, LayersThatQuantizeTheirInput) {
  for (const size_t rank : {1, 2, 3}) {
    const Graph graph = graph_that_quantizes(rank);
    const onnx::schema::ModelProto model = exported(graph);
    expect_sorted(model.graph());
    Graph copy = again();
    ASSERT_EQ(optimize(copy), QN_OK) << qn_last_message();
    const auto quantizing = std::count_if(copy.nodes.begin(), copy.nodes.end(),
                                          [](const Node& node) { return node.attributes.quantize_input; });
    EXPECT_EQ(quantizing, 3);
    const Array x = random({2, 5, 6, 4}, 1);
    EXPECT_EQ(test::run(copy, {x}).at(0).data, test::run(graph, {x}).at(0).data);
  }
}

// The border of an imported network: transposes cancel, and nothing but its own operators is in the file.
TEST_F(Export, ImagesAreChannelsFirstWithoutTransposes) {
  const Array w = random({4, 3, 3, 3}, 1);
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {1, 3, 8, 8});
  graph.inputs.push_back({.tensor = x, .type = QN_F16, .preprocessing = {}});
  const int nhwc = add_node(graph, OpKind::transpose, "t", {x}, with([](Attributes& a) { a.values = {0, 2, 3, 1}; }));
  const int weights = add_constant(graph, "", QN_F32, {4, 3, 3, 3}, w.data.data());
  const int conv = add_node(graph, OpKind::conv2d, "c", {nhwc, weights}, with([](Attributes& a) { a.min = 0; }));
  const int nchw = add_node(graph, OpKind::transpose, "u", {conv}, with([](Attributes& a) {
                              a.values = {0, 3, 1, 2};
                            }));
  graph.tensors[static_cast<size_t>(nchw)].name = "v3";  // as the exporter names its own
  graph.outputs.push_back({.tensor = nchw, .type = QN_F16, .preprocessing = {}});
  ASSERT_EQ(check_graph(graph), QN_OK) << qn_last_message();
  ASSERT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
  const onnx::schema::ModelProto model = exported(graph);
  expect_sorted(model.graph());
  std::vector<std::string> types;
  for (const auto& node : model.graph().node()) types.push_back(node.op_type());
  EXPECT_EQ(types, (std::vector<std::string>{"Cast", "Conv", "Relu", "Cast"}));
  EXPECT_EQ(model.graph().output(0).name(), "v3");
  EXPECT_EQ(model.graph().input(0).type().tensor_type().elem_type(), onnx::schema::TensorProto::FLOAT16);
  const Graph copy = again();
  EXPECT_EQ(copy.inputs[0].type, QN_F16);
  EXPECT_EQ(copy.outputs[0].type, QN_F16);
  const Array image = random({1, 3, 8, 8}, 2);
  test::expect_near(test::run(copy, {image}).at(0), test::run(graph, {image}).at(0), 1e-3f);
}

// A shuffle of channels and a cut through them, between convolutions.
TEST_F(Export, ChannelsAreShuffledAndCutWhereTheyLie) {
  const Array w = random({6, 1, 1, 6}, 1), half = random({5, 1, 1, 3}, 2);
  const auto values = [](Vector<int64_t> list) { return with([&](Attributes& a) { a.values = list; }); };
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {2, 6, 4, 5});
  graph.inputs.push_back({.tensor = x, .type = QN_F32, .preprocessing = {}});
  const int nhwc = add_node(graph, OpKind::transpose, "in", {x}, values({0, 2, 3, 1}));
  const int weights = add_constant(graph, "", QN_F32, {6, 1, 1, 6}, w.data.data());
  const int conv = add_node(graph, OpKind::conv2d, "a", {nhwc, weights}, {});
  const int split = add_node(graph, OpKind::reshape, "split", {conv}, values({0, 0, 0, 2, 3}));
  const int swapped = add_node(graph, OpKind::transpose, "swap", {split}, values({0, 1, 2, 4, 3}));
  const int merged = add_node(graph, OpKind::reshape, "merge", {swapped}, values({0, 0, 0, -1}));
  const int whole = add_node(graph, OpKind::slice, "whole", {merged}, values({0, 0, 0, 0, -1, -1, -1, -1}));
  const int cut = add_node(graph, OpKind::slice, "cut", {whole}, values({0, 0, 0, 3, -1, -1, -1, -1}));
  const int fewer = add_constant(graph, "", QN_F32, {5, 1, 1, 3}, half.data.data());
  const int last = add_node(graph, OpKind::conv2d, "b", {cut, fewer}, {});
  const int nchw = add_node(graph, OpKind::transpose, "out", {last}, values({0, 3, 1, 2}));
  graph.tensors[static_cast<size_t>(nchw)].name = String("y");
  graph.outputs.push_back({.tensor = nchw, .type = QN_F32, .preprocessing = {}});
  ASSERT_EQ(check_graph(graph), QN_OK) << qn_last_message();
  ASSERT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
  const onnx::schema::ModelProto model = exported(graph);
  std::vector<std::string> types;
  for (const auto& node : model.graph().node()) {
    types.push_back(node.op_type());
    if (node.op_type() != "Slice") continue;
    ASSERT_EQ(node.input_size(), 4);
    for (const auto& initializer : model.graph().initializer()) {
      if (initializer.name() != node.input(3)) continue;
      const int64_t channels = 1;
      EXPECT_EQ(initializer.raw_data(), std::string(reinterpret_cast<const char*>(&channels), sizeof channels));
    }
  }
  EXPECT_EQ(types, (std::vector<std::string>{"Conv", "Reshape", "Transpose", "Reshape", "Slice", "Conv", "Identity"}));
  const Array image = random({2, 6, 4, 5}, 3);
  test::expect_near(test::run(again(), {image}).at(0), test::run(graph, {image}).at(0), 1e-6f);
}

TEST_F(Export, OperatorSetIsTheLowestThatDoes) {
  for (const OneNode& one : all_kinds()) {
    const bool dilated_average = one.kind == OpKind::average_pool && one.attributes.dilation.h > 1;
    const bool counts_padding = one.kind == OpKind::average_pool && one.attributes.count_padding;
    const int64_t want = dilated_average || counts_padding ? 19 : one.kind == OpKind::hard_swish ? 14 : 13;
    EXPECT_EQ(exported(graph_of(one)).opset_import(0).version(), want) << op_name(one.kind);
  }
}

// ONNX divides windows that overhang by the whole kernel if it counts padding, even where there is none.
TEST_F(Export, PaddingIsCountedWhereThereIsSome) {
  const auto pool_with = [&](const std::function<void(Attributes&)>& set) {
    Attributes a = with([](Attributes& to) {
      to.kernel = {3, 3};
      to.stride = {2, 2};
      to.ceil_mode = to.count_padding = true;
    });
    set(a);
    return exported(graph_of({OpKind::average_pool, a, {{1, 6, 6, 2}}}));
  };
  const auto counts = [](const onnx::schema::ModelProto& model) {
    for (const onnx::schema::NodeProto& node : model.graph().node()) {
      for (const onnx::schema::AttributeProto& a : node.attribute()) {
        if (a.name() == "count_include_pad") return a.i() != 0;
      }
    }
    return false;
  };
  const onnx::schema::ModelProto without = pool_with([](Attributes&) {});
  EXPECT_FALSE(counts(without));
  EXPECT_EQ(without.opset_import(0).version(), 13);
  const onnx::schema::ModelProto padded = pool_with([](Attributes& a) { a.padding.bottom = 1; });
  EXPECT_TRUE(counts(padded));
  EXPECT_EQ(padded.opset_import(0).version(), 19);
  const onnx::schema::ModelProto whole = pool_with([](Attributes& a) {
    a.padding.right = 1;
    a.ceil_mode = false;
  });
  EXPECT_TRUE(counts(whole));
  EXPECT_EQ(whole.opset_import(0).version(), 13);
}

// Averages of four bytes, many of which are halves of a step.
TEST_F(Export, AveragesOfBytesRoundAsBefore) {
  const auto graph_with = [](OpKind kind, qn_pool_rounding rounding, float min) {
    Graph graph;
    graph.source = "test";
    int x = add_tensor(graph, "a", QN_F32, {40, 2, 2, 8});
    graph.inputs.push_back({.tensor = x});
    const Attributes a = with([&](Attributes& to) {
      if (kind == OpKind::average_pool) to.kernel = {2, 2};
      to.pool_rounding = rounding;
      to.min = min;
    });
    x = add_node(graph, OpKind::quantize, "bytes", {x}, {});
    graph.tensors[static_cast<size_t>(x)].quantization = {{0.0078125f}, {-5}, -1};
    x = add_node(graph, kind, "mean", {x}, a);
    graph.tensors[static_cast<size_t>(x)].quantization = {{0.0078125f}, {-5}, -1};
    x = add_node(graph, OpKind::dequantize, "last", {x}, {});
    graph.tensors[static_cast<size_t>(x)].name = String("y");
    graph.outputs.push_back({.tensor = x});
    EXPECT_EQ(check_graph(graph), QN_OK) << qn_last_message();
    EXPECT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
    return graph;
  };
  const Array x = random({40, 2, 2, 8}, 1);
  for (const OpKind kind : {OpKind::average_pool, OpKind::global_average_pool}) {
    const Array even = test::run(graph_with(kind, QN_POOL_ROUND_REAL, -infinity), {x}).at(0);
    for (const qn_pool_rounding rounding : {QN_POOL_ROUND_S8, QN_POOL_ROUND_U8}) {
      for (const float min : {-infinity, 0.0f}) {
        const Graph graph = graph_with(kind, rounding, min);
        exported(graph);
        const Array want = test::run(graph, {x}).at(0);
        EXPECT_EQ(test::run(again(), {x}).at(0).data, want.data);
        EXPECT_NE(even.data, want.data);
      }
    }
  }
}

// A graph with the input "a" and a node of a registered kind for each name, one after the other. The last gives "y".
Graph graph_of_kinds(const std::vector<std::pair<const char*, Vector<Parameter>>>& kinds) {
  Graph graph;
  graph.source = "test";
  int x = add_tensor(graph, "a", QN_F32, {1, 3, 4});
  graph.inputs.push_back({.tensor = x});
  for (const auto& [kind, parameters] : kinds) {
    x = add_node(graph, OpKind::custom, kind, {x}, {});
    graph.nodes.back().type = kind;
    graph.nodes.back().parameters = parameters;
  }
  graph.tensors[static_cast<size_t>(x)].name = String("y");
  graph.outputs.push_back({.tensor = x});
  EXPECT_EQ(check_graph(graph), QN_OK) << qn_last_message();
  EXPECT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
  return graph;
}

TEST_F(Export, KindsOfTheSecondLibraryComeBackWithTheSameBits) {
  const Graph graph = graph_of_kinds({{"leaky_relu", {{"alpha", {}, {0.25f}}}},
                                      {"any_softmax", {{"to_end", {1}, {}}}},
                                      {"reduce_mean", {{"axes", {-1}, {}}}},
                                      {"permute", {{"perm", {2, 0, 1}, {}}}}});
  const onnx::schema::ModelProto model = exported(graph);
  expect_sorted(model.graph());
  std::vector<std::string> types;
  for (const auto& node : model.graph().node()) types.push_back(node.op_type());
  EXPECT_EQ(types, (std::vector<std::string>{"LeakyRelu", "Flatten", "Softmax", "Shape", "Reshape", "ReduceMean",
                                             "Transpose", "Identity"}));
  EXPECT_EQ(model.opset_import(0).version(), 18);
  const onnx::schema::NodeProto& back = model.graph().node(4);  // to a shape that may have a dimension of 0
  ASSERT_EQ(back.attribute_size(), 1);
  EXPECT_EQ(back.attribute(0).name(), "allowzero");
  const Array x = random({1, 3, 4}, 1);
  EXPECT_EQ(test::run(again(), {x}).at(0).data, test::run(graph, {x}).at(0).data);
}

// allowzero came with operator set 14.
TEST_F(Export, LinesThatReachToTheEndNeedAllowzero) {
  for (const char* kind : {"any_softmax", "log_softmax", "hardmax"}) {
    const onnx::schema::ModelProto model = exported(graph_of_kinds({{kind, {{"to_end", {1}, {}}}}}));
    EXPECT_EQ(model.opset_import(0).version(), 14) << kind;
  }
}

// ONNX Runtime refuses a model with two nodes of one name.
TEST_F(Export, NodesHaveDifferentNames) {
  std::set<std::string> names;
  const onnx::schema::ModelProto model = exported(graph_of_kinds({{"abs", {}}, {"abs", {}}, {"abs", {}}}));
  for (const auto& node : model.graph().node()) {
    EXPECT_TRUE(node.name().empty() || names.insert(node.name()).second) << node.name();
  }
  EXPECT_EQ(names.size(), 3u);
}

TEST_F(Export, OpenDimensionsStayOpen) {
  Graph graph = graph_of_kinds({{"abs", {}}});
  graph.inputs[0].open = 5;
  graph.inputs[0].fixed = 4;
  graph.inputs[0].dimensions = {"batch"};
  const onnx::schema::ModelProto model = exported(graph);
  const auto& shape = model.graph().input(0).type().tensor_type().shape();
  EXPECT_EQ(shape.dim(0).dim_param(), "batch");
  EXPECT_EQ(shape.dim(1).dim_value(), 3);
  EXPECT_EQ(shape.dim(2).dim_value(), 4);
  EXPECT_FALSE(model.graph().output(0).type().tensor_type().shape().dim(0).has_dim_value());
}

// Dimensions of 0 in one run. A dimension that is inferred beside one of 0 is lost.
TEST_F(Export, ReshapesKeepOpenDimensionsOfZero) {
  struct Case {
    Dims dims;
    Vector<int64_t> values;
  };
  for (const Case& one : std::vector<Case>{{{0, 1, 5}, {0, -4}},
                                           {{0, 5}, {0, 1, -3, 1}},
                                           {{1, 0, 5}, {1, -3, 1, -4}},
                                           {{0, 4, 6}, {0, 2, 2, -4}},
                                           {{0, 4, 6}, {6, -2, 4}},
                                           {{2, 0, 3}, {0, -4, -3}},
                                           {{0, 2, 3, 4}, {0, -4, 8, 1}},
                                           {{0, 3}, {0, 3}}}) {
    for (const bool declared : {false, true}) {
      Graph graph = graph_of({OpKind::reshape, with([&](Attributes& a) { a.values = one.values; }), {one.dims}});
      if (declared) graph.inputs[0].open = 1u << (std::find(one.dims.begin(), one.dims.end(), 0) - one.dims.begin());
      exported(graph);
      test::Runs want(graph), got(again());
      for (const size_t size : {0, 3}) {
        Dims dims = one.dims;
        std::replace(dims.begin(), dims.end(), size_t{0}, size);
        const Array x = random(dims, 1), wanted = want.run({&x}).at(0), given = got.run({&x}).at(0);
        EXPECT_EQ(given.dims, wanted.dims);
        EXPECT_EQ(given.data, wanted.data);
      }
    }
  }
}

// A dimension that is always 0 stands in the new shape as such.
TEST_F(Export, ReshapesKeepFixedDimensionsOfZero) {
  Graph graph;
  const int x = add_tensor(graph, "a", QN_F32, {2, 3});
  graph.inputs.push_back({.tensor = x});
  const int64_t zero = 0, one = 1;
  const Vector<int> cut = {x, add_constant(graph, "", QN_S64, {1}, &zero), add_constant(graph, "", QN_S64, {1}, &zero),
                           add_constant(graph, "", QN_S64, {1}, &one)};
  const int none = add_node(graph, OpKind::custom, "cut", cut, {});
  graph.nodes.back().type = "slice_by";
  const int y = add_node(graph, OpKind::reshape, "node", {none}, with([](Attributes& a) { a.values = {0, 5, -3}; }));
  graph.tensors[static_cast<size_t>(y)].name = String("y");
  graph.outputs.push_back({.tensor = y});
  ASSERT_EQ(check_graph(graph), QN_OK) << qn_last_message();
  ASSERT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
  const onnx::schema::ModelProto model = exported(graph);
  const onnx::schema::NodeProto& reshape = model.graph().node(1);
  ASSERT_EQ(reshape.op_type(), "Reshape");
  ASSERT_EQ(reshape.attribute_size(), 1);
  EXPECT_EQ(reshape.attribute(0).name(), "allowzero");
  const int64_t shape[] = {2, 5, 0};
  EXPECT_EQ(model.graph().initializer(3).raw_data(), std::string(reinterpret_cast<const char*>(shape), sizeof shape));
  EXPECT_EQ(test::run(again(), {random({2, 3}, 1)}).at(0).dims, (Dims{2, 5, 0}));
}

// The slope is no size: the dimension that has it in our graph may change in the other's.
TEST_F(Export, OneSlopeLeavesSizesOpen) {
  Graph graph = graph_of({OpKind::prelu, {}, {{2, 3, 1}}, {test::make({1}, {-0.5f})}});
  graph.inputs[0].open = 3;
  exported(graph);
  const Array x = random({4, 5, 1}, 1);
  test::Runs got(again());
  test::expect_near(got.run({&x}).at(0), test::map(x, [](float v) { return v < 0 ? v * -0.5f : v; }));
}

// A loop of three runs that gives their rows, a scan over rows, and a choice between two graphs.
test::OnnxModel model_with_graphs() {
  using Type = onnx::schema::TensorProto;
  const auto attach = [](test::OnnxModel& to, const char* attribute, const test::OnnxModel& graph) {
    auto& nodes = *to.model.mutable_graph()->mutable_node();
    auto* a = nodes[nodes.size() - 1].add_attribute();
    a->set_name(attribute);
    a->set_type(onnx::schema::AttributeProto::GRAPH);
    *a->mutable_g() = graph.model.graph();
  };
  test::OnnxModel all(18), loop(18), scan(18), yes(18), no(18);
  loop.input("i", {}, Type::INT64).input("go", {}, Type::BOOL).input("v", {4, 3});
  loop.node("Identity", {"go"}, {"on"}).node("Add", {"v", "x"}, {"w"}).node("Identity", {"w"}, {"row"});
  loop.output("on").output("w").output("row");
  scan.input("s", {3}).input("r", {3}).node("Add", {"s", "r"}, {"t"}).node("Exp", {"t"}, {"u"});
  scan.output("t").output("u");
  yes.node("Exp", {"sums"}, {"yes"}).output("yes");
  no.node("Neg", {"sums"}, {"no"}).output("no");
  all.input("x", {4, 3}).integers("three", {3}).floats("start", random({3}, 1)).scalar("zero", 0);
  all.node("Loop", {"three", "", "x"}, {"sum", "rows"});
  attach(all, "body", loop);
  all.node("Scan", {"start", "x"}, {"last", "sums"}, "num_scan_inputs=1");
  attach(all, "body", scan);
  all.node("ReduceSum", {"x"}, {"total"}, "keepdims=0").node("Greater", {"total", "zero"}, {"condition"});
  all.node("If", {"condition"}, {"chosen"});
  attach(all, "then_branch", yes);
  attach(all, "else_branch", no);
  all.output("sum").output("rows").output("last").output("sums").output("chosen");
  return all;
}

TEST_F(Export, GraphsOfNodesComeBackWithTheSameBits) {
  const Graph graph = import_onnx(folder_.write("source.onnx", model_with_graphs().bytes()));
  const onnx::schema::ModelProto model = exported(graph);
  std::set<std::string> types;
  for (const auto& node : model.graph().node()) types.insert(node.op_type());
  for (const char* type : {"Loop", "Scan", "If"}) EXPECT_EQ(types.count(type), 1u) << type;
  const Graph copy = again();
  for (const float sign : {1.0f, -1.0f}) {
    const Array x = test::map(random({4, 3}, 2), [&](float value) { return sign * std::abs(value); });
    const std::vector<Array> want = test::run(graph, {x}), got = test::run(copy, {x});
    ASSERT_EQ(want.size(), 5u);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got.at(i).dims, want[i].dims);
      EXPECT_EQ(got.at(i).data, want[i].data);
    }
  }
}

TEST_F(Export, ListsAllThatOnnxCannotExpress) {
  const Vector<Parameter> odd = {{"kernel", {2}, {}}, {"p", {}, {1.5f}}};
  const std::string path = folder_.path("net.onnx");
  EXPECT_EQ(test::error_of([&] {
              export_onnx(graph_of_kinds({{"window_norm", odd}, {"abs", {}}, {"window_norm", odd}}), path);
            }),
            "ONNX has no form for: window_norm (window_norm: a norm of an order that is no integer), "
            "window_norm (window_norm: a norm of an order that is no integer)");
  EXPECT_FALSE(std::ifstream(path).good());
}

// A parameter that no row names would be lost.
TEST_F(Export, ParametersThatOnnxLacksAreRefused) {
  const std::string path = folder_.path("net.onnx");
  EXPECT_EQ(
      test::error_of([&] {
        export_onnx(graph_of_kinds({{"abs", {{"zoom", {1}, {}}, {"tint", {}, {2}}}},
                                    {"leaky_relu", {{"alpha", {}, {0.25f}}, {"beta", {}, {0.5f}}}}}),
                    path);
      }),
      "ONNX has no form for: abs (abs: with the parameter zoom, tint), leaky_relu (leaky_relu: with the parameter "
      "beta)");
  EXPECT_FALSE(std::ifstream(path).good());
}

// The last of three parts is read by nobody.
TEST_F(Export, PartsThatNobodyReadsAreCounted) {
  const Graph graph = graph_of_kinds({{"split_to", {{"axis", {1}, {}}, {"parts", {3}, {}}}}});
  expect_sorted(exported(graph).graph());
  const Array x = random({1, 3, 4}, 1);
  EXPECT_EQ(test::run(again(), {x}).at(0).data, test::run(graph, {x}).at(0).data);
}

TEST_F(Export, EveryKindHasARow) {
  for (const qn_kind& kind : extra::all_kinds()) {
    Node node = {OpKind::custom, "node", {}, {}, {}};
    node.type = kind.name;
    EXPECT_NE(onnx::find_row(node), nullptr) << kind.name;
  }
  for (int kind = 0; kind <= static_cast<int>(last_kind); ++kind) {
    const Node node = {static_cast<OpKind>(kind), "node", {}, {}, {}};
    const bool in_files = node.kind != OpKind::count && node.kind != OpKind::copy && node.kind != OpKind::custom;
    EXPECT_EQ(onnx::find_row(node) != nullptr, in_files) << op_name(node.kind);
  }
}

// What is carried from run to run is an input and an output in ONNX.
TEST_F(Export, StatesAreInputsAndOutputs) {
  Graph graph = graph_of({OpKind::exp, {}, {{2}}});
  graph.states = {{0, 0}};
  const onnx::schema::ModelProto model = exported(graph);
  EXPECT_EQ(model.graph().input_size(), 1);
  EXPECT_EQ(model.graph().output_size(), 1);
}

// Graphs that many nodes share are written for each of them, so six levels of them make a small file large.
TEST_F(Export, SharedGraphsDoNotMultiplyWithoutEnd) {
  Graph graph = graph_of({OpKind::exp, {}, {{2}}});
  for (int level = 0; level < 5; ++level) {
    Graph outer;
    outer.source = "test";
    const int x = add_tensor(outer, "a", QN_F32, {2});
    outer.inputs.push_back({.tensor = x});
    const bool yes = true;
    const int condition = add_constant(outer, "", QN_BOOL, {}, &yes);
    outer.subgraphs.push_back(std::move(graph));
    for (int i = 0; i < 100; ++i) {
      const int y = add_node(outer, OpKind::branch, "branch", {condition, x}, {});
      outer.nodes.back().subgraphs = {0, 0};
      outer.tensors[static_cast<size_t>(y)].type = QN_F32;
      if (i == 0) outer.outputs.push_back({.tensor = y});
    }
    outer.tensors[static_cast<size_t>(outer.outputs[0].tensor)].name = String("y");
    graph = std::move(outer);
  }
  ASSERT_EQ(check_graph(graph), QN_OK) << qn_last_message();
  EXPECT_EQ(test::error_of([&] { export_onnx(graph, folder_.path("net.onnx")); }),
            "the ONNX file would have more than 262144 nodes");
}

TEST_F(Export, AFileThatCannotBeWrittenIsAnError) {
  const Graph graph = graph_of({OpKind::exp, {}, {{2}}});
  const std::string path = folder_.path("absent/net.onnx");
  EXPECT_NE(test::error_of([&] { export_onnx(graph, path); }).find(path), std::string::npos);
}

}  // namespace
}  // namespace quern
