// Time for measurements.
#pragma once

#include <cstdint>
#include <ctime>

namespace quern {

// Nanoseconds since some fixed moment; never runs backwards. (std::chrono's clock would need the C++ runtime.)
inline uint64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace quern
