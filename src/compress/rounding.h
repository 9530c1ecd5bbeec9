// How weights and biases become integers.
#pragma once

#include <cstddef>

namespace quern {

// Sums of products must fit 32 bits. An input, or the zero point of the inputs, can each be -128.
constexpr double most_weights = 0x1p30 / 256;  // sum of the absolute values of an output channel's weights
constexpr double most_bias = 0x1p29;           // steps of a bias: leaves room for the sums

constexpr float smallest_scale = 1e-20f;  // far below any that matters, so that quotients of scales are floats

// The scale of an output channel's weights. A bias that is huge beside the weights needs larger steps.
float scale_of_weights(const float* weights, size_t count, float bias, float input_scale);

}  // namespace quern
