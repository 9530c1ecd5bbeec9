// Planes of one channel, as kernels of dwconv and pool read them: taps are shifts, columns of taps have masks.
#pragma once

#include <vector>

#include "checker.h"

namespace quern::check {

struct PlaneSize {
  size_t pixels, kernel_h, kernel_w;
};

// Pixels come in vectors of `lanes` and blocks of `block`.
struct PlaneKind {
  size_t block, lanes;
  bool three = false;  // K = 3 of dwconv.h
};

class PlaneTaps {
 public:
  PlaneTaps(PlaneKind kind, PlaneSize size, size_t mask_gap, Values values, Random& random);

  size_t taps() const { return offsets_.size(); }
  // Pixels that are computed: those behind the last one fill its vector.
  size_t computed() const;
  // The value of a tap, 0 floats of which are none.
  bool counts(size_t tap, size_t pixel) const;
  float value(size_t tap, size_t pixel) const { return a_[static_cast<size_t>(offsets_[tap]) + pixel]; }

  void place(Guarded& offsets, Guarded& masks, Guarded& a, Side side) const;
  size_t mask_stride() const { return mask_stride_; }
  // `a` of the call: offsets count from there.
  uint64_t origin(const Guarded& a) const { return a.address() - 4 * first_; }

  // The floats of C, of which pixel p is number at(p).
  size_t at(size_t pixel, size_t c_stride) const { return pixel / kind_.block * c_stride + pixel % kind_.block; }
  size_t c_size(size_t c_stride) const { return at(computed() - 1, c_stride) + 1; }

 private:
  void choose_offsets(Random& random);
  void choose_masks(Random& random);
  void find_ends();

  PlaneKind kind_;
  PlaneSize size_;
  size_t mask_stride_;
  std::vector<int32_t> offsets_;          // in floats
  std::vector<std::vector<bool>> masks_;  // of each column
  std::vector<float> a_;
  size_t first_ = 0, last_ = 0;  // floats of A that may be read
};

struct PlaneMemory {
  Guarded offsets{"offsets", Access::input}, masks{"masks", Access::input}, a{"a", Access::input};
};

// Calls check(pixels, values, clamp, side, gap) for the sizes of a row, the sharpest first, until it returns false.
// `integers`: what sums of integers are clamped to.
template <class PlaneRow, class Check>
void walk_planes(const PlaneRow& row, Clamp integers, Check&& check) {
  // The extremes, with every kind of clamp, at sizes with and without remainders.
  for (const size_t pixels : {2 * row.block + row.lanes + 1, row.block, row.block - 1, row.block + 1, size_t{1}}) {
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
  for (const size_t pixels : {7 * row.block, 5 * row.block + 3, size_t{784}}) {
    if (!check(pixels, Values::random, clamps[0], Side::high, 0)) return;
    if (!check(pixels, Values::extreme, {-1, 1}, Side::low, 64)) return;
  }
}

}  // namespace quern::check
