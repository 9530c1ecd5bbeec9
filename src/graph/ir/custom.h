// Kinds of nodes that are registered by quern/kind.h. A node of such a kind has OpKind::custom and names its kind.
#pragma once

#include <quern/kind.h>

#include "base/journal.h"
#include "graph/ir/rules.h"

namespace quern {

// Returns the registered kind of this name, or NULL.
const qn_kind* find_kind(const char* name);

// Adds to the number of uses of a kind.
void count_use(const qn_kind& kind, int one) noexcept;

// Keeps a kind registered: qn_unregister_kinds() refuses kinds in use.
class KindUse {
 public:
  explicit KindUse(const qn_kind& used) : kind(used) {
    count_use(kind, 1);
    const auto end = [](void*, size_t address) { count_use(*reinterpret_cast<const qn_kind*>(address), -1); };
    note(this, reinterpret_cast<size_t>(&kind), end);
  }
  KindUse(const KindUse&) = delete;
  KindUse& operator=(const KindUse&) = delete;
  ~KindUse() {
    forget(this);
    count_use(kind, -1);
  }

  const qn_kind& kind;
};

// What the functions of a kind see of a node.
inline const qn_node* shown(const Node& node) { return reinterpret_cast<const qn_node*>(&node); }

// Describes the node's inputs. Those that are constants have data; so do those that `known` has data for.
Vector<qn_operand> operands_of(const Graph& graph, const Vector<int>& tensors);

// Whether the shapes of the node's outputs follow from shapes and constants. Otherwise only a run knows them.
bool is_sized_before_run(const Graph& graph, const Node& node);

// Checks that the kind of the node is registered, and takes as many inputs and outputs.
qn_status check_custom(const Node& node);
// As infer_node() does for nodes of other kinds.
qn_status infer_custom(Graph& graph, const Node& node);

}  // namespace quern
