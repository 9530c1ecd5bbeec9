#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "convert/zoo/zoo.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"
#include "tool/command/command.h"
#include "tool/model.h"
#include "tool/sparsity.h"

namespace quern {

Action zoo_command(CLI::App& app) {
  struct Arguments {
    std::string name, out;
    uint64_t seed = 1;
    PruneFlags prune;
  };
  auto arguments = std::make_shared<Arguments>();
  app.add_option("NAME", arguments->name, fmt::format("One of {}", fmt::join(zoo_names(), ", ")))
      ->required()
      ->check(CLI::IsMember(zoo_names()).description(""));
  app.add_option("-o,--out", arguments->out, "The .qn file to write")->required()->type_name("OUT.qn");
  app.add_option("--seed", arguments->seed, "Other weights; the same seed always gives the same bits")
      ->check([](const std::string& n) { return n.starts_with('-') ? "must not be negative" : ""; })
      ->type_name("N")
      ->capture_default_str();
  add_prune_flags(app, &arguments->prune);
  app.footer(
      fmt::format("Weights are random, scaled so that activations keep a variance near one: for speed and tests.\n{}",
                  what_stays_dense));
  return [arguments] {
    Graph graph = build_zoo(arguments->name, arguments->seed);
    check(check_graph(graph));
    check(infer_shapes(graph));
    check(optimize(graph));
    if (arguments->prune.sparsity > 0) {
      check(prune(graph, {arguments->prune.sparsity, arguments->prune.block, Schedule::uniform, true}));
    }
    check(write_model_file(graph, arguments->out.c_str()));
    return 0;
  };
}

}  // namespace quern
