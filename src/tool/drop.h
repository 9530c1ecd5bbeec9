// What the accuracy of a classifier loses if the model changes, from samples with labels or without.
//
// Without labels, the probabilities of the model before count as those of each class being right. A sample on which the
// changed model prefers another class loses the difference between the probabilities of both.
//
// A few held-out samples show few such changes. So there is a second estimate: what the log-ratio of the two best classes is
// off by on held-out samples is paired with the ratios of all samples nearby. The larger of both counts.
#pragma once

#include <vector>

#include "tool/part.h"

namespace quern {

// In percentage points, with the 95% interval of a bootstrap over images.
struct Drop {
  double points = 0, low = 0, high = 0;
};

class DropMeter {
 public:
  // Runs the model before on samples 0 to count - 1. Sample i is a view of image i % images. `labels`: of images; none: they
  // are not known. Throws Error if the first output
  // of the model holds no scores of one item, or some that are not finite, or if a label is no class. So does measure().
  DropMeter(const Graph& real, size_t count, size_t images, Sample sample, const SessionSettings& settings,
            const std::vector<size_t>& labels = {});

  // The accuracy of the model before, in percent: by labels, or as its probabilities have it.
  double accuracy() const;
  // Runs a changed model on samples that it has not seen.
  Drop measure(const Graph& graph, const std::vector<size_t>& held_out) const;

 private:
  // A sample in the model before: its best class and the second one.
  struct Contest {
    size_t best, second;
    std::vector<double> right;  // for each class: the probability that it is
    double gap;                 // logarithm of the ratio of the probabilities of both
  };
  std::vector<double> probabilities_of(Part& part, size_t i) const;

  size_t images_;
  Sample sample_;
  SessionSettings settings_;
  std::vector<Contest> contests_;  // by sample
};

}  // namespace quern
