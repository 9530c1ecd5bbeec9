// The command `quern` with tiles (AMX) emulated, wherever a CPU has all else that kernels of tiles need. On a CPU with
// AMX, QUERN_ISA=avx512vnni makes it emulate.
#include <cstdio>

#include "check/amx_emulator.h"
#include "check/checker.h"

// The `main` of the command (CMakeLists.txt).
int quern_main(int argc, char** argv);

namespace quern::check {
namespace {

// Makes the library choose the kernels that only the emulator lets run here, and returns whether there are any.
bool emulate_tiles(Cpu* pretended) {
  *pretended = cpu();
  for (const Kernel& kernel : all_kernels()) {
    if (runs_here(*kernel.row) || !can_check(kernel)) continue;
    emulate_amx_in(kernel.code);
    pretended->isa |= kernel.row->isa;
    pretended->permitted = true;
  }
  if (pretended->permitted) replace_cpu(pretended);
  return pretended->permitted;
}

}  // namespace
}  // namespace quern::check

int main(int argc, char** argv) {
  static quern::Cpu pretended;
  if (quern::check::emulate_tiles(&pretended)) std::fputs("quern: tiles are emulated\n", stderr);
  return quern_main(argc, argv);
}
