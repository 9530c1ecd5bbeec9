// The rows of some output channels at a time, however the user gives his weights: who reads weights reads them here, so
// that the whole dense matrix of those that are sparse never exists.
#pragma once

#include "op/weights/weights.h"

namespace quern {

// Distances of elements: element (o, y, x, i) of a strip lies at data[o * out + y * h + x * w + i * in].
struct WeightStrides {
  size_t out, h, w, in;
};

struct Strip {
  const float* data;
  WeightStrides stride;
};

class WeightRows {
 public:
  // The weights have passed read_weights(); both outlive this.
  WeightRows(const qn_weights& weights, const WeightsShape& shape);

  // Output channels first .. first + count - 1, of all groups together. Dense weights stay where they are; others are
  // written to memory of this object's own, where the next call replaces them. Throws Failure if they cannot be
  // decoded.
  Strip rows(size_t first, size_t count);
  // Tells the owner of dense weights that these channels were read, and all before them.
  void tell_read(size_t first, size_t count) const;

 private:
  void expand(size_t first, size_t count, float* to) const;

  const qn_weights& weights_;
  const WeightsShape& shape_;
  WeightStrides stride_;
  Buffer strip_;
};

}  // namespace quern
