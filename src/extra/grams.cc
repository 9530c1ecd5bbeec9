// Sequences of integers (n-grams) that are counted in a text of integers.
#include <algorithm>
#include <map>

#include "extra/copy.h"

namespace quern::extra {
namespace grams {
namespace {

// tf_idf(x): for each listed sequence, how often it occurs in x or in each row of x, at the place that `places` gives.
// `pool` lists the sequences, those of one integer first; those of n integers begin at starts[n - 1]. Only lengths[0] to
// lengths[1] count. Up to `skips` integers may stand between two neighbours, as many between all of them. `mode` 0: the
// number of occurrences; 1: the weight, if there is one; 2: the product.
enum Mode : int64_t { occurrences, weight, product };
constexpr int64_t most_places = int64_t{1} << 24;

struct Grams {
  std::map<std::vector<int64_t>, size_t> numbers;  // of the sequences, in the order of the list
  std::vector<size_t> places;
  size_t width = 0;
  int64_t shortest = 1, longest = 1, skips = 0;
};

Grams grams_of(const Node& node) {
  const auto pool = node.integers("pool"), starts = node.integers("starts"), places = node.integers("places");
  const auto lengths = node.integers("lengths");
  Grams g;
  if (lengths.size() != 2 || lengths[0] < 1 || lengths[1] < lengths[0]) node.fail("lengths are not a range");
  g.shortest = lengths[0];
  g.longest = std::min<int64_t>(lengths[1], static_cast<int64_t>(starts.size()));
  g.skips = node.integer("skips", 0);
  if (g.skips < 0 || g.skips > most_places) node.fail("skips are out of range");
  for (const int64_t place : places) {
    if (place < 0 || place >= most_places) node.fail("a place is out of range");
    g.places.push_back(static_cast<size_t>(place));
    g.width = std::max(g.width, g.places.back() + 1);
  }
  size_t number = 0;
  for (size_t n = 1; n <= starts.size(); ++n) {
    const auto end = n == starts.size() ? static_cast<int64_t>(pool.size()) : starts[n];
    const int64_t begin = starts[n - 1];
    if (begin < 0 || end < begin || end > static_cast<int64_t>(pool.size())) node.fail("starts do not fit the list");
    for (int64_t at = begin; at + static_cast<int64_t>(n) <= end; at += static_cast<int64_t>(n)) {
      g.numbers.emplace(std::vector<int64_t>(pool.begin() + at, pool.begin() + at + static_cast<int64_t>(n)), number++);
    }
  }
  if (number != g.places.size()) node.fail("there are not as many places as sequences");
  const auto weights = node.floats("weights");
  if (!weights.empty() && weights.size() != number) node.fail("there are not as many weights as sequences");
  const int64_t mode = node.integer("mode", occurrences);
  if (mode < occurrences || mode > product) node.fail("mode " + std::to_string(mode));
  return g;
}

void infer(Inference& node) {
  const Shape x = node.shape(0);
  if (x.size() != 1 && x.size() != 2) node.fail("on a tensor of rank " + std::to_string(x.size()));
  if (node.type(0) != QN_S32 && node.type(0) != QN_S64) node.fail("on other than integers");
  const size_t width = grams_of(node).width;
  node.set(0, QN_F32, x.size() == 1 ? Shape{width} : Shape{x[0], width});
}

// Calls found(number) for each occurrence of a sequence in a row. Sequences of one integer do not depend on skips.
template <class Found>
void each_occurrence(const Grams& g, const int64_t* row, int64_t size, const Found& found) {
  Pace pace;
  for (int64_t n = g.shortest; n <= g.longest; ++n) {
    std::vector<int64_t> gram(static_cast<size_t>(n));
    for (int64_t step = 1; step <= (n == 1 ? 1 : g.skips + 1) && (n - 1) * step < size; ++step) {
      for (int64_t first = 0; first + (n - 1) * step < size; ++first) {
        for (int64_t i = 0; i < n; ++i) gram[static_cast<size_t>(i)] = row[first + i * step];
        pace.did(64);
        const auto at = g.numbers.find(gram);
        if (at != g.numbers.end()) found(at->second);
      }
    }
  }
}

void run(const Run& node) {
  const Grams g = grams_of(node);
  const Shape x = node.shape(0);
  const auto weights = node.floats("weights");
  const int64_t mode = node.integer("mode", occurrences);
  const size_t rows = x.size() == 1 ? 1 : x[0];
  const std::vector<int64_t> values = node.values(0);
  float* y = node.output<float>(0);
  std::fill_n(y, count(node.output_shape(0)), 0.0f);
  for (size_t r = 0; r < rows; ++r, y += g.width) {
    std::vector<float> counts(g.places.size());
    each_occurrence(g, values.data() + r * x.back(), static_cast<int64_t>(x.back()),
                    [&](size_t number) { counts[number] += 1; });
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      const float by = weights.empty() || mode == occurrences ? 1 : weights[i];
      y[g.places[i]] += mode == weight ? by : counts[i] * by;
    }
  }
}

constexpr qn_kind kinds[] = {kind<infer, run>("tf_idf", {1, 1}, 1)};

}  // namespace
}  // namespace grams

Kinds gram_kinds() { return needed<grams::kinds>(); }

}  // namespace quern::extra
