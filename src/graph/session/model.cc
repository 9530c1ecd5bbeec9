#include "graph/session/model.h"

#include <cstdio>
#include <cstring>

#include "base/status.h"
#include "graph/file/file_header.h"
#include "graph/file/format.h"
#include "graph/file/mapped_file.h"
#include "graph/ir/rules.h"
#include "graph/pass/passes.h"

namespace quern {
namespace {

qn_status make_operator(const Graph& graph, const Node& node, qn_weights_cache* cache, ModelOperator* made) {
  if (kind_of(node.kind).has(Kind::view)) return QN_OK;
  made->backend = find_backend(graph, node);
  if (made->backend == nullptr) return fail_node(node, "no backend runs it");
  return name_culprit(made->backend->create(graph, node, cache, &made->op), node);
}

qn_status make_operators(Model& model, qn_weights_cache* cache) {
  for (const Node& node : model.graph.nodes) {
    QN_TRY(make_operator(model.graph, node, cache, &model.operators.emplace_back()));
  }
  return QN_OK;
}

// ---- nodes that run after the others

#ifndef QN_SMALL  // has_subgraphs
// Leaves the planned graph the states whose outputs it computes.
void find_states(Model& model) {
  model.states = std::move(model.graph.states);
  model.graph.states = {};
  for (const auto [input, output] : model.states) {
    const size_t planned = model.output_at[output];
    if (planned != Model::nowhere) model.graph.states.push_back({input, static_cast<uint32_t>(planned)});
  }
}
#else
void find_states(Model&) {}
#endif

// Makes the outputs of the planned graph: those of the model that it computes, then what the later nodes read.
void find_outputs(Model& model) {
  Graph& graph = model.graph;
  Vector<bool> given(graph.tensors.size());  // the later nodes get it or write it
  for (const Node& node : model.later.nodes) {
    for (const int output : node.outputs) given[at(output)] = true;
  }
  model.outputs = graph.outputs;
  Vector<Port> planned;
  for (const Port& port : model.outputs) {
    const bool later = given[at(port.tensor)];
    model.output_at.push_back(later ? Model::nowhere : planned.size());
    if (!later) planned.push_back(port);
  }
  for (const Node& node : model.later.nodes) {
    for (const int input : node.inputs) {
      if (input == no_tensor || given[at(input)] || tensor_of(graph, input).constant >= 0) continue;
      given[at(input)] = true;
      model.later.reads.push_back(input);
      Port& port = planned.emplace_back();
      port.tensor = input;
      port.type = tensor_of(graph, input).type;
    }
  }
  graph.outputs = std::move(planned);
}

#ifndef QN_SMALL  // has_subgraphs
qn_status make_children(Model& model, const Node& node, const qn_model_options& options) {
  Vector<std::unique_ptr<qn_model>>& children = model.later.children.emplace_back();
  for (const uint32_t index : node.subgraphs) {
    qn_model* made;
    QN_TRY(name_culprit(make_model(model.graph.subgraphs[index], &options, &made), node));
    children.emplace_back(made);
  }
  return QN_OK;
}
#else
qn_status make_children(Model&, const Node&, const qn_model_options&) { return QN_OK; }
#endif

qn_status make_later(Model& model, const qn_model_options& options) {
  for (const Node& node : model.later.nodes) {
    model.later.kinds.push_back(node.kind == OpKind::custom ? find_kind(node.type.c_str()) : nullptr);
    ModelOperator& made = model.later.operators.emplace_back();
    const bool runs_graphs = node.kind == OpKind::branch || node.kind == OpKind::loop;
    if (!runs_graphs) QN_TRY(make_operator(model.graph, node, options.cache, &made));
    QN_TRY(make_children(model, node, options));
  }
  return QN_OK;
}

qn_status check_ports(const Graph& graph) {
  for (const Vector<Port>* ports : {&graph.inputs, &graph.outputs}) {
    for (const Port& port : *ports) {
      if (graph.tensors[static_cast<size_t>(port.tensor)].name.empty()) {
        return fail(QN_BAD_MODEL, "an input or output has no name");
      }
    }
  }
  return QN_OK;
}

// Loads the image of a .qn file at an aligned address. `mapped`: the image is a mapped file, see Constant.
qn_status load(const void* data, size_t size, Shared<const void> owner, bool mapped, const char* who,
               const qn_model_options* options, qn_model** model) {
  const MemoryLimit limit(memory_limit(size));
  Graph graph;
  QN_TRY(read_model(data, size, owner, who, &graph));
  // Constants that were decoded or converted have memory of their own.
  for (Constant& constant : graph.constants) constant.mapped = mapped && constant.owner == owner;
  return make_model(std::move(graph), options, model);
}

qn_status load_copy(const void* data, size_t size, const char* who, const qn_model_options* options, qn_model** model) {
  auto copy = make_shared<Buffer>(size);
  std::memcpy(copy->data(), data, size);
  return load(copy->data(), size, copy, false, who, options, model);
}

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % segment_alignment == 0; }

qn_status find_port(const qn_model* model, const Vector<Port> Graph::*ports, size_t index, const char* who,
                    const Port** port) {
  if (model == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: model is NULL", who);
  const Vector<Port>& list = ports == &Graph::outputs ? model->impl->outputs : model->impl->graph.inputs;
  if (index >= list.size()) return fail(QN_INVALID_ARGUMENT, "%s: index %zu of %zu", who, index, list.size());
  *port = &list[index];
  return QN_OK;
}

qn_status get_port(const qn_model* model, const Vector<Port> Graph::*ports, size_t index, qn_port* port,
                   const char* who) {
  const Port* from;
  QN_TRY(find_port(model, ports, index, who, &from));
  const Tensor& tensor = model->impl->graph.tensors[static_cast<size_t>(from->tensor)];
  qn_port result = {0, tensor.name.c_str(), describe_shown(tensor)};
  result.tensor.type = from->type;
  return give_struct(who, port, &result, sizeof result);
}

}  // namespace

qn_status make_model(Graph graph, const qn_model_options* user_options, qn_model** model) {
  qn_model_options options;
  QN_TRY(read_options("qn_model_options", user_options, qn_model_options_init, &options));
  QN_TRY(check_graph(graph));
  QN_TRY(infer_shapes(graph));
  QN_TRY(check_ports(graph));
  auto made = make_shared<Model>();
  if (has_kinds) made->later.nodes = take_later_nodes(graph);
  made->graph = std::move(graph);
  find_outputs(*made);
  find_states(*made);
  if (options.cache == nullptr) {
    QN_TRY(qn_weights_cache_create(&options.cache));
    made->own_cache.reset(options.cache);
  }
  QN_TRY(make_operators(*made, options.cache));
  if (has_kinds) QN_TRY(make_later(*made, options));
  if (has_backends && between_backends != nullptr) between_backends(*made);
  *model = new qn_model(std::move(made));
  return QN_OK;
}

qn_status name_culprit(qn_status status, const Node& node) {
  return status == QN_OK ? QN_OK : fail_within(status, "node '%.100s'", node.name.c_str());
}

qn_tensor describe_shown(const Tensor& tensor) {
  qn_tensor result = describe(tensor);
  if (tensor.sized_by_run) result.rank = 1;  // of no elements
  return result;
}

const Graph& model_graph(const qn_model& model) { return model.impl->graph; }

}  // namespace quern

using quern::fail;

extern "C" {

void qn_model_options_init_sized(qn_model_options* options, size_t size) {
  qn_model_options p = {};
  quern::init_struct(options, size, p);
}

qn_status qn_model_load_file(const char* path, const qn_model_options* options, qn_model** model) {
  return quern::guarded([=] {
    if (path == nullptr || model == nullptr) {
      return fail(QN_INVALID_ARGUMENT, "qn_model_load_file: an argument is NULL");
    }
    quern::Shared<const quern::MappedFile> file;
    QN_TRY(quern::map_file(path, &file));
    return quern::load(file->data(), file->size(), file, true, path, options, model);
  });
}

qn_status qn_model_load_fd(int fd, uint64_t offset, uint64_t length, const qn_model_options* options,
                           qn_model** model) {
  return quern::guarded([=] {
    if (model == nullptr) return fail(QN_INVALID_ARGUMENT, "qn_model_load_fd: model is NULL");
    if (fd < 0) return fail(QN_INVALID_ARGUMENT, "qn_model_load_fd: the descriptor is %d", fd);
    char who[64];
    std::snprintf(who, sizeof who, "qn_model_load_fd: descriptor %d", fd);
    quern::Shared<const quern::MappedFile> file;
    QN_TRY(quern::map_part(fd, offset, length, who, &file));
    if (!quern::is_aligned(file->data())) return quern::load_copy(file->data(), file->size(), who, options, model);
    return quern::load(file->data(), file->size(), file, true, who, options, model);
  });
}

qn_status qn_model_load_memory(const void* data, size_t size, const qn_model_options* options, qn_model** model) {
  return quern::guarded([=] {
    if (data == nullptr || model == nullptr) {
      return fail(QN_INVALID_ARGUMENT, "qn_model_load_memory: an argument is NULL");
    }
    const char* const who = "qn_model_load_memory";
    if (!quern::is_aligned(data)) return quern::load_copy(data, size, who, options, model);
    return quern::load(data, size, nullptr, false, who, options, model);
  });
}

void qn_model_release(qn_model* model) { delete model; }

size_t qn_model_input_count(const qn_model* model) { return model == nullptr ? 0 : model->impl->graph.inputs.size(); }
size_t qn_model_output_count(const qn_model* model) { return model == nullptr ? 0 : model->impl->outputs.size(); }

size_t qn_model_state_output([[maybe_unused]] const qn_model* model, [[maybe_unused]] size_t input) {
#ifndef QN_SMALL  // has_subgraphs
  if (model == nullptr) return QN_NO_STATE;
  for (const quern::State& state : model->impl->states) {
    if (state.input == input) return state.output;
  }
#endif
  return QN_NO_STATE;
}

qn_status qn_model_input(const qn_model* model, size_t index, qn_port* port) {
  return quern::guarded([=] { return quern::get_port(model, &quern::Graph::inputs, index, port, "qn_model_input"); });
}

qn_status qn_model_output(const qn_model* model, size_t index, qn_port* port) {
  return quern::guarded([=] { return quern::get_port(model, &quern::Graph::outputs, index, port, "qn_model_output"); });
}

qn_status qn_model_preprocessing(const qn_model* model, size_t index, qn_preprocessing* preprocessing) {
  return quern::guarded([=] {
    constexpr const char* who = "qn_model_preprocessing";
    const quern::Port* port;
    QN_TRY(quern::find_port(model, &quern::Graph::inputs, index, who, &port));
    qn_preprocessing result = port->preprocessing;
    return quern::give_struct(who, preprocessing, &result, sizeof result);
  });
}

}  // extern "C"
