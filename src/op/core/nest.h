// Loop nests over tensors: the shape and the strides of several operands. Neighbouring dimensions are fused where all
// operands allow it, so dense tensors of any rank become one long loop.
#pragma once

#include <quern/base.h>

#include <array>
#include <cstddef>

namespace quern {

template <size_t operands>
struct Nest {
  using Strides = std::array<size_t, operands>;  // in bytes; a stride of 0 reads the same elements again
  struct Loop {
    size_t count;
    Strides stride;
  };
  size_t rank = 0;
  std::array<Loop, QN_MAX_RANK + 1> loops;  // innermost first

  // Adds a loop around the present ones, and fuses it with the outermost one where possible.
  void add(size_t count, const Strides& stride) {
    if (count == 1) return;
    if (rank > 0) {
      Loop& last = loops[rank - 1];
      bool fits = true;
      for (size_t i = 0; i < operands; ++i) fits = fits && stride[i] == last.stride[i] * last.count;
      if (fits) {
        last.count *= count;
        return;
      }
    }
    loops[rank++] = {count, stride};
  }

  size_t count() const {
    size_t result = 1;
    for (size_t i = 0; i < rank; ++i) result *= loops[i].count;
    return result;
  }
};

// A position in a nest; next() steps to the following iteration.
template <size_t operands>
class Cursor {
 public:
  Cursor(const Nest<operands>& nest, size_t index) : nest_(nest) {
    for (size_t i = 0; i < nest.rank; ++i) {
      at_[i] = index % nest.loops[i].count;
      index /= nest.loops[i].count;
      for (size_t j = 0; j < operands; ++j) offset_[j] += at_[i] * nest.loops[i].stride[j];
    }
  }

  size_t offset(size_t operand) const { return offset_[operand]; }

  void next() {
    for (size_t i = 0; i < nest_.rank; ++i) {
      const auto& loop = nest_.loops[i];
      for (size_t j = 0; j < operands; ++j) offset_[j] += loop.stride[j];
      if (++at_[i] < loop.count) return;
      at_[i] = 0;
      for (size_t j = 0; j < operands; ++j) offset_[j] -= loop.stride[j] * loop.count;
    }
  }

 private:
  const Nest<operands>& nest_;
  std::array<size_t, QN_MAX_RANK + 1> at_ = {};
  std::array<size_t, operands> offset_ = {};
};

}  // namespace quern
