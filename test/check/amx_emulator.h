// An emulator of AMX, so that every x86-64 CPU with FMA can check kernels that use tiles. For Linux.
//
// A handler of SIGILL executes the twelve instructions of AMX-TILE, AMX-INT8 and AMX-BF16 with the results of an Intel
// CPU, bit for bit. Each thread has its own tiles. Other illegal instructions are passed to the previous handler. So
// are AMX instructions that raise #UD, for example because a tile is not configured. A bad address or configuration
// raises SIGSEGV in the emulator.
#pragma once

namespace quern::check {

// Installs the emulator. Returns false if it does not support this system or CPU. A handler of SIGILL that is installed
// later replaces it, so call install_handlers() (platform.h) first.
//
// If Linux permits this process to use tiles, only the instructions at addresses given to emulate_amx_at() are emulated.
// Without permission, the others are, too: but ldtilecfg and tilerelease, which a CPU with AMX executes nevertheless.
bool install_amx_emulator();

// Overwrites an AMX instruction with a trap (UD2) that the emulator handles like the instruction. Not thread-safe: call
// it before the kernel runs. For mutation, call it before the kernel is mutated.
void emulate_amx_at(const void* instruction);

// The same for the first ldtilecfg of a kernel and all others up to its first tilerelease, which is what a kernel needs
// that runs without permission.
void emulate_amx_in(const void* kernel);

// Releases the emulated tiles of this thread. Returns whether they were in use, as when a kernel lacks tilerelease.
// Linux releases the CPU's tiles when a handler leaves by siglongjmp; the emulator needs this call.
bool release_emulated_amx();

}  // namespace quern::check
