// How much memory this process has held at most.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace quern {

// Counts from its construction on: forgets earlier peaks, if the system allows that, and remembers how much is held
// now.
class PeakMemory {
 public:
  PeakMemory();
  // The largest resident size since construction, less the size at construction, in bytes.
  uint64_t growth() const;

 private:
  uint64_t before_;
};

// Counts what the library allocates: replaces its allocator, until destruction, by one that takes memory from the same
// place, so blocks may outlive it. One at a time.
class AllocationMeter {
 public:
  AllocationMeter();
  ~AllocationMeter();
  AllocationMeter(const AllocationMeter&) = delete;
  AllocationMeter& operator=(const AllocationMeter&) = delete;
  // The most bytes held at a time, beyond those at construction.
  uint64_t peak() const { return static_cast<uint64_t>(peak_.load()); }

 private:
  static void* allocate(void* meter, size_t size, size_t alignment);
  static void release(void* meter, void* pointer, size_t size);

  std::atomic<int64_t> held_ = 0, peak_ = 0;
};

}  // namespace quern
