// The cases of the igemm family.  Contract: src/kernel/igemm.h
#include "kernel/igemm.h"

#include <algorithm>

#include "gemm_problem.h"
#include "indirect.h"

namespace quern::check {
namespace {

struct IgemmMemory : GemmMemory {
  Guarded offsets{"offsets", Access::input}, zero{"zero", Access::input};
};

struct IgemmSize {
  size_t n, k, taps;
};

// One product with all MR rows; a case is called with some of them.
class IgemmProblem {
 public:
  IgemmProblem(const IgemmRow& row, IgemmSize size, Values values, Clamp clamp, bool padding, Random& random)
      : row_(row),
        size_(size),
        values_(values),
        clamp_{clamp.min, clamp.max},
        a_(size.taps * row.mr, size.k, values, random, [=](size_t) { return padding; }),
        panels_(row.nr, size.n, size.taps * size.k) {
    panels_.fill(values, random);
    expected_.resize(row.mr * size.n);
    for (size_t m = 0; m < row.mr; ++m) {
      for (size_t n = 0; n < size.n; ++n) expected_[m * size.n + n] = one_output(m, n);
    }
  }

  bool check(Checker& checker, IgemmMemory& memory, size_t m, Side side, size_t gap) const {
    const auto [n, k, taps] = size_;
    const size_t c_stride = (n + gap) * 4, mr = row_.mr;
    a_.place(memory.a, side, gap);
    a_.place_table(memory.offsets, side, gap, (taps - 1) * mr + m, [=](size_t entry) { return entry % mr >= m; });
    place_zeros(memory.zero, side, k, a_.pads());
    memory.w.place(panels_.data().size() * 4, side, 64);
    memory.c.place((m - 1) * c_stride + n * 4, side);
    memory.p.place(sizeof clamp_, side);
    std::copy(panels_.data().begin(), panels_.data().end(), memory.w.floats());
    memory.p.floats()[0] = clamp_.min;
    memory.p.floats()[1] = clamp_.max;
    std::vector<float> c(memory.c.size() / 4, poison_float());
    for (size_t i = 0; i < m; ++i) std::copy_n(&expected_[i * n], n, &c[i * (n + gap)]);
    return checker.run({m, n, k * 4, taps, memory.offsets.address(), memory.a.address(), memory.zero.address(),
                        memory.w.address(), memory.c.address(), c_stride, memory.p.address()},
                       {&memory.a, &memory.offsets, &memory.zero, &memory.w, &memory.c, &memory.p}, {{&memory.c, c}},
                       [&] { return describe(m, side, gap); });
  }

 private:
  float one_output(size_t m, size_t n) const {
    float sum = panels_.bias(n);
    for (size_t t = 0; t < size_.taps; ++t) {
      const float* row = a_.row(t * row_.mr + m);
      for (size_t i = 0; i < size_.k; ++i) {
        sum = multiply_add(row == nullptr ? 0 : row[i], panels_.weight(t * size_.k + i, n), sum, numbers_of(row_));
      }
    }
    return quern::clamp(sum, clamp_);
  }

  std::string describe(size_t m, Side side, size_t gap) const {
    return "mr=" + std::to_string(m) + " nc=" + std::to_string(size_.n) + " KC=" + std::to_string(size_.k) +
           " ks=" + std::to_string(size_.taps) + " gap=" + std::to_string(gap) +
           (side == Side::high ? " high " : " low ") + name_of(values_);
  }

  const IgemmRow& row_;
  IgemmSize size_;
  Values values_;
  qn_minmax_f32 clamp_;
  IndirectRows a_;
  Panels panels_;
  std::vector<float> expected_;
};

void check_igemm(Checker& checker, const IgemmRow& row) {
  IgemmMemory memory;
  // Stops at the first failure; padding only in every other problem, so that `zero` is unreadable in the rest.
  const auto check_size = [&](IgemmSize size, size_t least_m, Values values, Clamp clamp, Side side, size_t gap) {
    const bool padding = side == Side::low || values == Values::extreme;
    const IgemmProblem problem(row, size, values, clamp, padding, checker.random());
    for (size_t m = row.mr; m >= least_m; --m) {
      if (!problem.check(checker, memory, m, side, gap)) return false;
    }
    return true;
  };

  // The extremes, with every kind of clamp, at sizes with and without remainders.
  for (const size_t n : {2 * row.nr + 1, row.nr, row.nr - 1, row.nr + 1, size_t{1}}) {
    for (const size_t k : {5, 1, 4}) {
      for (const Clamp clamp : clamps) {
        if (!check_size({n, k, 3}, row.mr, Values::extreme, clamp, Side::high, 0)) return;
        if (!check_size({n, k, 4}, row.mr, Values::random, clamp, Side::low, 5)) return;
      }
    }
  }
  // Every small size.
  for (const size_t taps : {2, 1, 3, 9}) {
    for (size_t k = 1; k <= 9; ++k) {
      for (size_t n = 1; n <= 2 * row.nr + 1; ++n) {
        const size_t least_m = taps == 9 ? row.mr : 1;
        if (!check_size({n, k, taps}, least_m, Values::random, clamps[0], Side::high, 0)) return;
        if (!check_size({n, k, taps}, least_m, Values::integers, {-90, 100}, Side::low, 3)) return;
      }
    }
  }
  // Larger ones.
  for (const size_t taps : {2, 9, 25}) {
    for (const size_t k : {16, 33, 96}) {
      for (const size_t n : {3 * row.nr, 4 * row.nr + 3}) {
        if (!check_size({n, k, taps}, row.mr, Values::random, clamps[0], Side::high, 0)) return;
        if (!check_size({n, k, taps}, row.mr, Values::random, {-1, 1}, Side::low, 16)) return;
      }
    }
  }
}

}  // namespace

Kernel make_kernel(const IgemmRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) { check_igemm(checker, row); }};
}

std::vector<Kernel> igemm_kernels() {
  std::vector<Kernel> list;
  for (const IgemmRow& row : igemm_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
