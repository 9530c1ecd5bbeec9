// The part of commands that compresses models: it runs a model on samples to learn what errors of each layer cost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compress/transform.h"
#include "tool/drop.h"
#include "tool/part.h"
#include "tool/plan.h"

namespace quern {

// A layer as it has become.
struct CompressedLayer {
  std::string name;
  uint64_t weights = 0, zeros = 0;
  size_t levels = 0;  // different ones, but for 0
  double bits = 0;    // of all weights, about
  // What the model's outputs lose by relative error of the layer's (compress/reconstruct.h), if its bits were searched.
  std::optional<double> sensitivity = {};
};

// What a file of another size would lose.
struct CurvePoint {
  uint64_t file_bytes = 0;
  double loss = 0;                // as below
  std::optional<Drop> drop = {};  // as below
  // The bytes that steps save, of weights in f32: zeros whose positions are coded, integers of the same width for the others,
  // and coding these by how often each occurs.
  double zeros = 0, integers = 0, coding = 0;
};

struct Compression {
  Graph graph;
  Vector<Transform> transforms;  // that went before
  LayerPlans plans;              // what has become of each node of the graph before
  std::vector<CompressedLayer> layers;
  double planned_bits = 0;        // that all layers were to take
  uint64_t file_bytes = 0;        // of a coded file
  double loss = 0;                // of the outputs on the samples, against the model before
  std::optional<Drop> drop;       // on samples that were held out, if options limit it
  double most_drop = 0;           // the limit, in points
  std::vector<CurvePoint> curve;  // by size, if options ask for it: the model made is one of them
};

// At most one of `target` and `most_drop` is given; none, if plans say the bits of all layers.
struct CompressionOptions {
  // By node of the graph; none: of no node is anything decided.
  LayerPlans plans = {};
  // Bytes that the file has at most.
  std::optional<uint64_t> target = {};
  // Percentage points of accuracy that may be lost, or percent of the accuracy before.
  std::optional<double> most_drop = {};
  bool relative_drop = false;
  // Sample i is a view of image i % images.
  size_t images = 1;
  // Of images, for `most_drop`; none: they are not known.
  std::vector<size_t> labels = {};
  // After them the search ends with the best so far, as soon as one keeps the limit.
  std::optional<double> seconds = {};
  // Nodes compute in int8 where they can. With a least SNR those that harm outputs most remain f32, until outputs have it with
  // weights of 8 bits.
  bool int8_activations = false;
  std::optional<double> least_snr_db = {};
  // Of noise, and of the pixels that are looked at.
  uint32_t seed = 0;
  // Make smaller and larger files, too, and tell what they lose.
  bool curve = false;
};

// Do the outputs of a transformed graph differ from those of the graph before by rounding at most, on some samples?
bool has_same_outputs(const Graph& before, const Graph& after, size_t samples, const Sample& sample,
                      const SessionSettings& settings);

// Compresses a dense, optimized graph on samples 0 to `samples` - 1: its weights become levels in int8, chosen by rate and
// distortion (compress/reconstruct.h). Layers take the bits that plans say; those of others are searched.
//
// For `most_drop` every fifth image is held out and measured (drop.h). The upper end of the interval keeps to the limit, or
// the middle, if there are too few samples for the other. Throws Error if a limit can't be kept, or a plan can't be obeyed.
// Shows progress bars.
Compression compress_model(const Graph& real, size_t samples, const Sample& sample, const SessionSettings& settings,
                           const CompressionOptions& options);

}  // namespace quern
