// y = clamp(scale * x + bias), the form that batch normalization, scaling, offsets and most activations share.
#pragma once

#include "graph/pass/rewrite.h"

namespace quern {

// y = min(max(scale * x + bias, min), max): scale and bias have one element, or one per channel.
struct Affine {
  Vector<float> scale = {1}, bias = {0};
  float min = -infinity, max = infinity;

  bool clamps() const { return min != -infinity || max != infinity; }
  bool is_uniform() const { return scale.size() == 1 && bias.size() == 1; }
  bool only_clamps() const { return is_uniform() && scale[0] == 1 && bias[0] == 0; }
};

inline float element(const Vector<float>& v, size_t i) { return v.size() == 1 ? v[0] : v[i]; }

// Whether no element is infinite or NaN.
bool is_finite(const Vector<float>& v);

// Returns one element if all elements are equal, or else the vector as it is.
Vector<float> reduced(Vector<float> v);

// Reads a node as an affine function of x. Returns false if the node is none.
bool read_affine(Rewriter& r, const Node& node, Affine* f, int* x);

// first = second(first(x)). Returns false for chains without this form: a clamp followed by a scale per channel would
// clamp each channel to another range.
bool compose(const Affine& second, Affine* first);

// Whether what the node computes is clamped no further.
inline bool is_unclamped(const Node& node) {
  return node.attributes.min == -infinity && node.attributes.max == infinity;
}

// The range [min, max] after a clamp to [low, high].
void clamp_range(float low, float high, float* min, float* max);

}  // namespace quern
