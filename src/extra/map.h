// Functions of one number for all elements of a tensor, a block of elements at a time: what lies between the steps of a
// function stays in the L1 cache, and loops over arrays of their own are those that a compiler makes vectors of, also
// where a node computes in place.
#pragma once

#include <algorithm>
#include <bit>

#include "extra/library.h"

namespace quern::extra {

constexpr size_t block_length = 1024;

// condition ? a : b. Both have been computed, where compilers would rather branch than make vectors.
inline float choose(bool condition, float a, float b) {
  const uint32_t mask = 0 - static_cast<uint32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<uint32_t>(a) & mask) | (std::bit_cast<uint32_t>(b) & ~mask));
}

// Calls visit(begin, count) for blocks of `n` elements, on the threads of the node. It must not throw.
template <class Visit>
void for_blocks(const Run& node, size_t n, const Visit& visit) {
  constexpr size_t in_task = 16 * block_length;
  const auto task = [&](size_t t) {
    const size_t end = std::min(n, (t + 1) * in_task);
    for (size_t i = t * in_task; i < end; i += block_length) visit(i, std::min(block_length, end - i));
  };
  in_parallel(node.parallel(), (n + in_task - 1) / in_task, task);
}

// y = function(x)
template <class X, class Y = X, class Function>
void map(const Run& node, const Function& function) {
  const X* const x = node.data<X>(0);
  Y* const y = node.output<Y>(0);
  for_blocks(node, count(node.shape(0)), [&](size_t begin, size_t count) {
    Y result[block_length];
    for (size_t i = 0; i < count; ++i) result[i] = function(x[begin + i]);
    std::copy_n(result, count, y + begin);
  });
}

// A function of libquern for blocks, which takes the vectors of the CPU at hand.
class BlockFunction {
 public:
  explicit BlockFunction(qn_unary_kind kind);
  // Replaces all elements of a block. What it returns is to be checked.
  qn_status operator()(float (&block)[block_length]) const;

 private:
  Plan plan_;
};

// Adds to a kind the function of libquern that its runs need, which is made once per model.
template <qn_unary_kind function>
constexpr qn_kind with_function(qn_kind kind) {
  kind.create = [](const qn_node*, const qn_operand*, size_t, void** made) {
    return guarded([&] { *made = new BlockFunction(function); });
  };
  kind.release = [](void* made) { delete static_cast<BlockFunction*>(made); };
  return kind;
}

// y = after(x, f(before(x))), where f is the function of libquern that the node's kind has.
template <class Before, class After>
void map_around(const Run& node, const Before& before, const After& after) {
  const float* const x = node.data<float>(0);
  float* const y = node.output<float>(0);
  const BlockFunction& function = *static_cast<const BlockFunction*>(node.made());
  Failure failure;
  for_blocks(node, count(node.shape(0)), [&](size_t begin, size_t count) {
    float block[block_length] = {};
    for (size_t i = 0; i < count; ++i) block[i] = before(x[begin + i]);
    failure.note(function(block));
    for (size_t i = 0; i < count; ++i) block[i] = after(x[begin + i], block[i]);
    std::copy_n(block, count, y + begin);
  });
  failure.check();
}

}  // namespace quern::extra
