#include "plan.h"

#include <cstdio>
#include <cstdlib>

#include "convert/zoo/builder.h"
#include "graph/pass/passes.h"
#include "readers.h"
#include "tool/plan.h"

namespace quern {
namespace {

const Graph& small_network() {
  static const Graph network = [] {
    zoo::Builder b("net", 1);
    const zoo::Value first = b.conv("conv1", b.input(8), {4, 3, 1, zoo::Activation::relu});
    const zoo::Value second = b.conv("fire2/squeeze", first, {4, 1, 1, zoo::Activation::relu});
    b.output("prob", b.softmax("prob", b.fully_connected("fc", second, 10).tensor, 1));
    Graph graph = b.finish();
    require(infer_shapes(graph));
    return graph;
  }();
  return network;
}

}  // namespace

std::vector<Seed> plan_seeds() {
  LayerPlans plans(small_network().nodes.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    if (small_network().nodes[i].name.empty()) continue;
    plans[i].bits = 2.5;
    if (i % 2 == 0) plans[i] = {.block = 32, .sparsity = 0.5, .pattern = BlockShape{8, 1}, .reconstructs = true};
  }
  return {{"names.plan", plan_text(plans, small_network(), plan_checksum(small_network()))},
          {"expressions.plan",
           "{\"schema\": 1, \"layers\": {\"(conv|fc)[0-9]*\": {\"keep\": true}, \"fire.*/[^x]+\": {\"bits\": 4, "
           "\"algorithm\": \"nearest\"}, \".*\": {\"sparsity\": 1e-1, \"pattern\": \"4x4\"}}}"}};
}

void read_plan(const std::string& bytes) {
  const Graph& network = small_network();
  static const std::string model = plan_checksum(network);
  const std::string text = plan_text(parse_plan(bytes, "plan.json", network), network, model);
  if (text == plan_text(parse_plan(text, "plan.json", network), network, model)) return;
  std::fprintf(stderr, "accepted, but not the same when it is read again: %s\n", text.c_str());
  std::abort();
}

}  // namespace quern
