// Sessions of the reference architectures: the memory they share, and buffers of the caller's.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "convert/zoo.h"
#include "graph/format.h"
#include "graph/passes.h"

namespace quern {
namespace {

struct Release {
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
};
using ModelHandle = std::unique_ptr<qn_model, Release>;
using SessionHandle = std::unique_ptr<qn_session, Release>;

void expect_ok(qn_status status) { EXPECT_EQ(status, QN_OK) << qn_last_message(); }

ModelHandle reference(const std::string& name) {
  Graph graph = build_zoo(name, 1);
  expect_ok(optimize(graph));
  qn_model* model = nullptr;
  expect_ok(make_model(std::move(graph), nullptr, &model));
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

INSTANTIATE_TEST_SUITE_P(Zoo, Sessions, testing::ValuesIn(zoo_names()), [](const auto& name) {
  std::string text = name.param;
  for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return text;
});

}  // namespace
}  // namespace quern
