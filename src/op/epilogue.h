// What follows the sums of a convolution while they are in the cache: a residual is added.
#pragma once

#include "kernel/eltwise.h"
#include "op/operator.h"

namespace quern {

class Epilogue {
 public:
  explicit Epilogue(const Request& request);

  // `rows` rows of sums, or pixels, lie at `c`, which is part of the output.
  void run(const Run& run, char* c, size_t rows, size_t row_stride, size_t channels) const {
    if (!has_residual || add_ == nullptr) return;
    const char* residual = run.input(1) + (c - run.output);  // of the output's strides
    for (size_t i = 0; i < rows; ++i, c += row_stride, residual += row_stride) {
      auto* sums = reinterpret_cast<float*>(c);
      add_->run(channels, sums, reinterpret_cast<const float*>(residual), sums, &clamp_);
    }
  }

 private:
  const BinaryRow* add_ = nullptr;  // NULL: there is no residual
  qn_minmax_f32 clamp_;
};

}  // namespace quern
