// Measures how many operations one core can do per second. Benchmarks compare with this to print "percent of peak".
//
// The figure is measured, not computed from a data sheet: the calling thread runs a loop of multiply-adds that touches
// registers only. The tools link this code; the runtime library does not contain it.
#pragma once

#include <cstdint>
#include <vector>

namespace quern {

// The numbers that the loop multiplies.
enum class PeakOf { floats, bytes };

struct Peak {
  uint32_t isa;  // level of base/cpu.h
  PeakOf of;
  double ops_per_second;
};

// Measures all levels that QUERN_ISA allows, unless they multiply like a lower level. Each takes about 30 ms. A
// multiply-add counts as two operations, even if it rounds twice (neon and ref on 32-bit ARM) or consists of several
// instructions (bytes without dot products). Levels without a multiply-add of floats (ref and sse41 on x86) run
// multiplications and additions side by side.
std::vector<Peak> measure_peaks();

// Returns the peak of floats of one level, which this CPU must have; 0 if the level multiplies floats like a lower one.
double measure_peak_flops(uint32_t isa);

// Returns the largest peak of bytes among the levels that QUERN_ISA allows; 0 if ref is the only one.
double measure_peak_of_bytes();

// Returns the highest level from which kernels of floats are chosen. The environment variable QUERN_ISA can lower it.
uint32_t best_isa();

}  // namespace quern
