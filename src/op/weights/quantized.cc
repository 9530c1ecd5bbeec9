#include "op/weights/quantized.h"

#include <algorithm>
#include <cstdlib>

#include "op/weights/weight_rows.h"

namespace quern {
namespace {

// The largest factor of a weight in a sum: an input, or the zero point of the input, which the bias absorbs, can each
// be -128.
constexpr int64_t most_per_weight = 256;

struct Magnitude {
  int64_t sum = 0;  // of the absolute values
  int least = 0;
};

Magnitude magnitude_of(const Strip& strip, const WeightsShape& shape) {
  Magnitude m;
  const auto* const data = static_cast<const int8_t*>(strip.data);
  const WeightStrides& stride = strip.stride;
  for (size_t y = 0; y < shape.kernel.h; ++y) {
    for (size_t x = 0; x < shape.kernel.w; ++x) {
      for (size_t i = 0; i < shape.in; ++i) {
        const int weight = data[y * stride.h + x * stride.w + i * stride.in];
        m.sum += std::abs(weight);
        m.least = std::min(m.least, weight);
      }
    }
  }
  return m;
}

}  // namespace

qn_status check_sums(const char* who, const qn_weights& weights, const WeightsShape& shape, const void* bias,
                     uint8_t* met) {
  WeightRows rows(weights, shape);
  const auto* const biases = static_cast<const int32_t*>(bias);
  *met = w127;
  for (size_t o = 0; o < shape.groups * shape.out; ++o) {
    const Magnitude m = magnitude_of(rows.rows(o, 1), shape);
    const int64_t begin = biases == nullptr ? 0 : std::abs(int64_t{biases[o]});
    if (m.sum * most_per_weight + begin > INT32_MAX) {
      return fail(QN_UNSUPPORTED, "%s: sums of output channel %zu may overflow 32 bits", who, o);
    }
    if (m.least == INT8_MIN) *met = any;
  }
  return QN_OK;
}

}  // namespace quern
