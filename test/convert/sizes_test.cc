// Models imported with sizes that the user asks for.
#include <gtest/gtest.h>

#include "convert/convert.h"
#include "graph/ir/rules.h"
#include "onnx_model.h"
#include "tensorflow_graph.h"

namespace quern {
namespace sizes_test {

using test::OnnxModel;
using test::random;
using test::TfGraph;

class AskedSizes : public testing::Test {
 protected:
  Graph import(const std::string& name, const std::string& bytes, const std::vector<ImportOptions::Input>& sizes) {
    ImportOptions options;
    options.sizes = sizes;
    return import_model({folder_.write(name, bytes)}, options);
  }
  test::Folder folder_;
};

// How many indices a tuple has is fixed when the model is imported, so it must be known then.
TEST_F(AskedSizes, ReplaceTheExamplesOfOnnx) {
  OnnxModel model(13);
  model.input("x", {2, 3}).input("tuples", {4, 1}, onnx::schema::TensorProto::INT64).output("y");
  model.node("GatherND", {"x", "tuples"}, {"y"});
  auto* shape = model.model.mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (auto& dim : *shape->mutable_dim()) dim.clear_dim_value();
  shape->mutable_dim(0)->set_dim_param("n");
  shape->mutable_dim(1)->set_dim_param("length");
  using Sizes = std::vector<ImportOptions::Input>;
  const Sizes whole = {{"tuples", {5, 2}}}, named = {{"length", {2}}, {"n", {5}}};
  const Sizes both = {{"tuples", {7, 2}}, {"n", {5}}};
  for (const Sizes* sizes : {&whole, &named, &both}) {
    SCOPED_TRACE((*sizes)[0].name + std::to_string(sizes->size()));
    const Graph graph = import("net.onnx", model.bytes(), *sizes);
    EXPECT_EQ(tensor_of(graph, graph.inputs[1].tensor).shape, (Shape{5, 2}));
    EXPECT_EQ(tensor_of(graph, graph.outputs[0].tensor).shape, (Shape{5}));
    EXPECT_EQ(graph.inputs[1].open, 0);
  }
  const Graph length = import("net.onnx", model.bytes(), {{"length", {2}}});
  EXPECT_EQ(length.inputs[1].open, 1);
}

TEST_F(AskedSizes, GiveTensorFlowSizesThatItLeavesOpen) {
  TfGraph graph;
  graph.placeholder("x", {-1, -1, 3}).node("Relu", "y", {"x"});
  const std::string refusal = test::error_of([&] { import("net.pb", graph.bytes(), {}); });
  EXPECT_NE(refusal.find("give one with --shape"), std::string::npos) << refusal;
  for (const char* name : {"x", ""}) {
    const Graph made = import("net.pb", graph.bytes(), {{name, {2, 5, 3}}});
    EXPECT_EQ(tensor_of(made, made.outputs[0].tensor).shape, (Shape{2, 5, 3}));
    EXPECT_EQ(made.inputs[0].open, 0);
  }
  TfGraph unknown;
  unknown.node("Placeholder", "x", {}, {{"dtype", tensorflow::schema::DT_FLOAT}}).node("Relu", "y", {"x"});
  const Graph made = import("net.pb", unknown.bytes(), {{"x", {2, 5}}});
  EXPECT_EQ(tensor_of(made, made.outputs[0].tensor).shape, (Shape{2, 5}));
}

}  // namespace sizes_test
}  // namespace quern
