// Streams of the coder (src/graph/coder) by themselves: in a file, checksums guard them, so that damage hardly ever
// reaches what decodes them.
#pragma once

#include "seeds.h"

namespace quern {

std::vector<Seed> coder_seeds();

// Decodes what a case describes. Throws Error if that is refused; ends the process if the same stream is read as two
// different matrices.
void read_coder(const std::string& bytes);

}  // namespace quern
