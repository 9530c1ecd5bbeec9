// The commands that run models: run, bench, profile and eval.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <quern/extra.h>
#include <quern/quern.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/cpu.h"
#include "base/cpus.h"
#include "command_fixture.h"
#include "source_dir.h"

namespace quern {
namespace command_run_test {

using nlohmann::json;

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

// A run may find that there are no scores.
TEST_F(Command, RunNamesNoClassesOfAnEmptyOutput) {
  check(qn_extra_register());
  Graph graph;
  const bool none[] = {false, false};
  const int x = add_tensor(graph, "x", QN_F32, {1, 2});
  graph.inputs.push_back({.tensor = x});
  const int y = add_node(graph, OpKind::custom, "y", {x, add_constant(graph, "", QN_BOOL, {2}, none)}, {});
  graph.nodes[0].type = "compress";
  graph.nodes[0].parameters = {{"axis", {1}, {}}};
  graph.tensors[static_cast<size_t>(y)].name = "y";
  graph.outputs.push_back({.tensor = y});
  check(write_model_file(graph, path("empty.qn").c_str()));
  write_array("x.npy", {1, 2}, {0.25f, 0.75f});
  const Result r = quern({"run", "empty.qn", "--input", "x.npy", "--top", "3", "--json"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(json::parse(r.out).at("runs").at(0).at("classes"), json::array({json::array()})) << r.out;
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
  EXPECT_EQ(keys,
            (std::set<std::string>{"model", "type", "isa", "threads", "runs", "min_ms", "median_ms", "p90_ms", "gflops",
                                   "percent_of_peak", "load_ms", "load_peak_bytes", "peak_memory_bytes"}));
  EXPECT_EQ(bench["type"], "f32");
  EXPECT_EQ(bench["threads"], 2);
  const Result all = quern({"bench", "tiny.qn", "--runs", "1", "--threads", "0", "--json"});
  EXPECT_EQ(nlohmann::json::parse(all.out)["threads"], usable_cores());
  EXPECT_EQ(bench["runs"], 5);
  EXPECT_GT(bench["min_ms"], 0);
  EXPECT_GE(bench["median_ms"], bench["min_ms"]);
  EXPECT_GE(bench["p90_ms"], bench["median_ms"]);
  EXPECT_GT(bench["gflops"], 0);
  EXPECT_GT(bench["load_ms"], 0);
  EXPECT_GT(bench["load_peak_bytes"], 4 * (4 * 27 + 640));  // packed weights
  EXPECT_LT(bench["load_peak_bytes"], 1 << 20);
  EXPECT_LT(bench["percent_of_peak"], 100);
  EXPECT_NEAR(bench["gflops"].get<double>(), 2 * (16 * 4 * 27 + 64 * 10) / bench["median_ms"].get<double>() / 1e6,
              1e-6);
  EXPECT_EQ(json::parse(quern({"bench", "tiny.qn", "--runs", "1", "--isa", "ref", "--json"}).out)["isa"], "ref");
  EXPECT_EQ(quern({"bench", "tiny.qn", "--runs", "1"}).status, 0);
}

TEST_F(Command, BenchSaysThatNothingCounts) {
  Graph graph;
  graph.inputs = {{.tensor = add_tensor(graph, "x", QN_F32, {2})}};
  graph.outputs = {{.tensor = add_node(graph, OpKind::exp, "exp", {0}, {})}};
  graph.tensors.back().name = "y";
  check(infer_shapes(graph));
  check(write_model_file(graph, path("exp.qn").c_str()));
  const Result r = quern({"bench", "exp.qn", "--runs", "1"});
  EXPECT_NE(r.out.find("no convolutions or fully connected layers: no GFLOP/s"), std::string::npos) << r.out << r.err;
}

TEST_F(Command, BenchComparesModelsOfBytesWithThePeakOfBytes) {
  succeeds({"quantize", "tiny.qn", "-o", "bytes.qn", "--calibrate", "a.png"});
  const json bench = json::parse(quern({"bench", "bytes.qn", "--runs", "1", "--json"}).out);
  EXPECT_EQ(bench["type"], "qs8c");
  EXPECT_EQ(bench["isa"], isa_name(byte_level()));
  EXPECT_EQ(
      json::parse(quern({"bench", "bytes.qn", "--runs", "1", "--isa", isa_name(byte_level()), "--json"}).out)["isa"],
      isa_name(byte_level()));
  EXPECT_TRUE(bench["percent_of_peak"].is_null() || bench["percent_of_peak"] < 100) << bench["percent_of_peak"];
  EXPECT_EQ(json::parse(quern({"bench", "bytes.qn", "--runs", "1", "--isa", "ref", "--json"}).out)["percent_of_peak"],
            nullptr);
}

TEST_F(Command, ProfileShowsEveryOperator) {
  const Result r = quern({"profile", "tiny.qn", "--runs", "3", "--trace", "trace.json"});
  ASSERT_EQ(r.status, 0) << r.err;
  for (const char* text : {"conv2d", "fully_connected", "softmax", "the run took", "GFLOP/s"})
    EXPECT_NE(r.out.find(text), std::string::npos) << text;
  const json trace = json::parse(read_whole(dir / "trace.json"));
  ASSERT_GE(trace["traceEvents"].size(), 3u);
  double last = -1;
  for (const json& event : trace["traceEvents"]) {
    EXPECT_EQ(event["ph"], "X");
    EXPECT_GT(event["ts"].get<double>(), last);
    EXPECT_GE(event["dur"].get<double>(), 0);
    last = event["ts"];
    const std::string kernel = event["args"]["kernel"], level = event["args"]["level"];
    EXPECT_EQ(level.empty(), kernel.empty()) << kernel;
    EXPECT_NE(kernel.find(level), std::string::npos) << kernel << ' ' << level;
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

}  // namespace command_run_test
}  // namespace quern
