// Reads and writes orders of dimensions.
#include "graph/pass/order.h"

#include <algorithm>

#include "graph/pass/match.h"

namespace quern {

Order order_of(const Node& node) {
  if (node.kind == OpKind::transpose) return node.attributes.values;
  if (!is_kind(node, "permute")) return {};
  for (const Parameter& parameter : node.parameters) {
    if (parameter.name != "perm") continue;
    const bool counts_from_behind =
        std::any_of(parameter.integers.begin(), parameter.integers.end(), [](int64_t d) { return d < 0; });
    return counts_from_behind ? Order() : parameter.integers;
  }
  return {};  // all dimensions the other way round
}

void set_order(Node& node, Order order) {
  if (node.kind == OpKind::transpose) {
    node.attributes.values = std::move(order);
    return;
  }
  for (Parameter& parameter : node.parameters) {
    if (parameter.name == "perm") parameter.integers = std::move(order);
  }
}

bool is_identity(const Order& order) { return std::is_sorted(order.begin(), order.end()); }

Order inverse(const Order& order) {
  Order result(order.size());
  for (size_t d = 0; d < order.size(); ++d) result[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  return result;
}

}  // namespace quern
