#include "tool/drop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "convert/common/error.h"
#include "tool/input/classes.h"
#include "tool/output/outputs.h"

namespace quern {
namespace {

double log_ratio(double p, double q) {
  constexpr double tiny = 1e-12;
  return std::log((p + tiny) / (q + tiny));
}

// What a changed model makes of a gap between two classes.
struct Change {
  double gap, error;
};

// How many of the changes nearby would turn this gap around. They are in the order of their gaps.
double part_lost(const std::vector<Change>& changes, double gap) {
  const size_t near = std::min(changes.size(), std::max<size_t>(16, changes.size() / 8));
  const auto place = std::lower_bound(changes.begin(), changes.end(), gap,
                                      [](const Change& change, double of_gap) { return change.gap < of_gap; });
  const auto index = static_cast<size_t>(place - changes.begin());
  const size_t first = std::min(index - std::min(index, near / 2), changes.size() - near);
  const auto from = changes.begin() + static_cast<std::ptrdiff_t>(first);
  const auto lost = std::count_if(from, from + static_cast<std::ptrdiff_t>(near),
                                  [&](const Change& change) { return gap + change.error < 0; });
  return static_cast<double>(lost) / static_cast<double>(near);
}

// Sums of samples, by image.
class PerImage {
 public:
  void add(size_t image, double loss) {
    Sum& sum = sums_[image];
    sum.loss += loss;
    ++sum.views;
  }
  // Points, by a bootstrap of images with all their views.
  Drop drop() const {
    std::vector<double> means;
    for (const auto& [image, sum] : sums_) means.push_back(sum.loss / sum.views);
    constexpr size_t rounds = 1000;
    std::mt19937 random(1);
    std::vector<double> drawn;
    for (size_t r = 0; r < rounds; ++r) {
      double sum = 0;
      for (size_t i = 0; i < means.size(); ++i) sum += means[random() % means.size()];
      drawn.push_back(points(sum, means.size()));
    }
    std::sort(drawn.begin(), drawn.end());
    double all = 0;
    for (const double mean : means) all += mean;
    return {points(all, means.size()), drawn[rounds / 40], drawn[rounds - 1 - rounds / 40]};
  }

 private:
  struct Sum {
    double loss = 0, views = 0;
  };
  static double points(double sum, size_t count) { return 100 * sum / static_cast<double>(count); }
  std::map<size_t, Sum> sums_;
};

}  // namespace

DropMeter::DropMeter(const Graph& real, size_t count, size_t images, Sample sample, const SessionSettings& settings,
                     const std::vector<size_t>& labels)
    : images_(images), sample_(std::move(sample)), settings_(settings) {
  Part part(real, settings);
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> p = probabilities_of(part, i);
    const std::vector<size_t> best = best_classes(p, 2);
    const double gap = log_ratio(p[best[0]], p[best[1]]);
    if (!labels.empty()) {
      const size_t label = labels[i % images];
      if (label >= p.size())
        throw Error(fmt::format("expected labels below {}, the number of classes, got {}", p.size(), label));
      p.assign(p.size(), 0.0);
      p[label] = 1;
    }
    contests_.push_back({best[0], best[1], std::move(p), gap});
  }
}

std::vector<double> DropMeter::probabilities_of(Part& part, size_t i) const {
  part.run(sample_, i);
  const Output output = session_outputs(part.session(), output_ports(part.model())).at(0);
  const std::vector<size_t> shape = output.shape();
  std::vector<double> scores = real_numbers(output);
  if (scores.size() < 2 || *std::max_element(shape.begin(), shape.end()) != scores.size()) {
    throw Error(fmt::format("output {} holds no scores of one item: accuracy needs a classifier", output.name));
  }
  if (!std::all_of(scores.begin(), scores.end(), [](double score) { return std::isfinite(score); })) {
    throw Error(fmt::format("output {} holds scores that are not finite, for sample {}", output.name, i));
  }
  return probabilities(std::move(scores));
}

double DropMeter::accuracy() const {
  double right = 0;
  for (const Contest& contest : contests_) right += contest.right[contest.best];
  return 100 * right / static_cast<double>(contests_.size());
}

Drop DropMeter::measure(const Graph& graph, const std::vector<size_t>& held_out) const {
  std::vector<Change> changes;
  PerImage direct, paired;
  Part part(graph, settings_);
  for (const size_t i : held_out) {
    const Contest& before = contests_[i];
    const std::vector<double> after = probabilities_of(part, i);
    changes.push_back({before.gap, log_ratio(after[before.best], after[before.second]) - before.gap});
    direct.add(i % images_, before.right[before.best] - before.right[best_classes(after, 1)[0]]);
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.gap < b.gap; });
  for (size_t i = 0; i < contests_.size(); ++i) {
    const Contest& before = contests_[i];
    const double cost = before.right[before.best] - before.right[before.second];
    paired.add(i % images_, cost * part_lost(changes, before.gap));
  }
  const Drop a = direct.drop(), b = paired.drop();
  return {std::max(a.points, b.points), std::max(a.low, b.low), std::max(a.high, b.high)};
}

}  // namespace quern
