#include "base/status.h"
#include "graph/file/sparse.h"
#include "graph/pass/passes.h"
#include "graph/pass/rewrite.h"

namespace quern {
namespace {

struct Pass {
  const char* name;
  qn_status (*run)(Rewriter& rewriter);
};

// optimize() runs the passes in this order, again and again until no pass changes anything. Each change must be correct
// for all input shapes that the graph can take, not only for the present ones.
constexpr Pass passes[] = {
    {"nodes that move or choose elements of bytes do so before these become floats", move_dequantize},
    {"nodes that move elements of floats do so after these have become bytes", move_quantize},
    {"nodes between dequantize and quantize compute with bytes", fuse_quantized},
    {"nodes whose inputs are constants become constants", fold_constants},
    {"nodes that change nothing go", remove_identities},
    {"equal nodes with equal inputs become one", merge_common},
    {"a reshape of a reshape becomes one", merge_reshapes},
    {"a transpose of a transpose becomes one", merge_transposes},
    {"zeros around a convolution's or pooling's input become its padding", fold_pads},
    {"chains of multiply, add and clamp by constants become one node", merge_affine},
    {"scales and offsets after a convolution or fully-connected layer go into its weights", fold_affine_into_weights},
    {"a clamp after an operator that clamps becomes part of it", fuse_clamps},
    {"a fully-connected layer of a transposed image reads the image", flatten_without_transpose},
    {"nodes that no output depends on go", remove_dead},
};

// Each round shortens every chain of nodes that it can change, so that a real graph needs only a few rounds.
constexpr int max_rounds = 100;

}  // namespace

qn_status optimize(Graph& graph) {
  QN_TRY(check_graph(graph));
  QN_TRY(infer_shapes(graph));
  QN_TRY(make_dense(graph));
#ifndef QN_SMALL  // has_subgraphs
  for (Graph& subgraph : graph.subgraphs) QN_TRY(optimize(subgraph));
#endif
  bool changed = true;
  for (int round = 0; changed && round < max_rounds; ++round) {
    changed = false;
    Vector<Node> later = take_later_nodes(graph);
    for (const Pass& pass : passes) {
      Rewriter rewriter(graph, later);
      QN_TRY(pass.run(rewriter));
      rewriter.finish();
      if (!rewriter.changed()) continue;
      changed = true;
      QN_TRY(infer_shapes(graph));
    }
    for (Node& node : later) graph.nodes.push_back(std::move(node));
    QN_TRY(infer_shapes(graph));  // what was known only in a run may be known now
  }
  compact(graph);
  QN_TRY(check_graph(graph));
  return infer_shapes(graph);
}

}  // namespace quern
