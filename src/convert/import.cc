// Chooses the importer for a file.
#include <quern/extra.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "convert/common/file.h"
#include "convert/common/messages.h"
#include "convert/convert.h"
#include "convert/sizes.h"
#include "convert/states.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"

namespace quern {
namespace {

enum class Format { caffe_net, caffe_weights, onnx, tensorflow, tflite, keras, quern, unknown };

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Formats that we do not read, and what makes of them one that we do.
constexpr const char* pytorch_recipe =
    "a file of PyTorch holds Python objects: export the model with torch.onnx.export (README, From TensorFlow, Keras "
    "and "
    "PyTorch)";
constexpr const char* keras_recipe =
    "a .keras file is read by Keras alone: save the model as .h5, or freeze it to a .pb (README, From TensorFlow, "
    "Keras and "
    "PyTorch)";
struct ForeignFormat {
  const char* extension;
  const char* recipe;
};
constexpr ForeignFormat foreign_formats[] = {
    {".keras", keras_recipe}, {".pt", pytorch_recipe}, {".pth", pytorch_recipe}, {".safetensors", pytorch_recipe}};

// Throws an Error with the recipe if the file, or folder, has such a format.
void refuse_foreign(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    const bool is_saved_model = std::filesystem::exists(std::filesystem::path(path) / "saved_model.pb", error);
    throw Error(path + ": " + (is_saved_model ? convert::saved_model_recipe : "expected a file, got a folder"));
  }
  for (const ForeignFormat& format : foreign_formats) {
    if (ends_with(path, format.extension)) throw Error(path + ": " + format.recipe);
  }
}

// Returns the first bytes of a file; none if it cannot be read.
std::string beginning(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) throw Error(path + ": cannot open, or not a regular file");
  std::ifstream file(path, std::ios::binary);
  std::string begin(4096, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<size_t>(file.gcount()));
  return begin;
}

// A .pb file may hold an ONNX model: that begins with the number of its version, which is above 1, and not with a node.
// (A SavedModel begins with a 1.)
Format format_of_pb(const std::string& path) {
  const std::string begin = beginning(path);
  return begin.size() > 1 && begin[0] == 8 && begin[1] != 1 ? Format::onnx : Format::tensorflow;
}

// A .pbtxt file may hold a Caffe net, in which nothing is a "node".
Format format_of_pbtxt(const std::string& path) {
  const std::string begin = beginning(path);
  return begin.find("node {") == std::string::npos ? Format::caffe_net : Format::tensorflow;
}

// Whether a text begins as one of protobuf's does: with comments, then a field's name and ':' or '{'.
bool begins_with_a_field(const std::string& text) {
  const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", blanks = " \t\r\n";
  size_t at = 0;
  const auto skip = [&](const std::string& these) { at = std::min(text.find_first_not_of(these, at), text.size()); };
  for (skip(blanks); at < text.size() && text[at] == '#'; skip(blanks)) at = std::min(text.find('\n', at), text.size());
  if (at == text.size() || letters.find(text[at]) == std::string::npos) return false;
  skip(letters + "0123456789");
  skip(blanks);
  return at < text.size() && (text[at] == ':' || text[at] == '{');
}

// Finds the format from the file's name. With any other name, a text that begins as protobuf's is taken for a Caffe net.
Format format_of(const std::string& path) {
  if (ends_with(path, ".prototxt")) return Format::caffe_net;
  if (ends_with(path, ".pbtxt")) return format_of_pbtxt(path);
  if (ends_with(path, ".pb")) return format_of_pb(path);
  if (ends_with(path, ".caffemodel")) return Format::caffe_weights;
  if (ends_with(path, ".onnx")) return Format::onnx;
  if (ends_with(path, ".tflite")) return Format::tflite;
  if (ends_with(path, ".h5") || ends_with(path, ".hdf5")) return Format::keras;
  if (ends_with(path, ".qn")) return Format::quern;
  refuse_foreign(path);
  const std::string begin = beginning(path);
  const auto is_text = [](char c) { return c == '\t' || c == '\n' || c == '\r' || (c >= ' ' && c <= '~'); };
  if (std::all_of(begin.begin(), begin.end(), is_text) && begins_with_a_field(begin)) return Format::caffe_net;
  return Format::unknown;
}

// Runs `body`, whose errors do not say of which file they speak.
template <class Body>
auto naming(const std::string& path, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(path + ": " + error.what());
  }
}

// Leaves the graph of a .qn file the outputs of these names.
void choose_outputs(const std::vector<std::string>& names, Graph& graph) {
  Vector<Port> outputs;
  for (const std::string& name : names) {
    outputs.push_back(graph.outputs[find_port(graph, graph.outputs, "output", name)]);
  }
  const Vector<Port> before = std::exchange(graph.outputs, std::move(outputs));
  graph.postprocessing.detections = String();  // by the numbers of outputs
  graph.postprocessing.outputs.clear();
  for (State& state : graph.states) {
    const std::string name = tensor_of(graph, before[state.output].tensor).name.c_str();
    state.output = find_port(graph, graph.outputs, "output of a state", name);
  }
  expect_ok(check_graph(graph));
}

Graph import_quern(const std::string& path, const ImportOptions& options) {
  Graph graph;
  expect_ok(read_model_file(path.c_str(), &graph));
  if (!options.outputs.empty()) naming(path, [&] { choose_outputs(options.outputs, graph); });
  return graph;
}

Graph import_any(const std::vector<std::string>& paths, const ImportOptions& options) {
  if (paths.empty() || paths.size() > 2) throw Error("a model is one file, or a Caffe net and its weights");
  for (const std::string& path : paths) keep_source(path, options.target);
  const Format first = format_of(paths[0]);
  if (!options.inputs.empty() && (first != Format::tensorflow || paths.size() > 1)) {
    throw Error(paths[0] + ": only TensorFlow graphs can get other inputs");
  }
  if (paths.size() == 2) {
    const Format second = format_of(paths[1]);
    if (first == Format::caffe_net && second != Format::caffe_net) return import_caffe(paths[0], paths[1], options);
    if (second == Format::caffe_net && first != Format::caffe_net) return import_caffe(paths[1], paths[0], options);
    throw Error(paths[0] + ", " + paths[1] + ": two files are a Caffe .prototxt and its .caffemodel");
  }
  switch (first) {
    case Format::caffe_net: return import_caffe(paths[0], "", options);
    case Format::onnx: return import_onnx(paths[0], options);
    case Format::tensorflow: return import_tensorflow(paths[0], options);
    case Format::tflite: return import_tflite(paths[0], options);
    case Format::keras: return import_keras(paths[0], options);
    case Format::quern: return import_quern(paths[0], options);
    case Format::caffe_weights: throw Error(paths[0] + ": a .caffemodel needs its .prototxt");
    case Format::unknown: break;
  }
  throw Error(paths[0] + ": not a .prototxt, .onnx, .pb, .tflite, .h5 or .qn file");
}

}  // namespace

Graph import_model(const std::vector<std::string>& paths, const ImportOptions& options) {
  expect_ok(qn_extra_register());
  try {
    Graph graph = import_any(paths, options);
    naming(paths[0], [&] {
      set_sizes(options.sizes, &graph);
      add_states(options.states, &graph);
    });
    return graph;
  } catch (const std::bad_alloc&) {
    throw Error(paths[0] + ": not enough memory");
  } catch (const std::length_error&) {
    throw Error(paths[0] + ": a size is too large");
  }
}

}  // namespace quern
