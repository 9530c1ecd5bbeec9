#include "tool/sparsity.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "graph/file/format.h"
#include "tool/model.h"

namespace quern {

std::string below_one(std::string& text) {
  double s;
  if (!CLI::detail::lexical_cast(text, s)) return "not a number";
  return s >= 0 && s < 1 ? std::string() : fmt::format("{} is not from 0 to below 1", text);
}

CLI::Option* add_prune_flags(CLI::App& app, PruneFlags* flags) {
  app.add_option("--block", flags->block,
                 "Output channels whose weights at one position go or stay together: 1, 2, 4, 8 or 16")
      ->check(CLI::IsMember({1, 2, 4, 8, 16}).description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--block-inputs", flags->inputs,
                 "The same for successive input channels: 1, or 4 for kernels of bytes")
      ->check(CLI::IsMember({1, 4}).description(""))
      ->type_name("N")
      ->capture_default_str();
  return app.add_option("--sparsity", flags->sparsity, "Part of the weights that becomes 0: from 0, below 1")
      ->check(CLI::Validator(below_one, ""))
      ->type_name("S");
}

double part_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::vector<LayerStats> layers_of_file(const std::string& path) {
  Graph graph;
  check(read_model_file(path.c_str(), &graph));
  return model_stats(graph).layers;
}

nlohmann::ordered_json layers_json(const std::vector<LayerStats>& layers) {
  auto list = nlohmann::ordered_json::array();
  for (const LayerStats& layer : layers) {
    list.push_back({{"name", layer.name},
                    {"elements", layer.elements},
                    {"zeros", layer.zeros},
                    {"sparsity", part_of(layer.zeros, layer.elements)},
                    {"file_bytes", layer.stored},
                    {"f32_bytes", layer.elements * sizeof(float)}});
  }
  return list;
}

}  // namespace quern
