// What quern-peers-bench does with engines that fail or compute something else.
#include "peers/race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>

namespace quern::peers {
namespace {

const Layer layer = {.kind = Kind::fully_connected, .rows = 3, .in = 5, .out = 7};

// Runs a function of input and output.
class FakeEngine : public Engine {
 public:
  using Function = std::function<void(const float* input, float* output)>;
  explicit FakeEngine(const char* name, Function function = compute) : Engine(name), function_(std::move(function)) {}

  std::unique_ptr<Task> prepare(const Layer&, const void*, size_t) const override {
    class FakeTask : public Task {
     public:
      explicit FakeTask(Function function) : function_(std::move(function)) {}
      void bind(const void* input, void* output) override {
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

}  // namespace
}  // namespace quern::peers
