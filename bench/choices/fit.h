// quern-choices --fit: what the cost models should know of this machine.
#pragma once

#include <string>
#include <vector>

namespace quern {

struct FitArguments {
  std::vector<std::string> models;
  size_t repeats = 1;
  size_t seconds = 0;  // after which nothing more is measured; 0: no limit
  std::string times;   // a file of measured times, which is read if it is there, and completed; empty: none
};

// Measures layers by all candidates and looks for the row of op/core/machine.inc that explains best what is fast and how
// fast that is. Prints it.
void fit(const FitArguments& arguments);

}  // namespace quern
