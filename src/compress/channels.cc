// find_channels(): one walk over the nodes in their order.
#include "compress/channels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/search.h"
#include "base/status.h"
#include "compress/graph_values.h"
#include "graph/file/encoded.h"
#include "graph/ir/kinds.h"
#include "graph/ir/rules.h"
#include "graph/pass/passes.h"

namespace quern {
namespace {

size_t elements_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies<>());
}

// Classes of indices that go together (union-find). The first two never change: `hole` is padding, whose zeros may stay
// or go; the class of `pinned` is kept.
class ChannelClasses {
 public:
  static constexpr uint32_t hole = 0, pinned = 1;

  uint32_t add() {
    parent_.push_back(static_cast<uint32_t>(parent_.size()));
    return parent_.back();
  }
  uint32_t find(uint32_t id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }
  // The smaller of the two represents both: so `pinned` stands for its class.
  void unite(uint32_t a, uint32_t b) {
    a = find(a), b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }
  void pin(uint32_t id) { unite(id, pinned); }

 private:
  Vector<uint32_t> parent_ = {hole, pinned};
};

// What an operator makes of a channel that is set to zero: zeros; other values, such as a sigmoid's 0.5, which are
// "dirty", and harmless once they are multiplied by zero; or values that may not even be finite.
enum class AfterZero { zero, finite, unknown };

AfterZero worst(AfterZero a, AfterZero b) { return std::max(a, b); }

AfterZero after_zero(const float* values, size_t count) {
  AfterZero result = AfterZero::zero;
  for (size_t i = 0; i < count; ++i) {
    if (values[i] != 0) result = worst(result, std::isfinite(values[i]) ? AfterZero::finite : AfterZero::unknown);
  }
  return result;
}

// Values that other inputs of a node may have.
constexpr float probes[] = {0, 0.75f, -1.5f, 3};

class ChannelFinder {
 public:
  explicit ChannelFinder(const Graph& graph)
      : graph_(graph), ids_(graph.tensors.size()), dirty_(graph.tensors.size()), fixed_(graph.tensors.size()) {
    for (size_t t = 0; t < ids_.size(); ++t) ids_[t].resize(graph.tensors[t].shape.size());
    fix_shared_constants();
  }

  void find(Channels* channels);

 private:
  static constexpr size_t none = SIZE_MAX;

  const Shape& shape(int tensor) const { return tensor_of(graph_, tensor).shape; }
  bool is_constant(int tensor) const { return tensor_of(graph_, tensor).constant >= 0; }
  bool is_weights(const Node& node, size_t input) const { return kind_of(node.kind).has_weights() && input == 1; }

  // The only dimension of an activation along which something can be removed.
  size_t axis_of(int tensor) const {
    return place_of(ids_[at(tensor)], [](const Vector<uint32_t>& ids) { return !ids.empty(); });
  }
  bool is_tracked(int tensor) const { return axis_of(tensor) < ids_[at(tensor)].size(); }
  // Is this index of the axis not zero when its class is?
  bool is_dirty(int tensor, size_t index) const { return !dirty_[at(tensor)].empty() && dirty_[at(tensor)][index]; }

  void fix_shared_constants();
  Vector<uint32_t>& ids_of_constant(int tensor, size_t dimension);
  void pin(int tensor);
  void pin_inputs(const Node& node);
  bool is_plain(const Node& node) const;

  void follow(const Node& node);
  void layer(const Node& node);
  void tie_groups(const Node& node, Vector<uint32_t>* rows);
  void tie_columns(const Node& node);
  size_t aligned_axis(const Node& node) const;
  uint64_t tie_inputs(const Node& node, size_t from_last, const Vector<uint32_t>& ids);
  void elementwise(const Node& node);
  void each_channel(const Node& node);
  void move(const Node& node);
  const Constant* moved_ids(const Node& node, Graph* scratch);
  void read_moved(const Node& node, const Vector<uint32_t>& codes);
  AfterZero probe_elements(const Node& node, uint64_t zero, uint64_t dirty) const;
  AfterZero probe_channel(const Node& node, bool zero) const;
  // Says which classes the output's indices along an axis belong to.
  void set_output(const Node& node, size_t axis, Vector<uint32_t> ids, Vector<bool> dirty);

  Vector<uint32_t> number_sets(Channels* channels);
  void count_uses(Channels* channels);

  const Graph& graph_;
  ChannelClasses classes_;
  Vector<Vector<Vector<uint32_t>>> ids_;  // as Channels::set_of, of elements of classes_
  Vector<Vector<bool>> dirty_;            // of an activation, by index of its axis: not zero when its class is
  Vector<bool> fixed_;                    // constants of which nothing can be removed
};

// Constants that are read in several ways keep all elements: as weights and as data, or by way of two tensors.
void ChannelFinder::fix_shared_constants() {
  const auto content_of = [&](const Tensor& tensor) { return graph_.constants[at(tensor.constant)].data; };
  std::map<const void*, size_t> tensors;  // by content
  for (const Tensor& tensor : graph_.tensors) {
    if (tensor.constant >= 0) ++tensors[content_of(tensor)];
  }
  for (size_t t = 0; t < graph_.tensors.size(); ++t) {
    const Tensor& tensor = graph_.tensors[t];
    fixed_[t] = tensor.constant >= 0 && tensors[content_of(tensor)] > 1;
  }
  Vector<bool> as_weights(graph_.tensors.size()), otherwise(graph_.tensors.size());
  for (const Node& node : graph_.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != no_tensor) (is_weights(node, i) ? as_weights : otherwise)[at(node.inputs[i])] = true;
    }
  }
  for (size_t t = 0; t < fixed_.size(); ++t) fixed_[t] = fixed_[t] || (as_weights[t] && otherwise[t]);
}

// Classes of a dimension of a constant, each index in one of its own at first.
Vector<uint32_t>& ChannelFinder::ids_of_constant(int tensor, size_t dimension) {
  Vector<uint32_t>& ids = ids_[at(tensor)][dimension];
  if (!ids.empty()) return ids;
  ids.resize(shape(tensor)[dimension]);
  for (uint32_t& id : ids) id = fixed_[at(tensor)] ? ChannelClasses::pinned : classes_.add();
  return ids;
}

void ChannelFinder::pin(int tensor) {
  fixed_[at(tensor)] = true;
  for (const Vector<uint32_t>& ids : ids_[at(tensor)]) {
    for (const uint32_t id : ids) classes_.pin(id);
  }
}

void ChannelFinder::pin_inputs(const Node& node) {
  for (const int input : node.inputs) {
    if (input != no_tensor) pin(input);
  }
}

// Is everything of the node known: f32 tensors of known shapes, one output?
bool ChannelFinder::is_plain(const Node& node) const {
  const auto plain = [&](int tensor) {
    if (tensor == no_tensor) return true;
    const Tensor& t = tensor_of(graph_, tensor);
    return t.type == QN_F32 && !t.sized_by_run && !is_empty(t.shape);
  };
  return node.kind < OpKind::count && node.outputs.size() == 1 && all_of(node.inputs, plain) && plain(node.outputs[0]);
}

void ChannelFinder::follow(const Node& node) {
  const Kind& kind = kind_of(node.kind);
  if (!is_plain(node)) return pin_inputs(node);
  if (kind.has_weights()) return layer(node);
  if (kind.has(Kind::elementwise)) return elementwise(node);
  if (kind.types == TypeRule::moved) return move(node);
  // Of the others, those that keep all dimensions mix channels.
  if (kind.has(Kind::keeps_channels) && !kind.has(Kind::keeps_shape)) return each_channel(node);
  pin_inputs(node);
}

void ChannelFinder::set_output(const Node& node, size_t axis, Vector<uint32_t> ids, Vector<bool> dirty) {
  const size_t output = at(node.outputs[0]);
  ids_[output][axis] = std::move(ids);
  dirty_[output] = std::move(dirty);
}

// ---- layers -----------------------------------------------------------------------------------

void ChannelFinder::layer(const Node& node) {
  Vector<uint32_t>& rows = ids_of_constant(node.inputs[1], 0);
  const size_t axis = axis_of(node.inputs[0]), last = shape(node.inputs[0]).size() - 1;
  if (axis < last) pin(node.inputs[0]);
  tie_groups(node, &rows);
  if (!is_depthwise(graph_, node)) tie_columns(node);
  if (node.inputs.size() > 2 && node.inputs[2] != no_tensor) {
    const Vector<uint32_t>& bias = ids_of_constant(node.inputs[2], 0);
    for (size_t o = 0; o < rows.size(); ++o) classes_.unite(rows[o], bias[o]);
  }
  const Attributes& a = node.attributes;
  const bool clamps = kind_of(node.kind).has(Kind::clamps);
  const float zero = clamps ? std::clamp(0.0f, a.min, a.max) : 0.0f;
  set_output(node, shape(node.outputs[0]).size() - 1, rows, Vector<bool>(rows.size(), zero != 0));
}

// Every group keeps the same number of inputs and of outputs. A depthwise convolution loses whole groups; others lose
// the same rows of every group.
void ChannelFinder::tie_groups(const Node& node, Vector<uint32_t>* rows) {
  const size_t groups = shape(node.inputs[0]).back() / shape(node.inputs[1]).back(), out = rows->size() / groups;
  const bool depthwise = is_depthwise(graph_, node);
  const Vector<uint32_t>& read = ids_[at(node.inputs[0])].back();
  for (size_t i = 0; i < rows->size(); ++i) {
    const uint32_t of_input = read.empty() ? ChannelClasses::pinned : read[i / out];
    classes_.unite((*rows)[i], depthwise ? of_input : (*rows)[i % out]);
  }
}

// Columns go with what they read. A layer may only lose columns that read zeros.
void ChannelFinder::tie_columns(const Node& node) {
  const int x = node.inputs[0];
  Vector<uint32_t>& columns = ids_of_constant(node.inputs[1], shape(node.inputs[1]).size() - 1);
  const Vector<uint32_t>& read = ids_[at(x)].back();
  for (size_t i = 0; i < shape(x).back(); ++i) {
    const uint32_t column = columns[i % columns.size()];
    classes_.unite(column, read.empty() ? ChannelClasses::pinned : read[i]);
    if (is_dirty(x, i)) classes_.pin(column);
  }
}

// ---- operators that compute each channel alone --------------------------------------------------

// Runs the node on tensors of one element. `zero` and `dirty` have a bit for each input; what is neither is kept, and gets
// values that a divisor may have.
AfterZero ChannelFinder::probe_elements(const Node& node, uint64_t zero, uint64_t dirty) const {
  constexpr size_t count = std::size(probes);
  AfterZero result = AfterZero::zero;
  for (size_t trial = 0; trial < count * count; ++trial) {  // all pairs: no operator has three such inputs
    Graph scratch;
    size_t digits = trial;
    const Constant* const output = run_on(node, &scratch, [&](size_t i) {
      float value = 0;
      if ((zero >> i & 1) == 0) value = probes[std::exchange(digits, digits / count) % count];
      if (((zero | dirty) >> i & 1) == 0 && value == 0) value = 1;
      return add_constant(scratch, String(), QN_F32, Shape(shape(node.inputs[i]).size(), 1), &value);
    });
    if (output == nullptr) return AfterZero::unknown;
    result = worst(result, after_zero(static_cast<const float*>(output->data), output->bytes / sizeof(float)));
  }
  return result;
}

// The axis of all inputs that have one, counted from the last dimension, which is how broadcasting aligns them.
size_t ChannelFinder::aligned_axis(const Node& node) const {
  size_t axis = none;
  for (const int input : node.inputs) {
    if (input == no_tensor || is_constant(input) || !is_tracked(input)) continue;
    const size_t own = shape(input).size() - axis_of(input);
    if (axis != none && axis != own) return none;
    axis = own;
  }
  return axis;
}

// Unites the classes of inputs that have the output's size along the axis; returns a bit for each. An input that is
// broadcast there is kept.
uint64_t ChannelFinder::tie_inputs(const Node& node, size_t from_last, const Vector<uint32_t>& ids) {
  uint64_t tied = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const int input = node.inputs[i];
    if (input == no_tensor) continue;
    const size_t axis = shape(input).size() - from_last;
    if (shape(input).size() < from_last || shape(input)[axis] != ids.size()) {
      pin(input);
      continue;
    }
    if (is_constant(input) && is_tracked(input) && axis_of(input) != axis) pin(input);
    const Vector<uint32_t>& own = is_constant(input) ? ids_of_constant(input, axis) : ids_[at(input)][axis];
    for (size_t c = 0; c < ids.size(); ++c) classes_.unite(ids[c], own.empty() ? ChannelClasses::pinned : own[c]);
    tied |= uint64_t{1} << i;
  }
  return tied;
}

void ChannelFinder::elementwise(const Node& node) {
  constexpr size_t most_inputs = 64;
  const size_t from_last = aligned_axis(node);
  if (from_last == none || node.inputs.size() > most_inputs) return pin_inputs(node);
  const size_t axis = shape(node.outputs[0]).size() - from_last, channels = shape(node.outputs[0])[axis];
  Vector<uint32_t> ids(channels);
  for (uint32_t& id : ids) id = classes_.add();
  const uint64_t tied = tie_inputs(node, from_last, ids);

  Vector<bool> dirty(channels);
  std::map<uint64_t, AfterZero> known;  // by the inputs that are dirty
  for (size_t c = 0; c < channels; ++c) {
    uint64_t not_zero = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if ((tied >> i & 1) != 0 && is_dirty(node.inputs[i], c)) not_zero |= uint64_t{1} << i;
    }
    const auto [found, added] = known.try_emplace(not_zero);
    if (added) found->second = probe_elements(node, tied & ~not_zero, not_zero);
    if (tied == not_zero) found->second = worst(found->second, AfterZero::finite);
    dirty[c] = found->second != AfterZero::zero;
    if (found->second == AfterZero::unknown) classes_.pin(ids[c]);
  }
  set_output(node, axis, std::move(ids), std::move(dirty));
}

// Runs the node on one channel.
AfterZero ChannelFinder::probe_channel(const Node& node, bool zero) const {
  Shape one = shape(node.inputs[0]);
  one.front() = one.back() = 1;
  Vector<float> values(elements_of(one));
  for (size_t i = 0; !zero && i < values.size(); ++i) values[i] = probes[i % std::size(probes)];
  Graph scratch;
  const Constant* const output =
      run_on(node, &scratch, [&](size_t) { return add_constant(scratch, String(), QN_F32, one, values.data()); });
  if (output == nullptr) return AfterZero::unknown;
  return after_zero(static_cast<const float*>(output->data), output->bytes / sizeof(float));
}

void ChannelFinder::each_channel(const Node& node) {
  const int x = node.inputs[0];
  const size_t last = shape(x).size() - 1;
  if (!is_tracked(x) || axis_of(x) != last || last == 0 || node.inputs.size() != 1) return pin_inputs(node);
  const Vector<uint32_t>& ids = ids_[at(x)][last];
  Vector<bool> dirty = dirty_[at(x)];
  // Of a channel that is zero, and of a dirty one. That one stays dirty, whatever a few values become.
  AfterZero after[] = {AfterZero::unknown, AfterZero::unknown};
  if (contains(dirty, false)) after[false] = probe_channel(node, true);
  if (contains(dirty, true)) after[true] = worst(probe_channel(node, false), AfterZero::finite);
  for (size_t c = 0; c < ids.size(); ++c) {
    const AfterZero a = after[dirty[c]];
    if (a == AfterZero::unknown) classes_.pin(ids[c]);
    dirty[c] = a != AfterZero::zero;
  }
  set_output(node, shape(node.outputs[0]).size() - 1, ids, std::move(dirty));
}

// ---- operators that move elements ---------------------------------------------------------------

// An element's class as a number that the node itself can move: twice the class, and 1 if it is dirty.
constexpr uint32_t pinned_code = 2 * ChannelClasses::pinned;

// Runs the node on the classes of all elements. NULL: it is too large.
const Constant* ChannelFinder::moved_ids(const Node& node, Graph* scratch) {
  constexpr size_t most_elements = size_t{1} << 27;
  for (const int input : node.inputs) {
    if (elements_of(shape(input)) > most_elements) return nullptr;
  }
  if (elements_of(shape(node.outputs[0])) > most_elements) return nullptr;
  Node labels = node;
  // What a pad adds is kept, unless it is zero, as the channels around it then are.
  labels.attributes.alpha = node.attributes.alpha == 0 ? 0 : static_cast<float>(pinned_code);
  return run_on(labels, scratch, [&](size_t i) {
    const int input = node.inputs[i];
    const Shape& own = shape(input);
    Vector<uint32_t> codes(elements_of(own), pinned_code);
    if (!is_constant(input) && is_tracked(input)) {
      const size_t axis = axis_of(input), size = own[axis];
      const size_t inner = elements_of(Shape(own.begin() + axis + 1, own.end()));
      Vector<uint32_t> of_index(size);
      for (size_t c = 0; c < size; ++c) of_index[c] = 2 * classes_.find(ids_[at(input)][axis][c]) + is_dirty(input, c);
      for (size_t e = 0; e < codes.size(); ++e) codes[e] = of_index[e / inner % size];
    }
    return add_constant(*scratch, String(), QN_S32, own, codes.data());
  });
}

// Returns the largest dimension along which classes differ; the rank if they differ along none.
size_t varying_dimension(const Shape& shape, const Vector<uint32_t>& codes) {
  size_t best = shape.size(), step = codes.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    const size_t size = shape[d];
    step /= size;
    if (size == 1 || (best < shape.size() && size <= shape[best])) continue;
    for (size_t e = 0; e + step < codes.size(); ++e) {
      if (e / step % size == size - 1) continue;
      const uint32_t a = codes[e] / 2, b = codes[e + step] / 2;
      if (a == b || a == ChannelClasses::hole || b == ChannelClasses::hole) continue;
      best = d;
      break;
    }
  }
  return best;
}

// An index of the output's axis goes as a whole: all classes that the node has moved there become one.
void ChannelFinder::read_moved(const Node& node, const Vector<uint32_t>& codes) {
  const Shape& out = shape(node.outputs[0]);
  const size_t axis = varying_dimension(out, codes);
  if (axis == out.size()) {  // all that is left of the inputs goes together: it is kept
    for (const uint32_t code : codes) {
      if (code / 2 != ChannelClasses::hole) classes_.pin(code / 2);
    }
    return;
  }
  const size_t size = out[axis], inner = elements_of(Shape(out.begin() + axis + 1, out.end()));
  Vector<uint32_t> ids(size, ChannelClasses::hole);
  Vector<bool> dirty(size);
  for (size_t e = 0; e < codes.size(); ++e) {
    const size_t c = e / inner % size;
    const uint32_t id = codes[e] / 2;
    if (id == ChannelClasses::hole) continue;
    if (ids[c] != ChannelClasses::hole) classes_.unite(id, ids[c]);
    ids[c] = id;
    dirty[c] = dirty[c] || codes[e] % 2 != 0;
  }
  for (uint32_t& id : ids) id = id == ChannelClasses::hole ? ChannelClasses::pinned : id;
  set_output(node, axis, std::move(ids), std::move(dirty));
}

void ChannelFinder::move(const Node& node) {
  for (const int input : node.inputs) {
    if (is_constant(input)) pin(input);
  }
  if (!any_of(node.inputs, [&](int input) { return is_tracked(input); })) return;
  Graph scratch;
  const Constant* const moved = moved_ids(node, &scratch);
  if (moved == nullptr) return pin_inputs(node);
  const auto* const codes = static_cast<const uint32_t*>(moved->data);
  read_moved(node, Vector<uint32_t>(codes, codes + moved->bytes / sizeof(uint32_t)));
}

// ---- sets -------------------------------------------------------------------------------------

// Numbers the classes that have rows of layers. Returns the number of each class.
Vector<uint32_t> ChannelFinder::number_sets(Channels* channels) {
  Vector<uint32_t> numbers;
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[n];
    if (!kind_of(node.kind).has_weights()) continue;
    const Vector<uint32_t>& rows = ids_[at(node.inputs[1])][0];
    for (size_t o = 0; o < rows.size(); ++o) {
      const uint32_t id = classes_.find(rows[o]);
      if (id <= ChannelClasses::pinned) continue;
      if (id >= numbers.size()) numbers.resize(id + 1, kept_channel);
      if (numbers[id] == kept_channel) {
        numbers[id] = static_cast<uint32_t>(channels->sets.size());
        channels->sets.emplace_back();
      }
      channels->sets[numbers[id]].rows.push_back({static_cast<uint32_t>(n), static_cast<uint32_t>(o)});
    }
  }
  return numbers;
}

// Counts the indices of each set, and what goes with it.
void ChannelFinder::count_uses(Channels* channels) {
  Vector<uint64_t> positions(graph_.tensors.size());  // of weights: how often a run multiplies by each
  for (const Node& node : graph_.nodes) {
    if (!kind_of(node.kind).has_weights()) continue;
    positions[at(node.inputs[1])] += elements_of(shape(node.outputs[0])) / shape(node.inputs[1])[0];
  }
  for (uint32_t t = 0; t < channels->set_of.size(); ++t) {
    const Vector<Vector<uint32_t>>& dimensions = channels->set_of[t];
    std::map<uint32_t, double> left;  // the part of the tensor that is left without a set
    for (uint32_t d = 0; d < dimensions.size(); ++d) {
      std::map<uint32_t, uint32_t> counts;
      for (const uint32_t set : dimensions[d]) {
        if (set != kept_channel) ++counts[set];
      }
      for (const auto& [set, count] : counts) {
        channels->sets[set].uses.push_back({t, d, count});
        const double kept = 1 - static_cast<double>(count) / static_cast<double>(dimensions[d].size());
        left.try_emplace(set, 1).first->second *= kept;
      }
    }
    if (graph_.tensors[t].constant < 0) continue;
    const auto all = static_cast<double>(elements_of(graph_.tensors[t].shape));
    for (const auto& [set, part] : left) {
      const auto gone = static_cast<uint64_t>(std::llround(all * (1 - part)));
      channels->sets[set].weights += gone;
      channels->sets[set].macs += gone * positions[t];
    }
  }
}

void ChannelFinder::find(Channels* channels) {
  for (const Node& node : graph_.nodes) follow(node);
  for (const Port& port : graph_.outputs) pin(port.tensor);
  // A tensor keeps at least one channel.
  for (const Vector<Vector<uint32_t>>& dimensions : ids_) {
    for (const Vector<uint32_t>& ids : dimensions) {
      if (!ids.empty() && all_of(ids, [&](uint32_t id) { return classes_.find(id) == classes_.find(ids[0]); })) {
        classes_.pin(ids[0]);
      }
    }
  }
  const Vector<uint32_t> numbers = number_sets(channels);
  for (Vector<Vector<uint32_t>>& dimensions : ids_) {
    for (Vector<uint32_t>& ids : dimensions) {
      for (uint32_t& id : ids) {
        id = classes_.find(id);
        id = id < numbers.size() ? numbers[id] : kept_channel;
      }
      if (all_of(ids, [](uint32_t set) { return set == kept_channel; })) ids.clear();
    }
  }
  channels->set_of = std::move(ids_);
  count_uses(channels);
}

}  // namespace

qn_status find_channels(Graph& graph, Channels* channels) {
  QN_TRY(make_dense(graph));
  *channels = {};
  ChannelFinder(graph).find(channels);
  return QN_OK;
}

}  // namespace quern
