#include "graph/model.h"

#include <cstring>

#include "base/status.h"
#include "graph/file_header.h"
#include "graph/format.h"
#include "graph/mapped_file.h"
#include "graph/passes.h"
#include "graph/rules.h"

namespace quern {
namespace {

qn_status make_operators(Model& model, qn_weights_cache* cache) {
  for (const Node& node : model.graph.nodes) {
    ModelOperator& made = model.operators.emplace_back();
    if (node.kind == OpKind::reshape) continue;
    made.backend = find_backend(model.graph, node);
    if (made.backend == nullptr) return fail_node(node, "no backend runs it");
    QN_TRY(name_culprit(made.backend->create(model.graph, node, cache, &made.op), node));
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

qn_status get_port(const qn_model* model, const Vector<Port> Graph::*ports, size_t index, qn_port* port,
                   const char* who) {
  if (model == nullptr || port == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: an argument is NULL", who);
  const Graph& graph = model->impl->graph;
  if (index >= (graph.*ports).size()) {
    return fail(QN_INVALID_ARGUMENT, "%s: index %zu of %zu", who, index, (graph.*ports).size());
  }
  const Port& from = (graph.*ports)[index];
  const Tensor& tensor = graph.tensors[static_cast<size_t>(from.tensor)];
  *port = {tensor.name.c_str(), describe(tensor), from.preprocessing};
  port->tensor.type = from.type;
  return QN_OK;
}

}  // namespace

qn_status make_model(Graph graph, const qn_model_options* user_options, qn_model** model) {
  qn_model_options options;
  QN_TRY(read_options("qn_model_options", user_options, qn_model_options_init, &options));
  QN_TRY(check_graph(graph));
  QN_TRY(infer_shapes(graph));
  QN_TRY(check_ports(graph));
  auto made = make_shared<Model>();
  made->graph = std::move(graph);
  if (options.cache == nullptr) {
    QN_TRY(qn_weights_cache_create(&options.cache));
    made->own_cache.reset(options.cache);
  }
  QN_TRY(make_operators(*made, options.cache));
  *model = new qn_model(std::move(made));
  return QN_OK;
}

qn_status name_culprit(qn_status status, const Node& node) {
  return status == QN_OK ? QN_OK : fail_within(status, "node '%.100s'", node.name.c_str());
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
  return quern::guarded([&] {
    if (path == nullptr || model == nullptr) {
      return fail(QN_INVALID_ARGUMENT, "qn_model_load_file: an argument is NULL");
    }
    std::shared_ptr<const quern::MappedFile> file;
    QN_TRY(quern::map_file(path, &file));
    const quern::MemoryLimit limit(quern::memory_limit(file->size()));
    quern::Graph graph;
    QN_TRY(quern::read_model(file->data(), file->size(), file, path, &graph));
    for (quern::Constant& constant : graph.constants) constant.mapped = true;
    return quern::make_model(std::move(graph), options, model);
  });
}

qn_status qn_model_load_memory(const void* data, size_t size, const qn_model_options* options, qn_model** model) {
  return quern::guarded([&] {
    if (data == nullptr || model == nullptr) {
      return fail(QN_INVALID_ARGUMENT, "qn_model_load_memory: an argument is NULL");
    }
    std::shared_ptr<const void> owner;
    if (reinterpret_cast<uintptr_t>(data) % quern::segment_alignment != 0) {
      auto copy = quern::make_shared<quern::Buffer>(size);
      std::memcpy(copy->data(), data, size);
      data = copy->data();
      owner = std::move(copy);
    }
    const quern::MemoryLimit limit(quern::memory_limit(size));
    quern::Graph graph;
    QN_TRY(quern::read_model(data, size, std::move(owner), "qn_model_load_memory", &graph));
    return quern::make_model(std::move(graph), options, model);
  });
}

void qn_model_release(qn_model* model) { delete model; }

size_t qn_model_input_count(const qn_model* model) { return model == nullptr ? 0 : model->impl->graph.inputs.size(); }
size_t qn_model_output_count(const qn_model* model) { return model == nullptr ? 0 : model->impl->graph.outputs.size(); }

qn_status qn_model_input(const qn_model* model, size_t index, qn_port* port) {
  return quern::guarded([&] { return quern::get_port(model, &quern::Graph::inputs, index, port, "qn_model_input"); });
}

qn_status qn_model_output(const qn_model* model, size_t index, qn_port* port) {
  return quern::guarded([&] { return quern::get_port(model, &quern::Graph::outputs, index, port, "qn_model_output"); });
}

}  // extern "C"
