#include <CLI/CLI.hpp>
#include <memory>

#include "tool/command/command.h"
#include "tool/model.h"

namespace quern {

Action export_command(CLI::App& app) {
  struct ExportArguments {
    ModelFiles files;
    std::string out;
  };
  auto arguments = std::make_shared<ExportArguments>();
  add_model_files(app, &arguments->files);
  app.add_option("-o,--out", arguments->out, "The ONNX file to write")->required()->type_name("OUT.onnx");
  return [arguments] {
    ImportOptions options;
    options.target = arguments->out;
    export_onnx(load_graph(arguments->files, options), arguments->out);
    return 0;
  };
}

}  // namespace quern
