#include "plane.h"

#include <algorithm>

#include "base/math.h"

namespace quern::check {
namespace {

constexpr size_t word = 16;  // pixels of a word of a mask
constexpr size_t most = 80;  // floats between the first and the last tap

}  // namespace

PlaneTaps::PlaneTaps(const PlaneKind& kind, const PlaneSize& size, Values values, Random& random)
    : kind_(kind), size_(size) {
  choose_offsets(random);
  choose_masks(random);
  a_.resize(kind_.lanes + most + computed() + kind_.lanes + 1);
  random.fill(a_, values);
  find_ends();
}

// In no order; the lowest is as far from the beginning as a vector is wide.
void PlaneTaps::choose_offsets(Random& random) {
  const auto any = [&] { return static_cast<int32_t>(kind_.lanes + random.below(most - 2)); };
  for (size_t column = 0; column < size_.kernel_w; ++column) {
    for (size_t row = 0; row < size_.kernel_h; ++row) {
      offsets_.push_back(kind_.three && column > 0 ? offsets_[offsets_.size() - size_.kernel_h] + 1 : any());
    }
  }
}

// Some columns are full, some empty; some lack a pixel of each row, as at the edge of an image, some any pixels. Where
// a kernel looks at two columns at once (K = 3), full ones have to meet.
void PlaneTaps::choose_masks(Random& random) {
  for (size_t column = 0; column < size_.kernel_w; ++column) {
    std::vector<bool> mask(round_up(size_.pixels, word), false);
    const size_t kind = kind_.three && column == 1 ? 0 : random.below(kind_.three ? 4 : 8);
    const size_t width = 5 + random.below(100), edge = random.below(width);
    for (size_t p = 0; p < size_.pixels; ++p) {
      mask[p] = kind == 0 || (kind == 1 && p % width != edge) || (kind > 2 && random.below(4) != 0);
    }
    masks_.push_back(mask);
  }
}

bool PlaneTaps::counts(size_t tap, size_t pixel) const {
  const size_t column = tap / size_.kernel_h;
  return (kind_.three && column == 1) || masks_[column][pixel];
}

void PlaneTaps::find_ends() {
  first_ = a_.size(), last_ = 0;
  const auto read = [&](size_t begin, size_t end) {
    first_ = std::min(first_, begin);
    last_ = std::max(last_, end);
  };
  for (size_t t = 0; t < taps(); ++t) {
    const auto at = static_cast<size_t>(offsets_[t]);
    if (kind_.three && t / size_.kernel_h == 1) read(at - kind_.lanes, at + computed() + kind_.lanes);
    for (size_t p = 0; p < size_.pixels; ++p) {
      if (counts(t, p)) read(at + p, at + p + 1);
    }
  }
  if (last_ == 0) first_ = 0;
}

void PlaneTaps::place(operands::PlaneOperands<Guarded>& memory, size_t factor_floats, Side side, size_t gap) const {
  memory.place(size_, kind_, {kind_.block + gap, operands::mask_bytes(size_.pixels) + 2 * gap, last_ - first_, first_},
               factor_floats, Place(side));
  for (size_t t = 0; t < taps(); ++t) memory.offsets.as<int32_t>()[t] = offsets_[t] * 4;
  for (size_t column = 0; column < size_.kernel_w; ++column) {
    if (kind_.three && column == 1) continue;
    operands::write_mask(memory.mask(column), size_.pixels, [&](size_t p) { return bool{masks_[column][p]}; });
  }
  std::copy(a_.begin() + static_cast<ptrdiff_t>(first_), a_.begin() + static_cast<ptrdiff_t>(last_), memory.a.floats());
}

}  // namespace quern::check
