// Reads the weights of some output channels at a time, or only their nonzeros, whatever encoding the user gives them
// in. All code reads weights this way, so a dense matrix of all sparse weights never exists in memory.
#pragma once

#include "op/weights/encoding.h"

namespace quern {

// Distances of elements: element (o, y, x, i) of a strip is data[o * out + y * h + x * w + i * in].
struct WeightStrides {
  size_t out, h, w, in;

  size_t input() const { return has_api("op") ? in : 1; }  // graphs give weights of QN_WEIGHTS_OHWI only
};

struct Strip {
  const void* data;  // elements of the weights' own type
  WeightStrides stride;

  const float* floats() const { return static_cast<const float*>(data); }
};

class WeightRows {
 public:
  // The weights have passed read_weights(); both outlive this.
  WeightRows(const qn_weights& weights, const WeightsShape& shape);

  // Returns output channels first .. first + count - 1, counted through all groups. Dense weights stay where they are.
  // Other weights are written to memory of this object, where the next call replaces them. Throws Failure if the
  // weights cannot be decoded.
  Strip rows(size_t first, size_t count);
  // Tells the owner of dense weights that these channels, and all channels before them, have been read.
  void tell_read(size_t first, size_t count) const;

 protected:
  WeightSource source_;
  WeightStrides stride_;
  Buffer strip_;
};

// Also finds the weights that are not 0. Reads bytes as the floats of the same values.
class WeightNonzeros : public WeightRows {
 public:
  using WeightRows::WeightRows;

  // Returns the nonzeros of up to Nonzeros::most_channels output channels; they are valid until the next call. Throws
  // as rows() does.
  const Nonzeros& nonzeros(size_t first, size_t count);
  // Returns the same rows as rows(), as floats.
#ifdef QN_NO_INTEGERS
  Strip float_rows(size_t first, size_t count) { return rows(first, count); }
#else
  Strip float_rows(size_t first, size_t count);
#endif
  // Does the encoding give nonzeros directly, without writing out rows?
  bool direct() const { return gives_nonzeros(source_); }

 private:
  void find_nonzeros(const Strip& strip, size_t count);

  Nonzeros nonzeros_;
#ifndef QN_NO_INTEGERS
  Buffer floats_;
#endif
};

}  // namespace quern
