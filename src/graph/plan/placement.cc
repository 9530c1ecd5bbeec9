#include "graph/plan/placement.h"

#include <algorithm>

#include "base/math.h"
#include "base/needs.h"
#include "base/tensor.h"

namespace quern {
namespace {

Vector<size_t> strides_of(const Tensor& tensor) {
  const qn_tensor t = with_strides(describe(tensor));
  return {t.stride, t.stride + t.rank};
}

// The dimension of the tensor's strides that belongs to an axis of its shape. In a pixel-blocked tensor only the
// channels can be split into parts.
size_t in_memory(const Tensor& tensor, size_t axis) { return tensor.layout == QN_LAYOUT_PIXEL_BLOCKED ? 2 : axis; }

class Placer {
 public:
  Placer(const Model& model, Graph& graph)
      : model_(model), graph_(graph), places_(graph.tensors.size()), needs_dense_(graph.tensors.size()) {
    for (Tensor& tensor : graph.tensors) tensor.stride.clear();
    find_needs();
  }

  Vector<Placement> run() {
    // A concat comes before the concat whose part it is; a slice comes after the tensor from which it is cut.
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (is_slice(i)) places_[output(i)].kind = Placement::slice;
    }
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      if (graph_.nodes[i].kind == OpKind::concat && !is_view(graph_, graph_.nodes[i])) place_parts(graph_.nodes[i]);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (places_[output(i)].kind == Placement::slice) place_slice(graph_.nodes[i]);
    }
    return std::move(places_);
  }

 private:
  // The node's output; the nodes in question have only one.
  size_t output(size_t node) const { return at(graph_.nodes[node].outputs[0]); }
  bool strided(size_t node) const {
    return model_.operators[node].op != nullptr && model_.operators[node].op->strided();
  }

  // A tensor must be dense if it is an input or output of the graph, if a view shows its elements in another shape, or
  // if an operator needs that. A part must have a node that writes it.
  void find_needs() {
    written_.resize(graph_.tensors.size());
    for (const Port& port : graph_.inputs) needs_dense_[at(port.tensor)] = true;
    for (const Port& port : graph_.outputs) needs_dense_[at(port.tensor)] = true;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const bool any = !is_view(graph_, node) && strided(i);
      for (const int output : node.outputs) written_[at(output)] = any;
      for (const int input : node.inputs) {
        if (input != no_tensor && !any) needs_dense_[at(input)] = true;
      }
    }
  }

  bool is_slice(size_t i) const {
    const Node& node = graph_.nodes[i];
    return node.kind == OpKind::slice && !is_view(graph_, node) && !needs_dense_[output(i)] &&
           graph_.tensors[at(node.inputs[0])].constant < 0;
  }

  void place_parts(const Node& concat) {
    const size_t whole = at(concat.outputs[0]), axis = at(concat.attributes.axis);
    const Placement outer = places_[whole];
    const Vector<size_t> strides = strides_of(graph_.tensors[whole]);
    size_t offset = outer.offset;
    for (const int input : concat.inputs) {
      Tensor& tensor = graph_.tensors[at(input)];
      Placement& place = places_[at(input)];
      const bool once = std::count(concat.inputs.begin(), concat.inputs.end(), input) == 1;
      if (once && place.kind == Placement::own && written_[at(input)] && !needs_dense_[at(input)]) {
        const int within = outer.kind == Placement::own ? concat.outputs[0] : outer.within;
        place = {Placement::part, within, concat.outputs[0], offset};
        tensor.stride = strides;
      }
      offset += tensor.shape[axis] * strides[in_memory(tensor, axis)];
    }
  }

  void place_slice(const Node& slice) {
    const Tensor& input = graph_.tensors[at(slice.inputs[0])];
    Tensor& output = graph_.tensors[at(slice.outputs[0])];
    const Placement from = places_[at(slice.inputs[0])];
    output.stride = strides_of(input);
    size_t offset = from.offset;
    for (size_t d = 0; d < output.shape.size(); ++d) {
      const int64_t begin = slice_bound(slice.attributes.values[d], input.shape[d]);
      offset += static_cast<size_t>(begin) * output.stride[in_memory(output, d)];
    }
    const int within = from.kind == Placement::own ? slice.inputs[0] : from.within;
    places_[at(slice.outputs[0])] = {Placement::slice, within, slice.inputs[0], offset};
  }

  const Model& model_;
  Graph& graph_;
  Vector<Placement> places_;
  Vector<bool> needs_dense_, written_;
};

}  // namespace

Vector<Placement> place_tensors(const Model& model, Graph& graph) {
  if (!has_operator("concat") && !has_operator("slice")) return Vector<Placement>(graph.tensors.size());
  return Placer(model, graph).run();
}

}  // namespace quern
