#include "race.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>
#include <thread>

#include "../median.h"

namespace quern::peers {
namespace {

constexpr double chunk_seconds = 1e-3;
// The number of calls until large weights are back in the last cache, from which the other engines' weights displace
// them.
constexpr size_t least_warm_up = 3;
// The largest difference between outputs, relative to the largest output: sums in another order, and Winograd, differ a
// little.
constexpr float tolerance = 1e-4f;
// Longer than the threads of any library look for work before they sleep.
constexpr std::chrono::milliseconds settling_time(20);

// With one thread the clock is the processor time of this process, so that other programs do not count. The time of all
// its threads counts, in case a library uses more threads than it was told to.
double clock_seconds(size_t threads) {
  if (threads > 1) return now();
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_per_call(Task& task, size_t calls, size_t threads) {
  const double start = clock_seconds(threads);
  for (size_t i = 0; i < calls; ++i) task.run();
  return (clock_seconds(threads) - start) / static_cast<double>(calls);
}

}  // namespace

float* Race::PlacedFloats::at(size_t offset) const {
  const auto page = (reinterpret_cast<uintptr_t>(floats_.data()) + 4095) / 4096 * 4096;
  return reinterpret_cast<float*>(page + offset % 4096);
}

Race::Race(const Layer& layer, const std::vector<const Engine*>& engines, const std::vector<Placement>& placements,
           size_t threads)
    : layer_(layer),
      placements_(placements),
      threads_(threads),
      weights_(layer.weights()),
      random_(layer.inputs()),
      input_(layer.inputs()),
      output_(layer.outputs()) {
  std::this_thread::sleep_for(settling_time);
  for (const Engine* engine : engines) {
    try {
      Runner runner = prepare(*engine, threads);
      if (runner.task != nullptr) runners_.push_back(std::move(runner));
    } catch (const std::exception& error) {
      if (runners_.empty()) throw;
      failures_.push_back(engine->name() + ": " + error.what());
    }
  }
}

Race::Runner Race::prepare(const Engine& engine, size_t threads) {
  Runner runner = {&engine, engine.prepare(layer_, weights_.data(), threads), 1, {}};
  if (runner.task == nullptr) return runner;
  runner.seconds.resize(placements_.size());
  for (const Placement& placement : placements_) {
    bind(runner, placement);
    std::fill_n(output_.at(placement.output), output_.count(), std::numeric_limits<float>::quiet_NaN());
    runner.task->run();
    runner.task->finish();
    compare(output_.at(placement.output));
  }
  runner.calls = static_cast<size_t>(std::clamp(chunk_seconds / seconds_per_call(*runner.task, 1, threads), 1.0, 1e6));
  return runner;
}

void Race::bind(Runner& runner, const Placement& placement) const {
  float* const input = input_.at(placement.input);
  std::memcpy(input, random_.data(), input_.count() * sizeof(float));
  runner.task->bind(input, output_.at(placement.output));
}

void Race::compare(const float* output) {
  if (expected_.empty()) expected_.assign(output, output + output_.count());
  float largest = 0, furthest = 0;
  for (size_t i = 0; i < output_.count(); ++i) {
    if (std::isnan(output[i])) throw std::runtime_error("its output has NaN or gaps");
    furthest = std::max(furthest, std::fabs(output[i] - expected_[i]));
    largest = std::max(largest, std::fabs(expected_[i]));
  }
  if (furthest > tolerance * largest)
    throw std::runtime_error(text("its output is off by ", furthest / largest, " of the largest element"));
}

void Race::round() {
  const size_t first = rounds_++ % runners_.size();
  for (size_t i = 0; i < runners_.size(); ++i) {
    Runner& runner = runners_[(first + i) % runners_.size()];
    if (threads_ > 1) std::this_thread::sleep_for(settling_time);
    for (size_t p = 0; p < placements_.size(); ++p) {
      bind(runner, placements_[p]);
      seconds_per_call(*runner.task, std::max(runner.calls, least_warm_up), threads_);
      runner.seconds[p].push_back(seconds_per_call(*runner.task, runner.calls, threads_));
    }
  }
}

std::vector<Race::Result> Race::results() const {
  std::vector<Result> results;
  for (const Runner& runner : runners_) {
    std::vector<double> medians;
    for (const auto& seconds : runner.seconds) medians.push_back(median(seconds));
    const auto [fastest, slowest] = std::minmax_element(medians.begin(), medians.end());
    results.push_back({runner.engine, runner.task->implementation(), *slowest, *fastest});
  }
  return results;
}

}  // namespace quern::peers
