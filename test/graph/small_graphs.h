// Small graphs for the tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "graph/file/format.h"
#include "graph/file/sparse.h"
#include "graph/pass/passes.h"

namespace quern::test {

using Shape = Vector<size_t>;

inline void expect_ok(qn_status status) { EXPECT_EQ(status, QN_OK) << qn_last_message(); }

// What the bytes of a file with this graph are read as. `image`, which holds the bytes, must outlive the result.
inline Graph read_back(const Graph& graph, Shared<Buffer>* image) {
  Vector<unsigned char> bytes;
  expect_ok(write_model(graph, &bytes));
  *image = quern::make_shared<Buffer>(bytes.size());
  std::memcpy((*image)->data(), bytes.data(), bytes.size());
  Graph again;
  expect_ok(read_model((*image)->data(), bytes.size(), *image, "test", &again));
  return again;
}

// Builds a graph in order. Values are reproducible.
class GraphBuilder {
 public:
  explicit GraphBuilder(unsigned seed = 1) : random_(seed) {}

  int input(const char* name, Shape shape, qn_type type = QN_F32) {
    const int tensor = add_tensor(graph, name, QN_F32, std::move(shape));
    graph.inputs.push_back({.tensor = tensor, .type = type});
    return tensor;
  }

  int constant(Shape shape, float low = -1, float high = 1) {
    size_t n = 1;
    for (const size_t d : shape) n *= d;
    std::vector<float> values(n);
    for (float& x : values) x = std::uniform_real_distribution<float>(low, high)(random_);
    return add_constant(graph, String(), QN_F32, std::move(shape), values.data());
  }

  int constant_of(Shape shape, const std::vector<float>& values) {
    return add_constant(graph, String(), QN_F32, std::move(shape), values.data());
  }

  int node(OpKind kind, Vector<int> inputs, Attributes attributes = {}) {
    String name = op_name(kind);
    name += std::to_string(graph.nodes.size()).c_str();
    return add_node(graph, kind, std::move(name), std::move(inputs), std::move(attributes));
  }

  // Says that a tensor holds bytes with one scale; returns it.
  int as_bytes(int tensor, float scale, int32_t zero, qn_type type = QN_S8) {
    Tensor& t = graph.tensors[static_cast<size_t>(tensor)];
    t.type = type;
    t.quantization = {{scale}, {zero}, -1};
    return tensor;
  }

  int quantized(int x, float scale, int32_t zero) { return as_bytes(node(OpKind::quantize, {x}), scale, zero); }

  int output(int tensor, const char* name, qn_type type = QN_F32) {
    graph.tensors[static_cast<size_t>(tensor)].name = String(name);
    graph.outputs.push_back({.tensor = tensor, .type = type});
    return tensor;
  }

  Graph done() {
    expect_ok(check_graph(graph));
    expect_ok(infer_shapes(graph));
    return std::move(graph);
  }

  Graph graph;

 private:
  std::mt19937 random_;
};

// Attributes in the order that tests mention them.
inline Attributes values(Vector<int64_t> v) {
  Attributes a;
  a.values = std::move(v);
  return a;
}
inline Attributes range(float min, float max) {
  Attributes a;
  a.min = min;
  a.max = max;
  return a;
}
inline Attributes axis(int n) {
  Attributes a;
  a.axis = n;
  return a;
}
inline Attributes power(float alpha, float beta, float gamma) {
  Attributes a;
  a.alpha = alpha, a.beta = beta, a.gamma = gamma;
  return a;
}
inline Attributes window(size_t kernel, size_t stride, size_t padding) {
  Attributes a;
  a.kernel = {kernel, kernel};
  a.stride = {stride, stride};
  a.padding = {padding, padding, padding, padding};
  return a;
}

// A bit of everything: two inputs, branches, a depthwise convolution, two outputs.
inline Graph sample_graph() {
  GraphBuilder b;
  b.graph.source = String("test");
  b.graph.name = String("sample");
  const int x = b.input("image", {1, 8, 8, 3});
  b.graph.inputs[0].preprocessing = {0, 1, 1, {104, 117, 123, 0}, {0.5f, 0.5f, 0.5f, 1}, 256, {227, 224}};
  const int y = b.input("bias", {16});
  b.graph.inputs[1].fixed = 1;
  b.graph.inputs[1].fixed_by = String("add");
  b.graph.inputs[0].open = 1;
  b.graph.inputs[0].dimensions = {String("batch"), String(), String("width")};
  const int c1 = b.node(OpKind::conv2d, {x, b.constant({16, 3, 3, 3}), b.constant({16})}, window(1, 2, 1));
  const int r1 = b.node(OpKind::clamp, {c1}, range(0, 6));
  Attributes depthwise = window(1, 1, 1);
  depthwise.groups = 16;
  const int c2 = b.node(OpKind::conv2d, {r1, b.constant({16, 3, 3, 1}), no_tensor}, depthwise);
  const int s = b.node(OpKind::add, {c2, y});
  const int joined = b.node(OpKind::concat, {r1, s}, axis(3));
  const int pooled = b.node(OpKind::max_pool, {joined}, window(2, 2, 0));
  b.output(pooled, "features");
  const int flat = b.node(OpKind::reshape, {pooled}, values({0, -1}));
  const int fc = b.node(OpKind::fully_connected, {flat, b.constant({10, 128}), b.constant({10})});
  b.output(b.node(OpKind::softmax, {fc}, axis(1)), "probabilities");
  b.graph.postprocessing = {{String("cat"), String(), String("dog")}, String("rows"), {1}, true, 2, 0.25f, 0.75f};
  return b.done();
}

// Integers that are moved: quantized bytes that pass operators which copy and views, and inputs of other types that are
// outputs, too.
inline Graph integer_graph() {
  GraphBuilder b(3);
  const auto input = [&b](const char* name, Shape shape, qn_type type) {
    const int tensor = add_tensor(b.graph, name, type, std::move(shape));
    b.graph.inputs.push_back({.tensor = tensor, .type = type});
    return tensor;
  };
  const Quantization quantization = {{0.25f}, {128}, -1};
  const auto quantized = [&](int tensor) {
    b.graph.tensors[static_cast<size_t>(tensor)].quantization = quantization;
    return tensor;
  };
  const int x = quantized(input("x", {1, 6, 5, 4}, QN_U8));
  std::vector<unsigned char> bytes(1 * 5 * 6 * 3);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(100 + i);
  const int more = quantized(add_constant(b.graph, "more", QN_U8, {1, 5, 6, 3}, bytes.data()));
  const int turned = b.node(OpKind::transpose, {x}, values({0, 2, 1, 3}));
  const int cut = b.node(OpKind::slice, {turned}, values({0, 0, 0, 1, 1, 5, 6, 3}));
  const int joined = b.node(OpKind::concat, {cut, more, cut}, axis(3));
  Attributes widths = values({0, 1, 0, 0, 0, 0, 2, 0});
  widths.alpha = 7;
  const int padded = b.node(OpKind::pad, {joined}, widths);
  b.output(b.node(OpKind::reshape, {padded}, values({0, -1})), "y", QN_U8);
  for (const qn_type type : {QN_S64, QN_BOOL, QN_S32, QN_S8}) {
    const std::string name = qn_type_string(type);
    const int z = input(name.c_str(), {2, 3}, type);
    b.output(b.node(OpKind::transpose, {z}, values({1, 0})), (name + " turned").c_str(), type);
    b.graph.outputs.push_back({.tensor = z, .type = type});
  }
  const float scales[] = {1, 0.5f, 3};
  Tensor& weights = b.graph.tensors[static_cast<size_t>(
      add_constant(b.graph, "weights", QN_S8, {2, 3}, std::vector<signed char>(6, -1).data()))];
  weights.quantization = {{scales, scales + 3}, {1, 0, -1}, 1};
  b.graph.outputs.push_back({.tensor = static_cast<int>(&weights - b.graph.tensors.data()), .type = QN_S8});
  return b.done();
}

// Appends a constant tensor with the content of a constant of another graph, which both graphs then share.
inline int share_constant(Graph& graph, const Graph& other, int tensor) {
  const Tensor& from = tensor_of(other, tensor);
  graph.constants.push_back(other.constants[at(from.constant)]);
  const int shared = add_tensor(graph, String(), from.type, from.shape);
  graph.tensors.back().constant = static_cast<int>(graph.constants.size() - 1);
  return shared;
}

// A layer {1, 16} -> {1, 16} whose weights are a constant of another graph.
inline Graph layer_with_weights_of(const Graph& other, int weights) {
  GraphBuilder b;
  const int x = b.input("x", {1, 16});
  b.output(b.node(OpKind::fully_connected, {x, share_constant(b.graph, other, weights)}), "y");
  return b.done();
}

// A graph with a state, the sum of all outputs of a layer; and with two subgraphs. The second one lies around another.
// That one and the first read the weights of the layer.
inline Graph nested_graph() {
  GraphBuilder b;
  const int x = b.input("x", {1, 16}), sum = b.input("sum", {1, 16});
  const int weights = b.constant({16, 16});
  b.output(b.node(OpKind::fully_connected, {x, weights}), "y");
  b.output(b.node(OpKind::add, {b.graph.outputs[0].tensor, sum}), "next sum");
  b.graph.states = {{1, 1}};
  b.graph.subgraphs.push_back(layer_with_weights_of(b.graph, weights));
  GraphBuilder second(2);
  const int z = second.input("z", {2, 3});
  second.output(second.node(OpKind::mul, {z, second.constant({2, 3})}), "product");
  second.graph.name = String("second");
  second.graph.subgraphs.push_back(layer_with_weights_of(b.graph, weights));
  b.graph.subgraphs.push_back(second.done());
  return b.done();
}

inline void expect_same(const Attributes& a, const Attributes& b) {
#define QN_ATTRIBUTE(name, field, low, high) EXPECT_EQ(a.field, b.field);
#include "graph/ir/attributes.inc"
#undef QN_ATTRIBUTE
  EXPECT_EQ(a.values, b.values);
}

inline std::vector<unsigned char> bytes_of(const Constant& constant) {
  if (constant.encoded == nullptr) {
    const auto* bytes = static_cast<const unsigned char*>(constant.data);
    return {bytes, bytes + constant.bytes};
  }
  std::vector<unsigned char> bytes(constant.bytes);
  expect_ok(constant.encoded->decode(0, constant.encoded->rows(), bytes.data()));
  return bytes;
}

// Equal but for the numbering and encoding of constants.
inline void expect_same(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.name, b.name);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const Tensor &s = a.tensors[i], &t = b.tensors[i];
    EXPECT_EQ(s.name, t.name);
    EXPECT_EQ(s.type, t.type);
    EXPECT_EQ(s.shape, t.shape);
    EXPECT_TRUE(s.quantization == t.quantization);
    ASSERT_EQ(s.constant < 0, t.constant < 0);
    if (s.constant < 0) continue;
    const Constant &c = a.constants[static_cast<size_t>(s.constant)], &d = b.constants[static_cast<size_t>(t.constant)];
    ASSERT_EQ(c.bytes, d.bytes);
    EXPECT_TRUE(bytes_of(c) == bytes_of(d)) << "constant of tensor " << i;
  }
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    EXPECT_EQ(a.nodes[i].kind, b.nodes[i].kind);
    EXPECT_EQ(a.nodes[i].name, b.nodes[i].name);
    EXPECT_EQ(a.nodes[i].inputs, b.nodes[i].inputs);
    EXPECT_EQ(a.nodes[i].outputs, b.nodes[i].outputs);
    expect_same(a.nodes[i].attributes, b.nodes[i].attributes);
    EXPECT_EQ(a.nodes[i].subgraphs, b.nodes[i].subgraphs);
  }
  const auto same_ports = [](const Vector<Port>& p, const Vector<Port>& q) {
    ASSERT_EQ(p.size(), q.size());
    for (size_t i = 0; i < p.size(); ++i) {
      EXPECT_EQ(p[i].tensor, q[i].tensor);
      EXPECT_EQ(p[i].type, q[i].type);
      constexpr size_t bytes = offsetof(qn_preprocessing, crop) + sizeof(qn_preprocessing::crop);  // padding follows
      EXPECT_EQ(std::memcmp(&p[i].preprocessing, &q[i].preprocessing, bytes), 0);
      EXPECT_EQ(p[i].fixed, q[i].fixed);
      EXPECT_EQ(p[i].fixed_by, q[i].fixed_by);
      EXPECT_EQ(p[i].open, q[i].open);
      EXPECT_EQ(p[i].dimensions, q[i].dimensions);
    }
  };
  same_ports(a.inputs, b.inputs);
  same_ports(a.outputs, b.outputs);
  ASSERT_EQ(a.states.size(), b.states.size());
  for (size_t i = 0; i < a.states.size(); ++i) {
    EXPECT_EQ(a.states[i].input, b.states[i].input);
    EXPECT_EQ(a.states[i].output, b.states[i].output);
  }
  EXPECT_EQ(a.postprocessing, b.postprocessing);
  ASSERT_EQ(a.subgraphs.size(), b.subgraphs.size());
  for (size_t i = 0; i < a.subgraphs.size(); ++i) {
    SCOPED_TRACE("subgraph " + std::to_string(i));
    expect_same(a.subgraphs[i], b.subgraphs[i]);
  }
}

}  // namespace quern::test
