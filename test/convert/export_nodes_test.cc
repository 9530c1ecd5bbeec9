// Each kind of node, exported to ONNX and imported again, gives the same outputs under the same names.
#include <algorithm>
#include <cmath>
#include <set>

#include "export_fixture.h"
#include "onnx_model.h"

namespace quern::test {
namespace export_nodes_test {

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
  return finished(std::move(graph), x);
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
  return finished(std::move(graph), x);
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

}  // namespace export_nodes_test
}  // namespace quern::test
