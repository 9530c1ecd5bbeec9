#include "base/status.h"
#include "graph/file/encoded.h"
#include "graph/pass/observer.h"
#include "graph/pass/passes.h"
#include "graph/pass/rewrite.h"

namespace quern {
namespace {

struct Pass {
  const char* name;
  qn_status (*run)(Rewriter& rewriter);
  const char* sentence;
};

// optimize() runs the passes in this order, again and again until no pass changes anything. Each change must be correct
// for all input shapes that the graph can take, not only for the present ones.
constexpr Pass passes[] = {
#define QN_PASS(name, function, sentence) {name, function, sentence},
#include "graph/pass/passes.inc"
#undef QN_PASS
};

// Each round shortens every chain of nodes that it can change, so that a real graph needs only a few rounds.
constexpr int max_rounds = 100;

// Runs all passes once. `round` counts from 1.
qn_status run_passes(Graph& graph, const Vector<Node>& later, int round, const PassObserver& observer, bool* changed) {
  for (const Pass& pass : passes) {
    const size_t before = graph.nodes.size() + later.size();
    Rewriter rewriter(graph, {later.data(), later.size()});
    QN_TRY(pass.run(rewriter));
    rewriter.finish();
    if (!rewriter.changed()) continue;
    *changed = true;
    QN_TRY(infer_shapes(graph));
    observer.saw(observer.context, {pass.name, pass.sentence, round, before, graph.nodes.size() + later.size()});
  }
  return QN_OK;
}

}  // namespace

qn_status optimize(Graph& graph) {
  return optimize(graph, {[](void*, const PassStep&) {}, nullptr});
}

qn_status optimize(Graph& graph, const PassObserver& observer) {
  QN_TRY(check_graph(graph));
  QN_TRY(infer_shapes(graph));
  QN_TRY(make_dense(graph));
  for (Graph& subgraph : graph.subgraphs) QN_TRY(optimize(subgraph, observer));
  bool changed = true;
  for (int round = 1; changed && round <= max_rounds; ++round) {
    changed = false;
    Vector<Node> later = take_later_nodes(graph);
    QN_TRY(run_passes(graph, later, round, observer, &changed));
    for (Node& node : later) graph.nodes.push_back(std::move(node));
    QN_TRY(infer_shapes(graph));  // what was known only in a run may be known now
  }
  compact(graph);
  QN_TRY(check_graph(graph));
  return infer_shapes(graph);
}

}  // namespace quern
