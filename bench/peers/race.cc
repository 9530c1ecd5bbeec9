#include "race.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

namespace quern::peers {
namespace {

constexpr double chunk_seconds = 1e-3;
// The number of calls until large weights are back in the last cache, from which the other engines' weights displace
// them.
constexpr size_t least_warm_up = 3;
// The largest difference between outputs, relative to the largest output. Sums in another order, and Winograd, differ a
// little; rows that become bytes while an operator runs lose some bits. Bytes must be the same.
constexpr float tolerance = 1e-4f, tolerance_of_rounded_rows = 2e-2f;
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

Buffer random_floats(size_t count) {
  Buffer buffer(count * sizeof(float));
  std::memcpy(buffer.data(), Floats(count).data(), buffer.size());
  return buffer;
}

Buffer random_bytes(size_t count, int least, int most) {
  Buffer buffer(count);
  std::minstd_rand random;
  for (size_t i = 0; i < count; ++i) {
    const auto step = static_cast<int>((random() >> 8) % static_cast<unsigned>(most - least + 1));
    static_cast<int8_t*>(buffer.data())[i] = static_cast<int8_t>(least + step);
  }
  return buffer;
}

bool has_4_bits(Type type) { return type == Type::qd8c4 || type == Type::qd8b4; }

Buffer random_weights(const Layer& layer) {
  if (layer.type == Type::f32) return random_floats(layer.weights());
  const int most = has_4_bits(layer.type) ? 7 : 127, least = has_4_bits(layer.type) ? -8 : -127;
  return random_bytes(layer.weights(), least, most);
}

Buffer random_input(const Layer& layer) {
  return layer.type == Type::qs8c ? random_bytes(layer.inputs(), -128, 127) : random_floats(layer.inputs());
}

// Scales around 1/127 or 1/7. They have few significant bits, so that bfloat16 holds them exactly.
std::vector<float> scales_of(const Layer& layer) {
  std::vector<float> scales(layer.type == Type::f32 ? 0 : layer.out);
  const float least = has_4_bits(layer.type) ? 0x1p-3f : 0x1p-7f;
  for (size_t o = 0; o < scales.size(); ++o) scales[o] = least * (1 + static_cast<float>(o % 8) / 16);
  return scales;
}

Pool pool_of(size_t threads) {
  Pool pool;
  if (make_pool(threads, &pool) != QN_OK) throw std::runtime_error(qn_last_message());
  return pool;
}

qn_parallel parallel_of(pthreadpool* pool) {
  qn_parallel parallel;
  qn_parallel_from_pthreadpool(pool, &parallel);
  return parallel;
}

}  // namespace

void* Race::Placed::at(size_t offset) const {
  const auto page = (reinterpret_cast<uintptr_t>(buffer_.data()) + 4095) / 4096 * 4096;
  return reinterpret_cast<void*>(page + offset % 4096);
}

Race::Race(const Layer& layer, const std::vector<const Engine*>& engines, const std::vector<Placement>& placements,
           size_t threads, const PeakLoop* loop)
    : layer_(layer),
      placements_(placements),
      threads_(threads),
      pool_(pool_of(loop != nullptr ? threads : 1)),
      parallel_(parallel_of(pool_.get())),
      meter_(loop, &parallel_),
      scales_(scales_of(layer)),
      weights_(random_weights(layer)),
      random_(random_input(layer)),
      input_(layer.inputs() * layer.element()),
      output_(layer.outputs() * layer.element()) {
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
  const Weights weights = {weights_.data(), scales_.empty() ? nullptr : scales_.data()};
  Runner runner = {&engine, engine.prepare(layer_, weights, threads), 1, {}};
  if (runner.task == nullptr) return runner;
  runner.times.resize(placements_.size());
  for (const Placement& placement : placements_) {
    bind(runner, placement);
    spoil(output_.at(placement.output));
    runner.task->run();
    runner.task->finish();
    compare(output_.at(placement.output));
  }
  runner.calls = static_cast<size_t>(std::clamp(chunk_seconds / seconds_per_call(*runner.task, 1, threads), 1.0, 1e6));
  return runner;
}

void Race::bind(Runner& runner, const Placement& placement) const {
  void* const input = input_.at(placement.input);
  std::memcpy(input, random_.data(), input_.bytes());
  runner.task->bind(input, output_.at(placement.output));
}

void Race::spoil(void* output) const {
  if (layer_.element() == sizeof(float)) {
    std::fill_n(static_cast<float*>(output), layer_.outputs(), std::numeric_limits<float>::quiet_NaN());
  } else {
    for (size_t i = 0; i < expected_.size(); ++i)
      static_cast<char*>(output)[i] = static_cast<char>(expected_[i] ^ 0x80);
  }
}

void Race::compare(const void* output) {
  const auto* const bytes = static_cast<const char*>(output);
  if (expected_.empty()) expected_.assign(bytes, bytes + output_.bytes());
  if (layer_.element() == 1) {
    const auto differ = [](char a, char b) { return a != b; };
    const auto wrong = std::inner_product(expected_.begin(), expected_.end(), bytes, size_t{0}, std::plus<>(), differ);
    if (wrong != 0) throw std::runtime_error(text(wrong, " of ", expected_.size(), " bytes of its output are others"));
    return;
  }
  const auto* const floats = static_cast<const float*>(output);
  const auto* const expected = reinterpret_cast<const float*>(expected_.data());
  float largest = 0, furthest = 0;
  for (size_t i = 0; i < layer_.outputs(); ++i) {
    if (std::isnan(floats[i])) throw std::runtime_error("its output has NaN or gaps");
    furthest = std::max(furthest, std::fabs(floats[i] - expected[i]));
    largest = std::max(largest, std::fabs(expected[i]));
  }
  const bool rounded = layer_.type != Type::f32 && layer_.type != Type::qw8c;
  if (furthest > (rounded ? tolerance_of_rounded_rows : tolerance) * largest)
    throw std::runtime_error(text("its output is off by ", furthest / largest, " of the largest element"));
}

void Race::round() {
  const size_t first = rounds_++ % runners_.size();
  for (size_t i = 0; i < runners_.size(); ++i) {
    const size_t index = (first + i) % runners_.size();
    take_turn(runners_[index]);
    if (index != 0) continue;
    settle();
    meter_.warm_up();
    meter_.take_turn();
  }
}

void Race::settle() const {
  if (threads_ > 1) std::this_thread::sleep_for(settling_time);
}

void Race::take_turn(Runner& runner) {
  settle();
  for (size_t p = 0; p < placements_.size(); ++p) {
    bind(runner, placements_[p]);
    seconds_per_call(*runner.task, std::max(runner.calls, least_warm_up), threads_);
    const double seconds = seconds_per_call(*runner.task, runner.calls, threads_);
    runner.times[p].push_back(meter_.add(seconds * static_cast<double>(runner.calls), runner.calls));
  }
}

std::vector<Race::Result> Race::results() const {
  std::vector<Result> results;
  for (const Runner& runner : runners_) {
    std::vector<double> medians;
    for (const auto& times : runner.times) medians.push_back(median_seconds(times));
    const auto [fastest, slowest] = std::minmax_element(medians.begin(), medians.end());
    results.push_back({runner.engine, runner.task->implementation(), *slowest, *fastest});
  }
  return results;
}

double Race::percent_of_peak() {
  const auto faster = [](const auto& a, const auto& b) { return median_seconds(a) < median_seconds(b); };
  const auto& times = runners_[0].times;
  return meter_.percent(2 * layer_.macs(), *std::max_element(times.begin(), times.end(), faster));
}

}  // namespace quern::peers
