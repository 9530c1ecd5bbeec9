// The command `quern` with tiles (AMX) emulated, wherever a CPU has all else that kernels of tiles need. On a CPU with
// AMX, QUERN_ISA=avx512vnni makes it emulate.
#include <cstdio>

#include "base/cpu.h"
#include "check/amx_emulator.h"
#include "kernel/gemm.h"
#include "kernel/tapgemm.h"

// The `main` of the command (CMakeLists.txt).
int quern_main(int argc, char** argv);

namespace quern {
namespace {

template <class Row>
void emulate(std::span<const Row> rows) {
  for (const Row& row : rows) {
    if (of_tiles(row)) check::emulate_amx_in(reinterpret_cast<const void*>(row.run));
  }
}

bool emulate_tiles(Cpu* pretended) {
  const uint32_t others = isa_amxint8 & ~uint32_t{feature_amxint8};
  if ((cpu().isa & isa_amxint8) != others || !check::install_amx_emulator()) return false;
  emulate<GemmRow>(gemm_rows());
  emulate<TapgemmRow>(tapgemm_rows());
  *pretended = cpu();
  pretended->isa |= feature_amxint8;
  pretended->permitted = true;
  replace_cpu(pretended);
  return true;
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  static quern::Cpu pretended;
  if (quern::emulate_tiles(&pretended)) std::fputs("quern: tiles are emulated\n", stderr);
  return quern_main(argc, argv);
}
