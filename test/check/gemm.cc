// The cases of the gemm family.  Contract: src/kernel/gemm.h
#include "kernel/gemm.h"

#include <algorithm>

#include "base/math.h"
#include "gemm_problem.h"

namespace quern::check {
namespace {

// One product with all MR rows; a case is called with some of them.
class GemmProblem {
 public:
  GemmProblem(const GemmRow& row, size_t n, size_t k, Values values, Clamp clamp, Random& random)
      : row_(row), n_(n), k_(k), values_(values), clamp_{clamp.min, clamp.max}, a_(row.mr * k), panels_(row.nr, n, k) {
    random.fill(a_, values);
    panels_.fill(values, random);
    expected_.resize(row.mr * n);
    for (size_t m = 0; m < row.mr; ++m) {
      for (size_t j = 0; j < n; ++j) expected_[m * n + j] = one_output(m, j);
    }
  }

  bool check(Checker& checker, GemmMemory& memory, size_t m, Side side, size_t gap) const {
    const size_t a_stride = (k_ + gap) * 4, c_stride = (n_ + gap) * 4;
    memory.a.place((m - 1) * a_stride + k_ * 4, side);
    memory.w.place(panels_.data().size() * 4, side, 64);
    memory.c.place((m - 1) * c_stride + n_ * 4, side);
    memory.p.place(sizeof clamp_, side);
    std::vector<float> c(memory.c.size() / 4, poison_float());
    for (size_t i = 0; i < m; ++i) {
      std::copy_n(&a_[i * k_], k_, memory.a.floats() + i * (k_ + gap));
      std::copy_n(&expected_[i * n_], n_, &c[i * (n_ + gap)]);
    }
    std::copy(panels_.data().begin(), panels_.data().end(), memory.w.floats());
    memory.p.floats()[0] = clamp_.min;
    memory.p.floats()[1] = clamp_.max;
    return checker.run({m, n_, k_ * 4, memory.a.address(), a_stride, memory.w.address(), memory.c.address(), c_stride,
                        memory.p.address()},
                       {&memory.a, &memory.w, &memory.c, &memory.p}, {{&memory.c, c}}, [&] {
                         return "mr=" + std::to_string(m) + " nc=" + std::to_string(n_) + " K=" + std::to_string(k_) +
                                " gap=" + std::to_string(gap) + (side == Side::high ? " high " : " low ") +
                                name_of(values_);
                       });
  }

 private:
  float one_output(size_t m, size_t n) const {
    float sum = panels_.bias(n);
    for (size_t i = 0; i < k_; ++i) sum = multiply_add(a_[m * k_ + i], panels_.weight(i, n), sum, numbers_of(row_));
    return quern::clamp(sum, clamp_);
  }

  const GemmRow& row_;
  size_t n_, k_;
  Values values_;
  qn_minmax_f32 clamp_;
  std::vector<float> a_, expected_;
  Panels panels_;
};

// Stops at the first failure.
bool check_size(Checker& checker, GemmMemory& memory, const GemmRow& row, size_t n, size_t k,
                const std::vector<size_t>& rows, Values values, Clamp clamp, Side side, size_t gap) {
  const GemmProblem problem(row, n, k, values, clamp, checker.random());
  return std::all_of(rows.begin(), rows.end(), [&](size_t m) { return problem.check(checker, memory, m, side, gap); });
}

void check_gemm(Checker& checker, const GemmRow& row) {
  GemmMemory memory;
  std::vector<size_t> every_m;
  for (size_t m = row.mr; m > 0; --m) every_m.push_back(m);
  const std::vector<size_t> edge_n = {2 * row.nr + 1, row.nr, row.nr - 1, row.nr + 1, 1};

  // The extremes, with every kind of clamp, at sizes with and without remainders.
  for (const size_t k : {5, 1, 2, 16}) {
    for (const size_t n : edge_n) {
      for (const Clamp clamp : clamps) {
        if (!check_size(checker, memory, row, n, k, every_m, Values::extreme, clamp, Side::high, 0)) return;
        if (!check_size(checker, memory, row, n, k, {row.mr}, Values::random, clamp, Side::low, 5)) return;
      }
    }
  }
  // Every small size; kernels of one row have four panels side by side.
  const size_t panels = row.mr == 1 ? 4 : 2;
  for (size_t k = 1; k <= 17; ++k) {
    for (size_t n = 1; n <= panels * row.nr + 1; ++n) {
      if (!check_size(checker, memory, row, n, k, every_m, Values::random, clamps[0], Side::high, 0)) return;
      if (!check_size(checker, memory, row, n, k, every_m, Values::integers, {-50, 60}, Side::low, 3)) return;
    }
  }
  // Larger ones.
  for (const size_t k : {31, 32, 33, 64, 127, 256, 1001}) {
    for (const size_t n : {3 * row.nr, 4 * row.nr, 4 * row.nr + 3, 5 * row.nr - 1}) {
      if (!check_size(checker, memory, row, n, k, {row.mr, 1}, Values::random, clamps[0], Side::high, 0)) return;
      if (!check_size(checker, memory, row, n, k, {row.mr, 1}, Values::random, {-1, 1}, Side::low, 16)) return;
    }
  }
}

}  // namespace

Kernel make_kernel(const GemmRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) { check_gemm(checker, row); }};
}

std::vector<Kernel> gemm_kernels() {
  std::vector<Kernel> list;
  for (const GemmRow& row : gemm_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
