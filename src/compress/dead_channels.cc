// remove_dead_channels(): sets of channels.h whose removal changes nothing.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "compress/channels.h"
#include "compress/constant_channels.h"
#include "compress/linear_layer.h"
#include "compress/transform.h"
#include "graph/file/encoded.h"
#include "graph/ir/kinds.h"

namespace quern {
namespace {

// Finds the sets without effect. The graph without a set computes what the graph computes with all rows and constants of
// the set at zero. So a set may go if these might as well be zero, or if every column that reads it is.
class DeadSets {
 public:
  DeadSets(const Graph& graph, const Channels& channels)
      : graph_(graph),
        channels_(channels),
        constants_(graph),
        acts_(channels.sets.size()),
        is_read_(channels.sets.size()) {
    for (const Node& node : graph.nodes) {
      if (kind_of(node.kind).has_weights()) {
        visit_rows(node);
        visit_columns(node);
      } else {
        visit_constants(node);
      }
    }
  }

  bool contains(size_t set) const { return !acts_[set] || !is_read_[set]; }

 private:
  const float* floats(int tensor) const { return constant_floats(graph_, tensor); }
  const Vector<size_t>& shape(int tensor) const { return tensor_of(graph_, tensor).shape; }

  // Marks the sets of the indices of a dimension that meet the condition.
  template <class Condition>
  void mark(int tensor, size_t dimension, Vector<bool>* marks, const Condition& meets) {
    const Vector<uint32_t>& sets = channels_.set_of[at(tensor)][dimension];
    for (size_t i = 0; i < sets.size(); ++i) {
      if (sets[i] != kept_channel && !(*marks)[sets[i]] && meets(i)) (*marks)[sets[i]] = true;
    }
  }

  // Of a row of zeros, only the clamp is left.
  void visit_rows(const Node& node) {
    const float zero = std::clamp(0.0f, node.attributes.min, node.attributes.max);
    const Vector<float>* const values = constants_.values(node.outputs[0]);
    mark(node.inputs[1], 0, &acts_, [&](size_t o) { return values == nullptr || (*values)[o] != zero; });
  }

  void visit_columns(const Node& node) {
    const int weights = node.inputs[1];
    const size_t inputs = shape(weights).back(), end = shape(weights)[0] * terms_of(graph_, node);
    mark(weights, shape(weights).size() - 1, &is_read_, [&](size_t i) {
      for (size_t k = i; k < end; k += inputs) {
        if (floats(weights)[k] != 0) return true;
      }
      return false;
    });
  }

  // Constants per channel. The slope of PReLU matters to no zero.
  void visit_constants(const Node& node) {
    for (const int input : node.inputs) {
      if (input == no_tensor || tensor_of(graph_, input).constant < 0) continue;
      const size_t count = graph_.constants[at(tensor_of(graph_, input).constant)].bytes / sizeof(float);
      const auto acts = [&](float value) { return node.kind == OpKind::prelu ? !std::isfinite(value) : value != 0; };
      size_t step = count;
      for (size_t d = 0; d < shape(input).size() && step > 0; ++d) {
        const size_t size = shape(input)[d];
        step /= size;
        mark(input, d, &acts_, [&](size_t i) {
          for (size_t e = 0; e < count; ++e) {
            if (e / step % size == i && acts(floats(input)[e])) return true;
          }
          return false;
        });
      }
    }
  }

  const Graph& graph_;
  const Channels& channels_;
  ConstantChannels constants_;
  Vector<bool> acts_, is_read_;
};

// Removes what is dead now. Returns whether it was anything; if not, the graph is as before.
qn_status remove_dead_once(Graph& graph, bool* any) {
  Graph smaller = graph;
  fold_constant_channels(smaller);
  Channels channels;
  QN_TRY(find_channels(smaller, &channels));
  const DeadSets dead(smaller, channels);
  ChannelsLeft left(channels);
  *any = false;
  for (size_t s = 0; s < channels.sets.size(); ++s) {
    if (dead.contains(s) && left.remove(s)) *any = true;
  }
  if (!*any) return QN_OK;
  QN_TRY(remove_channels(channels, left.removed(), smaller));
  graph = std::move(smaller);
  return QN_OK;
}

}  // namespace

qn_status remove_dead_channels(Graph& graph, Vector<Transform>* done) {
  QN_TRY(make_dense(graph));
  const Graph before = graph;
  // What produced a dead channel may have no other reader: each round can make others dead.
  for (bool any = true; any;) QN_TRY(remove_dead_once(graph, &any));
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node &old = before.nodes[n], &node = graph.nodes[n];
    if (!kind_of(node.kind).has_weights()) continue;
    const Vector<size_t>&wide = tensor_of(before, old.inputs[1]).shape,
          &narrow = tensor_of(graph, node.inputs[1]).shape;
    if (narrow == wide) continue;
    const LayerCost a = cost_of(before, old), b = cost_of(graph, node);
    done->push_back({.kind = TransformKind::narrowed,
                     .node = node.name,
                     .channels = wide[0] - narrow[0],
                     .weights_before = a.weights,
                     .weights_after = b.weights,
                     .macs_before = a.macs,
                     .macs_after = b.macs});
  }
  return QN_OK;
}

}  // namespace quern
