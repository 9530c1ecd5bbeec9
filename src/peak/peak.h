// Measures how many operations one core can do per second. Benchmarks compare with this to print "percent of peak".
//
// The figure is measured, not computed from a data sheet: the calling thread runs a loop of multiply-adds that touches
// registers only. The tools link this code; the runtime library does not contain it.
#pragma once

#include <cstdint>

namespace quern {

// The numbers that the loop multiplies.
enum class PeakOf { floats, bytes };

// Returns the peak in operations per second of one level of base/cpu.h. This CPU must have the level. Returns 0 if the
// level has no instructions of its own for such numbers. Takes about 30 ms. A multiply-add counts as two operations,
// even if it rounds twice (neon and ref on 32-bit ARM). Levels without a multiply-add of floats (ref and sse41 on x86)
// run multiplications and additions side by side.
double measure_peak(uint32_t isa, PeakOf of);
inline double measure_peak_flops(uint32_t isa) { return measure_peak(isa, PeakOf::floats); }

// Returns the largest peak of bytes among the levels that QUERN_ISA allows; 0 if no such level has instructions for
// them.
double measure_peak_of_bytes();

// Returns the highest level from which kernels of floats are chosen. The environment variable QUERN_ISA can lower it.
uint32_t best_isa();
// The same for bytes.
uint32_t best_isa_of_bytes();

}  // namespace quern
