#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>

#include "graph/file/format.h"
#include "tool/command/command.h"
#include "tool/model.h"
#include "tool/sparsity.h"

namespace quern {
namespace {

struct PruneArguments {
  std::string in, out, schedule = "uniform";
  PruneFlags prune;
  bool json = false;
};

const std::map<std::string, Schedule> schedules = {
    {"uniform", Schedule::uniform}, {"global", Schedule::global}, {"erk", Schedule::erk}};

nlohmann::ordered_json report(const PruneArguments& arguments, const std::vector<LayerStats>& layers) {
  uint64_t elements = 0, zeros = 0;
  for (const LayerStats& layer : layers) {
    elements += layer.elements;
    zeros += layer.zeros;
  }
  return {{"schedule", arguments.schedule},
          {"block", arguments.prune.block},
          {"block_inputs", arguments.prune.inputs},
          {"layers", layers_json(layers)},
          {"elements", elements},
          {"zeros", zeros},
          {"sparsity", part_of(zeros, elements)},
          {"file_bytes", std::filesystem::file_size(arguments.out)}};
}

void print(const nlohmann::ordered_json& report) {
  const auto line = [](const std::string& name, const nlohmann::ordered_json& row) {
    fmt::print("{:>10} of {:>10} zeros  {:6.2f}%  {}\n", row["zeros"].get<uint64_t>(), row["elements"].get<uint64_t>(),
               100 * row["sparsity"].get<double>(), name);
  };
  for (const auto& layer : report["layers"]) line(layer["name"].get<std::string>(), layer);
  line("all", report);
}

int run_prune(const PruneArguments& arguments) {
  const ModelFiles files = {arguments.in, ""};
  ImportOptions options;
  if (!files.is_quern()) options.target = arguments.out;  // a .qn file may be rewritten in place
  Graph graph = load_graph(files, options);
  check(prune(graph, arguments.prune.options(schedules.at(arguments.schedule), false)));
  check(write_model_file(graph, arguments.out.c_str()));
  const nlohmann::ordered_json json = report(arguments, layers_of_file(arguments.out));
  if (arguments.json) {
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    print(json);
  }
  return 0;
}

}  // namespace

Action prune_command(CLI::App& app) {
  auto arguments = std::make_shared<PruneArguments>();
  app.add_option("IN", arguments->in, "A .qn file")->required()->type_name("IN.qn");
  app.add_option("-o,--out", arguments->out, "The .qn file to write")->required()->type_name("OUT.qn");
  add_prune_flags(app, &arguments->prune)->required();
  app.add_option("--schedule", arguments->schedule,
                 "uniform: the same part of each layer; global: the smallest of all layers; erk: the larger a layer, "
                 "the more (Erdos-Renyi kernel)")
      ->check(CLI::IsMember({"uniform", "global", "erk"}).description(""))
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--json", arguments->json, "One JSON object on standard output");
  app.footer(fmt::format("By magnitude, without training.\n{}", what_stays_dense));
  return [arguments] { return run_prune(*arguments); };
}

}  // namespace quern
