// How much memory this process has held.
#pragma once

#include <cstdint>

namespace quern {

// Counts from here: forgets earlier peaks where the system allows that, and remembers what is held now.
class PeakMemory {
 public:
  PeakMemory();
  // Largest resident size since construction, less that at construction, in bytes.
  uint64_t growth() const;

 private:
  uint64_t before_;
};

}  // namespace quern
