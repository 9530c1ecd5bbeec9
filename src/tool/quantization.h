// The part of commands that quantizes models: it runs a model on samples to learn the ranges of its tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compress/quantize.h"
#include "tool/part.h"
#include "tool/plan.h"

namespace quern {

struct QuantizationOptions {
  LayerPlans plans = {};  // by node of the graph; none: of no node is anything decided
  // For what they leave open: weights, and whether weights and biases are reconstructed (compress/reconstruct.h).
  WeightFormat weights = {};
  bool reconstructs = false;
  bool f32_activations = false;  // only weights are quantized
  RangeMethod ranges = RangeMethod::minmax;
  // If set, nodes whose quantization harms outputs most remain f32, until every output has this SNR on samples; or only what
  // they read and write does.
  std::optional<double> least_snr_db = {};
  bool only_activations = false;
};

// Quantizes an optimized graph. The samples of these indices calibrate. Shows progress bars. Returns the layers of the
// result. `made` gets what has become of each node of the graph before, if it is not NULL.
Vector<QuantizedLayer> quantize_model(Graph& graph, const std::vector<size_t>& samples, const Sample& sample,
                                      const SessionSettings& settings, const QuantizationOptions& options = {},
                                      LayerPlans* made = nullptr);

// Which samples calibrate, and which ones measure the result: of five or more every fifth measures, and the others
// calibrate; of fewer all do both.
struct SampleSplit {
  std::vector<size_t> calibration, measured;
  bool held_out = false;
};
SampleSplit split_samples(size_t count);

// How close an output of the quantized model is to that of the model before.
struct OutputQuality {
  std::string name;
  double snr_db = 0;  // power of the output to power of the difference; infinite without a difference
  std::optional<double>
      top1;  // of an output that is one vector per item: the part of items with the same largest value

  // A noise of half the amplitude of the output, or more, leaves nothing to work with.
  static constexpr double least_db = 6;
  bool usable() const { return snr_db >= least_db; }
};

// Runs both models on the samples. Shows a progress bar.
std::vector<OutputQuality> compare_outputs(qn_model* real, qn_model* quantized, const std::vector<size_t>& samples,
                                           const Sample& sample, const SessionSettings& settings);

}  // namespace quern
