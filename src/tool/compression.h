// The part of commands that compresses models: it runs a model on samples to learn what errors of each layer cost.
#pragma once

#include <string>
#include <vector>

#include "tool/part.h"

namespace quern {

// A layer as it has become.
struct CompressedLayer {
  std::string name;
  uint64_t weights = 0, zeros = 0;
  double bits = 0;         // of all weights, about
  double sensitivity = 0;  // loss of the model's outputs by mean square error of the layer's
};

struct Compression {
  Graph graph;
  std::vector<CompressedLayer> layers;
  uint64_t file_bytes = 0;  // of a coded file
  double loss = 0;          // of the outputs on the samples, against the model before
};

struct CompressionOptions {
  uint64_t target = 0;            // bytes that the file has at most
  bool int8_activations = false;  // nodes compute in int8 where they can
};

// Compresses a dense, optimized graph: its weights become levels in int8, chosen by rate and distortion
// (compress/reconstruct.h). Throws Error if the file would be larger than the target. Shows progress bars.
Compression compress_model(const Graph& real, const std::vector<size_t>& samples, const Sample& sample,
                           const SessionSettings& settings, const CompressionOptions& options);

}  // namespace quern
