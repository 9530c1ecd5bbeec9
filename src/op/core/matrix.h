// Helpers for the matrix products of the API that are one call, without an operator.
#pragma once

#include <initializer_list>

#include "base/math.h"
#include "base/tensor.h"
#include "op/core/operator.h"

namespace quern {

// How many tasks to make for the caller's threads. If the host does not say how many threads it has, a number is
// assumed: tasks that are too many cost little.
inline size_t tasks_of(const qn_parallel* parallel) {
  constexpr size_t assumed = 8;
  if (parallel == nullptr) return 1;
  return parallel->threads == 0 ? assumed : std::min(parallel->threads, max_tasks);
}

// A row-major matrix of floats, or of integers, with `ld` elements from one row to the next.
struct Matrix {
  const char* what;
  const void* data;
  size_t rows, columns, ld;
  qn_type type = QN_F32;

  size_t item() const { return has_integers ? qn_type_size(type) : sizeof(float); }
  qn_tensor tensor() const { return {type, QN_LAYOUT_NHWC, 2, {rows, columns}, {ld * item(), item()}, {}, {}}; }
  bool empty() const { return data == nullptr || rows == 0 || columns == 0; }
};

inline qn_status check_matrix(const char* who, const Matrix& m) {
  if (m.rows == 0 || m.columns == 0) return QN_OK;
  if (m.data == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: %s is NULL", who, m.what);
  if (m.ld < m.columns) {
    return fail(QN_INVALID_ARGUMENT, "%s: ld%s %zu is below the %zu columns of %s", who, m.what, m.ld, m.columns,
                m.what);
  }
  size_t bytes;
  if (!checked_mul(m.rows, m.ld, &bytes) || !checked_mul(bytes, m.item(), &bytes) || bytes > PTRDIFF_MAX) {
    return fail(QN_INVALID_ARGUMENT, "%s: the size of %s overflows", who, m.what);
  }
  return m.item() == sizeof(float) ? check_aligned(who, m.what, m.data) : QN_OK;
}

// Fails if c, which the product writes, overlaps an operand.
inline qn_status check_apart(const char* who, const Matrix& c, std::initializer_list<Matrix> operands) {
  for (const Matrix& m : operands) {
    if (m.empty() || c.empty() || !overlap(m.data, m.tensor(), c.data, c.tensor())) continue;
    return fail(QN_INVALID_ARGUMENT, "%s: %s overlaps %s", who, m.what, c.what);
  }
  return QN_OK;
}

}  // namespace quern
