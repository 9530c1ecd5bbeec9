#include "tool/load.h"

#include <chrono>

#include "base/memory.h"
#include "peak/median.h"
#include "tool/memory.h"

namespace quern {
namespace {

struct ReleaseArena {
  void operator()(qn_arena* arena) const { qn_arena_release(arena); }
};

}  // namespace

// Activations go to an arena outside the library's memory.
uint64_t measure_load_peak(const ModelFiles& files, const std::vector<ImportOptions::Input>& sizes,
                           SessionSettings settings, size_t activations) {
  const Buffer room(activations);
  qn_arena* made = nullptr;
  if (activations != 0) check(qn_arena_create(room.data(), activations, &made));
  const std::unique_ptr<qn_arena, ReleaseArena> arena(made);
  settings.arena = made;
  const AllocationMeter meter;
  const ModelPtr model = load_model(files, sizes);
  const SessionPtr session = make_session(model.get(), settings);
  return meter.peak();
}

LoadCost measure_load(const ModelFiles& files, const std::vector<ImportOptions::Input>& sizes,
                      const SessionSettings& settings) {
  constexpr size_t most_loads = 5;
  constexpr double long_enough = 1000;  // ms
  std::vector<double> ms;
  double total = 0;
  size_t activations = 0;
  while (ms.empty() || (ms.size() < most_loads && total < long_enough)) {
    const auto start = std::chrono::steady_clock::now();
    const ModelPtr model = load_model(files, sizes);
    const SessionPtr session = make_session(model.get(), settings);
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    total += ms.back();
    activations = qn_session_memory(session.get());
  }
  return {median(ms), measure_load_peak(files, sizes, settings, activations)};
}

}  // namespace quern
