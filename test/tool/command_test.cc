// The quern command as users run it: a process, its exit status and what it prints and leaves behind.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <quern/quern.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "command_fixture.h"

namespace quern {
namespace command_test {

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
      {"convert", "tiny.qn", "-o", "x.qn", "--shape", "1x3x8x"},
      {"convert", "tiny.qn", "-o", "x.qn", "--shape", "input=1x3xax8"},
      {"run", "tiny.qn", "--input", "a.png", "--shape", "1x3x0x8"},
      {"bench", "tiny.qn", "--shape", "=1x3x8x8"},
      {"profile", "tiny.qn", "--shape", "1x1x1x1x1x1x1x1x1"},
      {"predict", "tiny.qn", "--core", "a53", "--shape", "input="},
      {"bench", "tiny.qn", "--input", "a.png", "--input", "b.jpg"},
      {"profile", "tiny.qn", "--input", "y=a.png"},
      {"info", "--needs"},
      {"info", "--load"},
      {"info", "--plot", "x.png"},
      {"info", "tiny.qn", "--needs", "--plot", "x.png"},
      {"info", "tiny.qn", "--needs", "--load"},
      {"info", "tiny.qn", "--colour"},
      {"run", "tiny.qn"},
      {"run", "tiny.qn", "--input", "a.png", "--threads", "1025"},
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
      {"predict", "tiny.qn", "--core", "a53", "--threads", "1025"},
      {"predict", "tiny.qn", "--core", "a53", "--ghz", "0"},
      {"predict", "tiny.qn", "--core", "a53", "--ghz", "nan"},
      {"predict", "tiny.qn", "--core", "a53", "--isa", "avx2"},
      {"eval", "tiny.qn"},
      {"zoo", "alexnet", "-o", "x.qn"},
      {"zoo", "vgg16"},
      {"zoo", "vgg16", "-o", "x.qn", "--sparsity", "1"},
      {"zoo", "vgg16", "-o", "x.qn", "--sparsity", "0.5", "--block", "3"},
      {"compress", "tiny.qn"},
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
      {"prune", "tiny.qn", "-o", "x.qn", "--channels", "1"},
      {"prune", "tiny.qn", "-o", "x.qn", "--channels", "nan"},
      {"prune", "tiny.qn", "-o", "x.qn", "--channels", "0.5", "--sparsity", "0.5"},
      {"prune", "tiny.qn", "-o", "x.qn", "--channels", "0.5", "--block", "2"},
      {"prune", "tiny.qn", "-o", "x.qn", "--channels", "0.5", "--block-inputs", "4"},
      {"prune", "tiny.qn", "-o", "x.qn", "--channels", "0.5", "--schedule", "erk"},
      {"prune", "tiny.qn", "-o", "x.qn", "--low-rank", "1"},
      {"prune", "tiny.qn", "-o", "x.qn", "--low-rank=-0.1"},
      {"prune", "tiny.qn", "-o", "x.qn", "--low-rank", "nan"},
      {"prune", "tiny.qn", "-o", "x.qn", "--low-rank", "0.5", "--sparsity", "0.5"},
      {"prune", "tiny.qn", "-o", "x.qn", "--low-rank", "0.5", "--channels", "0.5"},
      {"prune", "tiny.qn", "-o", "x.qn", "--low-rank", "0.5", "--schedule", "erk"},
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
      {"info", "bad.qn", "--plot", "x.png"},
      {"info", "tiny.qn", "--plot", "no/such/folder/x.png"},
      {"info", "tiny.qn", "--plot", "."},
      {"info", "tiny.qn", "--plot", "tiny.qn"},
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

TEST_F(Command, WritingReplacesWholeFilesOnly) {
  spill(dir / "x.qn", "old");
  fails({"convert", "missing.onnx", "-o", "x.qn"});
  EXPECT_EQ(read_whole(dir / "x.qn"), "old");
  succeeds({"convert", "tiny.qn", "-o", "x.qn"});
  EXPECT_EQ(quern({"info", "x.qn"}).status, 0);
  EXPECT_EQ(files(), (std::set<std::string>{"tiny.qn", "a.png", "b.jpg", "x.qn"}));
}

}  // namespace command_test
}  // namespace quern
