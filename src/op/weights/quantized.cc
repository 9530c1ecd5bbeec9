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
  int8_t least = 0, most = 0;
};

// Adds up weights few enough for 16-bit sums, of which the vectors are short that compilers make.
constexpr size_t chunk = 128;
ChannelSums<int16_t> sums_of_chunk(const int8_t* data, size_t count, size_t stride) {
  ChannelSums<int16_t> c;
  for (size_t i = 0; i < count; ++i) {
    const int8_t weight = data[i * stride];
    c.sum = static_cast<int16_t>(c.sum + weight);
    c.absolute = static_cast<int16_t>(c.absolute + std::abs(weight));
    c.least = std::min(c.least, weight);
    c.most = std::max(c.most, weight);
  }
  return c;
}

ChannelSums<int64_t> sums_of(const Strip& strip, const WeightsShape& shape) {
  ChannelSums<int64_t> c;
  const auto* const data = static_cast<const int8_t*>(strip.data);
  const WeightStrides& stride = strip.stride;
  // Of QN_WEIGHTS_OHWI, which is all that graphs give, the weights of a channel are one run.
  const bool together = !has_api("op") || (stride.in == 1 && stride.out == shape.depth());
  const size_t runs = together ? 1 : shape.taps(), length = together ? shape.depth() : shape.in;
  for (size_t t = 0; t < runs; ++t) {
    const int8_t* const run = data + t / shape.kernel.w * stride.h + t % shape.kernel.w * stride.w;
    for (size_t i = 0; i < length; i += chunk) {
      const size_t count = std::min(chunk, length - i);
      const ChannelSums<int16_t> part = sums_of_chunk(run + i * stride.input(), count, stride.input());
      c.sum += part.sum;
      c.absolute += part.absolute;
      c.least = std::min(c.least, part.least);
      c.most = std::max(c.most, part.most);
    }
  }
  return c;
}

}  // namespace

SumFacts facts_of_sums(const qn_weights& weights, const WeightsShape& shape, const void* bias) {
  WeightRows rows(weights, shape);
  const auto* const biases = static_cast<const int32_t*>(bias);
  SumFacts facts = {.meet = w127};
  for (size_t o = 0; o < shape.groups * shape.out; ++o) {
    const ChannelSums<int64_t> channel = sums_of(rows.rows(o, 1), shape);
    const int64_t bias_of_channel = biases == nullptr ? 0 : biases[o];
    facts.largest = std::max(facts.largest, UINT8_MAX * channel.absolute + std::abs(bias_of_channel));
    if (channel.least == INT8_MIN) facts.meet = any;
  }
  facts.largest = std::min(facts.largest, -int64_t{INT32_MIN});
  return facts;
}

// Elements less their zero point are at most 255; kernels also form sums of elements from 0 to 255, and products of
// zero points with sums of weights. Of weights of 4 bits they have 16 times all these.
qn_status check_dynamic_sums(const char* who, const qn_weights& weights, const WeightsShape& shape, SumFacts* facts) {
  WeightRows rows(weights, shape);
  *facts = {.meet = w127, .fit_4_bits = true};
  for (size_t o = 0; o < shape.groups * shape.out; ++o) {
    const ChannelSums<int64_t> channel = sums_of(rows.rows(o, 1), shape);
    if (has_scaled_blocks && weights.block_length != 0) {  // sums are those of a block, which are small
      if (channel.least >= -8 && channel.most <= 7) continue;
      return fail(QN_UNSUPPORTED, "%s: weights with scales for blocks are not all in -8 .. 7", who);
    }
    if (channel.absolute > INT32_MAX / 256) {
      return fail(QN_UNSUPPORTED, "%s: sums of output channel %zu may overflow 32 bits", who, o);
    }
    if (channel.least == INT8_MIN) facts->meet = any;
    if (channel.least < -8 || channel.most > 7 || channel.absolute > INT32_MAX / (16 * 256)) facts->fit_4_bits = false;
  }
  return QN_OK;
}

bool fit_4_bits(const qn_weights& weights, const WeightsShape& shape) {
  if (weights.block_length == 0 || weights.block_length % scale_block != 0) return false;
  const qn_weights steps = as_steps(weights);
  WeightRows rows(steps, shape);
  for (size_t o = 0; o < shape.groups * shape.out; ++o) {
    const ChannelSums<int64_t> channel = sums_of(rows.rows(o, 1), shape);
    if (channel.least < -8 || channel.most > 7) return false;
  }
  return true;
}

}  // namespace quern
