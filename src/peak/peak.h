// Loops that reach the peak of a core: multiply-adds between registers, nothing else. PeakMeter (meter.h) times them
// in turn with the work that is held against the peak.
//
// The tools and the benchmarks link this code; the runtime library does not contain it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quern {

// The numeric type that a loop multiplies: f32 or int8.
enum class PeakOf { floats, bytes };

// The registers of a loop, vectors or tiles, one after the other, before and after it runs: accumulators, then operands.
class PeakRegisters {
 public:
  // Random values, as the operands of real work are: how much power a multiplication takes, and so the clock, depends
  // on how many bits change. floats: 0.5 to 1, of either sign; bytes: any.
  explicit PeakRegisters(PeakOf of);
  void* data() { return words_; }
  const void* data() const { return words_; }

 private:
  alignas(64) uint32_t words_[8 * 256];  // 8 tiles; vectors are fewer bytes
};

struct PeakLoop {
  uint32_t isa;  // the level of base/cpu.h whose instructions it uses
  PeakOf of;
  size_t operations;      // of one turn; a multiply-add is two
  size_t accumulators;    // how many registers are accumulators
  size_t register_bytes;  // bytes of a register
  // Loads the registers, runs the loop, and stores the accumulators. Accumulators of floats stay as small as they were:
  // a turn adds each product and subtracts it again. Accumulators of bytes are 32-bit sums, which wrap.
  void (*run)(size_t turns, void* registers);
};

// All loops of this build. A level is missing if it multiplies like a lower one. A multiply-add counts as two
// operations, even if it rounds twice (neon and ref on 32-bit ARM) or consists of several instructions (int8 without
// dot products). Levels without a multiply-add of f32 (ref and sse41 on x86) run multiplications and additions side by
// side.
std::span<const PeakLoop> all_peak_loops();

}  // namespace quern
