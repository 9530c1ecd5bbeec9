// The quern command as users run it: a process, its exit status and what it prints and leaves behind.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png.h>
#include <quern/quern.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "command_fixture.h"

namespace quern {
namespace {

using nlohmann::json;

const std::vector<std::string> commands = {"convert", "info", "run",    "diff",  "bench",    "profile",
                                           "predict", "eval", "export", "prune", "quantize", "zoo"};

TEST_F(Command, HelpOfEveryCommand) {
  const Result all = quern({"--help"});
  EXPECT_EQ(all.status, 0);
  for (const std::string& command : commands) {
    EXPECT_NE(all.out.find(fmt::format("\n  {} ", command)), std::string::npos) << command;
    const Result r = quern({command, "--help"});
    EXPECT_EQ(r.status, 0) << command;
    EXPECT_NE(r.out.find("--help"), std::string::npos) << command;
    EXPECT_EQ(r.err, "");
  }
  // What is not built yet is not promised.
  for (const std::string& command : commands)
    EXPECT_EQ(quern({command, "--help"}).out.find("compress"), std::string::npos) << command;
  EXPECT_EQ(quern({"--version"}).out, fmt::format("quern {}\n", qn_version()));
}

TEST_F(Command, UsageErrorsExitWith2) {
  const std::vector<std::vector<std::string>> wrong = {
      {"frobnicate"},
      {"convert"},
      {"convert", "tiny.qn"},
      {"convert", "tiny.qn", "-o", "x.qn", "--inputs", "x=1xx2"},
      {"convert", "tiny.qn", "-o", "x.qn", "--inputs", "x=0x2"},
      {"convert", "tiny.qn", "-o", "x.qn", "--inputs", "=2"},
      {"info"},
      {"info", "tiny.qn", "--colour"},
      {"run", "tiny.qn"},
      {"run", "tiny.qn", "--input", "a.png", "--threads", "0"},
      {"run", "tiny.qn", "--input", "a.png", "--threads", "x"},
      {"run", "tiny.qn", "--input", "a.png", "--tolerance", "-1"},
      {"run", "tiny.qn", "--input", "a.png", "--mean", "1,x"},
      {"run", "tiny.qn", "--input", "a.png", "--bgr", "--rgb"},
      {"run", "tiny.qn", "--input", "x1=a.png"},
      {"run", "tiny.qn", "--input", "a.png", "--expect", "y=a.npy"},
      {"run", "tiny.qn", "--input", "a.png", "b.jpg", "--expect", "x.npy"},
      {"run", "tiny.qn", "--input", "a.png", "./a.png", "--output", "out"},
      {"run", "tiny.qn", "--input", "a.png", "--tune", "t.txt", "--tuned", "t.txt"},
      {"run", "tiny.qn", "--input", "a.png", "--tune"},
      {"bench", "tiny.qn", "--tuned", "t.txt", "--tune", "u.txt"},
      {"profile", "tiny.qn", "--tune", ""},
      {"profile", "tiny.qn", "--tuned="},
      {"profile", "tiny.qn", "--algorithm", "fastest"},
      {"bench", "tiny.qn", "--algorithm"},
      {"run", "tiny.qn", "--input", "a.png", "--algorithm", "?"},
      {"bench", "tiny.qn", "--runs", "0"},
      {"bench", "tiny.qn", "--isa", "mmx"},
      {"predict", "tiny.qn"},
      {"predict", "tiny.qn", "--core", "a99"},
      {"predict", "tiny.qn", "--core", "a53", "--threads", "0"},
      {"predict", "tiny.qn", "--core", "a53", "--ghz", "0"},
      {"predict", "tiny.qn", "--core", "a53", "--ghz", "nan"},
      {"predict", "tiny.qn", "--core", "a53", "--isa", "avx2"},
      {"eval", "tiny.qn"},
      {"zoo", "alexnet", "-o", "x.qn"},
      {"zoo", "vgg16"},
      {"zoo", "vgg16", "-o", "x.qn", "--sparsity", "1"},
      {"zoo", "vgg16", "-o", "x.qn", "--sparsity", "0.5", "--block", "3"},
      {"prune", "tiny.qn"},
      {"prune", "tiny.qn", "-o", "x.qn"},
      {"prune", "tiny.qn", "-o", "x.qn", "--sparsity", "1"},
      {"prune", "tiny.qn", "-o", "x.qn", "--sparsity", "1.5"},
      {"prune", "tiny.qn", "-o", "x.qn", "--sparsity=-0.1"},
      {"prune", "tiny.qn", "-o", "x.qn", "--sparsity", "nan"},
      {"prune", "tiny.qn", "-o", "x.qn", "--sparsity", "half"},
      {"prune", "tiny.qn", "-o", "x.qn", "--sparsity", "0.5", "--block", "0"},
      {"prune", "tiny.qn", "-o", "x.qn", "--sparsity", "0.5", "--block", "5"},
      {"prune", "tiny.qn", "-o", "x.qn", "--sparsity", "0.5", "--block", "32"},
      {"prune", "tiny.qn", "-o", "x.qn", "--sparsity", "0.5", "--schedule", "random"},
      {"zoo", "vgg16", "-o", "x.qn", "--seed", "-1"},
  };
  for (const auto& arguments : wrong) fails(arguments, 2);
  EXPECT_EQ(quern({}).status, 2);
  EXPECT_EQ(files(), (std::set<std::string>{"tiny.qn", "a.png", "b.jpg"}));
}

TEST_F(Command, ErrorsExitWith1AndLeaveNothing) {
  spill(dir / "bad.qn", "this is no model");
  spill(dir / "bad.png", "\x89PNG\r\n\x1a\n");
  spill(dir / "bad.npy", "\x93NUMPY");
  spill(dir / "bad.prototxt", "layer { type: \"Convolution\" ");
  spill(dir / "bad.onnx", std::string(100, '\xff'));
  spill(dir / "bad.pb", std::string(100, '\xff'));
  spill(dir / "bad.pbtxt", "node { name: ");
  spill(dir / "bad.csv", "file,label\nmissing.png,1\n");
  spill(dir / "far.csv", "file,label\na.png,10\n");
  spill(dir / "empty.txt", "");
  spill(dir / "bad.tuning", "quern-tuning 3\nconv2d inputs=1\n");
  write_array("wrong.npy", {2, 2}, {1, 2, 3, 4});
  const std::set<std::string> before = files();
  const std::vector<std::vector<std::string>> wrong = {
      {"convert", "bad.qn", "-o", "x.qn"},
      {"convert", "bad.prototxt", "-o", "x.qn"},
      {"convert", "bad.onnx", "-o", "x.qn"},
      {"convert", "bad.pb", "-o", "x.qn"},
      {"convert", "bad.pbtxt", "-o", "x.qn"},
      {"convert", "tiny.qn", "-o", "x.qn", "--inputs", "x=1x2"},
      {"convert", "missing.onnx", "-o", "x.qn"},
      {"convert", "tiny.qn", "-o", "no/such/folder/x.qn"},
      {"convert", "tiny.qn", "-o", "x.qn", "--outputs", "nonsense"},
      {"convert", "tiny.qn", "-o", "x.qn", "--mean", "1,2"},
      {"info", "bad.qn"},
      {"predict", "bad.qn", "--core", "a53"},
      {"predict", "missing.qn", "--core", "a53"},
      {"run", "bad.qn", "--input", "a.png"},
      {"run", "tiny.qn", "--input", "missing.png"},
      {"run", "tiny.qn", "--input", "bad.png"},
      {"run", "tiny.qn", "--input", "bad.npy"},
      {"run", "tiny.qn", "--input", "wrong.npy"},
      {"run", "tiny.qn", "--input", "a.png", "--crop", "9"},
      {"run", "tiny.qn", "--input", "a.png", "--labels", "missing.txt"},
      {"run", "tiny.qn", "--input", "a.png", "--labels", "empty.txt"},
      {"run", "tiny.qn", "--input", "a.png", "--labels", "."},
      {"run", "tiny.qn", "--input", "a.png", "--output", "a.png/x"},
      {"run", "tiny.qn", "--input", "a.png", "--expect", "wrong.npy"},
      {"run", "tiny.qn", "--input", "a.png", "--tuned", "missing.tuning"},
      {"run", "tiny.qn", "--input", "a.png", "--tuned", "bad.tuning"},
      {"run", "tiny.qn", "--input", "a.png", "--tune", "bad.tuning"},
      {"bench", "tiny.qn", "--tuned", "empty.txt"},
      {"bench", "tiny.qn", "--tune", "no/such/folder/x.tuning"},
      {"profile", "tiny.qn", "--tuned", "tiny.qn"},
      {"profile", "tiny.qn", "--tune", "."},
      {"bench", "bad.qn"},
      {"profile", "bad.qn"},
      {"profile", "tiny.qn", "--runs", "1", "--trace", "no/such/folder/x.json"},
      {"eval", "tiny.qn", "--images", ".", "--truth", "missing.csv"},
      {"eval", "tiny.qn", "--images", ".", "--truth", "bad.csv"},
      {"eval", "tiny.qn", "--images", ".", "--truth", "far.csv"},
      {"export", "bad.qn", "-o", "x.onnx"},
      {"export", "tiny.qn", "-o", "no/such/folder/x.onnx"},
      {"zoo", "squeezenet_v1.1", "-o", "no/such/folder/x.qn"},
      {"prune", "bad.qn", "-o", "x.qn", "--sparsity", "0.5"},
      {"prune", "missing.qn", "-o", "x.qn", "--sparsity", "0.5"},
      {"prune", "tiny.qn", "-o", "no/such/folder/x.qn", "--sparsity", "0.5"},
  };
  for (const auto& arguments : wrong) fails(arguments);
  EXPECT_EQ(files(), before);
}

// Lines of a tuning file but the first.
std::vector<std::string> choices_in(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  EXPECT_TRUE(std::getline(file, line) && line == "quern-tuning 3") << line;
  std::vector<std::string> lines;
  while (std::getline(file, line)) lines.push_back(line);
  return lines;
}

TEST_F(Command, TuningIsStoredAndUsed) {
  succeeds({"run", "tiny.qn", "--input", "a.png", "--tune", "t.tuning"});
  const std::vector<std::string> first = choices_in(dir / "t.tuning");
  ASSERT_EQ(first.size(), 2u);  // a convolution, a fully connected layer
  EXPECT_EQ(first[0].find("conv2d inputs=1 input=1x8x8x3 channels=4 groups=1 kernel=3x3 stride=2x2"), 0u) << first[0];
  EXPECT_EQ(first[1].find("fully_connected inputs=1 input=1x1x1x"), 0u) << first[1];

  // What a file has is not measured again; another number of threads is another problem.
  succeeds({"bench", "tiny.qn", "--runs", "1", "--tune", "t.tuning"});
  EXPECT_EQ(choices_in(dir / "t.tuning"), first);
  succeeds({"profile", "tiny.qn", "--runs", "1", "--threads", "2", "--tune", "t.tuning"});
  const std::vector<std::string> both = choices_in(dir / "t.tuning");
  ASSERT_EQ(both.size(), 4u);
  for (const std::string& line : first) EXPECT_EQ(std::count(both.begin(), both.end(), line), 1) << line;

  // Whatever stands in the file is used, and the file stays.
  for (const std::string choice : {"igemm qn_igemm_f32_4x8_ref", "direct qn_gemm_f32_4x8_ref"}) {
    const std::string problem = first[0].substr(0, first[0].find(' ', first[0].find(" type=") + 1));
    const std::string text = "quern-tuning 3\n" + problem + " " + choice + "\n";
    spill(dir / "u.tuning", text);
    const Result r = quern({"profile", "tiny.qn", "--runs", "1", "--tuned", "u.tuning"});
    EXPECT_EQ(r.status, 0) << r.err;
    const std::string algorithm = choice.substr(0, choice.find(' ')), kernel = choice.substr(algorithm.size() + 1);
    EXPECT_NE(r.out.find(fmt::format("{:<20} {:<10} {:<28} conv", "conv2d", algorithm, kernel)), std::string::npos)
        << r.out;
    EXPECT_EQ(read_whole(dir / "u.tuning"), text);
  }

  // Inputs of another size are measured when they come.
  write_array("two.npy", {2, 3, 8, 8}, std::vector<float>(384, 0.5f));
  succeeds({"run", "tiny.qn", "--input", "two.npy", "--tune", "t.tuning"});
  EXPECT_EQ(choices_in(dir / "t.tuning").size(), 6u);
}

TEST_F(Command, AlgorithmsCanBeForced) {
  for (const std::string algorithm : {"igemm", "direct", "sparse"}) {
    const Result r = quern({"profile", "tiny.qn", "--runs", "1", "--algorithm", algorithm});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_NE(r.out.find(fmt::format("{:<20} {:<10} ", "conv2d", algorithm)), std::string::npos) << r.out;
  }
  const Result dense = quern({"profile", "tiny.qn", "--runs", "1", "--algorithm", "dense"});
  EXPECT_EQ(dense.status, 0) << dense.err;
  EXPECT_EQ(dense.out.find("sparse"), std::string::npos) << dense.out;
  succeeds({"bench", "tiny.qn", "--runs", "1", "--algorithm", "auto"});
  succeeds({"run", "tiny.qn", "--input", "a.png", "--algorithm", "dense", "--output", "dense"});
  succeeds({"run", "tiny.qn", "--input", "a.png", "--algorithm", "sparse", "--expect", "dense/prob.npy"});
}

TEST_F(Command, MessagesAboutTuningNameFileAndLine) {
  spill(dir / "bad.tuning", "quern-tuning 3\nconv2d inputs=99999999999999999999\n");
  EXPECT_NE(fails({"run", "tiny.qn", "--input", "a.png", "--tuned", "bad.tuning"}).find("bad.tuning:2: "),
            std::string::npos);
}

TEST_F(Command, OnlyRegularFilesAreReplaced) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0666), 0);
  const std::vector<std::vector<std::string>> into_the_pipe = {
      {"convert", "tiny.qn", "-o", "pipe"},
      {"export", "tiny.qn", "-o", "pipe"},
      {"prune", "tiny.qn", "-o", "pipe", "--sparsity", "0.5"},
      {"profile", "tiny.qn", "--runs", "1", "--trace", "pipe"},
      {"bench", "tiny.qn", "--runs", "1", "--tuned", "pipe"},
      {"bench", "tiny.qn", "--runs", "1", "--tune", "pipe"},
  };
  for (const auto& arguments : into_the_pipe)
    EXPECT_NE(fails(arguments).find("not a regular file"), std::string::npos) << arguments[0];
  EXPECT_TRUE(fs::is_fifo(dir / "pipe"));
  fails({"convert", "tiny.qn", "-o", "."});

  // A link stays, and the file that it points to is replaced.
  fs::create_directory(dir / "folder");
  spill(dir / "folder/model", "old");
  fs::create_symlink("folder/model", dir / "link");
  succeeds({"convert", "tiny.qn", "-o", "link"});
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_EQ(read_whole(dir / "folder/model"), read_whole(dir / "tiny.qn"));
  succeeds({"export", "tiny.qn", "-o", "link"});
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_NE(read_whole(dir / "folder/model"), read_whole(dir / "tiny.qn"));

  fs::create_symlink("nowhere", dir / "dangling");
  fails({"convert", "tiny.qn", "-o", "dangling"});
  EXPECT_TRUE(fs::is_symlink(dir / "dangling"));
}

TEST_F(Command, SourcesAreNotReplaced) {
  succeeds({"export", "tiny.qn", "-o", "m.onnx"});
  spill(dir / "net.prototxt",
        "input: \"x\" input_dim: 1 input_dim: 1 input_dim: 2 input_dim: 2\n"
        "layer { name: \"r\" type: \"ReLU\" bottom: \"x\" top: \"y\" }\n");
  spill(dir / "net.caffemodel", "");
  fs::create_symlink("m.onnx", dir / "link.qn");
  fs::create_hard_link(dir / "m.onnx", dir / "same.qn");
  fs::create_directory(dir / "folder");
  const std::vector<std::vector<std::string>> wrong = {
      {"convert", "m.onnx", "-o", "m.onnx"},
      {"convert", "m.onnx", "-o", "folder/../m.onnx"},
      {"convert", "m.onnx", "-o", "link.qn"},
      {"convert", "m.onnx", "-o", "same.qn"},
      {"convert", "net.prototxt", "-o", "net.prototxt"},
      {"convert", "net.prototxt", "net.caffemodel", "-o", "net.prototxt"},
      {"convert", "net.prototxt", "net.caffemodel", "-o", "net.caffemodel"},
      {"prune", "m.onnx", "-o", "link.qn", "--sparsity", "0.5"},
      {"export", "m.onnx", "-o", "m.onnx"},
      {"export", "tiny.qn", "-o", "tiny.qn"},
      {"export", "net.prototxt", "net.caffemodel", "-o", "net.caffemodel"},
  };
  std::map<std::string, std::string> before;
  for (const std::string& name : files())
    if (fs::is_regular_file(dir / name)) before[name] = read_whole(dir / name);
  for (const auto& arguments : wrong)
    EXPECT_NE(fails(arguments).find("would be lost"), std::string::npos) << arguments[0] << " " << arguments[3];
  for (const auto& [name, content] : before) EXPECT_EQ(read_whole(dir / name), content) << name;

  // A .qn file may be rewritten.
  succeeds({"convert", "tiny.qn", "-o", "tiny.qn", "--scale", "0.5"});
  EXPECT_NE(read_whole(dir / "tiny.qn"), before["tiny.qn"]);
  succeeds({"prune", "tiny.qn", "-o", "tiny.qn", "--sparsity", "0.5"});
  succeeds({"run", "tiny.qn", "--input", "a.png"});
}

// An input that is an output, twice, and no node.
TEST_F(Command, AModelMayHandItsInputThrough) {
  Graph graph;
  const Port port = {.tensor = add_tensor(graph, "x", QN_F32, {1, 2, 2, 3})};
  graph.inputs = {port};
  graph.outputs = {port, port};
  check(write_model_file(graph, path("through.qn").c_str()));
  write_array("x.npy", {1, 2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  succeeds({"export", "through.qn", "-o", "through.onnx"});
  succeeds({"convert", "through.onnx", "-o", "again.qn"});
  succeeds({"prune", "through.qn", "-o", "pruned.qn", "--sparsity", "0.5"});
  for (const std::string model : {"through.qn", "through.onnx", "again.qn", "pruned.qn"}) {
    SCOPED_TRACE(model);
    succeeds({"run", model, "--input", "x=x.npy", "--output", "out", "--expect", "x=x.npy", "--tolerance", "0"});
    EXPECT_EQ(read_whole(dir / "out/x.npy"), read_whole(dir / "x.npy"));
    fs::remove_all(dir / "out");
    succeeds({"info", model});
    succeeds({"info", model, "--needs"});
    succeeds({"bench", model, "--runs", "1"});
    succeeds({"profile", model, "--runs", "1"});
    succeeds({"predict", model, "--core", "a53"});
  }
}

TEST_F(Command, InfoListsWhatATrimmedBuildNeeds) {
  const Result r = quern({"info", "tiny.qn", "--needs"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out[0], '#');
  // A convolution of three channels with a stride.
  for (const char* line : {"operator conv2d", "operator fully_connected", "operator softmax", "algorithm direct",
                           "algorithm gemm", "kernel gemm_f32", "kernel vexpsum_f32"}) {
    EXPECT_NE(r.out.find(std::string("\n") + line + "\n"), std::string::npos) << line << " is not in\n" << r.out;
  }
  for (const char* absent : {"igemm", "winograd", "sparse", "depthwise", "operator add"}) {
    EXPECT_EQ(r.out.find(absent), std::string::npos) << absent << " is in\n" << r.out;
  }
}

// All commands that look at a model take one whose layers quantize their input.
TEST_F(Command, ALayerMayQuantizeItsInput) {
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {3, 8});
  graph.inputs.push_back({.tensor = x});
  const int8_t bytes[5 * 8] = {1, 2, 3, 4, 5, 6, 7, -8, 7};
  const int weights = add_constant(graph, "", QN_S8, {5, 8}, bytes);
  graph.tensors[static_cast<size_t>(weights)].quantization = {{0.25f}, {}, -1};
  const int of_blocks = add_constant(graph, "", QN_S8, {8, 5}, bytes);
  graph.tensors[static_cast<size_t>(of_blocks)].quantization = {Vector<float>(8, 0.5f), {}, 0, 32};
  Attributes a;
  a.quantize_input = true;
  const int between = add_node(graph, OpKind::fully_connected, "layer", {x, weights}, a);
  const int y = add_node(graph, OpKind::fully_connected, "blocks", {between, of_blocks}, a);
  graph.tensors[static_cast<size_t>(y)].name = String("y");
  graph.outputs.push_back({.tensor = y});
  check(infer_shapes(graph));
  check(write_model_file(graph, path("rows.qn").c_str()));
  const Result r = quern({"info", "rows.qn", "--needs"});
  ASSERT_EQ(r.status, 0) << r.err;
  for (const char* line :
       {"type qs8", "operator fully_connected", "algorithm gemm", "kernel gemm_qd8c", "kernel gemm_qd8c4",
        "kernel quantize_rows_qd8c", "kernel gemm_qd8b4", "kernel quantize_rows_qd8b4"}) {
    EXPECT_NE(r.out.find(std::string("\n") + line + "\n"), std::string::npos) << line << " is not in\n" << r.out;
  }
  succeeds({"info", "rows.qn"});
  succeeds({"bench", "rows.qn", "--runs", "1"});
  succeeds({"profile", "rows.qn", "--runs", "1"});
  const Result predicted = quern({"predict", "rows.qn", "--core", "a76"});
  ASSERT_EQ(predicted.status, 0) << predicted.err;
  for (const char* kernel : {"qn_gemm_qd8c_", "qn_gemm_qd8b4_"}) {
    EXPECT_NE(predicted.out.find(kernel), std::string::npos) << kernel << " is not in\n" << predicted.out;
  }
  succeeds({"export", "rows.qn", "-o", "rows.onnx"});
  succeeds({"convert", "rows.onnx", "-o", "again.qn"});
}

TEST_F(Command, InfoSaysHowBytesStandForNumbers) {
  Graph graph;
  const int x = add_tensor(graph, "bytes", QN_S8, {2, 6});
  graph.tensors[0].quantization = {{0.25f}, {-3}, -1};
  graph.inputs.push_back({.tensor = x, .type = QN_S8});
  Attributes a;
  a.values = {3, 4};
  graph.outputs.push_back({.tensor = add_node(graph, OpKind::reshape, "r", {x}, a), .type = QN_S8});
  check(infer_shapes(graph));
  check(write_model_file(graph, path("bytes.qn").c_str()));
  const json info = json::parse(quern({"info", "bytes.qn", "--json"}).out);
  for (const json& port : {info["inputs"][0], info["outputs"][0]}) {
    EXPECT_EQ(port["type"], "s8");
    EXPECT_EQ(port["quantization"], (json{{"scale", 0.25}, {"zero_point", -3}}));
  }
  EXPECT_NE(quern({"info", "bytes.qn"}).out.find("scale 0.25, zero point -3"), std::string::npos);
}

TEST_F(Command, InfoDescribesAModel) {
  const Result r = quern({"info", "tiny.qn", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json info = json::parse(r.out);
  std::set<std::string> keys;
  for (const auto& [key, value] : info.items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"inputs", "outputs", "operators", "extra_operators", "parameters", "nonzeros",
                                         "sparsity", "layers", "macs", "file_bytes"}));
  EXPECT_EQ(info["inputs"][0]["name"], "input");
  EXPECT_EQ(info["inputs"][0]["type"], "f32");
  EXPECT_EQ(info["inputs"][0]["shape"], (std::vector<size_t>{1, 3, 8, 8}));
  EXPECT_EQ(info["outputs"][0]["name"], "prob");
  EXPECT_EQ(info["outputs"][0]["shape"], (std::vector<size_t>{1, 10}));
  EXPECT_EQ(info["operators"]["conv2d"], 1);
  EXPECT_EQ(info["parameters"], 4 * 27 + 4 + 64 * 10 + 10);
  EXPECT_EQ(info["nonzeros"], info["parameters"]);
  EXPECT_EQ(info["sparsity"], 0);
  EXPECT_EQ(info["layers"][0], (json{{"name", "conv"}, {"elements", 4 * 27}, {"zeros", 0}, {"sparsity", 0.0}}));
  EXPECT_EQ(info["layers"].size(), 2u);
  EXPECT_EQ(info["macs"], 16 * 4 * 27 + 64 * 10);
  EXPECT_EQ(info["file_bytes"], fs::file_size(dir / "tiny.qn"));
  const Result text = quern({"info", "tiny.qn"});
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("1x3x8x8"), std::string::npos);
}

TEST_F(Command, PredictSaysThatItEstimates) {
  const Result r = quern({"predict", "tiny.qn", "--core", "a73", "--ghz", "2.5", "--threads", "2", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json found = json::parse(r.out);
  EXPECT_EQ(found["estimate"], true);
  EXPECT_EQ(found["core"], "a73");
  EXPECT_EQ(found["core_model"], "cortex-a57");
  EXPECT_EQ(found["ghz"], 2.5);
  EXPECT_EQ(found["threads"], 2);
  EXPECT_EQ(found["macs"], 16 * 4 * 27 + 64 * 10);
  double sum = 0;
  for (const json& c : found["classes"]) sum += c["ms"].get<double>();
  EXPECT_GT(sum, 0);
  EXPECT_NEAR(found["total_ms"].get<double>(), sum, 1e-9);
  EXPECT_GE(found["assumptions"].size(), 6u);

  const Result text = quern({"predict", "tiny.qn", "--core", "neoverse-n1"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.out.rfind("ESTIMATE, not measured: tiny.qn on a76 of Snapdragon 855, 2.84 GHz, 1 thread\n", 0), 0u)
      << text.out;
  EXPECT_NE(text.out.find("assumed: 16 bytes a cycle"), std::string::npos) << text.out;
  EXPECT_NE(quern({"predict", "tiny.qn", "--core", "x1", "--threads", "2"}).out.find("more than there are"),
            std::string::npos);
}

TEST_F(Command, PredictEstimatesModelsOfBytes) {
  succeeds({"zoo", "squeezenet_v1.1", "--type", "qs8", "-o", "bytes.qn"});
  const auto predict = [this](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"predict", "bytes.qn", "--core", "a76", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Result r = quern(words);
    EXPECT_EQ(r.status, 0) << r.err;
    return json::parse(r.out);
  };
  const auto uses = [](const json& found, const char* part) {
    return std::any_of(found["classes"].begin(), found["classes"].end(),
                       [&](const json& c) { return c["kernel"].get<std::string>().find(part) != std::string::npos; });
  };
  const json dots = predict({}), none = predict({"--isa", "neon"});
  EXPECT_EQ(dots["isa"], "dotprod");
  EXPECT_EQ(none["isa"], "neon");
  EXPECT_TRUE(uses(dots, "qs8c") && uses(dots, "_dotprod") && uses(dots, "qn_vquantize_qs8_neon"));
  EXPECT_FALSE(uses(none, "_dotprod"));
  EXPECT_GT(none["total_ms"], 2 * dots["total_ms"].get<double>());
  EXPECT_LT(dots["percent_of_peak"], 100);
  const std::string assumptions = dots["assumptions"].dump();
  EXPECT_NE(assumptions.find("bytes: kernels of level dotprod"), std::string::npos) << assumptions;
}

// The fully-connected layer alone: the convolution is the first one.
TEST_F(Command, PruneReportsAndShrinksTheFile) {
  const Result r = quern({"prune", "tiny.qn", "-o", "small.qn", "--sparsity", "0.9", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json report = json::parse(r.out);
  EXPECT_EQ(report["schedule"], "uniform");
  EXPECT_EQ(report["block"], 1);
  EXPECT_EQ(report["elements"], 108 + 640);
  EXPECT_EQ(report["zeros"], 576);
  EXPECT_EQ(report["sparsity"], 576.0 / 748);
  EXPECT_EQ(report["layers"], (json{{{"name", "conv"}, {"elements", 108}, {"zeros", 0}, {"sparsity", 0.0}},
                                    {{"name", "fc"}, {"elements", 640}, {"zeros", 576}, {"sparsity", 0.9}}}));
  EXPECT_EQ(report["file_bytes"], fs::file_size(dir / "small.qn"));
  EXPECT_LT(fs::file_size(dir / "small.qn") + 2000, fs::file_size(dir / "tiny.qn"));

  const json info = json::parse(quern({"info", "small.qn", "--json"}).out);
  EXPECT_EQ(info["parameters"], 108 + 4 + 640 + 10);
  EXPECT_EQ(info["nonzeros"], 108 + 4 + 64 + 10);
  EXPECT_EQ(info["layers"], report["layers"]);
  EXPECT_NE(quern({"info", "small.qn"}).out.find("90.00% of 640 zero in fc"), std::string::npos);
  EXPECT_EQ(quern({"info", "tiny.qn"}).out.find("zero in"), std::string::npos);

  for (const char* schedule : {"uniform", "global", "erk"}) {
    const Result text =
        quern({"prune", "tiny.qn", "-o", "s.qn", "--sparsity", "0.5", "--block", "2", "--schedule", schedule});
    EXPECT_EQ(text.status, 0) << text.err;
    EXPECT_NE(text.out.find("320 of        640 zeros   50.00%  fc\n"), std::string::npos) << text.out;
  }
  // Nothing to do.
  succeeds({"prune", "tiny.qn", "-o", "same.qn", "--sparsity", "0"});
  EXPECT_EQ(read_whole(dir / "same.qn"), read_whole(dir / "tiny.qn"));
}

// Zeros outlast export, import and conversion, and the file is small again.
TEST_F(Command, ZerosSurviveConversion) {
  succeeds({"prune", "tiny.qn", "-o", "small.qn", "--sparsity", "0.9", "--block", "2"});
  succeeds({"export", "small.qn", "-o", "small.onnx"});
  succeeds({"convert", "small.onnx", "-o", "back.qn"});
  succeeds({"convert", "small.qn", "-o", "again.qn"});
  const json first = json::parse(quern({"info", "small.qn", "--json"}).out);
  EXPECT_EQ(first["nonzeros"], 108 + 4 + 64 + 10);
  for (const char* other : {"back.qn", "again.qn"}) {
    const json info = json::parse(quern({"info", other, "--json"}).out);
    EXPECT_EQ(info["nonzeros"], first["nonzeros"]) << other;
    EXPECT_LT(info["file_bytes"], fs::file_size(dir / "tiny.qn") - 1500) << other;
  }
  EXPECT_EQ(read_whole(dir / "again.qn"), read_whole(dir / "small.qn"));
  succeeds({"run", "small.qn", "--input", "a.png", "--output", "out"});
  for (const char* other : {"back.qn", "again.qn"}) {
    succeeds({"run", other, "--input", "a.png", "--mean", "123.675,116.28,103.53", "--scale",
              "0.01712475,0.017507,0.01742919", "--expect", "out/prob.npy", "--tolerance", "1e-6"});
  }
}

TEST_F(Command, QuantizeReportsAndShrinksTheFile) {
  fs::create_directory(dir / "samples");
  fs::copy_file(dir / "a.png", dir / "samples" / "a.png");
  std::ofstream(dir / "samples" / "notes.txt") << "no sample";
  const Result r = quern({"quantize", "tiny.qn", "-o", "bytes.qn", "--calibrate", "samples", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json report = json::parse(r.out);
  EXPECT_EQ(report["method"], "minmax");
  EXPECT_EQ(report["samples"], 1);
  EXPECT_EQ(report["quantized_layers"], 2);
  EXPECT_EQ(report["layers"][0]["name"], "conv");
  EXPECT_EQ(report["layers"][0]["type"], "qs8c");
  EXPECT_EQ(report["layers"][1]["kind"], "fully_connected");
  EXPECT_EQ(report["layers"][1]["weights"], 640);
  EXPECT_GT(report["layers"][1]["weights_sqnr_db"], 30);
  EXPECT_GT(report["layers"][1]["output"]["scale"], 0);
  EXPECT_EQ(report["source_bytes"], fs::file_size(dir / "tiny.qn"));
  EXPECT_EQ(report["file_bytes"], fs::file_size(dir / "bytes.qn"));
  EXPECT_LT(fs::file_size(dir / "bytes.qn"), fs::file_size(dir / "tiny.qn"));

  // About the same results, here and from the exported model; and the same file again, also in place.
  succeeds({"run", "tiny.qn", "--input", "a.png", "--output", "out"});
  succeeds({"run", "bytes.qn", "--input", "a.png", "--expect", "out/prob.npy", "--tolerance", "0.05", "--output", "q"});
  succeeds({"export", "bytes.qn", "-o", "bytes.onnx"});
  succeeds({"convert", "bytes.onnx", "-o", "back.qn"});
  succeeds({"run", "back.qn", "--input", "a.png", "--mean", "123.675,116.28,103.53", "--scale",
            "0.01712475,0.017507,0.01742919", "--expect", "q/prob.npy", "--tolerance", "1e-6"});
  fs::copy_file(dir / "tiny.qn", dir / "copy.qn");
  const Result text = quern({"quantize", "copy.qn", "-o", "copy.qn", "--calibrate", "a.png", "--method", "minmax"});
  EXPECT_NE(text.out.find("2 of 2 layers compute with bytes; 1 samples"), std::string::npos) << text.out << text.err;
  EXPECT_EQ(read_whole(dir / "copy.qn"), read_whole(dir / "bytes.qn"));
}

TEST_F(Command, QuantizeExplainsWhatIsWrong) {
  fs::create_directory(dir / "empty");
  EXPECT_NE(fails({"quantize", "tiny.qn", "-o", "q.qn", "--calibrate", "empty"}).find("no .npy arrays or pictures"),
            std::string::npos);
  EXPECT_NE(fails({"quantize", "tiny.qn", "-o", "q.qn", "--calibrate", "none.png"}).find("none.png"),
            std::string::npos);
  std::vector<float> pixels(3 * 64, std::numeric_limits<float>::infinity());
  write_array("x.npy", {1, 3, 8, 8}, pixels);
  EXPECT_NE(fails({"quantize", "tiny.qn", "-o", "q.qn", "--calibrate", "x.npy"}).find("not finite"), std::string::npos);
  fails({"quantize", "tiny.qn", "-o", "q.qn", "--calibrate", "a.png", "--method", "kl"}, 2);
  EXPECT_FALSE(fs::exists(dir / "q.qn"));
}

TEST_F(Command, ZooMakesQuantizedNetworks) {
  succeeds({"zoo", "squeezenet_v1.1", "-o", "floats.qn"});
  for (const char* name : {"a.qn", "b.qn"}) succeeds({"zoo", "squeezenet_v1.1", "-o", name, "--type", "qs8"});
  EXPECT_EQ(read_whole(dir / "a.qn"), read_whole(dir / "b.qn"));
  EXPECT_LT(static_cast<double>(fs::file_size(dir / "a.qn")),
            0.27 * static_cast<double>(fs::file_size(dir / "floats.qn")));
}

TEST_F(Command, ZooMakesSparseNetworks) {
  succeeds({"zoo", "squeezenet_v1.1", "-o", "dense.qn"});
  for (const char* block : {"1", "4"}) {
    succeeds({"zoo", "squeezenet_v1.1", "-o", "a.qn", "--sparsity", "0.9", "--block", block});
    succeeds({"zoo", "squeezenet_v1.1", "-o", "b.qn", "--sparsity", "0.9", "--block", block});
    EXPECT_EQ(read_whole(dir / "a.qn"), read_whole(dir / "b.qn"));
    const json info = json::parse(quern({"info", "a.qn", "--json"}).out);
    for (size_t i = 0; i < info["layers"].size(); ++i) {
      const json& layer = info["layers"][i];
      const double exact = i == 0 ? 0 : 0.9 * layer["elements"].get<double>();
      EXPECT_NEAR(layer["zeros"].get<double>(), exact, 2) << layer["name"];
    }
    EXPECT_LT(static_cast<double>(fs::file_size(dir / "a.qn")),
              0.16 * static_cast<double>(fs::file_size(dir / "dense.qn")));
  }
  succeeds({"zoo", "squeezenet_v1.1", "-o", "a.qn", "--sparsity", "0"});
  EXPECT_EQ(read_whole(dir / "a.qn"), read_whole(dir / "dense.qn"));
}

TEST_F(Command, RunWritesAndComparesOutputs) {
  std::vector<float> pixels(3 * 64);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 17) / 8 - 1;
  write_array("x.npy", {1, 3, 8, 8}, pixels);
  succeeds({"run", "tiny.qn", "--input", "input=x.npy", "--output", "out"});
  const NpyArray prob = read_npy(path("out/prob.npy"));
  EXPECT_EQ(prob.shape, (std::vector<size_t>{1, 10}));
  double sum = 0;
  for (const double p : npy_doubles(prob)) sum += p;
  EXPECT_NEAR(sum, 1, 1e-5);

  // Equal to itself exactly; another array is beyond the tolerance, unless that is wide.
  const Result same = quern(
      {"run", "tiny.qn", "--input", "x.npy", "--expect", "prob=out/prob.npy", "--tolerance", "0", "--threads", "2"});
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_NE(same.out.find("largest difference 0 absolute, 0 relative"), std::string::npos) << same.out;
  std::vector<float> other(10);
  for (size_t i = 0; i < 10; ++i) other[i] = static_cast<float>(npy_doubles(prob)[i]);
  other[3] += 0.25f;
  write_array("other.npy", {10}, other);
  const Result far = quern({"run", "tiny.qn", "--input", "x.npy", "--expect", "other.npy", "--tolerance", "0.2"});
  EXPECT_EQ(far.status, 1);
  EXPECT_NE(far.out.find("largest difference 0.25 absolute"), std::string::npos) << far.out;
  succeeds({"run", "tiny.qn", "--input", "x.npy", "--expect", "other.npy", "--tolerance", "0.3"});
  other[3] = NAN;
  write_array("other.npy", {10}, other);
  const Result nan = quern({"run", "tiny.qn", "--input", "x.npy", "--expect", "other.npy", "--tolerance", "1e30"});
  EXPECT_EQ(nan.status, 1);
  EXPECT_NE(nan.out.find("largest difference nan absolute, nan relative"), std::string::npos) << nan.out;
}

TEST_F(Command, RunResizesToTheArray) {
  const std::vector<float> two(2 * 3 * 64, 0.5f);
  write_array("two.npy", {2, 3, 8, 8}, two);
  succeeds({"run", "tiny.qn", "--input", "two.npy", "--output", "out"});
  const NpyArray prob = read_npy(path("out/prob.npy"));
  EXPECT_EQ(prob.shape, (std::vector<size_t>{2, 10}));
  const std::vector<double> p = npy_doubles(prob);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(p[i], p[10 + i]);
}

TEST_F(Command, RunTakesOtherNumbers) {
  std::string file = "\x93NUMPY";
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 3, 8, 8), }";
  header.resize(117, ' ');
  header += '\n';
  file += {1, 0, static_cast<char>(header.size()), 0};
  file += header;
  file.append(192, 3);
  spill(dir / "bytes.npy", file);
  write_array("floats.npy", {1, 3, 8, 8}, std::vector<float>(192, 3.0f));
  succeeds({"run", "tiny.qn", "--input", "bytes.npy", "--output", "out"});
  succeeds({"run", "tiny.qn", "--input", "floats.npy", "--expect", "out/prob.npy", "--tolerance", "0"});
}

TEST_F(Command, RunClassifiesImages) {
  spill(dir / "labels.txt", "zero\r\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n");
  const Result r = quern({"run", "tiny.qn", "--input", "a.png", "b.jpg", "--top", "3", "--labels", "labels.txt"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.err, "");
  std::istringstream lines(r.out);
  std::string line, word;
  for (const std::string name : {"a.png", "b.jpg"}) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(line.rfind(name, 0), 0u) << line;
    EXPECT_NE(line.find(" ms"), std::string::npos) << line;
    double last = 1;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(std::getline(lines, line));
      std::istringstream columns(line);
      double confidence = -1;
      columns >> confidence >> word;
      EXPECT_LE(confidence, last);
      EXPECT_GE(confidence, 0);
      EXPECT_NE(read_whole(dir / "labels.txt").find(word), std::string::npos);
      last = confidence;
    }
  }
  succeeds({"run", "tiny.qn", "--input", "a.png", "b.jpg", "--output", "out"});
  EXPECT_TRUE(fs::exists(dir / "out/a/prob.npy"));
  EXPECT_TRUE(fs::exists(dir / "out/b/prob.npy"));
}

TEST_F(Command, TheModelOfTheExamplesIsWhatConvertWrites) {
  const fs::path digits = fs::path(QUERN_SOURCE_DIR) / "examples/digits";
  succeeds(
      {"convert", (digits / "digits.onnx").string(), "-o", "digits.qn", "--mean", "127.5", "--scale", "0.00784314"});
  EXPECT_TRUE(read_whole(dir / "digits.qn") == read_whole(digits / "digits.qn")) << "examples/digits/README.md";
}

TEST_F(Command, StoredPreprocessingIsThatOfTheFlags) {
  const std::vector<std::string> flags = {"--mean",   "100,110,120", "--scale", "0.02", "--bgr",
                                          "--resize", "16",          "--crop",  "12,10"};
  std::vector<std::string> convert = {"convert", "tiny.qn", "-o", "stored.qn"},
                           run = {"run", "tiny.qn", "--input", "b.jpg", "--output", "flags"};
  convert.insert(convert.end(), flags.begin(), flags.end());
  run.insert(run.end(), flags.begin(), flags.end());
  succeeds(convert);
  succeeds(run);
  succeeds({"run", "stored.qn", "--input", "b.jpg", "--expect", "flags/prob.npy", "--tolerance", "0"});
  // The flags do matter.
  fails({"run", "tiny.qn", "--input", "b.jpg", "--expect", "flags/prob.npy", "--tolerance", "1e-6"});
  const json info = json::parse(quern({"info", "stored.qn", "--json"}).out);
  const json& stored = info["inputs"][0]["preprocessing"];
  EXPECT_EQ(stored["order"], "bgr");
  EXPECT_EQ(stored["mean"], (std::vector<float>{100, 110, 120}));
  EXPECT_EQ(stored["resize"], 16);
  EXPECT_EQ(stored["crop"], (std::vector<int>{12, 10}));
}

TEST_F(Command, ExportedModelRunsWithoutConversion) {
  succeeds({"run", "tiny.qn", "--input", "a.png", "--output", "out"});
  succeeds({"export", "tiny.qn", "-o", "tiny.onnx"});
  // The flags repeat the preprocessing, which ONNX does not carry.
  succeeds({"run", "tiny.onnx", "--input", "a.png", "--mean", "123.675,116.28,103.53", "--scale",
            "0.01712475,0.017507,0.01742919", "--expect", "out/prob.npy", "--tolerance", "1e-5"});
  succeeds({"convert", "tiny.onnx", "-o", "back.qn", "--outputs", "prob"});
  EXPECT_EQ(json::parse(quern({"info", "back.qn", "--json"}).out)["macs"],
            json::parse(quern({"info", "tiny.qn", "--json"}).out)["macs"]);
}

TEST_F(Command, RunsACaffeNetworkDirectly) {
  spill(dir / "pool.prototxt",
        "name: \"pool\" input: \"data\" input_dim: 1 input_dim: 3 input_dim: 4 input_dim: 4\n"
        "layer { name: \"p\" type: \"Pooling\" bottom: \"data\" top: \"x/y:0\"\n"
        "        pooling_param { pool: AVE global_pooling: true } }\n");
  std::vector<float> values(48);
  for (size_t i = 0; i < 48; ++i) values[i] = static_cast<float>(i / 16);
  write_array("x.npy", {1, 3, 4, 4}, values);
  succeeds({"run", "pool.prototxt", "--input", "data=x.npy", "--output", "out"});
  const NpyArray out = read_npy(path("out/x_y_0.npy"));
  EXPECT_EQ(out.shape, (std::vector<size_t>{1, 3, 1, 1}));
  EXPECT_EQ(npy_doubles(out), (std::vector<double>{0, 1, 2}));
}

TEST_F(Command, BenchMeasures) {
  const Result r = quern({"bench", "tiny.qn", "--runs", "5", "--threads", "2", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.err, "");
  const json bench = json::parse(r.out);
  std::set<std::string> keys;
  for (const auto& [key, value] : bench.items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"model", "type", "isa", "threads", "runs", "min_ms", "median_ms", "p90_ms",
                                         "gflops", "percent_of_peak", "load_ms", "peak_memory_bytes"}));
  EXPECT_EQ(bench["type"], "f32");
  EXPECT_EQ(bench["threads"], 2);
  EXPECT_EQ(bench["runs"], 5);
  EXPECT_GT(bench["min_ms"], 0);
  EXPECT_GE(bench["median_ms"], bench["min_ms"]);
  EXPECT_GE(bench["p90_ms"], bench["median_ms"]);
  EXPECT_GT(bench["gflops"], 0);
  EXPECT_GT(bench["load_ms"], 0);
  EXPECT_LT(bench["percent_of_peak"], 100);
  EXPECT_NEAR(bench["gflops"].get<double>(), 2 * (16 * 4 * 27 + 64 * 10) / bench["median_ms"].get<double>() / 1e6,
              1e-6);
  EXPECT_EQ(json::parse(quern({"bench", "tiny.qn", "--runs", "1", "--isa", "ref", "--json"}).out)["isa"], "ref");
  EXPECT_EQ(quern({"bench", "tiny.qn", "--runs", "1"}).status, 0);
}

TEST_F(Command, BenchComparesModelsOfBytesWithThePeakOfBytes) {
  succeeds({"quantize", "tiny.qn", "-o", "bytes.qn", "--calibrate", "a.png"});
  const json bench = json::parse(quern({"bench", "bytes.qn", "--runs", "1", "--json"}).out);
  EXPECT_EQ(bench["type"], "qs8c");
  EXPECT_TRUE(bench["percent_of_peak"].is_null() || bench["percent_of_peak"] < 100) << bench["percent_of_peak"];
  EXPECT_EQ(json::parse(quern({"bench", "bytes.qn", "--runs", "1", "--isa", "ref", "--json"}).out)["percent_of_peak"],
            nullptr);
}

TEST_F(Command, ProfileShowsEveryOperator) {
  const Result r = quern({"profile", "tiny.qn", "--runs", "3", "--trace", "trace.json"});
  ASSERT_EQ(r.status, 0) << r.err;
  for (const char* text : {"conv2d", "fully_connected", "softmax", "GFLOP/s"})
    EXPECT_NE(r.out.find(text), std::string::npos) << text;
  const json trace = json::parse(read_whole(dir / "trace.json"));
  ASSERT_GE(trace["traceEvents"].size(), 3u);
  double last = -1;
  for (const json& event : trace["traceEvents"]) {
    EXPECT_EQ(event["ph"], "X");
    EXPECT_GT(event["ts"].get<double>(), last);
    EXPECT_GE(event["dur"].get<double>(), 0);
    last = event["ts"];
  }
}

TEST_F(Command, EvalCountsHits) {
  // What run sees first is the truth of one image and not of the other.
  const auto best = [&](const std::string& image) {
    succeeds({"run", "tiny.qn", "--input", image, "--output", "out"});
    const std::vector<double> p = npy_doubles(read_npy(path("out/prob.npy")));
    return static_cast<int>(std::max_element(p.begin(), p.end()) - p.begin());
  };
  const int a = best("a.png"), b = best("b.jpg");
  std::vector<double> p = npy_doubles(read_npy(path("out/prob.npy")));
  const int worst = static_cast<int>(std::min_element(p.begin(), p.end()) - p.begin());
  spill(dir / "truth.csv", fmt::format("file,label\na.png,{}\nb.jpg,{}\n", a, worst));
  ASSERT_NE(b, worst);
  const Result r = quern({"eval", "tiny.qn", "--images", ".", "--truth", "truth.csv", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.err, "");  // no progress bar in a pipe
  EXPECT_EQ(json::parse(r.out), (json{{"images", 2}, {"top1", 0.5}, {"top5", 0.5}}));
  EXPECT_NE(quern({"eval", "tiny.qn", "--images", ".", "--truth", "truth.csv"}).out.find("top-1 50.0% (1)"),
            std::string::npos);
}

TEST_F(Command, ProgressShowsOnATerminalOnly) {
  spill(dir / "truth.csv", "file,label\na.png,1\n");
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) GTEST_SKIP() << "this machine has no pseudo-terminals";
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  const Result r = run_quern(dir, {"eval", "tiny.qn", "--images", ".", "--truth", "truth.csv"}, ptsname(terminal));
  EXPECT_EQ(r.status, 0);
  char shown[4096] = {};
  ASSERT_GT(read(terminal, shown, sizeof shown - 1), 0);
  close(terminal);
  EXPECT_NE(std::strstr(shown, "1/1 images"), nullptr) << shown;
  EXPECT_NE(std::strstr(shown, "\x1b[K"), nullptr) << shown;  // wiped in the end
  EXPECT_NE(r.out.find("1 images"), std::string::npos);
}

TEST_F(Command, ZooIsReproducible) {
  succeeds({"zoo", "shufflenet_v2", "-o", "a.qn"});
  succeeds({"zoo", "shufflenet_v2", "-o", "b.qn", "--seed", "1"});
  succeeds({"zoo", "shufflenet_v2", "-o", "c.qn", "--seed", "2"});
  EXPECT_EQ(read_whole(dir / "a.qn"), read_whole(dir / "b.qn"));
  EXPECT_NE(read_whole(dir / "a.qn"), read_whole(dir / "c.qn"));
  EXPECT_NEAR(json::parse(quern({"info", "a.qn", "--json"}).out)["macs"].get<double>(), 146e6, 1.5e6);
}

TEST_F(Command, WritingReplacesWholeFilesOnly) {
  spill(dir / "x.qn", "old");
  fails({"convert", "missing.onnx", "-o", "x.qn"});
  EXPECT_EQ(read_whole(dir / "x.qn"), "old");
  succeeds({"convert", "tiny.qn", "-o", "x.qn"});
  EXPECT_EQ(quern({"info", "x.qn"}).status, 0);
  EXPECT_EQ(files(), (std::set<std::string>{"tiny.qn", "a.png", "b.jpg", "x.qn"}));
}

}  // namespace
}  // namespace quern
