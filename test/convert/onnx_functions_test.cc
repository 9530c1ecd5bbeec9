// Operators that an ONNX model defines itself.
#include <gtest/gtest.h>

#include "convert/convert.h"
#include "onnx_model.h"

namespace quern {
namespace onnx_functions_test {

using onnx::schema::FunctionProto;
using onnx::schema::NodeProto;
using test::Array;
using test::expect_near;
using test::OnnxModel;

class OnnxFunctions : public ::testing::Test {
 protected:
  Graph import(const OnnxModel& model) { return import_onnx(folder_.write("net.onnx", model.bytes())); }

  std::vector<Array> run(const OnnxModel& model, const std::vector<Array>& inputs) {
    return test::run(import(model), inputs);
  }

  std::string refusal(const OnnxModel& model) {
    try {
      import(model);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  test::Folder folder_;
};

FunctionProto* add_function(OnnxModel* model, const std::string& name, const std::vector<std::string>& inputs,
                            const std::vector<std::string>& outputs) {
  FunctionProto* const function = model->model.add_functions();
  function->set_name(name);
  function->set_domain("mine");
  auto* const set = function->add_opset_import();
  set->set_version(17);
  for (const std::string& input : inputs) function->add_input(input);
  for (const std::string& output : outputs) function->add_output(output);
  return function;
}

NodeProto* add_node(FunctionProto* function, const std::string& type, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs) {
  NodeProto* const node = function->add_node();
  node->set_op_type(type);
  for (const std::string& input : inputs) node->add_input(input);
  for (const std::string& output : outputs) node->add_output(output);
  return node;
}

void refer(NodeProto* node, const std::string& name, const std::string& to) {
  auto* const attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_ref_attr_name(to);
}

NodeProto* last(OnnxModel* model) {
  auto* const graph = model->model.mutable_graph();
  return graph->mutable_node(graph->node_size() - 1);
}

OnnxModel& call(OnnxModel* model, const std::string& name, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs, const std::string& attributes = "") {
  model->node(name, inputs, outputs, attributes);
  last(model)->set_domain("mine");
  return *model;
}

// Slope(x) = LeakyRelu(x), its alpha is 0.5 unless the node says otherwise.
void add_slope(OnnxModel* model) {
  FunctionProto* const function = add_function(model, "Slope", {"x"}, {"y"});
  auto* const alpha = function->add_attribute_proto();
  alpha->set_name("slope");
  alpha->set_type(onnx::schema::AttributeProto::FLOAT);
  alpha->set_f(0.5f);
  refer(add_node(function, "LeakyRelu", {"x"}, {"t"}), "alpha", "slope");
  add_node(function, "Identity", {"t"}, {"y"});
}

TEST_F(OnnxFunctions, AttributesAndDefaults) {
  OnnxModel model(17);
  add_slope(&model);
  model.input("x", {1, 3}).output("a").output("b");
  call(&model, "Slope", {"x"}, {"a"});
  call(&model, "Slope", {"a"}, {"b"}, "slope=0.25f");
  const std::vector<Array> got = run(model, {{{1, 3}, {-8, 2, -4}}});
  expect_near(got.at(0), {{1, 3}, {-4, 2, -2}});
  expect_near(got.at(1), {{1, 3}, {-1, 2, -0.5f}});
}

// An attribute that neither the node nor the function gives is that of the operator.
TEST_F(OnnxFunctions, AttributesLeftOut) {
  OnnxModel model(17);
  refer(add_node(add_function(&model, "Turn", {"x"}, {"y"}), "Transpose", {"x"}, {"y"}), "perm", "order");
  model.input("x", {1, 2, 3}).output("y").output("z");
  call(&model, "Turn", {"x"}, {"y"});
  call(&model, "Turn", {"x"}, {"z"}, "order=[0,2,1]");
  const std::vector<Array> got = run(model, {{{1, 2, 3}, {1, 2, 3, 4, 5, 6}}});
  expect_near(got.at(0), {{3, 2, 1}, {1, 4, 2, 5, 3, 6}});
  expect_near(got.at(1), {{1, 3, 2}, {1, 4, 2, 5, 3, 6}});
}

// Functions call functions; names within them are their own, though other nodes have them, too; optional inputs and
// outputs may be left out; an output may be an input.
TEST_F(OnnxFunctions, NamesAndNesting) {
  OnnxModel model(17);
  add_slope(&model);
  FunctionProto* const outer = add_function(&model, "Outer", {"x", "low", "high"}, {"t", "x", "unused"});
  add_node(outer, "Clip", {"x", "low", "high"}, {"c"});
  add_node(outer, "Slope", {"c"}, {"t"})->set_domain("mine");
  add_node(outer, "Neg", {"t"}, {"unused"});
  model.input("x", {1, 3}).scalar("two", 2).output("y").output("same").output("c");
  model.node("Neg", {"x"}, {"c"}).node("Abs", {"x"}, {"Outer 1/c"});
  call(&model, "Outer", {"c", "", "two"}, {"t", "same"});
  model.node("Add", {"t", "Outer 1/c"}, {"y"});
  const std::vector<Array> got = run(model, {{{1, 3}, {8, -3, -1}}});
  expect_near(got.at(0), {{1, 3}, {4, 5, 2}});
  expect_near(got.at(1), {{1, 3}, {-8, 3, 1}});
  expect_near(got.at(2), {{1, 3}, {-8, 3, 1}});
}

// Graphs within a function read its inputs, and graphs of the model call functions.
TEST_F(OnnxFunctions, Graphs) {
  OnnxModel model(17);
  add_slope(&model);
  FunctionProto* const function = add_function(&model, "Choose", {"which", "x"}, {"y"});
  NodeProto* const choice = add_node(function, "If", {"which"}, {"y"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto* const attribute = choice->add_attribute();
    attribute->set_name(branch);
    attribute->set_type(onnx::schema::AttributeProto::GRAPH);
    auto* const graph = attribute->mutable_g();
    auto* const node = graph->add_node();
    const bool calls = branch[0] == 't';
    node->set_op_type(calls ? "Slope" : "Neg");
    if (calls) node->set_domain("mine");
    node->add_input("x");
    node->add_output("r");
    graph->add_output()->set_name("r");
  }
  model.input("b", {}, onnx::schema::TensorProto::BOOL).input("x", {2}).output("y");
  call(&model, "Choose", {"b", "x"}, {"y"});
  const Graph graph = import(model);
  ASSERT_EQ(graph.subgraphs.size(), 2u);
  EXPECT_EQ(graph.subgraphs[0].inputs.size(), graph.subgraphs[1].inputs.size());
}

// Long names and large attributes of a call, which each node of the function may repeat, and graphs that double.
TEST_F(OnnxFunctions, CallsMayNotGrow) {
  const auto expect_growth = [&](const OnnxModel& model) {
    EXPECT_NE(refusal(model).find("grow far beyond its size"), std::string::npos) << refusal(model);
  };
  const std::string name(1 << 20, 'n');
  OnnxModel names(17), attributes(17), graphs(17);
  FunctionProto* function = add_function(&names, "F", {"x"}, {"y"});
  for (int i = 0; i < 1000; ++i) add_node(function, "Neg", {"x"}, {"t" + std::to_string(i)});
  names.input(name, {1}).output("y");
  call(&names, "F", {name}, {"y"});
  expect_growth(names);
  function = add_function(&attributes, "F", {"x"}, {"y"});
  for (int i = 0; i < 1000; ++i) refer(add_node(function, "Constant", {}, {"t" + std::to_string(i)}), "value", "v");
  attributes.input("x", {1}).output("y");
  call(&attributes, "F", {"x"}, {"y"});
  auto* const value = last(&attributes)->add_attribute();
  value->set_name("v");
  value->mutable_t()->set_raw_data(std::string(1 << 20, '0'));
  expect_growth(attributes);
  for (int i = 0; i < 40; ++i) {
    function = add_function(&graphs, "F" + std::to_string(i), {"x"}, {"y"});
    for (const char* output : {"t", "y"}) {
      NodeProto* const node = add_node(function, "F" + std::to_string(i + 1), {"x"}, {output});
      node->set_domain("mine");
      refer(node, "g", "g");
      NodeProto* const choice = add_node(function, "If", {"x"}, {std::string(output) + "2"});
      for (const char* branch : {"then_branch", "else_branch"}) refer(choice, branch, "g");
    }
  }
  graphs.input("x", {1}).output("y");
  call(&graphs, "F0", {"x"}, {"y"});
  auto* const graph = last(&graphs)->add_attribute();
  graph->set_name("g");
  NodeProto* const node = graph->mutable_g()->add_node();
  node->set_op_type("Neg");
  node->add_input("x");
  node->add_output("r");
  expect_growth(graphs);
}

TEST_F(OnnxFunctions, WhatIsWrong) {
  const auto with = [&](const std::function<void(OnnxModel*)>& change) {
    OnnxModel model(17);
    model.input("x", {1, 3}).output("y");
    add_slope(&model);
    change(&model);
    call(&model, "F", {"x"}, {"y"});
    return refusal(model);
  };
  const auto in = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  in(with([](OnnxModel*) {}), "1 operator is not supported: F: of domain mine (1 node: y)");
  in(with([](OnnxModel* m) {
       add_node(add_function(m, "F", {"x"}, {"y"}), "G", {"x"}, {"y"})->set_domain("mine");
       add_node(add_function(m, "G", {"x"}, {"y"}), "F", {"x"}, {"y"})->set_domain("mine");
     }),
     "function 'F' calls itself");
  in(with([](OnnxModel* m) { add_node(add_function(m, "F", {}, {"y"}), "Relu", {"x"}, {"y"}); }),
     "node 'y': function 'F' has fewer inputs or outputs");
  in(with([](OnnxModel* m) {
       FunctionProto* const f = add_function(m, "F", {"x"}, {"y"});
       f->mutable_opset_import(0)->set_version(16);
       add_node(f, "Relu", {"x"}, {"y"});
     }),
     "function 'F' is of operator set 16, the model of 17");
  in(with([](OnnxModel* m) { add_slope(m); }), "function 'Slope' is given twice");
  in(with([](OnnxModel* m) { add_node(add_function(m, "F", {"x"}, {"y"}), "Relu", {"z"}, {"y"}); }), "reads 'F 1/z'");
  in(with([](OnnxModel* m) {
       for (int i = 0; i < 20; ++i) {
         const std::string name = i == 0 ? "F" : "F" + std::to_string(i), next = "F" + std::to_string(i + 1);
         FunctionProto* const f = add_function(m, name, {"x"}, {"y"});
         add_node(f, next, {"x"}, {"t"})->set_domain("mine");
         add_node(f, next, {"t"}, {"y"})->set_domain("mine");
       }
     }),
     "grow far beyond its size");
  in(with([](OnnxModel* m) {
       for (int i = 0; i < 100; ++i) {
         const std::string name = i == 0 ? "F" : "F" + std::to_string(i), next = "F" + std::to_string(i + 1);
         add_node(add_function(m, name, {"x"}, {"y"}), next, {"x"}, {"y"})->set_domain("mine");
       }
     }),
     "too deep");
}

}  // namespace onnx_functions_test
}  // namespace quern
