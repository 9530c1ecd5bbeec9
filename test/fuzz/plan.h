// Plans of what becomes of layers, as `quern compress --plan` reads them.
#pragma once

#include <string>
#include <vector>

#include "seeds.h"

namespace quern {

std::vector<Seed> plan_seeds();
// Reads a plan for a small model. What it accepts is written, and must mean the same when it is read again.
void read_plan(const std::string& bytes);

}  // namespace quern
