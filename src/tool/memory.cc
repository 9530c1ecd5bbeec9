#include "tool/memory.h"

#include <quern/base.h>

#include <algorithm>
#include <cstdlib>
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

AllocationMeter::AllocationMeter() {
  const qn_allocator allocator = {this, allocate, release, {}};
  qn_set_allocator(&allocator);
}

AllocationMeter::~AllocationMeter() { qn_set_allocator(nullptr); }

void* AllocationMeter::allocate(void* meter, size_t size, size_t alignment) {
  auto* const self = static_cast<AllocationMeter*>(meter);
  void* pointer = nullptr;
  if (posix_memalign(&pointer, std::max(alignment, sizeof(void*)), size) != 0) return nullptr;
  const int64_t held = self->held_ += static_cast<int64_t>(size);
  int64_t peak = self->peak_;
  while (held > peak && !self->peak_.compare_exchange_weak(peak, held)) {}
  return pointer;
}

void AllocationMeter::release(void* meter, void* pointer, size_t size) {
  static_cast<AllocationMeter*>(meter)->held_ -= static_cast<int64_t>(size);
  std::free(pointer);
}

}  // namespace quern
