// What the references of gemm.h and igemm.h for bytes share.
#pragma once

#include <algorithm>

#include "base/math.h"
#include "kernel/requantize.h"

namespace quern {

// Adds the products of `k` elements of a row with a panel of `nr` channels, in which `kr` successive k lie together.
// Returns where the panel goes on behind them.
template <size_t nr, size_t kr>
const int8_t* add_products(int32_t (&sum)[nr], const int8_t* row, size_t k, const int8_t* weights) {
  const auto add = [&](const int8_t* group, size_t lanes) {
    for (size_t n = 0; n < nr; ++n) {
      for (size_t lane = 0; lane < lanes; ++lane) {
        sum[n] = wrapping_add(sum[n], group[lane] * weights[n * kr + lane]);
      }
    }
    weights += nr * kr;
  };
  for (; k >= kr; k -= kr, row += kr) add(row, kr);
  if (k > 0) add(row, k);
  return weights;
}

}  // namespace quern
