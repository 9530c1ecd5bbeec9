// Functions of the gates of recurrent layers.
#pragma once

#include "extra/library.h"

namespace quern::extra {

// Numbers as they are in .qn files.
enum class Function : uint8_t {
  sigmoid,
  tanh,
  relu,
  affine,
  leaky_relu,
  thresholded_relu,
  scaled_tanh,
  hard_sigmoid,
  elu,
  softsign,
  softplus
};
constexpr int64_t function_count = 11;

struct FunctionSettings {
  Function function;
  float alpha = 0, beta = 0;
  float clip = 0;  // if it is not 0, the function limits its input to -clip .. clip
};

// A function of the first `width` elements of rows, in place.
class Activation {
 public:
  Activation(const FunctionSettings& settings, size_t rows, size_t width, size_t stride);

  void operator()(float* x) const;

 private:
  template <class Map>
  void map(Map&& function, float* x) const;
  void plan();

  FunctionSettings settings_;
  size_t rows_, width_, stride_;
  Plan plan_;  // of an operator of the library, for the two functions that it has
};

}  // namespace quern::extra
