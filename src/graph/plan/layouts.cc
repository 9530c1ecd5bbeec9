// Tensors that an operator wants in one layout form a class; operators that take any pair of layouts (sparse
// convolution) stand between classes. Each class is switched to the other layout as long as that saves time, once
// starting from all NHWC and once from all pixel-blocked; the cheaper of the two is taken.
#include "graph/plan/layouts.h"

#include <array>
#include <cmath>
#include <numeric>

#include "base/needs.h"

namespace quern {
namespace {

constexpr int max_rounds = 20;  // in each round every class is tried; two or three rounds are enough
// Cost of each pixel-blocked side of an operator that cannot take these layouts: more than any real cost, and less for
// one such side than for two.
constexpr double impossible = 1e15;

class Assigner {
 public:
  Assigner(const Model& model, const ExecutionOptions& options, Graph& graph)
      : model_(model), options_(options), graph_(graph), class_(graph.tensors.size()), fixed_(graph.tensors.size()) {
    std::iota(class_.begin(), class_.end(), 0);
    for (Tensor& tensor : graph_.tensors) tensor.layout = QN_LAYOUT_NHWC, tensor.stride.clear();
  }

  void run() {
    find_classes();
    if (!find_costs()) return;
    Vector<bool> nhwc(class_.size()), blocked(class_.size());
    for (size_t c = 0; c < class_.size(); ++c) blocked[c] = may_change(c);
    const double a = improve(&nhwc), b = improve(&blocked);
    const Vector<bool>& best = b < a ? blocked : nhwc;
    for (size_t t = 0; t < class_.size(); ++t) {
      if (best[class_of(t)]) graph_.tensors[t].layout = QN_LAYOUT_PIXEL_BLOCKED;
    }
  }

 private:
  size_t class_of(size_t tensor) {
    while (class_[tensor] != tensor) tensor = class_[tensor] = class_[class_[tensor]];
    return tensor;
  }
  bool may_change(size_t c) { return class_of(c) == c && !fixed_[c] && !nodes_of_[c].empty(); }

  void unite(size_t a, size_t b) {
    a = class_of(a), b = class_of(b);
    class_[b] = a;
    fixed_[a] = fixed_[a] || fixed_[b];
  }

  // Calls the function for each tensor of data that the node reads or writes.
  template <class Each>
  void walk_tensors(const Node& node, Each&& each) const {
    for (const int output : node.outputs) each(at(output));
    for (const int input : node.inputs) {
      if (input != no_tensor && graph_.tensors[at(input)].constant < 0) each(at(input));
    }
  }

  void find_classes() {
    for (const Port& port : graph_.inputs) fixed_[at(port.tensor)] = true;
    for (const Port& port : graph_.outputs) fixed_[at(port.tensor)] = true;
    for (size_t t = 0; t < class_.size(); ++t) fixed_[t] = fixed_[t] || !may_be_blocked(graph_.tensors[t]);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const NodeOperator* op = is_view(graph_, node) ? nullptr : model_.operators[i].op.get();
      Layouts takes = op == nullptr ? Layouts::nhwc : op->layouts();
      if (takes == Layouts::any && node.outputs.size() > 1) takes = Layouts::nhwc;  // costs tell two classes apart
      walk_tensors(node, [&](size_t tensor) {
        const size_t c = class_of(tensor);
        if (takes == Layouts::nhwc) fixed_[c] = true;
        if (takes == Layouts::same) unite(at(node.outputs[0]), tensor);
      });
    }
  }

  // Finds the cost of each node for each layout of its first input and first output. Returns false if no tensor can be
  // blocked.
  bool find_costs() {
    nodes_of_.resize(class_.size());
    costs_.resize(graph_.nodes.size());
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const size_t out = class_of(at(node.outputs[0]));
      const bool reads = !node.inputs.empty() && node.inputs[0] != no_tensor;  // all kinds but registered ones do
      const size_t in = reads ? class_of(at(node.inputs[0])) : out;
      ends_.push_back({in, out});
      if (fixed_[in] && fixed_[out]) continue;
      for (const size_t c : {in, out}) {
        if (nodes_of_[c].empty() || nodes_of_[c].back() != i) nodes_of_[c].push_back(i);
      }
      for (const bool in_blocked : {false, true}) {
        for (const bool out_blocked : {false, true})
          costs_[i][in_blocked][out_blocked] = cost(i, in_blocked, out_blocked);
      }
      any = true;
    }
    return any;
  }

  double cost(size_t i, bool in_blocked, bool out_blocked) {
    const size_t in = ends_[i].in, out = ends_[i].out;
    const bool never =
        (in_blocked && fixed_[in]) || (out_blocked && fixed_[out]) || (in == out && in_blocked != out_blocked);
    if (never) return 0;
    const Node& node = graph_.nodes[i];
    // Every tensor of data belongs to one of the two classes.
    const auto set = [&](bool a, bool c) {
      walk_tensors(node, [&](size_t tensor) {
        const bool blocked = class_of(tensor) == out ? c : a;
        graph_.tensors[tensor].layout = blocked ? QN_LAYOUT_PIXEL_BLOCKED : QN_LAYOUT_NHWC;
      });
    };
    set(in_blocked, out_blocked);
    const double cycles = model_.operators[i].op->cost(graph_, node, options_);
    set(false, false);
    return std::isfinite(cycles) ? cycles : impossible * (1 + in_blocked + out_blocked);
  }

  double cost_of(size_t i, const Vector<bool>& blocked) const {
    return costs_[i][blocked[ends_[i].in]][blocked[ends_[i].out]];
  }

  // The cost of all nodes that read or write tensors of a class.
  double cost_around(size_t c, const Vector<bool>& blocked) const {
    double cycles = 0;
    for (const size_t i : nodes_of_[c]) cycles += cost_of(i, blocked);
    return cycles;
  }

  // Switches classes as long as that saves time. Returns the cost of all nodes in the end.
  double improve(Vector<bool>* blocked) {
    bool changed = true;
    for (int round = 0; changed && round < max_rounds; ++round) {
      changed = false;
      for (size_t c = 0; c < class_.size(); ++c) {
        if (!may_change(c)) continue;
        const double before = cost_around(c, *blocked);
        bool& is_blocked = (*blocked)[c];
        is_blocked = !is_blocked;
        if (cost_around(c, *blocked) < before) {
          changed = true;
        } else {
          is_blocked = !is_blocked;
        }
      }
    }
    double cycles = 0;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) cycles += cost_of(i, *blocked);
    return cycles;
  }

  struct Ends {
    size_t in, out;  // classes of the first input, of the first output
  };

  const Model& model_;
  const ExecutionOptions& options_;
  Graph& graph_;
  Vector<size_t> class_;  // per tensor: another tensor of its class, and so on up to one that names itself
  Vector<bool> fixed_;    // per class: it has to stay NHWC
  Vector<Ends> ends_;     // per node
  Vector<Vector<size_t>> nodes_of_;
  Vector<std::array<std::array<double, 2>, 2>> costs_;
};

}  // namespace

void assign_layouts(const Model& model, const ExecutionOptions& options, Graph& graph) {
  if (!has_sparse) return;  // without sparse kernels, pixel-blocked tensors save no time
  Assigner assigner(model, options, graph);
  // If the user asks for an algorithm that works with NHWC only, all tensors stay NHWC.
  if (options.algorithm == QN_ALGORITHM_AUTO || options.algorithm == QN_ALGORITHM_SPARSE) assigner.run();
}

}  // namespace quern
