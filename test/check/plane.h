// Planes of one channel, as kernels of dwconv and pool read them: taps are shifts, columns of taps have masks.
#pragma once

#include <vector>

#include "checker.h"
#include "operands/operands.h"

namespace quern::check {

using operands::PlaneKind;
using operands::PlaneSize;

class PlaneTaps {
 public:
  PlaneTaps(const PlaneKind& kind, const PlaneSize& size, Values values, Random& random);

  const PlaneKind& kind() const { return kind_; }
  const PlaneSize& size() const { return size_; }
  size_t taps() const { return offsets_.size(); }
  // Pixels that are computed: those behind the last one fill its vector.
  size_t computed() const { return kind_.computed(size_.pixels); }
  // The value of a tap, 0 floats of which are none.
  bool counts(size_t tap, size_t pixel) const;
  float value(size_t tap, size_t pixel) const { return a_[static_cast<size_t>(offsets_[tap]) + pixel]; }

  // Places all operands: `gap` floats between the blocks of C, twice as many bytes between masks.
  void place(operands::PlaneOperands<Guarded>& memory, size_t factor_floats, Side side, size_t gap) const;

 private:
  void choose_offsets(Random& random);
  void choose_masks(Random& random);
  void find_ends();

  PlaneKind kind_;
  PlaneSize size_;
  std::vector<int32_t> offsets_;          // in floats
  std::vector<std::vector<bool>> masks_;  // of each column
  std::vector<float> a_;
  size_t first_ = 0, last_ = 0;  // floats of A that may be read
};

// Calls check(pixels, values, clamp, side, gap) for the sizes of a row, the sharpest first, until it returns false.
// `integers`: what sums of integers are clamped to.
template <class PlaneRow, class Check>
void walk_planes(const PlaneRow& row, Clamp integers, Check&& check) {
  // The extremes, with every kind of clamp, at sizes with and without remainders.
  for (const size_t pixels :
       std::initializer_list<size_t>{2 * row.block + row.lanes + 1, row.block, row.block - 1, row.block + 1, 1}) {
    for (const Clamp clamp : clamps) {
      if (!check(pixels, Values::extreme, clamp, Side::high, 0)) return;
      if (!check(pixels, Values::random, clamp, Side::low, 5)) return;
    }
  }
  // Every small size, then larger ones.
  for (size_t pixels = 1; pixels <= 2 * row.block + 1; ++pixels) {
    if (!check(pixels, Values::random, clamps[0], Side::high, 0)) return;
    if (!check(pixels, Values::integers, integers, Side::low, 3)) return;
  }
  for (const size_t pixels : std::initializer_list<size_t>{7 * row.block, 5 * row.block + 3, 784}) {
    if (!check(pixels, Values::random, clamps[0], Side::high, 0)) return;
    if (!check(pixels, Values::extreme, {-1, 1}, Side::low, 64)) return;
  }
}

}  // namespace quern::check
