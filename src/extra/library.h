// The operators of quern/op.h, as kinds use them to compute what they are made of.
#pragma once

#include <quern/op.h>

#include <atomic>
#include <memory>

#include "extra/node.h"

namespace quern::extra {

struct Release {
  void operator()(qn_operator* op) const { qn_operator_release(op); }
  void operator()(qn_plan* plan) const { qn_plan_release(plan); }
};
using Operator = std::unique_ptr<qn_operator, Release>;
using Plan = std::unique_ptr<qn_plan, Release>;

// Throws what a call of the library has reported.
void check(qn_status status);

// The product of rows of `depth` floats and weights [columns, depth], which must stay valid; plus a bias of `columns`
// floats, which is copied and may be NULL.
Operator product_of(size_t columns, size_t depth, const float* weights, const float* bias);
Plan plan_rows(const qn_operator* product, size_t rows, size_t depth, size_t tasks);

// Runs a plan with one input and one output.
void run_plan(const qn_plan* plan, const void* input, void* output, void* workspace, const qn_parallel* parallel);

// A factor of a matrix product. `distance`: elements from one row in memory to the next; `transposed`: rows in memory are
// columns of the factor.
template <class T>
struct Factor {
  const T* data;
  size_t distance;
  bool transposed = false;
};
// c [m, n] = a [m, k] * b [k, n]. The rows of c lie `distance` elements apart; without it c is dense. Sums of integers
// wrap around.
void matrix_product(size_t m, size_t n, size_t k, Factor<float> a, Factor<float> b, float* c, size_t distance,
                    const qn_parallel* parallel);
inline void matrix_product(size_t m, size_t n, size_t k, Factor<float> a, Factor<float> b, float* c,
                           const qn_parallel* parallel) {
  matrix_product(m, n, k, a, b, c, n, parallel);
}
template <class T>
void matrix_product(size_t m, size_t n, size_t k, Factor<T> a, Factor<T> b, T* c, const qn_parallel*) {
  const size_t a_row = a.transposed ? 1 : a.distance, a_column = a.transposed ? a.distance : 1;
  const size_t b_row = b.transposed ? 1 : b.distance, b_column = b.transposed ? b.distance : 1;
  Pace pace;
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      pace.did(k);
      uint64_t sum = 0;
      for (size_t l = 0; l < k; ++l) {
        sum += static_cast<uint64_t>(a.data[i * a_row + l * a_column]) *
               static_cast<uint64_t>(b.data[l * b_row + j * b_column]);
      }
      c[i * n + j] = static_cast<T>(sum);
    }
  }
}

// The matrix [columns, rows] of one whose rows lie `distance` elements apart: for a factor of several products, as each
// product copies transposed rows.
std::vector<float> transposed_copy(const float* from, size_t rows, size_t columns, size_t distance);

// How many of `count` rows (or columns) of a matrix are made at once, of `length` elements each. Files choose both numbers,
// so that the whole matrix may have any size. A block fits into a cache of level 2, or has `enough` rows for products to
// be fast, but no more than 4 MiB, or one row.
inline size_t block_size(size_t length, size_t count, size_t enough) {
  constexpr size_t cached = size_t{1} << 16, most = size_t{1} << 20;
  const size_t size = std::max(cached / length, std::min(enough, most / length));
  return std::clamp<size_t>(size, 1, std::max<size_t>(1, count));
}

// Runs body(i) for all i below `count`, on the threads of `parallel` if there are any. It must not throw, and should not
// take longer than milliseconds. Throws if the run was cancelled.
template <class Body>
void in_parallel(const qn_parallel* parallel, size_t count, const Body& body) {
  struct Work {
    const qn_parallel* parallel;
    const Body& body;
  } work = {parallel, body};
  const auto task = [](void* of, size_t i) {
    const Work& its = *static_cast<const Work*>(of);
    if (!is_cancelled(its.parallel)) its.body(i);
  };
  {
    const Watched by_nobody(nullptr);
    if (parallel == nullptr || count < 2) {
      for (size_t i = 0; i < count; ++i) task(&work, i);
    } else {
      parallel->run(parallel->context, task, &work, count);
    }
  }
  look(SIZE_MAX);
}

// Keeps a status other than QN_OK that one of several tasks has got.
class Failure {
 public:
  void note(qn_status status) {
    if (status != QN_OK) status_ = status;
  }
  void check() const {
    if (status_ != QN_OK) throw Fault{status_, qn_status_string(status_)};
  }

 private:
  std::atomic<qn_status> status_ = QN_OK;
};

// Sizes of a workspace. Its parts begin at multiples of a cache line.
class Layout {
 public:
  // Returns the offset of a part of so many floats.
  size_t floats(size_t count) { return bytes(product(count, sizeof(float))); }
  size_t bytes(size_t count);
  size_t size() const { return size_; }
  // Throws if a product overflows.
  static size_t product(size_t a, size_t b);

 private:
  size_t size_ = 0;
};

// Memory for a run that could not be planned ahead.
class Buffer {
 public:
  explicit Buffer(size_t size) : data_(static_cast<char*>(::operator new(size, alignment))) {}
  void* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(char* data) const { ::operator delete(data, alignment); }
  };
  std::unique_ptr<char, Free> data_;
};

}  // namespace quern::extra
