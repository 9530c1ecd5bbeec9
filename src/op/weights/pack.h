// Packs weights into the panels that gemm.h, igemm.h, tapgemm.h and dwconv.h draw.
#pragma once

#include "op/weights/weights.h"

namespace quern {

Shared<PackedWeights> pack_weights(const PackKey& key);

// Packs one k x n matrix into the panels of gemm.h. Its element (i, j) is b[i * k_stride + j * n_stride]. `bias` may be
// NULL.
void pack_panels(size_t n, size_t k, size_t nr, const float* b, size_t k_stride, size_t n_stride, const float* bias,
                 float* panels);

}  // namespace quern
