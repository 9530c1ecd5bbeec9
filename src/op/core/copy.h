// Strided copies: what concat, slice, pad and transpose come down to.
#pragma once

#include "base/vector.h"
#include "op/core/nest.h"
#include "op/core/operator.h"

namespace quern {

// Copies part of an input (or repeats a value) to part of the output.
struct Copy {
  static constexpr size_t fill = SIZE_MAX;
  size_t input = 0;  // which; `fill`: the value
  size_t in_offset = 0, out_offset = 0;
  Nest<2> nest;  // strides of input (0 where the value repeats) and output, the output's innermost dimension first
};

// A copy of all of `shape`, whose dimensions have these strides.
Nest<2> copy_nest(uint32_t rank, const size_t* shape, const size_t* in_stride, const size_t* out_stride);

// The element that is repeated, of the output's type.
struct FillValue {
  alignas(8) char bytes[8] = {};
};

// Copies must not overlap in the output. An input that lies where its copy belongs is not copied.
PlanPointer plan_copies(const Request& request, const Vector<Copy>& copies, const FillValue& fill_value = {});

}  // namespace quern
