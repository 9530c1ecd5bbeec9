#include "graph/ir/custom.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>

#include "base/status.h"
#include "graph/backend/backend.h"
#include "graph/ir/check.h"
#include "graph/pass/passes.h"

namespace quern {
namespace {

// An array that qn_register_kinds() was given.
struct Registered {
  const qn_kind* kinds;  // NULL: free
  size_t count;
  std::atomic<size_t> uses;  // of its kinds, by models
};
constinit Registered arrays[64] = {};

Registered* find_array(const qn_kind* kinds) {
  for (Registered& array : arrays) {
    if (array.kinds == kinds) return &array;
  }
  return nullptr;
}

constexpr size_t most_operands = 256, most_parameters = 256;

qn_status check_kind(const qn_kind& kind) {
  if (kind.struct_size != sizeof(qn_kind)) {
    return fail(QN_INVALID_ARGUMENT, "qn_register_kinds: struct_size is %zu, not %zu", kind.struct_size, sizeof kind);
  }
  if (kind.name == nullptr || kind.name[0] == '\0' || std::strlen(kind.name) > 63) {
    return fail(QN_INVALID_ARGUMENT, "qn_register_kinds: a name does not have 1 to 63 characters");
  }
  const auto refuse = [&](const char* what) {
    return fail(QN_INVALID_ARGUMENT, "qn_register_kinds: kind '%s' %s", kind.name, what);
  };
  for (size_t i = 0; i <= static_cast<size_t>(last_kind); ++i) {
    if (std::strcmp(kind.name, op_name(static_cast<OpKind>(i))) == 0) return refuse("is the library's own");
  }
  if (kind.min_inputs > kind.max_inputs || kind.max_inputs > most_operands) return refuse("has too many inputs");
  if (kind.max_outputs == 0 || kind.max_outputs > most_operands) return refuse("has no outputs, or too many");
  if (kind.infer == nullptr || kind.run == nullptr) return refuse("has no infer() or run()");
  if ((kind.create == nullptr) != (kind.release == nullptr) ||
      (kind.plan == nullptr) != (kind.release_plan == nullptr)) {
    return refuse("makes what it does not free, or the other way round");
  }
  if ((kind.flags & QN_KIND_SIZED_BY_RUN) != 0 && kind.plan != nullptr)
    return refuse("is sized by its runs, but has plans");
  return find_kind(kind.name) == nullptr ? QN_OK : refuse("is registered already");
}

const Parameter* find_parameter(const qn_node* node, const char* name) {
  for (const Parameter& parameter : reinterpret_cast<const Node*>(node)->parameters) {
    if (std::strcmp(parameter.name.c_str(), name) == 0) return &parameter;
  }
  return nullptr;
}

template <class T>
const T* list_of(const qn_node* node, const char* name, Vector<T> Parameter::*list, size_t* count) {
  const Parameter* const parameter = find_parameter(node, name);
  *count = parameter == nullptr ? 0 : (parameter->*list).size();
  return *count == 0 ? nullptr : (parameter->*list).data();
}

}  // namespace

const qn_kind* find_kind(const char* name) {
  for (const Registered& array : arrays) {
    for (size_t i = 0; i < array.count; ++i) {
      if (std::strcmp(array.kinds[i].name, name) == 0) return &array.kinds[i];
    }
  }
  return nullptr;
}

void count_use(const qn_kind& kind, int one) noexcept {
  Registered* array = arrays;
  while (&kind < array->kinds || &kind >= array->kinds + array->count) ++array;
  array->uses += static_cast<size_t>(one);
}

Vector<qn_operand> operands_of(const Graph& graph, const Vector<int>& tensors) {
  Vector<qn_operand> operands(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == no_tensor) continue;
    const Tensor& tensor = tensor_of(graph, tensors[i]);
    operands[i].tensor = describe(tensor);
    if (tensor.constant >= 0) operands[i].data = const_cast<void*>(graph.constants[at(tensor.constant)].data);
  }
  return operands;
}

bool is_sized_before_run(const Graph& graph, const Node& node) {
  if (node.kind == OpKind::branch || node.kind == OpKind::loop) return false;
  uint64_t values = 0;
  if (node.kind == OpKind::custom) {
    const qn_kind& kind = *find_kind(node.type.c_str());
    if ((kind.flags & QN_KIND_SIZED_BY_RUN) != 0) return false;
    values = kind.value_inputs;
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == no_tensor) continue;
    const Tensor& input = tensor_of(graph, node.inputs[i]);
    const bool value = i < 64 && (values >> i & 1) != 0;
    if (input.sized_by_run || (value && input.constant < 0)) return false;
  }
  return true;
}

Vector<Node> take_later_nodes(Graph& graph) {
  Vector<Node> first, later;
  for (Node& node : graph.nodes) {
    (tensor_of(graph, node.outputs[0]).sized_by_run ? later : first).push_back(std::move(node));
  }
  graph.nodes = std::move(first);
  return later;
}

qn_status check_custom(const Node& node) {
  const qn_kind* const kind = find_kind(node.type.c_str());
  if (kind == nullptr) return fail_node(node, "no kind of this name is registered; libquern-extra may have it");
  if (node.inputs.size() < kind->min_inputs || node.inputs.size() > kind->max_inputs) {
    return fail_node(node, "%zu inputs instead of %u to %u", node.inputs.size(), kind->min_inputs, kind->max_inputs);
  }
  for (size_t i = 0; i < kind->min_inputs; ++i) {
    if (node.inputs[i] == no_tensor) return fail_node(node, "input %zu is absent", i);
  }
  if (node.outputs.empty() || node.outputs.size() > kind->max_outputs) {
    return fail_node(node, "%zu outputs instead of 1 to %u", node.outputs.size(), kind->max_outputs);
  }
  if (node.parameters.size() > most_parameters) {
    return fail_node(node, "%zu parameters are too many", node.parameters.size());
  }
  for (const Parameter& parameter : node.parameters) {  // code that looks for a name stops at any of them
    if (find_parameter(shown(node), parameter.name.c_str()) == &parameter) continue;
    const auto index = static_cast<size_t>(&parameter - node.parameters.data());
    return fail_node(node, "parameter %zu has the name of another", index);
  }
  return QN_OK;
}

qn_status infer_custom(Graph& graph, const Node& node) {
  const qn_kind& kind = *find_kind(node.type.c_str());
  const Vector<qn_operand> inputs = operands_of(graph, node.inputs);
  Vector<qn_tensor> outputs(node.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].type = tensor_of(graph, node.outputs[i]).type;
  const qn_status status =
      call_host(kind.infer, shown(node), inputs.data(), inputs.size(), outputs.data(), outputs.size());
  if (status != QN_OK) return fail_within(status, "node '%.100s' (%s)", node.name.c_str(), kind.name);
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& output = graph.tensors[at(node.outputs[i])];
    if (outputs[i].type != output.type) {
      return fail_node(node, "output %zu is %s, not %s", i, qn_type_string(output.type),
                       qn_type_string(outputs[i].type));
    }
    if (outputs[i].rank > QN_MAX_RANK) return fail_node(node, "output %zu has rank %u", i, outputs[i].rank);
    output.shape.assign(outputs[i].shape, outputs[i].shape + outputs[i].rank);
    size_t bytes;
    if (!tensor_size(output.type, output.shape, &bytes)) return fail_node(node, "the size of output %zu overflows", i);
    QN_TRY(check_quantized(graph, at(node.outputs[i])));
  }
  return QN_OK;
}

}  // namespace quern

extern "C" {

const char* qn_node_name(const qn_node* node) { return reinterpret_cast<const quern::Node*>(node)->name.c_str(); }

const int64_t* qn_node_integers(const qn_node* node, const char* name, size_t* count) {
  return quern::list_of(node, name, &quern::Parameter::integers, count);
}

const float* qn_node_floats(const qn_node* node, const char* name, size_t* count) {
  return quern::list_of(node, name, &quern::Parameter::floats, count);
}

qn_status qn_fail(qn_status status, const char* message) { return quern::fail(status, "%s", message); }

qn_status qn_register_kinds(const qn_kind* kinds, size_t count) {
  return quern::guarded([=] {
    if (kinds == nullptr && count != 0) return quern::fail(QN_INVALID_ARGUMENT, "qn_register_kinds: kinds is NULL");
    if (count == 0) return QN_OK;
    quern::Registered* const array = quern::find_array(nullptr);
    if (array == nullptr) {
      return quern::fail(QN_INVALID_ARGUMENT, "qn_register_kinds: more than %zu arrays", std::size(quern::arrays));
    }
    // Each kind is registered once it is checked, so that the next one cannot have its name.
    for (array->kinds = kinds; array->count < count; ++array->count) {
      const qn_status status = quern::check_kind(kinds[array->count]);
      if (status == QN_OK) continue;
      array->kinds = nullptr, array->count = 0;
      return status;
    }
    return QN_OK;
  });
}

qn_status qn_unregister_kinds(const qn_kind* kinds) {
  return quern::guarded([=] {
    quern::Registered* const array = kinds == nullptr ? nullptr : quern::find_array(kinds);
    if (array == nullptr) {
      return quern::fail(QN_INVALID_ARGUMENT, "qn_unregister_kinds: kinds is not registered");
    }
    if (const size_t uses = array->uses; uses != 0) {
      return quern::fail(QN_INVALID_ARGUMENT, "qn_unregister_kinds: %zu nodes of models use kinds", uses);
    }
    array->kinds = nullptr, array->count = 0;
    return QN_OK;
  });
}

}  // extern "C"
