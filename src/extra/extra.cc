// Registers the kinds of all files.
#include <quern/extra.h>

#include <vector>

#include "extra/node.h"

namespace quern::extra {

std::vector<qn_kind> all_kinds() {
  std::vector<qn_kind> all;
  for (const Kinds kinds : {
           elementwise_kinds(), binary_kinds(),  reduce_kinds(),    along_kinds(),       convert_kinds(),
           integer_kinds(),     shape_kinds(),   moving_kinds(),    choosing_kinds(),    selecting_kinds(),
           making_kinds(),      product_kinds(), einsum_kinds(),    convolution_kinds(), normalization_kinds(),
           attention_kinds(),   image_kinds(),   recurrent_kinds(), pool_kinds(),        region_kinds(),
           detection_kinds(),   anchor_kinds(),  gram_kinds(),      spectrum_kinds(),    sampling_kinds(),
       }) {
    all.insert(all.end(), kinds.begin(), kinds.end());
  }
  return all;
}

}  // namespace quern::extra

extern "C" qn_status qn_extra_register(void) {
  static bool done = false;
  if (done) return QN_OK;
  static const std::vector<qn_kind> all = quern::extra::all_kinds();
  const qn_status status = qn_register_kinds(all.data(), all.size());
  done = status == QN_OK;
  return status;
}

#ifndef QN_STATIC
namespace {
[[maybe_unused]] const qn_status registered = qn_extra_register();
}
#endif
