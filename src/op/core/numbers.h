// The differences between the numeric types of kernels, as far as plans must know them. Only this file has a branch for
// each type; the plans of convolution, pooling and elementwise functions have none.
#pragma once

#include <cstring>

#include "base/needs.h"
#include "base/vector.h"
#include "kernel/minmax.h"
#include "kernel/type.h"

namespace quern {

// Bytes of one element of a kernel's input and of its output.
constexpr size_t input_bytes(KernelType type) { return has_integers ? bytes_of(info_of(type).activations) : 4; }
constexpr size_t output_bytes(KernelType type) { return has_integers ? bytes_of(info_of(type).output) : 4; }

// The elements that stand for padding: zeros, or for quantized numbers their zero point. An element is filled byte by
// byte, which works because quantized numbers have one byte.
class Padding {
 public:
  Padding(KernelType type, size_t elements, int8_t zero_point = 0) : bytes_(elements * input_bytes(type)) {
    if (zero_point != 0) std::memset(bytes_.data(), zero_point, bytes_.size());
  }
  const void* data() const { return bytes_.data(); }

 private:
  Vector<char> bytes_;
};

// Makes the epilogues that kernels of a type take (`p` of their contracts) from the limits of an operator's outputs. A
// type whose epilogue depends on the channel needs one for each tile of channels.
class KernelEpilogue {
 public:
  KernelEpilogue(KernelType, const qn_minmax_f32& limits) : limits_(limits) {}
  // The epilogue for a call of a kernel whose first output channel is this one, counted through all groups.
  const void* at(size_t /*channel*/) const { return &limits_; }

 private:
  qn_minmax_f32 limits_;
};

}  // namespace quern
