#include "convert/tensorflow/functions.h"

#include <algorithm>
#include <charconv>

#include "convert/common/layout.h"

namespace quern::tensorflow {
namespace {

using convert::Unsupported;
using schema::FunctionDef;
using schema::NodeDef;

// What functions call the outputs of operators, where an operator has several. All others have one, or one list.
const std::vector<std::string>* output_names(const std::string& op) {
  static const std::vector<std::string> norm = {
      "y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"};
  static const std::map<std::string, std::vector<std::string>> names = {
      {"CombinedNonMaxSuppression", {"nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections"}},
      {"FusedBatchNorm", norm},
      {"FusedBatchNormV2", norm},
      {"FusedBatchNormV3", norm},
      {"Merge", {"output", "value_index"}},
      {"NonMaxSuppressionV4", {"selected_indices", "valid_outputs"}},
      {"NonMaxSuppressionV5", {"selected_indices", "selected_scores", "valid_outputs"}},
      {"Switch", {"output_false", "output_true"}},
      {"TopK", {"values", "indices"}},
      {"TopKV2", {"values", "indices"}},
      {"Unique", {"y", "idx"}},
  };
  const auto at = names.find(op);
  return at == names.end() ? nullptr : &at->second;
}

// Makes "node:k" of an input of a function's node.
class Names {
 public:
  explicit Names(const FunctionDef& definition) : where_("function '" + definition.signature().name() + "'") {
    for (const NodeDef& node : definition.node_def()) operators_.emplace(node.name(), node.op());
  }

  std::string translated(const std::string& input) const {
    const size_t first = input.find(':');
    if (first == std::string::npos || input[0] == '^') return input;
    const size_t second = input.find(':', first + 1);
    const std::string node = input.substr(0, first), output = input.substr(first + 1, second - first - 1);
    size_t number = 0;
    const char *begin = input.data() + (second == std::string::npos ? input.size() : second + 1),
               *end = input.data() + input.size();
    const auto [stop, error] = std::from_chars(begin, end, number);
    const bool is_number = begin != end && error == std::errc() && stop == end;
    if (!is_number || number >= max_outputs) throw Error(where_ + ": '" + input + "' names no tensor");
    return node + ":" + std::to_string(number + place_of(node, output, input));
  }

 private:
  size_t place_of(const std::string& node, const std::string& output, const std::string& input) const {
    const auto at = operators_.find(node);
    const std::vector<std::string>* names = at == operators_.end() ? nullptr : output_names(at->second);
    if (names == nullptr) return 0;
    const auto place = std::find(names->begin(), names->end(), output);
    if (place == names->end()) throw Error(where_ + ": '" + input + "' names no tensor");
    return static_cast<size_t>(place - names->begin());
  }

  const std::string where_;
  std::map<std::string, std::string> operators_;
};

Function function_of(const FunctionDef& definition) {
  const Names names(definition);
  Function function;
  for (const auto& argument : definition.signature().input_arg()) {
    if (argument.has_number_attr() || argument.has_type_list_attr()) throw Unsupported{"a function of lists"};
    NodeDef* const node = function.nodes.add_node();
    node->set_name(argument.name());
    node->set_op("argument");
    function.inputs.push_back({argument.name(), 0});
  }
  for (const NodeDef& from : definition.node_def()) {
    NodeDef* const node = function.nodes.add_node();
    *node = from;
    for (std::string& input : *node->mutable_input()) input = names.translated(input);
  }
  for (const auto& argument : definition.signature().output_arg()) {
    const auto at = definition.ret().find(argument.name());
    if (at == definition.ret().end()) {
      throw Error("function '" + definition.signature().name() + "' does not return '" + argument.name() + "'");
    }
    function.outputs.push_back(tensor_name(names.translated(at->second)));
  }
  return function;
}

}  // namespace

Functions::Functions(const schema::FunctionDefLibrary& library) {
  for (const FunctionDef& definition : library.function()) {
    if (!definitions_.emplace(definition.signature().name(), &definition).second) {
      throw Error("two functions have the name '" + definition.signature().name() + "'");
    }
  }
}

const Function& Functions::find(const std::string& name) {
  if (const auto at = made_.find(name); at != made_.end()) return at->second;
  const auto at = definitions_.find(name);
  if (at == definitions_.end()) throw Error("unknown function '" + name + "'");
  Function& function = made_.emplace(name, function_of(*at->second)).first->second;
  function.graph = std::make_unique<const Graph>(function.nodes);
  return function;
}

bool Functions::add(const std::string& name, Function function) {
  if (definitions_.count(name) > 0) return false;
  const auto [at, fresh] = made_.emplace(name, std::move(function));
  if (fresh) at->second.graph = std::make_unique<const Graph>(at->second.nodes);
  return fresh;
}

}  // namespace quern::tensorflow
