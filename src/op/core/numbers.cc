#include "op/core/numbers.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/status.h"
#include "kernel/dequantize.h"

namespace quern {

int32_t steps_of(float real, float scale, int32_t zero) {
  constexpr float far = 1024;  // beyond all steps, even if a zero point is added
  return std::clamp(static_cast<int32_t>(std::rint(std::clamp(real / scale, -far, far))) + zero, INT8_MIN, INT8_MAX);
}

qn_binary_qs8 numbers_of_sum(const Steps& a, const Steps& b, const Steps& out, const qn_minmax_f32& clamp) {
  return {a.scale / out.scale,
          b.scale / out.scale,
          a.zero,
          b.zero,
          out.zero,
          steps_of(clamp.min, out.scale, out.zero),
          steps_of(clamp.max, out.scale, out.zero)};
}

qn_status check_one_scale(const char* who, std::span<const qn_tensor> ins, const qn_tensor& out) {
  const auto check = [=](const qn_tensor& tensor, const char* what) {
    if ((tensor.type != QN_S8 && tensor.type != QN_U8) || has_one_scale(tensor)) return QN_OK;
    return fail(QN_INVALID_ARGUMENT, "%s: the %s has no single scale", who, what);
  };
  for (const qn_tensor& in : ins) QN_TRY(check(in, "input"));
  return check(out, "output");
}

qn_status check_factor(const char* who, float factor) {
  if (std::isfinite(factor) && factor >= 0) return QN_OK;  // 0: the quotient underflows, and so does all that it scales
  return fail(QN_UNSUPPORTED, "%s: the scales of input and output are too far apart", who);
}

KernelEpilogue::KernelEpilogue(KernelType type, size_t nr, const PanelFormat& format, const OutputNumbers& numbers)
    : clamp_(numbers.clamp), nr_(nr) {
  if (!has_integers || info_of(type).scales == Scales::none) return;
  const bool real = quantizes_inputs && dequantizes(type);  // biases, and no zero point of outputs
  const bool scaled = !has_block_scales(type);
  panels_ = divide_up(numbers.channels, nr);
  block_bytes_ = real ? dequantize_bytes(nr, scaled ? 2 : 1) : requantize_bytes(nr);
  blocks_.resize(numbers.groups * panels_ * block_bytes_);
  const qn_requantize steps = {numbers.zero, steps_of(clamp_.min, numbers.scale, numbers.zero),
                               steps_of(clamp_.max, numbers.scale, numbers.zero), 0};
  const qn_dequantize open = {clamp_};
  const size_t head = real ? sizeof open : sizeof steps;
  char* block = blocks_.data();
  for (size_t g = 0; g < numbers.groups; ++g) {
    for (size_t n = 0; n < numbers.channels; n += nr, block += block_bytes_) {
      std::memcpy(block, real ? static_cast<const void*>(&open) : &steps, head);
      for (size_t i = 0; i < std::min(nr, numbers.channels - n); ++i) {
        const size_t channel = g * numbers.channels + n + i;
        char* at = block + head + place_in_panel(format, nr, i) * sizeof(float);
        if (scaled) {
          const float scale = real ? numbers.sum_scales[channel] : numbers.sum_scales[channel] / numbers.scale;
          std::memcpy(at, &scale, sizeof scale);
          at += nr * sizeof scale;
        }
        if (real) std::memcpy(at, &numbers.biases[channel], sizeof(float));
      }
    }
  }
}

}  // namespace quern
