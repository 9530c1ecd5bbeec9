// What an algorithm of convolution is to the rest of the library. Everything else of it stands in its own file: when it
// applies, with which kernels, what they cost, and its plan.
#pragma once

#include <algorithm>
#include <string_view>

#include "op/conv/choose.h"
#include "op/conv/conv.h"

namespace quern {

// What is looked for among the algorithms, and what has been found: the cheapest first.
class Candidates {
 public:
  Candidates(const Problem& p, qn_algorithm algorithm, const char* name) : problem(p), asked(algorithm), kernel(name) {}

  const Problem& problem;
  const qn_algorithm asked;  // AUTO or DENSE: any
  const char* const kernel;  // asked for by name, beyond all limits; NULL: any
  Vector<Choice> list;

  // The cycles of a row that does not apply to the problem.
  static constexpr double never = __builtin_inf();

  // May this row be chosen for the problem? The one place that compares a row with the problem's type, the features, the
  // core, and the values of the weights. `name`: the row that is asked for, if any.
  bool allows(const Row& row, const char* name) const {
    return may_choose(row, problem.type, name) && (row.demands & ~problem.weights_are) == 0;
  }

  // Keeps the list sorted by cycles; builds without op.h keep the cheapest choice alone. Of equally cheap choices, the
  // one added first stays first.
  void add(const Choice& choice);

  // Adds a candidate for each row of a table that is allowed, at so many cycles, unless it is never. Where the
  // algorithm has several tables, `table_number` says which one this is.
  template <class Table, class Cycles>
  void add_rows(qn_algorithm algorithm, const Table& table, Cycles cycles, unsigned table_number = 0) {
    for (const auto& row : table) {
      if (!allows(row, kernel)) continue;
      const double each = cycles(row);
      if (each < never) add({algorithm, table_number, &row, nullptr, each});
    }
  }
};

// An algorithm is a type with these functions, so that a build which lacks one refers to none of them.
// candidates() adds what applies to the problem, knows() tells whether a table has a row of that name, whatever CPU it
// needs, and plan() makes a plan of a choice.
#define QN_ALGORITHM(ID, name)                                                            \
  struct name##_algorithm {                                                               \
    static constexpr qn_algorithm id = QN_ALGORITHM_##ID;                                 \
    [[gnu::cold]] static void candidates(const Problem& p, Candidates* all);              \
    [[gnu::cold]] static bool knows(std::string_view kernel);                             \
    [[gnu::cold]] static PlanPointer plan(const ConvRequest& conv, const Choice& choice); \
  };
#include "op/algorithm/algorithms.inc"

// Calls visit(algorithm) for each one that the build contains.
template <class Visit>
void each_algorithm(Visit visit) {
#define QN_ALGORITHM(ID, name) \
  if constexpr (has_algorithm(QN_ALGORITHM_##ID)) visit(name##_algorithm());
#include "op/algorithm/algorithms.inc"
}

template <class Table>
bool has_row(const Table& table, std::string_view name) {
  return std::any_of(table.begin(), table.end(), [&](const Row& row) { return row.name == name; });
}

}  // namespace quern
