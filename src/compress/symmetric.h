// Dense matrices of double, and eigenvalues of symmetric ones.
#pragma once

#include <cstddef>

#include "base/vector.h"

namespace quern {

// Row-major.
class RealMatrix {
 public:
  RealMatrix(size_t rows, size_t columns) : rows_(rows), columns_(columns), values_(rows * columns, 0.0) {}

  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }
  double* row(size_t i) { return values_.data() + i * columns_; }
  const double* row(size_t i) const { return values_.data() + i * columns_; }
  const Vector<double>& values() const { return values_; }

 private:
  size_t rows_, columns_;
  Vector<double> values_;
};

// a b
RealMatrix matrix_product(const RealMatrix& a, const RealMatrix& b);

// Eigenvalues and eigenvectors of a symmetric matrix of finite elements: Householder reflections make it tridiagonal, and
// QL steps with implicit shifts diagonal (Golub and Van Loan, "Matrix Computations", 8.3). For n rows, the values take
// about n^3 multiply-adds, the vectors four times as many.
class SymmetricEigen {
 public:
  explicit SymmetricEigen(RealMatrix matrix);

  // Largest first.
  const Vector<double>& values() const { return values_; }
  // The eigenvectors of the `count` largest values, as rows of length 1.
  RealMatrix vectors(size_t count) const;

 private:
  void reflect(size_t k);

  RealMatrix matrix_;  // above the diagonal: row k has the vector u of reflection k, I - u ut
  Vector<double> diagonal_, beside_;
  Vector<double> values_;
};

}  // namespace quern
