// How much memory this process has held at most.
#pragma once

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

}  // namespace quern
