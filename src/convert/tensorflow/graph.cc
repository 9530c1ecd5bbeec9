#include "convert/tensorflow/graph.h"

#include <algorithm>
#include <charconv>

#include "convert/common/error.h"

namespace quern::tensorflow {

using schema::NodeDef;

namespace {

constexpr size_t max_outputs_of_graph = 4096;  // that nobody has named

std::vector<TensorName> data_inputs(const NodeDef& node) {
  std::vector<TensorName> inputs;
  for (const std::string& input : node.input()) {
    if (!is_control(input)) inputs.push_back(tensor_name(input));
  }
  return inputs;
}

// How many outputs a node has that nobody reads. Those of other operators after the first are about training.
size_t output_count(const NodeDef& node) {
  if (node.op() == "NoOp" || node.op() == "Assert") return 0;
  if (node.op() == "CombinedNonMaxSuppression") return 4;
  if (node.op() == "IdentityN") return data_inputs(node).size();
  const bool calls = node.op().ends_with("PartitionedCall") || node.op().ends_with("If");
  if (calls || node.op().ends_with("While")) {
    const auto types = node.attr().find(calls ? "Tout" : "T");
    if (types != node.attr().end()) return static_cast<size_t>(types->second.list().type_size());
  }
  for (const char* attribute : {"num_split", "num"}) {
    const auto at = node.attr().find(attribute);
    if (at != node.attr().end() && at->second.i() > 0) {
      return static_cast<size_t>(std::min<int64_t>(at->second.i(), max_outputs));
    }
  }
  return 1;
}

}  // namespace

bool is_control(const std::string& input) { return !input.empty() && input[0] == '^'; }

TensorName tensor_name(const std::string& text) {
  TensorName name{text};
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return name;
  const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, name.output);
  if (begin == end || error != std::errc() || stop != end || name.output >= max_outputs) {
    throw Error("'" + text + "' names no tensor");
  }
  name.node.resize(colon);
  return name;
}

Graph::Graph(const schema::GraphDef& graph) : graph_(graph) {
  for (const NodeDef& node : graph.node()) {
    if (!nodes_.emplace(node.name(), &node).second) throw Error("two nodes have the name '" + node.name() + "'");
  }
}

const NodeDef* Graph::find(const std::string& node) const {
  const auto at = nodes_.find(node);
  return at == nodes_.end() ? nullptr : at->second;
}

std::vector<TensorName> Graph::unread() const {
  std::set<std::string> read;
  for (const NodeDef& node : graph_.node()) {
    for (const std::string& input : node.input()) {
      if (!is_control(input)) read.insert(tensor_name(input).node);
      if (is_control(input) && node.op() != "NoOp") read.insert(input.substr(1));
    }
  }
  std::vector<TensorName> unread;
  for (const NodeDef& node : graph_.node()) {
    if (read.count(node.name()) > 0 || node.op() == "Const" || node.op() == "Placeholder") continue;
    for (size_t i = 0; i < output_count(node); ++i) unread.push_back({node.name(), i});
    if (unread.size() > max_outputs_of_graph) throw Error("too many outputs: choose some with --outputs");
  }
  return unread;
}

// ---- groups of nodes --------------------------------------------------------------------------

// Returns the node whose first output is the tensor, if it is one of these operators and not cut off; null otherwise.
const NodeDef* Graph::maker(const TensorName& tensor, const Cut& cut, const std::set<std::string>& ops) const {
  const NodeDef* node = tensor.output == 0 && cut.count(tensor) == 0 ? find(tensor.node) : nullptr;
  return node != nullptr && ops.count(node->op()) > 0 ? node : nullptr;
}

void Graph::as_prelu(Step* step, const Cut& cut) const {
  if (step->inputs.size() != 3) return;
  const NodeDef* condition = maker(step->inputs[0], cut, {"Greater", "GreaterEqual"});
  const NodeDef* product = maker(step->inputs[2], cut, {"Mul"});
  if (condition == nullptr || product == nullptr) return;
  const TensorName x = step->inputs[1];
  const std::vector<TensorName> compared = data_inputs(*condition), factors = data_inputs(*product);
  if (compared.size() != 2 || factors.size() != 2 || !(compared[0] == x)) return;
  if (!(factors[0] == x) && !(factors[1] == x)) return;
  step->is_group = true;
  step->op = "PReLU";
  step->inputs = {x, factors[0] == x ? factors[1] : factors[0], compared[1]};
}

void Graph::as_dilated_convolution(Step* step, const Cut& cut) const {
  if (step->inputs.size() != 3) return;
  const NodeDef* convolution = maker(step->inputs[0], cut, {"Conv2D", "DepthwiseConv2dNative"});
  if (convolution == nullptr) return;
  const std::vector<TensorName> factors = data_inputs(*convolution);
  const NodeDef* to_batch = factors.size() == 2 ? maker(factors[0], cut, {"SpaceToBatchND"}) : nullptr;
  if (to_batch == nullptr) return;
  const std::vector<TensorName> divided = data_inputs(*to_batch);
  if (divided.size() != 3) return;
  step->is_group = true;
  step->op = "dilated " + convolution->op();
  step->attributes = convolution;
  step->inputs = {divided[0], factors[1], divided[1], divided[2], step->inputs[1], step->inputs[2]};
}

Step Graph::step_of(const NodeDef& node, const Cut& cut) const {
  Step step{&node, &node, node.op(), data_inputs(node)};
  if (step.op == "Select" || step.op == "SelectV2") as_prelu(&step, cut);
  if (step.op == "BatchToSpaceND") as_dilated_convolution(&step, cut);
  if (step.op == "NextIteration") step.inputs.clear();                         // see needed()
  if (step.op == "Switch" && step.inputs.size() == 2) step.inputs.pop_back();  // which branch, see shapes.cc
  return step;
}

// ---- order ------------------------------------------------------------------------------------

// Goes from the outputs to what they read. A node is done when all that it reads is done. What NextIteration reads
// belongs to the next round of a loop: it is imported, too, but not before.
std::vector<Step> Graph::needed(const std::vector<TensorName>& outputs, const std::set<TensorName>& cut) const {
  struct Visit {
    Step step;
    size_t next = 0;  // input
  };
  enum class State { begun, done };
  std::map<std::string, State> states;
  std::vector<Step> order;
  std::vector<Visit> stack;
  std::vector<TensorName> roots = outputs;
  const auto visit = [&](const TensorName& tensor) {
    if (cut.count(tensor) > 0) return;
    const NodeDef* node = find(tensor.node);
    if (node == nullptr) {
      const std::string reader = stack.empty() ? "" : ", which node '" + stack.back().step.node->name() + "' reads";
      throw Error("the graph has no tensor '" + tensor.text() + "'" + reader);
    }
    const auto [at, fresh] = states.try_emplace(tensor.node, State::begun);
    if (!fresh && at->second == State::begun) throw Error("node '" + tensor.node + "' depends on itself");
    if (!fresh) return;
    stack.push_back({step_of(*node, cut)});
    if (node->op() != "NextIteration") return;
    for (const TensorName& input : data_inputs(*node)) roots.push_back(input);
  };
  for (size_t i = 0; i < roots.size(); ++i) {
    const TensorName root = roots[i];
    visit(root);
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next < top.step.inputs.size()) {
        const TensorName input = top.step.inputs[top.next++];
        visit(input);
        continue;
      }
      states[top.step.node->name()] = State::done;
      order.push_back(std::move(top.step));
      stack.pop_back();
    }
  }
  return order;
}

}  // namespace quern::tensorflow
