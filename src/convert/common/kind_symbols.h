// Symbols of what nodes of libquern-extra's kinds compute.
#pragma once

#include <optional>

#include "convert/common/symbols.h"

namespace quern::convert {

// Returns the symbols of an output, by the rule of the node's kind; nothing if there is no rule, or if it needs a
// constant where the node has a tensor. A size that the rule does not know depends on those that it is made of alone.
std::optional<std::vector<Symbol>> symbols_of_kind(Symbols& symbols, const Graph& graph, const Node& node,
                                                   size_t output);

// The size on which the rank of the node's outputs depends, so that it must not change; no_symbol if there is none.
Symbol symbol_of_rank(const Symbols& symbols, const Graph& graph, const Node& node);

}  // namespace quern::convert
