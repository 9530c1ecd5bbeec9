// The interface between the convolution algorithms and the rest of the library. Each algorithm has a file of its own,
// which says when the algorithm applies, with which kernels, what these cost, and how its plan runs.
#pragma once

#include <algorithm>
#include <string_view>

#include "op/conv/choose.h"
#include "op/conv/conv.h"

namespace quern {

// A search among the algorithms: what is asked for, and the choices found so far, the cheapest first.
class Candidates {
 public:
  Candidates(const Problem& p, qn_algorithm algorithm, const char* name) : problem(p), asked(algorithm), kernel(name) {}

  const Problem& problem;
  const qn_algorithm asked;  // AUTO: any; DENSE: any but sparse, because nobody has counted zeros
  const char* const kernel;  // the kernel asked for by name, for which no limits count; NULL: any
  Vector<Choice> list;

  // The cost of a row that does not apply.
  static constexpr double never = __builtin_inf();

  // May this row be chosen for the problem? Only this function compares a row with the problem's type, the CPU's
  // features, its core, and the values of weights and scales. If `name` is not NULL, the row must have that name.
  bool allows(const Row& row, const char* name) const {
    return may_choose(row, problem.type, name) && (row.demands & ~problem.weights_are) == 0;
  }

  // Adds a choice to the list, which stays sorted by cost; builds without op.h keep only the cheapest choice. Among
  // choices of equal cost, the one that was added first stays first.
  void add(const Choice& choice);

  // Adds a choice for each allowed row of a table, with the cost that cycles(row) returns, unless that is `never`. If
  // the algorithm has several tables, `table_number` says which one this is.
  template <class Table, class Cycles>
  void add_rows(qn_algorithm algorithm, const Table& table, Cycles cycles, unsigned table_number = 0) {
    for (const auto& row : table) {
      if (!allows(row, kernel)) continue;
      const double each = cycles(row);
      if (each < never) add({algorithm, table_number, &row, nullptr, each});
    }
  }
};

// Each algorithm is a type with these functions; a build without the algorithm refers to none of them. candidates()
// adds the choices that apply to the problem. knows() tells whether the algorithm has a row of that name, whether this
// CPU runs it or not. plan() makes the plan for a choice.
#define QN_ALGORITHM(ID, name)                                                            \
  struct name##_algorithm {                                                               \
    static constexpr qn_algorithm id = QN_ALGORITHM_##ID;                                 \
    [[gnu::cold]] static void candidates(const Problem& p, Candidates* all);              \
    [[gnu::cold]] static bool knows(std::string_view kernel);                             \
    [[gnu::cold]] static PlanPointer plan(const ConvRequest& conv, const Choice& choice); \
  };
#include "op/algorithm/algorithms.inc"

// Calls visit(algorithm) for each algorithm that the build contains.
template <class Visit>
void each_algorithm(Visit visit) {
#define QN_ALGORITHM(ID, name) \
  if constexpr (has_algorithm(QN_ALGORITHM_##ID)) visit(name##_algorithm());
#include "op/algorithm/algorithms.inc"
}

// Does one of `count` rows, which lie `bytes` apart, have this name?
[[gnu::cold]] bool has_row(const Row* rows, size_t count, size_t bytes, std::string_view name);
template <class Table>
bool has_row(const Table& table, std::string_view name) {
  return has_row(table.data(), table.size(), sizeof table[0], name);
}

}  // namespace quern
