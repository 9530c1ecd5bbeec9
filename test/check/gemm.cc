// The cases of the gemm family.  Contract: src/kernel/gemm.h
#include "kernel/gemm.h"

#include <algorithm>
#include <utility>

#include "sums.h"

namespace quern::check {
namespace {

using GemmMemory = operands::GemmOperands<Guarded>;

// What the cases depend on.
struct GemmTile {
  size_t mr, nr;
  PanelFormat panel;
  Numbers numbers;
};

// One product with all MR rows; a case is called with some of them.
template <class Sums>
class GemmProblem {
  using A = typename Sums::A;
  using C = typename Sums::C;
  static constexpr bool has_rows = Sums::elements.before_row != 0;  // with numbers of their own

 public:
  GemmProblem(const GemmTile& tile, size_t n, size_t k, Values values, Clamp clamp, Random& random)
      : n_(n),
        k_(k),
        sums_(tile.numbers, values, clamp, k, random),
        a_(tile.mr * k),
        panels_({tile.nr, n, k, Sums::elements, tile.panel}) {
    for (A& a : a_) a = sums_.draw_a(random);
    if constexpr (has_rows) sums_.draw_rows(tile.mr, random);
    panels_.fill(sums_, random);
    for (size_t m = 0; m < tile.mr; ++m) {
      for (size_t j = 0; j < n; ++j) expected_.push_back(one_output(m, j));
    }
  }

  bool check(Checker& checker, GemmMemory& memory, size_t m, Side side, size_t gap) const {
    return every_fill<Sums>(side, [&](Place place) {
      memory.place({m, n_, k_, gap}, panels_.layout(), place);
      panels_.write(memory.w);
      sums_.write_parameters(memory.p, panels_.layout());
      std::vector<C> c = memory.c.blank<C>();
      for (size_t i = 0; i < m; ++i) {
        char* row = memory.a.as<char>() + i * memory.a_stride;
        if constexpr (has_rows)
          sums_.write_row(row, i, &a_[i * k_], k_);
        else
          std::memcpy(row, &a_[i * k_], k_ * sizeof(A));
        std::copy_n(&expected_[i * n_], n_, &c[i * (n_ + gap)]);
      }
      return checker.run(memory, {{&memory.c, c}}, [&] {
        return "mr=" + std::to_string(m) + " nc=" + std::to_string(n_) + " K=" + std::to_string(k_) +
               " gap=" + std::to_string(gap) + (side == Side::high ? " high " : " low ") + name_of(sums_.values);
      });
    });
  }

 private:
  typename Sums::Sum begin(size_t m, size_t n) const {
    if constexpr (requires { sums_.begin(panels_.bias(n), m, n); })
      return sums_.begin(panels_.bias(n), m, n);
    else if constexpr (requires { sums_.begin(panels_.bias(n)); })
      return sums_.begin(panels_.bias(n));
    else
      return panels_.bias(n);
  }
  C one_output(size_t m, size_t n) const {
    typename Sums::Sum sum = begin(m, n);
    for (size_t i = 0; i < k_; ++i) sum = sums_.add(a_[m * k_ + i], panels_.weight(i, n), sum);
    if constexpr (has_rows)
      return sums_.end(sum, m, n);
    else
      return sums_.end(sum, n);
  }

  size_t n_, k_;
  Sums sums_;
  std::vector<A> a_;
  std::vector<C> expected_;
  Panels<Sums> panels_;
};

// Stops at the first failure.
template <class Sums>
bool check_size(Checker& checker, GemmMemory& memory, const GemmTile& tile, size_t n, size_t k,
                const std::vector<size_t>& rows, Values values, Clamp clamp, Side side, size_t gap) {
  const GemmProblem<Sums> problem(tile, n, k, values, clamp, checker.random());
  return std::all_of(rows.begin(), rows.end(),
                     [&](size_t m) { return checker.leaves_out() || problem.check(checker, memory, m, side, gap); });
}

template <class Sums>
void check_gemm(Checker& checker, const GemmTile& tile) {
  GemmMemory memory;
  const std::vector<size_t> every_m = rows_to_check(tile.mr), some_m = {tile.mr, tile.mr / 4 + 1, 1};
  const std::vector<size_t> edge_n = {2 * tile.nr + 1, tile.nr, tile.nr - 1, tile.nr + 1, 1};

  // The extremes, with every kind of clamp, at sizes with and without remainders.
  for (const size_t k : {5, 16, 1, 2, 331}) {
    for (const size_t n : edge_n) {
      for (const Clamp clamp : clamps) {
        if (!check_size<Sums>(checker, memory, tile, n, k, every_m, Values::extreme, clamp, Side::high, 0)) return;
        if (!check_size<Sums>(checker, memory, tile, n, k, {tile.mr}, Values::random, clamp, Side::low, 5)) return;
      }
    }
  }
  // Larger ones.
  for (const size_t k : {1001, 256, 116, 127, 64, 33, 32, 31}) {
    for (const size_t n : {3 * tile.nr, 4 * tile.nr, 4 * tile.nr + 3, 5 * tile.nr - 1}) {
      if (!check_size<Sums>(checker, memory, tile, n, k, some_m, Values::random, clamps[0], Side::high, 0)) return;
      if (!check_size<Sums>(checker, memory, tile, n, k, some_m, Values::random, {-1, 1}, Side::low, 16)) return;
    }
  }
  // Every small size; kernels of one row have four panels side by side.
  const size_t panels = tile.mr == 1 ? 4 : 2;
  for (size_t k = 1; k <= 17; ++k) {
    for (size_t n = 1; n <= panels * tile.nr + 1; ++n) {
      if (!check_size<Sums>(checker, memory, tile, n, k, every_m, Values::random, clamps[0], Side::high, 0)) return;
      if (!check_size<Sums>(checker, memory, tile, n, k, every_m, Values::integers, {-50, 60}, Side::low, 3)) return;
    }
  }
  // Rows that a kernel cannot copy as a whole, because they are too long for its stack; and more channels than those
  // whose sums it can keep there.
  const std::pair<size_t, size_t> long_rows[] = {{4613, tile.nr + 1}, {4629, tile.nr + 1}, {1152, tile.nr + 1},
                                                 {1001, 128},         {1001, 129},         {1001, 145},
                                                 {256, 6 * tile.nr}};
  for (const auto& [k, n] : long_rows) {
    if (!check_size<Sums>(checker, memory, tile, n, k, some_m, Values::random, clamps[0], Side::high, 0)) return;
  }
}

}  // namespace

Kernel make_kernel(const GemmRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) {
            with_sums<F32Sums, Qs8cSums, Qd8cSums, Qd8c4Sums, Qd8b4Sums, Qw8cSums, Qw4bSums>(
                row, [&]<class Sums>(std::type_identity<Sums>) {
                  check_gemm<Sums>(checker, {row.mr, row.nr, row.panel, numbers_of(row)});
                });
          }};
}

std::vector<Kernel> gemm_kernels() {
  std::vector<Kernel> list;
  for (const GemmRow& row : gemm_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
