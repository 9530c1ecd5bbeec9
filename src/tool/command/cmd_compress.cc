#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "graph/file/format.h"
#include "tool/command/command.h"
#include "tool/model.h"

namespace quern {
namespace {

struct CompressArguments {
  std::string in, out;
  bool json = false;
};

int run_compress(const CompressArguments& arguments) {
  const ModelFiles files = {arguments.in, ""};
  ImportOptions options;
  if (!files.is_quern()) options.target = arguments.out;  // a .qn file may be rewritten in place
  const Graph graph = load_graph(files, options);
  const uint64_t before = std::filesystem::file_size(arguments.in);
  check(write_model_file(graph, arguments.out.c_str(), FileForm::coded));
  const uint64_t after = std::filesystem::file_size(arguments.out);
  const double ratio = static_cast<double>(before) / static_cast<double>(after);
  if (arguments.json) {
    const nlohmann::ordered_json report = {{"input_bytes", before}, {"file_bytes", after}, {"ratio", ratio}};
    fmt::print("{}\n", report.dump(2));
  } else {
    fmt::print("{} -> {} bytes, {:.2f} times smaller\n", before, after, ratio);
  }
  return 0;
}

}  // namespace

Action compress_command(CLI::App& app) {
  auto arguments = std::make_shared<CompressArguments>();
  app.add_option("IN", arguments->in, "A .qn file")->required()->type_name("IN.qn");
  app.add_option("-o,--out", arguments->out, "The .qn file to write")->required()->type_name("OUT.qn");
  app.add_flag("--json", arguments->json, "One JSON object on standard output");
  app.footer(
      "Codes everything that the file holds; the model stays the same. Weights of bytes become much smaller than "
      "floats:\n"
      "prune and quantize the model before.");
  return [arguments] { return run_compress(*arguments); };
}

}  // namespace quern
