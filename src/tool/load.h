// What it costs to load a model.
#pragma once

#include <cstdint>
#include <vector>

#include "tool/model.h"

namespace quern {

struct LoadCost {
  double ms;            // from the file to a session that can run, which includes packing; the median of a few loads
  uint64_t peak_bytes;  // what the library's allocator holds at most meanwhile, without activations and workspace.
                        // Weights that stay in a mapped file do not count
};

// Loads the model once. `activations`: bytes that a session needs (qn_session_memory()). No other thread may call the library
// meanwhile.
uint64_t measure_load_peak(const ModelFiles& files, const std::vector<ImportOptions::Input>& sizes,
                           SessionSettings settings, size_t activations);

// Loads the model up to five times, or for about a second, and once more for the peak.
LoadCost measure_load(const ModelFiles& files, const std::vector<ImportOptions::Input>& sizes,
                      const SessionSettings& settings);

}  // namespace quern
