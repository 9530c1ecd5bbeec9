#include "convert/sizes.h"

#include <algorithm>

#include "graph/pass/passes.h"

namespace quern {
namespace {

using Size = ImportOptions::Input;

std::string name_of(const Graph& graph, const Port& port) { return tensor_of(graph, port.tensor).name.c_str(); }

// Appends a name to a list in a message.
void append(const std::string& name, std::string* list) {
  list->append(list->empty() ? "'" : ", '").append(name + "'");
}

// The dimensions of inputs that have names, each name once.
std::vector<std::string> dimension_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Port& port : graph.inputs) {
    for (const String& dimension : port.dimensions) {
      const std::string name = dimension.c_str();
      if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

// Says what could have been meant by a name that is none.
[[noreturn]] void fail_to_find(const Graph& graph, const Size& size) {
  std::string inputs, dimensions;
  for (const Port& port : graph.inputs) append(name_of(graph, port), &inputs);
  for (const std::string& name : dimension_names(graph)) append(name, &dimensions);
  std::string expected = graph.inputs.empty() ? "a model with inputs" : "the name of an input: " + inputs;
  if (!dimensions.empty()) expected += "; or of a dimension: " + dimensions;
  throw Error("a shape is for no input: expected " + expected + "; got " +
              (size.name.empty() ? "no name" : "'" + size.name + "'"));
}

std::string text_of_shape(const std::vector<size_t>& shape) {
  std::string text;
  for (const size_t d : shape) text.append(text.empty() ? "" : "x").append(std::to_string(d));
  return text;
}

// Checks that a size is for an input, and has its rank, or for a dimension.
void check_size(const Graph& graph, const Size& size) {
  const auto is_this = [&](const Port& port) { return name_of(graph, port) == size.name; };
  auto input = std::find_if(graph.inputs.begin(), graph.inputs.end(), is_this);
  if (size.name.empty() && graph.inputs.size() == 1) input = graph.inputs.begin();
  if (input != graph.inputs.end()) {
    const size_t rank = tensor_of(graph, input->tensor).shape.size();
    if (size.shape.size() == rank) return;
    throw Error("input '" + name_of(graph, *input) + "': expected a shape of " + std::to_string(rank) +
                " dimensions, got " + std::to_string(size.shape.size()) + " (" + text_of_shape(size.shape) + ")");
  }
  const std::vector<std::string> names = dimension_names(graph);
  if (std::find(names.begin(), names.end(), size.name) == names.end()) fail_to_find(graph, size);
  if (size.shape.size() != 1) {
    throw Error("dimension '" + size.name + "': expected one size, got " + text_of_shape(size.shape));
  }
}

// Gives one input its sizes. Describes in `changed` the sizes that the source model does not leave open.
void set_input(const std::vector<Size>& sizes, Graph* graph, Port* port, std::string* changed) {
  Tensor& tensor = graph->tensors[at(port->tensor)];
  const std::string name = tensor.name.c_str();
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    const size_t* const size = asked_size(sizes, name, tensor.shape.size(), d, dimension_name(*port, d));
    if (size == nullptr) continue;
    const bool open = (port->open >> d & 1) != 0;
    const std::string where = "input '" + name + "': dimension " + std::to_string(d);
    if (*size != tensor.shape[d] && (port->fixed >> d & 1) != 0) {
      throw Error(where + " must be " + std::to_string(tensor.shape[d]) + ", got " + std::to_string(*size) +
                  ": node '" + port->fixed_by.c_str() + "' of the source was converted for this size alone");
    }
    if (*size != tensor.shape[d] && !open) {
      *changed +=
          where + " is " + std::to_string(tensor.shape[d]) + " in the model, got " + std::to_string(*size) + "; ";
    }
    tensor.shape[d] = *size;
    port->open = static_cast<uint8_t>(port->open & ~(1u << d));
  }
  size_t bytes;
  if (!tensor_size(tensor.type, tensor.shape, &bytes)) throw Error("input '" + name + "' is too large");
}

}  // namespace

const size_t* asked_size(const std::vector<ImportOptions::Input>& sizes, const std::string& input, size_t rank,
                         size_t d, const std::string& dimension) {
  for (size_t i = sizes.size(); i-- > 0;) {  // the last one counts
    const Size& size = sizes[i];
    if ((size.name.empty() || size.name == input) && size.shape.size() == rank) return &size.shape[d];
    if (!dimension.empty() && size.name == dimension && size.shape.size() == 1) return &size.shape[0];
  }
  return nullptr;
}

const std::vector<size_t>* asked_shape(const std::vector<ImportOptions::Input>& sizes, const std::string& input) {
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i].name.empty() || sizes[i].name == input) return &sizes[i].shape;
  }
  return nullptr;
}

std::string dimension_name(const Port& port, size_t d) {
  return d < port.dimensions.size() ? port.dimensions[d].c_str() : "";
}

uint8_t asked_dimensions(const std::vector<ImportOptions::Input>& sizes, const Graph& graph, const Port& input) {
  const size_t rank = tensor_of(graph, input.tensor).shape.size();
  uint8_t asked = 0;
  for (size_t d = 0; d < rank; ++d) {
    if (asked_size(sizes, name_of(graph, input), rank, d, dimension_name(input, d)) != nullptr) {
      asked = static_cast<uint8_t>(asked | 1u << d);
    }
  }
  return asked;
}

void set_sizes(const std::vector<ImportOptions::Input>& sizes, Graph* graph) {
  if (sizes.empty()) return;
  for (const Size& size : sizes) check_size(*graph, size);
  std::string changed;
  for (Port& port : graph->inputs) set_input(sizes, graph, &port, &changed);
  if (infer_shapes(*graph) != QN_OK) throw Error(changed + qn_last_message());
}

}  // namespace quern
