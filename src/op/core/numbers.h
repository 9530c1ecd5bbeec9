// The differences between the numeric types of kernels, as far as plans must know them. Only this file has a branch for
// each type; the plans of convolution, pooling and elementwise functions have none.
#pragma once

#include <quern/base.h>

#include <cstring>
#include <span>

#include "base/needs.h"
#include "base/vector.h"
#include "kernel/eltwise.h"
#include "kernel/minmax.h"
#include "kernel/panel.h"
#include "kernel/requantize.h"
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

// The type of kernels that multiply tensors of this type by weights. (check_product_type() has refused floats where there
// are no such kernels of floats.)
constexpr KernelType kernel_type(qn_type type) {
  return has_integers && (type == QN_S8 || !has_float_products) ? KernelType::qs8c : KernelType::f32;
}
// The same for kernels without weights.
constexpr KernelType type_without_weights(qn_type type) {
  return has_integers && type == QN_S8 ? KernelType::qs8 : KernelType::f32;
}

// Is the tensor quantized with one scale for all elements?
inline bool has_one_scale(const qn_tensor& tensor) {
  return tensor.quantization.scale != 0 && tensor.quantization.scales == nullptr;
}

// Fails unless inputs and output, if they are bytes, have one scale each.
qn_status check_one_scale(const char* who, std::span<const qn_tensor> ins, const qn_tensor& out);

// Fails if a quotient of scales is no ordinary number above 0.
qn_status check_factor(const char* who, float factor);

// Are powers with this exponent the same on every CPU? Those with others are not, because the C library computes them.
constexpr bool is_exact_power(float exponent) {
  return exponent == 1 || exponent == 2 || exponent == 0.5f || exponent == -1;
}

// How the bytes of a tensor with one scale stand for real numbers.
struct Steps {
  float scale = 1;
  int32_t zero = 0;
  int32_t low = 0, high = 0;  // the range of the type
};
inline Steps steps_of(const qn_tensor& tensor) {
  const qn_quantization& q = tensor.quantization;
  return tensor.type == QN_U8 ? Steps{q.scale, q.zero_point, 0, UINT8_MAX}
                              : Steps{q.scale, q.zero_point, INT8_MIN, INT8_MAX};
}

inline float to_real(int32_t step, const Steps& from) { return static_cast<float>(step - from.zero) * from.scale; }
// Returns round(x / scale) + zero, limited to the range; the least number for a NaN. A product with 1 / scale would be
// faster, but on the way through a model a step of the input becomes many: with the quotient, whole models give the
// results of ONNX Runtime, which divides.
inline int32_t to_step(float x, const Steps& to) {
  return round_within(x / to.scale, to.low - to.zero, to.high - to.zero) + to.zero;
}

// What becomes of the sums of an operator.
struct OutputNumbers {
  qn_minmax_f32 clamp;  // in real numbers
  float scale = 1;      // quantized: the output's scale and zero point
  int32_t zero = 0;
  size_t groups = 1, channels = 1;  // quantized: output channels are counted within each group
  Vector<float> sum_scales = {};    // quantized: the real number that 1 of a channel's sum stands for
  Vector<float> biases = {};        // of sums that become floats (dequantizes())
};

// Makes the epilogues that kernels of a type take (`p` of their contracts).
class KernelEpilogue {
 public:
  // `row` has panels: of gemm, igemm or depthwise kernels.
  template <class KernelRow>
  KernelEpilogue(const KernelRow& row, const OutputNumbers& numbers)
      : KernelEpilogue(row.type, row.nr, format_of(row), numbers) {}
  // For kernels of other families, whose epilogues stand for `nr` channels each.
  KernelEpilogue(KernelType type, size_t nr, const PanelFormat& format, const OutputNumbers& numbers);
  // The epilogue for a call of a kernel whose first output channel is this one of a group. It begins a panel.
  const void* at(size_t group, size_t channel) const {
    if (!has_integers || blocks_.empty()) return &clamp_;
    return blocks_.data() + (group * panels_ + channel / nr_) * block_bytes_;
  }

 private:
  qn_minmax_f32 clamp_;
  size_t nr_, panels_ = 0, block_bytes_ = 0;
  Vector<char> blocks_;  // of types with scales for each channel: one for each panel
};

// Turns the bounds of a clamp into steps of a quantized tensor. A bound beyond its range becomes the end of the range.
int32_t steps_of(float real, float scale, int32_t zero);

// What kernels of bytes need to compute a sum of `a` and `b`. Callers check both scales (check_factor).
qn_binary_qs8 numbers_of_sum(const Steps& a, const Steps& b, const Steps& out, const qn_minmax_f32& clamp);

}  // namespace quern
