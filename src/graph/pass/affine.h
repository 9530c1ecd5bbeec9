// y = clamp(scale * x + bias), the form that batch normalization, scaling, offsets and most activations share.
#pragma once

#include <algorithm>
#include <cmath>

#include "graph/pass/rewrite.h"

namespace quern {

// y = min(max(scale * x + bias, min), max): scale and bias have one element, or one per channel. They become floats where a
// node is written.
struct Affine {
  Vector<double> scale = {1}, bias = {0};
  float min = -infinity, max = infinity;

  bool clamps() const { return min != -infinity || max != infinity; }
  bool is_uniform() const { return scale.size() == 1 && bias.size() == 1; }
  bool only_clamps() const { return is_uniform() && scale[0] == 1 && bias[0] == 0; }
};

// An element of a vector with one for all channels, one per channel, or none: those are 0.
inline double element(const Vector<double>& v, size_t i) { return v.empty() ? 0 : v[v.size() == 1 ? 0 : i]; }

// Adds a constant with an element for each channel.
int spread(Rewriter& r, const Vector<double>& v, size_t channels);

// Whether no element is infinite or NaN.
template <class T>
bool is_finite(const Vector<T>& v) {
  return std::all_of(v.begin(), v.end(), [](T x) { return std::isfinite(x); });
}

// Reads a node as an affine function of x. Returns false if the node is none.
bool read_affine(Rewriter& r, const Node& node, Affine* f, int* x);

// first = second(first(x)). Returns false for chains without this form: a clamp followed by a scale per channel would
// clamp each channel to another range.
bool compose(const Affine& second, Affine* first);

// Whether `merged`, which is composed of the functions, the first of them first, computes nearly what they do one by one
// for every finite x in [low, high]: within 4 ulp of the larger of |scale * x| and |bias|, plus 2^-126; and overflows where
// they do. Each product and each sum rounds.
bool is_close_to_steps(const Affine& merged, std::span<const Affine> functions, double low, double high);

// Whether what the node computes is clamped no further.
inline bool is_unclamped(const Node& node) {
  return node.attributes.min == -infinity && node.attributes.max == infinity;
}

// The range [min, max] after a clamp to [low, high].
void clamp_range(float low, float high, float* min, float* max);

}  // namespace quern
