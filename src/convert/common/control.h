// Branches and loops: nodes that run graphs, from functions that import what these graphs hold.
#pragma once

#include <functional>
#include <vector>

#include "convert/common/source_node.h"

namespace quern::convert {

// Imports the nodes of another graph of the source into a builder. Returns that graph's outputs.
using Body = std::function<Values(Builder& to, const Values& inputs)>;

// Runs one of two graphs, which read the same inputs. If the condition is known at import, there is no node.
Values branch(const SourceNode& node, const Value& condition, const Values& inputs, const Body& yes, const Body& no);

// Runs the body as long as the condition says so, also before the first run. Both read what the loop carries, and the body
// returns it anew. `passed[i]`: the body returns value i as it got it; if it is known, it is a constant there.
Values while_loop(const SourceNode& node, const Values& inputs, const std::vector<bool>& passed, const Body& condition,
                  const Body& body);

}  // namespace quern::convert
