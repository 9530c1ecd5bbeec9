// Runs a graph some nodes at a time for many samples, and keeps between two steps what later nodes read. So weights of nodes
// that have not run may change meanwhile, and nothing is computed twice.
#pragma once

#include <map>
#include <vector>

#include "tool/part.h"

namespace quern {

class Walk {
 public:
  // `graph` outlives this.
  Walk(const Graph& graph, const Sample& sample, const SessionSettings& settings)
      : graph_(graph), sample_(sample), settings_(settings) {}

  // Begins with these samples.
  void begin(const std::vector<size_t>& samples);
  // Runs the nodes before `node` that have not run.
  void run_to(size_t node);
  // A tensor of the n-th sample that a later node reads, and its shape.
  const void* tensor(size_t n, int tensor) const { return samples_[n].at(tensor).bytes.data(); }
  const Vector<size_t>& shape(size_t n, int tensor) const { return samples_[n].at(tensor).shape; }

  // Bytes that a sample keeps before a node, if all tensors have the shapes of the graph.
  uint64_t live_bytes(size_t node) const;

 private:
  struct Kept {
    Vector<unsigned char> bytes;
    Vector<size_t> shape;
  };
  using Tensors = std::map<int, Kept>;  // by index

  Vector<int> live(size_t node) const;
  Graph part_to(size_t node) const;
  static std::vector<InputData> inputs_of(const Graph& part, const Tensors& tensors, const qn_session* session);
  static void keep_outputs(const Graph& part, const Part& runner, Tensors* tensors);

  const Graph& graph_;
  const Sample& sample_;
  const SessionSettings& settings_;
  std::vector<Tensors> samples_;
  size_t next_ = 0;  // the next node to run
};

}  // namespace quern
