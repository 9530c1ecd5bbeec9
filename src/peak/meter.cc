#include "peak/meter.h"

#include <ctime>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/parallel.h"
#include "peak/median.h"

namespace quern {
namespace {

double wall_seconds() { return static_cast<double>(now_ns()) * 1e-9; }

double thread_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

PeakMeter::PeakMeter(const PeakLoop* loop, const qn_parallel* parallel, Clock clock) : loop_(loop) {
  const bool alone = parallel == nullptr || parallel->threads <= 1;
  if (!alone) parallel_ = *parallel;
  wall_clock_ = clock != nullptr ? clock : wall_seconds;
  loop_clock_ = clock != nullptr ? clock : thread_seconds;
  work_clock_ = alone ? loop_clock_ : wall_clock_;
  if (loop_ != nullptr) registers_.assign(alone ? 1 : parallel_.threads, PeakRegisters(loop_->of));
}

TimedWork PeakMeter::add(double seconds, size_t calls) {
  owed_ += share * seconds;
  worked_ = true;
  return {seconds / static_cast<double>(calls), turns_.size()};
}

void PeakMeter::take_turn() {
  if (loop_ == nullptr) return;
  rates_.push_back(rate(std::clamp(owed_, turn_seconds, longest_turn)));
  if (worked_) turns_.emplace_back();
  turns_.back().push_back(rates_.back());
  worked_ = false;
  owed_ = 0;
}

void PeakMeter::warm_up() {
  if (loop_ != nullptr) rate(turn_seconds);
}

// After the last work. Also where the work was too short for a turn.
void PeakMeter::finish() {
  while (worked_ || rates_.size() < least_turns) take_turn();
}

double PeakMeter::ops_per_second() {
  if (loop_ == nullptr) return 0;
  finish();
  return median(rates_);
}

double PeakMeter::percent(double operations, const std::vector<TimedWork>& work) {
  if (loop_ == nullptr || work.empty()) return 0;
  finish();
  std::vector<double> possible;  // operations of the loop in the time of a run
  for (const TimedWork& w : work) possible.push_back(w.seconds * median(turns_[w.turn]));
  return 100 * operations / median(std::move(possible));
}

double median_seconds(const std::vector<TimedWork>& work) {
  std::vector<double> seconds;
  for (const TimedWork& w : work) seconds.push_back(w.seconds);
  return median(std::move(seconds));
}

// One turn: operations per second, summed over the threads.
double PeakMeter::rate(double seconds) {
  if (registers_.size() == 1) return rate_on_this_thread(seconds, registers_.data());
  std::atomic<size_t> missing = registers_.size();
  std::vector<double> rates(registers_.size());
  // Each task waits for the others, so that each gets a thread of its own, and no thread begins before all are awake.
  auto run = [&](size_t i) {
    --missing;
    while (missing != 0) std::this_thread::yield();
    rates[i] = rate_on_this_thread(seconds, &registers_[i]);
  };
  run_tasks(&parallel_, registers_.size(), run);
  double sum = 0;
  for (const double each : rates) sum += each;
  return sum;
}

// Runs the loop for so many seconds, in which cores of several kinds get different amounts done.
double PeakMeter::rate_on_this_thread(double seconds, PeakRegisters* registers) const {
  const double start = loop_clock_(), begin = wall_clock_();
  size_t done = 0, turns = 1000;
  double passed;
  do {
    loop_->run(turns, registers->data());
    done += turns;
    passed = wall_clock_() - begin;
    if (passed < seconds / 4) turns *= 2;  // a look at the clock takes time as well
  } while (passed < seconds);
  return static_cast<double>(done * loop_->operations) / (loop_clock_() - start);
}

namespace {

bool runs_with(const PeakLoop& loop, uint32_t features) { return (loop.isa & ~features) == 0 && may_use(loop.isa); }

// Loops take turns, so that a clock that rises meets all of them alike.
std::vector<Peak> measure(const std::vector<const PeakLoop*>& loops, size_t rounds) {
  std::vector<PeakMeter> meters;
  for (const PeakLoop* loop : loops) meters.emplace_back(loop);
  for (size_t i = 0; i < rounds; ++i) {
    for (PeakMeter& meter : meters) meter.take_turn();
  }
  std::vector<Peak> peaks;
  for (size_t i = 0; i < loops.size(); ++i) peaks.push_back({loops[i], meters[i].ops_per_second()});
  return peaks;
}

}  // namespace

std::vector<Peak> measure_peaks() {
  std::vector<const PeakLoop*> loops;
  for (const PeakLoop& loop : all_peak_loops()) {
    if (runs_with(loop, cpu().isa)) loops.push_back(&loop);
  }
  return measure(loops, 40);
}

const PeakLoop* fastest_loop(uint32_t features, PeakOf of) {
  std::vector<const PeakLoop*> loops;
  for (const PeakLoop& loop : all_peak_loops()) {
    if (loop.of == of && runs_with(loop, features)) loops.push_back(&loop);
  }
  if (loops.size() <= 1) return loops.empty() ? nullptr : loops[0];
  const std::vector<Peak> peaks = measure(loops, 5);
  const auto slower = [](const Peak& a, const Peak& b) { return a.ops_per_second < b.ops_per_second; };
  return std::max_element(peaks.begin(), peaks.end(), slower)->loop;
}

}  // namespace quern
