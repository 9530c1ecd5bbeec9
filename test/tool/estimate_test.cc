// Estimates for cores that are not here: the arithmetic of one layer, and that whole models come out in a likely order.
#include "tool/predict/estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <string>

#include "compress/prune.h"
#include "convert/zoo/builder.h"
#include "convert/zoo/zoo.h"
#include "graph/pass/passes.h"
#include "tool/model.h"
#include "tool/predict/layers.h"
#include "tool/quantization.h"

namespace quern {
namespace estimate_test {

using namespace predict;

Machine machine_of(const char* core, size_t threads = 1) {
  const PhoneCore* found = find_phone_core(core);
  return {found, found->ghz, threads, found->features};
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
  layer.outputs = static_cast<double>(rows * channels);
  layer.output_bytes = layer.outputs * sizeof(float);
  return layer;
}

Layer product_of_bytes(size_t rows, size_t depth, size_t channels) {
  Layer layer = product(rows, depth, channels);
  layer.type = KernelType::qs8c;
  layer.weights_are = w127;
  layer.output_bytes = layer.outputs;
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
      const Speed speed = speed_of(kernel, core, core.features);
      EXPECT_GT(speed.macs_per_cycle, 0) << kernel.name;
      EXPECT_EQ(speed.evidence == Evidence::reference, kernel.reference()) << kernel.name;
      if (!made_for(kernel, core, core.features)) continue;
      const double peak = peak_of(kernel.type, core, core.features);
      EXPECT_LE(speed.macs_per_cycle, peak * 1.001) << kernel.name << " on " << core.name;
      if (kernel.type == KernelType::f32) families.insert(kernel.family);
    }
    EXPECT_EQ(families.size(), 7u) << core.name;
  }
}

bool is_made_for(const Arm64Kernel& kernel, const char* core, uint32_t features = isa_ref | isa_i8mm) {
  return made_for(kernel, *find_phone_core(core), features);
}

TEST(Arm64Kernels, AreMadeForTheCoresThatTheirTargetNames) {
  Arm64Kernel kernel = {KernelFamily::gemm, KernelType::f32, "", isa_neon_a55, 8, 8, 0, 0, 1, 1, {}, any};
  EXPECT_TRUE(is_made_for(kernel, "a55"));
  EXPECT_FALSE(is_made_for(kernel, "a53"));
  kernel.target = isa_neon_inorder;
  EXPECT_TRUE(is_made_for(kernel, "a55") && is_made_for(kernel, "a53"));
  EXPECT_FALSE(is_made_for(kernel, "a76"));
  kernel.target = isa_ref;  // gemm has better
  EXPECT_FALSE(is_made_for(kernel, "a55"));
  kernel.target = isa_neon;
  EXPECT_TRUE(is_made_for(kernel, "a55"));
}

TEST(Arm64Kernels, AreMadeForTheFeaturesThatTheirTargetNames) {
  Arm64Kernel kernel = {KernelFamily::gemm, KernelType::qs8c, "", isa_dotprod, 8, 8, 0, 0, 1, 1, {}, any};
  EXPECT_TRUE(is_made_for(kernel, "a76"));
  EXPECT_TRUE(is_made_for(kernel, "a76", isa_ref | isa_dotprod));
  EXPECT_FALSE(is_made_for(kernel, "a76", isa_ref | isa_neon));
  kernel.type = KernelType::qd8c4;  // nothing but this reference
  kernel.target = isa_ref;
  EXPECT_TRUE(is_made_for(kernel, "a76"));
}

// The kernels of bytes that layers of models run on have a prediction, down to those that a compiler made.
TEST(Arm64Kernels, OfBytesArePredicted) {
  for (const PhoneCore& core : phone_cores()) {
    for (const Arm64Kernel& kernel : arm64_kernels()) {
      if (kernel.type != KernelType::qs8c || kernel.reference()) continue;
      EXPECT_EQ(speed_of(kernel, core, core.features).evidence, Evidence::predicted) << kernel.name;
    }
    for (const char* name : {"quantize", "dequantize", "lookup", "add", "addc", "mul", "mulc"}) {
      const std::string kernel = std::string("qn_v") + name + "_qs8_neon";
      EXPECT_GT(cycles_of_element(kernel.c_str(), core).value_or(0), 0) << kernel;
    }
    EXPECT_FALSE(cycles_of_element("qn_vfoo_qs8_neon", core));
  }
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

TEST(Estimate, ProductsOfBytesUseTheFeaturesOfTheCore) {
  const Layer floats = product(1024, 512, 512), bytes = product_of_bytes(1024, 512, 512);
  Machine machine = machine_of("a76");
  const double of_floats = estimate(floats, machine).ms;
  const Estimate dots = estimate(bytes, machine);
  EXPECT_NE(std::string(dots.kernel).find("_dotprod"), std::string::npos) << dots.kernel;
  EXPECT_EQ(dots.evidence, Evidence::predicted);
  EXPECT_GT(of_floats, 3.5 * dots.ms);
  EXPECT_LT(of_floats, 4.1 * dots.ms);
  machine.features = isa_ref | isa_neon;
  const Estimate none = estimate(bytes, machine);
  EXPECT_NE(std::string(none.kernel).find("_neon"), std::string::npos) << none.kernel;
  EXPECT_GT(none.ms, 3.5 * dots.ms);
  machine.core = find_phone_core("a55");
  machine.features = machine.core->features;
  EXPECT_STREQ(estimate(bytes, machine).kernel, "qn_gemm_qs8c_8x8_dotprod_a55");
}

TEST(Estimate, KernelsDemandWeights) {
  Layer layer = product_of_bytes(256, 256, 256);
  layer.weights_are = any;  // some are -128
  EXPECT_STREQ(estimate(layer, machine_of("a73")).kernel, "qn_gemm_qs8c_vec_neon");
  EXPECT_STREQ(estimate(layer, machine_of("a76")).kernel, "qn_gemm_qs8c_8x8_dotprod");
}

// Rows that a layer quantizes itself cost more than bytes, and weights move as many bytes as they have.
TEST(Estimate, LayersMayQuantizeTheirInput) {
  const Machine machine = machine_of("a76");
  const auto as = [&](size_t rows, KernelType type) {
    Layer layer = product_of_bytes(rows, 512, 512);
    layer.type = type;
    return estimate(layer, machine);
  };
  const Estimate bytes = as(1024, KernelType::qs8c), quantized = as(1024, KernelType::qd8c);
  EXPECT_STREQ(quantized.kernel, "qn_gemm_qd8c_8x8_dotprod");
  EXPECT_GT(quantized.compute_ms, 1.02 * bytes.compute_ms);
  EXPECT_LT(quantized.compute_ms, 1.3 * bytes.compute_ms);
  const double memory = as(1, KernelType::qd8c).memory_ms;
  EXPECT_NEAR(as(1, KernelType::qd8b4).memory_ms, memory * 5 / 8, 0.02 * memory);  // 4 bits, and 32 for each 32 weights
  EXPECT_NEAR(as(1, KernelType::qw8c).memory_ms, memory, 0.02 * memory);
  EXPECT_STREQ(as(1, KernelType::qw8c).kernel, "qn_gemm_qw8c_1x8_neon");
  EXPECT_NEAR(as(1, KernelType::qw4b).memory_ms, memory * 5 / 8, 0.02 * memory);
  EXPECT_STREQ(as(1, KernelType::qw4b).kernel, "qn_gemm_qw4b_vec_neon");
  EXPECT_GT(as(256, KernelType::qw4b).compute_ms, as(256, KernelType::f32).compute_ms);
  EXPECT_LT(as(256, KernelType::qw4b).compute_ms, 1.5 * as(256, KernelType::f32).compute_ms);
}

// Kernels take 4 or 16 successive k together, and zeros fill up the last ones.
TEST(Estimate, DepthIsPadded) {
  const auto cycles = [](size_t depth, const char* core) {
    return estimate(product_of_bytes(512, depth, 64), machine_of(core)).compute_ms;
  };
  EXPECT_DOUBLE_EQ(cycles(61, "a76"), cycles(64, "a76"));
  EXPECT_LT(cycles(60, "a76"), cycles(61, "a76"));
  EXPECT_DOUBLE_EQ(cycles(49, "a73"), cycles(64, "a73"));
  EXPECT_LT(cycles(48, "a73"), cycles(49, "a73"));
}

TEST(Estimate, OneRowWaitsForItsWeights) {
  const Machine machine = machine_of("a76");
  const Estimate e = estimate(product(1, 4096, 4096), machine);
  EXPECT_GE(e.ms, 4096.0 * 4096 * 4 / machine.core->memory_gbs / 1e6);
  const Estimate bytes = estimate(product_of_bytes(1, 4096, 4096), machine);
  EXPECT_NEAR(bytes.memory_ms, e.memory_ms / 4, 0.01 * e.memory_ms);
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

// A model of bytes: its input is quantized, its output dequantized, and between them all is bytes.
Graph network_of_bytes(const char* name) {
  Graph graph = build_zoo(name, 1);
  check(infer_shapes(graph));
  check(optimize(graph));
  quantize_model(graph, {0},
                 [](const qn_model*, const qn_session* session, size_t) { return random_inputs(session, 1); }, {});
  check(infer_shapes(graph));
  return graph;
}

// Of convolutions, pointwise ones alone have kernels for weights of 4 bits.
TEST(Layers, Of4BitsArePointwise) {
  Graph graph = build_zoo("squeezenet_v1.1", 1);
  check(infer_shapes(graph));
  check(optimize(graph));
  check(quantize_weights(graph, formats_for(graph, {4, 32})));
  size_t pointwise = 0, others = 0;
  for (const Layer& layer : layers_of(graph)) {
    EXPECT_TRUE(layer.pointwise || layer.type != KernelType::qw4b);
    pointwise += layer.type == KernelType::qw4b;
    others += layer.type == KernelType::f32 && !layer.pointwise;
  }
  EXPECT_GT(pointwise, 8u);
  EXPECT_GT(others, 8u);
}

// Kryo is left out: it adds up products of bytes so slowly that Winograd's algorithm for floats is a match for them.
TEST(Estimate, ModelsOfBytesAreFasterThanThoseOfFloats) {
  for (const char* name : {"mobilenet_v2", "squeezenet_v1.1"}) {
    const Graph floats = network(name), bytes = network_of_bytes(name);
    for (const char* core : {"a53", "a55", "a73", "a76", "x1", "x3"}) {
      EXPECT_LT(total(bytes, core), total(floats, core)) << name << core;
    }
  }
}

TEST(Layers, OfBytesMoveAQuarterOfTheBytes) {
  const std::vector<Layer> floats = layers_of(network("mobilenet_v2")),
                           bytes = layers_of(network_of_bytes("mobilenet_v2"));
  const auto of = [](const std::vector<Layer>& layers, const char* op) {
    std::vector<Layer> found;
    std::copy_if(layers.begin(), layers.end(), std::back_inserter(found), [&](const Layer& l) { return l.op == op; });
    return found;
  };
  ASSERT_EQ(of(floats, "conv2d").size(), of(bytes, "conv2d").size());
  for (size_t i = 0; i < of(floats, "conv2d").size(); ++i) {
    const Layer f = of(floats, "conv2d")[i], b = of(bytes, "conv2d")[i];
    EXPECT_EQ(b.type, KernelType::qs8c);
    EXPECT_EQ(b.weights_are, w127);
    EXPECT_FALSE(b.zeros) << b.name;
    EXPECT_EQ(b.macs(), f.macs());
    EXPECT_EQ(b.output_bytes * 4, f.output_bytes);
  }
  const Layer in = of(bytes, "quantize").at(0), out = of(bytes, "dequantize").at(0), sum = of(bytes, "add").at(0);
  EXPECT_STREQ(in.loop, "qn_vquantize_qs8_neon");
  EXPECT_EQ(in.input_bytes, 4 * in.output_bytes);
  EXPECT_STREQ(out.loop, "qn_vdequantize_qs8_neon");
  EXPECT_EQ(out.output_bytes, 4 * out.input_bytes);
  EXPECT_STREQ(sum.loop, "qn_vadd_qs8_neon");
  EXPECT_EQ(sum.output_bytes, sum.outputs);
}

TEST(Layers, CountWhatTheNodesMultiply) {
  const std::vector<Layer> layers = layers_of(network("mobilenet_v1"));
  double macs = 0;
  for (const Layer& layer : layers) macs += layer.macs();
  EXPECT_NEAR(macs, 568.7e6, 0.5e6);
  EXPECT_EQ(std::count_if(layers.begin(), layers.end(), [](const Layer& l) { return l.depthwise(); }), 13);
  for (const Layer& layer : layers) EXPECT_FALSE(layer.zeros) << layer.name;
}

}  // namespace estimate_test
}  // namespace quern
