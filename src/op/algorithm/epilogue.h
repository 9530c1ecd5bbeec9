// What follows the sums of a convolution while they are in the cache: a residual is added.
#pragma once

#include "base/math.h"
#include "kernel/eltwise.h"
#include "op/core/operator.h"

namespace quern {

class Epilogue {
 public:
  explicit Epilogue(const Request& request);

  // Where kernels write the rows of sums that belong to `c`, a part of the output.
  struct Sums {
    char* data;
    size_t stride;
  };

  // There, or where the residual is the output, which they must not overwrite, densely in scratch.
  Sums sums(const Run& run, char* c, size_t row_stride, size_t channels, char* scratch) const {
    if (in_place(run)) return {scratch, channels * sizeof(float)};
    return {c, row_stride};
  }
  bool in_place(const Run& run) const {
    return has_residual && has_api("op") && add_ != nullptr && run.input(1) == run.output;
  }
  // Bytes of scratch that so many sums may need.
  size_t scratch_bytes(size_t sums) const {
    return has_residual && has_api("op") && add_ != nullptr ? round_up(sums * sizeof(float), cache_line) : 0;
  }

  // Makes `rows` rows of outputs, or pixels, of these sums.
  void run(const Run& run, const Sums& sums, char* c, size_t rows, size_t row_stride, size_t channels) const {
    if (!has_residual || add_ == nullptr) return;
    const char* residual = run.input(1) + (c - run.output);  // of the output's strides
    const char* from = sums.data;
    for (size_t i = 0; i < rows; ++i, c += row_stride, residual += row_stride, from += sums.stride) {
      add_->run(channels, reinterpret_cast<const float*>(from), reinterpret_cast<const float*>(residual),
                reinterpret_cast<float*>(c), &clamp_);
    }
  }

 private:
  const BinaryRow* add_ = nullptr;  // NULL: there is no residual
  qn_minmax_f32 clamp_;
};

}  // namespace quern
