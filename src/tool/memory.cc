#include "tool/memory.h"

#include <fstream>
#include <sstream>
#include <string>

namespace quern {
namespace {

// The number of a line such as "VmHWM:     1234 kB" of /proc/self/status, in bytes; 0 without such a line.
uint64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(key + ":")) continue;
    uint64_t kilobytes = 0;
    std::istringstream(line.substr(key.size() + 1)) >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

PeakMemory::PeakMemory() {
  // Writing "5" resets the peak to the present resident size (proc(5)). Some systems refuse, which does no harm.
  std::ofstream("/proc/self/clear_refs") << 5;
  before_ = status_bytes("VmRSS");
}

uint64_t PeakMemory::growth() const {
  const uint64_t peak = status_bytes("VmHWM");
  return peak > before_ ? peak - before_ : 0;
}

}  // namespace quern
