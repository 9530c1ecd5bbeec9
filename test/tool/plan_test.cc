// Plans of what becomes of layers: names and expressions, what is refused, and commands that write, obey and repeat them.
#include "tool/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "command_fixture.h"
#include "convert/common/error.h"
#include "convert/zoo/builder.h"
#include "graph/file/format.h"
#include "graph/ir/rules.h"
#include "graph/pass/passes.h"

namespace quern {
namespace plan_test {

using nlohmann::json;

// Layers called a, block/1 and block/2, a softmax, and one without a name.
Graph named_layers() {
  zoo::Builder b("net", 1);
  zoo::Value x = b.input(8);
  for (const char* name : {"a", "block/1", "block/2"}) x = b.conv(name, x, {8, 3, 1, zoo::Activation::relu});
  b.output("prob", b.softmax("prob", b.fully_connected("nameless", x, 10).tensor, 1));
  Graph graph = b.finish();
  check(infer_shapes(graph));
  for (Node& node : graph.nodes) {
    if (std::string(node.name.c_str()) == "nameless") node.name = String();
  }
  return graph;
}

size_t node_called(const std::string& name) {
  const Graph graph = named_layers();
  size_t i = 0;
  while (name != graph.nodes[i].name.c_str()) ++i;
  return i;
}

LayerPlans parse_layers(const std::string& layers) {
  return parse_plan("{\"schema\": 1, \"layers\": " + layers + "}", "p.json", named_layers());
}

// What the layers of these names keep, or their bits.
std::string bits_of(const LayerPlans& plans) {
  const Graph graph = named_layers();
  std::ostringstream text;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].keep) text << graph.nodes[i].name.c_str() << "=keep ";
    if (plans[i].bits) text << graph.nodes[i].name.c_str() << '=' << *plans[i].bits << ' ';
  }
  return text.str();
}

TEST(Plans, NamesGoBeforeExpressions) {
  EXPECT_EQ(bits_of(parse_layers("{}")), "");
  EXPECT_EQ(bits_of(parse_layers(R"({"a": {"bits": 3}})")), "a=3 ");
  EXPECT_EQ(bits_of(parse_layers(R"({"block/1": {"bits": 3}, "block.*": {"bits": 4}})")), "block/1=3 block/2=4 ");
  EXPECT_EQ(bits_of(parse_layers(R"({"block/.": {"bits": 4}, "block/1": {"bits": 3}})")), "block/1=3 block/2=4 ");
  EXPECT_EQ(bits_of(parse_layers(R"({"block/.|a": {"keep": true}, "a|b.*1": {"bits": 2.5}})")),
            "a=2.5 block/1=2.5 block/2=keep ")
      << "the last expression that matches decides all";
}

TEST(Plans, ExpressionsMatchWholeNamesInLinearTime) {
  Graph graph = named_layers();
  graph.nodes[0].name = String(std::string(20000, 'a').c_str());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(parse_plan(R"({"schema": 1, "layers": {"(a*)*(a|aa)*b": {"bits": 3}}})", "p.json", graph), Error);
  EXPECT_TRUE(parse_plan(R"({"schema": 1, "layers": {"(a|aa)*": {"bits": 3}}})", "p.json", graph)[0].bits);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_THROW(parse_layers(R"({"bloc": {"bits": 3}})"), Error);
  EXPECT_EQ(bits_of(parse_layers(R"({"a|ab*|block/1": {"bits": 3}})")), "a=3 block/1=3 ") << "the longest match";
}

TEST(Plans, FieldsAreRead) {
  const LayerPlans plans = parse_layers(
      R"({"a": {"bits": 4, "activations": "f32", "block": 32, "sparsity": 0.5, "pattern": "16x4", "algorithm": "nearest", "keep": false}})");
  const LayerPlan& plan = plans[node_called("a")];
  EXPECT_FALSE(plan.keep);
  EXPECT_EQ(plan.bits, 4);
  EXPECT_TRUE(plan.f32_activations);
  EXPECT_EQ(plan.block, 32u);
  EXPECT_EQ(plan.sparsity, 0.5);
  ASSERT_TRUE(plan.pattern);
  EXPECT_EQ(plan.pattern->outputs, 16u);
  EXPECT_EQ(plan.pattern->inputs, 4u);
  EXPECT_EQ(plan.reconstructs, false);
}

TEST(Plans, WhatIsWrongIsNamed) {
  const auto why = [](const std::string& text) {
    try {
      parse_plan(text, "p.json", named_layers());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const auto layer = [&](const std::string& key, const std::string& fields) {
    return why("{\"schema\": 1, \"layers\": {\"" + key + "\": " + fields + "}}");
  };
  const struct {
    std::string got, expected;
  } cases[] = {
      {why(""), "p.json: expected JSON"},
      {why("{"), "p.json: expected JSON"},
      {why("[]"), "p.json: expected an object"},
      {why(R"({"layers": {}})"), "p.json: expected a plan, which has \"schema\""},
      {why(R"({"schema": 1})"), "p.json: expected a plan, which has \"layers\""},
      {why(R"({"schema": 2, "layers": {}})"), "expected \"schema\": 1"},
      {why(R"({"schema": 1, "layers": []})"), "expected an object as \"layers\""},
      {why(R"({"schema": 1, "layers": {}, "layer": {}})"), "there is no field \"layer\""},
      {why(R"({"schema": 1, "schema": 1, "layers": {}})"), "\"schema\" occurs twice"},
      {why(R"({"schema": 1, "model": "00000000", "layers": {}})"), "this plan is for another model"},
      {why(R"({"schema": 1, "model": 5, "layers": {}})"), "this plan is for another model"},
      {why(R"({"schema": 1, "layers": {"a": {"bits": [[[]]]}}})"),
       "p.json: expected a plan, got objects or arrays inside"},
      {why(std::string(100000, '[')), "p.json: expected a plan, got objects or arrays inside"},
      {layer("a", "3"), "p.json: layer \"a\": expected an object"},
      {layer("a", R"({"bit": 3})"), "layer \"a\": \"bit\": there is no such field"},
      {layer("a", R"({"bits": 0})"), "\"bits\": expected a number above 0, up to 8, found 0"},
      {layer("a", R"({"bits": 9})"), "found 9"},
      {layer("a", R"({"bits": 1e400})"), "p.json: expected JSON"},
      {layer("a", R"({"bits": "4"})"), "found \"4\""},
      {layer("a", R"({"keep": 1})"), "\"keep\": expected true or false, found 1"},
      {layer("a", R"({"block": 16})"), "\"block\": expected 0 or 32, found 16"},
      {layer("a", R"({"sparsity": 1.5})"), "\"sparsity\": expected a number from 0 to 1, found 1.5"},
      {layer("a", R"({"pattern": "3x1"})"), "\"pattern\": expected"},
      {layer("a", R"({"activations": "int8"})"), "\"activations\": expected \"f32\""},
      {layer("a", R"({"algorithm": "best"})"), "\"algorithm\": expected \"reconstruct\" or \"nearest\""},
      {layer("b", R"({"bits": 4})"), "the model has no layer \"b\""},
      {layer("(a", R"({"bits": 4})"), "expected a layer or a regular expression, got \"(a\""},
      {layer("((((((a+)+)+)+)+)+)+", R"({"bits": 4})"), "it has more than 6 '+'"},
      {layer("a{1,9}", R"({"bits": 4})"), "counts in braces are not supported"},
      {layer(R"((a)\\1)", R"({"bits": 4})"), "back references are not supported"},
      {layer(R"(a\u0000)", R"({"bits": 4})"), "it has a zero byte"},
      {layer(std::string(1001, 'a'), R"({"bits": 4})"), "it is longer than 1000 characters"},
  };
  for (const auto& c : cases) EXPECT_NE(c.got.find(c.expected), std::string::npos) << c.got << "\n" << c.expected;
}

TEST(Plans, HaveAsManyKeysAsLayersMayNeed) {
  std::string layers = "{";
  for (size_t i = 0; i < 5000; ++i) layers += (i == 0 ? "\"a" : ",\"a") + std::to_string(i) + "*\": {}";
  try {
    parse_layers(layers + "}");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("p.json has more than 10"), std::string::npos) << error.what();
  }
}

TEST(Plans, TextGivesThePlanAgain) {
  Graph graph = named_layers();
  LayerPlans plans(graph.nodes.size());
  plans[0] = {.keep = true};
  plans[1] = {.bits = 2.125, .block = 32, .sparsity = 1.0 / 3, .pattern = BlockShape{8, 1}, .reconstructs = true};
  const std::string model = plan_checksum(graph), text = plan_text(plans, graph, model);
  const LayerPlans again = parse_plan(text, "p.json", graph);
  EXPECT_EQ(plan_text(again, graph, model), text);
  EXPECT_TRUE(again[0].keep);
  EXPECT_EQ(again[1].sparsity, 1.0 / 3);
  graph.nodes[1].name = graph.nodes[0].name;
  EXPECT_THROW(plan_text(plans, graph, model), Error) << "two nodes have this name";
  graph.nodes[1].name = String();
  EXPECT_THROW(plan_text(plans, graph, model), Error);
  graph.nodes[1].name = String("\xff");
  EXPECT_THROW(plan_text(plans, graph, model), Error);
}

class PlanCommand : public Command {
 protected:
  void SetUp() override {
    Command::SetUp();
    check(write_model_file(network_of_three(80), path("net.qn").c_str()));
  }
  // Runs a command on the network; returns its report.
  json report(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin() + 1, {"net.qn", "--json"});
    const Result r = quern(arguments);
    EXPECT_EQ(r.status, 0) << r.err;
    return r.status == 0 ? json::parse(r.out) : json();
  }
  void write_plan(const std::string& layers) const {
    spill(dir / "p.json", R"({"schema": 1, "layers": )" + layers + "}");
  }
};

TEST_F(PlanCommand, CompressRepeatsWhatItHasFound) {
  const std::vector<std::string> flags = {"--calibrate", "a.png", "b.jpg"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "compress");
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return arguments;
  };
  report(with({"-o", "found.qn", "--target-ratio", "6", "--save-plan", "found.json"}));
  const json plan = json::parse(read_whole(dir / "found.json"));
  EXPECT_EQ(plan["layers"].size(), 3u);
  const json again = report(with({"-o", "again.qn", "--plan", "found.json", "--save-plan", "again.json"}));
  EXPECT_TRUE(read_whole(dir / "found.qn") == read_whole(dir / "again.qn"));
  EXPECT_EQ(read_whole(dir / "found.json"), read_whole(dir / "again.json"));
  EXPECT_TRUE(again["layers"][0]["sensitivity"].is_null()) << "nothing is searched";
  report(with({"-o", "again.qn", "--plan", "found.json", "--target-ratio", "6"}));
  EXPECT_TRUE(read_whole(dir / "found.qn") == read_whole(dir / "again.qn"));
  EXPECT_NE(
      fails(with({"net.qn", "-o", "no.qn", "--plan", "found.json", "--target-ratio", "9"})).find("bytes at least"),
      std::string::npos);
  write_array("x.npy", {1}, {1});
  EXPECT_NE(fails(with({"tiny.qn", "-o", "no.qn", "--plan", "found.json"})).find("for another model"),
            std::string::npos);
}

TEST_F(PlanCommand, CompressObeys) {
  const std::vector<std::string> flags = {"--calibrate", "a.png", "-o", "small.qn"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "compress");
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return arguments;
  };
  write_plan(R"({"dense": {"bits": 5}, "small": {"keep": true}})");
  const json made = report(with({"--plan", "p.json", "--target-ratio", "4"}));
  ASSERT_EQ(made["layers"].size(), 2u);
  EXPECT_EQ(made["layers"][0]["name"], "dense");
  EXPECT_NEAR(made["layers"][0]["bits_per_weight"], 5, 0.4);
  EXPECT_GE(made["ratio"], 4);
  EXPECT_EQ(report(with({"--exclude", "d.*", "--exclude", "small", "--target-ratio", "1.5"}))["layers"].size(), 1u);
  write_plan(R"({"fc": {"sparsity": 0.75, "pattern": "8x1"}})");
  const json pruned = report(with({"--plan", "p.json", "--target-ratio", "6", "--save-plan", "made.json"}));
  EXPECT_GE(pruned["layers"][2]["sparsity"], 0.75);
  EXPECT_LT(pruned["layers"][1]["sparsity"], 0.75);
  EXPECT_EQ(json::parse(read_whole(dir / "made.json"))["layers"]["fc"]["pattern"], "8x1");
  EXPECT_NE(quern({"info", "small.qn", "--needs"}).out.find("\nkernel spmm_f32\n"), std::string::npos);
  write_plan(R"({"dense": {"bits": 5}, "small": {"keep": true}})");
  const auto refused = [&](std::vector<std::string> arguments, int status) {
    arguments.insert(arguments.begin(), "net.qn");
    return fails(with(arguments), status);
  };
  EXPECT_NE(refused({"--plan", "p.json"}, 1).find("expected bits for \"fc\" in the plan"), std::string::npos);
  EXPECT_NE(refused({"--exclude", "none", "--target-ratio", "2"}, 1).find("--exclude: the model has no layer \"none\""),
            std::string::npos);
  EXPECT_NE(refused({"--plan", "none.json"}, 1).find("none.json"), std::string::npos);
  EXPECT_NE(fails({"compress", "net.qn", "-o", "no.qn", "--exclude", "fc"}, 2).find("they need a target"),
            std::string::npos);
  EXPECT_NE(
      fails({"compress", "net.qn", "-o", "no.qn", "--plan", "p.json"}, 2).find("a target or a plan needs samples"),
      std::string::npos);
}

TEST_F(PlanCommand, CompressLeavesActivationsInF32) {
  const auto compress = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"compress", "-o", "small.qn", "--calibrate", "a.png", "b.jpg"});
    return report(more);
  };
  write_plan(R"({"dense|fc": {"activations": "f32"}})");
  compress({"--target-ratio", "4", "--activations", "int8", "--plan", "p.json", "--save-plan", "made.json"});
  const json plan = json::parse(read_whole(dir / "made.json"));
  for (const char* name : {"small", "dense", "fc"}) {
    EXPECT_TRUE(plan["layers"][name].contains("bits")) << "weights have few bits all the same";
    EXPECT_EQ(plan["layers"][name].contains("activations"), std::string(name) != "small");
  }
  const std::string first = read_whole(dir / "small.qn");
  compress({"--activations", "int8", "--plan", "made.json"});
  EXPECT_TRUE(read_whole(dir / "small.qn") == first);
  const auto needs = [&](const char* preset) {
    compress({"--target-ratio", "4", "--preset", preset});
    return quern({"info", "small.qn", "--needs"}).out;
  };
  EXPECT_EQ(needs("size").find("operator quantize\n"), std::string::npos);
  EXPECT_NE(needs("balanced").find("operator quantize\n"), std::string::npos);
  EXPECT_NE(needs("speed").find("operator quantize\n"), std::string::npos);
  EXPECT_NE(fails({"compress", "net.qn", "-o", "x.qn", "--calibrate", "a.png", "--target-ratio", "4", "--activations",
                   "int8", "--min-snr", "149"})
                .find("no part of the model can be int8"),
            std::string::npos);
  for (const char* flag : {"--min-snr", "--activations"}) {
    const char* const value = flag[2] == 'm' ? "20" : "int8";
    fails({"compress", "net.qn", "-o", "x.qn", "--calibrate", "a.png", "--target-ratio", "4", "--preset", "size", flag,
           value},
          2);
  }
  EXPECT_NE(
      fails({"compress", "net.qn", "-o", "x.qn", "--calibrate", "a.png", "--target-ratio", "4", "--min-snr", "9"}, 2)
          .find("needs --activations int8"),
      std::string::npos);
}

// Channels that are zero go before anything else.
TEST_F(PlanCommand, CompressRemovesWhatHasNoEffect) {
  Graph graph;
  check(read_model_file(path("net.qn").c_str(), &graph));
  Node& node = *std::find_if(graph.nodes.begin(), graph.nodes.end(),
                             [](const Node& n) { return std::string(n.name.c_str()) == "dense"; });
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const Tensor old = tensor_of(graph, node.inputs[i]);
    const float* const floats = constant_floats(graph, node.inputs[i]);
    const size_t count = graph.constants[static_cast<size_t>(old.constant)].bytes / sizeof(float);
    std::vector<float> values(floats, floats + count);
    std::fill_n(values.begin(), count / old.shape[0] * 5, 0.0f);
    node.inputs[i] = add_constant(graph, String(), QN_F32, old.shape, values.data());
  }
  check(write_model_file(graph, path("net.qn").c_str()));
  const json made = report({"compress", "-o", "small.qn", "--calibrate", "a.png", "--target-ratio", "4"});
  ASSERT_EQ(made["transforms"].size(), 2u);
  EXPECT_EQ(made["transforms"][0]["name"], "dense");
  EXPECT_EQ(made["transforms"][0]["channels"], 5);
  EXPECT_EQ(made["layers"][1]["weights"], 7 * 9 * 36);
  succeeds({"run", "net.qn", "--input", "a.png", "--output", "out"});
  succeeds({"run", "small.qn", "--input", "a.png", "--expect", "out/prob.npy", "--tolerance", "0.05"});
}

// A channel of tiny weights may matter: what reads it has huge ones.
TEST_F(PlanCommand, CompressKeepsChannelsThatMatter) {
  Graph graph;
  check(read_model_file(path("net.qn").c_str(), &graph));
  const auto scale = [&](const char* name, size_t from, size_t step, size_t count, float factor) {
    Node& node = *std::find_if(graph.nodes.begin(), graph.nodes.end(),
                               [&](const Node& n) { return std::string(n.name.c_str()) == name; });
    const Tensor old = tensor_of(graph, node.inputs[1]);
    const float* const floats = constant_floats(graph, node.inputs[1]);
    std::vector<float> values(floats,
                              floats + graph.constants[static_cast<size_t>(old.constant)].bytes / sizeof(float));
    for (size_t i = 0; i < count; ++i) values[from + i * step] *= factor;
    node.inputs[1] = add_constant(graph, String(), QN_F32, old.shape, values.data());
    if (node.inputs.size() > 2) node.inputs.resize(2);  // biases would be left
  };
  scale("small", 0, 1, 27, 1e-11f);
  scale("dense", 0, 36, 9 * 12, 1e12f);
  check(write_model_file(graph, path("net.qn").c_str()));
  EXPECT_EQ(report({"compress", "-o", "small.qn", "--calibrate", "a.png", "--target-ratio", "3"})["transforms"].size(),
            0u);
}

TEST_F(PlanCommand, QuantizeObeysAndRepeats) {
  const auto quantize = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"quantize", "-o", "q.qn", "--calibrate", "a.png"});
    return report(arguments);
  };
  const auto bits = [](const json& made) {
    std::string text;
    for (const json& layer : made["layers"]) text += std::to_string(layer["weight_bits"].get<int>()) + " ";
    return text;
  };
  write_plan(R"({"small|dense": {"bits": 4}, "fc": {"keep": true}})");
  EXPECT_EQ(bits(quantize({"--plan", "p.json", "--save-plan", "q.json"})), "4 4 32 ");
  const std::string first = read_whole(dir / "q.qn");
  EXPECT_EQ(bits(quantize({"--plan", "q.json"})), "4 4 32 ");
  EXPECT_TRUE(read_whole(dir / "q.qn") == first);
  EXPECT_EQ(bits(quantize({"--plan", "p.json", "--weight-bits", "8"})), "8 8 32 ") << "flags go before plans";
  EXPECT_EQ(bits(quantize({"--exclude", "dense"})), "8 32 8 ");
  EXPECT_EQ(bits(quantize({"--plan", "p.json", "--activations", "f32"})), "4 4 32 ");
  write_plan(R"({"dense|fc": {"activations": "f32"}})");
  const json mixed = quantize({"--plan", "p.json", "--save-plan", "q.json"});
  EXPECT_EQ(bits(mixed), "8 8 8 ");
  EXPECT_EQ(mixed["layers"][0]["type"], "qs8c");
  EXPECT_EQ(mixed["layers"][1]["type"], "f32") << "it decodes weights";
  const std::string before = read_whole(dir / "q.qn");
  quantize({"--plan", "q.json"});
  EXPECT_TRUE(read_whole(dir / "q.qn") == before);
  write_plan(R"({"dense": {"bits": 4, "block": 32, "algorithm": "nearest"}})");
  EXPECT_EQ(bits(quantize({"--plan", "p.json", "--activations", "f32"})), "8 4 8 ");
  EXPECT_NE(fails({"quantize", "net.qn", "-o", "no.qn", "--calibrate", "a.png", "--plan", "p.json"})
                .find("blocks for \"dense\", which need f32 activations"),
            std::string::npos);
  write_plan(R"({"dense": {"bits": 3}})");
  EXPECT_NE(fails({"quantize", "net.qn", "-o", "no.qn", "--calibrate", "a.png", "--plan", "p.json"})
                .find("the plan has 3 bits for \"dense\"; quantize takes 8 and 4"),
            std::string::npos);
}

TEST_F(PlanCommand, PruneObeysAndRepeats) {
  const auto zeros = [](const json& made) {
    std::string text;
    for (const json& layer : made["layers"]) text += fmt::format("{:.2f} ", layer["sparsity"].get<double>());
    return text;
  };
  for (const char* schedule : {"uniform", "global", "erk"}) {
    report(
        {"prune", "-o", "p.qn", "--sparsity", "0.5", "--block", "4", "--schedule", schedule, "--save-plan", "p.json"});
    report({"prune", "-o", "again.qn", "--plan", "p.json"});
    EXPECT_TRUE(read_whole(dir / "p.qn") == read_whole(dir / "again.qn")) << schedule;
  }
  write_plan(R"({"small": {"sparsity": 0.5, "pattern": "4x1"}, "fc": {"keep": true}})");
  EXPECT_EQ(zeros(report({"prune", "-o", "p.qn", "--plan", "p.json"})), "0.50 0.00 0.00 ")
      << "a plan may prune the first layer";
  EXPECT_EQ(zeros(report({"prune", "-o", "p.qn", "--plan", "p.json", "--sparsity", "0.75"})), "0.00 0.75 0.00 ")
      << "flags go before plans";
  EXPECT_EQ(zeros(report({"prune", "-o", "p.qn", "--sparsity", "0.75", "--exclude", "dense"})), "0.00 0.00 0.75 ");
  EXPECT_NE(fails({"prune", "net.qn", "-o", "p.qn", "--channels", "0.5", "--exclude", "fc"}, 2).find("--exclude"),
            std::string::npos);
}

}  // namespace plan_test
}  // namespace quern
