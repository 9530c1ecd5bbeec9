// The cases of the igemm family.  Contract: src/kernel/igemm.h
#include "kernel/igemm.h"

#include <algorithm>

#include "indirect.h"
#include "sums.h"

namespace quern::check {
namespace {

using IgemmMemory = operands::IgemmOperands<Guarded>;

// What the cases depend on.
struct IgemmTile {
  size_t mr, nr;
  PanelFormat panel;
  Numbers numbers;
};

struct IgemmSize {
  size_t n, k, taps;
};

// One product with all MR rows; a case is called with some of them.
template <class Sums>
class IgemmProblem {
  using A = typename Sums::A;
  using C = typename Sums::C;

 public:
  IgemmProblem(const IgemmTile& tile, IgemmSize size, Values values, Clamp clamp, bool padding, Random& random)
      : mr_(tile.mr),
        size_(size),
        sums_(tile.numbers, values, clamp, size.taps * size.k, random),
        a_(
            size.taps * tile.mr, size.k, [&] { return sums_.draw_a(random); }, random, [=](size_t) { return padding; }),
        panels_({tile.nr, size.n, size.taps * size.k, Sums::elements, tile.panel, size.taps}) {
    panels_.fill(sums_, random);
    if (padding && random.below(2) == 0) leave_out_taps(tile.panel, random);
    for (size_t m = 0; m < mr_; ++m) {
      for (size_t n = 0; n < size.n; ++n) expected_.push_back(one_output(m, n));
    }
  }

  bool check(Checker& checker, IgemmMemory& memory, size_t m, Side side, size_t gap) const {
    const size_t n = size_.n;
    return every_fill<Sums>(side, [&](Place place) {
      memory.place({m, n, size_.k, size_.taps, gap}, panels_.layout(), a_.table(), place);
      a_.write(memory.a, gap);
      spoil_entries(memory.offsets, [&](size_t entry) { return entry % mr_ >= m; });
      for (const size_t tap : left_out_) memory.offsets.as<int32_t>()[tap * mr_] = tap_left_out;
      write_padding(memory.zero, sums_.padding);
      panels_.write(memory.w);
      sums_.write_parameters(memory.p, panels_.layout());
      std::vector<C> c = memory.c.blank<C>();
      for (size_t i = 0; i < m; ++i) std::copy_n(&expected_[i * n], n, &c[i * (n + gap)]);
      return checker.run(memory, {{&memory.c, c}}, [&] { return describe(m, side, gap); });
    });
  }

 private:
  // Makes padding add nothing, and some taps padding that may be left out. Tap 0 stays, because its entries name the
  // first and the last row of the image.
  void leave_out_taps(const PanelFormat& panel, Random& random) {
    if constexpr (std::is_same_v<A, int8_t>) sums_.padding = panel.plus_128 ? -128 : 0;
    for (size_t tap = 1; tap < size_.taps; ++tap) {
      if (random.below(3) != 0) continue;
      left_out_.push_back(tap);
      for (size_t m = 0; m < mr_; ++m) a_.make_padding(tap * mr_ + m);
    }
  }
  C one_output(size_t m, size_t n) const {
    typename Sums::Sum sum = panels_.bias(n);
    for (size_t t = 0; t < size_.taps; ++t) {
      const A* row = a_.row(t * mr_ + m);
      for (size_t i = 0; i < size_.k; ++i) {
        sum = sums_.add(row == nullptr ? sums_.padding : row[i], panels_.weight(t * size_.k + i, n), sum);
      }
    }
    return sums_.end(sum, n);
  }

  std::string describe(size_t m, Side side, size_t gap) const {
    return "mr=" + std::to_string(m) + " nc=" + std::to_string(size_.n) + " KC=" + std::to_string(size_.k) +
           " ks=" + std::to_string(size_.taps) + " gap=" + std::to_string(gap) +
           (side == Side::high ? " high " : " low ") + name_of(sums_.values);
  }

  size_t mr_;
  IgemmSize size_;
  Sums sums_;
  IndirectRows<A> a_;
  Panels<Sums> panels_;
  std::vector<size_t> left_out_;  // taps
  std::vector<C> expected_;
};

template <class Sums>
void check_igemm(Checker& checker, const IgemmTile& tile) {
  IgemmMemory memory;
  // Stops at the first failure; padding only in every other problem, so that `zero` is unreadable in the rest.
  const auto check_size = [&](IgemmSize size, size_t least_m, Values values, Clamp clamp, Side side, size_t gap) {
    const bool padding = side == Side::low || values == Values::extreme;
    const IgemmProblem<Sums> problem(tile, size, values, clamp, padding, checker.random());
    for (size_t m = tile.mr; m >= least_m; --m) {
      if (!problem.check(checker, memory, m, side, gap)) return false;
    }
    return true;
  };

  // The extremes, with every kind of clamp, at sizes with and without remainders.
  for (const size_t n : {2 * tile.nr + 1, tile.nr, tile.nr - 1, tile.nr + 1, size_t{1}}) {
    for (const size_t k : {5, 1, 4}) {
      for (const Clamp clamp : clamps) {
        const size_t least_m = k == 5 ? 1 : tile.mr;
        if (!check_size({n, k, 3}, least_m, Values::extreme, clamp, Side::high, 0)) return;
        if (!check_size({n, k, 4}, tile.mr, Values::random, clamp, Side::low, 5)) return;
      }
    }
  }
  // Larger ones.
  for (const size_t taps : {9, 2, 25}) {
    for (const size_t k : {96, 33, 16}) {
      for (const size_t n : {3 * tile.nr, 4 * tile.nr + 3}) {
        if (!check_size({n, k, taps}, tile.mr, Values::random, clamps[0], Side::high, 0)) return;
        if (!check_size({n, k, taps}, tile.mr, Values::random, {-1, 1}, Side::low, 16)) return;
      }
    }
  }
  // Every small size.
  for (const size_t taps : {2, 1, 3, 9}) {
    for (size_t k = 1; k <= 9; ++k) {
      for (size_t n = 1; n <= 2 * tile.nr + 1; ++n) {
        const size_t least_m = taps == 9 ? tile.mr : 1;
        if (!check_size({n, k, taps}, least_m, Values::random, clamps[0], Side::high, 0)) return;
        if (!check_size({n, k, taps}, least_m, Values::integers, {-90, 100}, Side::low, 3)) return;
      }
    }
  }
  // Rows that a kernel cannot copy as a whole, because they are too long for its stack; and more channels than those
  // whose sums it can keep there.
  const struct {
    size_t k, n, least_m;
  } long_rows[] = {{1030, tile.nr + 1, tile.mr}, {1046, tile.nr + 1, tile.mr}, {200, 129, tile.mr}, {200, 145, 1}};
  for (const auto& [k, n, least_m] : long_rows) {
    if (!check_size({n, k, 5}, least_m, Values::random, clamps[0], Side::high, 0)) return;
  }
}

}  // namespace

Kernel make_kernel(const IgemmRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) {
            with_sums<F32Sums, Qs8cSums>(row, [&]<class Sums>(std::type_identity<Sums>) {
              check_igemm<Sums>(checker, {row.mr, row.nr, row.panel, numbers_of(row)});
            });
          }};
}

std::vector<Kernel> igemm_kernels() {
  std::vector<Kernel> list;
  for (const IgemmRow& row : igemm_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
