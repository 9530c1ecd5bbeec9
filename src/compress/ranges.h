// Ranges of tensors: the interval of values that the 256 steps of an int8 tensor cover. Values outside it saturate.
#pragma once

#include <quern/base.h>

#include <cstdint>

#include "base/vector.h"
#include "graph/ir/ir.h"

namespace quern {

// Always includes 0, because zero must be exact: padding reads it.
struct Range {
  float low = 0, high = 0;

  void add(const float* data, size_t count);  // a NaN makes the range infinite
  bool operator==(const Range&) const = default;
};

// How a range is chosen from the values that a tensor has had on samples. A wide range loses precision of all values, a
// narrow one saturates the largest.
enum class RangeMethod {
  minmax,      // covers all values
  percentile,  // covers all but one of 100,000 that are not 0
  mse,         // least mean square error
  kl,          // least Kullback-Leibler divergence between the histograms before and after (Migacz 2017, "TensorRT")
  admm,        // alternates between the nearest steps and the scale that fits them best (Leng 2018)
};
constexpr const char* range_methods[] = {"minmax", "percentile", "mse", "kl", "admm"};  // by number

// Scale and zero point of an int8 tensor with this range.
Quantization numbers_of(const Range& range);
// The reverse, of a tensor that has one scale.
Range range_of(const Quantization& numbers);

// Counts the values of a tensor.
class Histogram {
 public:
  Histogram();

  void add(const float* data, size_t count);
  // Returns a range that is not finite if a value was not.
  Range range(RangeMethod method) const;
  // Returns the part of the values that saturate in an int8 tensor: those more than half a step outside its range. Values
  // near the limit are counted by interpolation.
  double saturation(const Quantization& numbers) const;

  // Values of nearly the same size.
  struct Bin {
    double low, high, count;
    double middle() const { return (low + high) / 2; }
  };

 private:
  Vector<Bin> bins() const;

  Range all_;
  Vector<uint64_t> counts_;  // by sign, binary exponent and the mantissa's upper bits
};

}  // namespace quern
