// Registers the kinds of all files.
#include <quern/extra.h>

#ifdef __APPLE__
#include <dlfcn.h>
#endif

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
  static const auto& all =
      *new std::vector<qn_kind>(quern::extra::all_kinds());  // threads may still load models at exit
  const qn_status status = qn_register_kinds(all.data(), all.size());
  done = status == QN_OK;
  return status;
}

#ifndef QN_STATIC
namespace {
#ifdef __APPLE__
// Keeps the library loaded after dlclose(), as -z nodelete does elsewhere: libquern and models refer to its kinds.
[[maybe_unused]] const void* const kept = [] {
  Dl_info self;
  const bool known = dladdr(reinterpret_cast<const void*>(&qn_extra_register), &self) != 0;
  return known ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) : nullptr;
}();
#endif
[[maybe_unused]] const qn_status registered = qn_extra_register();
}  // namespace
#endif
