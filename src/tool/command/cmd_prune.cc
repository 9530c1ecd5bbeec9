#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "compress/channels.h"
#include "compress/transform.h"
#include "convert/common/error.h"
#include "convert/common/file.h"
#include "graph/file/format.h"
#include "graph/ir/kinds.h"
#include "tool/command/command.h"
#include "tool/model.h"
#include "tool/plan.h"
#include "tool/sparsity.h"

namespace quern {
namespace {

struct PruneArguments {
  std::string in, out, schedule = "uniform";
  PruneFlags prune;
  std::optional<double> channels, low_rank;
  PlanFlags plans;
  const CLI::Option *sparsity = nullptr, *block = nullptr, *inputs = nullptr;  // go before plans
  bool json = false;
};

const std::map<std::string, Schedule> schedules = {
    {"uniform", Schedule::uniform}, {"global", Schedule::global}, {"erk", Schedule::erk}};

constexpr const char* what_keeps_channels =
    "--channels keeps what outputs of the model, recurrent layers and operators across channels read.";
constexpr const char* what_is_split =
    "--low-rank splits a layer if the two layers have at most nine tenths of its weights, and these are 4096 at least.";

using Json = nlohmann::ordered_json;

Json report(const PruneArguments& arguments, const std::vector<LayerStats>& layers) {
  uint64_t elements = 0, zeros = 0;
  for (const LayerStats& layer : layers) {
    elements += layer.elements;
    zeros += layer.zeros;
  }
  return {
      {"schedule", arguments.schedule},      {"block", arguments.prune.block}, {"block_inputs", arguments.prune.inputs},
      {"layers", layers_json(layers)},       {"elements", elements},           {"zeros", zeros},
      {"sparsity", part_of(zeros, elements)}};
}

void print_zeros(const Json& report) {
  const auto line = [](const std::string& name, const Json& row) {
    fmt::print("{:>10} of {:>10} zeros  {:6.2f}%  {}\n", row["zeros"].get<uint64_t>(), row["elements"].get<uint64_t>(),
               100 * row["sparsity"].get<double>(), name);
  };
  for (const auto& layer : report["layers"]) line(layer["name"].get<std::string>(), layer);
  line("all", report);
}

// Name and output channels of each layer. Removing channels keeps all layers.
Json channels_json(const Graph& before, const Graph& after) {
  Json layers = Json::array();
  for (size_t n = 0; n < before.nodes.size(); ++n) {
    const Node &old = before.nodes[n], &node = after.nodes[n];
    if (!kind_of(node.kind).has_weights()) continue;
    layers.push_back({{"name", node.name.c_str()},
                      {"channels_before", tensor_of(before, old.inputs[1]).shape[0]},
                      {"channels_after", tensor_of(after, node.inputs[1]).shape[0]}});
  }
  return layers;
}

Json channels_report(double part, const Graph& before, const Graph& after) {
  const ModelStats old = model_stats(before), now = model_stats(after);
  return {{"channels", part},
          {"layers", channels_json(before, after)},
          {"weights_before", old.parameters},
          {"weights_after", now.parameters},
          {"macs_before", old.macs},
          {"macs_after", now.macs}};
}

void print_change(const Json& row, const char* what, const std::string& name) {
  fmt::print("{:>11} of {:>11} {:<8}  {}\n", row[fmt::format("{}_after", what)].get<uint64_t>(),
             row[fmt::format("{}_before", what)].get<uint64_t>(), what, name);
}

void print_totals(const Json& report) {
  print_change(report, "weights", "all");
  print_change(report, "macs", "all");
}

void print_channels(const Json& report) {
  for (const auto& layer : report["layers"]) print_change(layer, "channels", layer["name"].get<std::string>());
  print_totals(report);
}

Json remove_smallest_channels(double part, Graph* graph) {
  Channels channels;
  Vector<bool> removed;
  check(find_channels(*graph, &channels));
  if (part > 0 && channels.sets.empty())
    throw Error("no channel can be removed: expected f32 layers that other layers read");
  check(smallest_channels(*graph, channels, part, &removed));
  const Graph before = *graph;
  check(remove_channels(channels, removed, *graph));
  return channels_report(part, before, *graph);
}

// What plans say of each node and flags do not.
Vector<LayerPruning> decided(const PruneArguments& arguments, const Graph& graph) {
  Vector<LayerPruning> layers;
  const bool shaped = !arguments.block->empty() || !arguments.inputs->empty();
  for (const LayerPlan& plan : arguments.plans.plan_for(graph)) {
    LayerPruning& layer = layers.emplace_back();
    layer.keep = plan.keep;
    if (arguments.sparsity->empty()) layer.sparsity = plan.sparsity;
    if (!shaped) layer.shape = plan.pattern;
  }
  return layers;
}

void remove_smallest_weights(const PruneArguments& arguments, Graph* graph) {
  const Graph before = *graph;
  PruneOptions options = arguments.prune.options(schedules.at(arguments.schedule), false);
  options.layers = decided(arguments, before);
  Vector<LayerPruning> made;
  check(prune(*graph, options, &made));
  LayerPlans plans;
  for (const LayerPruning& layer : made)
    plans.push_back({.keep = layer.keep, .sparsity = layer.sparsity, .pattern = layer.shape});
  arguments.plans.save(plans, before, plan_checksum(before));
}

Json split_json(const Transform& layer) {
  return {{"name", layer.node.c_str()},
          {"first", layer.other.c_str()},
          {"rank", layer.channels},
          {"relative_error", layer.error},
          {"weights_before", layer.weights_before},
          {"weights_after", layer.weights_after},
          {"macs_before", layer.macs_before},
          {"macs_after", layer.macs_after}};
}

Json split_layers(double error, Graph* graph) {
  const ModelStats old = model_stats(*graph);
  Vector<Transform> done;
  check(split_low_rank(*graph, error, &done));
  const ModelStats now = model_stats(*graph);
  Json layers = Json::array();
  for (const Transform& layer : done) layers.push_back(split_json(layer));
  return {{"low_rank", error},
          {"layers", layers},
          {"weights_before", old.parameters},
          {"weights_after", now.parameters},
          {"macs_before", old.macs},
          {"macs_after", now.macs}};
}

void print_split(const Json& report) {
  for (const auto& layer : report["layers"]) {
    fmt::print("{:>11} of {:>11} weights   rank {:>4}  error {:.4f}  {}\n", layer["weights_after"].get<uint64_t>(),
               layer["weights_before"].get<uint64_t>(), layer["rank"].get<uint64_t>(),
               layer["relative_error"].get<double>(), layer["name"].get<std::string>());
  }
  print_totals(report);
}

int run_prune(const PruneArguments& arguments) {
  keep_source(arguments.in, arguments.plans.saved);
  const ModelFiles files = {arguments.in, ""};
  ImportOptions options;
  if (!files.is_quern()) options.target = arguments.out;  // a .qn file may be rewritten in place
  Graph graph = load_graph(files, options);
  Json json;
  if (arguments.channels) {
    json = remove_smallest_channels(*arguments.channels, &graph);
  } else if (arguments.low_rank) {
    json = split_layers(*arguments.low_rank, &graph);
  } else {
    remove_smallest_weights(arguments, &graph);
  }
  check(write_model_file(graph, arguments.out.c_str()));
  const bool zeros = !arguments.channels && !arguments.low_rank;
  if (zeros) json = report(arguments, layers_of_file(arguments.out));
  json["file_bytes"] = std::filesystem::file_size(arguments.out);
  if (arguments.json) {
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    (zeros ? print_zeros : arguments.channels ? print_channels : print_split)(json);
  }
  return 0;
}

}  // namespace

Action prune_command(CLI::App& app) {
  auto arguments = std::make_shared<PruneArguments>();
  app.add_option("IN", arguments->in, "A .qn file")->required()->type_name("IN.qn");
  app.add_option("-o,--out", arguments->out, "The .qn file to write")->required()->type_name("OUT.qn");
  CLI::Option* const sparsity = add_prune_flags(app, &arguments->prune);
  arguments->sparsity = sparsity;
  arguments->block = app.get_option("--block");
  arguments->inputs = app.get_option("--block-inputs");
  app.add_option("--schedule", arguments->schedule,
                 "uniform: the same part of each layer; global: the smallest of all layers; erk: the larger a layer, "
                 "the more (Erdos-Renyi kernel)")
      ->check(CLI::IsMember({"uniform", "global", "erk"}).description(""))
      ->type_name("NAME")
      ->capture_default_str();
  CLI::Option* const channels =
      app.add_option("--channels", arguments->channels,
                     "Part of each layer's output channels that is removed, with all that reads them: from 0, below 1")
          ->check(CLI::Validator(below_one, ""))
          ->type_name("P");
  CLI::Option* const low_rank =
      app.add_option("--low-rank", arguments->low_rank,
                     "Relative error of the weights of each layer that becomes two of lower rank: from 0, below 1")
          ->check(CLI::Validator(below_one, ""))
          ->type_name("E");
  low_rank->excludes(channels);
  add_plan_flags(app, &arguments->plans);
  for (const char* other :
       {"--sparsity", "--block", "--block-inputs", "--schedule", "--plan", "--save-plan", "--exclude"}) {
    channels->excludes(app.get_option(other));
    low_rank->excludes(app.get_option(other));
  }
  app.add_flag("--json", arguments->json, "One JSON object on standard output");
  app.footer(fmt::format("All without training; zeros and channels by magnitude.\n{}\n{}\n{}", what_stays_dense,
                         what_keeps_channels, what_is_split));
  return [arguments, sparsity] {
    if (sparsity->empty() && !arguments->channels && !arguments->low_rank && arguments->plans.file.empty()) {
      throw CLI::RequiredError("--sparsity, --channels, --low-rank or --plan");
    }
    return run_prune(*arguments);
  };
}

}  // namespace quern
