// Helpers that all files of quern-bench share; quern-peers-bench uses them, too.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/memory.h"
#include "peak/meter.h"
#include "shapes.h"

namespace quern {

// The work of one call.
struct Work {
  double ops;    // floating-point operations; a multiply-accumulate is two
  double bytes;  // read and written, each byte of the operands once
};

// The fastest loop of the levels that these features include; NULL if there is none. Measured at the first call.
const PeakLoop* loop_of(uint32_t isa, PeakOf of);
// The same, but the loop of floats where no level multiplies bytes in a way of its own.
const PeakLoop* loop_to_reach(uint32_t isa, PeakOf of);

double now();  // seconds

// Times a benchmark's calls in chunks of about half a millisecond. Counters come from the median chunk: other programs
// on the machine disturb it less than the mean that google-benchmark prints beside them.
class Chunks {
 public:
  explicit Chunks(PeakMeter* meter) : meter_(meter), start_(meter->now()) {}
  // Was it the last one of a chunk?
  bool count_call() {
    if (++calls_ != calls_per_chunk_) return false;
    finish_chunk();
    return true;
  }
  void restart() { start_ = meter_->now(); }
  double seconds_per_call();  // 0 without a call
  const std::vector<TimedWork>& calls();

 private:
  void finish_chunk();
  PeakMeter* meter_;
  double start_;
  size_t calls_ = 0, calls_per_chunk_ = 1;
  std::vector<TimedWork> times_;  // of a call, one for each chunk
};

// Runs the benchmark and writes ops_per_second, bytes_per_second, and percent_of_peak. The meter's loop takes turns
// with chunks of the benchmark; google-benchmark does not count its time. With several variants, call(variant), they
// take turns and the slowest one counts.
template <class Call>
void measure(benchmark::State& state, const Work& work, PeakMeter meter, size_t variants, Call&& call) {
  std::vector<Chunks> chunks(variants, Chunks(&meter));
  size_t variant = 0;
  chunks[0].restart();
  for (auto _ : state) {
    call(variant);
    benchmark::ClobberMemory();
    if (!chunks[variant].count_call()) continue;
    if (meter.due()) {
      state.PauseTiming();
      meter.take_turn();
      state.ResumeTiming();
    }
    variant = (variant + 1) % variants;
    chunks[variant].restart();
  }
  const auto faster = [](Chunks& a, Chunks& b) { return a.seconds_per_call() < b.seconds_per_call(); };
  Chunks& slowest = *std::max_element(chunks.begin(), chunks.end(), faster);
  state.counters["ops_per_second"] = work.ops / slowest.seconds_per_call();
  state.counters["bytes_per_second"] = work.bytes / slowest.seconds_per_call();
  state.counters["percent_of_peak"] = meter.percent(work.ops, slowest.calls());
}

template <class Call>
void measure(benchmark::State& state, const Work& work, PeakMeter meter, Call&& call) {
  measure(state, work, std::move(meter), 1, [&](size_t) { call(); });
}

// `count` floats in [-1, 1), none of them denormal; aligned to 64.
class Floats {
 public:
  explicit Floats(size_t count);
  float* data() const { return static_cast<float*>(buffer_.data()); }

 private:
  Buffer buffer_;
};

// One text from strings and numbers.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

// "14x14x512" from numbers.
std::string join(std::initializer_list<size_t> numbers);
std::string image_name(size_t size, size_t channels);
std::string window_name(size_t kernel, size_t stride);
// height x width x channels _ output channels k kernel s stride; rows x inputs x outputs.
std::string shape_name(const ConvShape& s);
std::string shape_name(const DepthwiseShape& s);
std::string shape_name(const MatrixShape& s);

// Removes the argument that begins with `prefix` ("--threads=") and returns the rest of it; NULL if there is none.
const char* take_flag(int* argc, char** argv, const char* prefix);
// Numbers from 1 to 1024 with commas between. False for anything else.
bool parse_counts(const char* list, std::vector<size_t>* counts);

void register_kernels();
void register_streams();
void register_operators(const std::vector<size_t>& threads);

}  // namespace quern
