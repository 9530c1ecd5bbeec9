// Strided copies, from which concat, slice, pad and transpose are made.
#pragma once

#include "base/vector.h"
#include "op/core/nest.h"
#include "op/core/operator.h"

namespace quern {

// Copies part of an input (or repeats a value) to part of the output.
struct Copy {
  static constexpr size_t fill = SIZE_MAX;
  size_t input = 0;  // index of the input; `fill`: repeats the value
  size_t in_offset = 0, out_offset = 0;
  Nest<2> nest;  // strides of input (0 where the value repeats) and output; the output's innermost dimension first
};

// The loops that copy a whole tensor of this shape, whose dimensions have these strides.
Nest<2> copy_nest(uint32_t rank, const size_t* shape, const size_t* in_stride, const size_t* out_stride);

// Makes a plan of several copies, which must not overlap in the output. The plan skips a copy whose input already lies
// where it belongs.
PlanPointer plan_copies(const Request& request, const Vector<Copy>& copies, float fill_value = 0);

}  // namespace quern
