#include "op/weights/density.h"

#include <algorithm>
#include <cstring>

#include "op/weights/weight_rows.h"

namespace quern {
namespace {

// Reading many megabytes of ordinary weights would take as long as packing them. So only a sample is read first: if
// less than this part of it is 0, the weights count as full.
constexpr size_t sample_runs = 64, sample_run = 64;
// Integers are more often 0, because small weights are rounded to it; no sparse algorithm gains by so few of them.
constexpr double few_zeros = 0.01, few_zeros_of_integers = 0.1;

template <class T>
bool looks_full(const qn_weights& weights, size_t elements, double few) {
  const T* const data = static_cast<const T*>(weights.data);
  const size_t run = std::min(sample_run, elements);
  const size_t runs = std::min(sample_runs, elements / run);
  size_t zeros = 0;
  for (size_t i = 0; i < runs; ++i) {
    const size_t last = elements - run;  // where the last run begins
    const T* from = data + (runs == 1 ? 0 : last / (runs - 1) * i + last % (runs - 1) * i / (runs - 1));
    zeros += static_cast<size_t>(std::count(from, from + run, T{0}));
  }
  return static_cast<double>(zeros) < few * static_cast<double>(runs * run);
}

// A mask belongs to a position. Bit c is set if channel c of the widest block has a weight other than 0 there.
using Mask = uint16_t;
constexpr size_t widest = 16;
constexpr size_t masks_at_once = 256;  // masks that are made and counted at a time

// Uses 16-bit arithmetic, so that compilers can count many masks at a time with vectors.
Mask count_bits(Mask m) {
  m = static_cast<Mask>(m - (m >> 1 & 0x5555));
  m = static_cast<Mask>((m & 0x3333) + (m >> 2 & 0x3333));
  m = static_cast<Mask>((m + (m >> 4)) & 0x0f0f);
  return static_cast<Mask>((m + (m >> 8)) & 0x1f);
}

void count_masks(Mask* masks, size_t count, size_t* blocks) {
  constexpr Mask first_of[] = {0xffff, 0x5555, 0x1111, 0x0101, 0x0001};
  static_assert(std::size(first_of) == WeightsDensity::kinds);
  for (size_t i = 0; i < WeightsDensity::kinds; ++i) {
    Mask sum = 0;  // of one chunk of masks it is at most 256 times 16
    for (size_t p = 0; p < count; ++p) {
      // From here on bit c says whether the block that begins with channel c has a weight other than 0.
      if (i > 0) masks[p] = static_cast<Mask>(masks[p] | masks[p] >> (1 << (i - 1)));
      sum = static_cast<Mask>(sum + count_bits(masks[p] & first_of[i]));
    }
    blocks[i] += sum;
  }
}

// Counts blocks of several inputs. The first mask is that of a block's first input.
void count_joined(const Mask* masks, size_t count, WeightsDensity* density) {
  Mask joined[masks_at_once / joined_inputs] = {};
  for (size_t p = 0; p < count; ++p) {
    Mask& block = joined[p / joined_inputs];
    block = static_cast<Mask>(block | masks[p]);
  }
  count_masks(joined, divide_up(count, joined_inputs), density->blocks[density->input_kinds - 1]);
}
static_assert(masks_at_once % joined_inputs == 0);

// Counts up to `widest` channels of a strip, in blocks of several inputs only if they are `joined`.
void count_strip(const Strip& strip, size_t channels, const WeightsShape& shape, bool joined, WeightsDensity* density) {
  const WeightStrides& s = strip.stride;
  for (size_t tap = 0; tap < shape.taps(); ++tap) {
    const float* from = strip.floats() + tap / shape.kernel.w * s.h + tap % shape.kernel.w * s.w;
    for (size_t begin = 0; begin < shape.in; begin += masks_at_once) {
      const size_t count = std::min(masks_at_once, shape.in - begin);
      Mask masks[masks_at_once] = {};
      for (size_t c = 0; c < channels; ++c) {
        const float* row = from + c * s.out + begin * s.in;
        for (size_t p = 0; p < count; ++p) {
          masks[p] = static_cast<Mask>(masks[p] | static_cast<unsigned>(row[p * s.in] != 0.0f) << c);
        }
      }
      if (has_integers && joined) count_joined(masks, count, density);
      count_masks(masks, count, density->blocks[0]);
    }
  }
}

// Counts weights whose nonzeros are known already.
void count_nonzeros(const Nonzeros& nonzeros, const WeightsShape& shape, bool joined, WeightsDensity* density) {
  const size_t run = has_integers && joined ? shape.in : nonzeros.depth;  // a block of several inputs ends with its tap
  for (size_t tap = 0; tap < nonzeros.depth; tap += run) {
    for (size_t begin = tap; begin < tap + run; begin += masks_at_once) {
      const size_t count = std::min(masks_at_once, tap + run - begin);
      Mask masks[masks_at_once];
      for (size_t p = 0; p < count; ++p) masks[p] = static_cast<Mask>(nonzeros.masks[begin + p]);
      if (has_integers && joined) count_joined(masks, count, density);
      count_masks(masks, count, density->blocks[0]);
    }
  }
}

}  // namespace

WeightsDensity full_density(const WeightsShape& shape) {
  WeightsDensity density;
  density.elements = shape.groups * shape.out * shape.depth();
  for (size_t kind = 0; kind < density.input_kinds; ++kind) {
    const size_t depth = shape.depth(kind == 0 ? 1 : joined_inputs);
    for (size_t i = 0; i < density.kinds; ++i) {
      density.blocks[kind][i] = shape.groups * shape.block_rows(size_t{1} << i) * depth;
    }
  }
  return density;
}

WeightsDensity density_of(const qn_weights& weights, const WeightsShape& shape) {
  if (weights.summary == nullptr) return count_density(weights, shape);
  WeightsDensity density = full_density(shape);
  const auto& blocks = weights.summary->blocks;
  if (blocks[0][0] == 0) return density;
  for (size_t kind = 0; kind < density.input_kinds; ++kind) {
    for (size_t i = 0; i < density.kinds; ++i)
      density.blocks[kind][i] = std::min(density.blocks[kind][i], blocks[kind][i]);
  }
  return density;
}

WeightsDensity count_density(const qn_weights& weights, const WeightsShape& shape) {
  WeightsDensity density = full_density(shape);
  const bool bytes = has_integers && weights.type != QN_F32;
  const double few = bytes ? few_zeros_of_integers : few_zeros;
  const auto full = bytes ? looks_full<int8_t> : looks_full<float>;
  if (weights.encoding == QN_WEIGHTS_DENSE && !are_steps(weights) && full(weights, density.elements, few))
    return density;
  std::memset(density.blocks, 0, sizeof density.blocks);
  WeightNonzeros rows(weights, shape);
  for (size_t group = 0; group < shape.groups; ++group) {
    for (size_t c = 0; c < shape.out; c += widest) {
      const size_t channels = std::min(widest, shape.out - c);
      const size_t first = group * shape.out + c;
      if (rows.direct()) {
        count_nonzeros(rows.nonzeros(first, channels), shape, bytes, &density);
      } else {
        count_strip(rows.float_rows(first, channels), channels, shape, bytes, &density);
      }
    }
  }
  return has_integers && density.part(1) > 1 - few ? full_density(shape) : density;
}

}  // namespace quern
