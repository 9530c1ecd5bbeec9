// Which algorithm and micro-kernel a convolution or matrix product uses: a cost model that reads shapes and the CPU.
#pragma once

#include <quern/op.h>

#include "kernel/dwconv.h"
#include "kernel/gemm.h"
#include "kernel/igemm.h"
#include "kernel/select.h"
#include "op/operator.h"

namespace quern {

// A convolution as the cost model sees it; a matrix product has one tap and is pointwise.
struct Problem {
  size_t pixels = 1;                   // rows of one product: output pixels of an image, or all where images join
  size_t images = 1;                   // such products
  size_t groups = 1, in = 1, out = 1;  // channels of one group
  qn_hw kernel = {1, 1};
  bool pointwise = false;      // 1x1, stride 1, no padding: rows of the image are rows of the matrix
  bool offsets_fit = true;     // 32 bits reach every pixel: igemm's tables can be made
  bool row_tables_fit = true;  // depthwise's
  bool contiguous = false;     // taps of one kernel row lie side by side in memory

  size_t taps() const { return kernel.h * kernel.w; }
};

struct Choice {
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
  const Row* row = nullptr;  // the one of these that is set
  const GemmRow* gemm = nullptr;
  const IgemmRow* igemm = nullptr;
  const DwconvRow* dwconv = nullptr;
  double cycles = 0;  // an estimate
};

// The cheapest among what options.algorithm and options.kernel leave.
qn_status choose(const char* who, const Problem& problem, const qn_plan_options& options, Choice* choice);

}  // namespace quern
