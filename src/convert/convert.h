// Models of other frameworks as graphs of ours, and back.
//
// An imported graph has passed check_graph and infer_shapes; it is not optimised yet. Its inputs and outputs keep the
// names, layout and type of the source model. All functions throw quern::Error, also for damaged and hostile files.
#pragma once

#include <string>
#include <vector>

#include "convert/common/error.h"
#include "graph/ir/ir.h"

namespace quern {

struct ImportOptions {
  // Names of source tensors to make outputs, in this order; empty: the model's own outputs. Any intermediate tensor
  // will do. A Caffe blob that layers rewrite in place is meant with its final value.
  std::vector<std::string> outputs;
  // If not empty, a file about to be written: a model that is read from it, be it by another name, is refused.
  std::string target = {};
};

// `caffemodel` may be empty when no layer of the net has weights.
Graph import_caffe(const std::string& prototxt, const std::string& caffemodel, const ImportOptions& options = {});
Graph import_onnx(const std::string& path, const ImportOptions& options = {});

// Chooses by the files' names and contents: {net.prototxt, net.caffemodel} in any order, {net.onnx} or {net.qn}.
// A .qn file has no source names left but those of its outputs, so that options.outputs can only choose among them.
Graph import_model(const std::vector<std::string>& paths, const ImportOptions& options = {});

// Writes an ONNX model whose inputs and outputs have the names, shapes, layout and type of the graph's.
void export_onnx(const Graph& graph, const std::string& path);

}  // namespace quern
