// Measures the peak of the machine in turn with the work that is held against it.
//
// The clock of a core falls under load, drifts, and depends on what the cores beside it do. A peak that is measured
// before the work is therefore not the peak that the work could have reached. PeakMeter runs a loop of peak.h between
// the runs of the work and compares each run with the turn of the loop that follows it. Percentages are not limited:
// they may exceed 100.
#pragma once

#include <quern/base.h>

#include <cstddef>
#include <vector>

#include "peak/peak.h"

namespace quern {

// A run of some work, in seconds of PeakMeter::now(), and the index of the turn of the loop that follows it.
struct TimedWork {
  double seconds;
  size_t turn;
};

class PeakMeter {
 public:
  using Clock = double (*)();  // seconds

  // The loop runs on all threads of `parallel` at the same time. If `parallel` is NULL or has one thread, the loop runs
  // on the calling thread. Without a loop nothing is measured, and percentages are 0. Tests pass a clock of their own.
  explicit PeakMeter(const PeakLoop* loop, const qn_parallel* parallel = nullptr, Clock clock = nullptr);

  // The clock for the work. With one thread it is the processor time of this thread, so that other programs on the core
  // do not count; with more threads it is the time that passes. The loop is always timed by processor time, on each
  // thread of its own.
  double now() const { return work_clock_(); }

  // Says that the work ran `calls` times in `seconds`, all together. Returns the time of one call.
  TimedWork add(double seconds, size_t calls = 1);
  // Has the work run for so long that it is the loop's turn? The loop gets an eighth of the time.
  bool due() const { return loop_ != nullptr && owed_ >= turn_seconds; }
  // Runs the loop for as long as it is due, at least half a millisecond.
  void take_turn();
  // Runs the loop for half a millisecond that does not count: after a pause, threads and clock need it.
  void warm_up();

  // The median of all turns in operations per second, of all threads together; 0 without a loop.
  double ops_per_second();
  // How many percent of the loop's operations in the same time `operations` for each of these runs are: the median.
  double percent(double operations, const std::vector<TimedWork>& work);

 private:
  static constexpr double turn_seconds = 0.5e-3, longest_turn = 10e-3, share = 0.125;
  static constexpr size_t least_turns = 5;

  void finish();
  double rate(double seconds);
  double rate_on_this_thread(double seconds, PeakRegisters* registers) const;

  const PeakLoop* loop_;
  qn_parallel parallel_ = {};
  Clock work_clock_, loop_clock_, wall_clock_;
  double owed_ = 0;
  bool worked_ = true;                    // since the last turn
  std::vector<PeakRegisters> registers_;  // one for each thread
  std::vector<double> rates_;
  std::vector<std::vector<double>> turns_;  // the same rates; those without work between are one turn
};

// The median; there is at least one.
double median_seconds(const std::vector<TimedWork>& work);

struct Peak {
  const PeakLoop* loop;
  double ops_per_second;  // of one core
};

// Measures all loops that QUERN_ISA allows, in turn, 20 ms each: what a core does without other work.
std::vector<Peak> measure_peaks();

// The fastest loop for the features, which this CPU must have; NULL if none of their levels multiplies this type in a
// way of its own. Takes some milliseconds if there are several such loops.
const PeakLoop* fastest_loop(uint32_t features, PeakOf of);

}  // namespace quern
