#include "op/weights/quantized.h"

#include <algorithm>
#include <cstdlib>

#include "op/weights/weight_rows.h"

namespace quern {
namespace {

// WeightsRange of a chunk of one output channel's weights.
struct ChunkRange {
  int16_t absolute = 0;
  int8_t least = 0, most = 0;
};

// Adds up weights few enough for 16-bit sums, of which the vectors are short that compilers make.
constexpr size_t chunk = 128;
ChunkRange sums_of_chunk(const int8_t* data, size_t count, size_t stride) {
  ChunkRange c;
  for (size_t i = 0; i < count; ++i) {
    const int8_t weight = data[i * stride];
    c.absolute = static_cast<int16_t>(c.absolute + std::abs(weight));
    c.least = std::min(c.least, weight);
    c.most = std::max(c.most, weight);
  }
  return c;
}

WeightsRange sums_of(const Strip& strip, const WeightsShape& shape) {
  WeightsRange c;
  const auto* const data = static_cast<const int8_t*>(strip.data);
  const WeightStrides& stride = strip.stride;
  // Of QN_WEIGHTS_OHWI, which is all that graphs give, the weights of a channel are one run.
  const bool together = !has_api("op") || (stride.in == 1 && stride.out == shape.depth());
  const size_t runs = together ? 1 : shape.taps(), length = together ? shape.depth() : shape.in;
  for (size_t t = 0; t < runs; ++t) {
    const int8_t* const run = data + t / shape.kernel.w * stride.h + t % shape.kernel.w * stride.w;
    for (size_t i = 0; i < length; i += chunk) {
      const size_t count = std::min(chunk, length - i);
      const ChunkRange part = sums_of_chunk(run + i * stride.input(), count, stride.input());
      c.absolute += part.absolute;
      c.least = std::min(c.least, part.least);
      c.most = std::max(c.most, part.most);
    }
  }
  return c;
}

bool are_halves(const WeightsRange& all) { return all.least >= -8 && all.most <= 7; }

}  // namespace

WeightsRange range_of(const qn_weights& weights, const WeightsShape& shape) {
  WeightsRange all;
  if (const qn_weights_summary* const known = has_encodings ? weights.summary : nullptr) {
    all.absolute = static_cast<int64_t>(std::min<uint64_t>(known->largest_sum, INT32_MAX));
    all.least = known->least, all.most = known->most;
    return all;
  }
  WeightRows rows(weights, shape);
  for (size_t o = 0; o < shape.groups * shape.out; ++o) {
    const WeightsRange channel = sums_of(rows.rows(o, 1), shape);
    all.absolute = std::max(all.absolute, channel.absolute);
    all.least = std::min(all.least, channel.least);
    all.most = std::max(all.most, channel.most);
  }
  return all;
}

SumFacts facts_of_sums(const qn_weights& weights, const WeightsShape& shape, const void* bias) {
  const WeightsRange all = range_of(weights, shape);
  const auto* const biases = static_cast<const int32_t*>(bias);
  int64_t largest_bias = 0;
  for (size_t o = 0; biases != nullptr && o < shape.groups * shape.out; ++o) {
    largest_bias = std::max(largest_bias, std::abs(int64_t{biases[o]}));
  }
  SumFacts facts = {.meet = all.least == INT8_MIN ? any : w127};
  facts.largest = std::min(UINT8_MAX * all.absolute + largest_bias, -int64_t{INT32_MIN});
  return facts;
}

// Elements less their zero point are at most 255; kernels also form sums of elements from 0 to 255, and products of
// zero points with sums of weights. Of weights of 4 bits they have 16 times all these.
qn_status check_dynamic_sums(const char* who, const qn_weights& weights, const WeightsShape& shape, SumFacts* facts) {
  const WeightsRange all = range_of(weights, shape);
  *facts = {.meet = all.least == INT8_MIN ? any : w127};
  if (has_scaled_blocks && weights.block_length != 0) {  // sums are those of a block, which are small
    facts->fit_4_bits = true;
    if (are_halves(all)) return QN_OK;
    return fail(QN_UNSUPPORTED, "%s: weights with scales for blocks are not all in -8 .. 7", who);
  }
  if (all.absolute > INT32_MAX / 256) {
    return fail(QN_UNSUPPORTED, "%s: sums of an output channel may overflow 32 bits", who);
  }
  facts->fit_4_bits = are_halves(all) && all.absolute <= INT32_MAX / (16 * 256);
  return QN_OK;
}

bool fit_4_bits(const qn_weights& weights, const WeightsShape& shape) {
  if (weights.block_length == 0 || weights.block_length % scale_block != 0) return false;
  return are_halves(range_of(as_steps(weights), shape));
}

}  // namespace quern
