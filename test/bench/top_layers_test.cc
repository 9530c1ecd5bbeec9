// The twenty layer shapes of bench/shapes.h are those that the zoo spends most on.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <vector>

#include "convert/zoo/zoo.h"
#include "graph/pass/passes.h"
#include "shapes.h"

namespace quern {
namespace top_layers_test {

constexpr const char* models[] = {"mobilenet_v1",  "mobilenet_v2", "mobilenet_v3_large", "squeezenet_v1.1",
                                  "shufflenet_v2", "resnet18",     "resnet50",           "vgg16"};

struct Layer {
  double share = 0;  // of the multiply-accumulates of a model, summed over models
  double largest = 0;
  std::string model;  // whose share is the largest
};
// Size, input channels of a group, outputs, kernel, stride, groups; fully connected layers have no size and no kernel.
using Shape = std::array<size_t, 6>;

std::map<Shape, double> macs_of(const Graph& graph) {
  const auto shape = [&](int tensor) { return graph.tensors[static_cast<size_t>(tensor)].shape; };
  std::map<Shape, double> macs;
  for (const Node& node : graph.nodes) {
    if (node.kind != OpKind::conv2d && node.kind != OpKind::fully_connected) continue;
    const auto in = shape(node.inputs[0]), weights = shape(node.inputs[1]), out = shape(node.outputs[0]);
    double count = 1;
    for (const size_t n : out) count *= static_cast<double>(n);
    for (size_t i = 1; i < weights.size(); ++i) count *= static_cast<double>(weights[i]);
    const Attributes& a = node.attributes;
    const bool conv = node.kind == OpKind::conv2d;
    macs[{conv ? in[1] : 0, weights.back(), out.back(), conv ? a.kernel.h : 0, a.stride.h, a.groups}] += count;
  }
  return macs;
}

std::vector<std::pair<Shape, Layer>> top_layers(size_t count) {
  std::map<Shape, Layer> layers;
  for (const char* model : models) {
    Graph graph = build_zoo(model, 1);
    EXPECT_EQ(infer_shapes(graph), QN_OK) << model;
    double all = 0;
    const auto macs = macs_of(graph);
    for (const auto& [shape, own] : macs) all += own;
    for (const auto& [shape, own] : macs) {
      Layer& layer = layers[shape];
      layer.share += own / all;
      if (own / all > layer.largest) layer = {layer.share, own / all, model};
    }
  }
  std::vector<std::pair<Shape, Layer>> sorted(layers.begin(), layers.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.share > b.second.share; });
  sorted.resize(count);
  return sorted;
}

TEST(TopLayers, AreTheOnesListed) {
  std::map<Shape, std::string> listed;
  for (const ConvShape& s : conv_shapes) {
    if (s.top_of != nullptr) listed[{s.size, s.in, s.out, s.kernel, s.stride, 1}] = s.top_of;
  }
  std::map<Shape, std::string> expected;
  std::ostringstream report;
  for (const auto& [shape, layer] : top_layers(20)) {
    expected[shape] = layer.model;
    for (const size_t n : shape) report << n << " ";
    report << layer.model << ", share " << layer.share << "\n";
  }
  EXPECT_EQ(listed, expected) << "size, inputs, outputs, kernel, stride, groups, model:\n" << report.str();
}

}  // namespace top_layers_test
}  // namespace quern
