// Parameters and work of models, with operators of libquern-extra, branches and loops.
#include "convert/model_stats.h"

#include <gtest/gtest.h>

#include "convert/convert.h"
#include "graph/pass/passes.h"
#include "onnx_model.h"

namespace quern {
namespace model_stats_test {

using test::OnnxModel;
using test::random;

class Stats : public testing::Test {
 protected:
  Graph import(const OnnxModel& model) { return import_model({folder_.write("net.onnx", model.bytes())}); }
  ModelStats stats(const OnnxModel& model) { return model_stats(import(model)); }
  // The work of one node without constants.
  uint64_t macs(int64_t opset, const std::string& op, const std::vector<test::Dims>& inputs,
                const std::string& attributes = "") {
    OnnxModel model(opset);
    std::vector<std::string> names;
    for (const test::Dims& dims : inputs) {
      names.push_back("x" + std::to_string(names.size()));
      model.input(names.back(), dims);
    }
    model.output("y").node(op, names, {"y"}, attributes);
    return stats(model).macs;
  }
  test::Folder folder_;
};

// A graph attribute of the last node.
void add_graph(OnnxModel* model, const char* name, const OnnxModel& graph) {
  onnx::schema::GraphProto* const nodes = model->model.mutable_graph();
  onnx::schema::AttributeProto* const attribute = nodes->mutable_node(nodes->node_size() - 1)->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::schema::AttributeProto::GRAPH);
  *attribute->mutable_g() = graph.model.graph();
}

TEST_F(Stats, CountWhatOperatorsOfExtraMultiply) {
  EXPECT_EQ(macs(13, "MatMul", {{2, 3, 4}, {2, 4, 5}}), 2u * 3 * 4 * 5);
  EXPECT_EQ(macs(13, "MatMul", {{4}, {2, 4, 5}}), 2u * 4 * 5);
  EXPECT_EQ(macs(13, "Gemm", {{4, 3}, {5, 4}}, "transA=1 transB=1"), 3u * 4 * 5);
  EXPECT_EQ(macs(13, "Einsum", {{2, 3, 4}, {2, 4, 5}}, "equation='bij,bjk->bik'"), 2u * 3 * 4 * 5);
  EXPECT_EQ(macs(13, "Einsum", {{7, 2, 3, 4}, {4, 5}}, "equation='...ij,jk->...ik'"), 7u * 2 * 3 * 4 * 5);
  EXPECT_EQ(macs(13, "Conv", {{1, 4, 6, 6}, {8, 2, 3, 3}}, "group=2 kernel_shape=[3,3]"), 8u * 16 * 2 * 9);
  EXPECT_EQ(macs(13, "ConvTranspose", {{1, 4, 3, 3}, {4, 2, 2, 2}}, "kernel_shape=[2,2] strides=[2,2]"),
            4u * 9 * 2 * 4);
  EXPECT_EQ(macs(14, "LSTM", {{7, 2, 3}, {1, 20, 3}, {1, 20, 5}}, "hidden_size=5"), 7u * 2 * 20 * (3 + 5));
  EXPECT_EQ(macs(14, "GRU", {{7, 2, 3}, {1, 15, 3}, {1, 15, 5}}, "hidden_size=5"), 7u * 2 * 15 * (3 + 5));
  EXPECT_EQ(macs(23, "Attention", {{2, 6, 5, 8}, {2, 6, 9, 8}, {2, 6, 9, 4}}), 2u * 6 * 5 * 9 * (8 + 4));
  EXPECT_EQ(macs(13, "Relu", {{2, 3}}), 0u);
}

TEST_F(Stats, NameKindsAndTheirFirstNodes) {
  OnnxModel model(13);
  model.input("x", {2, 3, 4}).floats("w", random({4, 4}, 1)).output("z").output("e");
  model.node("MatMul", {"x", "x2"}, {"y"}).input("x2", {2, 4, 4}).node("MatMul", {"y", "w"}, {"z"});
  model.node("Erf", {"z"}, {"erf"}).node("CumSum", {"erf", "axis"}, {"e"}).integers("axis", {1});
  const ModelStats stats = this->stats(model);
  EXPECT_EQ(stats.macs, 2u * 3 * 4 * 4 + 6u * 4 * 4);
  EXPECT_EQ(stats.macs_of, (std::map<std::string, uint64_t>{{"fully_connected", 96}, {"matmul", 96}}));
  EXPECT_EQ(stats.parameters, 16u);
  EXPECT_EQ(stats.extra.at("matmul").count, 1u);
  EXPECT_EQ(stats.extra.at("matmul").first, "y");
  EXPECT_EQ(stats.extra.count("fully_connected"), 0u);
  EXPECT_EQ(stats.scalar.count("erf") + stats.scalar.count("matmul"), 0u);
  EXPECT_EQ(stats.scalar.at("cumulative_sum").first, "e");
}

TEST_F(Stats, CountTheLargerGraphOfABranch) {
  OnnxModel model(13), yes(13), no(13);
  yes.floats("w", random({4, 4}, 1)).node("MatMul", {"r", "w"}, {"a"}).output("a");
  no.floats("v", random({4, 4}, 2)).node("MatMul", {"r", "v"}, {"b"}).node("MatMul", {"b", "v"}, {"c"}).output("c");
  model.input("c", {}, onnx::schema::TensorProto::BOOL).input("x", {3, 4}).output("y");
  model.node("Relu", {"x"}, {"r"}).node("If", {"c"}, {"y"});
  add_graph(&model, "then_branch", yes);
  add_graph(&model, "else_branch", no);
  const ModelStats stats = this->stats(model);
  EXPECT_EQ(stats.macs, 2u * 3 * 4 * 4);
  EXPECT_EQ(stats.parameters, 32u);
  EXPECT_EQ(stats.inner.at("fully_connected"), 3u);
  EXPECT_EQ(stats.layers.size(), 3u);
}

TEST_F(Stats, CountEachIterationOfALoop) {
  for (const bool known : {true, false}) {
    OnnxModel model(13), body(13);
    body.input("run", {}, onnx::schema::TensorProto::INT64).input("on", {}, onnx::schema::TensorProto::BOOL);
    body.input("h", {3, 4}).floats("w", random({4, 4}, 1));
    body.node("Identity", {"on"}, {"next"}).node("MatMul", {"h", "w"}, {"more"}).output("next").output("more");
    model.input("x", {3, 4}).output("y");
    if (known) model.integers("times", {7});
    if (!known) model.input("times", {1}, onnx::schema::TensorProto::INT64);
    model.node("Loop", {"times", "", "x"}, {"y"});
    add_graph(&model, "body", body);
    const ModelStats stats = this->stats(model);
    ASSERT_EQ(stats.loops.size(), 1u);
    EXPECT_EQ(stats.loops[0].iterations, known ? 7u : 0u);
    EXPECT_EQ(stats.loops[0].macs, 3u * 4 * 4);
    EXPECT_EQ(stats.macs, (known ? 7u : 1u) * 3 * 4 * 4);
    EXPECT_EQ(stats.parameters, 16u);
  }
}

// A file of some kilobytes: each graph has a hundred branches, and all of them run the same two graphs.
TEST_F(Stats, RefuseGraphsThatRunGraphsForEver) {
  const auto leaf = [] {
    Graph graph;
    graph.inputs = {{.tensor = add_tensor(graph, "x", QN_F32, {1})}};
    graph.outputs = {{.tensor = add_node(graph, OpKind::clamp, "y", {0}, {})}};
    graph.tensors[1].name = "y";
    return graph;
  };
  Graph graph = leaf();
  for (int depth = 0; depth < 4; ++depth) {
    Graph outer;
    outer.inputs = {{.tensor = add_tensor(outer, "x", QN_F32, {1})}};
    const bool yes = true;
    int last = 0;
    const int condition = add_constant(outer, "", QN_BOOL, {}, &yes);
    for (int i = 0; i < 100; ++i) {
      last = add_node(outer, OpKind::branch, "branch", {condition, 0}, {});
      outer.tensors[at(last)].type = QN_F32;
      outer.nodes.back().subgraphs = {0, 1};
    }
    outer.tensors[at(last)].name = "y";
    outer.outputs = {{.tensor = last}};
    outer.subgraphs.push_back(std::move(graph));
    outer.subgraphs.push_back(leaf());
    graph = std::move(outer);
  }
  ASSERT_EQ(check_graph(graph), QN_OK) << qn_last_message();
  ASSERT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
  EXPECT_NE(test::error_of([&] { model_stats(graph); }).find("too many tensors"), std::string::npos);
}

TEST_F(Stats, SayWhatOnlyARunKnows) {
  OnnxModel model(13);
  model.input("x", {3, 4}).output("y").node("NonZero", {"x"}, {"n"}).node("Cast", {"n"}, {"f"}, "to=1");
  model.node("MatMul", {"x2", "f"}, {"y"}).input("x2", {5, 2});
  const ModelStats stats = this->stats(model);
  EXPECT_EQ(stats.macs, 0u);
  EXPECT_EQ(stats.unsized.at("matmul").first, "y");
}

}  // namespace model_stats_test
}  // namespace quern
