// Channel pruning of random graphs, and of trained models where they are present.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "channels_fixture.h"
#include "convert/convert.h"
#include "convert/model_stats.h"
#include "graph/ir/kinds.h"
#include "random_network.h"
#include "trained.h"

namespace quern {
namespace channels_random_test {

using namespace compress_test;
using test::expect_ok;

// Removes sets in random order, a random part of them.
Vector<bool> random_removal(const Channels& channels, std::mt19937* random) {
  std::vector<size_t> order(channels.sets.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), *random);
  order.resize(std::uniform_int_distribution<size_t>(0, order.size())(*random));
  ChannelsLeft left(channels);
  for (const size_t set : order) left.remove(set);
  return left.removed();
}

bool loses(const Channels& channels, const Vector<bool>& removed, int tensor) {
  if (tensor == no_tensor) return false;
  for (const Vector<uint32_t>& sets : channels.set_of[at(tensor)]) {
    for (const uint32_t set : sets) {
      if (set != kept_channel && removed[set]) return true;
    }
  }
  return false;
}

// Fewer weights and multiply-accumulates if anything is removed; else as many as before.
void expect_smaller(const Graph& graph, const Channels& channels, const Vector<bool>& removed) {
  Graph smaller = graph;
  expect_ok(remove_channels(channels, removed, smaller));
  const ModelStats before = model_stats(graph), after = model_stats(smaller);
  const bool any = std::count(removed.begin(), removed.end(), true) > 0;
  EXPECT_EQ(after.parameters < before.parameters, any);
  EXPECT_EQ(after.macs < before.macs, any);
  EXPECT_LE(after.parameters, before.parameters);
  EXPECT_LE(after.macs, before.macs);
}

// What a set claims to save is what its removal saves.
void expect_savings(const Graph& graph, const Channels& channels, size_t set) {
  Vector<bool> removed(channels.sets.size());
  removed[set] = true;
  Graph smaller = graph;
  ASSERT_EQ(remove_channels(channels, removed, smaller), QN_OK) << qn_last_message();
  const ModelStats before = model_stats(graph), after = model_stats(smaller);
  EXPECT_EQ(before.parameters - after.parameters, channels.sets[set].weights);
  EXPECT_EQ(before.macs - after.macs, channels.sets[set].macs);
}

// How many nodes of each kind have lost channels on both sides.
class Carried {
 public:
  void count(const Graph& graph, const Channels& channels, const Vector<bool>& removed) {
    for (const Node& node : graph.nodes) {
      carried_[node.kind] += loses(channels, removed, node.inputs[0]) && loses(channels, removed, node.outputs[0]);
    }
  }

  // Every operator that computes channels apart from each other has carried some, and no other one.
  void expect_all() {
    const std::set<std::string> none = {"softmax", "lrn", "quantize", "dequantize", "requantize"};
    for (size_t k = 0; k < static_cast<size_t>(OpKind::count); ++k) {
      const auto kind = static_cast<OpKind>(k);
      const bool mixes = none.contains(op_name(kind));
      EXPECT_TRUE(mixes ? carried_[kind] == 0 : carried_[kind] >= 10) << op_name(kind) << ": " << carried_[kind];
    }
  }

 private:
  std::map<OpKind, size_t> carried_;
};

TEST(ChannelsRandom, GraphsEqualThoseWithZeros) {
  Carried carried;
  size_t smaller_graphs = 0;
  double worst = 0;
  for (unsigned seed = 0; seed < 500 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Graph graph = RandomNetwork(seed).make();
    if (seed % 2 != 0) expect_ok(optimize(graph));
    Channels channels;
    expect_ok(find_channels(graph, &channels));
    const Vector<bool> removed = random_removal(channels, &random);
    worst = std::max(worst, expect_exact_removal(graph, channels, removed, seed));
    const bool any = std::count(removed.begin(), removed.end(), true) > 0;
    expect_smaller(graph, channels, removed);
    if (!channels.sets.empty()) expect_savings(graph, channels, random() % channels.sets.size());
    smaller_graphs += any;
    carried.count(graph, channels, removed);
  }
  RecordProperty("largest_difference", std::to_string(worst));
  EXPECT_GE(smaller_graphs, 450u);
  carried.expect_all();
}

// Files of a model.
struct Trained {
  std::vector<std::string> files;
  double least_saving;  // of multiply-accumulates, by half of the channels
};

TEST(ChannelsRandom, TrainedModelsLoseHalfOfTheirChannels) {
  const std::string folder = trained_models();
  if (folder.empty()) GTEST_SKIP() << "no assets: set QUERN_ASSETS";
  const Trained models[] = {{{"caffe/mobilenet_v1_0.75_224.prototxt", "caffe/mobilenet_v1_0.75_224.caffemodel"}, 3.5},
                            {{"tflite/ic_resnet8_float.tflite"}, 3.5},
                            {{"caffe/squeezenet_v1.1_deploy.prototxt", "caffe/squeezenet_v1.1.caffemodel"}, 3},
                            {{"caffe/lenet_mnist.prototxt", "caffe/lenet_mnist.caffemodel"}, 3.5}};
  for (const Trained& model : models) {
    SCOPED_TRACE(model.files[0]);
    std::vector<std::string> paths;
    for (const std::string& file : model.files) paths.push_back(folder + file);
    Graph graph = import_model(paths);
    expect_ok(optimize(graph));
    Channels channels;
    Vector<bool> removed;
    expect_ok(find_channels(graph, &channels));
    expect_ok(smallest_channels(graph, channels, 0.5, &removed));
    EXPECT_EQ(2 * static_cast<size_t>(std::count(removed.begin(), removed.end(), true)), removed.size());
    expect_exact_removal(graph, channels, removed, 1);
    const uint64_t before = model_stats(graph).macs;
    expect_ok(remove_channels(channels, removed, graph));
    EXPECT_GT(static_cast<double>(before), model.least_saving * static_cast<double>(model_stats(graph).macs));
  }
}

}  // namespace channels_random_test
}  // namespace quern
