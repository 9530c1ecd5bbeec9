// The peak: what its loops compute, and how PeakMeter holds work against it. Clocks are made up, but with threads.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "../base/pretended.h"
#include "base/cpu.h"
#include "base/thread_pool.h"
#include "peak/meter.h"

namespace quern {
namespace peak_test {

// The registers of a loop as elements of 32 bits.
template <class T>
class Lanes {
 public:
  Lanes(const PeakLoop& loop, PeakRegisters* registers)
      : data_(static_cast<T*>(registers->data())), sums_(loop.accumulators * loop.register_bytes / sizeof(T)) {}
  T& operator[](size_t i) const { return data_[i]; }
  size_t sums() const { return sums_; }
  // Fills all registers behind the accumulators.
  void fill_operands(T value) const {
    for (size_t i = sums_; i < sizeof(PeakRegisters) / sizeof(T); ++i) data_[i] = value;
  }

 private:
  T* data_;
  size_t sums_;
};

template <class Check>
void for_each_loop(PeakOf of, Check check) {
  size_t count = 0;
  for (const PeakLoop& loop : all_peak_loops()) {
    if (loop.of != of || (loop.isa & ~cpu().isa) != 0 || !may_use(loop.isa)) continue;
    SCOPED_TRACE(isa_name(loop.isa));
    check(loop);
    ++count;
  }
  EXPECT_TRUE(count > 0 || of == PeakOf::bytes);
}

TEST(PeakLoops, OfFloatsStayInTheRangeOfTheirOperands) {
  for_each_loop(PeakOf::floats, [](const PeakLoop& loop) {
    PeakRegisters registers(loop.of);
    const Lanes<float> lanes(loop, &registers);
    for (const size_t turns : {1, 1000, 100000}) {
      loop.run(turns, registers.data());
      std::set<float> values;
      for (size_t i = 0; i < lanes.sums(); ++i) {
        ASSERT_GT(std::fabs(lanes[i]), 0.25f);
        ASSERT_LT(std::fabs(lanes[i]), 2);
        values.insert(lanes[i]);
      }
      EXPECT_EQ(values.size(), lanes.sums());  // no two are the same
    }
  });
}

// 2^24 + 1 rounds to 2^24, but 2^24 - 1 does not.
TEST(PeakLoops, OfFloatsAddAndSubtractEachProductOnce) {
  for_each_loop(PeakOf::floats, [](const PeakLoop& loop) {
    PeakRegisters registers(loop.of);
    const Lanes<float> lanes(loop, &registers);
    lanes.fill_operands(1);
    for (size_t i = 0; i < lanes.sums(); ++i) lanes[i] = 0x1p24f;
    for (size_t turns : {1, 1, 3}) {
      loop.run(turns, registers.data());
      for (size_t i = 0; i < lanes.sums(); ++i) ASSERT_EQ(lanes[i], 0x1p24f - 1) << i;
    }
    EXPECT_EQ(loop.operations, 2 * 2 * lanes.sums());
  });
}

TEST(PeakLoops, CountTheOperationsOfBytes) {
  for_each_loop(PeakOf::bytes, [](const PeakLoop& loop) {
    PeakRegisters registers(loop.of);
    const Lanes<uint32_t> lanes(loop, &registers);
    const bool pairs = loop.isa == isa_avx2 || loop.isa == isa_sse41;  // these multiply 16-bit numbers
    lanes.fill_operands(pairs ? 0x00010001 : 0x01010101);
    const PeakRegisters before = registers;
    loop.run(1, registers.data());
    uint32_t products = 0;
    for (size_t i = 0; i < lanes.sums(); ++i) products += lanes[i] - static_cast<const uint32_t*>(before.data())[i];
    EXPECT_EQ(loop.operations, 2 * products);
  });
}

TEST(PeakLoops, OfBytesChangeAllSums) {
  for_each_loop(PeakOf::bytes, [](const PeakLoop& loop) {
    PeakRegisters registers(loop.of);
    const Lanes<uint32_t> lanes(loop, &registers);
    const PeakRegisters before = registers;
    loop.run(1000, registers.data());
    for (size_t i = 0; i < lanes.sums(); ++i) ASSERT_NE(lanes[i], static_cast<const uint32_t*>(before.data())[i]) << i;
  });
}

// A machine whose clock says what the loop and the work take. The loop runs one operation a turn.
double passed = 0, clock_rate = 1e9;
double stolen = 0;   // seconds that another program takes from the next turn
std::string events;  // w: work, p: a turn of the loop

double made_up_clock() { return passed; }
void made_up_loop(size_t turns, void*) {
  if (events.empty() || events.back() != 'p') events += 'p';
  passed += static_cast<double>(turns) / clock_rate + stolen;
  stolen = 0;
}
constexpr PeakLoop made_up = {isa_ref, PeakOf::floats, 1, 1, 4, made_up_loop};

class Meter : public testing::Test {
 protected:
  void SetUp() override {
    passed = 0;
    clock_rate = 1e9;
    events.clear();
  }
  // Work that takes so many operations of the loop's; then the loop, if it is due.
  TimedWork work(double operations) {
    const double begin = meter.now();
    events += 'w';
    passed += operations / clock_rate;
    const TimedWork done = meter.add(meter.now() - begin);
    if (meter.due()) meter.take_turn();
    return done;
  }
  PeakMeter meter{&made_up, nullptr, made_up_clock};
};

TEST_F(Meter, TakesTurnsWithTheWork) {
  for (int i = 0; i < 3; ++i) work(8e6);
  EXPECT_EQ(events, "wpwpwp");
  EXPECT_NEAR(passed, 3 * 8e-3 * 1.125, 0.1e-3);  // an eighth more
  events.clear();
  for (int i = 0; i < 16; ++i) work(0.5e6);
  EXPECT_EQ(events, "wwwwwwwwpwwwwwwwwp");
}

TEST_F(Meter, RunsTheLoopAfterShortWork) {
  const TimedWork done = work(1e3);
  EXPECT_EQ(events, "w");
  EXPECT_NEAR(meter.percent(250, {done}), 25, 1e-6);
  EXPECT_EQ(events, "wp");
  EXPECT_NEAR(passed, 2.5e-3, 0.5e-3);
}

TEST_F(Meter, RunsTheLoopSeveralTimesAfterShortWork) {
  const TimedWork done = work(1e3);
  stolen = 1e-3;
  EXPECT_NEAR(meter.percent(250, {done}), 25, 1e-6);
}

TEST_F(Meter, FollowsTheClock) {
  std::vector<TimedWork> runs;
  for (int i = 0; i < 20; ++i) {
    clock_rate = i < 9 ? 1e9 : 0.6e9 + i * 1e6;  // falls, then drifts
    runs.push_back(work(10e6));
  }
  EXPECT_NEAR(meter.percent(7.5e6, runs), 75, 1e-6);
  EXPECT_LT(meter.ops_per_second(), 0.63e9);
}

TEST_F(Meter, LetsFewDisturbedRunsBe) {
  std::vector<TimedWork> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(work(i % 3 == 0 ? 50e6 : 10e6));
  EXPECT_NEAR(meter.percent(7.5e6, runs), 75, 1e-6);
}

TEST_F(Meter, LimitsNothing) {
  std::vector<TimedWork> runs;
  for (int i = 0; i < 3; ++i) runs.push_back(work(10e6));
  EXPECT_NEAR(meter.percent(40e6, runs), 400, 1e-6);
}

TEST_F(Meter, MeasuresNothingWithoutALoop) {
  meter = PeakMeter(nullptr, nullptr, made_up_clock);
  const TimedWork done = work(1e9);
  meter.take_turn();
  EXPECT_EQ(meter.percent(1e9, {done}), 0);
  EXPECT_EQ(meter.ops_per_second(), 0);
  EXPECT_EQ(events, "w");
}

// With one thread, time in which the thread does not run is no time.
TEST(PeakMeterClock, IsProcessorTimeOfOneThread) {
  const PeakMeter meter(&made_up);
  const double begin = meter.now();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(meter.now() - begin, 25e-3);
}

std::mutex mutex;
std::set<std::thread::id> threads_of_loop;
void remember_thread(size_t, void*) {
  std::this_thread::sleep_for(std::chrono::microseconds(50));
  const std::lock_guard lock(mutex);
  threads_of_loop.insert(std::this_thread::get_id());
}

TEST(PeakMeterThreads, RunTheLoopAtTheSameTime) {
  constexpr PeakLoop loop = {isa_ref, PeakOf::floats, 1, 1, 4, remember_thread};
  const Pretended machine({{"QUERN_CPUS", "3"}});
  Pool pool;
  qn_parallel parallel;
  ASSERT_EQ(make_pool(3, &pool), QN_OK);
  ASSERT_EQ(qn_parallel_from_pthreadpool(pool.get(), &parallel), QN_OK);
  PeakMeter meter(&loop, &parallel);
  for (int i = 0; i < 5; ++i) {
    threads_of_loop.clear();
    meter.take_turn();
    EXPECT_EQ(threads_of_loop.size(), 3u);
  }
  EXPECT_GT(meter.ops_per_second(), 0);
}

TEST(FastestLoop, IsOfTheHighestLevel) {
  const PeakLoop* const loop = fastest_loop(cpu().isa, PeakOf::floats);
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->of, PeakOf::floats);
  EXPECT_EQ(loop->isa & ~cpu().isa, 0u);
  EXPECT_EQ(fastest_loop(isa_ref, PeakOf::floats)->isa, isa_ref);
  EXPECT_EQ(fastest_loop(isa_ref, PeakOf::bytes), nullptr);
}

}  // namespace peak_test
}  // namespace quern
