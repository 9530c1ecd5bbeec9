// The differences between the numeric types of kernels, as far as plans must know them. Only this file has a branch for
// each type; the plans of convolution, pooling and elementwise functions have none.
#pragma once

#include <quern/base.h>

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

// The type of kernels that compute with tensors of this type, and with weights if there are any.
constexpr KernelType kernel_type(qn_type type) { return type == QN_S8 ? KernelType::qs8c : KernelType::f32; }

// Is the tensor quantized with one scale for all elements?
inline bool has_one_scale(const qn_tensor& tensor) {
  return tensor.quantization.scale != 0 && tensor.quantization.scales == nullptr;
}

// What becomes of the sums of an operator.
struct OutputNumbers {
  qn_minmax_f32 clamp;  // in real numbers
  float scale = 1;      // quantized: the output's scale and zero point
  int32_t zero = 0;
  size_t groups = 1, channels = 1;  // quantized: output channels are counted within each group
  Vector<float> sum_scales = {};    // quantized: the real number that 1 of a channel's sum stands for
};

// Makes the epilogues that kernels of a type take (`p` of their contracts).
class KernelEpilogue {
 public:
  // `nr` is the number of channels in a panel.
  KernelEpilogue(KernelType type, const OutputNumbers& numbers, size_t nr);
  // The epilogue for a call of a kernel whose first output channel is this one of a group. It begins a panel.
  const void* at(size_t group, size_t channel) const {
    if (!has_integers || blocks_.empty()) return &clamp_;
    return blocks_.data() + (group * panels_ + channel / nr_) * block_bytes_;
  }

 private:
  qn_minmax_f32 clamp_;
  size_t nr_, panels_ = 0, block_bytes_ = 0;
  Vector<char> blocks_;  // qs8c: one for each panel
};

// Turns the bounds of a clamp into steps of a quantized tensor. A bound beyond its range becomes the end of the range.
int32_t steps_of(float real, float scale, int32_t zero);

}  // namespace quern
