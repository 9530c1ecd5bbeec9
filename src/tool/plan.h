// Plans say what becomes of each layer of a model: commands that make models smaller write them down, and obey them. A plan
// is a file that people edit:
//
//     {
//       "schema": 1,
//       "model": "90f0c2a1",
//       "layers": {
//         "conv1": {"keep": true},
//         "fire[2-5]/.*": {"bits": 4},
//         "conv10": {"bits": 2.5, "sparsity": 0.75, "pattern": "8x1"}
//       }
//     }
//
// A key that is the name of nodes means these. Any other is a regular expression for whole names (POSIX, extended; without
// counts in braces and back references, so that matching takes linear time). A name goes before expressions, and of those
// the last one counts. "model" is the checksum of the model that was planned; without it, the plan is for any model that
// has these layers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/vector.h"
#include "compress/prune.h"
#include "graph/ir/ir.h"

namespace CLI {
class App;
}

namespace quern {

// What becomes of a node. What is empty is up to the command.
struct LayerPlan {
  bool keep = false;                       // f32, with all its weights
  bool f32_activations = false;            // "activations": "f32", where others compute in int8
  std::optional<double> bits = {};         // of a weight: above 0, to 8
  std::optional<uint64_t> block = {};      // weights that share a scale: 0 (all of an output channel) or 32
  std::optional<double> sparsity = {};     // the part of its blocks that become 0
  std::optional<BlockShape> pattern = {};  // of blocks: "8x1" is 8 output channels by 1 input channel
  std::optional<bool> reconstructs = {};   // "algorithm": "reconstruct" or "nearest"
};

// One for each node of a graph.
using LayerPlans = Vector<LayerPlan>;

// Reads a plan for this graph. `who` names the file in messages. Throws Error, which names the layer, if the text is not a
// plan, if it is for another model, or if a name or expression means no node.
LayerPlans parse_plan(std::string_view text, const std::string& who, const Graph& graph);
// What a plan has as "model": a checksum of the graph, as a command has read it.
std::string plan_checksum(Graph graph);
// The reverse, for all nodes of which the plan says something. `model`: the checksum. Throws Error if such a node has no name
// of its own.
std::string plan_text(const LayerPlans& plans, const Graph& graph, const std::string& model);

// --plan FILE --save-plan FILE --exclude REGEX
struct PlanFlags {
  std::string file, saved;
  std::vector<std::string> excluded;

  bool any() const { return !file.empty() || !saved.empty() || !excluded.empty(); }
  // What the file and --exclude say. Throws Error, too, if a plan is to be saved that could not name the layers.
  LayerPlans plan_for(const Graph& graph) const;
  // Writes the plan, if that is wanted.
  void save(const LayerPlans& plans, const Graph& graph, const std::string& model) const;
};
void add_plan_flags(CLI::App& app, PlanFlags* flags);

}  // namespace quern
