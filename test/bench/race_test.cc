// What quern-peers-bench does with engines that fail or compute something else.
#include "peers/race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

namespace quern::peers {
namespace race_test {

const Layer layer = {.kind = Kind::fully_connected, .rows = 3, .in = 5, .out = 7};

// Runs a function of input and output.
class FakeEngine : public Engine {
 public:
  using Function = std::function<void(const float* input, float* output)>;
  explicit FakeEngine(const char* name, Function function = compute) : Engine(name), function_(std::move(function)) {}

  std::unique_ptr<Task> prepare(const Layer&, const Weights&, size_t) const override {
    class FakeTask : public Task {
     public:
      explicit FakeTask(Function function) : function_(std::move(function)) {}
      void bind(void* input, void* output) override {
        input_ = static_cast<const float*>(input);
        output_ = static_cast<float*>(output);
      }
      void run() override { function_(input_, output_); }

     private:
      Function function_;
      const float* input_ = nullptr;
      float* output_ = nullptr;
    };
    if (!function_) return nullptr;
    return std::make_unique<FakeTask>(function_);
  }

  // Something that depends on all inputs.
  static void compute(const float* input, float* output) {
    for (size_t i = 0; i < layer.outputs(); ++i) output[i] = input[i % layer.inputs()] + 2;
  }

 private:
  Function function_;
};

Race race_of(const std::vector<const Engine*>& engines, const std::vector<Placement>& placements = {{0, 0}}) {
  return Race(layer, engines, placements, 1);
}

TEST(Race, TimesAllEngines) {
  const FakeEngine ours("ours"), peer("peer");
  Race race = race_of({&ours, &peer});
  for (int i = 0; i < 3; ++i) race.round();
  EXPECT_TRUE(race.failures().empty());
  const auto results = race.results();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].engine, &ours);
  EXPECT_EQ(results[1].engine, &peer);
  for (const Race::Result& result : results) {
    EXPECT_GT(result.fastest, 0);
    EXPECT_EQ(result.fastest, result.slowest);  // of one placement
  }
}

TEST(Race, NamesAnEngineThatComputesSomethingElse) {
  const FakeEngine ours("ours"), off("off", [](const float*input, float*output) {
    FakeEngine::compute(input, output);
    output[4] += 1e-3f;
  });
  const Race race = race_of({&ours, &off});
  ASSERT_EQ(race.failures().size(), 1u);
  EXPECT_NE(race.failures()[0].find("off: its output is off by"), std::string::npos) << race.failures()[0];
}

TEST(Race, NamesAnEngineThatLeavesGaps) {
  const FakeEngine ours("ours"), gaps("gaps", [](const float*, float*output) { output[0] = 1; });
  const Race race = race_of({&ours, &gaps});
  ASSERT_EQ(race.failures().size(), 1u);
  EXPECT_EQ(race.failures()[0], "gaps: its output has NaN or gaps");
}

// An engine for layers of bytes, which writes all of its output or only the first byte.
FakeEngine engine_of_bytes(const char* name, int8_t added, size_t written) {
  return FakeEngine(name, [=](const float* input, float* output) {
    const auto* const from = reinterpret_cast<const int8_t*>(input);
    auto* const to = reinterpret_cast<int8_t*>(output);
    for (size_t i = 0; i < written; ++i) to[i] = static_cast<int8_t>((from[i % layer.inputs()] >> 1) + added);
  });
}

TEST(Race, NamesAnEngineWhoseBytesAreOthers) {
  Layer bytes = layer;
  bytes.type = Type::qs8c;
  const FakeEngine ours = engine_of_bytes("ours", 0, layer.outputs()),
                   same = engine_of_bytes("same", 0, layer.outputs()), off = engine_of_bytes("off", 1, layer.outputs()),
                   gaps = engine_of_bytes("gaps", 0, 1);
  Race race(bytes, {&ours, &same, &off, &gaps}, {{0, 0}, {64, 128}}, 1);
  race.round();
  EXPECT_EQ(race.failures(), (std::vector<std::string>{"off: 21 of 21 bytes of its output are others",
                                                       "gaps: 20 of 21 bytes of its output are others"}));
  EXPECT_EQ(race.results().size(), 2u);
}

TEST(Race, LetsRowsThatBecomeBytesRound) {
  Layer rows = layer;
  rows.type = Type::qd8c;
  const auto added = [](float step) {
    return [step](const float* input, float* output) {
      FakeEngine::compute(input, output);
      output[4] += step;
    };
  };
  const FakeEngine ours("ours"), near("near", added(0.02f)), far("far", added(0.1f));
  const Race race(rows, {&ours, &near, &far}, {{0, 0}}, 1);
  ASSERT_EQ(race.failures().size(), 1u);
  EXPECT_EQ(race.failures()[0].find("far: its output is off by"), 0u) << race.failures()[0];
}

// Writes only the first byte of the input to the output, and then changes it, as tasks may.
class ProbeTask : public Task {
 public:
  void bind(void* input, void* output) override {
    input_ = static_cast<int8_t*>(input);
    output_ = static_cast<int8_t*>(output);
    EXPECT_NE(*input_, 0);
  }
  void run() override {
    *output_ = *input_;
    *input_ = 0;
  }

 private:
  int8_t *input_ = nullptr, *output_ = nullptr;
};

class ProbeEngine : public Engine {
 public:
  ProbeEngine() : Engine("probe") {}
  std::unique_ptr<Task> prepare(const Layer& wanted, const Weights& weights, size_t) const override {
    const auto* const data = static_cast<const int8_t*>(weights.data);
    const auto [least, most] = std::minmax_element(data, data + wanted.weights());
    EXPECT_EQ(*least, wanted.type == Type::qs8c ? -127 : -8);
    EXPECT_EQ(*most, wanted.type == Type::qs8c ? 127 : 7);
    const auto kinds = static_cast<ptrdiff_t>(wanted.type == Type::qs8c ? 255 : 16);  // all are alike, 0 too
    EXPECT_LT(std::count(data, data + wanted.weights(), 0), 3 * static_cast<ptrdiff_t>(wanted.weights()) / kinds);
    EXPECT_GT(std::count(data, data + wanted.weights(), 0), 0);
    for (size_t o = 0; o < wanted.out; ++o) EXPECT_GT(weights.scales[o], 0);
    return std::make_unique<ProbeTask>();
  }
};

TEST(Race, HandsOutQuantizedWeightsAndACopyOfTheInput) {
  const ProbeEngine probe;
  Layer one = {.kind = Kind::fully_connected, .type = Type::qs8c, .rows = 1, .in = 3000, .out = 1};
  Race(one, {&probe}, {{0, 0}, {64, 64}}, 1).round();
  one.type = Type::qd8c4;
  EXPECT_THROW(Race(one, {&probe}, {{0, 0}}, 1), std::runtime_error);  // the output of floats has gaps
}

TEST(Race, NamesAnEngineThatThrows) {
  const FakeEngine ours("ours"),
      broken("broken", [](const float*, float*) { throw std::runtime_error("no such thing"); });
  Race race = race_of({&ours, &broken});
  race.round();
  EXPECT_EQ(race.failures(), std::vector<std::string>{"broken: no such thing"});
  EXPECT_EQ(race.results().size(), 1u);
}

TEST(Race, LeavesOutAnEngineWithoutTheOperator) {
  const FakeEngine ours("ours"), without("without", nullptr);
  Race race = race_of({&ours, &without});
  race.round();
  EXPECT_TRUE(race.failures().empty());
  EXPECT_EQ(race.results().size(), 1u);
}

TEST(Race, NeedsOurs) {
  const FakeEngine broken("ours", [](const float*, float*) { throw std::runtime_error("no such thing"); });
  EXPECT_THROW(race_of({&broken}), std::runtime_error);
}

TEST(Race, PlacesBuffersInTheirPages) {
  std::vector<std::pair<size_t, size_t>> seen;
  const FakeEngine ours("ours", [&](const float* input, float* output) {
    seen.emplace_back(reinterpret_cast<uintptr_t>(input) % 4096, reinterpret_cast<uintptr_t>(output) % 4096);
    FakeEngine::compute(input, output);
  });
  race_of({&ours}, {{64, 2048}, {3072, 128}});
  const std::pair<size_t, size_t> first(64, 2048), second(3072, 128);
  EXPECT_NE(std::find(seen.begin(), seen.end(), first), seen.end());
  EXPECT_EQ(seen.back(), second);
}

std::string order;  // o: ours, r: a rival, p: the loop of the peak; each once if it runs again and again
void note(char who) {
  if (order.empty() || order.back() != who) order += who;
}
void slow_loop(size_t, void*) {
  note('p');
  for (const double end = now() + 2e-3; now() < end;) continue;
}

TEST(Race, MeasuresThePeakAfterOurTurns) {
  constexpr PeakLoop loop = {isa_ref, PeakOf::floats, 1, 1, 4, slow_loop};
  const auto compute_as = [](char who) {
    return [who](const float* input, float* output) {
      note(who);
      FakeEngine::compute(input, output);
    };
  };
  const FakeEngine ours("ours", compute_as('o')), rival("rival", compute_as('r'));
  Race race(layer, {&ours, &rival}, {{0, 0}}, 1, &loop);
  order.clear();
  race.round();
  race.round();
  EXPECT_EQ(order, "oprop");               // the second round begins with the rival
  EXPECT_GT(race.percent_of_peak(), 100);  // of a loop as slow as this one; nothing limits it
}

TEST(Race, HasNoPercentageWithoutALoop) {
  const FakeEngine ours("ours");
  Race race = race_of({&ours});
  race.round();
  EXPECT_EQ(race.percent_of_peak(), 0);
}

}  // namespace race_test
}  // namespace quern::peers
