// Sizes of inputs: --shape of all commands, dynamic dimensions, and --input of bench and profile.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "command_fixture.h"

namespace quern {
namespace shapes_test {

using nlohmann::json;

// A convolution and global pooling, at any size: "input" is batch x 3 x height x width.
Graph open_network() {
  zoo::Builder b("open", 5);
  const zoo::Value x = b.conv("conv", b.input(8), {4, 3, 2, zoo::Activation::relu});
  b.output("prob", b.softmax("prob", b.fully_connected("fc", b.global_average("pool", x), 10).tensor, 1));
  Graph graph = b.finish();
  Port& port = graph.inputs[0];
  port.open = 0b1101;
  for (const char* name : {"batch", "", "height", "width"}) port.dimensions.push_back(name);
  check(infer_shapes(graph));
  return graph;
}

class Shapes : public Command {
 protected:
  void SetUp() override {
    Command::SetUp();
    check(write_model_file(open_network(), path("open.qn").c_str()));
  }
  json info(const std::string& model) const { return json::parse(quern({"info", model, "--json"}).out); }
  std::vector<size_t> input_shape(const std::string& model) const { return info(model)["inputs"][0]["shape"]; }
  json run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"run", "--json"});
    const Result r = quern(arguments);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.err, "");
    return json::parse(r.out)["runs"];
  }
};

using Sides = std::vector<size_t>;

TEST_F(Shapes, ConvertStoresThem) {
  succeeds({"convert", "open.qn", "-o", "a.qn", "--shape", "2x3x16x24"});
  EXPECT_EQ(input_shape("a.qn"), (Sides{2, 3, 16, 24}));
  EXPECT_FALSE(info("a.qn")["inputs"][0].contains("open"));
  succeeds({"convert", "open.qn", "-o", "b.qn", "--shape", "input=2x3x16x24"});
  EXPECT_EQ(read_whole(dir / "a.qn"), read_whole(dir / "b.qn"));
  succeeds({"convert", "open.qn", "-o", "c.qn", "--shape", "batch=2", "--shape", "height=16", "--shape", "width=24"});
  EXPECT_EQ(read_whole(dir / "a.qn"), read_whole(dir / "c.qn"));
  // Sizes that the model does not call dynamic, and a later change.
  succeeds({"convert", "tiny.qn", "-o", "d.qn", "--shape", "4x3x8x8"});
  EXPECT_EQ(input_shape("d.qn"), (Sides{4, 3, 8, 8}));
  succeeds({"convert", "a.qn", "-o", "d.qn", "--shape", "batch=1"});
  EXPECT_EQ(input_shape("d.qn"), (Sides{1, 3, 16, 24}));
}

TEST_F(Shapes, ConvertVerifiesAtTheShape) {
  write_array("x.npy", {1, 3, 16, 24}, std::vector<float>(3 * 16 * 24, 0.5f));
  EXPECT_EQ(quern({"convert", "open.qn", "-o", "a.qn", "--shape", "1x3x16x24", "--verify", "x.npy"}).status, 0);
  EXPECT_NE(fails({"convert", "open.qn", "-o", "a.qn", "--shape", "1x3x8x24", "--verify", "x.npy"})
                .find("x.npy: expected shape 1x3x8x24 for input \"input\" (--shape), got 1x3x16x24"),
            std::string::npos);
}

TEST_F(Shapes, ErrorsSayWhatIsExpected) {
  const auto error = [&](const std::string& model, const std::string& shape) {
    return fails({"convert", model, "-o", "x.qn", "--shape", shape});
  };
  EXPECT_EQ(
      error("open.qn", "image=1x3x8x8"),
      "quern: open.qn: a shape is for no input: expected the name of an input: 'input'; or of a dimension: 'batch', "
      "'height', 'width'; got 'image'\n");
  EXPECT_EQ(error("open.qn", "1x3x8"),
            "quern: open.qn: input 'input': expected a shape of 4 dimensions, got 3 (1x3x8)\n");
  EXPECT_EQ(error("open.qn", "batch=2x3"), "quern: open.qn: dimension 'batch': expected one size, got 2x3\n");
  const std::string channels = error("open.qn", "1x4x8x8");
  EXPECT_EQ(channels.rfind("quern: open.qn: input 'input': dimension 1 is 3 in the model, got 4; ", 0), 0u) << channels;
  EXPECT_NE(channels.find("'conv'"), std::string::npos) << channels;
  EXPECT_NE(error("open.qn", "999999999x999999999x999999999x999999999").find("too large"), std::string::npos);

  Graph fixed = open_network();
  fixed.inputs[0].fixed = 0b1000;
  fixed.inputs[0].fixed_by = "SplitNode";
  check(write_model_file(fixed, path("fixed.qn").c_str()));
  EXPECT_EQ(
      error("fixed.qn", "1x3x8x9"),
      "quern: fixed.qn: input 'input': dimension 3 must be 8, got 9: node 'SplitNode' of the source was converted "
      "for this size alone\n");
  Graph two = tiny_network();
  two.inputs.push_back({.tensor = add_tensor(two, "second", QN_F32, {2})});
  check(write_model_file(two, path("two.qn").c_str()));
  EXPECT_NE(error("two.qn", "1x3x8x8").find("expected the name of an input: 'input', 'second'; got no name"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(dir / "x.qn"));
}

TEST_F(Shapes, EveryCommandTakesThem) {
  write_array("x.npy", {1, 3, 16, 24}, std::vector<float>(3 * 16 * 24, 0.5f));
  const std::vector<std::vector<std::string>> commands = {
      {"run", "open.qn", "--input", "x.npy"},  {"bench", "open.qn", "--runs", "1"},
      {"profile", "open.qn", "--runs", "1"},   {"quantize", "open.qn", "-o", "q.qn", "--calibrate", "x.npy"},
      {"predict", "open.qn", "--core", "a76"}, {"diff", "open.qn", "open.qn", "--input", "x.npy"},
  };
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--shape", "1x3x16x24"});
    succeeds(command);
    command.back() = "1x3x16";
    EXPECT_NE(fails(command).find("expected a shape of 4 dimensions, got 3"), std::string::npos) << command[0];
  }
  EXPECT_EQ(input_shape("q.qn"), (Sides{1, 3, 16, 24}));
  spill(dir / "truth.csv", "file,label\na.png,1\n");
  succeeds({"eval", "open.qn", "--images", ".", "--truth", "truth.csv", "--shape", "1x3x16x24"});
}

TEST_F(Shapes, MeasurementsAreOfTheShape) {
  const auto macs = [](size_t h, size_t w) { return 4.0 * 27 * static_cast<double>(h / 2 * w / 2) + 40; };
  const json small = json::parse(quern({"predict", "open.qn", "--core", "a76", "--json"}).out);
  EXPECT_EQ(small["macs"], macs(8, 8));
  const json large = json::parse(quern({"predict", "open.qn", "--core", "a76", "--json", "--shape", "1x3x16x24"}).out);
  EXPECT_EQ(large["macs"], macs(16, 24));
  const json bench = json::parse(quern({"bench", "open.qn", "--runs", "1", "--json", "--shape", "height=16"}).out);
  EXPECT_NEAR(bench["gflops"].get<double>() * bench["median_ms"].get<double>() * 1e6, 2 * macs(16, 8), 1);
  write_array("x.npy", {1, 3, 32, 8}, std::vector<float>(3 * 32 * 8, 0.5f));
  const json given = json::parse(quern({"bench", "open.qn", "--runs", "1", "--json", "--input", "x.npy"}).out);
  EXPECT_NEAR(given["gflops"].get<double>() * given["median_ms"].get<double>() * 1e6, 2 * macs(32, 8), 1);
}

TEST_F(Shapes, DynamicDimensionsAreNamedOnce) {
  const std::string warning =
      "quern: dynamic dimensions take default sizes: dimension 0 (batch) of input 'input' is 1, dimension 2 (height) "
      "of "
      "input 'input' is 8, dimension 3 (width) of input 'input' is 8; set them with --shape\n";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"convert", "open.qn", "-o", "a.qn"},
           {"bench", "open.qn", "--runs", "1"},
           {"profile", "open.qn", "--runs", "1"},
           {"predict", "open.qn", "--core", "a76"},
       }) {
    const Result r = quern(command);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.err, warning) << command[0];
  }
  EXPECT_EQ(quern({"bench", "open.qn", "--runs", "1", "--shape", "height=8", "--shape", "width=8"}).err,
            "quern: dynamic dimensions take default sizes: dimension 0 (batch) of input 'input' is 1; set them with "
            "--shape\n");
  // Files bring their own sizes.
  write_array("x.npy", {1, 3, 16, 24}, std::vector<float>(3 * 16 * 24, 0.5f));
  succeeds({"run", "open.qn", "--input", "x.npy"});
  for (const char* command : {"bench", "profile"})
    for (const char* file : {"x.npy", "b.jpg"}) succeeds({command, "open.qn", "--runs", "1", "--input", file});
}

TEST_F(Shapes, PhotographsKeepTheirSize) {
  Graph graph = open_network();  // with the convolution's result as a further output, 4 channels of half the size
  for (const Node& node : graph.nodes) {
    if (node.kind != OpKind::conv2d) continue;
    graph.tensors[at(node.outputs[0])].name = "half";
    graph.outputs.push_back({.tensor = node.outputs[0]});
  }
  check(write_model_file(graph, path("two.qn").c_str()));
  const auto half = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"two.qn", "--input", "b.jpg"});  // 31 x 20
    return run(more)[0]["outputs"][1]["shape"].get<Sides>();
  };
  EXPECT_EQ(half({}), (Sides{1, 10, 16, 4}));
  EXPECT_EQ(half({"--resize", "10"}), (Sides{1, 5, 8, 4}));
  EXPECT_EQ(half({"--shape", "1x3x12x14"}), (Sides{1, 6, 7, 4}));
  EXPECT_EQ(half({"--shape", "width=14"}), (Sides{1, 10, 7, 4}));
  // As an array of the same pixels.
  std::vector<float> pixels(3 * 8 * 8);
  for (size_t c = 0; c < 3; ++c)
    for (size_t y = 0; y < 8; ++y)
      for (size_t x = 0; x < 8; ++x) pixels[(c * 8 + y) * 8 + x] = static_cast<float>((x * 20 + y * 7 + c * 40) & 255);
  write_array("x.npy", {1, 3, 8, 8}, pixels);
  succeeds({"convert", "open.qn", "-o", "small.qn", "--shape", "1x3x4x4"});
  const std::vector<std::string> plain = {"--mean", "0", "--scale", "1"};
  std::vector<std::string> image = {"run", "open.qn", "--input", "a.png", "--output", "out"};
  image.insert(image.end(), plain.begin(), plain.end());
  succeeds(image);
  succeeds({"run", "small.qn", "--input", "x.npy", "--expect", "out/prob.npy", "--tolerance", "1e-6"});
}

TEST_F(Shapes, FilesMustFitThem) {
  write_array("x.npy", {1, 3, 16, 24}, std::vector<float>(3 * 16 * 24, 0.5f));
  EXPECT_NE(fails({"run", "open.qn", "--input", "x.npy", "--shape", "batch=2"})
                .find("x.npy: expected shape 2x3x8x8 for input \"input\" (--shape), got 1x3x16x24"),
            std::string::npos);
  EXPECT_NE(fails({"run", "open.qn", "--input", "a.png", "--shape", "batch=2"}).find("(--shape), got 1x3x8x8"),
            std::string::npos);
  succeeds({"run", "open.qn", "--input", "x.npy", "--shape", "batch=1"});
  EXPECT_NE(fails({"bench", "open.qn", "--input", "x.npy", "--shape", "1x3x16x8"}).find("(--shape), got 1x3x16x24"),
            std::string::npos);
}

}  // namespace shapes_test
}  // namespace quern
