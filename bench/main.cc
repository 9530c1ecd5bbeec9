// quern-bench: every row of the kernel tables and the operator shapes of well-known networks.
//
// Flags are those of google-benchmark, and --threads=1,2: with how many threads operators are run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "bench.h"
#include "peak/peak.h"

namespace quern {
namespace {

std::map<uint32_t, double> measure_peaks() {
  std::map<uint32_t, double> peaks;
  for (uint32_t isa = 1; isa != 0; isa <<= 1) {
    if ((cpu().isa & isa) != 0) peaks[isa] = measure_peak_flops(isa);
  }
  return peaks;
}

const std::map<uint32_t, double>& peaks() {
  static const std::map<uint32_t, double> measured = measure_peaks();
  return measured;
}

// Takes --threads=LIST out of the arguments. False for anything but numbers from 1 to 1024.
bool take_threads(int* argc, char** argv, std::vector<size_t>* threads) {
  for (int i = 1; i < *argc; ++i) {
    if (std::strncmp(argv[i], "--threads=", 10) != 0) continue;
    threads->clear();
    const char* p = argv[i] + 10;
    do {
      char* end = nullptr;
      const unsigned long count = std::strtoul(p, &end, 10);
      if (end == p || count < 1 || count > 1024 || (*end != ',' && *end != '\0')) return false;
      threads->push_back(count);
      p = *end == ',' ? end + 1 : end;
    } while (*p != '\0');
    std::rotate(argv + i, argv + i + 1, argv + *argc);
    --*argc;
    return true;
  }
  return true;
}

}  // namespace

double peak_of(uint32_t isa) {
  const auto found = peaks().find(isa);
  return found == peaks().end() ? 0 : found->second;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void Chunks::finish_chunk() {
  const double end = now(), seconds = end - start_;
  if (seconds < 0.5e-3 && calls_per_chunk_ < 1u << 20) {
    calls_per_chunk_ *= 2;  // still finding the length
    seconds_.clear();
  }
  seconds_.push_back(seconds / static_cast<double>(calls_));
  start_ = end;
  calls_ = 0;
}

double Chunks::seconds_per_call() {
  if (seconds_.empty()) finish_chunk();
  const auto middle = seconds_.begin() + static_cast<ptrdiff_t>(seconds_.size() / 2);
  std::nth_element(seconds_.begin(), middle, seconds_.end());
  return *middle;
}

Floats::Floats(size_t count) : buffer_(count * sizeof(float)) {
  uint32_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    data()[i] = static_cast<float>(static_cast<int32_t>(state) >> 8 | 1) * 0x1p-23f;
  }
}

std::string join(std::initializer_list<size_t> numbers) {
  std::ostringstream stream;
  const char* separator = "";
  for (const size_t number : numbers) {
    stream << separator << number;
    separator = "x";
  }
  return stream.str();
}

int bench_main(int argc, char** argv) {
  std::vector<size_t> threads = {1};
  const size_t cores = std::thread::hardware_concurrency();
  if (cores > 1) threads.push_back(cores);
  if (!take_threads(&argc, argv, &threads)) {
    std::fprintf(stderr, "quern-bench: --threads takes numbers with commas between, like 1,2\n");
    return 2;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;

  benchmark::AddCustomContext("quern_isa", isa_name(best_isa()));
  for (const auto& [isa, flops] : peaks()) {
    benchmark::AddCustomContext(text("quern_peak_gflops_", isa_name(isa)), std::to_string(flops * 1e-9));
  }
  register_kernels();
  register_streams();
  register_operators(threads);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace quern

int main(int argc, char** argv) { return quern::bench_main(argc, argv); }
