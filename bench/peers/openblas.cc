// OpenBLAS, through cblas.
#include "blas.h"

extern "C" char* openblas_get_corename();

QUERN_PEER {
  using namespace quern::peers;
  // "OpenBLAS 0.3.21 NO_LAPACKE ...", then what its kernels are for.
  const std::string config = openblas_get_config();
  const size_t version = config.find(' ') + 1;
  auto* peer =
      new Peer{config.substr(version, config.find(' ', version) - version) + " " + openblas_get_corename(), {}};
  peer->engines.push_back(std::make_unique<Blas>("openblas", openblas_set_num_threads));
  return peer;
}
