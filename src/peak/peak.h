// How many floating-point operations one core can do per second, for "percent of peak".
//
// Measured, not computed from a data sheet: a loop of multiply-adds between registers alone, on the calling thread. The
// tools link this; the runtime library does not carry it.
#pragma once

#include <cstdint>

namespace quern {

// The peak of one level of base/cpu.h, which this CPU must have; takes about 30 ms. A fused multiply-add counts as two
// operations, and so does one that rounds twice (neon and ref on 32-bit ARM); other levels without it (ref, sse41) run
// multiplications beside additions.
double measure_peak_flops(uint32_t isa);

// The highest level that kernels are chosen from, after QUERN_ISA.
uint32_t best_isa();

}  // namespace quern
