// check_graph and infer_shapes refuse whatever the rest of the library could not stand, and say where it is.
#include <cmath>
#include <functional>
#include <span>

#include "graph/ir/rules.h"
#include "small_graphs.h"

namespace quern::test {
namespace check_test {

struct Fault {
  const char* message;  // part of what is said about it
  void (*make)(Graph&);
};

// Tensors of the sample: 0 image, 1 bias, 2 weights, 3 bias, 4 conv2d, 5 clamp, 6 weights, 7 depthwise, ...
const Fault faults[] = {
    {"rank 9", [](Graph& g) { g.tensors[0].shape.assign(9, 1); }},
    {"overflows",
     [](Graph& g) {
       g.tensors[0].shape = {SIZE_MAX / 4, SIZE_MAX / 4, 1, 3};
     }},
    {"overflows", [](Graph& g) { g.tensors[0].shape = {SIZE_MAX / 4 + 1}; }},
    {"unknown type", [](Graph& g) { g.tensors[5].type = static_cast<qn_type>(0); }},
    {"not plain text", [](Graph& g) { g.tensors[0].name = String("a\nb"); }},
    {"not plain text", [](Graph& g) { g.tensors[0].name = String("a\x7f"); }},
    {"not plain text", [](Graph& g) { g.tensors[0].name = String("a\xff"); }},
    {"not plain text", [](Graph& g) { g.tensors[0].name = String("a\xc3"); }},
    {"not plain text", [](Graph& g) { g.tensors[0].name = String("\xe2\x82z"); }},
    {"not plain text", [](Graph& g) { g.tensors[0].name = String(std::string(2000, 'x')); }},
    {"not plain text", [](Graph& g) { g.tensors[0].name = String(std::string(3, '\0')); }},
    {"not plain text", [](Graph& g) { g.nodes[2].name = String("\t"); }},
    {"not plain text", [](Graph& g) { g.name = String("\x01"); }},
    {"named 'image'", [](Graph& g) { g.tensors[4].name = g.tensors[0].name; }},
    {"constant 99 does not exist", [](Graph& g) { g.tensors[2].constant = 99; }},
    {"constant -7 does not exist", [](Graph& g) { g.tensors[2].constant = -7; }},
    {"which is not its size", [](Graph& g) { g.tensors[2].shape[0] = 17; }},
    {"which is not its size", [](Graph& g) { g.constants[0].bytes -= 4; }},
    {"not aligned", [](Graph& g) { g.constants[0].data = static_cast<const char*>(g.constants[0].data) + 4; }},
    {"not aligned", [](Graph& g) { g.constants[0].data = nullptr; }},
    {"unknown operator", [](Graph& g) { g.nodes[0].kind = OpKind::count; }},
    {"unknown operator", [](Graph& g) { g.nodes[0].kind = static_cast<OpKind>(60000); }},
    {"1 inputs instead of 2 to 3", [](Graph& g) { g.nodes[0].inputs.resize(1); }},
    {"4 inputs instead of 2 to 3", [](Graph& g) { g.nodes[0].inputs.resize(4, 3); }},
    {"input 0 is tensor -1", [](Graph& g) { g.nodes[0].inputs[0] = no_tensor; }},
    {"input 1 is tensor -1", [](Graph& g) { g.nodes[0].inputs[1] = no_tensor; }},
    {"input 0 is tensor -2", [](Graph& g) { g.nodes[0].inputs[0] = -2; }},
    {"input 0 is tensor 1000", [](Graph& g) { g.nodes[0].inputs[0] = 1000; }},
    {"has no value yet", [](Graph& g) { g.nodes[0].inputs[0] = g.nodes[0].outputs[0]; }},
    {"has no value yet", [](Graph& g) { g.nodes[1].inputs[0] = g.nodes[5].outputs[0]; }},
    {"input 1 is not a constant", [](Graph& g) { g.nodes[0].inputs[1] = 0; }},
    {"f16 is converted at the border", [](Graph& g) { g.tensors[0].type = QN_F16; }},
    {"input 0 is u8, not f32 or s8", [](Graph& g) { g.tensors[0].type = g.inputs[0].type = QN_U8; }},
    {"input 0: its type is f32, that of its tensor u8", [](Graph& g) { g.tensors[0].type = QN_U8; }},
    {"input 0: its type is s64, that of its tensor f32", [](Graph& g) { g.inputs[0].type = QN_S64; }},
    {"tensor 0 ('image'): it has a scale, but f32 is not quantized",
     [](Graph& g) { g.tensors[0].quantization.scales = {1}; }},
    {"0 outputs", [](Graph& g) { g.nodes[0].outputs.clear(); }},
    {"2 outputs", [](Graph& g) { g.nodes[0].outputs.resize(2); }},
    {"output 0 is tensor 1000", [](Graph& g) { g.nodes[0].outputs[0] = 1000; }},
    {"is written twice", [](Graph& g) { g.nodes[1].outputs[0] = g.nodes[0].outputs[0]; }},
    {"is written twice", [](Graph& g) { g.nodes[0].outputs[0] = 0; }},
    {"is written twice", [](Graph& g) { g.nodes[0].outputs[0] = 2; }},
    {"input 0: tensor 1000", [](Graph& g) { g.inputs[0].tensor = 1000; }},
    {"input 1: its tensor is a constant or another input", [](Graph& g) { g.inputs[1].tensor = 0; }},
    {"input 1: its tensor is a constant or another input", [](Graph& g) { g.inputs[1].tensor = 2; }},
    {"no output", [](Graph& g) { g.outputs.clear(); }},
    {"output 0: tensor -1", [](Graph& g) { g.outputs[0].tensor = -1; }},
    {"output 0: no node writes its tensor", [](Graph& g) { g.outputs[0].tensor = add_tensor(g, "", QN_F32, {}); }},
    {"not finite", [](Graph& g) { g.inputs[0].preprocessing.mean[2] = NAN; }},
    {"not finite", [](Graph& g) { g.inputs[0].preprocessing.scale[3] = INFINITY; }},
    {"preprocessing", [](Graph& g) { g.inputs[0].preprocessing.resize = 1u << 30; }},
    {"preprocessing", [](Graph& g) { g.inputs[0].preprocessing.crop[1] = 1u << 30; }},
    {"stride_h is 0", [](Graph& g) { g.nodes[0].attributes.stride.h = 0; }},
    {"dilation_w is", [](Graph& g) { g.nodes[0].attributes.dilation.w = SIZE_MAX; }},
    {"padding_top is", [](Graph& g) { g.nodes[0].attributes.padding.top = SIZE_MAX; }},
    {"groups is 0", [](Graph& g) { g.nodes[0].attributes.groups = 0; }},
    {"axis is -1", [](Graph& g) { g.nodes[4].attributes.axis = -1; }},
    {"min is nan", [](Graph& g) { g.nodes[0].attributes.min = NAN; }},
    {"alpha is nan", [](Graph& g) { g.nodes[0].attributes.alpha = std::nanf(""); }},
    {"min 2 is above max 1", [](Graph& g) { g.nodes[1].attributes = range(2, 1); }},
    {"mode is", [](Graph& g) { g.nodes[0].attributes.mode = static_cast<qn_resize_kind>(1u << 31); }},
    {"values are too many", [](Graph& g) { g.nodes[0].attributes.values.resize(100); }},
    {"padding is not smaller",
     [](Graph& g) {
       g.nodes[5].attributes.padding = {2, 0, 0, 0};
     }},
    {"more than", [](Graph& g) { g.nodes.resize(50000, g.nodes[0]); }},
    {"label 1 is not plain text", [](Graph& g) { g.postprocessing.labels[1] = String("a\033[2J"); }},
    {"kind of detections", [](Graph& g) { g.postprocessing.detections = String("\n"); }},
    {"output 2 does not exist",
     [](Graph& g) {
       g.postprocessing.outputs = {0, 2};
     }},
    {"not between 0 and 1", [](Graph& g) { g.postprocessing.threshold = NAN; }},
    {"not between 0 and 1", [](Graph& g) { g.postprocessing.overlap = 1.5f; }},
};

// The graph is nested_graph().
const Fault nested_faults[] = {
    {"state 0: input 2 or output 1 does not exist", [](Graph& g) { g.states[0].input = 2; }},
    {"state 0: input 1 or output 4294967295 does not exist", [](Graph& g) { g.states[0].output = UINT32_MAX; }},
    {"state 1: its input or output belongs to another state",
     [](Graph& g) {
       g.states.push_back({1, 0});
     }},
    {"state 1: its input or output belongs to another state",
     [](Graph& g) {
       g.states.push_back({0, 1});
     }},
    {"node 'add1' (add): subgraph 2 does not exist",
     [](Graph& g) {
       g.nodes[1].subgraphs = {0, 2};
     }},
    {"node 'add1' (add): this kind of node takes no subgraphs",
     [](Graph& g) {
       g.nodes[1].subgraphs = {0, 1};
     }},
    {"subgraph 0: only the outermost graph may carry tensors",
     [](Graph& g) {
       g.subgraphs[0].states = {{0, 0}};
     }},
    {"subgraph 1: subgraph 0: only the outermost",
     [](Graph& g) {
       g.subgraphs[1].subgraphs[0].states = {{0, 0}};
     }},
    {"subgraph 0: only the outermost graph says what its outputs mean",
     [](Graph& g) { g.subgraphs[0].postprocessing.background = 0; }},
    {"subgraph 0: the model has no output", [](Graph& g) { g.subgraphs[0].outputs.clear(); }},
    {"subgraph 1: subgraph 0: node 'fully_connected0' (fully_connected): subgraph 0 does not exist",
     [](Graph& g) { g.subgraphs[1].subgraphs[0].nodes[0].subgraphs = {0}; }},
    {"subgraph 1: tensor 1: constant 9 does not exist", [](Graph& g) { g.subgraphs[1].tensors[1].constant = 9; }},
    {"subgraph 1: 50000 nodes are more than 20000",
     [](Graph& g) { g.subgraphs[1].nodes.resize(50000, g.subgraphs[1].nodes[0]); }},
};

void expect_faults(const Graph& good, std::span<const Fault> list) {
  for (const Fault& fault : list) {
    Graph graph = good;
    fault.make(graph);
    EXPECT_EQ(check_graph(graph), QN_BAD_MODEL) << fault.message;
    EXPECT_NE(std::string(qn_last_message()).find(fault.message), std::string::npos)
        << "'" << qn_last_message() << "' instead of '" << fault.message << "'";
    Vector<unsigned char> bytes;
    EXPECT_EQ(write_model(graph, &bytes), QN_BAD_MODEL) << "is not written either";
  }
}

TEST(CheckGraph, Faults) { expect_faults(sample_graph(), faults); }

TEST(CheckGraph, FaultsOfStatesAndSubgraphs) { expect_faults(nested_graph(), nested_faults); }

TEST(CheckGraph, NamesMayBeAnyText) {
  Graph graph = sample_graph();
  graph.tensors[0].name = String("data/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 :0");
  EXPECT_EQ(check_graph(graph), QN_OK) << qn_last_message();
}

// ---- shapes: one node, its attributes, the inputs' shapes, and the output's shape or a part of the message

struct Case {
  OpKind kind;
  Attributes attributes;
  std::vector<Shape> inputs;
  Shape output;  // empty: refused
  const char* message;
};

Attributes conv(size_t stride, size_t padding, size_t dilation, size_t groups) {
  Attributes a = window(1, stride, padding);
  a.dilation = {dilation, dilation};
  a.groups = groups;
  return a;
}

Attributes ceil_window(size_t kernel, size_t stride, size_t padding) {
  Attributes a = window(kernel, stride, padding);
  a.ceil_mode = true;
  return a;
}

Attributes rounding(qn_pool_rounding rounding, bool count_padding = false, size_t dilation = 1) {
  Attributes a;
  a.dilation.h = dilation;
  a.pool_rounding = rounding;
  a.count_padding = count_padding;
  return a;
}

Attributes sized(size_t n) {
  Attributes a = power(1, 1, 1);
  a.size = n;
  return a;
}

const Case cases[] = {
    {OpKind::conv2d, conv(1, 0, 1, 1), {{2, 9, 8, 3}, {5, 3, 2, 3}}, {2, 7, 7, 5}, ""},
    {OpKind::conv2d, conv(2, 1, 1, 1), {{1, 9, 8, 3}, {5, 3, 3, 3}, {5}}, {1, 5, 4, 5}, ""},
    {OpKind::conv2d, conv(1, 2, 2, 2), {{1, 5, 5, 4}, {6, 3, 3, 2}}, {1, 5, 5, 6}, ""},
    {OpKind::conv2d, conv(1, 0, 1, 1), {{1, 5, 5, 4}, {6, 3, 3, 3}}, {}, "weights for 3 input channels"},
    {OpKind::conv2d, conv(1, 0, 1, 3), {{1, 5, 5, 4}, {6, 3, 3, 1}}, {}, "in each of 3 groups"},
    {OpKind::conv2d, conv(1, 0, 1, 2), {{1, 5, 5, 4}, {5, 3, 3, 2}}, {}, "not a multiple of 2 groups"},
    {OpKind::conv2d, conv(1, 0, 1, 1), {{1, 5, 5, 4}, {6, 7, 7, 4}}, {}, "larger than the padded input"},
    {OpKind::conv2d, conv(1, 0, 1, 1), {{1, 5, 5, 4}, {6, 3, 3, 4}, {5}}, {}, "bias"},
    {OpKind::conv2d, conv(1, 0, 1, 1), {{5, 5, 4}, {6, 3, 3, 4}}, {}, "rank 3"},
    {OpKind::conv2d, conv(1, 0, 1, 1), {{1, 5, 5, 4}, {6, 4}}, {}, "weights have rank 2"},
    {OpKind::fully_connected, {}, {{2, 3, 4}, {5, 4}, {5}}, {2, 3, 5}, ""},
    {OpKind::fully_connected, {}, {{2, 4}, {5, 3}}, {}, "4 columns"},
    {OpKind::fully_connected, {}, {{}, {5, 1}}, {}, "scalar"},
    {OpKind::max_pool, window(3, 2, 1), {{1, 6, 7, 2}}, {1, 3, 4, 2}, ""},
    {OpKind::max_pool, ceil_window(3, 2, 0), {{1, 6, 7, 2}}, {1, 3, 3, 2}, ""},
    {OpKind::max_pool, ceil_window(2, 2, 1), {{1, 5, 6, 2}}, {1, 3, 4, 2}, ""},  // 5: the fourth would start in padding
    {OpKind::max_pool, ceil_window(9, 2, 1), {{1, 6, 7, 2}}, {1, 1, 1, 2}, ""},
    {OpKind::max_pool, ceil_window(9, 2, 0), {{1, 7, 8, 2}}, {}, "larger than the padded input"},
    {OpKind::average_pool, window(9, 1, 1), {{1, 6, 6, 2}}, {}, "larger than the padded input"},
    {OpKind::global_max_pool, {}, {{3, 6, 6, 2}}, {3, 1, 1, 2}, ""},
    {OpKind::global_average_pool, {}, {{6, 2}}, {}, "rank 2"},
    {OpKind::average_pool, rounding(QN_POOL_ROUND_S8), {{1, 6, 7, 2}}, {1, 6, 7, 2}, ""},
    {OpKind::global_average_pool, rounding(QN_POOL_ROUND_U8), {{1, 6, 7, 2}}, {1, 1, 1, 2}, ""},
    {OpKind::average_pool,
     rounding(QN_POOL_ROUND_U8, true),
     {{1, 6, 7, 2}},
     {},
     "averages without count_padding or dilation"},
    {OpKind::average_pool, rounding(QN_POOL_ROUND_U8, false, 2), {{1, 6, 7, 2}}, {}, "count_padding or dilation"},
    {OpKind::max_pool, rounding(QN_POOL_ROUND_S8), {{1, 6, 7, 2}}, {}, "pool_rounding is for averages"},
    {OpKind::global_max_pool, rounding(QN_POOL_ROUND_S8), {{1, 6, 7, 2}}, {}, "pool_rounding is for averages"},
    {OpKind::clamp, rounding(QN_POOL_ROUND_U8), {{2}}, {}, "pool_rounding is for averages"},
    {OpKind::average_pool, rounding(static_cast<qn_pool_rounding>(3)), {{1, 6, 7, 2}}, {}, "pool_rounding is 3"},
    {OpKind::add, {}, {{2, 1, 4}, {3, 1}}, {2, 3, 4}, ""},
    {OpKind::mul, {}, {{}, {3, 1}}, {3, 1}, ""},
    {OpKind::div, {}, {{2, 3}, {2}}, {}, "3 and 2 do not broadcast"},
    {OpKind::prelu, {}, {{2, 3}, {3}}, {2, 3}, ""},
    {OpKind::prelu, {}, {{2, 3}, {2}}, {}, "slope"},
    {OpKind::scale, {}, {{2, 3}, {3}, {3}}, {2, 3}, ""},
    {OpKind::scale, {}, {{2, 3}, {3}, {1, 3}}, {}, "bias"},
    {OpKind::scale, {}, {{}, {1}}, {}, "scalar"},
    {OpKind::softmax, axis(1), {{2, 3}}, {2, 3}, ""},
    {OpKind::softmax, axis(2), {{2, 3}}, {}, "axis 2 of a tensor of rank 2"},
    {OpKind::concat, axis(0), {{2, 3}, {4, 3}, {1, 3}}, {7, 3}, ""},
    {OpKind::concat, axis(0), {{2, 3}, {4, 2}}, {}, "input 1"},
    {OpKind::concat, axis(0), {{2, 3}, {2, 3, 1}}, {}, "input 1"},
    {OpKind::lrn, sized(5), {{2, 3}}, {2, 3}, ""},
    {OpKind::lrn, sized(0), {{2, 3}}, {}, "size is 0"},
    {OpKind::lrn, power(INFINITY, 1, 1), {{2, 3}}, {}, "size is 0"},
    {OpKind::power, power(1, INFINITY, 1), {{2, 3}}, {}, "not finite"},
    {OpKind::pad, values({1, 0, 2, 3}), {{2, 3}}, {5, 6}, ""},
    {OpKind::pad, values({1, 0, 2}), {{2, 3}}, {}, "3 values"},
    {OpKind::pad, values({1, 0, 2, -1}), {{2, 3}}, {}, "out of range"},
    {OpKind::pad, values({1, 0, 2, int64_t{1} << 40}), {{2, 3}}, {}, "out of range"},
    {OpKind::resize, values({5, 7}), {{2, 3, 4, 1}}, {2, 5, 7, 1}, ""},
    {OpKind::resize, power(2, 1.5, 0), {{2, 3, 3, 1}}, {2, 6, 4, 1}, ""},
    {OpKind::resize, power(0.1f, 1, 0), {{2, 3, 3, 1}}, {}, "output size of 0"},
    {OpKind::resize, power(0, 1, 0), {{2, 3, 3, 1}}, {}, "scales are out of range"},
    {OpKind::resize, power(1e9f, 1, 0), {{2, 3, 3, 1}}, {}, "out of range"},
    {OpKind::resize, values({5, 0}), {{2, 3, 4, 1}}, {}, "two positive numbers"},
    {OpKind::reshape, values({0, -1}), {{2, 3, 4}}, {2, 12}, ""},
    {OpKind::reshape, values({0, -1}), {{0, 3, 4}}, {0, 12}, ""},
    {OpKind::reshape, values({-1, 4}), {{0, 3, 4}}, {0, 4}, ""},
    {OpKind::reshape, values({-1, 0}), {{2, 0, 4}}, {8, 0}, ""},
    {OpKind::reshape, values({0, -1, 5}), {{0, 3, 4}}, {}, "0 elements"},
    {OpKind::reshape, values({0, 5}), {{0, 3, 4}}, {0, 5}, ""},
    {OpKind::concat, axis(0), {{0, 3}, {2, 3}}, {2, 3}, ""},
    {OpKind::reshape, values({6, 4}), {{2, 3, 4}}, {6, 4}, ""},
    {OpKind::reshape, values({5, -1}), {{2, 3, 4}}, {}, "24 elements"},
    {OpKind::reshape, values({6, 5}), {{2, 3, 4}}, {}, "24 elements"},
    {OpKind::reshape, values({-1, -1}), {{2, 3, 4}}, {}, "two dimensions"},
    {OpKind::reshape, values({-4, 1, -2, -1}), {{2, 3, 4}}, {4, 1, 2, 3}, ""},
    {OpKind::reshape, values({24, 0, -4}), {{2, 3, 4}}, {}, "24 elements"},
    {OpKind::reshape, values({-5, -1}), {{2, 3, 4}}, {}, "dimension 3 is to be copied"},
    {OpKind::reshape, values({-10}), {{2, 3, 4}}, {}, "negative"},
    {OpKind::reshape, values({std::numeric_limits<int64_t>::min()}), {{2, 3, 4}}, {}, "negative"},
    {OpKind::reshape, values({2, 3, 4, 0}), {{2, 3, 4}}, {}, "dimension 3 is to be copied"},
    {OpKind::reshape, values({int64_t{1} << 40, int64_t{1} << 40}), {{2, 3, 4}}, {}, "overflows"},
    {OpKind::reshape, values({1, 1, 1, 1, 1, 1, 1, 1, 24}), {{2, 3, 4}}, {}, "rank 9"},
    {OpKind::transpose, values({2, 0, 1}), {{2, 3, 4}}, {4, 2, 3}, ""},
    {OpKind::transpose, values({2, 0, 0}), {{2, 3, 4}}, {}, "permutation"},
    {OpKind::transpose, values({2, 0, 3}), {{2, 3, 4}}, {}, "permutation"},
    {OpKind::transpose, values({2, 0, -1}), {{2, 3, 4}}, {}, "permutation"},
    {OpKind::transpose, values({1, 0}), {{2, 3, 4}}, {}, "2 values"},
    {OpKind::slice, values({0, 1, 2, -1}), {{2, 3}}, {2, 2}, ""},
    {OpKind::slice, values({0, 1, 2, 4}), {{2, 3}}, {}, "dimension 1"},
    {OpKind::slice, values({0, 3, 2, -1}), {{2, 3}}, {2, 0}, ""},
    {OpKind::slice, values({-1, 0, 2, -1}), {{2, 3}}, {0, 3}, ""},
    {OpKind::slice, values({-3, 0, -1, -2}), {{2, 3}}, {2, 2}, ""},
    {OpKind::slice, values({-2, 1, 2, 3}), {{2, 3}}, {1, 2}, ""},
    {OpKind::slice, values({0, -2, 2, -2}), {{2, 3}}, {2, 0}, ""},
    {OpKind::slice, values({0, -5, 2, -1}), {{2, 3}}, {}, "dimension 1"},
    {OpKind::slice, values({0, 0, 2, -4}), {{2, 3}}, {2, 0}, ""},
    {OpKind::slice, values({0, std::numeric_limits<int64_t>::min(), 2, -1}), {{2, 3}}, {}, "dimension 1"},
};

TEST(InferShapes, Cases) {
  for (const Case& c : cases) {
    GraphBuilder b;
    Vector<int> inputs;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const bool data = i == 0 || !kind_of(c.kind).has(Kind::parameters);
      inputs.push_back(data ? b.input("", c.inputs[i]) : b.constant(c.inputs[i]));
    }
    const int y = b.output(b.node(c.kind, inputs, c.attributes), "y");
    const qn_status status = check_graph(b.graph) == QN_OK ? infer_shapes(b.graph) : QN_BAD_MODEL;
    if (c.message[0] == '\0') {
      EXPECT_EQ(status, QN_OK) << op_name(c.kind) << ": " << qn_last_message();
      EXPECT_EQ(b.graph.tensors[static_cast<size_t>(y)].shape, c.output) << op_name(c.kind);
    } else {
      EXPECT_EQ(status, QN_BAD_MODEL) << op_name(c.kind) << ": " << c.message;
      EXPECT_NE(std::string(qn_last_message()).find(c.message), std::string::npos) << qn_last_message();
    }
  }
}

TEST(InferShapes, OfSubgraphs) {
  Graph graph = nested_graph();
  Graph& inner = graph.subgraphs[1].subgraphs[0];
  inner.tensors[at(inner.outputs[0].tensor)].shape.clear();
  EXPECT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
  EXPECT_EQ(inner.tensors[at(inner.outputs[0].tensor)].shape, (Shape{1, 16}));
  inner.tensors[at(inner.inputs[0].tensor)].shape = {1, 15};
  EXPECT_EQ(check_graph(graph), QN_OK);
  EXPECT_EQ(infer_shapes(graph), QN_BAD_MODEL);
  EXPECT_EQ(std::string(qn_last_message()).find("subgraph 1: subgraph 0: node 'fully_connected0'"), 0u)
      << qn_last_message();
}

// The tensors of a state must be alike. With bytes, so that they have scales.
TEST(InferShapes, RefusesStatesWhoseTensorsDiffer) {
  GraphBuilder b;
  const auto input = [&b](const char* name, float scale) {
    const int x = b.as_bytes(b.input(name, {2, 3}, QN_S8), scale, 5);
    b.graph.outputs.push_back({.tensor = x, .type = QN_S8});
    return x;
  };
  input("x", 0.5f);
  input("same", 0.5f);
  input("other scale", 0.25f);
  b.graph.tensors[at(input("other shape", 0.5f))].shape = {3, 2};
  const int real = b.input("f16", {2, 3}, QN_F16);
  b.graph.outputs.push_back({.tensor = real, .type = QN_F16});
  b.graph.outputs.push_back({.tensor = real, .type = QN_F32});
  const Graph good = b.done();
  const auto status = [&good](State state) {
    Graph graph = good;
    graph.states = {state};
    EXPECT_EQ(check_graph(graph), QN_OK) << qn_last_message();
    return infer_shapes(graph);
  };
  EXPECT_EQ(status({0, 1}), QN_OK) << qn_last_message();
  EXPECT_EQ(status({4, 4}), QN_OK) << qn_last_message();
  for (const State state : {State{0, 2}, State{0, 3}, State{0, 4}, State{4, 5}}) {
    EXPECT_EQ(status(state), QN_BAD_MODEL) << state.input << ", " << state.output;
    EXPECT_NE(std::string(qn_last_message()).find("state 0: input and output differ in type"), std::string::npos)
        << qn_last_message();
  }
}

TEST(InferShapes, RefusesOutputsThatOverflow) {
  GraphBuilder b;
  const size_t n = size_t{1} << (4 * sizeof(size_t) - 2);  // squared, it fits
  const int x = b.input("x", {n, 1}), y = b.input("y", {1, n});
  b.output(b.node(OpKind::add, {b.node(OpKind::add, {x, y}), b.input("z", {n, 1, 1})}), "sum");
  EXPECT_EQ(check_graph(b.graph), QN_OK);
  EXPECT_EQ(infer_shapes(b.graph), QN_BAD_MODEL);
  EXPECT_NE(std::string(qn_last_message()).find("add1"), std::string::npos) << qn_last_message();
}

}  // namespace check_test
}  // namespace quern::test
