#include "convert/tflite/variables.h"

#include <algorithm>

namespace quern::tflite {
namespace {

// An operand of an operator that has at least so many.
int32_t operand(const flatbuffers::Vector<int32_t>* list, unsigned index) {
  if (list == nullptr || index >= list->size()) throw Error("an operator on a variable lacks an operand");
  return list->Get(index);
}

size_t checked(int32_t index, size_t count) {
  if (index < 0 || static_cast<size_t>(index) >= count) throw Error(beyond("tensor", count, index));
  return static_cast<size_t>(index);
}

// The name of the operator's kind; "" if it is none on variables.
std::string kind_of(const schema::Model& model, const schema::Operator& op) {
  if (model.operator_codes() == nullptr || op.opcode_index() >= model.operator_codes()->size()) return "";
  const schema::OperatorCode& code = *model.operator_codes()->Get(op.opcode_index());
  const char* const name = operator_name(std::max<int32_t>(code.old_code(), code.code()));
  return name == nullptr ? "" : name;
}

}  // namespace

bool Variables::concern(const schema::Operator& op) const {
  const std::string kind = kind_of(model_, op);
  return kind == "VAR_HANDLE" || kind == "READ_VARIABLE" || kind == "ASSIGN_VARIABLE" || kind == "CALL_ONCE";
}

std::string Variables::name_of(const schema::Operator& op) {
  const auto* options = op.options_as<schema::VarHandleOptions>();
  if (options == nullptr) throw Error("a variable has no options");
  const auto text = [this](const flatbuffers::String* s) {
    if (s != nullptr) builder_.charge(s->size());
    return s == nullptr ? std::string() : s->str();
  };
  const std::string container = text(options->container()), name = text(options->shared_name());
  return container.empty() ? name : container + "/" + name;
}

Variables::Variable& Variables::find(const Handles& handles, int32_t handle, Wiring& wiring) {
  const auto at = handles.find(handle);
  if (at == handles.end()) throw Error("expected a variable, got tensor " + std::to_string(handle));
  const auto [variable, fresh] = variables_.try_emplace(at->second);
  if (fresh) {
    const Wire wire = wiring.mention("variable " + at->second);
    variable->second = {at->second, wire, wire};
  }
  return variable->second;
}

void Variables::follow(const schema::Operator& op, Wiring& wiring, Wires& wires) {
  const std::string type = kind_of(model_, op);
  if (type == "VAR_HANDLE") {
    handles_[operand(op.outputs(), 0)] = name_of(op);
  } else if (type == "READ_VARIABLE") {
    const int32_t to = operand(op.outputs(), 0);
    Variable& variable = find(handles_, operand(op.inputs(), 0), wiring);
    variable.tensor = to;
    wires[checked(to, wires.size())] = variable.now;
  } else if (type == "ASSIGN_VARIABLE") {
    const int32_t from = operand(op.inputs(), 1);
    Variable& variable = find(handles_, operand(op.inputs(), 0), wiring);
    if (variable.tensor < 0) variable.tensor = from;
    variable.now = wires[checked(from, wires.size())];
    variable.is_assigned = true;
  } else {
    const auto* call = op.options_as<schema::CallOnceOptions>();
    if (call == nullptr) throw Error("CALL_ONCE names no graph");
    initialize(*call, wiring);
  }
}

void Variables::keep(const std::string& name, int32_t tensor, Wire begin, Wire next) {
  const auto [at, fresh] = variables_.try_emplace(name, Variable{name, begin, next, tensor, nullptr, true});
  if (fresh) return;
  if (at->second.tensor != tensor) throw Error("two variables have the name '" + name + "'");
  at->second.now = next;
}

// Reads the graph that runs before the first run: it may assign constants to variables, no more.
void Variables::initialize(const schema::CallOnceOptions& call, Wiring& wiring) {
  const auto graphs = static_cast<size_t>(model_.subgraphs()->size());
  const int32_t index = call.init_subgraph_index();
  if (index <= 0 || static_cast<size_t>(index) >= graphs) throw Error("CALL_ONCE names a graph that does not exist");
  const schema::SubGraph& graph = *model_.subgraphs()->Get(static_cast<unsigned>(index));
  const size_t tensors = graph.tensors() == nullptr ? 0 : graph.tensors()->size();
  Handles handles;
  for (unsigned i = 0; graph.operators() != nullptr && i < graph.operators()->size(); ++i) {
    const schema::Operator& op = *graph.operators()->Get(i);
    const std::string kind = kind_of(model_, op);
    if (kind == "VAR_HANDLE") {
      handles[operand(op.outputs(), 0)] = name_of(op);
    } else if (kind == "ASSIGN_VARIABLE") {
      const size_t from = checked(operand(op.inputs(), 1), tensors);
      find(handles, operand(op.inputs(), 0), wiring).initial = graph.tensors()->Get(static_cast<unsigned>(from));
    } else {
      throw Unsupported{"its graph computes: " + (kind.empty() ? "an unknown operator" : kind)};
    }
  }
}

std::vector<Variables::Variable> Variables::used() const {
  std::vector<Variable> used;
  for (const auto& [name, variable] : variables_) {
    if (variable.tensor >= 0) used.push_back(variable);
  }
  return used;
}

}  // namespace quern::tflite
