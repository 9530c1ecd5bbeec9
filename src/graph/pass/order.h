// Orders of dimensions, and the nodes that change them: `transpose`, or the registered kind `permute`.
#pragma once

#include "graph/pass/rewrite.h"

namespace quern {

// Dimension d of the result is dimension order[d] of the input.
using Order = Vector<int64_t>;

// The order that the node gives its input's dimensions; empty if it is none of these nodes, or says it otherwise.
Order order_of(const Node& node);
void set_order(Node& node, Order order);

bool is_identity(const Order& order);
Order inverse(const Order& order);

}  // namespace quern
