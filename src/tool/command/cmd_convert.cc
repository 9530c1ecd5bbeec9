#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>

#include "convert/common/error.h"
#include "graph/file/format.h"
#include "tool/command/command.h"
#include "tool/input/preprocess.h"
#include "tool/model.h"

namespace quern {
namespace {

struct ConvertArguments {
  ModelFiles files;
  std::string out;
  std::vector<std::string> inputs, states;
  ImportOptions import;
  ImageFlags images;
};

// Stores the flags in the model, in every input that takes images.
void store_preprocessing(const ImageFlags& flags, Graph* graph) {
  if (!flags.any()) return;
  bool stored = false;
  for (Port& port : graph->inputs) {
    const Vector<size_t>& shape = graph->tensors[static_cast<size_t>(port.tensor)].shape;
    const auto image = image_port(shape.data(), shape.size());
    if (!image) continue;
    port.preprocessing = flags.over(port.preprocessing, image->channels);
    stored = true;
  }
  if (!stored) throw Error("no input of the model takes images: the flags for images cannot be stored");
}

// "NAME" or "NAME=1x24x24x3"
ImportOptions::Input input_of(const std::string& text) {
  const size_t equals = std::min(text.rfind('='), text.size());
  ImportOptions::Input input{text.substr(0, equals)};
  std::istringstream sizes(text.substr(std::min(equals + 1, text.size())));
  for (std::string size; std::getline(sizes, size, 'x');) {
    const bool is_number =
        !size.empty() && size.size() < 10 && size.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || std::stoul(size) == 0) throw CLI::ValidationError("--inputs", "\"" + text + "\" has a bad shape");
    input.shape.push_back(std::stoul(size));
  }
  if (input.name.empty()) throw CLI::ValidationError("--inputs", "a name is empty");
  return input;
}

// "IN=OUT"
ImportOptions::State state_of(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  ImportOptions::State state = {text.substr(0, equals), text.substr(std::min(equals + 1, text.size()))};
  if (state.input.empty() || state.output.empty())
    throw CLI::ValidationError("--state", "\"" + text + "\" is not of the form IN=OUT");
  return state;
}

int convert_model(const ConvertArguments& arguments) {
  ImportOptions options = arguments.import;
  for (const std::string& text : arguments.inputs) options.inputs.push_back(input_of(text));
  for (const std::string& text : arguments.states) options.states.push_back(state_of(text));
  if (!arguments.files.is_quern()) options.target = arguments.out;  // a .qn file may be rewritten in place
  Graph graph = load_graph(arguments.files, options);
  store_preprocessing(arguments.images, &graph);
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
  add_image_flags(app, &arguments->images);
  app.footer("The flags for images are stored in the model, for run and eval to use.");
  return [arguments] { return convert_model(*arguments); };
}

}  // namespace quern
