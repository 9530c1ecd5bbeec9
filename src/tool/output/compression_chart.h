// The charts of a compressed model.
#pragma once

#include <string>
#include <vector>

#include "tool/compression.h"
#include "tool/output/plot.h"

namespace quern {

// What files of several sizes lose, and what each step saves of them. `before`: bytes of the file that was compressed.
std::vector<Chart> compression_charts(const std::string& model, uint64_t before, const Compression& compression);

}  // namespace quern
