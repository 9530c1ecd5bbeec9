// Reading and writing .qn files. model.fbs describes the layout of the file.
#pragma once

#include "base/vector.h"
#include "graph/ir/ir.h"

namespace quern {

// Parses and verifies the bytes of a .qn file. Constants of the graph point into these bytes and hold `owner`. `who`
// names the file in messages. The graph has passed check_graph and infer_shapes.
qn_status read_model(const void* data, size_t size, Shared<const void> owner, const char* who, Graph* graph);

// Maps a file and reads it.
qn_status read_model_file(const char* path, Graph* graph);

// How a file holds its contents.
enum class FileForm : uint8_t {
  plain,  // version 1: constants lie in the file as they lie in memory, but for weights of which most are 0
  coded,  // version 2: as few bytes as possible, which are decoded when the model is loaded
};

// Makes the bytes of a .qn file.
qn_status write_model(const Graph& graph, Vector<unsigned char>* out, FileForm form = FileForm::plain);

// Writes a temporary file beside `path`, then renames it: a failure leaves no partial file.
qn_status write_model_file(const Graph& graph, const char* path, FileForm form = FileForm::plain);

// Makes the model object of the C API from a graph in memory, as `quern run` does with a model that it has just
// imported.
qn_status make_model(Graph graph, const qn_model_options* options, qn_model** model);

// Returns the graph of a loaded model.
const Graph& model_graph(const qn_model& model);

}  // namespace quern
