// What passes have in common that recognize a function of which the source model has the parts.
#pragma once

#include "graph/pass/rewrite.h"

namespace quern {

// Whether the pass may make nodes of this registered kind. A graph that needs no registered kinds stays without them, so
// that libquern alone still runs it.
bool may_make(Rewriter& r, const char* kind);

bool is_kind(const Node& node, const char* registered);

// Whether a number is a constant of the source model, which has rounded it to a float.
bool is_close(double a, double b);

enum class Arithmetic : uint8_t { none, add, sub, mul, div };
// What the node does with its two inputs of floats.
Arithmetic arithmetic_of(Rewriter& r, const Node& node);

// Reads a node as (scale * x + bias) ^ exponent, also with an exponent of 1.
struct Power {
  double scale = 1, bias = 0, exponent = 1;
};
bool read_power(Rewriter& r, const Node& node, Power* power, int* x);

// Whether the number of channels of x is the same for all shapes that the inputs of the graph may get.
bool has_fixed_channels(Rewriter& r, int x);

// The elements of a constant with one element, or with one for each of `channels` of the last dimension; else none.
Vector<float> channels_of(Rewriter& r, int tensor, size_t channels);

// Which nodes read each tensor, in order, when the pass begins.
class Readers {
 public:
  explicit Readers(Rewriter& r);
  std::span<const size_t> of(int tensor) const;

 private:
  Vector<size_t> begin_, nodes_;
};

// Finds the nodes that compute `to` from constants and the tensors `from`, the last one first. Returns false if there are
// other tensors that they need, if other nodes read what lies between, or if there are more than a pattern has.
bool find_between(Rewriter& r, const Vector<int>& from, int to, Vector<Node*>* nodes);

// Makes the first of these nodes one of a registered kind, and removes the others.
void replace(Rewriter& r, const Vector<Node*>& nodes, const char* kind, Vector<int> inputs,
             Vector<Parameter> parameters);

}  // namespace quern
