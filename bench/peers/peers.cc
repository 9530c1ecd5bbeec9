#include "peers.h"

#include <dlfcn.h>

#include <cstdlib>

#include "base/cpu.h"

namespace quern::peers {

std::vector<std::string> peer_names() { return {"xnnpack", "onednn", "openblas", "blis"}; }

const Peer& open_peer(const std::string& name) {
  // OpenBLAS takes a CPU that is newer than itself for one without 512-bit vectors. It reads this variable when it is
  // loaded.
  if ((cpu().isa & isa_avx512) != 0) setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
  const std::string path = QUERN_PEERS_DIR "/quern-peer-" + name + ".so";
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) throw std::runtime_error(dlerror());
  void* const function = dlsym(module, "quern_peer");
  if (function == nullptr) throw std::runtime_error(dlerror());
  return *reinterpret_cast<Peer* (*)()>(function)();
}

}  // namespace quern::peers
