// The quern command with models that carry states from run to run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "graph/file/format.h"
#include "graph/pass/passes.h"
#include "process.h"
#include "tool/input/npy.h"
#include "tool/model.h"

namespace quern {
namespace stream_test {

namespace fs = std::filesystem;

class Stream : public testing::Test {
 protected:
  // total = x + sum
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("quern_stream_" + std::to_string(getpid()));
    fs::create_directories(dir_);
    Graph graph;
    const int sum = add_tensor(graph, "sum", QN_F32, {2}), x = add_tensor(graph, "x", QN_F32, {2});
    graph.inputs = {{.tensor = sum}, {.tensor = x}};
    graph.outputs = {{.tensor = add_node(graph, OpKind::add, "add", {sum, x}, {})}};
    graph.tensors.back().name = "total";
    check(infer_shapes(graph));
    check(write_model_file(graph, (dir_ / "plain.qn").c_str()));
    for (const float value : {1, 2, 3}) write("x" + std::to_string(static_cast<int>(value)) + ".npy", value);
  }
  void TearDown() override { fs::remove_all(dir_); }

  void write(const std::string& name, float value) const {
    qn_tensor tensor;
    const size_t shape[] = {2};
    check(qn_tensor_init(&tensor, QN_F32, 1, shape));
    const float values[] = {value, -value};
    write_npy((dir_ / name).string(), tensor, values);
  }

  // The first element of the output after each of the three files.
  std::vector<double> totals(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "run");
    for (const char* file : {"x=x1.npy", "x=x2.npy", "x=x3.npy"}) {
      arguments.emplace_back("--input");
      arguments.emplace_back(file);
    }
    arguments.insert(arguments.end(), {"--output", "out"});
    const Result result = run_quern(dir_, arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<double> firsts;
    for (const char* name : {"x1", "x2", "x3"}) {
      firsts.push_back(npy_doubles(read_npy((dir_ / "out" / name / "total.npy").string())).at(0));
    }
    return firsts;
  }

  fs::path dir_;
};

TEST_F(Stream, RunCarriesStates) {
  ASSERT_EQ(run_quern(dir_, {"convert", "plain.qn", "--state", "sum=total", "-o", "sums.qn"}).status, 0);
  EXPECT_EQ(totals({"sums.qn"}), std::vector<double>({1, 3, 6}));
  write("begin.npy", 100);
  fs::remove_all(dir_ / "out");
  EXPECT_EQ(totals({"sums.qn", "--input", "sum=begin.npy"}), std::vector<double>({101, 103, 106}));
  EXPECT_NE(run_quern(dir_, {"run", "plain.qn", "--input", "x=x1.npy"}).err.find("nothing for input \"sum\""),
            std::string::npos);
}

TEST_F(Stream, ConvertSaysWhatIsWrong) {
  const auto error = [&](const char* state) {
    return run_quern(dir_, {"convert", "plain.qn", "--state", state, "-o", "sums.qn"}).err;
  };
  EXPECT_NE(error("sum").find("\"sum\" is not of the form IN=OUT"), std::string::npos);
  EXPECT_EQ(error("total=total"), "quern: plain.qn: the model has no input 'total'\n");
  EXPECT_EQ(error("sum=x"), "quern: plain.qn: the model has no output 'x'\n");
  EXPECT_FALSE(fs::exists(dir_ / "sums.qn"));
}

}  // namespace stream_test
}  // namespace quern
