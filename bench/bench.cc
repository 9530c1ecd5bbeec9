#include "bench.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "peak/median.h"

namespace quern {

const PeakLoop* loop_of(uint32_t isa, PeakOf of) {
  static std::map<std::pair<uint32_t, PeakOf>, const PeakLoop*> known;
  const auto [found, is_new] = known.try_emplace({isa, of});
  if (is_new) found->second = fastest_loop(isa, of);
  return found->second;
}

const PeakLoop* loop_to_reach(uint32_t isa, PeakOf of) {
  const PeakLoop* const loop = loop_of(isa, of);
  return loop != nullptr ? loop : loop_of(isa, PeakOf::floats);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void Chunks::finish_chunk() {
  const double end = meter_->now(), seconds = end - start_;
  if (seconds < 0.5e-3 && calls_per_chunk_ < 1u << 20) {
    calls_per_chunk_ *= 2;  // still finding the length
    times_.clear();
  }
  times_.push_back(meter_->add(seconds, calls_));
  start_ = end;
  calls_ = 0;
}

const std::vector<TimedWork>& Chunks::calls() {
  if (times_.empty() && calls_ != 0) finish_chunk();
  return times_;
}

double Chunks::seconds_per_call() { return calls().empty() ? 0 : median_seconds(times_); }

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

std::string image_name(size_t size, size_t channels) { return join({size, size, channels}); }
std::string window_name(size_t kernel, size_t stride) { return text("k", kernel, "s", stride); }

std::string shape_name(const ConvShape& s) {
  return text(image_name(s.size, s.in), "_", s.out, "_", window_name(s.kernel, s.stride));
}
std::string shape_name(const DepthwiseShape& s) {
  return text(image_name(s.size, s.channels), "_", window_name(s.kernel, s.stride));
}
std::string shape_name(const MatrixShape& s) { return join({s.rows, s.in, s.out}); }

const char* take_flag(int* argc, char** argv, const char* prefix) {
  for (int i = 1; i < *argc; ++i) {
    if (std::strncmp(argv[i], prefix, std::strlen(prefix)) != 0) continue;
    const char* value = argv[i] + std::strlen(prefix);
    std::rotate(argv + i, argv + i + 1, argv + *argc);
    --*argc;
    return value;
  }
  return nullptr;
}

bool parse_counts(const char* list, std::vector<size_t>* counts) {
  counts->clear();
  for (const char* p = list;; ++p) {
    char* end = nullptr;
    const unsigned long count = std::strtoul(p, &end, 10);
    if (end == p || count < 1 || count > 1024) return false;
    counts->push_back(count);
    if (*end == '\0') return true;
    if (*end != ',') return false;
    p = end;
  }
}

}  // namespace quern
