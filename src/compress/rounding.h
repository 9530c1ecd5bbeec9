// How weights and biases become integers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern {

// Sums of products must fit 32 bits. An input, or the zero point of the inputs, can each be -128.
constexpr double most_weights = 0x1p30 / 256;  // sum of the absolute values of an output channel's weights
constexpr double most_bias = 0x1p29;           // steps of a bias: leaves room for the sums

constexpr float smallest_scale = 1e-20f;  // far below any that matters, so that quotients of scales are floats

constexpr int f32_bits = 32;

// The integers of a layer's weights.
struct WeightFormat {
  int bits = 8;  // 8: -127 to 127; 4: -8 to 7; 0: -127 to 127, of which a price chooses (reconstruct.h); 32: none, f32
  size_t block = 0;              // successive elements of an output channel that share a scale; 0: all
  bool f32_activations = false;  // what the layer reads and writes remains f32

  int8_t nearest(double steps) const;
  // Elements that share a scale, of `depth` for each output channel.
  size_t run(size_t depth) const { return block == 0 ? depth : block; }
};

// Small layers cost few bytes, and the first one much accuracy: they have 8 bits and a scale for each output channel.
WeightFormat format_of_layer(const WeightFormat& wanted, size_t weights);

// A bias that is huge beside the weights needs larger steps. 0 if the input is f32.
float least_scale(float bias, float input_scale);
// The scale of weights that share one. With 8 bits the largest weight has the last step. With 4 bits it is the scale with
// the least square error; of a block it is below 0 if the largest weight is above: there is one more step below 0.
float scale_of_weights(const double* weights, size_t count, const WeightFormat& format, float least);

}  // namespace quern
