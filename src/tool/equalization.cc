#include "tool/equalization.h"

#include "compress/equalize.h"
#include "compress/quantize.h"
#include "tool/progress.h"

namespace quern {

void equalize_model(Graph& graph, const std::vector<size_t>& samples, const Sample& sample,
                    const SessionSettings& settings) {
  Equalization equalization;
  check(equalization.find(graph));
  const Vector<int>& tensors = equalization.tensors();
  if (tensors.empty()) return;
  Part part(observed(graph, tensors), settings);
  Progress progress("samples", samples.size());
  for (const size_t i : samples) {
    progress.step();
    part.run(sample, i);
    for (size_t t = 0; t < tensors.size(); ++t)
      equalization.add(t, static_cast<const float*>(part.output(t)), part.bytes(t) / sizeof(float));
  }
  equalization.scale(equalization.factors(graph), graph);
}

}  // namespace quern
