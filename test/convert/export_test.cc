// What the exporter keeps of a graph: open sizes, graphs of nodes, states; and what ONNX has no form for.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "convert/onnx/export/rows.h"
#include "export_fixture.h"
#include "extra/node.h"
#include "onnx_model.h"

namespace quern::test {
namespace export_test {

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
  return finished(std::move(graph), x);
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

// Scan outputs of a loop that runs zero times keep their inferred and their declared shapes through export and import.
TEST_F(Export, RowsOfALoopThatDoesNotRunComeBack) {
  using Type = onnx::schema::TensorProto;
  test::OnnxModel all(18), loop(18);
  loop.input("i", {}, Type::INT64).input("go", {}, Type::BOOL).input("v", {4, 3});
  loop.node("Identity", {"go"}, {"on"}).node("Add", {"v", "x"}, {"w"}).node("Exp", {"w"}, {"row"});
  loop.node("Greater", {"w", "zero"}, {"above"}).node("NonZero", {"above"}, {"places"});
  loop.output("on").output("w").output("row").output("places");
  auto* places = loop.model.mutable_graph()->mutable_output(3)->mutable_type()->mutable_tensor_type()->mutable_shape();
  places->add_dim()->set_dim_value(2);
  places->add_dim()->set_dim_param("found");
  all.input("x", {4, 3}).input("n", {}).scalar("zero", 0).node("Cast", {"n"}, {"runs"}, "to=7");
  all.node("Loop", {"runs", "", "x"}, {"sum", "rows", "found"});
  auto* body = all.model.mutable_graph()->mutable_node(1)->add_attribute();
  body->set_name("body");
  body->set_type(onnx::schema::AttributeProto::GRAPH);
  *body->mutable_g() = loop.model.graph();
  all.node("Cast", {"found"}, {"found_f"}, "to=1").output("sum").output("rows").output("found_f");
  const Graph graph = import_onnx(folder_.write("source.onnx", all.bytes()));
  exported(graph);
  const Graph copy = again();
  for (const Graph* each : {&graph, &copy}) {
    const std::vector<Array> got = test::run(*each, {random({4, 3}, 1), test::make({}, {0})});
    EXPECT_EQ(got.at(1).dims, (Dims{0, 4, 3}));
    EXPECT_EQ(got.at(2).dims, (Dims{0, 2, 0}));
    EXPECT_EQ(test::run(*each, {random({4, 3}, 1), test::make({}, {2})}).at(1).dims, (Dims{2, 4, 3}));
  }
}

TEST_F(Export, ListsAllThatOnnxCannotExpress) {
  const Vector<Parameter> odd = {{"kernel", {2}, {}}, {"p", {}, {1.5f}}};
  const std::string path = folder_.path("net.onnx");
  EXPECT_EQ(test::error_of([&] {
              export_onnx(graph_of_kinds({{"window_norm", odd}, {"abs", {}}, {"window_norm", odd}}), path);
            }),
            "ONNX cannot express: window_norm: a norm whose order is not an integer (2 nodes, first: window_norm)");
  EXPECT_FALSE(std::ifstream(path).good());
}

// A parameter that no row names would be lost.
TEST_F(Export, ParametersThatOnnxLacksAreRefused) {
  const std::string path = folder_.path("net.onnx");
  EXPECT_EQ(test::error_of([&] {
              export_onnx(graph_of_kinds({{"abs", {{"zoom", {1}, {}}, {"tint", {}, {2}}}},
                                          {"leaky_relu", {{"alpha", {}, {0.25f}}, {"beta", {}, {0.5f}}}}}),
                          path);
            }),
            "ONNX cannot express: abs: with the parameter zoom, tint (1 node: abs), leaky_relu: with the parameter "
            "beta (1 node: leaky_relu)");
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

}  // namespace export_test
}  // namespace quern::test
