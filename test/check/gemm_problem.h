// What gemm and igemm share: packed panels and the memory of the arguments.
#pragma once

#include <cfloat>
#include <vector>

#include "base/math.h"
#include "checker.h"

namespace quern::check {

// Packed weights of n channels and k rows, as gemm.h draws them; padding lanes hold poison, for nobody may use them.
class Panels {
 public:
  Panels(size_t nr, size_t n, size_t k)
      : nr_(nr), n_(n), k_(k), data_(divide_up(n, nr) * nr * (k + 1), poison_float()) {}

  void fill(Values values, Random& random) {
    for (size_t n = 0; n < n_; ++n) {
      for (size_t row = 0; row <= k_; ++row) data_[index(row, n)] = random.value(values);
    }
  }
  // Biases of 0, and the smallest weights there are: sums are denormals and zeros of both signs.
  void fill_tiny() {
    for (size_t n = 0; n < n_; ++n) {
      for (size_t row = 0; row <= k_; ++row) data_[index(row, n)] = row == 0 ? 0 : FLT_TRUE_MIN;
    }
  }
  float bias(size_t n) const { return data_[index(0, n)]; }
  float weight(size_t k, size_t n) const { return data_[index(k + 1, n)]; }
  const std::vector<float>& data() const { return data_; }

 private:
  size_t index(size_t row, size_t n) const { return (n / nr_ * (k_ + 1) + row) * nr_ + n % nr_; }

  size_t nr_, n_, k_;
  std::vector<float> data_;
};

struct GemmMemory {
  Guarded a{"a", Access::input}, w{"w", Access::input}, c{"c", Access::output}, p{"p", Access::input};
};

}  // namespace quern::check
