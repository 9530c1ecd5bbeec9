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
  size_t constant;                // index
  Vector<size_t> shape;           // O, ..., I
  size_t groups, out, depth;      // output channels of one group; elements of a row
  size_t inputs = 1;              // of one group: successive elements of a row that belong to a tap
  size_t block_rows = 0;          // of one group
  size_t row_blocks = 0;          // blocks of a block row
  double density = 1;             // the part of the blocks that the schedule wants to keep
  Vector<float> magnitudes = {};  // of every block: by block rows of all groups, then by positions

  size_t blocks() const { return groups * block_rows * row_blocks; }
};

// Weights that several layers share count as one layer here, which is pruned only if all of them may be.
Vector<Layer> layers_of(const Graph& graph, size_t block, size_t inputs) {
  std::set<int> dense, seen;
  Vector<Layer> layers;
  bool first = true;
  for (const Node& node : graph.nodes) {
    if (!kind_of(node.kind).has_weights()) continue;
    const Tensor& weights = tensor_of(graph, node.inputs[1]);
    const bool is_first = node.kind == OpKind::conv2d && std::exchange(first, false);
    if (is_first || is_depthwise(graph, node)) dense.insert(weights.constant);
    if (!seen.insert(weights.constant).second) continue;
    const size_t groups = node.kind == OpKind::conv2d ? node.attributes.groups : 1;
    Layer layer = {static_cast<size_t>(weights.constant), weights.shape, groups, weights.shape[0] / groups,
                   std::accumulate(weights.shape.begin() + 1, weights.shape.end(), size_t{1}, std::multiplies<>())};
    layer.inputs = weights.shape.back();
    layer.block_rows = divide_up(layer.out, block);
    layer.row_blocks = layer.inputs == 0 ? 0 : layer.depth / layer.inputs * divide_up(layer.inputs, inputs);
    layers.push_back(std::move(layer));
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
void each_block(const Layer& layer, const PruneOptions& options, Visit&& visit) {
  size_t index = 0;
  for (size_t group = 0; group < layer.groups; ++group) {
    for (size_t channel = 0; channel < layer.out; channel += options.block) {
      const size_t first = (group * layer.out + channel) * layer.depth;
      const size_t rows = std::min(options.block, layer.out - channel);
      for (size_t tap = 0; tap < layer.depth; tap += layer.inputs) {
        for (size_t i = 0; i < layer.inputs; i += options.inputs) {
          visit(index++, Block{first + tap + i, rows, std::min(options.inputs, layer.inputs - i)});
        }
      }
    }
  }
}

// A block that holds a NaN stays.
void measure(const float* weights, const PruneOptions& options, Layer* layer) {
  layer->magnitudes.resize(layer->blocks());
  each_block(*layer, options, [&](size_t index, const Block& block) {
    double sum = 0;
    for (size_t r = 0; r < block.rows; ++r) {
      const float* const row = weights + block.first + r * layer->depth;
      for (size_t i = 0; i < block.columns; ++i) sum += std::fabs(double{row[i]});
    }
    const auto mean = static_cast<float>(sum / static_cast<double>(block.rows * block.columns));
    layer->magnitudes[index] = std::isnan(mean) ? std::numeric_limits<float>::infinity() : mean;
  });
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
void set_erk_densities(double density, Vector<Layer>* layers) {
  const auto dimensions = [](const Layer& layer) {
    return static_cast<double>(std::accumulate(layer.shape.begin(), layer.shape.end(), size_t{0}));
  };
  Vector<bool> full(layers->size());
  for (bool settled = false; !settled;) {
    double wanted = 0, share = 0;  // blocks to keep in layers that are not full; blocks they would keep at factor 1
    for (size_t i = 0; i < layers->size(); ++i) {
      const Layer& layer = (*layers)[i];
      const auto blocks = static_cast<double>(layer.blocks());
      wanted += full[i] ? (density - 1) * blocks : density * blocks;
      const double elements = static_cast<double>(layer.groups * layer.out * layer.depth);
      if (!full[i]) share += dimensions(layer) / elements * blocks;
    }
    settled = true;
    for (size_t i = 0; i < layers->size(); ++i) {
      Layer& layer = (*layers)[i];
      if (full[i]) continue;
      const double elements = static_cast<double>(layer.groups * layer.out * layer.depth);
      layer.density = std::max(0.0, wanted / share * dimensions(layer) / elements);
      if (layer.density <= 1) continue;
      layer.density = 1;
      full[i] = true;
      settled = false;
    }
  }
}

// For every layer: which blocks become 0.
Vector<Vector<bool>> choose(const PruneOptions& options, Vector<Layer>* layers) {
  Vector<Vector<bool>> removed;
  if (options.schedule == Schedule::global) {
    Vector<float> all;
    for (const Layer& layer : *layers) all.insert(all.end(), layer.magnitudes.begin(), layer.magnitudes.end());
    const Vector<bool> gone = smallest(all, to_remove(all.size(), 1 - options.sparsity));
    auto from = gone.begin();
    for (const Layer& layer : *layers) {
      const auto end = from + static_cast<std::ptrdiff_t>(layer.blocks());
      removed.emplace_back(from, end);
      from = end;
    }
    return removed;
  }
  for (Layer& layer : *layers) layer.density = 1 - options.sparsity;
  if (options.schedule == Schedule::erk) set_erk_densities(1 - options.sparsity, layers);
  for (const Layer& layer : *layers) {
    removed.push_back(smallest(layer.magnitudes, to_remove(layer.blocks(), layer.density)));
  }
  return removed;
}

double squares(const float* weights, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += double{weights[i]} * double{weights[i]};
  return sum;
}

// Sets the marked blocks of the layer's constant to 0.
void apply(const PruneOptions& options, const Layer& layer, const Vector<bool>& removed, Constant* constant) {
  const auto* from = static_cast<const float*>(constant->data);
  const size_t count = constant->bytes / sizeof(float);
  auto buffer = make_shared<Buffer>(constant->bytes);
  auto* to = static_cast<float*>(buffer->data());
  std::copy_n(from, count, to);
  each_block(layer, options, [&](size_t index, const Block& block) {
    if (!removed[index]) return;
    for (size_t r = 0; r < block.rows; ++r) std::fill_n(to + block.first + r * layer.depth, block.columns, 0.0f);
  });
  const double left = squares(to, count);
  if (options.rescale && left > 0) {
    const double factor = std::sqrt(squares(from, count) / left);
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(double{to[i]} * factor);
  }
  *constant = {std::move(buffer), to, constant->bytes};
}

}  // namespace

qn_status prune(Graph& graph, const PruneOptions& options) {
  if (!(options.sparsity >= 0 && options.sparsity < 1)) {
    return fail(QN_INVALID_ARGUMENT, "a sparsity of %g is not from 0 to below 1", options.sparsity);
  }
  if (!std::has_single_bit(options.block) || options.block > 16) {
    return fail(QN_INVALID_ARGUMENT, "blocks of %zu output channels; 1, 2, 4, 8 or 16 are possible", options.block);
  }
  if (options.inputs != 1 && options.inputs != 4) {
    return fail(QN_INVALID_ARGUMENT, "blocks of %zu input channels; 1 or 4 are possible", options.inputs);
  }
  QN_TRY(check_plain(graph));
  for (const Node& node : graph.nodes) {
    if (!kind_of(node.kind).has_weights() || tensor_of(graph, node.inputs[1]).type == QN_F32) continue;
    return fail(QN_UNSUPPORTED, "the weights of '%s' are integers; only f32 can be pruned", node.name.c_str());
  }
  QN_TRY(make_dense(graph));
  Vector<Layer> layers = layers_of(graph, options.block, options.inputs);
  for (Layer& layer : layers) {
    measure(static_cast<const float*>(graph.constants[layer.constant].data), options, &layer);
  }
  const Vector<Vector<bool>> removed = choose(options, &layers);
  for (size_t i = 0; i < layers.size(); ++i) {
    apply(options, layers[i], removed[i], &graph.constants[layers[i].constant]);
  }
  return QN_OK;
}

}  // namespace quern
