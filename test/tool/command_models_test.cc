// The commands that describe models, estimate and make them: info, predict, prune, quantize and zoo.
#include <gtest/gtest.h>
#include <quern/extra.h>
#include <quern/quern.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "../variable.h"
#include "command_fixture.h"
#include "source_dir.h"

namespace quern {
namespace command_models_test {

using nlohmann::json;

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
  graph.tensors[at(graph.outputs[0].tensor)].name = "y";
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
  EXPECT_EQ(keys, (std::set<std::string>{"inputs", "outputs", "operators", "inner_operators", "extra_operators",
                                         "extra_nodes", "scalar_nodes", "states", "parameters", "nonzeros", "sparsity",
                                         "layers", "macs", "operator_macs", "unsized_nodes", "loops", "file_bytes"}));
  EXPECT_EQ(info["inputs"][0]["name"], "input");
  EXPECT_EQ(info["inputs"][0]["type"], "f32");
  EXPECT_EQ(info["inputs"][0]["shape"], (std::vector<size_t>{1, 3, 8, 8}));
  EXPECT_EQ(info["outputs"][0]["name"], "prob");
  EXPECT_EQ(info["outputs"][0]["shape"], (std::vector<size_t>{1, 10}));
  EXPECT_EQ(info["operators"]["conv2d"], 1);
  EXPECT_EQ(info["parameters"], 4 * 27 + 4 + 64 * 10 + 10);
  EXPECT_EQ(info["nonzeros"], info["parameters"]);
  EXPECT_EQ(info["sparsity"], 0);
  EXPECT_EQ(info["layers"][0], (json{{"name", "conv"},
                                     {"elements", 4 * 27},
                                     {"zeros", 0},
                                     {"sparsity", 0.0},
                                     {"file_bytes", 4 * 4 * 27},
                                     {"f32_bytes", 4 * 4 * 27}}));
  EXPECT_EQ(info["layers"].size(), 2u);
  EXPECT_EQ(info["macs"], 16 * 4 * 27 + 64 * 10);
  EXPECT_EQ(info["file_bytes"], fs::file_size(dir / "tiny.qn"));
  const Result text = quern({"info", "tiny.qn"});
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("1x3x8x8"), std::string::npos);
  EXPECT_NE(text.out.find("in fully_connected\n"), std::string::npos) << text.out;
}

// A state, a product of libquern-extra, and an operator without kernels.
TEST_F(Command, InfoExplainsStatesWorkAndNeeds) {
  check(qn_extra_register());
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {3, 4}), memory = add_tensor(graph, "memory", QN_F32, {4, 4});
  graph.inputs = {{.tensor = x}, {.tensor = memory}};
  const int product = add_node(graph, OpKind::custom, "times", {x, memory}, {});
  graph.nodes[0].type = "matmul";
  const int next = add_node(graph, OpKind::custom, "size", {memory}, {});
  graph.nodes[1].type = "abs";
  graph.tensors[at(product)].name = "y";
  graph.tensors[at(next)].name = "memory out";
  graph.outputs = {{.tensor = product}, {.tensor = next}};
  graph.states = {{1, 1}};
  check(infer_shapes(graph));
  check(write_model_file(graph, path("m.qn").c_str()));
  const json info = json::parse(quern({"info", "m.qn", "--json"}).out);
  EXPECT_EQ(info["states"],
            (json{{{"input", "memory"}, {"output", "memory out"}, {"type", "f32"}, {"shape", {4, 4}}}}));
  EXPECT_EQ(info["macs"], 48);
  EXPECT_EQ(info["operator_macs"], (json{{"matmul", 48}}));
  EXPECT_EQ(info["extra_nodes"], (json{{{"operator", "abs"}, {"count", 1}, {"first", "size"}},
                                       {{"operator", "matmul"}, {"count", 1}, {"first", "times"}}}));
  EXPECT_EQ(info["scalar_nodes"], (json{{{"operator", "abs"}, {"count", 1}, {"first", "size"}}}));
  const std::string text = quern({"info", "m.qn"}).out;
  for (const char* line : {"state      memory  f32 4x4, output memory out of the run before\n",
                           "needs      libquern-extra, for abs (1, size), matmul (1, times); ",
                           "slow       no kernels of their own, scalar reference code: abs (1, size)\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  EXPECT_EQ(text.find("input      memory"), std::string::npos) << text;
  EXPECT_EQ(text.find("output     memory out"), std::string::npos) << text;
}

TEST_F(Command, InfoWithoutAModelDescribesTheMachine) {
  const Result before = quern({"info", "--json"});
  ASSERT_EQ(before.status, 0) << before.err;
  const json found = json::parse(before.out);
  for (const char* key :
       {"core", "level_f32", "level_int8", "l1_bytes", "l2_bytes", "l3_bytes", "page_bytes", "cpus"}) {
    const std::string source = found[key]["source"];
    EXPECT_TRUE(source == "guessed" || source == "detected" || source == "pretended") << key << ": " << source;
  }
  EXPECT_EQ(found["level_f32"]["value"], qn_cpu_level());
  const Variable l2("QUERN_L2", "384K"), core("QUERN_CORE", "zen3"), cpus("QUERN_CPUS", "7");
  const json pretended = json::parse(quern({"info", "--json"}).out);
  EXPECT_EQ(pretended["l2_bytes"], (json{{"value", 384 << 10}, {"source", "pretended"}}));
  EXPECT_EQ(pretended["core"], (json{{"value", "zen3"}, {"source", "pretended"}}));
  EXPECT_EQ(pretended["cpus"], (json{{"value", 7}, {"source", "pretended"}}));
  EXPECT_EQ(pretended["l1_bytes"], found["l1_bytes"]);
  const std::string text = quern({"info"}).out;
  EXPECT_NE(text.find("384 KiB"), std::string::npos) << text;
  EXPECT_NE(text.find("7 allowed"), std::string::npos) << text;
}

#ifdef QUERN_HDF5
TEST_F(Command, LoadsLibhdf5ForItsFilesAlone) {
  spill(dir / QUERN_HDF5, "no library");
  spill(dir / "net.h5", "");
  const Variable libraries("LD_LIBRARY_PATH", dir.c_str());
  succeeds({"info", "tiny.qn"});
  const std::string refusal = fails({"convert", "net.h5", "-o", "net.qn"});
  EXPECT_NE(refusal.find("net.h5: cannot load libhdf5: "), std::string::npos) << refusal;
  EXPECT_NE(refusal.find(QUERN_HDF5), std::string::npos) << refusal;
}
#endif

TEST_F(Command, WarnsOfWrongVariables) {
  const Variable core("QUERN_CORE", "foo"), l2("QUERN_L2", "big");
  const Result r = quern({"convert", "tiny.qn", "-o", "again.qn"});
  EXPECT_EQ(r.status, 0);
  EXPECT_NE(r.err.find("QUERN_CORE: expected a core like zen4"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("QUERN_L2: expected 1024 to 1073741824, got 'big'"), std::string::npos) << r.err;
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
  const Result all = quern({"predict", "tiny.qn", "--core", "a73", "--threads", "0", "--json"});
  EXPECT_EQ(nlohmann::json::parse(all.out)["threads"], 4) << "all cores of the cluster";
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
  const json& fc = report["layers"][1];
  EXPECT_EQ(report["layers"][0]["zeros"], 0);
  EXPECT_EQ(fc["elements"], 640);
  EXPECT_EQ(fc["zeros"], 576);
  EXPECT_EQ(fc["sparsity"], 0.9);
  EXPECT_EQ(fc["f32_bytes"], 640 * 4);
  EXPECT_EQ(fc["file_bytes"], (10 + 1) * 4 + 64 + 64 * 4);  // starts of rows, steps, nonzeros
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

TEST_F(Command, PruneRemovesChannels) {
  const Result r = quern({"prune", "tiny.qn", "-o", "small.qn", "--channels", "0.5", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json report = json::parse(r.out);
  EXPECT_EQ(report, (json{{"channels", 0.5},
                          {"layers",
                           {{{"name", "conv"}, {"channels_before", 4}, {"channels_after", 2}},
                            {{"name", "fc"}, {"channels_before", 10}, {"channels_after", 10}}}},
                          {"weights_before", 108 + 4 + 640 + 10},
                          {"weights_after", 54 + 2 + 320 + 10},
                          {"macs_before", 16 * 108 + 640},
                          {"macs_after", 16 * 54 + 320},
                          {"file_bytes", fs::file_size(dir / "small.qn")}}));
  EXPECT_LT(fs::file_size(dir / "small.qn"), fs::file_size(dir / "tiny.qn"));
  const json info = json::parse(quern({"info", "small.qn", "--json"}).out);
  EXPECT_EQ(info["parameters"], report["weights_after"]);
  EXPECT_EQ(info["macs"], report["macs_after"]);
  succeeds({"run", "small.qn", "--input", "a.png"});

  const Result text = quern({"prune", "tiny.qn", "-o", "small.qn", "--channels", "0.25"});
  EXPECT_NE(text.out.find("  3 of           4 channels  conv\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("574 of         762 weights   all\n"), std::string::npos) << text.out;
  succeeds({"prune", "tiny.qn", "-o", "same.qn", "--channels", "0"});
  EXPECT_EQ(read_whole(dir / "same.qn"), read_whole(dir / "tiny.qn"));

  zoo::Builder b("one", 5);
  b.output("y", b.conv("conv", b.input(8), {4, 3, 2, zoo::Activation::relu}).tensor);
  check(write_model_file(b.finish(), path("one.qn").c_str()));
  EXPECT_NE(fails({"prune", "one.qn", "-o", "x.qn", "--channels", "0.5"}).find("no channel can be removed"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(dir / "x.qn"));
}

TEST_F(Command, PruneSplitsLayers) {
  zoo::Builder b("wide", 5);
  const zoo::Value x = b.global_average("pool", b.conv("conv", b.input(8), {64, 3, 2, zoo::Activation::relu}));
  b.output("y", b.fully_connected("fc", x, 80).tensor);
  check(write_model_file(b.finish(), path("wide.qn").c_str()));
  const Result r = quern({"prune", "wide.qn", "-o", "thin.qn", "--low-rank", "0.8", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json report = json::parse(r.out);
  ASSERT_EQ(report["layers"].size(), 1);
  const json layer = report["layers"][0];
  const size_t rank = layer["rank"], saved = 64 * 80 - rank * (64 + 80);
  EXPECT_EQ(layer, (json{{"name", "fc"},
                         {"first", "fc_low_rank"},
                         {"rank", rank},
                         {"relative_error", layer["relative_error"]},
                         {"weights_before", 64 * 80 + 80},
                         {"weights_after", 64 * 80 + 80 - saved},
                         {"macs_before", 64 * 80},
                         {"macs_after", 64 * 80 - saved}}));
  EXPECT_GT(layer["relative_error"], 0.7);
  EXPECT_LE(layer["relative_error"], 0.8);
  EXPECT_EQ(report["low_rank"], 0.8);
  const json info = json::parse(quern({"info", "thin.qn", "--json"}).out);
  EXPECT_EQ(info["parameters"], report["weights_after"]);
  EXPECT_EQ(info["macs"], report["macs_after"]);
  EXPECT_EQ(report["weights_before"].get<size_t>() - report["weights_after"].get<size_t>(), saved);
  EXPECT_EQ(report["macs_before"].get<size_t>() - report["macs_after"].get<size_t>(), saved);
  EXPECT_EQ(report["file_bytes"], fs::file_size(dir / "thin.qn"));
  EXPECT_LT(fs::file_size(dir / "thin.qn"), fs::file_size(dir / "wide.qn"));
  succeeds({"run", "thin.qn", "--input", "a.png"});

  const Result text = quern({"prune", "wide.qn", "-o", "thin.qn", "--low-rank", "0.8"});
  const std::string change = std::to_string(layer["weights_after"].get<size_t>()) + " of        5200 weights   rank ";
  EXPECT_NE(text.out.find(change), std::string::npos) << text.out;
  succeeds({"prune", "tiny.qn", "-o", "same.qn", "--low-rank", "0.8"});  // its layers are small
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
  EXPECT_EQ(report["method"], "mse");
  EXPECT_EQ(report["samples"], 1);
  EXPECT_EQ(report["quantized_layers"], 2);
  EXPECT_EQ(report["layers"][0]["name"], "conv");
  EXPECT_EQ(report["layers"][0]["type"], "qs8c");
  EXPECT_EQ(report["layers"][1]["kind"], "fully_connected");
  EXPECT_EQ(report["layers"][1]["weights"], 640);
  EXPECT_GT(report["layers"][1]["weights_sqnr_db"], 30);
  EXPECT_GT(report["layers"][1]["output"]["scale"], 0);
  for (const json& layer : report["layers"]) {
    EXPECT_EQ(layer["file_bytes"], layer["weights"]);
    for (const json& tensor : {layer["input"], layer["output"]}) {
      const double scale = tensor["scale"], zero = tensor["zero_point"];
      EXPECT_FLOAT_EQ(tensor["low"], (-128 - zero) * scale);
      EXPECT_FLOAT_EQ(tensor["high"], (127 - zero) * scale);
      EXPECT_GE(tensor["saturation"], 0);
      EXPECT_LT(tensor["saturation"], 0.1);
    }
  }
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
  const Result text = quern({"quantize", "copy.qn", "-o", "copy.qn", "--calibrate", "a.png", "--method", "mse"});
  EXPECT_NE(text.out.find("2 of 2 layers are quantized; 1 samples"), std::string::npos) << text.out << text.err;
  EXPECT_EQ(read_whole(dir / "copy.qn"), read_whole(dir / "bytes.qn"));
}

// Each has a range of its own for an input whose few large values are rare.
TEST_F(Command, QuantizeChoosesRanges) {
  std::vector<float> values(3 * 64);
  for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>((k * 37) % 101) / 50 - 1;
  values[100] = 30;
  write_array("0.npy", {1, 3, 8, 8}, values);
  std::set<double> scales;
  std::map<std::string, double> saturation;
  for (const char* method : {"minmax", "percentile", "mse", "kl", "admm"}) {
    const Result r = quern({"quantize", "tiny.qn", "-o", "q.qn", "--calibrate", "0.npy", "--method", method, "--json"});
    ASSERT_EQ(r.status, 0) << r.err;
    const json input = json::parse(r.out)["layers"][0]["input"];
    scales.insert(input["scale"].get<double>());
    saturation[method] = input["saturation"];
  }
  EXPECT_EQ(saturation["minmax"], 0);
  EXPECT_GE(scales.size(), 3u);  // one of 192 values is more than one of 100,000, and its square outweighs the others
}

// Ten samples, of which two are held out.
TEST_F(Command, QuantizeMeasuresHeldOutSamples) {
  fs::create_directory(dir / "samples");
  for (size_t i = 0; i < 10; ++i) {
    std::vector<float> values(3 * 64);
    for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>((k * (i + 3)) % 19) / 9 - 1;
    write_array(fmt::format("samples/{}.npy", i), {1, 3, 8, 8}, values);
  }
  const Result r = quern({"quantize", "tiny.qn", "-o", "q.qn", "--calibrate", "samples", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json report = json::parse(r.out);
  EXPECT_EQ(report["samples"], 10);
  EXPECT_EQ(report["calibration_samples"], 8);
  EXPECT_EQ(report["measured_samples"], 2);
  EXPECT_EQ(report["held_out"], true);
  EXPECT_EQ(report["usable"], true);
  ASSERT_EQ(report["outputs"].size(), 1u);
  EXPECT_EQ(report["outputs"][0]["name"], "prob");
  EXPECT_GT(report["outputs"][0]["snr_db"], 15);
  EXPECT_EQ(report["outputs"][0]["top1_agreement"], 1.0);
  const std::string text = quern({"quantize", "tiny.qn", "-o", "q.qn", "--calibrate", "samples"}).out;
  EXPECT_NE(text.find("measured on 2 held-out samples; the other 8 calibrated\noutput prob: SNR "), std::string::npos)
      << text;
  EXPECT_NE(text.find("dB, top-1 agreement 100.0%\n"), std::string::npos) << text;

  // The held-out ones do not calibrate: 4.npy and 9.npy of ten. Fewer than five all do both.
  write_array("samples/9.npy", {1, 3, 8, 8}, std::vector<float>(3 * 64, 1e6f));
  succeeds({"quantize", "tiny.qn", "-o", "far.qn", "--calibrate", "samples"});
  EXPECT_EQ(read_whole(dir / "far.qn"), read_whole(dir / "q.qn"));
  const json few = json::parse(quern({"quantize", "tiny.qn", "-o", "q.qn", "--calibrate", "a.png", "--json"}).out);
  EXPECT_EQ(few["held_out"], false);
  EXPECT_EQ(few["calibration_samples"], 1);
  EXPECT_EQ(few["measured_samples"], 1);
}

TEST_F(Command, QuantizeReconstructsRounding) {
  const std::string digits = QUERN_SOURCE_DIR "/examples/digits";
  const auto quantize = [&](const std::string& out, const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {
        "quantize",   digits + "/digits.onnx", "-o", out, "--mean", "127.5", "--scale", "0.00784314", "--json",
        "--calibrate"};
    for (int i = 0; i < 10; ++i) arguments.push_back(fmt::format("{}/digit_{}.png", digits, i));
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Result r = quern(arguments);
    EXPECT_EQ(r.status, 0) << r.err;
    return json::parse(r.out);
  };
  const json nearest = quantize("nearest.qn", {"--rounding", "nearest"}), own = quantize("own.qn", {});
  EXPECT_EQ(nearest["rounding"], "nearest");
  EXPECT_EQ(own["rounding"], "reconstruct");
  EXPECT_GT(own["outputs"][0]["snr_db"], nearest["outputs"][0]["snr_db"].get<double>() + 1);
  quantize("again.qn", {"--rounding", "reconstruct", "--threads", "3"});
  EXPECT_EQ(read_whole(dir / "again.qn"), read_whole(dir / "own.qn"));
  const json equalized = quantize("equalized.qn", {"--equalize"});
  EXPECT_EQ(equalized["equalized"], true);
  EXPECT_NE(read_whole(dir / "equalized.qn"), read_whole(dir / "own.qn"));
  EXPECT_GT(equalized["outputs"][0]["snr_db"], 40);
}

// A chain of fully-connected layers with 2 x 2 weights, named a, b and so on.
void write_chain(const std::string& path, const std::vector<std::array<float, 4>>& weights) {
  Graph graph;
  int x = add_tensor(graph, "x", QN_F32, {1, 2});
  graph.inputs = {{.tensor = x}};
  char name = 'a';
  for (const std::array<float, 4>& w : weights)
    x = add_node(graph, OpKind::fully_connected, String(std::string_view(&name, 1)),
                 {x, add_constant(graph, "", QN_F32, {2, 2}, w.data()), no_tensor}, {}),
    ++name;
  graph.tensors[at(x)].name = "y";
  graph.outputs = {{.tensor = x}};
  check(infer_shapes(graph));
  check(write_model_file(graph, path.c_str()));
}

// Large values in the samples leave no steps for small ones, of which the output is made.
TEST_F(Command, QuantizeSaysThatAModelIsRuined) {
  write_chain(path("wide.qn"), {{1e4f, 0, 0, 1}, {0, 1, 0, 1}});
  write_array("x.npy", {1, 2}, {1, 0.5f});
  const Result r = quern({"quantize", "wide.qn", "-o", "q.qn", "--calibrate", "x.npy", "--rounding", "nearest"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("measured on the 1 samples that also calibrated; with 5 or more, a fifth is held out\n"),
            std::string::npos)
      << r.out;
  EXPECT_NE(r.out.find(": below 6 dB, the quantized model is not usable\n"), std::string::npos) << r.out;
  const json report = json::parse(
      quern({"quantize", "wide.qn", "-o", "q.qn", "--calibrate", "x.npy", "--rounding", "nearest", "--json"}).out);
  EXPECT_EQ(report["usable"], false);
  EXPECT_EQ(report["outputs"][0]["usable"], false);
  EXPECT_LT(report["outputs"][0]["snr_db"], 6);
  EXPECT_TRUE(fs::exists(dir / "q.qn"));
}

TEST_F(Command, QuantizeLeavesNodesInF32UntilTheOutputIsCloseEnough) {
  write_chain(path("wide.qn"), {{1, 0.25f, -0.5f, 1}, {1e4f, 0, 0, 1}, {0, 1, 0, 1}, {0.5f, 1, 1, 0}});
  write_array("x.npy", {1, 2}, {1, 0.7f});
  const auto quantize = [&](const char* least) {
    return quern({"quantize", "wide.qn", "-o", "q.qn", "--calibrate", "x.npy", "--min-snr", least, "--rounding",
                  "nearest", "--save-plan", "plan.json", "--json"});
  };
  const Result r = quantize("30");
  ASSERT_EQ(r.status, 0) << r.err;
  const json report = json::parse(r.out);
  std::string types;
  for (const json& layer : report["layers"]) types += layer["type"] == "f32" ? 'f' : 'q';
  EXPECT_EQ(types, "qffq");
  EXPECT_GE(report["outputs"][0]["snr_db"], 30);
  succeeds({"quantize", "wide.qn", "-o", "again.qn", "--calibrate", "x.npy", "--plan", "plan.json", "--json"});
  EXPECT_TRUE(read_whole(dir / "q.qn") == read_whole(dir / "again.qn")) << "the plan knows which";
  fs::remove(dir / "q.qn");
  write_chain(path("wide.qn"), {{1e4f, 0, 0, 1}, {0, 1, 0, 1}});
  EXPECT_NE(quantize("20").err.find("no part of the model can be int8: its outputs would have less than 20 dB"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(dir / "q.qn"));
}

TEST_F(Command, QuantizeMakesWeightsOf4Bits) {
  check(write_model_file(network_of_three(20), path("net.qn").c_str()));
  succeeds({"run", "net.qn", "--input", "a.png", "--output", "out"});
  const char* const formats[][2] = {{"4", "0"}, {"4", "32"}, {"8", "32"}};
  for (const auto& [of_weights, block] : formats) {
    const Result r = quern({"quantize", "net.qn", "-o", "q.qn", "--calibrate", "a.png", "--activations", "f32",
                            "--weight-bits", of_weights, "--block", block, "--json"});
    ASSERT_EQ(r.status, 0) << r.err;
    const json report = json::parse(r.out);
    EXPECT_EQ(report["activations"], "f32");
    EXPECT_EQ(report["quantized_layers"], 3);
    const int bits[] = {8, std::stoi(of_weights), std::stoi(of_weights)};
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(report["layers"][i]["weight_bits"], bits[i]) << i;
      EXPECT_EQ(report["layers"][i]["type"], "f32");
    }
    EXPECT_EQ(report["usable"], true);
    const std::string needs = quern({"info", "q.qn", "--needs"}).out;
    EXPECT_NE(needs.find("api op\n"), std::string::npos) << "it decodes weights";
    EXPECT_EQ(needs.find("kernel gemm_qw4b\n") != std::string::npos, std::string(block) == "32") << needs;
    succeeds({"run", "q.qn", "--input", "a.png", "--expect", "out/prob.npy", "--tolerance", "0.05", "--output", "q"});
    succeeds({"export", "q.qn", "-o", "q.onnx"});
    succeeds({"convert", "q.onnx", "-o", "back.qn"});
    succeeds({"run", "back.qn", "--input", "a.png", "--mean", "123.675,116.28,103.53", "--scale",
              "0.01712475,0.017507,0.01742919", "--expect", "q/prob.npy", "--tolerance", "1e-5"});
  }
  const std::vector<std::string> flags = {"quantize", "net.qn", "-o", "q.qn", "--calibrate", "a.png"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), flags.begin(), flags.end());
    return fails(more, 2);
  };
  EXPECT_NE(with({"--block", "32"}).find("needs --activations f32"), std::string::npos);
  EXPECT_NE(with({"--min-snr", "9", "--activations", "f32"}).find("needs --activations int8"), std::string::npos);
  EXPECT_NE(with({"--equalize", "--activations", "f32"}).find("needs --activations int8"), std::string::npos);
  with({"--weight-bits", "5"});
}

TEST_F(Command, CompressCodesTheSameModel) {
  succeeds({"zoo", "squeezenet_v1.1", "-o", "net.qn", "--sparsity", "0.8"});
  succeeds({"quantize", "net.qn", "-o", "bytes.qn", "--calibrate", "a.png", "--rounding", "nearest"});
  for (const std::string model : {"net.qn", "bytes.qn"}) {
    SCOPED_TRACE(model);
    const Result r = quern({"compress", model, "-o", "small.qn", "--json"});
    ASSERT_EQ(r.status, 0) << r.err;
    const json report = json::parse(r.out);
    EXPECT_EQ(report["input_bytes"], fs::file_size(dir / model));
    EXPECT_EQ(report["file_bytes"], fs::file_size(dir / "small.qn"));
    EXPECT_GT(report["ratio"], model == "net.qn" ? 1.04 : 3);
    const std::string needs = quern({"info", model, "--needs"}).out;
    std::string with_decoder = quern({"info", "small.qn", "--needs"}).out;
    const size_t line = with_decoder.find("format coded\n");
    ASSERT_NE(line, std::string::npos);
    EXPECT_EQ(with_decoder.erase(line, std::strlen("format coded\n")), needs);
    succeeds({"run", model, "--input", "a.png", "--output", "out"});
    const std::string output = "out/" + fs::directory_iterator(dir / "out")->path().filename().string();
    succeeds({"run", "small.qn", "--input", "a.png", "--expect", output, "--tolerance", "0"});
    for (const std::string command : {"bench", "profile"}) succeeds({command, "small.qn", "--runs", "1"});
    succeeds({"predict", "small.qn", "--core", "a53"});
    succeeds({"export", "small.qn", "-o", "small.onnx"});
    succeeds({"convert", "small.qn", "-o", "again.qn"});
    EXPECT_EQ(read_whole(dir / "again.qn"), read_whole(dir / model)) << "what is coded is not lost";
    fs::remove_all(dir / "out");
  }
  EXPECT_FALSE(fails({"compress", "a.png", "-o", "x.qn"}, 1).empty());
  EXPECT_FALSE(fs::exists(dir / "x.qn"));
}

// The more points may be lost, the smaller the file.
TEST_F(Command, CompressKeepsAccuracy) {
  zoo::Builder b("net", 5);
  const zoo::Value conv = b.conv("conv", b.input(12), {24, 3, 2, zoo::Activation::relu});
  b.output("prob", b.softmax("prob", b.fully_connected("fc", conv, 20).tensor, 1));
  Graph graph = b.finish();
  check(infer_shapes(graph));
  check(write_model_file(graph, path("net.qn").c_str()));
  double before = 1;
  for (const double most : {0.01, 20.0}) {
    const Result r = quern({"compress", "net.qn", "-o", "small.qn", "--calibrate", "a.png", "b.jpg", "--mirror",
                            "--max-drop", std::to_string(most), "--json"});
    ASSERT_EQ(r.status, 0) << r.err;
    const json report = json::parse(r.out);
    EXPECT_GT(report["ratio"], before);
    before = report["ratio"];
    EXPECT_LE(report["drop"]["points"], most);
    EXPECT_LE(report["drop"]["low"], report["drop"]["points"]);
    EXPECT_GE(report["drop"]["high"], report["drop"]["points"]);
  }
  spill(dir / "truth.csv", "file,label\nb.jpg,3\na.png,19\n");
  const std::vector<std::string> labelled = {"compress", "net.qn", "-o",      "small.qn", "--calibrate",
                                             "a.png",    "b.jpg",  "--truth", "truth.csv"};
  const auto with_labels = [&](std::vector<std::string> more) {
    more.insert(more.begin(), labelled.begin(), labelled.end());
    return more;
  };
  succeeds(with_labels({"--max-drop", "100"}));
  const Result relative = quern(with_labels({"--max-drop", "60%", "--json"}));
  EXPECT_EQ(relative.status, 0) << relative.err;
  const double limit = json::parse(relative.out)["drop"]["most"];
  EXPECT_TRUE(limit == 0 || limit == 30 || limit == 60) << "of two samples none, one or both are right: " << limit;
  for (const char* wrong : {"%", "-1", "101%", "5%%", "nan"}) fails(with_labels({"--max-drop", wrong}), 2);
  fails(with_labels({"--target-ratio", "2"}), 2);
  spill(dir / "truth.csv", "file,label\nb.jpg,3\na.png,20\n");
  EXPECT_NE(fails(with_labels({"--max-drop", "50"})).find("expected labels below 20"), std::string::npos);
  spill(dir / "truth.csv", "file,label\nb.jpg,3\n");
  EXPECT_NE(fails(with_labels({"--max-drop", "50"})).find("truth.csv has no label for a.png"), std::string::npos);
  const Result text = quern({"compress", "net.qn", "-o", "small.qn", "--calibrate", "a.png", "--max-drop", "50"});
  EXPECT_NE(text.out.find("accuracy drops by"), std::string::npos);
  b = zoo::Builder("image", 5);
  b.output("image", b.conv("conv", b.input(12), {24, 3, 2, zoo::Activation::relu}).tensor);
  graph = b.finish();
  check(infer_shapes(graph));
  check(write_model_file(graph, path("image.qn").c_str()));
  const std::string why = fails({"compress", "image.qn", "-o", "no.qn", "--calibrate", "a.png", "--max-drop", "5"}, 1);
  EXPECT_NE(why.find("accuracy needs a classifier"), std::string::npos) << why;
}

// Weights lose what outputs miss least, until the file is small enough.
TEST_F(Command, CompressReachesATarget) {
  zoo::Builder b("net", 5);
  const zoo::Value first = b.conv("first", b.input(12), {36, 3, 1, zoo::Activation::relu});
  const zoo::Value second = b.conv("second", first, {24, 3, 2, zoo::Activation::relu});
  b.output("prob", b.softmax("prob", b.fully_connected("fc", second, 20).tensor, 1));
  Graph graph = b.finish();
  check(infer_shapes(graph));
  check(write_model_file(graph, path("net.qn").c_str()));
  succeeds({"run", "net.qn", "--input", "a.png", "--output", "out"});
  double before = 0;
  for (const std::string ratio : {"4", "6", "10"}) {
    const Result r = quern({"compress", "net.qn", "-o", "small.qn", "--calibrate", "a.png", "b.jpg", "--mirror",
                            "--target-ratio", ratio, "--json"});
    ASSERT_EQ(r.status, 0) << r.err;
    const json report = json::parse(r.out);
    EXPECT_EQ(report["file_bytes"], fs::file_size(dir / "small.qn"));
    EXPECT_GE(report["ratio"], std::stod(ratio));
    EXPECT_LE(report["ratio"], 1.1 * std::stod(ratio));
    EXPECT_EQ(report["layers"].size(), 3u);
    EXPECT_GT(report["loss"], before);
    before = report["loss"];
    for (const json& layer : report["layers"]) EXPECT_LT(layer["bits_per_weight"], 8);
    const std::string tolerance = ratio == "4" ? "0.02" : "0.2";
    succeeds({"run", "small.qn", "--input", "a.png", "--expect", "out/prob.npy", "--tolerance", tolerance});
  }
  const Result r = quern({"compress", "net.qn", "-o", "int8.qn", "--calibrate", "a.png", "b.jpg", "--target-ratio", "4",
                          "--activations", "int8", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_GE(json::parse(r.out)["ratio"], 4);
  succeeds({"run", "int8.qn", "--input", "a.png", "--expect", "out/prob.npy", "--tolerance", "0.05"});
  EXPECT_NE(quern({"info", "int8.qn", "--needs"}).out.find("operator quantize\n"), std::string::npos)
      << "layers compute in int8";
  const auto with = [&](std::vector<std::string> more, int status) {
    more.insert(more.begin(), {"compress", "net.qn", "-o", "none.qn"});
    const std::string message = fails(more, status);
    EXPECT_FALSE(fs::exists(dir / "none.qn"));
    return message;
  };
  const std::string too_few = with({"--target-size", "600", "--calibrate", "a.png"}, 1);
  EXPECT_NE(too_few.find("bytes at least, not 600; most of it is "), std::string::npos) << too_few;
  EXPECT_NE(too_few.find("second ("), std::string::npos) << "the largest layer: " << too_few;
  std::set<uint64_t> losses;
  for (const char* seed : {"0", "1"}) {
    const Result drawn = quern({"compress", "net.qn", "-o", "seed.qn", "--calibrate", "a.png", "b.jpg",
                                "--target-ratio", "6", "--subset", "1", "--seed", seed, "--json"});
    ASSERT_EQ(drawn.status, 0) << drawn.err;
    losses.insert(std::bit_cast<uint64_t>(json::parse(drawn.out)["loss"].get<double>()));
  }
  EXPECT_EQ(losses.size(), 2u);
  const Result dry = quern({"compress", "net.qn", "-o", "none.qn", "--calibrate", "a.png", "--target-ratio", "4",
                            "--timeout", "0", "--dry-run", "--json"});
  ASSERT_EQ(dry.status, 0) << dry.err;
  EXPECT_GE(json::parse(dry.out)["ratio"], 4);
  EXPECT_FALSE(fs::exists(dir / "none.qn"));
  EXPECT_NE(with({"--target-ratio", "8"}, 2).find("a target or a plan needs samples"), std::string::npos);
  EXPECT_NE(with({"--calibrate", "a.png"}, 2).find("samples need a target or a plan"), std::string::npos);
  with({"--max-drop", "5"}, 2);
  with({"--max-drop", "101", "--calibrate", "a.png"}, 2);
  with({"--max-drop", "5", "--target-ratio", "8", "--calibrate", "a.png"}, 2);
  with({"--target-ratio", "0.5", "--calibrate", "a.png"}, 2);
  with({"--target-ratio", "8", "--target-size", "9000", "--calibrate", "a.png"}, 2);
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
  fails({"quantize", "tiny.qn", "-o", "q.qn", "--calibrate", "a.png", "--method", "best"}, 2);
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

TEST_F(Command, ZooIsReproducible) {
  succeeds({"zoo", "shufflenet_v2", "-o", "a.qn"});
  succeeds({"zoo", "shufflenet_v2", "-o", "b.qn", "--seed", "1"});
  succeeds({"zoo", "shufflenet_v2", "-o", "c.qn", "--seed", "2"});
  EXPECT_EQ(read_whole(dir / "a.qn"), read_whole(dir / "b.qn"));
  EXPECT_NE(read_whole(dir / "a.qn"), read_whole(dir / "c.qn"));
  EXPECT_NEAR(json::parse(quern({"info", "a.qn", "--json"}).out)["macs"].get<double>(), 146e6, 1.5e6);
}

}  // namespace command_models_test
}  // namespace quern
