// The cases of the tapgemm family.  Contract: src/kernel/tapgemm.h
#include "kernel/tapgemm.h"

#include <algorithm>

#include "sums.h"

namespace quern::check {
namespace {

using TapgemmMemory = operands::TapgemmOperands<Guarded>;

// What the cases depend on.
struct TapgemmTile {
  size_t mr, nr;
  PanelFormat panel;
  Numbers numbers;
};

struct TapgemmSize {
  size_t n, k, taps;
  size_t a_stride;
};

// One product with all MR rows; a case is called with some of them.
template <class Sums>
class TapgemmProblem {
  using A = typename Sums::A;
  using C = typename Sums::C;

 public:
  TapgemmProblem(const TapgemmTile& tile, const TapgemmSize& size, Values values, Clamp clamp, Random& random)
      : tile_(tile),
        size_(size),
        sums_(tile.numbers, values, clamp, size.taps * size.k, random),
        panels_({tile.nr, size.n, size.taps * size.k, Sums::elements, tile.panel}) {
    for (size_t t = 0; t < size.taps; ++t) offsets_.push_back(random.below(4 * size.k + 17));
    offsets_.back() = 0;
    a_.resize(*std::max_element(offsets_.begin(), offsets_.end()) + (tile.mr - 1) * size.a_stride + size.k);
    for (A& a : a_) a = sums_.draw_a(random);
    panels_.fill(sums_, random);
    for (size_t m = 0; m < tile.mr; ++m) {
      for (size_t n = 0; n < size.n; ++n) expected_.push_back(one_output(m, n));
    }
  }

  bool check(Checker& checker, TapgemmMemory& memory, size_t m, Side side, size_t gap) const {
    const size_t n = size_.n;
    return every_fill<Sums>(side, [&](Place place) {
      memory.place({m, n, size_.k, size_.a_stride, gap, size_.a_stride == 0}, panels_.layout(), offsets_, place);
      const int plus = tile_.panel.plus_128 ? 128 : 0;
      std::transform(a_.begin(), a_.begin() + static_cast<ptrdiff_t>(memory.a.size()), memory.a.as<A>(),
                     [=](A a) { return static_cast<A>(a + plus); });
      panels_.write(memory.w);
      sums_.write_parameters(memory.p, panels_.layout());
      std::vector<C> c = memory.c.blank<C>();
      for (size_t i = 0; i < m; ++i) std::copy_n(&expected_[i * n], n, &c[memory.row(i) * (n + gap)]);
      return checker.run(memory, {{&memory.c, c}}, [&] {
        return "mr=" + std::to_string(m) + " nc=" + std::to_string(n) + " KC=" + std::to_string(size_.k) +
               " ks=" + std::to_string(size_.taps) + " a_stride=" + std::to_string(size_.a_stride) +
               " gap=" + std::to_string(gap) + (side == Side::high ? " high " : " low ") + name_of(sums_.values);
      });
    });
  }

 private:
  C one_output(size_t m, size_t n) const {
    typename Sums::Sum sum = panels_.bias(n);
    for (size_t t = 0; t < size_.taps; ++t) {
      const A* row = &a_[offsets_[t] + m * size_.a_stride];
      for (size_t i = 0; i < size_.k; ++i) sum = sums_.add(row[i], panels_.weight(t * size_.k + i, n), sum);
    }
    return sums_.end(sum, n);
  }

  TapgemmTile tile_;
  TapgemmSize size_;
  Sums sums_;
  std::vector<size_t> offsets_;
  std::vector<A> a_;
  Panels<Sums> panels_;
  std::vector<C> expected_;
};

template <class Sums>
void check_tapgemm(Checker& checker, const TapgemmTile& tile) {
  TapgemmMemory memory;
  const std::vector<size_t> every_m = rows_to_check(tile.mr), some_m = {tile.mr, tile.mr / 4 + 1, 1};
  // Stops at the first failure.
  const auto check_size = [&](const TapgemmSize& size, const std::vector<size_t>& rows, Values values, Clamp clamp,
                              Side side, size_t gap) {
    const TapgemmProblem<Sums> problem(tile, size, values, clamp, checker.random());
    return std::all_of(rows.begin(), rows.end(),
                       [&](size_t m) { return checker.leaves_out() || problem.check(checker, memory, m, side, gap); });
  };
  const size_t kr = tile.panel.kr;

  // The extremes, with every kind of clamp, at sizes with and without remainders.
  for (const size_t n : {2 * tile.nr + 1, tile.nr, tile.nr - 1, tile.nr + 1, size_t{1}}) {
    for (const size_t k : {3 * kr, size_t{64}, kr}) {
      for (const Clamp clamp : clamps) {
        if (!check_size({n, k, 3, k}, every_m, Values::extreme, clamp, Side::high, 0)) return;
        for (const size_t taps : {1, 2, 4}) {
          if (!check_size({n, k, taps, k + 5}, {tile.mr}, Values::random, clamp, Side::low, 5)) return;
        }
      }
    }
  }
  // Every small size. Rows that overlap, as those of neighbouring pixels do, and rows that are all the same.
  for (const size_t taps : {1, 2, 3, 5}) {
    for (size_t k = kr; k <= 6 * kr; k += kr) {
      for (size_t n = 1; n <= 2 * tile.nr + 1; ++n) {
        if (!check_size({n, k, taps, k / 2 + 1}, every_m, Values::random, clamps[0], Side::high, 0)) return;
        if (!check_size({n, k, taps, k + 3}, some_m, Values::integers, {-90, 100}, Side::low, 3)) return;
      }
      if (!check_size({tile.nr + 1, k, taps, 0}, every_m, Values::random, clamps[0], Side::high, 0)) return;
    }
  }
  // Larger ones.
  for (const size_t taps : {2, 9, 49}) {
    for (size_t k = 8 * kr; k <= size_t{64}; k += 4 * kr) {
      for (const size_t n : {3 * tile.nr, 4 * tile.nr + 3}) {
        if (!check_size({n, k, taps, 2 * k}, some_m, Values::random, clamps[0], Side::high, 0)) return;
        if (!check_size({n, k, taps, k}, some_m, Values::random, {-1, 1}, Side::low, 16)) return;
      }
    }
  }
}

}  // namespace

Kernel make_kernel(const TapgemmRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) {
            with_sums<Qs8cSums>(row, [&]<class Sums>(std::type_identity<Sums>) {
              check_tapgemm<Sums>(checker, {row.mr, row.nr, row.panel, numbers_of(row)});
            });
          }};
}

std::vector<Kernel> tapgemm_kernels() {
  std::vector<Kernel> list;
  for (const TapgemmRow& row : tapgemm_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
