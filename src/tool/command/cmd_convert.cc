#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "convert/common/error.h"
#include "graph/file/format.h"
#include "graph/pass/observer.h"
#include "graph/pass/passes.h"
#include "tool/command/command.h"
#include "tool/compare/tensors.h"
#include "tool/input/rounds.h"
#include "tool/model.h"
#include "tool/output/detections.h"
#include "tool/output/labels.h"

namespace quern {
namespace {

struct ConvertArguments {
  ModelFiles files;
  std::string out;
  std::vector<std::string> inputs, states, verify;
  double tolerance = 1e-3;
  bool verbose = false;
  ImportOptions import;
  std::string labels;
  InputFlags reading;
  DetectionFlags detections;
};

// Stores the flags in the model, in every input that takes images.
void store_preprocessing(const ImageFlags& flags, Graph* graph) {
  if (!flags.any()) return;
  bool stored = false;
  for (Port& port : graph->inputs) {
    const Vector<size_t>& shape = graph->tensors[static_cast<size_t>(port.tensor)].shape;
    const auto image = image_port(shape.data(), shape.size(), port.open);
    if (!image) continue;
    port.preprocessing = flags.over(port.preprocessing, image->channels);
    stored = true;
  }
  if (!stored) throw Error("no input of the model takes images: the flags for images cannot be stored");
}

// Stores in the model what its outputs mean.
void store_postprocessing(const ConvertArguments& arguments, Graph* graph) {
  std::vector<std::string> names;
  for (const Port& port : graph->outputs) names.push_back(tensor_of(*graph, port.tensor).name.c_str());
  arguments.detections.apply(&graph->postprocessing, names);
  if (arguments.labels.empty()) return;
  graph->postprocessing.labels = stored_labels(read_labels(arguments.labels), arguments.labels);
}

// "NAME" or "NAME=1x24x24x3"
ImportOptions::Input input_of(const std::string& text) {
  if (text.find('=') != std::string::npos) return parse_shape("--inputs", text);
  if (text.empty()) throw CLI::ValidationError("--inputs", "a name is empty");
  return {text};
}

// "IN=OUT"
ImportOptions::State state_of(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  ImportOptions::State state = {text.substr(0, equals), text.substr(std::min(equals + 1, text.size()))};
  if (state.input.empty() || state.output.empty())
    throw CLI::ValidationError("--state", "\"" + text + "\" is not of the form IN=OUT");
  return state;
}

// ---- what the optimizer does

void print_step(void* rounds, const PassStep& step) {
  *static_cast<int*>(rounds) = std::max(*static_cast<int*>(rounds), step.round);
  fmt::print("round {}  {:<21}{:>6} -> {:<6} {}\n", step.round, step.name, step.before, step.after, step.sentence);
}

// Prints what each pass does, if this is wanted.
Graph load(const ConvertArguments& arguments, const ImportOptions& options) {
  if (!arguments.verbose) return load_graph(arguments.files, options);
  int rounds = 0;
  const PassObserver observer = {print_step, &rounds};
  Graph graph = load_graph(arguments.files, options, &observer);
  fmt::print("{} rounds changed something; {} nodes are left\n", rounds, graph.nodes.size());
  return graph;
}

// Runs the model as it is imported and as it is after the optimizer. Throws Error if a tensor that both compute differs.
void verify(const ConvertArguments& arguments, const ImportOptions& options) {
  Graph before = import_model(arguments.files.paths(), options);
  if (arguments.reading.images.any()) store_preprocessing(arguments.reading.images, &before);
  name_tensors(&before);
  Graph after = before;
  check(optimize(after));
  expose_tensors(&before);
  expose_tensors(&after);
  const InputFlags flags = {{}, options.sizes};  // the graphs have the preprocessing
  const std::vector<Computed> expected = compute(std::move(before), "--verify", arguments.verify, flags);
  const Comparison result =
      compare(expected, compute(std::move(after), "--verify", arguments.verify, flags), arguments.tolerance);
  if (!result.first.empty())
    throw Error(fmt::format("the optimizer changes results; the first tensor that differs is {}: {}", result.first,
                            result.why));
  fmt::print("{} of {} tensors are computed after the optimizer, too; the largest difference is {:.3g}, in {}\n",
             result.compared, expected.size(), result.largest, result.largest_name);
}

int convert_model(const ConvertArguments& arguments) {
  ImportOptions options = arguments.import;
  options.sizes = arguments.reading.sizes;
  for (const std::string& text : arguments.inputs) options.inputs.push_back(input_of(text));
  for (const std::string& text : arguments.states) options.states.push_back(state_of(text));
  if (!arguments.files.is_quern()) options.target = arguments.out;  // a .qn file may be rewritten in place
  if (!arguments.verify.empty()) verify(arguments, options);
  Graph graph = load(arguments, options);
  warn_of_open_sizes(graph, {});
  store_preprocessing(arguments.reading.images, &graph);
  store_postprocessing(arguments, &graph);
  check(write_model_file(graph, arguments.out.c_str()));
  return 0;
}

}  // namespace

Action convert_command(CLI::App& app) {
  auto arguments = std::make_shared<ConvertArguments>();
  add_model_files(app, &arguments->files);
  app.add_option("-o,--out", arguments->out, "The .qn file to write")->required()->type_name("OUT.qn");
  app.add_option("--outputs", arguments->import.outputs,
                 "Tensors to make outputs, also intermediate ones, by their names in the source model")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...");
  app.add_option("--inputs", arguments->inputs,
                 "Tensors of a TensorFlow graph to make inputs, so that what computes them is left out; with a shape "
                 "such as 1x24x24x3 if the graph leaves it open")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME[=SHAPE],...");
  app.add_option("--state", arguments->states,
                 "Carry output OUT from run to run: the next run reads it in input IN, the first run reads zeros")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("IN=OUT,...");
  app.add_flag("--verbose", arguments->verbose, "Print what each pass of the optimizer does");
  app.add_option(
         "--verify", arguments->verify,
         "Run the model before and after the optimizer on arrays or pictures, one for each input, and fail if a "
         "tensor differs")
      ->type_name("[NAME=]FILE");
  app.add_option("--tolerance", arguments->tolerance,
                 "For --verify: a number may be off by T times max(1, |the number before|)")
      ->check(CLI::Range(0.0, 1e30).description(""))
      ->type_name("T")
      ->capture_default_str();
  app.add_option("--labels", arguments->labels, "Names of the classes, one per line")->type_name("FILE");
  add_input_flags(app, &arguments->reading);
  add_detection_flags(app, &arguments->detections);
  app.footer("Labels and the flags for images and detections are stored in the model, for run and eval to use.");
  return [arguments] { return convert_model(*arguments); };
}

}  // namespace quern
