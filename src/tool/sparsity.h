// The part of commands that handles zeros in weights: flags that ask for them, and reports about weights.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compress/prune.h"
#include "convert/model_stats.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace quern {

inline constexpr const char* what_stays_dense =
    "Zeros go to convolutions and fully-connected layers, but not to the first convolution or to depthwise ones.";

// --sparsity S --block N --block-inputs I
struct PruneFlags {
  double sparsity = 0;
  size_t block = 1, inputs = 1;

  PruneOptions options(Schedule schedule, bool rescale) const { return {sparsity, block, schedule, rescale, inputs}; }
};
// Checks the argument of a flag; returns what is wrong with it.
std::string below_one(std::string& text);
// Returns the option --sparsity.
CLI::Option* add_prune_flags(CLI::App& app, PruneFlags* flags);

// part / whole; 0 if `whole` is 0.
double part_of(uint64_t part, uint64_t whole);

// The layers of a .qn file.
std::vector<LayerStats> layers_of_file(const std::string& path);

// Name, elements, zeros, sparsity and bytes of each layer.
nlohmann::ordered_json layers_json(const std::vector<LayerStats>& layers);

}  // namespace quern
