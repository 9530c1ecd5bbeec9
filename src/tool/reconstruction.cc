#include "tool/reconstruction.h"

#include <algorithm>

#include "tool/progress.h"
#include "tool/walk.h"

namespace quern {

std::vector<size_t> some_of(const std::vector<size_t>& samples, size_t count) {
  std::vector<size_t> some;
  count = std::min(count, samples.size());
  for (size_t i = 0; i < count; ++i) some.push_back(samples[i * samples.size() / count]);
  return some;
}

void reconstruct_layers(const Graph& real, const Graph& quantized, const Vector<LayerPair>& pairs,
                        const Formats& formats, const std::vector<size_t>& samples, const Sample& sample,
                        const SessionSettings& settings, uint32_t seed,
                        const std::function<void(size_t i, Reconstruction& reconstruction)>& finish) {
  Walk before(real, sample, settings), after(quantized, sample, settings);
  constexpr uint64_t memory = uint64_t{1} << 30;
  uint64_t most = 1;
  for (const LayerPair& pair : pairs)
    most = std::max(most, before.live_bytes(pair.real) + after.live_bytes(pair.bytes));
  const std::vector<size_t> some = some_of(samples, std::max<size_t>(static_cast<size_t>(memory / most), 1));
  before.begin(some);
  after.begin(some);
  Progress progress("layers", pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    progress.step();
    Reconstruction reconstruction(real, quantized, pairs[i], formats[pairs[i].real], some.size(), seed);
    const int x = real.nodes[pairs[i].real].inputs[0], changed = quantized.nodes[pairs[i].bytes].inputs[0];
    before.run_to(pairs[i].real);
    after.run_to(pairs[i].bytes);
    for (size_t n = 0; n < some.size(); ++n) {
      const auto* const floats = static_cast<const float*>(before.tensor(n, x));
      check(reconstruction.add(floats, after.tensor(n, changed), before.shape(n, x)));
    }
    finish(i, reconstruction);
  }
}

}  // namespace quern
