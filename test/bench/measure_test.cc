// How quern-bench measures: a benchmark's calls in turn with the loop of the peak.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "bench.h"

namespace quern {
namespace measure_test {

std::string events;  // w: a call, p: the loop

void spin(const PeakMeter& clock, double seconds) {
  for (const double end = clock.now() + seconds; clock.now() < end;) continue;
}

void slow_loop(size_t, void*) {
  if (events.empty() || events.back() != 'p') events += 'p';
  spin(PeakMeter(nullptr), 20e-6);
}
constexpr PeakLoop loop = {isa_ref, PeakOf::floats, 1, 1, 4, slow_loop};

class Counters : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) counters = run.counters;
  }
  benchmark::UserCounters counters;
};

// Runs a benchmark of so many calls, each of 100 microseconds and `operations`.
benchmark::UserCounters counters_of(int64_t calls, double operations) {
  benchmark::ClearRegisteredBenchmarks();
  benchmark::RegisterBenchmark("calls", [=](benchmark::State& state) {
    events.clear();
    measure(state, {operations, 8}, PeakMeter(&loop), [] {
      events += 'w';
      spin(PeakMeter(nullptr), 100e-6);
    });
  })->Iterations(calls);
  Counters reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return reporter.counters;
}

TEST(Measure, TakesTurnsWithThePeak) {
  const auto counters = counters_of(300, 1e3);  // 30 milliseconds
  const auto calls = std::count(events.begin(), events.end(), 'w');
  EXPECT_EQ(calls, 300);
  std::string between = events.substr(0, events.find_last_of('w'));
  const auto turns = std::count(between.begin(), between.end(), 'p');
  EXPECT_GE(turns, 5);  // seven are due, more where calls take longer
  EXPECT_LE(turns, 20);
  EXPECT_LE(counters.at("ops_per_second"), 1.01e7);
  EXPECT_GT(counters.at("ops_per_second"), 1e6);
  EXPECT_GT(counters.at("percent_of_peak"), 0);
}

TEST(Measure, RunsThePeakAfterOneCall) {
  const auto counters = counters_of(1, 1e12);
  EXPECT_EQ(events, "wp");
  EXPECT_GT(counters.at("percent_of_peak"), 100);  // nothing limits it
}

}  // namespace measure_test
}  // namespace quern
