// Registers the kinds of all files.
#include <quern/extra.h>

#include <vector>

#include "extra/node.h"

namespace {

std::vector<qn_kind> all_kinds() {
  std::vector<qn_kind> all;
  for (const quern::extra::Kinds kinds : {
           quern::extra::elementwise_kinds(), quern::extra::binary_kinds(),      quern::extra::reduce_kinds(),
           quern::extra::along_kinds(),       quern::extra::convert_kinds(),     quern::extra::integer_kinds(),
           quern::extra::shape_kinds(),       quern::extra::moving_kinds(),      quern::extra::choosing_kinds(),
           quern::extra::selecting_kinds(),   quern::extra::making_kinds(),      quern::extra::product_kinds(),
           quern::extra::einsum_kinds(),      quern::extra::convolution_kinds(), quern::extra::normalization_kinds(),
           quern::extra::attention_kinds(),   quern::extra::image_kinds(),       quern::extra::recurrent_kinds(),
           quern::extra::pool_kinds(),        quern::extra::region_kinds(),      quern::extra::detection_kinds(),
           quern::extra::anchor_kinds(),      quern::extra::gram_kinds(),        quern::extra::spectrum_kinds(),
           quern::extra::sampling_kinds(),
       }) {
    all.insert(all.end(), kinds.begin(), kinds.end());
  }
  return all;
}

}  // namespace

extern "C" qn_status qn_extra_register(void) {
  static bool done = false;
  if (done) return QN_OK;
  static const std::vector<qn_kind> all = all_kinds();
  const qn_status status = qn_register_kinds(all.data(), all.size());
  done = status == QN_OK;
  return status;
}

#ifndef QN_STATIC
namespace {
[[maybe_unused]] const qn_status registered = qn_extra_register();
}
#endif
