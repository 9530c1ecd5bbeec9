// Scores of classes.
#pragma once

#include <cstddef>
#include <vector>

namespace quern {

// Indices of the `count` largest scores, largest first; of equal ones the lower index first. NaN comes last.
std::vector<size_t> best_classes(const std::vector<double>& scores, size_t count);

// The scores themselves where they are probabilities already (none negative, sum 1), else their softmax.
std::vector<double> probabilities(std::vector<double> scores);

}  // namespace quern
