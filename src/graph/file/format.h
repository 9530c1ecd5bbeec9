// Reading and writing .qn files.  The layout of the file is described in model.fbs.
#pragma once

#include "base/vector.h"
#include "graph/ir/ir.h"

namespace quern {

// Parses and verifies a .qn image; the graph's constants point into it and hold `owner`. `who` names it in messages.
// The result has passed check_graph and infer_shapes.
qn_status read_model(const void* data, size_t size, Shared<const void> owner, const char* who, Graph* graph);

// Maps and reads a file.
qn_status read_model_file(const char* path, Graph* graph);

// The bytes of a .qn file.
qn_status write_model(const Graph& graph, Vector<unsigned char>* out);

// Writes beside `path`, then renames: a failure leaves no partial file.
qn_status write_model_file(const Graph& graph, const char* path);

// The model object of the C API from a graph in memory: what `quern run` does with a freshly imported model.
qn_status make_model(Graph graph, const qn_model_options* options, qn_model** model);

// The graph of a loaded model.
const Graph& model_graph(const qn_model& model);

}  // namespace quern
