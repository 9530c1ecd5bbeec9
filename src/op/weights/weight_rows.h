// The rows of some output channels at a time, or what is not 0 of them, however the user gives his weights: who reads
// weights reads them here, so that the whole dense matrix of those that are sparse never exists.
#pragma once

#include "op/weights/encoding.h"

namespace quern {

// Distances of elements: element (o, y, x, i) of a strip lies at data[o * out + y * h + x * w + i * in].
struct WeightStrides {
  size_t out, h, w, in;
};

struct Strip {
  const void* data;  // of the weights' type
  WeightStrides stride;

  const float* floats() const { return static_cast<const float*>(data); }
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

 protected:
  WeightSource source_;
  const WeightEncoding& encoding_;
  WeightStrides stride_;
  Buffer strip_;
};

// The same, and what is not 0 of them.
class WeightNonzeros : public WeightRows {
 public:
  using WeightRows::WeightRows;

  // Of up to Nonzeros::most_channels output channels, until the next call. Throws as rows() does.
  const Nonzeros& nonzeros(size_t first, size_t count);
  // Are they found without a detour over rows?
  bool direct() const { return has_api("op") && encoding_.nonzeros != nullptr; }

 private:
  void find_nonzeros(const Strip& strip, size_t count);

  Nonzeros nonzeros_;
};

}  // namespace quern
