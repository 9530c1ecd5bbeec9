// Removes the sets that channels.cc has found, sets them to zero, or chooses among them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/math.h"
#include "base/search.h"
#include "base/status.h"
#include "compress/channels.h"
#include "compress/graph_values.h"
#include "graph/ir/kinds.h"
#include "graph/ir/rules.h"
#include "graph/pass/passes.h"

namespace quern {
namespace {

// Calls visit(node, weights) for each layer; `weights` is the index of the tensor.
template <class Visit>
void each_layer(const Graph& graph, Visit&& visit) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (kind_of(graph.nodes[n].kind).has_weights()) visit(n, at(graph.nodes[n].inputs[1]));
  }
}

// Which indices of each dimension of a tensor are removed.
class Removal {
 public:
  Removal(const Channels& channels, const Vector<bool>& removed) : removed_(channels.set_of.size()) {
    for (size_t t = 0; t < removed_.size(); ++t) {
      for (const Vector<uint32_t>& sets : channels.set_of[t]) {
        Vector<bool>& of_index = removed_[t].emplace_back(sets.size());
        for (size_t i = 0; i < sets.size(); ++i) of_index[i] = sets[i] != kept_channel && removed[sets[i]];
        if (!contains(of_index, true)) of_index.clear();
      }
    }
  }

  bool is_removed(size_t tensor, size_t dimension, size_t index) const {
    return loses(tensor, dimension) && removed_[tensor][dimension][index];
  }
  bool loses(size_t tensor, size_t dimension) const { return !removed_[tensor][dimension].empty(); }
  bool loses(size_t tensor) const {
    return any_of(removed_[tensor], [](const Vector<bool>& of_index) { return !of_index.empty(); });
  }
  // How many of the first `end` indices of a dimension are left.
  size_t left_before(size_t tensor, size_t dimension, size_t end) const {
    size_t left = 0;
    for (size_t i = 0; i < end; ++i) left += is_removed(tensor, dimension, i) ? 0 : 1;
    return left;
  }
  Shape shape(const Graph& graph, size_t tensor) const {
    Shape shape = graph.tensors[tensor].shape;
    for (size_t d = 0; d < removed_[tensor].size(); ++d) {
      if (loses(tensor, d)) shape[d] = left_before(tensor, d, shape[d]);
    }
    return shape;
  }

 private:
  Vector<Vector<Vector<bool>>> removed_;  // [tensor][dimension][index]; empty: none of the dimension
};

// Calls visit(element, index) for each element of a tensor, in order; `index` has its place in each dimension.
template <class Visit>
void each_element(const Shape& shape, Visit&& visit) {
  if (is_empty(shape)) return;
  Shape index(shape.size(), 0);
  for (size_t element = 0;; ++element) {
    visit(element, index);
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

const float* floats_of(const Graph& graph, size_t tensor) { return constant_floats(graph, static_cast<int>(tensor)); }

void shrink_constant(Graph& graph, size_t tensor, const Removal& removal) {
  Vector<float> left;
  const float* const from = floats_of(graph, tensor);
  each_element(graph.tensors[tensor].shape, [&](size_t element, const Shape& index) {
    bool removed = false;
    for (size_t d = 0; d < index.size(); ++d) removed = removed || removal.is_removed(tensor, d, index[d]);
    if (!removed) left.push_back(from[element]);
  });
  set_floats(graph, tensor, left);
}

// Attributes that count channels or name their positions. The tensors still have their shapes.
void shrink_attributes(const Graph& graph, const Removal& removal, Node* node) {
  if (node->outputs.size() != 1 || node->kind >= OpKind::count || node->inputs.empty()) return;
  const size_t x = at(node->inputs[0]);
  const Shape &before = graph.tensors[x].shape, after = removal.shape(graph, x),
              output = removal.shape(graph, at(node->outputs[0]));
  Attributes& a = node->attributes;
  if (is_depthwise(graph, *node)) a.groups = after.back();
  for (size_t d = 0; node->kind == OpKind::slice && d < before.size(); ++d) {
    if (!removal.loses(x, d)) continue;
    for (int64_t* const bound : {&a.values[d], &a.values[before.size() + d]}) {
      *bound = static_cast<int64_t>(removal.left_before(x, d, static_cast<size_t>(slice_bound(*bound, before[d]))));
    }
  }
  for (size_t d = 0; node->kind == OpKind::reshape && d < a.values.size(); ++d) {
    const int64_t copied = copied_dimension(a.values[d], d);
    const bool fits = a.values[d] == -1 || (copied >= 0 && after[static_cast<size_t>(copied)] == output[d]);
    if (!fits) a.values[d] = static_cast<int64_t>(output[d]);
  }
}

qn_status check_removal(const Channels& channels, const Vector<bool>& removed, const Graph& graph) {
  if (removed.size() != channels.sets.size() || channels.set_of.size() != graph.tensors.size()) {
    return fail(QN_INVALID_ARGUMENT, "the channels were found in another graph");
  }
  const Removal removal(channels, removed);
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (!removal.loses(t) || !is_empty(removal.shape(graph, t))) continue;
    return fail(QN_INVALID_ARGUMENT, "tensor '%s' would lose all of its channels", graph.tensors[t].name.c_str());
  }
  return QN_OK;
}

// ---- choice -----------------------------------------------------------------------------------

// Squares of a layer's weights, summed for each index of a dimension.
Vector<double> squares_along(const Graph& graph, size_t tensor, size_t dimension) {
  const Shape& shape = graph.tensors[tensor].shape;
  Vector<double> sums(shape[dimension]);
  const float* const values = floats_of(graph, tensor);
  each_element(shape, [&](size_t element, const Shape& index) {
    sums[index[dimension]] += double{values[element]} * double{values[element]};
  });
  return sums;
}

double mean_of_finite(const Vector<double>& values) {
  double sum = 0, count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

// The magnitude of each set. A set that holds a NaN is infinitely large.
Vector<double> magnitudes_of(const Graph& graph, const Channels& channels) {
  std::set<size_t> layers;
  each_layer(graph, [&](size_t, size_t weights) { layers.insert(weights); });
  Vector<double> sums(channels.sets.size()), counts(channels.sets.size());
  for (const size_t tensor : layers) {
    for (size_t d = 0; d < channels.set_of[tensor].size(); ++d) {
      const Vector<uint32_t>& sets = channels.set_of[tensor][d];
      if (sets.empty()) continue;
      const Vector<double> squares = squares_along(graph, tensor, d);
      const double mean = mean_of_finite(squares);
      for (size_t i = 0; i < sets.size(); ++i) {
        if (sets[i] == kept_channel) continue;
        sums[sets[i]] += squares[i] == 0 ? 0 : squares[i] / mean;
        ++counts[sets[i]];
      }
    }
  }
  for (size_t s = 0; s < sums.size(); ++s) {
    sums[s] = std::isnan(sums[s]) ? std::numeric_limits<double>::infinity() : sums[s] / counts[s];
  }
  return sums;
}

}  // namespace

ChannelsLeft::ChannelsLeft(const Channels& channels)
    : channels_(channels), left_(channels.set_of.size()), removed_(channels.sets.size()) {
  for (size_t t = 0; t < left_.size(); ++t) {
    for (const Vector<uint32_t>& sets : channels.set_of[t]) left_[t].push_back(sets.size());
  }
}

bool ChannelsLeft::remove(size_t set) {
  const Vector<ChannelUse>& uses = channels_.sets[set].uses;
  if (removed_[set] || std::any_of(uses.begin(), uses.end(), [&](const ChannelUse& use) {
        return left_[use.tensor][use.dimension] <= use.count;
      })) {
    return false;
  }
  for (const ChannelUse& use : uses) left_[use.tensor][use.dimension] -= use.count;
  removed_[set] = true;
  return true;
}

qn_status smallest_channels(const Graph& graph, const Channels& channels, double part, Vector<bool>* removed) {
  if (!(part >= 0 && part < 1)) {
    return fail(QN_INVALID_ARGUMENT, "expected a part of the channels from 0 to below 1, got %g", part);
  }
  const Vector<double> magnitudes = magnitudes_of(graph, channels);
  std::map<std::vector<uint32_t>, std::vector<size_t>> rivals;  // by the layers that produce them
  for (size_t s = 0; s < channels.sets.size(); ++s) {
    std::set<uint32_t> layers;
    for (const ChannelRow& row : channels.sets[s].rows) layers.insert(row.node);
    rivals[std::vector<uint32_t>(layers.begin(), layers.end())].push_back(s);
  }
  constexpr double rounding = 1e-9;  // 0.29 of 100 are 29
  ChannelsLeft left(channels);
  for (auto& [layers, sets] : rivals) {
    auto wanted = static_cast<size_t>(std::floor(part * static_cast<double>(sets.size()) + rounding));
    std::stable_sort(sets.begin(), sets.end(), [&](size_t a, size_t b) { return magnitudes[a] < magnitudes[b]; });
    for (const size_t set : sets) {
      if (wanted > 0 && left.remove(set)) --wanted;
    }
  }
  *removed = left.removed();
  return QN_OK;
}

qn_status remove_channels(const Channels& channels, const Vector<bool>& removed, Graph& graph) {
  QN_TRY(check_removal(channels, removed, graph));
  const Removal removal(channels, removed);
  Graph smaller = graph;
  for (Node& node : smaller.nodes) shrink_attributes(graph, removal, &node);
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (!removal.loses(t)) continue;
    if (graph.tensors[t].constant >= 0) shrink_constant(smaller, t, removal);
    smaller.tensors[t].shape = removal.shape(graph, t);
  }
  QN_TRY(check_graph(smaller));
  QN_TRY(infer_shapes(smaller));
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (smaller.tensors[t].sized_by_run || smaller.tensors[t].shape == removal.shape(graph, t)) continue;
    return fail(QN_UNSUPPORTED, "tensor '%s' did not shrink as expected", graph.tensors[t].name.c_str());
  }
  graph = std::move(smaller);
  return QN_OK;
}

void zero_channels(const Channels& channels, const Vector<bool>& removed, Graph& graph) {
  const Removal removal(channels, removed);
  std::set<size_t> weights;
  each_layer(graph, [&](size_t, size_t tensor) { weights.insert(tensor); });
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Shape& shape = graph.tensors[t].shape;
    if (graph.tensors[t].constant < 0 || !removal.loses(t)) continue;
    const size_t dimensions = weights.contains(t) ? 1 : shape.size();  // not the columns of weights
    const float* const from = floats_of(graph, t);
    Vector<float> values;
    each_element(shape, [&](size_t element, const Shape& index) {
      bool zero = false;
      for (size_t d = 0; d < dimensions; ++d) zero = zero || removal.is_removed(t, d, index[d]);
      values.push_back(zero ? 0 : from[element]);
    });
    set_floats(graph, t, values);
  }
}

}  // namespace quern
