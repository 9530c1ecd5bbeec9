// BLIS, through cblas.
#include <blis.h>

#include <cstdlib>

#include "blas.h"

namespace {

void set_threads(int threads) { bli_thread_set_num_threads(threads); }

}  // namespace

QUERN_PEER {
  using namespace quern::peers;
  // BLIS takes a CPU that is newer than itself for one without vectors.
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    setenv("BLIS_ARCH_TYPE", std::to_string(BLIS_ARCH_SKX).c_str(), 1);
  bli_init();
  auto* peer = new Peer{std::string(bli_info_get_version_str()) + " " + bli_arch_string(bli_arch_query_id()), {}};
  peer->engines.push_back(std::make_unique<Blas>("blis", set_threads));
  return peer;
}
