// What the numeric type of a kernel means for the plan that calls it. Each type has its branch here, and nowhere else in
// the plans of convolution, pooling and elementwise functions.
#pragma once

#include <cstring>

#include "base/vector.h"
#include "kernel/minmax.h"
#include "kernel/type.h"

namespace quern {

// Bytes of one element of a kernel's input and of its output.
constexpr size_t input_bytes(KernelType type) { return bytes_of(info_of(type).activations); }
constexpr size_t output_bytes(KernelType type) { return bytes_of(info_of(type).output); }

// The elements that stand for padding: zeros, or of quantized numbers their zero point, whose bits are those of the
// number itself.
class Padding {
 public:
  Padding(KernelType type, size_t elements, int8_t zero_point = 0) : bytes_(elements * input_bytes(type)) {
    std::memset(bytes_.data(), zero_point, bytes_.size());
  }
  const void* data() const { return bytes_.data(); }

 private:
  Vector<char> bytes_;
};

// Makes the epilogues that the kernels of a type take (`p` of their contracts) from what an operator is asked for:
// outputs between `min` and `max`. Types whose epilogue depends on the channel have one for each tile of channels.
class KernelEpilogue {
 public:
  KernelEpilogue(KernelType, const qn_minmax_f32& limits) : limits_(limits) {}
  // For a call whose first output channel is this one, counted through all groups.
  const void* at(size_t /*channel*/) const { return &limits_; }

 private:
  qn_minmax_f32 limits_;
};

}  // namespace quern
