// What the products of matrices that need no operator share.
#pragma once

#include "base/math.h"
#include "op/operator.h"

namespace quern {

// How many tasks the caller's threads are to get. Idle ones cost little where the host does not say.
inline size_t tasks_of(const qn_parallel* parallel) {
  constexpr size_t assumed = 8;
  if (parallel == nullptr) return 1;
  return parallel->threads == 0 ? assumed : std::min(parallel->threads, max_tasks);
}

// A row-major matrix of rows x columns floats with this distance from row to row.
inline qn_status check_matrix(const char* who, const char* what, const void* data, size_t rows, size_t columns,
                              size_t ld) {
  if (rows == 0 || columns == 0) return QN_OK;
  if (data == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: %s is NULL", who, what);
  if (ld < columns) {
    return fail(QN_INVALID_ARGUMENT, "%s: ld%s %zu is below the %zu columns of %s", who, what, ld, columns, what);
  }
  size_t bytes;
  if (!checked_mul(rows, ld, &bytes) || !checked_mul(bytes, sizeof(float), &bytes) || bytes > PTRDIFF_MAX) {
    return fail(QN_INVALID_ARGUMENT, "%s: the size of %s overflows", who, what);
  }
  return check_aligned(who, what, data);
}

}  // namespace quern
