// Reconstruction of a quantized model: the weights of its layers are rounded anew, so that their sums of what they read in
// the quantized model come close to the sums that they have in the model before.
//
// A layer has weights W and reads x in the model before; in the quantized one it reads x', which the layers before it have
// changed. Least squares over samples say which W' and b' make W' x' + b' closest to W x + b; W' is held near W where the
// samples say little. Its elements are then rounded one after the other, each so that it makes up for those before it
// (Babai 1986; optimal brain surgery in a fixed order: Frantar 2022, "GPTQ"). Layers follow one another, so that each
// makes up for those before it as they have become.
#pragma once

#include <optional>
#include <random>

#include "compress/prune.h"
#include "compress/quantize.h"

namespace quern {

// Is the layer small enough? One with more than some thousand weights for an output channel would take minutes.
bool can_reconstruct(const Graph& real, const LayerPair& layer);

// The reconstruction of one layer.
class Reconstruction {
 public:
  // Expects about so many samples. `seed`: of the choice of output pixels, where there are many. `real` outlives this.
  Reconstruction(const Graph& real, const Graph& quantized, const LayerPair& layer, const WeightFormat& format,
                 size_t samples, uint32_t seed = 0);

  // Adds a sample: what the layer reads in either graph, both of this shape. In the quantized one it is int8, or f32 if
  // only weights are quantized.
  qn_status add(const float* real, const void* quantized, const Vector<size_t>& shape);
  // What follows comes after the last sample.
  //
  // Weights in this part of all blocks of this shape become 0, if a number of bits is asked for: those whose errors matter
  // least. The others make up for them.
  void prune(double sparsity, const BlockShape& shape);
  // Gives the layer other weights and another bias. A channel for which they would be too large keeps its own.
  qn_status finish(Graph& quantized);
  // The same with weights that take about so many bits altogether, chosen by rate and distortion. `made`: how many they
  // take.
  qn_status finish(Graph& quantized, double bits, double* made);
  // About how many bits weights take if each is worth so much relative error, without what errors of other weights and
  // layers change.
  double bits(double price);
  // The error of the layer's outputs if its weights had these errors: the sum over channels of the mean square error, as a
  // part of the mean square of the channel. Of a layer's channels, those count most whose outputs vary least: what reads
  // them has large weights for them.
  double relative_error(const Vector<float>& weight_errors);

 private:
  // Sums over columns: what the channels of a group read for one output pixel each.
  struct Moments {
    size_t columns = 0;
    Vector<double> real, bytes;        // of x and x'
    Vector<double> products, shifted;  // of x' x't; of (x - x') x't
    double damping = 0;

    // Adds columns, as those of a matrix.
    qn_status add(const Vector<float>& x, const Vector<float>& x_bytes, size_t count);
    // Makes means of `real` and `bytes`, and the others moments around them; damps `products`.
    void finish(double least_damping);
  };
  // The weights and biases of all channels.
  struct Layer {
    Vector<int8_t> bytes;
    Vector<float> scales;
    Vector<double> bias;
  };
  Layer layer_of(const Graph& quantized) const;
  void set_layer(Graph& quantized, const Layer& layer) const;
  int add_bias(Graph& quantized, const Quantization& of_weights, const Vector<double>& bias) const;
  size_t channels() const { return weights_.shape[0] / groups_; }  // of a group
  qn_status wanted(size_t group, Vector<double>* weights, Vector<bool>* fits) const;
  std::optional<double> bias_for(size_t o, const int8_t* levels, const float* scales, double step) const;
  void put(size_t group, const Vector<bool>& fits, const int8_t* levels, const float* scales,
           const Vector<double>& bias_steps, Layer* layer) const;
  void factorize_moments();
  Vector<double> errors_of(const float* weight_errors) const;
  double price_for(double bits);
  bool is_zero(size_t weight) const { return !zeros_.empty() && zeros_[weight]; }
  // The step of a channel's weights if a bit and its errors have these prices.
  float step_of(const Vector<double>& factor, const double* weights, double price, double of_errors) const;

  const Node& node_;
  const Tensor& weights_;
  const float* weight_data_;
  const float* bias_;  // NULL: 0
  LayerPair layer_;
  size_t groups_, depth_;
  WeightFormat format_;
  float scale_;  // of the input's bytes; 0: it is f32
  int32_t zero_;
  size_t columns_;  // of a sample at most
  std::mt19937 generator_;
  Vector<Moments> moments_;          // of each group
  Vector<bool> zeros_;               // weights that become 0; empty: none needs to
  Vector<double> prices_of_errors_;  // of each channel, once the moments are factorized: of its mean square error
};

}  // namespace quern
