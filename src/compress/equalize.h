// Cross-layer equalization: brings the ranges of the channels of a tensor closer together (Nagel 2019, "Data-free
// quantization through weight equalization and bias correction"). An int8 tensor has one scale, so channels of small
// values lose most. A channel can be scaled between the layer that produces it and those that read it:
//
//     conv a --> relu --> conv b        for each channel: row and bias of a times s, column of b divided by s
//
// The function of the network remains if all nodes between the layers are positively homogeneous: f(s x) = s f(x). The
// outputs keep their bits if s is a power of two, unless values overflow or become subnormal.
#pragma once

#include "compress/channels.h"

namespace quern {

class Equalization {
 public:
  // Finds the channels that may be scaled in an optimized graph whose shapes are known. Encoded constants become dense.
  // Sets of channels are those of channels.h; a set that passes a node that is not homogeneous is left out.
  qn_status find(Graph& graph);
  // The tensors whose values on samples decide about the factors. Empty: no channel may be scaled.
  const Vector<int>& tensors() const { return tensors_; }
  // Adds values of tensors()[i]. Channels are its last dimension.
  void add(size_t i, const float* values, size_t count);
  // Returns a factor for each set of channels. A channel with an upper limit, as in ReLU6, keeps a distance from it: the
  // factor is small enough, and 1 if samples came near the limit.
  Vector<double> factors(const Graph& graph) const;
  // Scales the channels of the graph, which find() has seen.
  void scale(const Vector<double>& factors, Graph& graph) const;

 private:
  // How nodes read a constant. One that is read in several ways keeps its values.
  enum class Role : uint8_t { none, weights, depthwise, bias, data, several };

  bool is_scalable(int tensor) const;
  void keep(int tensor);
  void keep_all(const Node& node);
  void note_role(int tensor, Role role);
  void note_roles(const Graph& graph, const Node& node);
  void check_node(const Graph& graph, const Node& node);
  bool is_homogeneous(const Graph& graph, const Node& node) const;
  void remove_kept();
  void choose_tensors(const Graph& graph);
  void limit(const Graph& graph, Vector<double>* factors) const;

  Channels channels_;
  Vector<bool> kept_;   // by set
  Vector<Role> roles_;  // by tensor
  Vector<int> tensors_;
  Vector<Vector<float>> largest_;  // absolute values, by channel of tensors_
};

}  // namespace quern
