#include "op/weights/quantized.h"

#include <algorithm>
#include <cstdlib>

#include "op/weights/weight_rows.h"

namespace quern {
namespace {

// Of some weights of one output channel.
template <class Int>
struct ChannelSums {
  Int sum = 0, absolute = 0;  // of the values, and of the absolute values
  int least = 0;
};

// Adds up weights few enough for 32-bit sums, so that compilers can make vectors of them.
constexpr size_t chunk = 1 << 20;
ChannelSums<int> sums_of_chunk(const int8_t* data, size_t count, size_t stride) {
  ChannelSums<int> c;
  for (size_t i = 0; i < count; ++i) {
    const int weight = data[i * stride];
    c.sum += weight;
    c.absolute += std::abs(weight);
    c.least = std::min(c.least, weight);
  }
  return c;
}

ChannelSums<int64_t> sums_of(const Strip& strip, const WeightsShape& shape) {
  ChannelSums<int64_t> c;
  const auto* const data = static_cast<const int8_t*>(strip.data);
  const WeightStrides& stride = strip.stride;
  for (size_t y = 0; y < shape.kernel.h; ++y) {
    for (size_t x = 0; x < shape.kernel.w; ++x) {
      const int8_t* const tap = data + y * stride.h + x * stride.w;
      for (size_t i = 0; i < shape.in; i += chunk) {
        const ChannelSums<int> part = sums_of_chunk(tap + i * stride.in, std::min(chunk, shape.in - i), stride.in);
        c.sum += part.sum;
        c.absolute += part.absolute;
        c.least = std::min(c.least, part.least);
      }
    }
  }
  return c;
}

int64_t floor_of_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// Leaves those zero points with which no sum of this channel overflows. Kernels begin with the bias less the zero point
// times the sum of the weights, and add products of weights and elements of the input, each of which may be -128. Then no
// sum on the way overflows either, in whatever order they add.
void limit_zero_point(const ChannelSums<int64_t>& channel, int64_t bias, SumFacts* facts) {
  int64_t sum = channel.sum;
  const int64_t most = INT32_MAX + INT8_MIN * channel.absolute;  // of the absolute value that kernels begin with
  if (most < 0 || (sum == 0 && std::abs(bias) > most)) {
    facts->zero_high = facts->zero_low - 1;  // none is left
    return;
  }
  if (sum == 0) return;
  if (sum < 0) sum = -sum, bias = -bias;  // now bias - most <= zero * sum <= bias + most
  facts->zero_low = static_cast<int>(std::max<int64_t>(facts->zero_low, -floor_of_quotient(most - bias, sum)));
  facts->zero_high = static_cast<int>(std::min<int64_t>(facts->zero_high, floor_of_quotient(bias + most, sum)));
}

}  // namespace

qn_status check_sums(const char* who, const qn_weights& weights, const WeightsShape& shape, const void* bias,
                     SumFacts* facts) {
  WeightRows rows(weights, shape);
  const auto* const biases = static_cast<const int32_t*>(bias);
  *facts = {.meet = w127};
  for (size_t o = 0; o < shape.groups * shape.out; ++o) {
    const ChannelSums<int64_t> channel = sums_of(rows.rows(o, 1), shape);
    const int64_t bias_of_channel = biases == nullptr ? 0 : biases[o];
    limit_zero_point(channel, bias_of_channel, facts);
    facts->largest = std::max(facts->largest, UINT8_MAX * channel.absolute + std::abs(bias_of_channel));
    if (facts->zero_low > facts->zero_high) {
      return fail(QN_UNSUPPORTED, "%s: sums of output channel %zu may overflow 32 bits", who, o);
    }
    if (channel.least == INT8_MIN) facts->meet = any;
  }
  return QN_OK;
}

}  // namespace quern
