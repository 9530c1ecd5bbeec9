// merge_linear_layers(): two layers in a row become one.
#include <cstdint>
#include <span>
#include <utility>

#include "base/status.h"
#include "compress/linear_layer.h"
#include "compress/transform.h"
#include "graph/file/encoded.h"
#include "graph/pass/affine.h"
#include "graph/pass/passes.h"

namespace quern {
namespace {

// Two layers, the second of which alone reads the first. One of them is pointwise; the other one says where the merged
// layer reads the image, and what its weights look like:
//
//     weights     second [O, kh, kw, M], first [M, 1, 1, I]    or    second [O, 1, 1, M], first [M, kh, kw, I]
//     as matrices        [O kh kw, M] times [M, I]             or           [O, M] times [M, kh kw I]
//     product     [O, kh, kw, I]
class LinearPair {
 public:
  LinearPair(Rewriter& r, Node& first, Node& second)
      : r_(r), first_(first), second_(second), reads_pixels_(is_pointwise(r, first)) {}

  bool can_merge() const {
    if (!is_plain_layer(r_, first_) || !is_unclamped(first_) || !r_.read_once(first_.outputs[0])) return false;
    if (!reads_pixels_) return is_pointwise(r_, second_);
    return second_.kind == OpKind::fully_connected || !may_pad(second_.attributes) || !has_bias(first_);
  }

  bool saves() const {
    const LayerCost before = cost_before();
    const size_t nonzeros = nonzeros_of(weights_of(first_)) + nonzeros_of(weights_of(second_));
    return merged_weights() < nonzeros && merged_macs() < before.macs && cost_after().weights < before.weights;
  }

  // Makes the second layer compute what both did, and removes the first. Returns false if a weight is not finite.
  bool merge() {
    const Vector<float> weights = as_floats(matrix_product(
        matrix_of(weights_of(second_), between()), matrix_of(weights_of(first_), merged_weights_per_channel())));
    Vector<float> bias;
    if (merged_bias() > 0) bias = make_bias();
    if (!is_finite(weights) || !is_finite(bias)) return false;
    Vector<int> inputs = {first_.inputs[0], r_.add_constant(merged_shape(), weights)};
    if (!bias.empty()) inputs.push_back(r_.add_constant({bias.size()}, bias));
    if (!reads_pixels_) {
      Attributes attributes = first_.attributes;
      attributes.min = second_.attributes.min;
      attributes.max = second_.attributes.max;
      second_.kind = first_.kind;
      second_.attributes = std::move(attributes);
    }
    r_.set_inputs(second_, std::move(inputs));
    r_.remove(first_);
    return true;
  }

  Transform report() const {
    const LayerCost before = cost_before(), after = cost_after();
    return {.kind = TransformKind::merged,
            .node = second_.name,
            .other = first_.name,
            .channels = between(),
            .weights_before = before.weights,
            .weights_after = after.weights,
            .macs_before = before.macs,
            .macs_after = after.macs};
  }

 private:
  std::span<const float> weights_of(const Node& layer) const { return r_.floats(layer.inputs[1]); }
  size_t between() const { return r_.shape(first_.inputs[1])[0]; }
  size_t outputs() const { return r_.shape(second_.inputs[1])[0]; }
  size_t merged_weights_per_channel() const { return weights_of(first_).size() / between(); }
  size_t merged_weights() const { return weights_of(second_).size() / between() * merged_weights_per_channel(); }
  size_t merged_bias() const { return has_bias(first_) || has_bias(second_) ? outputs() : 0; }
  uint64_t merged_macs() const {
    return cost_of(r_.graph(), second_).macs / weights_of(second_).size() * merged_weights();
  }
  LayerCost cost_before() const {
    const LayerCost a = cost_of(r_.graph(), first_), b = cost_of(r_.graph(), second_);
    return {a.weights + b.weights, a.macs + b.macs};
  }
  LayerCost cost_after() const { return {merged_weights() + merged_bias(), merged_macs()}; }

  Shape merged_shape() const {
    Shape shape = r_.shape((reads_pixels_ ? second_ : first_).inputs[1]);
    if (reads_pixels_) {
      shape.back() = r_.shape(first_.inputs[1]).back();
    } else {
      shape[0] = outputs();
    }
    return shape;
  }

  // The second layer adds up what the first one's bias brings to each element that it reads.
  Vector<float> make_bias() const {
    const std::span<const float> weights = weights_of(second_);
    Vector<double> sums(outputs());
    if (has_bias(second_)) {
      const std::span<const float> bias = r_.floats(second_.inputs[2]);
      sums.assign(bias.begin(), bias.end());
    }
    const size_t each = weights.size() / outputs();
    for (size_t i = 0; has_bias(first_) && i < weights.size(); ++i) {
      sums[i / each] += double{weights[i]} * double{r_.floats(first_.inputs[2])[i % between()]};
    }
    Vector<float> bias;
    for (const double sum : sums) bias.push_back(static_cast<float>(sum));
    return bias;
  }

  Rewriter& r_;
  Node &first_, &second_;
  bool reads_pixels_;  // the first one
};

// Merges a layer with the one before it, if there is one.
bool merge_with_writer(Rewriter& r, Node& node, Vector<Transform>* done) {
  if (!is_plain_layer(r, node)) return false;
  Node* const before = r.writer(node.inputs[0]);
  if (before == nullptr || !is_plain_layer(r, *before)) return false;
  LinearPair pair(r, *before, node);
  if (!pair.can_merge() || !pair.saves()) return false;
  Transform report = pair.report();
  if (!pair.merge()) return false;
  done->push_back(std::move(report));
  return true;
}

}  // namespace

qn_status merge_linear_layers(Graph& graph, Vector<Transform>* done) {
  QN_TRY(make_dense(graph));
  Rewriter r(graph);
  for (size_t i = 0; i < r.size(); ++i) {
    while (!r.removed(i) && merge_with_writer(r, r.node(i), done)) {}
  }
  if (!r.changed()) return QN_OK;
  r.finish();
  compact(graph);
  QN_TRY(check_graph(graph));
  return infer_shapes(graph);
}

qn_status simplify(Graph& graph, Vector<Transform>* done) {
  QN_TRY(remove_dead_channels(graph, done));
  return merge_linear_layers(graph, done);
}

const char* name_of(TransformKind kind) {
  switch (kind) {
    case TransformKind::merged: return "merged";
    case TransformKind::narrowed: return "narrowed";
    case TransformKind::split: return "split";
  }
  return "?";
}

}  // namespace quern
