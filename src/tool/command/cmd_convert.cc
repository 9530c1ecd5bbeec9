#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

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

int convert_model(const ConvertArguments& arguments) {
  ImportOptions options = arguments.import;
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
  add_image_flags(app, &arguments->images);
  app.footer("The flags for images are stored in the model, for run and eval to use.");
  return [arguments] { return convert_model(*arguments); };
}

}  // namespace quern
