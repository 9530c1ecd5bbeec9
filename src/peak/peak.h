// How many floating-point operations one core can do per second, for "percent of peak".
//
// Measured, not computed from a data sheet: a loop of multiply-adds between registers alone, on the calling thread. The
// tools link this; the runtime library does not carry it.
#pragma once

#include <cstdint>

namespace quern {

// What is multiplied.
enum class PeakOf { floats, bytes };

// The peak, in operations per second, of one level of base/cpu.h, which this CPU must have; 0 where the level has no
// instructions of its own for such numbers. Takes about 30 ms. A multiply-add counts as two operations, one that rounds
// twice, too (neon and ref on 32-bit ARM); levels of floats without it (ref, sse41) run multiplications beside additions.
double measure_peak(uint32_t isa, PeakOf of);
inline double measure_peak_flops(uint32_t isa) { return measure_peak(isa, PeakOf::floats); }

// The highest level that kernels are chosen from, after QUERN_ISA.
uint32_t best_isa();

}  // namespace quern
