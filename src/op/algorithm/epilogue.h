// The step that follows the sums of a convolution while they are still in the cache: it adds the residual, if there is
// one.
#pragma once

#include "base/math.h"
#include "op/core/numbers.h"
#include "op/core/operator.h"

namespace quern {

// How the results of a convolution stand for real numbers before a residual is added to them, if one is.
Steps steps_before_residual(const Request& request);

class Epilogue {
 public:
  explicit Epilogue(const Request& request);

  // Where kernels write the rows of sums that belong to `c`, a part of the output.
  struct Sums {
    char* data;
    size_t stride;
  };

  // Usually the sums go to `c`. If the residual lies in the output, they must not overwrite it: then they go to
  // scratch, densely.
  Sums sums(const Run& run, char* c, size_t row_stride, size_t channels, char* scratch) const {
    if (in_place(run)) return {scratch, channels * element()};
    return {c, row_stride};
  }
  bool in_place(const Run& run) const {
    return has_residual && has_api("op") && add_ != nullptr && run.input(1) == run.output;
  }
  // Bytes of scratch memory that this many sums may need.
  size_t scratch_bytes(size_t sums) const {
    return has_residual && has_api("op") && add_ != nullptr ? round_up(sums * element(), cache_line) : 0;
  }

  // Turns these sums into `rows` rows of the output `c`.
  void run(const Run& run, const Sums& sums, char* c, size_t rows, size_t row_stride, size_t channels) const {
    if (!has_residual || add_ == nullptr) return;
    const char* residual = run.input(1) + (c - run.output);  // it has the strides of the output
    const char* from = sums.data;
    const void* p = &clamp_;
    if (has_integers && type_ == KernelType::qs8) p = &bytes_;
    if (const size_t bytes = channels * element(); row_stride == bytes && sums.stride == bytes) {  // one long row
      channels *= rows;
      rows = 1;
    }
    for (size_t i = 0; i < rows; ++i, c += row_stride, residual += row_stride, from += sums.stride) {
      add_->run(channels, from, residual, c, p);
    }
  }

 private:
  // Bytes of one of the sums, and of the output.
  size_t element() const { return output_bytes(type_); }

  KernelType type_;                 // of the kernel that adds
  const BinaryRow* add_ = nullptr;  // NULL: there is no residual
  qn_minmax_f32 clamp_;
  qn_binary_qs8 bytes_ = {};  // what the kernel takes instead if elements are bytes
};

}  // namespace quern
