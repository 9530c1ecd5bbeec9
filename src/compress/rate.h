// What the levels of quantized weights cost, in bits of a coder that knows how often each occurs, and the choice of levels by
// rate and distortion (Sullivan and Wiegand 1998).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/vector.h"

namespace quern {

// The bits of each level of a layer's weights.
class LevelRates {
 public:
  static constexpr int most = 127;

  // From the levels of all weights. Those that do not occur cost as if each had occurred a little.
  void count(std::span<const int8_t> levels);
  double bits(int level) const { return bits_[static_cast<size_t>(level + most)]; }

  // The level for which the squared error in steps, times `weight`, and the bits, times `price`, are least together: the
  // nearest one, or a smaller one.
  int8_t choose(double steps, double weight, double price) const;

 private:
  std::array<double, 2 * most + 1> bits_ = {};
};

}  // namespace quern
