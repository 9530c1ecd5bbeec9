// Products of matrices: matmul, gemm, einsum.
#include <algorithm>
#include <limits>

#include "extra/library.h"
#include "extra/node.h"

namespace quern::extra {
namespace products {
namespace {

// Calls visit(tag) with the type of the elements, if sums of products are defined for it.
template <class Visit>
void with_number(const Node& node, Visit&& visit) {
  switch (node.type(0)) {
    case QN_F32: return visit(Tag<float>());
    case QN_S32: return visit(Tag<int32_t>());
    case QN_S64: return visit(Tag<int64_t>());
    default: node.fail("products of " + std::string(qn_type_string(node.type(0))));
  }
}

// All inputs have the type of the first.
void expect_one_type(const Node& node) {
  for (size_t i = 1; i < node.input_count(); ++i) {
    if (node.has(i)) node.expect(i, node.type(0));
  }
}

// ---- matmul: of stacks of matrices, by NumPy's rules

struct Stacks {
  Shape a, b, batch;  // of rank 2 and more
  size_t m, n, k;
};

Stacks stacks_of(const Node& node) {
  Stacks s = {node.shape(0), node.shape(1), {}, 1, 1, 1};
  if (s.a.empty() || s.b.empty()) node.fail("a factor is a scalar");
  if (s.a.size() == 1) s.a.insert(0, 1);
  if (s.b.size() == 1) s.b.push_back(1);
  s.m = s.a[s.a.size() - 2];
  s.k = s.a.back();
  s.n = s.b.back();
  if (s.b[s.b.size() - 2] != s.k) node.fail("the factors differ in length");
  s.a.resize(s.a.size() - 2);
  s.b.resize(s.b.size() - 2);
  s.batch = node.broadcast(s.a, s.b);
  return s;
}

void infer_matmul(Inference& node) {
  expect_one_type(node);
  const Stacks s = stacks_of(node);
  Shape out = s.batch;
  if (node.rank(0) > 1) out.push_back(s.m);
  if (node.rank(1) > 1) out.push_back(s.n);
  node.set(0, node.type(0), out);
}

template <class T>
void matmul(const Run& node) {
  Stacks s = stacks_of(node);
  const T *const a = node.data<T>(0), *const b = node.data<T>(1);
  T* const c = node.output<T>(0);
  if (count(s.b) == 1 && count(s.a) == count(s.batch)) {  // one matrix of many rows
    return matrix_product(count(s.batch) * s.m, s.n, s.k, Factor<T>{a, s.k}, Factor<T>{b, s.n}, c, node.parallel());
  }
  const Shape strides[] = {broadcast_strides(s.a, s.batch), broadcast_strides(s.b, s.batch)};
  walk(s.batch, strides, [&](size_t i, const size_t* at) {
    matrix_product(s.m, s.n, s.k, Factor<T>{a + at[0] * s.m * s.k, s.k}, Factor<T>{b + at[1] * s.k * s.n, s.n},
                   c + i * s.m * s.n, node.parallel());
  });
}

void run_matmul(const Run& node) {
  with_number(node, [&](auto tag) { matmul<typename decltype(tag)::type>(node); });
}

// ---- gemm: alpha * a * b + beta * c

struct Gemm {
  bool transpose_a, transpose_b;
  size_t m, n, k;
};

Gemm gemm_of(const Node& node) {
  if (node.rank(0) != 2 || node.rank(1) != 2) node.fail("inputs are not matrices");
  const Shape a = node.shape(0), b = node.shape(1);
  const bool transpose_a = node.integer("trans_a", 0) != 0, transpose_b = node.integer("trans_b", 0) != 0;
  if (a[transpose_a ? 0 : 1] != b[transpose_b ? 1 : 0]) node.fail("the factors differ in length");
  const Gemm gemm = {transpose_a, transpose_b, a[transpose_a ? 1 : 0], b[transpose_b ? 0 : 1], a[transpose_a ? 0 : 1]};
  if (node.has(2) && !(node.broadcast({gemm.m, gemm.n}, node.shape(2)) == Shape{gemm.m, gemm.n})) {
    node.fail("what is added does not broadcast to the product");
  }
  return gemm;
}

void infer_gemm(Inference& node) {
  expect_one_type(node);
  const Gemm gemm = gemm_of(node);
  node.set(0, node.type(0), {gemm.m, gemm.n});
}

// Integers are multiplied as double, and their fractions cut off.
template <class T>
T scaled(T x, float factor) {
  if constexpr (std::is_same_v<T, float>) return x * factor;
  if (factor == 1) return x;
  const double product = static_cast<double>(x) * factor;
  const double limit = sizeof(T) == 4 ? 2147483648.0 : 9223372036854775808.0;
  if (product >= limit) return std::numeric_limits<T>::max();
  return product > -limit ? static_cast<T>(product) : std::numeric_limits<T>::min();
}

template <class T>
T sum(T a, T b) {
  if constexpr (std::is_same_v<T, float>) return a + b;
  return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

template <class T>
void gemm(const Run& node) {
  const Gemm g = gemm_of(node);
  T* const y = node.output<T>(0);
  matrix_product(g.m, g.n, g.k, Factor<T>{node.data<T>(0), g.transpose_a ? g.m : g.k, g.transpose_a},
                 Factor<T>{node.data<T>(1), g.transpose_b ? g.k : g.n, g.transpose_b}, y, node.parallel());
  const float alpha = node.number("alpha", 1), beta = node.number("beta", 1);
  if (alpha != 1) {
    for (size_t i = 0; i < g.m * g.n; ++i) y[i] = scaled(y[i], alpha);
  }
  if (!node.has(2)) return;
  const T* const c = node.data<T>(2);
  const Shape strides = broadcast_strides(node.shape(2), {g.m, g.n});
  for (size_t i = 0; i < g.m; ++i) {
    look(g.n);
    for (size_t j = 0; j < g.n; ++j) {
      y[i * g.n + j] = sum(y[i * g.n + j], scaled(c[i * strides[0] + j * strides[1]], beta));
    }
  }
}

void run_gemm(const Run& node) {
  with_number(node, [&](auto tag) { gemm<typename decltype(tag)::type>(node); });
}

constexpr qn_kind kinds[] = {
    kind<infer_matmul, unless_empty<run_matmul>>("matmul", {2, 2}, 1),
    kind<infer_gemm, unless_empty<run_gemm>>("gemm", {2, 3}, 1),
};

}  // namespace
}  // namespace products

Kinds product_kinds() { return needed<products::kinds>(); }

}  // namespace quern::extra
