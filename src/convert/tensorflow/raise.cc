// What is raised, and how.
//
// Switch passes its first input on to one of its outputs: to 0 if its second input is false, to 1 if it is true. What
// reads the other output does not run. Merge passes on the one of its inputs that has run. So `p ? f(x) : g(x)` is
//
//   x -- Switch -:0-- g --+-- Merge --
//        (by p)  :1-- f --+
//
// and a variable of the loop `while (c(v)) v = f(v)` is
//
//   v -- Enter -- Merge -+-- Switch -------:0-- Exit --
//                   |    |   (by LoopCond) :1-- f -- NextIteration --+
//                   |    +-- c -- LoopCond                           |
//                   +------------------------------------------------+
//
// Enter leads into a frame, which is one loop, and Exit out of it. Enter of what the rounds only read has
// `is_constant`.
//
// Raiser goes from the ends of a structure, Exit and Merge, against the edges to where it begins. It copies the nodes
// between into functions, whose arguments stand for the beginnings, adds a node While or If that calls these functions,
// and lets the ends pass on what this node gives. The nodes of the structure stay where they are: they may be inputs
// and outputs of the model, and nobody imports what no output needs. If a structure lies within another one, the
// copying meets its end first, raises it, and copies the While or If.
//
// Whatever does not look exactly so is left alone (NoStructure): ends change last, when nothing can fail any more.
#include "convert/tensorflow/raise.h"

#include <algorithm>
#include <optional>
#include <set>

namespace quern::tensorflow {
namespace {

using schema::NodeDef;

// Bodies are copies of nodes: a file could ask for many, and for many of a large constant. So copies may take this many
// times the bytes of the graph and some more. Each node takes memory beside its bytes.
constexpr uint64_t copies_of_graph = 16, free_bytes = 8 << 20, overhead_of_node = 256;
constexpr size_t max_nesting = 16;

std::string frame_of(const NodeDef& enter) {
  const auto at = enter.attr().find("frame_name");
  return at == enter.attr().end() ? "" : at->second.s();
}
bool is_constant(const NodeDef& enter) {
  const auto at = enter.attr().find("is_constant");
  return at != enter.attr().end() && at->second.b();
}

// Thrown where a structure is not the expected one. What was begun for it is dropped; the next one is tried.
struct NoStructure {};

class Raiser {
 public:
  Raiser(schema::GraphDef* graph, Functions* functions)
      : graph_(*graph), functions_(*functions), bytes_left_(free_bytes + copies_of_graph * graph->ByteSizeLong()) {
    for (NodeDef& node : *graph_.mutable_node()) nodes_.emplace(node.name(), &node);
    for (NodeDef& node : *graph_.mutable_node()) {
      if (node.op() == "Enter") frames_[frame_of(node)].push_back(&node);
      for (const std::string& input : node.input()) {
        if (!is_control(input)) readers_[tensor_name(input).node].push_back(&node);
      }
    }
  }

  // Nodes are added while ends are raised. Protobuf leaves the others where they are in memory, but iterators may end.
  void raise_all() {
    std::vector<NodeDef*> ends;
    for (NodeDef& node : *graph_.mutable_node()) {
      if (node.op() == "Exit" || node.op() == "Merge") ends.push_back(&node);
    }
    for (NodeDef* const end : ends) try_raise(end);
  }

 private:
  NodeDef* find(const std::string& name) const {
    const auto at = nodes_.find(name);
    if (at == nodes_.end()) throw NoStructure{};
    return at->second;
  }
  // The node that makes an input of `node`. Some callers only want the exception if there is no such input.
  NodeDef* maker(const NodeDef& node, int input) const {
    if (input >= node.input_size() || is_control(node.input(input))) throw NoStructure{};
    return find(tensor_name(node.input(input)).node);
  }

  // Tries an end once. A cycle of a damaged file comes back to an end that is being tried: this does nothing then.
  void try_raise(NodeDef* end) {
    if (nesting_ == max_nesting || bytes_left_ == 0 || !tried_ends_.insert(end).second) return;
    ++nesting_;
    try {
      if (end->op() == "Exit") raise_loop(*end);
      if (end->op() == "Merge") raise_cond(end);
    } catch (const NoStructure&) {  // the importer reports the node
    }
    --nesting_;
  }

  // ---- bodies -----------------------------------------------------------------------------------

  // A function in the making. Its nodes keep their names, which mean others there than in the graph.
  struct Body {
    Function function;
    std::set<std::string> copied;  // nodes
  };

  void charge(const NodeDef& node) {
    const uint64_t bytes = node.ByteSizeLong() + overhead_of_node;
    if (bytes > bytes_left_) {
      bytes_left_ = 0;  // no more tries: what follows may be as large, and each try takes its time
      throw NoStructure{};
    }
    bytes_left_ -= bytes;
  }

  // Copies what the tensor needs into the body. `argument(tensor, its node)` names the argument that stands for a
  // tensor; "" if it is none. What has no way through a beginning, such as a constant, is copied too: it has the same
  // value outside. Ends and beginnings cannot be copied: if such a node is still one here, it belongs to no structure,
  // or to the one that surrounds the body, whose tensors must come through the beginnings. Control inputs are dropped:
  // only their order of effects is lost, and no operator of ours has effects.
  template <class Argument>
  void copy(Body* body, const TensorName& tensor, const Argument& argument) {
    std::vector<TensorName> left = {tensor};
    while (!left.empty()) {
      const TensorName next = left.back();
      left.pop_back();
      NodeDef* const node = find(next.node);
      if (!argument(next, *node).empty() || body->copied.count(next.node) > 0) continue;
      if (node->op() == "Exit" || node->op() == "Merge") try_raise(node);
      for (const char* op : {"Exit", "Merge", "Switch", "NextIteration", "Enter", "LoopCond", "Placeholder"}) {
        if (node->op() == op) throw NoStructure{};
      }
      charge(*node);
      body->copied.insert(next.node);
      NodeDef* const made = body->function.nodes.add_node();
      *made = *node;
      made->clear_input();
      for (const std::string& input : node->input()) {
        if (is_control(input)) continue;
        const TensorName from = tensor_name(input);
        const std::string name = argument(from, *find(from.node));
        made->add_input(name.empty() ? from.text() : name);
        left.push_back(from);
      }
    }
  }
  // Copies what the tensor needs, and makes it the next result of the function, which may be an argument itself.
  template <class Argument>
  void add_output(Body* body, const TensorName& tensor, const Argument& argument) {
    copy(body, tensor, argument);
    const std::string name = argument(tensor, *find(tensor.node));
    body->function.outputs.push_back(name.empty() ? tensor : TensorName{name, 0});
  }

  // Makes a function with so many arguments; returns its name.
  std::string add_function(Body body, size_t arguments, const std::string& name) {
    for (size_t i = 0; i < arguments; ++i) {
      NodeDef* const node = body.function.nodes.add_node();
      node->set_name(argument_name(i));
      node->set_op("argument");
      body.function.inputs.push_back({argument_name(i), 0});
    }
    if (!functions_.add(name, std::move(body.function))) throw NoStructure{};
    return name;
  }
  static std::string argument_name(size_t i) { return "argument " + std::to_string(i); }

  NodeDef* add_node(const std::string& name, const char* op) {
    if (nodes_.count(name) > 0) throw NoStructure{};
    NodeDef* const node = graph_.add_node();
    node->set_name(name);
    node->set_op(op);
    nodes_[name] = node;
    return node;
  }
  // The node, an end, only passes on a tensor from now on. It names what it read as control inputs: else nobody would
  // read these tensors, and they would become outputs of a model whose outputs are not chosen.
  static void pass_on(NodeDef* node, const TensorName& tensor) {
    std::vector<std::string> before(node->input().begin(), node->input().end());
    node->clear_input();
    node->clear_attr();
    node->set_op("Identity");
    node->add_input(tensor.text());
    for (const std::string& input : before) {
      node->add_input(is_control(input) ? input : std::string("^").append(tensor_name(input).node));
    }
  }

  // ---- loops ------------------------------------------------------------------------------------

  struct Variable {
    NodeDef *merge, *enter, *next;
  };
  struct Frame {
    std::string name;
    NodeDef* condition = nullptr;  // LoopCond
    std::vector<Variable> variables;
    std::vector<NodeDef*> constants;  // Enter
    std::vector<NodeDef*> exits;      // of each variable; null if nobody wants it after the loop
  };

  // The only reader of the node that is such an operator; null if there is none.
  NodeDef* reader(const NodeDef& node, const char* op) const {
    NodeDef* found = nullptr;
    const auto at = readers_.find(node.name());
    for (NodeDef* const candidate : at == readers_.end() ? std::vector<NodeDef*>() : at->second) {
      if (candidate->op() != op || candidate == found) continue;
      if (found != nullptr) throw NoStructure{};
      found = candidate;
    }
    return found;
  }

  // Goes from one Exit to the frame's name, and by this to all variables and constants.
  Frame frame_of_exit(const NodeDef& exit) {
    const NodeDef& its_switch = *maker(exit, 0);
    if (its_switch.op() != "Switch") throw NoStructure{};
    Frame frame;
    frame.condition = maker(its_switch, 1);
    const NodeDef& merge = *maker(its_switch, 0);
    if (frame.condition->op() != "LoopCond" || merge.op() != "Merge") throw NoStructure{};
    frame.name = frame_of(*maker(merge, 0));
    if (!tried_frames_.insert(frame.name).second) throw NoStructure{};  // not for each Exit of a frame that is none
    for (NodeDef* const node : frames_[frame.name]) {
      NodeDef* const begin = is_constant(*node) ? nullptr : reader(*node, "Merge");
      if (begin == nullptr) {
        frame.constants.push_back(node);
        continue;
      }
      frame.variables.push_back({begin, node, maker(*begin, 1)});
      if (maker(*begin, 0) != node || frame.variables.back().next->op() != "NextIteration") throw NoStructure{};
      NodeDef* const chosen = reader(*begin, "Switch");
      if (chosen == nullptr || maker(*chosen, 1) != frame.condition) continue;
      if (NodeDef* const end = reader(*chosen, "Exit")) {
        frame.exits.resize(frame.variables.size());
        frame.exits.back() = end;
      }
    }
    frame.exits.resize(frame.variables.size());
    return frame;
  }

  // While takes the variables and then the constants, and gives them all: so do the functions of its condition and
  // body. The former reads variables as Merge gives them. So may the latter, where a round has begun: Merge and the
  // output 1 of Switch have one value in it.
  void raise_loop(const NodeDef& exit) {
    const Frame frame = frame_of_exit(exit);
    for (NodeDef* const end : frame.exits) {
      if (end != nullptr) tried_ends_.insert(end);
    }
    const size_t count = frame.variables.size() + frame.constants.size();
    std::map<const NodeDef*, size_t> places;
    for (const Variable& variable : frame.variables) places.emplace(variable.merge, places.size());
    for (const NodeDef* const constant : frame.constants) places.emplace(constant, places.size());
    if (places.size() != count) throw NoStructure{};
    const auto argument = [&](const TensorName& tensor, const NodeDef& node) -> std::string {
      const bool goes_on = node.op() == "Switch" && tensor.output == 1 && maker(node, 1) == frame.condition;
      const auto at = places.find(goes_on ? maker(node, 0) : &node);
      if (at != places.end() && (goes_on || tensor.output == 0)) return argument_name(at->second);
      return "";
    };
    Body condition, body;
    maker(*frame.condition, 0);
    add_output(&condition, tensor_name(frame.condition->input(0)), argument);
    for (const Variable& variable : frame.variables) {
      maker(*variable.next, 0);
      add_output(&body, tensor_name(variable.next->input(0)), argument);
    }
    for (size_t i = frame.variables.size(); i < count; ++i) {
      body.function.outputs.push_back({argument_name(i), 0});
    }
    const std::string name = frame.name + "/loop";
    for (const Variable& variable : frame.variables) maker(*variable.enter, 0);
    for (const NodeDef* const constant : frame.constants) maker(*constant, 0);
    const std::string goes_on = add_function(std::move(condition), count, name + "/condition");
    const std::string round = add_function(std::move(body), count, name + "/body");
    NodeDef* const loop = add_node(name, "While");
    for (const Variable& variable : frame.variables) loop->add_input(variable.enter->input(0));
    for (const NodeDef* const constant : frame.constants) loop->add_input(constant->input(0));
    set_function(loop, "cond", goes_on);
    set_function(loop, "body", round);
    for (size_t i = 0; i < frame.exits.size(); ++i) {
      if (frame.exits[i] != nullptr) pass_on(frame.exits[i], {loop->name(), i});
    }
  }

  static void set_function(NodeDef* node, const char* attribute, const std::string& name) {
    (*node->mutable_attr())[attribute].mutable_func()->set_name(name);
  }

  // ---- conditionals -----------------------------------------------------------------------------

  // A node of a branch that reads nothing, such as a constant, would run in any case. So TensorFlow lets it wait for
  // the pivot of its branch, which runs with this branch only. That tells the condition where no Switch gives data.
  struct Pivot {
    TensorName condition;
    size_t side;  // of Merge's inputs: 0 if the condition is false, 1 if it is true
  };
  // A control input is a pivot if it is the Identity of what a Switch gives. That of a loop's rounds looks the same.
  std::optional<Pivot> pivot(const std::string& input) const {
    if (!is_control(input)) return std::nullopt;
    const NodeDef& node = *find(input.substr(1));
    if (node.op() != "Identity") return std::nullopt;
    const NodeDef& its_switch = *maker(node, 0);
    if (its_switch.op() != "Switch" || maker(its_switch, 1)->op() == "LoopCond") return std::nullopt;
    return Pivot{tensor_name(its_switch.input(1)), tensor_name(node.input(0)).output};
  }
  // The condition on which all nodes of the branches agree that wait for a pivot; nothing if no node does.
  std::optional<TensorName> condition_of_pivots(const Body (&branches)[2]) const {
    std::optional<TensorName> condition;
    for (const size_t side : {0, 1}) {
      for (const std::string& name : branches[side].copied) {
        for (const std::string& input : find(name)->input()) {
          const std::optional<Pivot> found = pivot(input);
          if (!found) continue;
          if (found->side != side || (condition && !(*condition == found->condition))) throw NoStructure{};
          condition = found->condition;
        }
      }
    }
    return condition;
  }

  // TensorFlow gives Merge first what is taken if the condition is false, then what is taken if it is true. The outputs
  // of the Switch nodes behind each prove it: all of them have to be those of one condition, and of the input's side.
  // What enters through Switch nodes becomes an argument of both branches, as a branch of If may leave one unread. Each
  // Merge gets an If of its own, though one conditional may have several.
  void raise_cond(NodeDef* merge) {
    const bool is_of_loop = maker(*merge, 0)->op() == "Enter" || maker(*merge, 1)->op() == "NextIteration";
    if (is_of_loop) throw NoStructure{};
    if (merge->input_size() > 2 && !is_control(merge->input(2))) throw NoStructure{};
    std::vector<TensorName> given;  // to Switch nodes
    std::map<TensorName, size_t> places;
    std::optional<TensorName> condition;
    Body branches[2];
    for (const size_t side : {0, 1}) {
      const auto argument = [&](const TensorName& tensor, const NodeDef& node) -> std::string {
        if (node.op() != "Switch") return "";
        maker(node, 0), maker(node, 1);
        const TensorName its_condition = tensor_name(node.input(1)), data = tensor_name(node.input(0));
        if (tensor.output != side || (condition && !(*condition == its_condition))) throw NoStructure{};
        condition = its_condition;
        const auto [at, fresh] = places.try_emplace(data, given.size());
        if (fresh) given.push_back(data);
        return argument_name(at->second);
      };
      add_output(&branches[side], tensor_name(merge->input(static_cast<int>(side))), argument);
    }
    if (!condition) condition = condition_of_pivots(branches);
    if (!condition) throw NoStructure{};  // which side is which?
    const std::string name = merge->name() + "/if";
    const std::string no = add_function(std::move(branches[0]), given.size(), name + "/else");
    const std::string yes = add_function(std::move(branches[1]), given.size(), name + "/then");
    NodeDef* const chosen = add_node(name, "If");
    chosen->add_input(condition->text());
    for (const TensorName& tensor : given) chosen->add_input(tensor.text());
    set_function(chosen, "else_branch", no);
    set_function(chosen, "then_branch", yes);
    pass_on(merge, {chosen->name(), 0});
  }

  schema::GraphDef& graph_;
  Functions& functions_;
  uint64_t bytes_left_;
  size_t nesting_ = 0;
  std::map<std::string, NodeDef*> nodes_;
  std::map<std::string, std::vector<NodeDef*>> frames_;  // Enter
  std::map<std::string, std::vector<NodeDef*>> readers_;
  std::set<const NodeDef*> tried_ends_;  // Exit, Merge
  std::set<std::string> tried_frames_;
};

}  // namespace

void raise_control_flow(schema::GraphDef* graph, Functions* functions) {
  const auto& nodes = graph->node();
  const auto ends = [](const NodeDef& node) { return node.op() == "Exit" || node.op() == "Merge"; };
  if (std::none_of(nodes.begin(), nodes.end(), ends)) return;
  Raiser(graph, functions).raise_all();
}

}  // namespace quern::tensorflow
