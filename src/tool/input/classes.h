// Scores of classes, as classifiers compute them.
#pragma once

#include <cstddef>
#include <vector>

namespace quern {

// Returns the indices of the `count` largest scores, the largest first; of equal scores the lower index first. NaN
// comes last.
std::vector<size_t> best_classes(const std::vector<double>& scores, size_t count);

// Returns the scores themselves if they are probabilities already (none negative, sum 1), else their softmax.
std::vector<double> probabilities(std::vector<double> scores);

}  // namespace quern
