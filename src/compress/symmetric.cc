#include "compress/symmetric.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "compress/dot.h"

namespace quern {
namespace {

// y += factor x
void add_multiple(double factor, const double* x, size_t n, double* y) {
  for (size_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

// Rotates two rows in their plane: those of eigenvectors that a QL step mixes.
void rotate_rows(double c, double s, size_t n, double* a, double* b) {
  for (size_t k = 0; k < n; ++k) {
    const double x = a[k], y = b[k];
    a[k] = c * x - s * y;
    b[k] = s * x + c * y;
  }
}

Vector<size_t> descending_order(const Vector<double>& values) {
  Vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] > values[b]; });
  return order;
}

// A symmetric tridiagonal matrix that becomes diagonal. `beside[i]` couples rows i and i + 1; the last one is 0.
class TridiagonalQl {
 public:
  // `vectors`, whose rows follow the rotations, may be NULL.
  TridiagonalQl(Vector<double>* diagonal, Vector<double>* beside, RealMatrix* vectors)
      : d_(*diagonal), e_(*beside), vectors_(vectors) {
    for (size_t i = 0; i < d_.size(); ++i) tiny_ = std::max(tiny_, std::fabs(d_[i]) + std::fabs(e_[i]));
    tiny_ *= std::numeric_limits<double>::epsilon();
  }

  void run() {
    constexpr size_t most_steps = 60;  // two are usual; values that need more remain inexact
    for (size_t first = 0; first < d_.size(); ++first) {
      for (size_t i = 0; i < most_steps; ++i) {
        size_t last = first;
        while (last + 1 < d_.size() && std::fabs(e_[last]) > tiny_) ++last;
        if (last == first) break;
        step(first, last);
      }
    }
  }

 private:
  // One step for rows first .. last, which are coupled to no others.
  void step(size_t first, size_t last) {
    double g = (d_[first + 1] - d_[first]) / (2 * e_[first]);
    g = d_[last] - d_[first] + e_[first] / (g + std::copysign(std::hypot(g, 1.0), g));
    double c = 1, s = 1, p = 0;
    for (size_t i = last; i-- > first;) {
      const double f = s * e_[i], b = c * e_[i], r = std::hypot(f, g);
      e_[i + 1] = r;
      if (r == 0) {  // the matrix has come apart
        d_[i + 1] -= p;
        e_[last] = 0;
        return;
      }
      s = f / r, c = g / r;
      g = d_[i + 1] - p;
      const double t = (d_[i] - g) * s + 2 * c * b;
      p = s * t;
      d_[i + 1] = g + p;
      g = c * t - b;
      if (vectors_ != nullptr) rotate_rows(c, s, vectors_->columns(), vectors_->row(i), vectors_->row(i + 1));
    }
    d_[first] -= p;
    e_[first] = g;
    e_[last] = 0;
  }

  Vector<double>&d_, &e_;
  RealMatrix* vectors_;
  double tiny_ = 0;
};

}  // namespace

RealMatrix matrix_product(const RealMatrix& a, const RealMatrix& b) {
  RealMatrix result(a.rows(), b.columns());
  for (size_t i = 0; i < a.rows(); ++i) {
    for (size_t k = 0; k < a.columns(); ++k) add_multiple(a.row(i)[k], b.row(k), b.columns(), result.row(i));
  }
  return result;
}

SymmetricEigen::SymmetricEigen(RealMatrix matrix)
    : matrix_(std::move(matrix)), diagonal_(matrix_.rows()), beside_(matrix_.rows(), 0.0) {
  const size_t n = matrix_.rows();
  for (size_t k = 0; k < n; ++k) {
    diagonal_[k] = matrix_.row(k)[k];
    if (k + 1 < n) reflect(k);
  }
  Vector<double> values = diagonal_, beside = beside_;
  TridiagonalQl(&values, &beside, nullptr).run();
  for (const size_t i : descending_order(values)) values_.push_back(values[i]);
}

// Reflects rows and columns behind k, so that row k becomes 0 but for its neighbour of the diagonal.
void SymmetricEigen::reflect(size_t k) {
  const size_t from = k + 1, n = matrix_.rows() - from;
  double* const u = matrix_.row(k) + from;
  const double norm = std::sqrt(dot(u, u, n));
  beside_[k] = -std::copysign(norm, u[0]);
  if (norm == 0) return;
  u[0] -= beside_[k];
  const double scale = std::sqrt(2 / dot(u, u, n));
  for (size_t i = 0; i < n; ++i) u[i] *= scale;
  Vector<double> w(n);
  for (size_t i = 0; i < n; ++i) w[i] = dot(matrix_.row(from + i) + from, u, n);
  add_multiple(-dot(u, w.data(), n) / 2, u, n, w.data());
  for (size_t i = 0; i < n; ++i) {
    double* const row = matrix_.row(from + i) + from;
    for (size_t j = 0; j < n; ++j) row[j] -= u[i] * w[j] + w[i] * u[j];
  }
}

RealMatrix SymmetricEigen::vectors(size_t count) const {
  const size_t n = matrix_.rows();
  RealMatrix all(n, n), result(count, n);
  for (size_t i = 0; i < n; ++i) all.row(i)[i] = 1;
  Vector<double> values = diagonal_, beside = beside_;
  TridiagonalQl(&values, &beside, &all).run();
  const Vector<size_t> order = descending_order(values);
  for (size_t i = 0; i < count; ++i) {
    double* const x = result.row(i);
    std::copy_n(all.row(order[i]), n, x);
    for (size_t k = n; k-- > 0;) {
      const double* const u = matrix_.row(k) + k + 1;
      add_multiple(-dot(u, x + k + 1, n - k - 1), u, n - k - 1, x + k + 1);
    }
  }
  return result;
}

}  // namespace quern
