// Estimates for cores that are not here: the arithmetic of one layer, and that whole models come out in a likely order.
#include "tool/predict/estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "compress/prune.h"
#include "convert/zoo/builder.h"
#include "convert/zoo/zoo.h"
#include "graph/pass/passes.h"
#include "tool/model.h"
#include "tool/predict/layers.h"

namespace quern {
namespace {

using namespace predict;

Machine machine_of(const char* core, size_t threads = 1) {
  const PhoneCore* found = find_phone_core(core);
  return {found, found->ghz, threads};
}

Graph network(const char* name, double sparsity = 0, size_t block = 4) {
  Graph graph = build_zoo(name, 1);
  check(infer_shapes(graph));
  check(optimize(graph));
  if (sparsity > 0) check(prune(graph, {sparsity, block, Schedule::uniform, true}));
  return graph;
}

double sum_of(const std::vector<Estimate>& estimates) {
  return std::accumulate(estimates.begin(), estimates.end(), 0.0,
                         [](double sum, const Estimate& e) { return sum + e.ms; });
}

double total(const Graph& graph, const char* core, size_t threads = 1) {
  return sum_of(estimate_layers(graph, layers_of(graph), machine_of(core, threads)));
}

Layer product(size_t rows, size_t depth, size_t channels) {
  Layer layer;
  layer.work = Work::products;
  layer.width = rows;
  layer.in = depth;
  layer.out = channels;
  layer.output_bytes = static_cast<double>(rows * channels * sizeof(float));
  return layer;
}

TEST(PhoneCores, AreFoundByTheirNamesAndTheirModels) {
  std::set<std::string> names;
  for (const PhoneCore& core : phone_cores()) {
    EXPECT_TRUE(names.insert(core.name).second) << core.name;
    EXPECT_EQ(find_phone_core(core.name), &core);
    EXPECT_NE(find_phone_core(core.model_name), nullptr);
    EXPECT_GE(core.all_gbs, core.memory_gbs) << core.name;
    EXPECT_LT(core.l1_bytes, core.last_bytes) << core.name;
  }
  EXPECT_STREQ(find_phone_core("cortex-a73")->name, "a73");
  EXPECT_STREQ(find_phone_core("n1")->name, "a76");
  EXPECT_STREQ(find_phone_core("neoverse-v1")->name, "x1");
  EXPECT_EQ(find_phone_core("a99"), nullptr);
  EXPECT_EQ(find_phone_core(""), nullptr);
}

TEST(Arm64Kernels, AreNoFasterThanTheirCores) {
  for (const PhoneCore& core : phone_cores()) {
    std::set<KernelFamily> families;
    for (const Arm64Kernel& kernel : arm64_kernels()) {
      EXPECT_EQ(std::string(kernel.name).find("avx"), std::string::npos) << kernel.name;
      const Speed speed = speed_of(kernel, core);
      EXPECT_GT(speed.macs_per_cycle, 0) << kernel.name;
      EXPECT_EQ(speed.evidence == Evidence::reference, kernel.reference()) << kernel.name;
      if (kernel.type != KernelType::f32) continue;  // the peak is that of floats
      EXPECT_LE(speed.macs_per_cycle, core.machine().peak * 1.001) << kernel.name << " on " << core.name;
      if (made_for(kernel, core)) families.insert(kernel.family);
    }
    EXPECT_EQ(families.size(), 7u) << core.name;
  }
}

TEST(Arm64Kernels, AreMadeForTheCoresThatTheirTargetNames) {
  Arm64Kernel kernel = {KernelFamily::gemm, KernelType::f32, "", "neon_a55", 8, 8, 0, 0, 1};
  EXPECT_TRUE(made_for(kernel, *find_phone_core("a55")));
  EXPECT_FALSE(made_for(kernel, *find_phone_core("a53")));
  kernel.target = "neon_inorder";
  EXPECT_TRUE(made_for(kernel, *find_phone_core("a55")) && made_for(kernel, *find_phone_core("a53")));
  EXPECT_FALSE(made_for(kernel, *find_phone_core("a76")));
  kernel.target = "ref";  // gemm has better
  EXPECT_FALSE(made_for(kernel, *find_phone_core("a55")));
  kernel.target = "neon";
  EXPECT_TRUE(made_for(kernel, *find_phone_core("a55")));
  kernel.type = KernelType::qs8c;
  EXPECT_FALSE(made_for(kernel, *find_phone_core("a55")));
}

TEST(Estimate, TimesOverlapOutOfOrderAndAddUpInOrder) {
  const Cost cost = {2e6, 8e6, 1e6, 4};
  for (const char* name : {"a73", "a53"}) {
    const Machine machine = machine_of(name);
    const PhoneCore& core = *machine.core;
    const Estimate e = time_of(cost, machine);
    EXPECT_DOUBLE_EQ(e.compute_ms, 2 / core.ghz);
    EXPECT_DOUBLE_EQ(e.cache_ms, 8 / core.machine().l2_bytes / core.ghz);
    EXPECT_DOUBLE_EQ(e.memory_ms, 1 / core.memory_gbs);
    const double slowest = std::max({e.compute_ms, e.cache_ms, e.memory_ms});
    EXPECT_DOUBLE_EQ(e.ms, core.machine().in_order ? e.compute_ms + e.cache_ms + e.memory_ms : slowest);
  }
}

TEST(Estimate, ThreadsDivideWorkAndShareMemory) {
  const Cost cost = {2e6, 8e6, 1e6, 2};
  const Estimate one = time_of(cost, machine_of("a73")), four = time_of(cost, machine_of("a73", 4));
  EXPECT_DOUBLE_EQ(four.compute_ms, one.compute_ms / 2);  // two parts
  EXPECT_DOUBLE_EQ(four.cache_ms, one.cache_ms / 2);
  EXPECT_DOUBLE_EQ(four.memory_ms, 1 / find_phone_core("a73")->all_gbs);
}

TEST(Estimate, TilesArePadded) {
  const Machine machine = machine_of("a73");
  EXPECT_DOUBLE_EQ(estimate(product(9, 64, 64), machine).compute_ms, estimate(product(16, 64, 64), machine).compute_ms);
  EXPECT_LT(estimate(product(8, 64, 64), machine).compute_ms, estimate(product(9, 64, 64), machine).compute_ms);
  const Estimate large = estimate(product(1024, 512, 512), machine);
  EXPECT_STREQ(large.algorithm, "gemm");
  const double peak = 1024.0 * 512 * 512 / 4 / machine.ghz / 1e6;
  EXPECT_GE(large.ms, peak);
  EXPECT_LT(large.ms, 1.1 * peak);
}

TEST(Estimate, OneRowWaitsForItsWeights) {
  const Machine machine = machine_of("a76");
  const Estimate e = estimate(product(1, 4096, 4096), machine);
  EXPECT_GE(e.ms, 4096.0 * 4096 * 4 / machine.core->memory_gbs / 1e6);
}

TEST(Estimate, ModelsComeInALikelyOrder) {
  for (const char* name : {"mobilenet_v1", "squeezenet_v1.1"}) {
    const Graph dense = network(name), half = network(name, 0.5), sparse = network(name, 0.9);
    for (const char* core : {"a53", "kryo", "a73", "n1"}) {
      EXPECT_LE(total(half, core), total(dense, core)) << name << core;
      EXPECT_LT(total(sparse, core), total(half, core)) << name << core;
      EXPECT_LT(total(dense, core, 2), total(dense, core)) << name << core;
    }
    EXPECT_LT(total(sparse, "a53"), 0.8 * total(dense, "a53")) << name;
    EXPECT_GT(total(dense, "a53"), 2 * total(dense, "n1")) << name;
  }
}

TEST(Estimate, SparseConvolutionsInARowTransposeNothing) {
  zoo::Builder b("row", 5);
  zoo::Value x = b.conv("first", b.input(32), {64, 3, 2, zoo::Activation::relu});
  for (const char* name : {"a", "b", "c"}) x = b.conv(name, x, {64, 1, 1, zoo::Activation::relu});
  b.output("out", x.tensor);
  Graph graph = b.finish();
  check(infer_shapes(graph));
  check(optimize(graph));
  check(prune(graph, {0.95, 4, Schedule::uniform, true}));
  const std::vector<Layer> layers = layers_of(graph);
  const Machine machine = machine_of("a53");
  const std::vector<Estimate> together = estimate_layers(graph, layers, machine);
  std::vector<double> cycles;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (std::string(together[i].algorithm) == "sparse") cycles.push_back(together[i].compute_ms);
  }
  ASSERT_EQ(cycles.size(), 3u);
  EXPECT_LT(cycles[1], cycles[0]);  // neither its input nor its output
  EXPECT_LT(cycles[1], cycles[2]);
}

// first, sparse a, what `between` adds, sparse b: how long b takes.
template <class Between>
double last_of_row(Between&& between) {
  zoo::Builder b("row", 5);
  const zoo::Value x = between(b, b.conv("a", b.conv("first", b.input(32), {64, 3, 2}), {64, 1, 1}));
  b.output("out", b.conv("b", x, {64, 1, 1}).tensor);
  Graph graph = b.finish();
  check(infer_shapes(graph));
  check(prune(graph, {0.95, 4, Schedule::uniform, true}));
  const std::vector<Estimate> estimates = estimate_layers(graph, layers_of(graph), machine_of("a53"));
  EXPECT_STREQ(estimates.back().algorithm, "sparse");
  return estimates.back().compute_ms;
}

// The runner leaves tensors around elementwise nodes pixel-blocked, whatever their kind, but not those that are
// multiplied with factors of one pixel.
TEST(Estimate, WhatStandsBetweenSparseConvolutionsMayBePixelBlocked) {
  const double nothing = last_of_row([](zoo::Builder&, const zoo::Value& x) { return x; });
  const double relu = last_of_row([](zoo::Builder& b, const zoo::Value& x) { return b.scale_relu("relu", x); });
  const double gate = last_of_row([](zoo::Builder& b, const zoo::Value& x) { return b.squeeze_excite("gate", x, 16); });
  const double sum =
      last_of_row([](zoo::Builder& b, const zoo::Value& x) { return b.add("sum", x, b.add("other", x, x)); });
  EXPECT_EQ(relu, nothing);
  EXPECT_EQ(sum, nothing);
  EXPECT_GT(gate, nothing);
}

TEST(Estimate, LayoutsAreThoseOfTheKinds) {
  const auto with = [](OpKind kind) {
    zoo::Builder b("row", 5);
    const zoo::Value x = b.conv("a", b.conv("first", b.input(32), {64, 3, 2}), {64, 1, 1, zoo::Activation::hard_swish});
    b.output("out", b.conv("b", x, {64, 1, 1}).tensor);
    Graph graph = b.finish();
    for (Node& node : graph.nodes) {
      if (node.kind == OpKind::hard_swish) node.kind = kind;
    }
    check(infer_shapes(graph));
    check(prune(graph, {0.95, 4, Schedule::uniform, true}));
    return estimate_layers(graph, layers_of(graph), machine_of("a53")).back().compute_ms;
  };
  for (const OpKind kind : {OpKind::sigmoid, OpKind::tanh, OpKind::hard_swish, OpKind::exp}) {
    EXPECT_EQ(with(kind), with(OpKind::clamp)) << op_name(kind);
  }
  EXPECT_GT(with(OpKind::lrn), with(OpKind::clamp));
}

TEST(Layers, CountWhatTheNodesMultiply) {
  const std::vector<Layer> layers = layers_of(network("mobilenet_v1"));
  double macs = 0;
  for (const Layer& layer : layers) macs += layer.macs();
  EXPECT_NEAR(macs, 568.7e6, 0.5e6);
  EXPECT_EQ(std::count_if(layers.begin(), layers.end(), [](const Layer& l) { return l.depthwise(); }), 13);
  for (const Layer& layer : layers) EXPECT_FALSE(layer.zeros) << layer.name;
}

}  // namespace
}  // namespace quern
