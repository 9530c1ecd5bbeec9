// Graphs that ONNX has no form for, or that ask for more memory than a file can hold.
#include <limits>

#include "export_fixture.h"

namespace quern::test {
namespace export_hostile_test {

constexpr float infinity = std::numeric_limits<float>::infinity();

// A graph with the input "a" [2, 3], rows of which are taken by a condition of the file, and a node that reads these.
struct AfterARun {
  OpKind kind;
  Attributes attributes;
  std::vector<Array> constants = {};
};

Graph graph_of(const AfterARun& one) {
  Graph graph;
  graph.source = "test";
  const int x = add_tensor(graph, "a", QN_F32, {2, 3});
  graph.inputs.push_back({.tensor = x});
  const bool condition[] = {false, true};
  const int rows = add_node(graph, OpKind::custom, "rows", {x, add_constant(graph, "", QN_BOOL, {2}, condition)}, {});
  graph.nodes.back().type = "compress";
  graph.nodes.back().parameters = {{"axis", {0}, {}}};
  Vector<int> inputs = {rows};
  for (const Array& c : one.constants)
    inputs.push_back(add_constant(graph, "", QN_F32, Vector<size_t>(c.dims.begin(), c.dims.end()), c.data.data()));
  const int y = add_node(graph, one.kind, "node", inputs, one.attributes);
  return finished(std::move(graph), y);
}

class ExportHostile : public Export {
 protected:
  std::string refused(const Graph& graph) {
    return error_of([&] { export_onnx(graph, folder_.path("net.onnx")); });
  }
};

TEST_F(ExportHostile, ReshapesOfWhatARunSizes) {
  for (const Vector<int64_t>& values : {Vector<int64_t>{-3}, Vector<int64_t>{-3, -2}, Vector<int64_t>{0, 1, -3}}) {
    const Graph graph = graph_of({OpKind::reshape, with([&](Attributes& a) { a.values = values; })});
    exported(graph);
    const Array x = random({2, 3}, 1), want = run(graph, {x}).at(0), got = run(again(), {x}).at(0);
    EXPECT_EQ(got.dims, want.dims);
    EXPECT_EQ(got.data, want.data);
  }
}

// The exporter orders dimensions, of which it does not know how many such a tensor has.
TEST_F(ExportHostile, KindsThatNeedARank) {
  const auto values = [](Vector<int64_t> list) { return with([&](Attributes& a) { a.values = std::move(list); }); };
  const Attributes axis = with([](Attributes& a) { a.axis = 1; });
  const Array slope = make({3}, {1, 2, 3});
  const AfterARun cases[] = {
      {OpKind::transpose, values({1, 0})},
      {OpKind::slice, values({0, 1, -1, -1})},
      {OpKind::pad, values({0, 1, 0, 1})},
      {OpKind::softmax, axis},
      {OpKind::concat, axis},
      {OpKind::prelu, {}, {slope}},
      {OpKind::scale, {}, {slope}},
      {OpKind::fully_connected, {}, {random({2, 3}, 1)}},
  };
  for (const AfterARun& c : cases) {
    const std::string name = op_name(c.kind);
    EXPECT_EQ(refused(graph_of(c)),
              "ONNX cannot express: " + name + ": of an input that only a run sizes (1 node: node)");
  }
}

TEST_F(ExportHostile, NumbersThatAreTooLarge) {
  for (const float p : {infinity, 1e30f}) {
    Graph graph;
    const int x = add_tensor(graph, "a", QN_F32, {1, 3, 4});
    graph.inputs.push_back({.tensor = x});
    const int y = add_node(graph, OpKind::custom, "node", {x}, {});
    graph.nodes.back().type = "window_norm";
    graph.nodes.back().parameters = {{"kernel", {2}, {}}, {"p", {}, {p}}};
    EXPECT_EQ(refused(finished(std::move(graph), y)),
              "ONNX cannot express: window_norm: a norm whose order is not an integer (1 node: node)")
        << p;
  }
  for (const float value : {infinity, -infinity, 1e30f}) {
    Graph graph;
    const int x = add_tensor(graph, "a", QN_S32, {2, 3});
    graph.inputs.push_back({.tensor = x, .type = QN_S32});
    const int y = add_node(graph, OpKind::pad, "node", {x}, with([&](Attributes& a) {
                             a.values = {0, 1, 0, 1};
                             a.alpha = value;
                           }));
    graph.outputs.push_back({.tensor = y, .type = QN_S32});
    ASSERT_EQ(check_graph(graph), QN_OK) << qn_last_message();
    ASSERT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
    EXPECT_EQ(refused(graph), "ONNX cannot express: pad: a value that its type does not have (1 node: node)") << value;
  }
}

TEST_F(ExportHostile, ConstantsLargerThanAFile) {
  constexpr const char* too_large = "an ONNX file cannot be larger than 2 GiB";
  Graph graph;
  Vector<int> inputs;
  for (const Vector<size_t>& shape : {Vector<size_t>{1, 4}, Vector<size_t>{1, 2}, Vector<size_t>{1, 2, 4}}) {
    const std::string name = "x" + std::to_string(inputs.size());
    inputs.push_back(add_tensor(graph, name.c_str(), QN_F32, shape));
    graph.inputs.push_back({.tensor = inputs.back()});
  }
  const int rows = add_node(graph, OpKind::custom, "node", inputs, {});
  graph.nodes.back().type = "ssd_detections";
  graph.nodes.back().parameters = {{"classes", {2}, {}}, {"keep", {100'000'000}, {}}};
  EXPECT_EQ(refused(finished(std::move(graph), rows)), too_large);

  Graph blocks;
  const int x = add_tensor(blocks, "a", QN_F32, {1, 4});
  blocks.inputs.push_back({.tensor = x});
  const std::vector<int8_t> weights(8);
  const int w = add_constant(blocks, "", QN_S8, {2, 4}, weights.data());
  for (const size_t block : {size_t{1} << 31, SIZE_MAX - 31}) {
    Graph copy = blocks;
    copy.tensors[static_cast<size_t>(w)].quantization = {{1, 1}, {}, 0, block};
    const int y =
        add_node(copy, OpKind::fully_connected, "node", {x, w}, with([](Attributes& a) { a.quantize_input = true; }));
    EXPECT_EQ(refused(finished(std::move(copy), y)), too_large);
  }
}

}  // namespace export_hostile_test
}  // namespace quern::test
