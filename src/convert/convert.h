// Converts models of other frameworks to Quern's graphs, and back.
//
// An imported graph has passed check_graph and infer_shapes, but is not optimised yet. Its inputs and outputs keep the
// names, layout and type of the source model. All functions throw quern::Error if they fail, also for damaged and
// hostile files.
#pragma once

#include <string>
#include <vector>

#include "convert/common/error.h"
#include "graph/ir/ir.h"

namespace quern {

struct ImportOptions {
  // Names of the source's tensors that become the outputs, in this order. Empty: the outputs of the model. Intermediate
  // tensors are allowed. If Caffe layers rewrite a blob in place, its name means the final value.
  std::vector<std::string> outputs;
  // The file that the caller is about to write, or empty. The importer refuses a model that is read from this file,
  // even if the path is another one.
  std::string target = {};
  // Tensors of a TensorFlow graph that become inputs, and are not computed. The shape may be empty if the file has it.
  struct Input {
    std::string name;
    std::vector<size_t> shape = {};
  };
  std::vector<Input> inputs = {};
  // Pairs of an input and an output that become states (Graph::states): the next run reads in the input what a run has
  // left in the output.
  struct State {
    std::string input, output;
  };
  std::vector<State> states = {};
  // Sizes of inputs: a whole shape under the name of an input, which may be empty if there is only one; or one size
  // under the source model's name of a dimension, for all dimensions of this name. See sizes.h.
  std::vector<Input> sizes = {};
};

// `caffemodel` may be empty if no layer of the net has weights.
Graph import_caffe(const std::string& prototxt, const std::string& caffemodel, const ImportOptions& options = {});
Graph import_onnx(const std::string& path, const ImportOptions& options = {});
Graph import_tflite(const std::string& path, const ImportOptions& options = {});
// A frozen graph: a GraphDef, binary (.pb) or text (.pbtxt). Without options.outputs, the outputs are what no node reads.
Graph import_tensorflow(const std::string& path, const ImportOptions& options = {});
Graph import_keras(const std::string& path, const ImportOptions& options = {});  // HDF5, where the build has libhdf5

// Chooses the importer from the names and contents of the files: {net.prototxt, net.caffemodel} in any order,
// {net.onnx}, {net.tflite}, {net.pb}, {net.h5} or {net.qn}. Of the source's names, a .qn file keeps only those of its
// outputs, so options.outputs can only choose among these.
Graph import_model(const std::vector<std::string>& paths, const ImportOptions& options = {});

// Writes an ONNX model whose inputs and outputs have the names, shapes, layout and type of the graph's.
void export_onnx(const Graph& graph, const std::string& path);

}  // namespace quern
