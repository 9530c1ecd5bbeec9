// Pass remove-dead: nodes that no output depends on go.
#include <algorithm>

#include "base/status.h"
#include "graph/pass/rewrite.h"

namespace quern {

qn_status remove_dead(Rewriter& r) {
  for (size_t i = r.size(); i-- > 0;) {
    const Vector<int>& outputs = r.node(i).outputs;
    if (std::none_of(outputs.begin(), outputs.end(), [&](int x) { return r.is_read(x); })) r.remove(r.node(i));
  }
  return QN_OK;
}

}  // namespace quern
