// The part of commands that quantizes models: it runs a model on samples to learn the ranges of its tensors.
#pragma once

#include <functional>

#include "compress/quantize.h"
#include "tool/model.h"

namespace quern {

// Quantizes an optimized graph. `sample(model, session, i)` returns the inputs of sample i, of `samples`; the model and
// the session have the graph's inputs. Shows a progress bar. Returns the layers of the result.
using Sample = std::function<std::vector<InputData>(const qn_model* model, const qn_session* session, size_t i)>;
Vector<QuantizedLayer> quantize_model(Graph& graph, size_t samples, const Sample& sample, size_t threads);

}  // namespace quern
