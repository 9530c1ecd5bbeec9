// Writes any of our graphs as an ONNX model.
#include <limits>

#include "convert/common/file.h"
#include "convert/convert.h"
#include "convert/onnx/export/rows.h"
#include "graph/file/encoded.h"

namespace quern::onnx {

const ExportRow* find_row(const Node& node) {
  const auto find = [&](std::initializer_list<const ExportTable*> tables) -> const ExportRow* {
    for (const ExportTable* table : tables) {
      if (const auto at = table->find(kind_name(node)); at != table->end()) return &at->second;
    }
    return nullptr;
  };
  if (node.kind != OpKind::custom) return find({&exported_layers(), &exported_shapes(), &exported_control()});
  return find({&exported_functions(), &exported_moves(), &exported_products(), &exported_recurrent(),
               &exported_images(), &exported_regions(), &exported_detection(), &exported_anchors()});
}

static void add_opset(schema::ModelProto* model, const char* domain, int64_t version) {
  auto* opset = model->add_opset_import();
  opset->set_domain(domain);
  opset->set_version(version);
}

static std::string exported(Graph& graph) {
  schema::ModelProto model;
  ModelWriter writer;
  GraphWriter(writer, graph, *model.mutable_graph()).write_model();
  if (!writer.unsupported.text().empty()) throw Error("ONNX cannot express: " + writer.unsupported.text());
  model.set_ir_version(writer.opset <= 19 ? 8 : 10);
  model.set_producer_name("quern");
  model.set_producer_version(qn_version());
  add_opset(&model, "", writer.opset);
  if (writer.extended) add_opset(&model, "com.microsoft", 1);
  std::string bytes;
  if (model.ByteSizeLong() > std::numeric_limits<int>::max() || !model.SerializeToString(&bytes)) {
    throw Error(too_large);
  }
  return bytes;
}

// Makes the constants of a graph and its subgraphs dense.
static void make_all_dense(Graph& graph) {
  expect_ok(make_dense(graph));
  for (Graph& subgraph : graph.subgraphs) make_all_dense(subgraph);
}

}  // namespace quern::onnx

namespace quern {

void export_onnx(const Graph& graph, const std::string& path) {
  Graph dense = graph;
  onnx::make_all_dense(dense);
  write_file(path, onnx::exported(dense));
}

}  // namespace quern
