#include "compress/prune.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "base/math.h"
#include "base/status.h"
#include "graph/file/encoded.h"
#include "graph/ir/kinds.h"
#include "graph/pass/passes.h"

namespace quern {
namespace {

struct Layer {
  size_t constant;            // index
  Vector<size_t> dimensions;  // O, ..., I
  BlockGrid grid;
  std::optional<double> sparsity = {};  // that is decided
  double density = 1;                   // the part of the blocks that stay
};

const float* weights_of(const Graph& graph, const Layer& layer) {
  return static_cast<const float*>(graph.constants[layer.constant].data);
}

// Weights that several layers share count as one layer here, which is pruned only if all of them may be.
Vector<Layer> layers_of(const Graph& graph, const PruneOptions& options) {
  std::set<int> dense, seen;
  Vector<Layer> layers;
  const LayerPruning open;
  bool first = true;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!kind_of(node.kind).has_weights()) continue;
    const LayerPruning& decided = options.layers.empty() ? open : options.layers[i];
    const Tensor& weights = tensor_of(graph, node.inputs[1]);
    const bool is_first = node.kind == OpKind::conv2d && std::exchange(first, false);
    const bool matters = is_first || is_depthwise(graph, node);
    if (decided.keep || (matters && !decided.sparsity)) dense.insert(weights.constant);
    if (!seen.insert(weights.constant).second) continue;
    const size_t groups = node.kind == OpKind::conv2d ? node.attributes.groups : 1;
    const size_t depth =
        std::accumulate(weights.shape.begin() + 1, weights.shape.end(), size_t{1}, std::multiplies<>());
    layers.push_back({.constant = static_cast<size_t>(weights.constant),
                      .dimensions = weights.shape,
                      .grid = {groups, weights.shape[0] / groups, depth, weights.shape.back(),
                               decided.shape.value_or(BlockShape{options.block, options.inputs})},
                      .sparsity = decided.sparsity});
  }
  erase_if(layers, [&](const Layer& layer) { return dense.contains(static_cast<int>(layer.constant)); });
  return layers;
}

// The weights of a block: `columns` in each of `rows` successive rows of the matrix, the first at element `first`.
struct Block {
  size_t first, rows, columns;
};

// Calls visit(i, block) for every block; i is its index.
template <class Visit>
void each_block(const BlockGrid& grid, Visit&& visit) {
  size_t index = 0;
  for (size_t group = 0; group < grid.groups; ++group) {
    for (size_t channel = 0; channel < grid.out; channel += grid.shape.outputs) {
      const size_t first = (group * grid.out + channel) * grid.depth;
      const size_t rows = std::min(grid.shape.outputs, grid.out - channel);
      for (size_t tap = 0; tap < grid.depth; tap += grid.inputs) {
        for (size_t i = 0; i < grid.inputs; i += grid.shape.inputs) {
          visit(index++, Block{first + tap + i, rows, std::min(grid.shape.inputs, grid.inputs - i)});
        }
      }
    }
  }
}

// The mean magnitude of every block, by block rows of all groups, then by positions. A block that holds a NaN stays.
Vector<float> magnitudes_of(const BlockGrid& grid, const float* weights) {
  Vector<float> magnitudes;
  each_block(grid, [&](size_t, const Block& block) {
    double sum = 0;
    for (size_t r = 0; r < block.rows; ++r) {
      const float* const row = weights + block.first + r * grid.depth;
      for (size_t i = 0; i < block.columns; ++i) sum += std::fabs(double{row[i]});
    }
    const auto mean = static_cast<float>(sum / static_cast<double>(block.rows * block.columns));
    magnitudes.push_back(std::isnan(mean) ? std::numeric_limits<float>::infinity() : mean);
  });
  return magnitudes;
}

size_t to_remove(size_t blocks, double density) {
  return static_cast<size_t>(std::llround(static_cast<double>(blocks) * (1 - density)));
}

// Marks the `count` smallest blocks; of equal ones the first.
Vector<bool> smallest(const Vector<float>& magnitudes, size_t count) {
  Vector<bool> result(magnitudes.size());
  if (count == 0) return result;
  Vector<float> parted = magnitudes;
  const auto last = parted.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(parted.begin(), last, parted.end());
  const float threshold = *last;
  auto equals =
      count - static_cast<size_t>(std::count_if(parted.begin(), last, [&](float m) { return m < threshold; }));
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = magnitudes[i] < threshold || (magnitudes[i] == threshold && equals > 0);
    if (magnitudes[i] == threshold && equals > 0) --equals;
  }
  return result;
}

// Sets the densities of the Erdos-Renyi kernel, times a factor that makes their mean the wanted one. Layers that would
// be more than full are full, and the others share the rest.
void set_erk_densities(double density, const Vector<Layer*>& layers) {
  const auto dimensions = [](const Layer& layer) {
    return static_cast<double>(std::accumulate(layer.dimensions.begin(), layer.dimensions.end(), size_t{0}));
  };
  Vector<bool> full(layers.size());
  for (bool settled = false; !settled;) {
    double wanted = 0, share = 0;  // blocks to keep in layers that are not full; blocks they would keep at factor 1
    for (size_t i = 0; i < layers.size(); ++i) {
      const Layer& layer = *layers[i];
      const auto blocks = static_cast<double>(layer.grid.blocks());
      wanted += full[i] ? (density - 1) * blocks : density * blocks;
      const double elements = static_cast<double>(layer.grid.groups * layer.grid.out * layer.grid.depth);
      if (!full[i]) share += dimensions(layer) / elements * blocks;
    }
    settled = true;
    for (size_t i = 0; i < layers.size(); ++i) {
      Layer& layer = *layers[i];
      if (full[i]) continue;
      const double elements = static_cast<double>(layer.grid.groups * layer.grid.out * layer.grid.depth);
      layer.density = std::max(0.0, wanted / share * dimensions(layer) / elements);
      if (layer.density <= 1) continue;
      layer.density = 1;
      full[i] = true;
      settled = false;
    }
  }
}

// Sets the densities for which the smallest blocks of all layers become 0, by one threshold.
void set_global_densities(const Graph& graph, double density, const Vector<Layer*>& layers) {
  Vector<float> all;
  for (const Layer* layer : layers) {
    const Vector<float> magnitudes = magnitudes_of(layer->grid, weights_of(graph, *layer));
    all.insert(all.end(), magnitudes.begin(), magnitudes.end());
  }
  const Vector<bool> gone = smallest(all, to_remove(all.size(), density));
  auto from = gone.begin();
  for (Layer* layer : layers) {
    const auto blocks = static_cast<std::ptrdiff_t>(layer->grid.blocks());
    const auto removed = static_cast<double>(std::count(from, from + blocks, true));
    layer->density = 1 - removed / static_cast<double>(std::max<std::ptrdiff_t>(blocks, 1));
    from += blocks;
  }
}

// Sets the densities of all layers: what is decided, or what the schedule wants.
void set_densities(const Graph& graph, const PruneOptions& options, Vector<Layer>* layers) {
  const double density = 1 - options.sparsity;
  Vector<Layer*> open;
  for (Layer& layer : *layers) {
    layer.density = 1 - layer.sparsity.value_or(options.sparsity);
    if (!layer.sparsity) open.push_back(&layer);
  }
  if (options.schedule == Schedule::erk) set_erk_densities(density, open);
  if (options.schedule == Schedule::global) set_global_densities(graph, density, open);
}

double squares(const float* weights, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += double{weights[i]} * double{weights[i]};
  return sum;
}

// Sets the marked weights to 0.
void apply(bool rescale, const Vector<bool>& removed, Constant* constant) {
  const auto* from = static_cast<const float*>(constant->data);
  const size_t count = constant->bytes / sizeof(float);
  auto buffer = make_shared<Buffer>(constant->bytes);
  auto* to = static_cast<float*>(buffer->data());
  for (size_t i = 0; i < count; ++i) to[i] = removed[i] ? 0 : from[i];
  const double left = squares(to, count);
  if (rescale && left > 0) {
    const double factor = std::sqrt(squares(from, count) / left);
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(double{to[i]} * factor);
  }
  *constant = {std::move(buffer), to, constant->bytes};
}

qn_status check_shape(const BlockShape& shape) {
  if (!std::has_single_bit(shape.outputs) || shape.outputs > 16)
    return fail(QN_INVALID_ARGUMENT, "blocks of %zu output channels; 1, 2, 4, 8 or 16 are possible", shape.outputs);
  if (shape.inputs != 1 && shape.inputs != 4)
    return fail(QN_INVALID_ARGUMENT, "blocks of %zu input channels; 1 or 4 are possible", shape.inputs);
  return QN_OK;
}

qn_status check_options(const Graph& graph, const PruneOptions& options) {
  const BlockShape shape = {options.block, options.inputs};
  if (!(options.sparsity >= 0 && options.sparsity < 1))
    return fail(QN_INVALID_ARGUMENT, "a sparsity of %g is not from 0 to below 1", options.sparsity);
  QN_TRY(check_shape(shape));
  if (!options.layers.empty() && options.layers.size() != graph.nodes.size())
    return fail(QN_INVALID_ARGUMENT, "%zu decisions for %zu nodes", options.layers.size(), graph.nodes.size());
  for (const LayerPruning& layer : options.layers) {
    const double sparsity = layer.sparsity.value_or(0);
    if (!(sparsity >= 0 && sparsity <= 1))
      return fail(QN_INVALID_ARGUMENT, "a sparsity of %g is not from 0 to 1", sparsity);
    QN_TRY(check_shape(layer.shape.value_or(shape)));
  }
  for (const Node& node : graph.nodes) {
    if (!kind_of(node.kind).has_weights() || tensor_of(graph, node.inputs[1]).type == QN_F32) continue;
    return fail(QN_UNSUPPORTED, "the weights of '%s' are integers; only f32 can be pruned", node.name.c_str());
  }
  return QN_OK;
}

// What has become of each node.
Vector<LayerPruning> decisions(const Graph& graph, const PruneOptions& options, const Vector<Layer>& layers) {
  Vector<LayerPruning> made(graph.nodes.size());
  for (size_t i = 0; i < made.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!kind_of(node.kind).has_weights()) continue;
    const int constant = tensor_of(graph, node.inputs[1]).constant;
    const auto layer = std::find_if(layers.begin(), layers.end(),
                                    [&](const Layer& l) { return static_cast<int>(l.constant) == constant; });
    made[i].keep = !options.layers.empty() && options.layers[i].keep;
    if (layer != layers.end()) made[i] = {.sparsity = 1 - layer->density, .shape = layer->grid.shape};
  }
  return made;
}

}  // namespace

size_t BlockGrid::blocks() const {
  if (inputs == 0) return 0;
  return groups * divide_up(out, shape.outputs) * (depth / inputs) * divide_up(inputs, shape.inputs);
}

Vector<bool> smallest_blocks(const BlockGrid& grid, const float* weights, double sparsity) {
  const Vector<float> magnitudes = magnitudes_of(grid, weights);
  const Vector<bool> blocks = smallest(magnitudes, to_remove(magnitudes.size(), 1 - sparsity));
  Vector<bool> marked(grid.groups * grid.out * grid.depth, false);
  each_block(grid, [&](size_t index, const Block& block) {
    for (size_t r = 0; blocks[index] && r < block.rows; ++r)
      std::fill_n(marked.begin() + static_cast<ptrdiff_t>(block.first + r * grid.depth), block.columns, true);
  });
  return marked;
}

qn_status prune(Graph& graph, const PruneOptions& options, Vector<LayerPruning>* made) {
  QN_TRY(check_plain(graph));
  QN_TRY(check_options(graph, options));
  QN_TRY(make_dense(graph));
  Vector<Layer> layers = layers_of(graph, options);
  set_densities(graph, options, &layers);
  for (const Layer& layer : layers) {
    const Vector<bool> removed = smallest_blocks(layer.grid, weights_of(graph, layer), 1 - layer.density);
    apply(options.rescale, removed, &graph.constants[layer.constant]);
  }
  if (made != nullptr) *made = decisions(graph, options, layers);
  return QN_OK;
}

}  // namespace quern
