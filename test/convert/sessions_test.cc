// Sessions of the reference architectures: the memory they share, and buffers of the caller's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <vector>

#include "../graph/meter.h"
#include "convert/zoo/zoo.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"

namespace quern {
namespace sessions_test {

struct Release {
  void operator()(qn_arena* arena) const { qn_arena_release(arena); }
  void operator()(qn_weights_cache* cache) const { qn_weights_cache_release(cache); }
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
};
using ModelHandle = std::unique_ptr<qn_model, Release>;
using SessionHandle = std::unique_ptr<qn_session, Release>;

void expect_ok(qn_status status) { EXPECT_EQ(status, QN_OK) << qn_last_message(); }

ModelHandle reference(const std::string& name, const qn_model_options* options = nullptr) {
  Graph graph = build_zoo(name, 1);
  expect_ok(optimize(graph));
  qn_model* model = nullptr;
  expect_ok(make_model(std::move(graph), options, &model));
  return ModelHandle(model);
}

SessionHandle session_of(const ModelHandle& model, const qn_session_options* options = nullptr) {
  qn_session* session = nullptr;
  expect_ok(qn_session_create(model.get(), options, &session));
  return SessionHandle(session);
}

std::vector<float> picture(const SessionHandle& session) {
  qn_tensor tensor;
  expect_ok(qn_session_input_tensor(session.get(), 0, &tensor));
  std::vector<float> values(qn_tensor_bytes(&tensor) / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 1009) / 1009 - 0.5f;
  return values;
}

std::vector<float> output(const SessionHandle& session, size_t index) {
  qn_tensor tensor;
  const void* data = nullptr;
  expect_ok(qn_session_output_tensor(session.get(), index, &tensor));
  expect_ok(qn_session_output(session.get(), index, &data));
  const auto* values = static_cast<const float*>(data);
  return {values, values + qn_tensor_bytes(&tensor) / sizeof(float)};
}

// To the last bit, as floats may be NaN.
bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Sessions : public testing::TestWithParam<std::string> {};

TEST_P(Sessions, GiveTheSameBitsInBuffersOfTheCallers) {
  const ModelHandle model = reference(GetParam());
  const SessionHandle session = session_of(model);
  const std::vector<float> input = picture(session);
  const void* const inputs[] = {input.data()};
  ASSERT_EQ(qn_session_run(session.get(), inputs), QN_OK) << qn_last_message();
  std::vector<std::vector<float>> expected, bound;
  for (size_t i = 0; i < qn_model_output_count(model.get()); ++i) expected.push_back(output(session, i));

  // One float further than a good address.
  std::vector<float> moved(input.size() + 1);
  std::copy(input.begin(), input.end(), moved.begin() + 1);
  expect_ok(qn_session_bind_input(session.get(), 0, moved.data() + 1, input.size() * sizeof(float)));
  for (size_t i = 0; i < expected.size(); ++i) {
    bound.emplace_back(expected[i].size() + 1);
    expect_ok(qn_session_bind_output(session.get(), i, bound[i].data() + 1, expected[i].size() * sizeof(float)));
  }
  ASSERT_EQ(qn_session_run(session.get(), nullptr), QN_OK) << qn_last_message();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same(std::vector<float>(bound[i].begin() + 1, bound[i].end()), expected[i])) << "output " << i;
    EXPECT_TRUE(same(output(session, i), expected[i]));
  }
}

// ---- shared arenas

std::unique_ptr<qn_arena, Release> make_arena() {
  qn_arena* arena = nullptr;
  expect_ok(qn_arena_create(nullptr, 0, &arena));
  return std::unique_ptr<qn_arena, Release>(arena);
}

// What `count` sessions hold that share an arena, packed weights aside.
size_t bytes_of_sessions(size_t count, const test::Meter& meter) {
  qn_weights_cache* cache = nullptr;
  expect_ok(qn_weights_cache_create(&cache));
  const std::unique_ptr<qn_weights_cache, Release> release(cache);
  qn_model_options model_options;
  qn_model_options_init(&model_options);
  model_options.cache = cache;
  const ModelHandle model = reference("mobilenet_v1", &model_options);

  const size_t before = meter.now - qn_weights_cache_bytes(cache);
  const auto arena = make_arena();
  qn_session_options options;
  qn_session_options_init(&options);
  options.arena = arena.get();
  std::vector<SessionHandle> sessions;
  for (size_t i = 0; i < count; ++i) sessions.push_back(session_of(model, &options));
  const std::vector<float> input = picture(sessions[0]);
  const void* const inputs[] = {input.data()};
  std::vector<float> expected;
  for (const SessionHandle& session : sessions) {
    expect_ok(qn_session_run(session.get(), inputs));
    if (expected.empty()) expected = output(session, 0);
    EXPECT_TRUE(same(output(session, 0), expected));
  }
  EXPECT_EQ(qn_arena_bytes(arena.get()), qn_session_memory(sessions[0].get()));
  return meter.now - qn_weights_cache_bytes(cache) - before;
}

TEST(Arena, ThreeSessionsTakeHardlyMoreThanOne) {
  static test::Meter meter;
  const qn_allocator allocator = {&meter, test::Meter::allocate, test::Meter::release, {}};
  ASSERT_EQ(qn_set_allocator(&allocator), QN_OK);
  const size_t one = bytes_of_sessions(1, meter), three = bytes_of_sessions(3, meter);
  EXPECT_EQ(meter.now, 0u);
  ASSERT_EQ(qn_set_allocator(nullptr), QN_OK);
  RecordProperty("one", std::to_string(one));
  RecordProperty("three", std::to_string(three));
  EXPECT_GT(one, size_t{4} << 20);
  EXPECT_LE(three, one + (size_t{64} << 10)) << "one takes " << one;
}

TEST(Arena, SessionsOfSeveralModels) {
  const auto arena = make_arena();
  qn_session_options options;
  qn_session_options_init(&options);
  options.arena = arena.get();
  struct Run {
    SessionHandle session;
    std::vector<float> input, expected;
  };
  std::vector<Run> runs;
  size_t most = 0;
  for (const char* name : {"squeezenet_v1.1", "mobilenet_v1", "shufflenet_v2", "mobilenet_v2"}) {
    const ModelHandle model = reference(name);
    const SessionHandle alone = session_of(model);
    Run& run = runs.emplace_back(Run{session_of(model, &options), picture(alone), {}});
    const void* const inputs[] = {run.input.data()};
    ASSERT_EQ(qn_session_run(alone.get(), inputs), QN_OK);
    run.expected = output(alone, 0);
    most = std::max(most, qn_session_memory(alone.get()));
  }
  EXPECT_EQ(qn_arena_bytes(arena.get()), most);
  for (int round = 0; round < 2; ++round) {
    for (const Run& run : runs) {
      const void* const inputs[] = {run.input.data()};
      ASSERT_EQ(qn_session_run(run.session.get(), inputs), QN_OK) << qn_last_message();
      EXPECT_TRUE(same(output(run.session, 0), run.expected));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, Sessions, testing::ValuesIn(zoo_names()), [](const auto& name) {
  std::string text = name.param;
  for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return text;
});

}  // namespace sessions_test
}  // namespace quern
