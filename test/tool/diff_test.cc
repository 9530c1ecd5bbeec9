// quern diff, quern convert --verify and --verbose: where two models differ, and what the optimizer does.
#include <cmath>
#include <nlohmann/json.hpp>

#include "command_fixture.h"
#include "tool/compare/tensors.h"

namespace quern {
namespace diff_test {

using nlohmann::json;

// ---- comparing lists of tensors

TEST(CompareTensors, FindsTheFirstInTheOrderOfExecution) {
  const std::vector<Computed> expected = {{"a", {2}, {1, 2}}, {"b", {1, 2}, {3, 4}}, {"c", {1}, {5}}};
  std::vector<Computed> got = {{"c", {1}, {6}}, {"b", {2, 1}, {3, 4.5}}, {"x", {1}, {0}}};
  Comparison result = compare(expected, got, 0.01);
  EXPECT_EQ(result.compared, 1u);
  EXPECT_EQ(result.first, "b");
  EXPECT_NE(result.why.find("element 1 is 4.5, not 4"), std::string::npos) << result.why;
  result = compare(expected, got, 0.2);
  EXPECT_EQ(result.compared, 2u);
  EXPECT_EQ(result.first, "") << result.why;
  EXPECT_EQ(result.largest, 1);
  EXPECT_EQ(result.largest_name, "c");
  got[1].shape = {2, 2};
  EXPECT_EQ(compare(expected, got, 1).why, "its shape is 2x2, not 1x2");
  got[1] = {"b", {2}, {std::nan(""), 4}};
  result = compare(expected, got, 1);
  EXPECT_EQ(result.first, "b");
  EXPECT_TRUE(std::isnan(result.largest));
}

TEST(CompareTensors, NamesAndOrderOfAllTensors) {
  Graph graph = tiny_network();
  name_tensors(&graph);
  expose_tensors(&graph);
  check(infer_shapes(graph));
  ASSERT_GT(graph.outputs.size(), 2u);
  std::set<std::string> names;
  for (const Port& port : graph.outputs) names.insert(tensor_of(graph, port.tensor).name.c_str());
  EXPECT_EQ(names.size(), graph.outputs.size()) << "each has a name of its own";
  EXPECT_EQ(names.count("conv"), 1u);
  EXPECT_EQ(tensor_of(graph, graph.outputs.back().tensor).name, "prob");
}

// ---- the command

// The network of the fixture with another bias of its last layer.
void write_changed(const std::string& path) {
  Graph graph = tiny_network();
  for (const Node& node : graph.nodes) {
    if (node.kind != OpKind::fully_connected) continue;
    std::vector<float> bias(10, 0.25f);
    const int added = add_constant(graph, "", QN_F32, {10}, bias.data());
    for (Node& changed : graph.nodes)
      if (&changed == &node) changed.inputs[2] = added;
  }
  check(infer_shapes(graph));
  check(write_model_file(graph, path.c_str()));
}

TEST_F(Command, DiffFindsTheFirstTensor) {
  write_changed(path("changed.qn"));
  const Result same = quern({"diff", "tiny.qn", "tiny.qn", "--input", "a.png"});
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_NE(same.out.find("none differs"), std::string::npos) << same.out;
  const Result other = quern({"diff", "tiny.qn", "changed.qn", "--input", "a.png", "--json"});
  EXPECT_EQ(other.status, 1);
  EXPECT_EQ(other.err, "");
  const json report = json::parse(other.out);
  EXPECT_EQ(report["first"], "fc");
  EXPECT_GT(report["compared"].get<size_t>(), 1u) << "the convolution before is the same";
  EXPECT_EQ(quern({"diff", "tiny.qn", "changed.qn", "--input", "a.png", "--tolerance", "10"}).status, 0);
}

TEST_F(Command, DiffComparesWithAReference) {
  succeeds({"export", "tiny.qn", "-o", "tiny.onnx"});
  write_array("x.npy", {1, 3, 8, 8}, std::vector<float>(192, 0.5f));
  succeeds({"run", "tiny.qn", "--input", "x.npy", "--output", "good"});
  const Result good = quern({"diff", "tiny.onnx", "--reference", "good", "--input", "x.npy"});
  EXPECT_EQ(good.status, 0) << good.err << good.out;
  EXPECT_NE(good.out.find("1 tensors compared"), std::string::npos) << good.out;
  fs::create_directories(dir / "bad");
  write_array("bad/prob.npy", {1, 10}, std::vector<float>(10, 0.5f));
  write_array("bad/nobody.npy", {1}, {1});
  for (const char* model : {"tiny.onnx", "tiny.qn"}) {
    const Result bad = quern({"diff", model, "--reference", "bad", "--input", "x.npy"});
    EXPECT_EQ(bad.status, 1) << bad.err;
    EXPECT_NE(bad.out.find("the first that differs is prob"), std::string::npos) << bad.out;
  }
}

TEST_F(Command, DiffExplainsWhatIsWrong) {
  fs::create_directories(dir / "empty");
  fs::create_directories(dir / "others");
  write_array("others/nobody.npy", {1}, {1});
  fails({"diff", "tiny.qn"}, 2);
  fails({"diff", "tiny.qn", "--input", "a.png"}, 2);
  fails({"diff", "tiny.qn", "tiny.qn", "--input", "a.png", "--reference", "others"}, 2);
  fails({"diff", "tiny.qn", "tiny.qn"}, 2);
  EXPECT_NE(fails({"diff", "tiny.qn", "--input", "a.png", "--reference", "missing"}).find("missing"),
            std::string::npos);
  EXPECT_NE(fails({"diff", "tiny.qn", "--input", "a.png", "--reference", "empty"}).find("no .npy"), std::string::npos);
  EXPECT_NE(fails({"diff", "tiny.qn", "--input", "a.png", "--reference", "others"}).find("nothing to compare"),
            std::string::npos);
}

// A convolution, a scale and a ReLU in the words of Caffe, which the optimizer makes one node.
constexpr const char* caffe_net =
    "name: \"net\"\n"
    "input: \"data\" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8\n"
    "layer { name: \"pool\" type: \"Pooling\" bottom: \"data\" top: \"pool\""
    " pooling_param { pool: MAX kernel_size: 2 stride: 2 } }\n"
    "layer { name: \"twice\" type: \"Power\" bottom: \"pool\" top: \"twice\" power_param { scale: 2 shift: 1 } }\n"
    "layer { name: \"six\" type: \"Power\" bottom: \"twice\" top: \"six\" power_param { scale: 3 } }\n";

TEST_F(Command, ConvertSaysWhatPassesDo) {
  spill(dir / "net.prototxt", caffe_net);
  const Result r = quern({"convert", "net.prototxt", "-o", "net.qn", "--verbose"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("merge-affine"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("rounds changed something; "), std::string::npos) << r.out;
  EXPECT_EQ(quern({"convert", "net.prototxt", "-o", "net.qn"}).out, "");
}

TEST_F(Command, ConvertVerifies) {
  spill(dir / "net.prototxt", caffe_net);
  const Result r = quern({"convert", "net.prototxt", "-o", "net.qn", "--verify", "a.png"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("are computed after the optimizer, too"), std::string::npos) << r.out;
  EXPECT_TRUE(fs::exists(dir / "net.qn"));
  write_array("wrong.npy", {2, 2}, {1, 2, 3, 4});
  fails({"convert", "net.prototxt", "-o", "x.qn", "--verify", "wrong.npy"});
  fails({"convert", "net.prototxt", "-o", "x.qn", "--verify", "missing.npy"});
  EXPECT_FALSE(fs::exists(dir / "x.qn"));
}

}  // namespace diff_test
}  // namespace quern
