// Pruning: exact counts of zeros, whole blocks, the smallest ones, and what stays dense; through the file and back.
#include "compress/prune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "convert/common/error.h"
#include "convert/model_stats.h"
#include "convert/zoo/zoo.h"
#include "graph/file/format.h"
#include "graph/file/sparse.h"
#include "graph/pass/passes.h"

namespace quern {
namespace prune_test {

Graph zoo(const std::string& name) {
  Graph graph = build_zoo(name, 1);
  expect_ok(check_graph(graph));
  expect_ok(infer_shapes(graph));
  expect_ok(optimize(graph));
  return graph;
}

struct Weights {
  std::string name;
  size_t groups, out, depth;  // of one group; elements of a row
  bool first, depthwise;
  std::vector<float> values;

  bool stays_dense() const { return first || depthwise; }
  size_t blocks(size_t block) const { return groups * ((out + block - 1) / block) * depth; }
};

std::vector<Weights> weights_of(const Graph& graph) {
  std::vector<Weights> list;
  bool first = true;
  for (const Node& node : graph.nodes) {
    const bool conv = node.kind == OpKind::conv2d;
    if (!conv && node.kind != OpKind::fully_connected) continue;
    const Tensor& tensor = graph.tensors[static_cast<size_t>(node.inputs[1])];
    const Constant& constant = graph.constants[static_cast<size_t>(tensor.constant)];
    Weights w;
    w.name = std::string_view(node.name);
    w.groups = conv ? node.attributes.groups : 1;
    w.out = tensor.shape[0] / w.groups;
    w.depth = constant.bytes / sizeof(float) / tensor.shape[0];
    w.first = conv && first;
    w.depthwise = conv && w.groups > 1 && tensor.shape[3] == 1;
    first = first && !conv;
    const float* data;
    FloatRows rows(constant, tensor.shape[0]);
    EXPECT_EQ(rows.read(0, tensor.shape[0], &data), QN_OK);
    w.values.assign(data, data + constant.bytes / sizeof(float));
    list.push_back(std::move(w));
  }
  return list;
}

// Mean magnitude of a block and whether all of it is 0, block rows of all groups, then positions.
struct Block {
  double magnitude;
  bool zero, touched;  // touched: differs from the original
};
std::vector<Block> blocks_of(const Weights& before, const Weights& after, size_t block) {
  std::vector<Block> list;
  for (size_t g = 0; g < before.groups; ++g) {
    for (size_t c = 0; c < before.out; c += block) {
      const size_t rows = std::min(block, before.out - c);
      for (size_t p = 0; p < before.depth; ++p) {
        Block b = {0, true, false};
        for (size_t r = 0; r < rows; ++r) {
          const size_t at = (g * before.out + c + r) * before.depth + p;
          b.magnitude += std::fabs(static_cast<double>(before.values[at])) / static_cast<double>(rows);
          b.zero = b.zero && after.values[at] == 0;
          b.touched = b.touched || before.values[at] != after.values[at];
        }
        list.push_back(b);
      }
    }
  }
  return list;
}

// Blocks go as a whole or stay as they were, none that stays is smaller than one that goes. Returns how many are 0.
size_t check_layer(const Weights& before, const Weights& after, size_t block) {
  SCOPED_TRACE(before.name);
  size_t zeros = 0;
  double largest_gone = 0, least_kept = std::numeric_limits<double>::infinity();
  for (const Block& b : blocks_of(before, after, block)) {
    zeros += b.zero;
    EXPECT_TRUE(b.zero || !b.touched) << "a block went in part";
    double& bound = b.zero ? largest_gone : least_kept;
    bound = b.zero ? std::max(bound, b.magnitude) : std::min(bound, b.magnitude);
  }
  EXPECT_LE(largest_gone, least_kept * 1.000001);
  return zeros;
}

std::vector<Weights> pruned(Graph graph, const PruneOptions& options) {
  expect_ok(prune(graph, options));
  expect_ok(check_graph(graph));
  return weights_of(graph);
}

// shufflenet has groups of few channels, squeezenet kernels of 3 x 3.
const char* const networks[] = {"mobilenet_v1", "squeezenet_v1.1", "shufflenet_v2"};

TEST(Prune, UniformTakesTheSamePartOfEachLayer) {
  for (const char* name : networks) {
    const Graph graph = zoo(name);
    const std::vector<Weights> before = weights_of(graph);
    for (const size_t block : {1, 4, 16}) {
      for (const double sparsity : {0.0, 0.3, 0.9}) {
        SCOPED_TRACE(testing::Message() << name << ", " << sparsity << " in blocks of " << block);
        const std::vector<Weights> after = pruned(graph, {sparsity, block});
        ASSERT_EQ(after.size(), before.size());
        for (size_t i = 0; i < after.size(); ++i) {
          if (before[i].stays_dense()) {
            EXPECT_EQ(after[i].values, before[i].values) << before[i].name;
            continue;
          }
          const auto blocks = static_cast<double>(before[i].blocks(block));
          EXPECT_EQ(check_layer(before[i], after[i], block), static_cast<size_t>(std::llround(sparsity * blocks)))
              << before[i].name;
        }
      }
    }
  }
}

TEST(Prune, GlobalTakesTheSmallestOfAll) {
  const Graph graph = zoo("squeezenet_v1.1");
  const std::vector<Weights> before = weights_of(graph), after = pruned(graph, {0.7, 4, Schedule::global});
  size_t zeros = 0, blocks = 0;
  double largest_gone = 0, least_kept = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < after.size(); ++i) {
    if (before[i].stays_dense()) continue;
    blocks += before[i].blocks(4);
    zeros += check_layer(before[i], after[i], 4);
    for (const Block& b : blocks_of(before[i], after[i], 4)) {
      (b.zero ? largest_gone : least_kept) =
          b.zero ? std::max(largest_gone, b.magnitude) : std::min(least_kept, b.magnitude);
    }
  }
  EXPECT_EQ(zeros, static_cast<size_t>(std::llround(0.7 * static_cast<double>(blocks))));
  EXPECT_LE(largest_gone, least_kept * 1.000001);
}

TEST(Prune, ErkKeepsInProportionToTheDimensions) {
  const Graph graph = zoo("mobilenet_v1");
  const std::vector<Weights> before = weights_of(graph);
  for (const double sparsity : {0.5, 0.9}) {
    const std::vector<Weights> after = pruned(graph, {sparsity, 1, Schedule::erk});
    size_t kept = 0, all = 0, full = 0;
    double factor = 0;  // of density to (1 + 1 + in + out) / (in * out), the same for all layers that are not full
    for (size_t i = 0; i < after.size(); ++i) {
      const Weights& w = before[i];
      if (w.stays_dense()) continue;
      const size_t zeros = check_layer(w, after[i], 1), elements = w.blocks(1);
      kept += elements - zeros;
      all += elements;
      const bool matrix = w.name == "fc";
      const double wanted =
          static_cast<double>(w.out + w.depth + (matrix ? 0 : 2)) / static_cast<double>(w.out * w.depth);
      const double density = static_cast<double>(elements - zeros) / static_cast<double>(elements);
      if (zeros == 0) {
        ++full;
        EXPECT_GE(factor == 0 ? 1 : factor * wanted, 0.99) << w.name;
        continue;
      }
      if (factor == 0) factor = density / wanted;
      EXPECT_NEAR(density / wanted / factor, 1, 0.01) << w.name;
    }
    EXPECT_NEAR(static_cast<double>(kept), (1 - sparsity) * static_cast<double>(all), 15.0);
    EXPECT_GE(full, 1u) << "the smallest layers cannot have as many as they should";
  }
}

// One layer whose weights are given.
Graph matrix(size_t rows, size_t depth, const std::vector<float>& values) {
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {1, depth});
  graph.inputs.push_back({.tensor = x});
  const int w = add_constant(graph, String(), QN_F32, {rows, depth}, values.data());
  const int y = add_node(graph, OpKind::fully_connected, "fc", {x, w}, {});
  graph.tensors[static_cast<size_t>(y)].name = String("y");
  graph.outputs.push_back({.tensor = y});
  expect_ok(check_graph(graph));
  expect_ok(infer_shapes(graph));
  return graph;
}

TEST(Prune, OfEqualsTheFirstGo) {
  const std::vector<float> values = pruned(matrix(4, 10, std::vector<float>(40, 0.5f)), {0.25, 2})[0].values;
  std::vector<float> expected(40, 0.5f);
  for (const size_t row : {0, 1}) std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(row * 10), 5, 0.0f);
  EXPECT_EQ(values, expected);
}

TEST(Prune, AShorterBlockCountsByItsMean) {
  // The last block has one row; its weights are larger than the others' means, though not than their sums.
  std::vector<float> values(5 * 3, 1.0f);
  std::fill_n(values.begin() + 12, 3, 2.0f);
  const std::vector<float> left = pruned(matrix(5, 3, values), {0.5, 4})[0].values;
  EXPECT_EQ(std::vector<float>(left.begin() + 12, left.end()), std::vector<float>(3, 2.0f));
  EXPECT_EQ(std::count(left.begin(), left.end(), 0.0f), 12);
}

// Blocks of four inputs end with a tap.
TEST(Prune, BlocksMayHaveFourInputs) {
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {1, 4, 4, 6});
  graph.inputs.push_back({.tensor = x});
  std::vector<float> values(3 * 2 * 6);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(1 + i * 7 % 36);
  const int first = add_constant(graph, String(), QN_F32, {6, 1, 1, 6}, std::vector<float>(36, 1.0f).data());
  const int w = add_constant(graph, String(), QN_F32, {3, 1, 2, 6}, values.data());
  int y = add_node(graph, OpKind::conv2d, "first", {x, first}, {});
  y = add_node(graph, OpKind::conv2d, "second", {y, w}, {});
  graph.tensors[static_cast<size_t>(y)].name = String("y");
  graph.outputs.push_back({.tensor = y});
  const std::vector<float> left = pruned(graph, {0.5, 2, Schedule::uniform, false, 4})[1].values;

  struct Part {
    double mean = 0;
    std::vector<size_t> at;
  };
  std::vector<Part> parts;  // two block rows, two taps, two blocks each
  for (const size_t row : {0, 2}) {
    for (const size_t column : {0, 4, 6, 10}) {
      Part part;
      for (size_t r = row; r < std::min<size_t>(row + 2, 3); ++r) {
        for (size_t i = column; i < column + (column % 6 == 0 ? 4 : 2); ++i) part.at.push_back(r * 12 + i);
      }
      for (const size_t at : part.at) part.mean += static_cast<double>(values[at]);
      part.mean /= static_cast<double>(part.at.size());
      parts.push_back(part);
    }
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.mean < b.mean; });
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const size_t at : parts[i].at) EXPECT_EQ(left[at], i < 4 ? 0 : values[at]) << at;
  }
}

TEST(Prune, WhatIsNoNumberStays) {
  std::vector<float> values = {1, std::numeric_limits<float>::quiet_NaN(), 2, -3};
  const std::vector<float> left = pruned(matrix(1, 4, values), {0.5, 1})[0].values;
  EXPECT_TRUE(std::isnan(left[1]));
  EXPECT_EQ(left[0], 0);
  EXPECT_EQ(left[2], 0);
  EXPECT_EQ(left[3], -3);
}

TEST(Prune, RescalingKeepsTheSquares) {
  const Graph graph = zoo("mobilenet_v1");
  const auto squares = [](const Weights& w) {
    double sum = 0;
    for (const float v : w.values) sum += static_cast<double>(v) * static_cast<double>(v);
    return sum;
  };
  const std::vector<Weights> before = weights_of(graph), after = pruned(graph, {0.9, 4, Schedule::uniform, true});
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_NEAR(squares(after[i]) / squares(before[i]), 1, 1e-5) << before[i].name;
    if (before[i].stays_dense()) {
      EXPECT_EQ(after[i].values, before[i].values);
    }
  }
}

TEST(Prune, SharedWeightsStayDenseIfOneLayerDoes) {
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {1, 4, 4, 8});
  graph.inputs.push_back({.tensor = x});
  std::vector<float> values(64);
  for (size_t i = 0; i < 64; ++i) values[i] = static_cast<float>(i + 1);
  const int w = add_constant(graph, String(), QN_F32, {8, 1, 1, 8}, values.data());
  const int other = add_constant(graph, String(), QN_F32, {8, 1, 1, 8}, values.data());
  int y = add_node(graph, OpKind::conv2d, "first", {x, w}, {});
  y = add_node(graph, OpKind::conv2d, "second", {y, other}, {});
  y = add_node(graph, OpKind::conv2d, "third", {y, w}, {});
  y = add_node(graph, OpKind::conv2d, "fourth", {y, other}, {});
  graph.tensors[static_cast<size_t>(y)].name = String("y");
  graph.outputs.push_back({.tensor = y});
  const std::vector<Weights> after = pruned(graph, {0.5, 1});
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(std::count(after[i].values.begin(), after[i].values.end(), 0.0f), i % 2 == 0 ? 0 : 32) << i;
  }
}

TEST(Prune, RefusesWhatMakesNoSense) {
  const Graph graph = matrix(2, 2, {1, 2, 3, 4});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto refused = [&](const PruneOptions& options, const char* words) {
    Graph copy = graph;
    EXPECT_EQ(prune(copy, options), QN_INVALID_ARGUMENT);
    EXPECT_NE(std::string(qn_last_message()).find(words), std::string::npos) << qn_last_message();
    EXPECT_EQ(weights_of(copy)[0].values, weights_of(graph)[0].values);
  };
  for (const double sparsity : {-0.1, 1.0, 2.0, static_cast<double>(nan)}) refused({sparsity, 1}, "a sparsity of");
  for (const size_t block : {0, 3, 32}) refused({0.5, block}, "blocks of");
}

// ---- through the file

std::vector<float> outputs_of(const void* file, size_t bytes, Graph* graph) {
  qn_model* model = nullptr;
  qn_session* session = nullptr;
  const qn_status made = graph == nullptr ? qn_model_load_memory(file, bytes, nullptr, &model)
                                          : make_model(std::move(*graph), nullptr, &model);
  EXPECT_EQ(made, QN_OK) << qn_last_message();
  EXPECT_EQ(qn_session_create(model, nullptr, &session), QN_OK) << qn_last_message();
  std::vector<float> input(3 * 224 * 224);
  for (size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(i % 1009));
  const void* inputs[] = {input.data()};
  const void* data = nullptr;
  EXPECT_EQ(qn_session_run(session, inputs), QN_OK) << qn_last_message();
  EXPECT_EQ(qn_session_output(session, 0, &data), QN_OK);
  std::vector<float> result(static_cast<const float*>(data), static_cast<const float*>(data) + 1000);
  qn_session_release(session);
  qn_model_release(model);
  return result;
}

TEST(Prune, TheFileGivesTheBitsOfTheGraph) {
  struct Case {
    size_t block;
    double of_dense;  // bytes of the weights that were pruned
  };
  for (const Case& c : {Case{1, 0.16}, Case{4, 0.125}}) {
    SCOPED_TRACE(c.block);
    Graph graph = zoo("mobilenet_v1");
    expect_ok(prune(graph, {0.9, c.block, Schedule::uniform, true}));
    Vector<unsigned char> bytes;
    expect_ok(write_model(graph, &bytes));
    size_t dense = 0, stored = 0;
    {
      Buffer file(bytes.size());
      std::memcpy(file.data(), bytes.data(), bytes.size());
      Graph again;
      expect_ok(read_model(file.data(), bytes.size(), nullptr, "file", &again));
      EXPECT_EQ(model_stats(again).nonzeros, model_stats(graph).nonzeros);
      for (const Constant& constant : again.constants) {
        if (constant.encoded == nullptr) continue;
        dense += constant.bytes;
        stored += traffic_of(constant);
      }
      EXPECT_EQ(outputs_of(file.data(), file.size(), nullptr), outputs_of(nullptr, 0, &graph));
    }
    EXPECT_GT(dense, size_t{4} * 4100000) << "all layers that were pruned";
    EXPECT_LE(static_cast<double>(stored), c.of_dense * static_cast<double>(dense));
  }
}

// A fully-connected layer of bytes, 3 of whose 8 weights are 0.
Graph layer_of_bytes() {
  Graph graph;
  Quantization scale;
  scale.scales = {0.5f};
  const int8_t weights[] = {1, 0, -3, 4, 0, 0, 7, 8};
  const int x = add_tensor(graph, "x", QN_S8, {1, 4});
  const int w = add_constant(graph, "", QN_S8, {2, 4}, weights);
  const int y = add_node(graph, OpKind::fully_connected, "layer", {x, w}, {});
  for (const int tensor : {x, w, y}) graph.tensors[static_cast<size_t>(tensor)].quantization = scale;
  graph.tensors[static_cast<size_t>(y)].type = QN_S8;
  graph.inputs.push_back({.tensor = x, .type = QN_S8});
  graph.outputs.push_back({.tensor = y, .type = QN_S8});
  expect_ok(check_graph(graph));
  expect_ok(infer_shapes(graph));
  return graph;
}

TEST(Prune, RefusesWeightsOfBytes) {
  Graph graph = layer_of_bytes();
  PruneOptions options;
  options.sparsity = 0.5;
  EXPECT_EQ(prune(graph, options), QN_UNSUPPORTED);
  EXPECT_NE(std::string(qn_last_message()).find("the weights of 'layer' are integers"), std::string::npos);
}

TEST(Prune, RefusesWhatItWouldLose) {
  for (const bool subgraph : {false, true}) {
    Graph graph = matrix(2, 2, {1, 2, 3, 4});
    if (subgraph) graph.subgraphs.emplace_back();
    if (!subgraph) graph.states = {{0, 0}};
    EXPECT_EQ(prune(graph, {}), QN_UNSUPPORTED);
    const char* const part = subgraph ? "a model with subgraphs can be run" : "a model with states can be run";
    EXPECT_NE(std::string(qn_last_message()).find(part), std::string::npos) << qn_last_message();
  }
}

TEST(Prune, BytesAreCounted) {
  const ModelStats stats = model_stats(layer_of_bytes());
  EXPECT_EQ(stats.parameters, 8u);
  EXPECT_EQ(stats.nonzeros, 5u);
  EXPECT_EQ(stats.macs, 8u);
}

}  // namespace prune_test
}  // namespace quern
