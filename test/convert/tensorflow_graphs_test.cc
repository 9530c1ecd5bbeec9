// How a TensorFlow graph is read and cut, and what is refused.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "onnx_model.h"
#include "tensorflow_fixture.h"

namespace quern {
namespace tensorflow_graphs_test {

using test::Array;
using test::choice;
using test::Dims;
using test::error_of;
using test::expect_near;
using test::Ints;
using test::random;
using test::TensorFlow;
using test::TfAttributes;
using test::TfGraph;
namespace schema = tensorflow::schema;

// ---- graphs -----------------------------------------------------------------------------------

// y = relu(x) + c, in the worst order.
TfGraph shuffled() {
  TfGraph graph;
  graph.node("Add", "y", {"relu", "read", "^nothing"}).node("Relu", "relu", {"x:0"}).node("Identity", "read", {"c"});
  graph.floats("c", test::make({}, {0.5f})).placeholder("x", {2, 3}).node("NoOp", "nothing", {"^y"});
  graph.placeholder("unused", {-1, -1});
  return graph;
}

TEST_F(TensorFlow, NodesInAnyOrder) {
  TfGraph graph = shuffled();
  const Array x = random({2, 3}, 1);
  const Graph imported = import(graph);
  ASSERT_EQ(imported.inputs.size(), 1u);
  EXPECT_STREQ(imported.source.c_str(), "tensorflow");
  EXPECT_STREQ(imported.tensors[static_cast<size_t>(imported.outputs[0].tensor)].name.c_str(), "y");
  expect_near(test::run(imported, {x}).at(0), test::map(x, [](float f) { return std::max(f, 0.0f) + 0.5f; }));
}

TEST_F(TensorFlow, Cuts) {
  const TfGraph graph = shuffled();
  const Array x = random({2, 3}, 1);
  expect_near(test::run(import(graph, {"relu"}), {x}).at(0), test::map(x, [](float f) { return std::max(f, 0.0f); }));
  const Graph cut = import(graph, {"y"}, {{"relu:0", {4, 2}}});
  EXPECT_STREQ(cut.tensors[static_cast<size_t>(cut.inputs[0].tensor)].name.c_str(), "relu");
  const Array wide = random({4, 2}, 1);
  expect_near(test::run(cut, {wide}).at(0), test::map(wide, [](float f) { return f + 0.5f; }));
  const std::string path = folder_.write("net.pb", graph.bytes());
  EXPECT_NE(refusal(graph, {"y"}, {{"relu"}}).find("input 'relu' (without a shape"), std::string::npos);
  EXPECT_NE(refusal(graph, {"y"}, {{"z", {1}}}).find("has no tensor 'z'"), std::string::npos);
  EXPECT_NE(refusal(graph, {"relu"}, {{"c", {1}}}).find("do not depend on the input 'c'"), std::string::npos);
  EXPECT_NE(refusal(graph, {"y"}, {{"relu", {1}}, {"relu:0", {1}}}).find("is named twice"), std::string::npos);
  EXPECT_NE(refusal(graph, {"y:1"}).find("Add: output 1 (1 node: y)"), std::string::npos);
  EXPECT_NE(refusal(graph, {"z"}).find("has no tensor 'z'"), std::string::npos);
  EXPECT_NE(refusal(graph, {"y:x"}).find("'y:x' names no tensor"), std::string::npos);
  // Nodes that are one operator of ours are not, where one of their tensors is an input.
  const Array image = random({1, 2, 2, 5}, 1), below = random({1, 2, 2, 5}, 3);
  const Graph apart = import(choice("Select", "Greater", false, image, random({5}, 2)), {"y"}, {{"below", image.dims}});
  const bool is_first = std::string(apart.tensors[static_cast<size_t>(apart.inputs[0].tensor)].name.c_str()) == "below";
  expect_near(test::run(apart, is_first ? std::vector<Array>{below, image} : std::vector<Array>{image, below}).at(0),
              test::combine(image, below, [](float a, float b) { return a > 0 ? a : b; }));
  TfGraph with_default;
  with_default.floats("c", test::make({3}, {1, 2, 3}))
      .node("PlaceholderWithDefault", "x", {"c"})
      .node("Neg", "y", {"x"});
  expect_near(test::run(import(with_default, {}, {{"x", {2, 3}}}), {x}).at(0), test::map(x, std::negate<float>()));
  // Only these graphs can be cut.
  test::OnnxModel onnx(13);
  onnx.input("x", {2}).output("y").node("Relu", {"x"}, {"y"});
  const std::string other = folder_.write("net.onnx", onnx.bytes());
  EXPECT_NE(error_of([&] {
              import_model({other}, {{}, {}, {{"x", {2}}}});
            }).find("only TensorFlow"),
            std::string::npos);
}

TEST_F(TensorFlow, OpenSizes) {
  TfGraph graph;
  graph.placeholder("x", {-1, -1, 3}).node("Relu", "y", {"x"});
  expect_refusal(graph, "input 'x' (dimension 1 has no fixed size: give one with --shape)");
  const Array x = random({1, 5, 3}, 1);
  expect_near(test::run(import(graph, {}, {{"x", {1, 5, 3}}}), {x}).at(0),
              test::map(x, [](float f) { return std::max(f, 0.0f); }));
  // Shapes that TensorFlow has inferred.
  TfGraph inferred;
  inferred.node("Placeholder", "x", {}, {{"dtype", schema::DT_FLOAT}}).node("Relu", "y", {"x"});
  expect_refusal(inferred, "input 'x' (without a shape");
  schema::AttrValue& shapes = (*inferred.graph.mutable_node(0)->mutable_attr())["_output_shapes"];
  schema::TensorShapeProto* shape = shapes.mutable_list()->add_shape();
  for (const int64_t size : {-1, 5, 3}) shape->add_dim()->set_size(size);
  EXPECT_EQ(import(inferred).inputs[0].open, 1);
}

// Constants of a loop and of a branch are what they are outside; what changes in a loop is not supported.
TEST_F(TensorFlow, ControlFlow) {
  TfGraph graph;
  graph.placeholder("x", {2, 3}).floats("c", test::make({}, {0.5f})).placeholder("p", {}, schema::DT_BOOL);
  graph.node("Enter", "invariant", {"c"}, {{"is_constant", true}, {"frame_name", "loop"}, {"parallel_iterations", 10}});
  graph.node("Enter", "first", {"x"}, {{"frame_name", "loop"}}).node("Merge", "merge", {"first", "next"});
  graph.node("Switch", "branch", {"invariant", "p"}).node("Add", "body", {"merge", "branch:1"});
  graph.node("NextIteration", "next", {"unknown"}).node("Unknown", "unknown", {"body"}).node("Exit", "exit", {"merge"});
  const Array x = random({2, 3}, 1);
  expect_near(test::run(import(graph, {"body"}, {{"merge", {2, 3}}}), {x}).at(0),
              test::map(x, [](float f) { return f + 0.5f; }));
  const std::string message = refusal(graph);
  EXPECT_NE(
      message.find(
          "5 operators are not supported: Enter: a variable of a loop (1 node: first), NextIteration (1 node: next), "
          "Merge (1 node: merge), Exit (1 node: exit), Unknown (1 node: unknown)"),
      std::string::npos)
      << message;
}

// ---- what is refused --------------------------------------------------------------------------

TEST_F(TensorFlow, BadGraphs) {
  TfGraph cyclic;
  cyclic.placeholder("x", {2}).node("Add", "a", {"x", "b"}).node("Relu", "b", {"a"}).node("Relu", "y", {"b"});
  expect_refusal(cyclic, "depends on itself");
  TfGraph missing;
  missing.node("Relu", "y", {"x"});
  expect_refusal(missing, "the graph has no tensor 'x', which node 'y' reads");
  TfGraph twice;
  twice.placeholder("x", {2}).node("Relu", "y", {"x"}).node("Relu", "y", {"x"});
  expect_refusal(twice, "two nodes have the name 'y'");
  TfGraph nothing;
  nothing.placeholder("x", {2}).integer("c", 1);
  expect_refusal(nothing, "the graph has no outputs");
  TfGraph output;
  output.placeholder("x", {2}).node("Relu", "y", {"x:99999999999"});
  expect_refusal(output, "'x:99999999999' names no tensor");
  TfGraph many;
  many.node("Relu", "y", {"x:3"}).placeholder("x", {2});
  expect_refusal(many, "reads 'x:3', which nothing before it writes");
  expect_refusal(TfGraph(), "not a TensorFlow graph, or damaged");
  TfGraph inputs;
  inputs.placeholder("x", {2}).node("Relu", "y", {"x", "x"});
  expect_refusal(inputs, "node 'y' (Relu): has 2 inputs");
}

TEST_F(TensorFlow, UnsupportedNodesAreListed) {
  TfGraph graph;
  graph.placeholder("x", {2, 3}).node("Foo", "a", {"x"}).node("Bar", "b", {"a"}).node("VariableV2", "v", {});
  graph.node("Relu", "r", {"x"}, {{"surprise", 1}}).node("AddN", "y", {"b", "v", "r"});
  expect_refusal(graph,
                 "4 operators are not supported: Foo (1 node: a), Bar (1 node: b), VariableV2: the graph is not frozen "
                 "(1 node: v), "
                 "Relu: attribute surprise (1 node: r)");
  // Nor are names of ours.
  expect_refusal(one_node("PReLU", {}, {2, 3}, {random({3}, 1), test::make({}, {0})}), "PReLU (1 node: y)");
  TfGraph types;
  types.placeholder("s", {2}, schema::DT_STRING).constant("c", schema::DT_BFLOAT16, {2});
  types.node("Relu", "r", {"s"}).node("Relu", "q", {"c"});
  expect_refusal(types, "Relu: type DT_BFLOAT16 (1 node: q), input 's' (type DT_STRING)");
}

TEST_F(TensorFlow, BadAttributes) {
  const Dims x = {1, 5, 5, 2};
  const Array w = random({3, 3, 2, 4}, 1);
  const auto conv = [&](TfAttributes attributes) { return one_node("Conv2D", attributes, x, {w}); };
  const Ints ones = {1, 1, 1, 1};
  expect_refusal(conv({{"padding", "VALID"}}), "strides are not four numbers");
  expect_refusal(conv({{"strides", ones}}), "attribute padding is missing");
  expect_refusal(conv({{"strides", ones}, {"padding", 1}}), "attribute padding has a value of another type");
  expect_refusal(conv({{"strides", ones}, {"padding", "MIRROR"}}), "padding is 'MIRROR'");
  expect_refusal(conv({{"strides", ones}, {"padding", "EXPLICIT"}}), "explicit_paddings are not eight numbers");
  expect_refusal(conv({{"strides", ones}, {"padding", "VALID"}, {"explicit_paddings", Ints{1}}}),
                 "beside padding VALID");
  expect_refusal(conv({{"strides", Ints{2, 1, 1, 1}}, {"padding", "VALID"}}), "strides of batch or channels");
  expect_refusal(conv({{"strides", Ints{1, 0, 1, 1}}, {"padding", "VALID"}}), "strides are out of range");
  expect_refusal(conv({{"strides", ones}, {"padding", "VALID"}, {"data_format", "NHCW"}}), "data_format NHCW");
  expect_refusal(one_node("Conv2D", {{"strides", ones}, {"padding", "VALID"}}, {1, 5, 5, 3}, {w}),
                 "3 channels and weights for 2 do not fit");
  expect_refusal(one_node("LRN", {{"alpha", NAN}}, x), "alpha is not a finite number");
}

TEST_F(TensorFlow, Constants) {
  const auto graph = [](const auto& fill, schema::DataType type = schema::DT_FLOAT, const Dims& dims = {2, 3}) {
    TfGraph g;
    g.placeholder("x", {2, 3});
    fill(*g.constant("c", type, dims));
    return g.node("Add", "y", {"x", "c"});
  };
  const Array x = random({2, 3}, 1);
  const auto expect_constant = [&](const TfGraph& g, const std::vector<float>& values) {
    expect_graph(g, {x}, test::combine(x, test::make({2, 3}, values), std::plus<float>()));
  };
  expect_constant(graph([](auto& t) { t.add_float_val(2); }), {2, 2, 2, 2, 2, 2});
  expect_constant(graph([](auto& t) { t.add_float_val(2), t.add_float_val(3); }), {2, 3, 3, 3, 3, 3});
  expect_constant(graph([](auto&) {}), {0, 0, 0, 0, 0, 0});
  expect_constant(graph([](auto& t) { t.add_double_val(2), t.add_double_val(0.5); }, schema::DT_DOUBLE),
                  {2, 0.5, 0.5, 0.5, 0.5, 0.5});
  expect_constant(graph([](auto& t) { t.add_half_val(0x3c00); }, schema::DT_HALF), {1, 1, 1, 1, 1, 1});
  const std::vector<float> six = {1, 2, 3, 4, 5, 6};
  const std::string raw(reinterpret_cast<const char*>(six.data()), 24);
  expect_constant(graph([&](auto& t) { t.set_tensor_content(raw); }), six);
  expect_refusal(graph([&](auto& t) { t.set_tensor_content(raw.substr(1)); }),
                 "constant 'c': holds 23 bytes instead of 24");
  expect_refusal(graph([](auto& t) {
                   for (int i = 0; i < 7; ++i) t.add_float_val(1);
                 }),
                 "holds 7 numbers instead of 6");
  expect_refusal(graph([](auto&) {}, schema::DT_FLOAT, {1u << 30, 1u << 30, 1u << 30}), "constant 'c': is too large");
  expect_refusal(graph([](auto&) {}, schema::DT_FLOAT, {1u << 28}), "constants grow far beyond the size of the file");
  expect_refusal(graph([](auto& t) { t.mutable_tensor_shape()->mutable_dim(0)->set_size(-2); }),
                 "has a negative dimension");
  expect_refusal(graph([](auto& t) { t.mutable_tensor_shape()->set_unknown_rank(true); }),
                 "constant 'c': has no shape");
  TfGraph empty;
  empty.node("Const", "c", {}).node("Relu", "y", {"c"});
  expect_refusal(empty, "constant 'c' has no value");
}

// ---- files ------------------------------------------------------------------------------------

TEST_F(TensorFlow, FilesByContent) {
  const TfGraph graph = shuffled();
  std::string text;
  google::protobuf::TextFormat::PrintToString(graph.graph, &text);
  const std::string unknown = "versions { producer: 38 }\nlibrary { }\n";
  EXPECT_EQ(import_model({folder_.write("net.pb", graph.bytes())}).nodes.size(), 2u);
  EXPECT_EQ(import_model({folder_.write("net.pbtxt", text + unknown)}).nodes.size(), 2u);
  const std::string broken = folder_.write("broken.pbtxt", text + "node {");
  EXPECT_NE(error_of([&] { import_model({broken}); }).find("not a TensorFlow graph"), std::string::npos);

  const std::string caffe = folder_.write("caffe.pbtxt", "layer { name: \"a\" type: \"Nothing\" top: \"a\" }\n");
  EXPECT_NE(error_of([&] { import_model({caffe}); }).find("Nothing (1 node: a)"), std::string::npos);
  test::OnnxModel onnx(13);
  onnx.input("x", {2}).output("y").node("Relu", {"x"}, {"y"});
  EXPECT_STREQ(import_model({folder_.write("onnx.pb", onnx.bytes())}).source.c_str(), "onnx");
  schema::SavedModel saved;
  saved.set_saved_model_schema_version(1);
  *saved.add_meta_graphs()->mutable_graph_def() = graph.graph;
  const std::string path = folder_.write("saved_model.pb", saved.SerializeAsString());
  EXPECT_NE(error_of([&] { import_model({path}); }).find("a SavedModel keeps its weights in other files: freeze it"),
            std::string::npos);
}

TEST_F(TensorFlow, FilesOfOtherFormats) {
  const auto error = [&](const std::string& name, const std::string& content) {
    const std::string path = folder_.write(name, content);
    const std::string message = error_of([&] { import_model({path}); });
    EXPECT_EQ(message.rfind(path + ":", 0), 0u) << message;
    return message.substr(std::min(path.size() + 2, message.size()));
  };
  EXPECT_EQ(error("net.pth", "a").find("a file of PyTorch"), 0u);
  EXPECT_EQ(error("net.keras", "PK").find("a .keras file"), 0u);
  for (const char* text : {"", "# Title\n\nSome words: and more\n", "{ \"layer\": 1 }", "1: 2", "name ", "#"}) {
    EXPECT_EQ(error("README.md", text).find("not a .prototxt"), 0u) << text;
  }
  for (const char* text : {"# a net\n\n  #\nlayer {", "name : \"net\"", "layer{"}) {
    EXPECT_EQ(error("net", text).find("not a .prototxt"), std::string::npos) << text;
  }
  const std::string folder = std::filesystem::path(folder_.path("saved_model.pb")).parent_path().string();
  std::filesystem::remove(folder + "/saved_model.pb");
  EXPECT_EQ(error_of([&] { import_model({folder}); }), folder + ": expected a file, got a folder");
  folder_.write("saved_model.pb", "");
  EXPECT_EQ(error_of([&] { import_model({folder}); }).find(folder + ": a SavedModel keeps its weights"), 0u);
}

}  // namespace tensorflow_graphs_test
}  // namespace quern
