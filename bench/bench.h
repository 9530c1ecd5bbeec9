// What the files of quern-bench share.
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/memory.h"

namespace quern {

// What one call does.
struct Work {
  double ops;    // floating-point operations; a multiply-accumulate is two
  double bytes;  // read and written, each byte of the operands once
};

// Peak of one core at a level, measured when the program started; 0 if this CPU lacks it.
double peak_of(uint32_t isa);

// Writes the counters of a finished loop: ops_per_second, bytes_per_second, and percent_of_peak, where the peak is that
// of `threads` cores at level `isa`.
void set_counters(benchmark::State& state, double seconds, const Work& work, uint32_t isa, size_t threads);

double now();  // seconds

template <class Call>
void measure(benchmark::State& state, const Work& work, uint32_t isa, size_t threads, Call&& call) {
  const double start = now();
  for (auto _ : state) {
    call();
    benchmark::ClobberMemory();
  }
  set_counters(state, now() - start, work, isa, threads);
}

// `count` floats in [-1, 1), none of them denormal; aligned to 64.
class Floats {
 public:
  explicit Floats(size_t count);
  float* data() const { return static_cast<float*>(buffer_.data()); }

 private:
  Buffer buffer_;
};

// "14x14x512" from numbers.
std::string join(std::initializer_list<size_t> numbers);

void register_kernels();
void register_streams();
void register_operators(const std::vector<size_t>& threads);

}  // namespace quern
