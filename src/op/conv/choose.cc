#include "op/conv/choose.h"

#include <algorithm>

#include "op/algorithm/algorithm.h"
#include "op/algorithm/cost.h"

namespace quern {

bool has_zeros(const Problem& p) { return p.density != nullptr && p.density->blocks[0][0] < p.density->elements; }

SparsePattern pattern_of(const Problem& p) {
  SparsePattern pattern;
  if (!has_zeros(p)) return pattern;
  const WeightsDensity& density = *p.density;
  pattern.percent = density.blocks[0][0] * 100 / density.elements;
  for (size_t i = 1; i < density.kinds; ++i) {
    if (mostly_full(density, size_t{1} << i)) pattern.block = size_t{1} << i;
  }
  return pattern;
}

void Candidates::add(const Choice& choice) {
  const auto cheaper = [](const Choice& a, const Choice& b) { return a.cycles < b.cycles; };
  if (has_api("op")) {
    list.insert(std::upper_bound(list.begin(), list.end(), choice, cheaper), choice);
  } else if (list.empty()) {
    list.push_back(choice);
  } else if (cheaper(choice, list.front())) {
    list.front() = choice;  // a build without op.h cannot tune, so it only needs the cheapest
  }
}

Vector<Choice> candidates(const Problem& problem, qn_algorithm algorithm, const char* kernel) {
  Candidates all(problem, algorithm, kernel);
  const bool any = algorithm == QN_ALGORITHM_AUTO || algorithm == QN_ALGORITHM_DENSE;
  each_algorithm([&](auto each) {
    if (any || algorithm == each.id) each.candidates(problem, &all);
  });
  return std::move(all.list);
}

bool has_row(const Row* rows, size_t count, size_t bytes, std::string_view name) {
  for (const char* row = reinterpret_cast<const char*>(rows); count > 0; --count, row += bytes) {
    if (name == reinterpret_cast<const Row*>(row)->name) return true;
  }
  return false;
}

qn_algorithm algorithm_from_name(std::string_view name) {
#define QN_ALGORITHM(ID, known) \
  if (name == #known) return QN_ALGORITHM_##ID;
#include "op/algorithm/algorithms.inc"
  return QN_ALGORITHM_AUTO;
}

// The names come from a tuning file, which a build with more algorithms than this one may have written.
bool known_kernel(qn_algorithm algorithm, std::string_view name) {
#define QN_ALGORITHM(ID, known) \
  if (algorithm == QN_ALGORITHM_##ID) return known##_algorithm::knows(name);
#include "op/algorithm/algorithms.inc"
  return false;
}

qn_status choose(const char* who, const Problem& problem, const qn_plan_options& options, Choice* choice) {
  const Vector<Choice> list = candidates(problem, options.algorithm, options.kernel);
  if (!list.empty()) {
    *choice = list.front();
    return QN_OK;
  }
  if (trimmed) return fail_without("algorithm", "for a layer of the model");
  return fail(QN_UNSUPPORTED, "%s: algorithm %s with kernel %s does not apply to these shapes or this CPU", who,
              qn_algorithm_string(options.algorithm), options.kernel == nullptr ? "(any)" : options.kernel);
}

}  // namespace quern
