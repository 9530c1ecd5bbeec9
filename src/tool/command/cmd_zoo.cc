#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "convert/zoo/zoo.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"
#include "tool/command/command.h"
#include "tool/model.h"
#include "tool/quantization.h"
#include "tool/sparsity.h"

namespace quern {

Action zoo_command(CLI::App& app) {
  struct ZooArguments {
    std::string name, out, type = "f32";
    uint64_t seed = 1;
    PruneFlags prune;
  };
  auto arguments = std::make_shared<ZooArguments>();
  app.add_option("NAME", arguments->name, fmt::format("One of {}", fmt::join(zoo_names(), ", ")))
      ->required()
      ->check(CLI::IsMember(zoo_names()).description(""));
  app.add_option("-o,--out", arguments->out, "The .qn file to write")->required()->type_name("OUT.qn");
  app.add_option("--seed", arguments->seed, "Other weights; the same seed always gives the same bits")
      ->check([](const std::string& n) { return n.starts_with('-') ? "must not be negative" : ""; })
      ->type_name("N")
      ->capture_default_str();
  add_prune_flags(app, &arguments->prune);
  app.add_option(
         "--type", arguments->type,
         "qs8: quantized to bytes, with ranges from a run on random numbers. They, and so the scales, may differ in "
         "their last bits between CPUs")
      ->check(CLI::IsMember({"f32", "qs8"}).description(""))
      ->type_name("NAME")
      ->capture_default_str();
  app.footer(
      fmt::format("Weights are random, scaled so that activations keep a variance near one: for speed and tests.\n{}",
                  what_stays_dense));
  return [arguments] {
    Graph graph = build_zoo(arguments->name, arguments->seed);
    check(check_graph(graph));
    check(infer_shapes(graph));
    check(optimize(graph));
    if (arguments->prune.sparsity > 0) {
      check(prune(graph, arguments->prune.options(Schedule::uniform, true)));
    }
    if (arguments->type == "qs8") {
      const auto sample = [&](const qn_model*, const qn_session* session, size_t) { return random_inputs(session, 1); };
      quantize_model(graph, {0}, sample, {});
    }
    check(write_model_file(graph, arguments->out.c_str()));
    return 0;
  };
}

}  // namespace quern
