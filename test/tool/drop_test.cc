// What a classifier loses, estimated without labels.
#include "tool/drop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "convert/common/error.h"
#include "convert/zoo/builder.h"
#include "graph/ir/rules.h"
#include "graph/pass/passes.h"

namespace quern {
namespace drop_test {

constexpr size_t classes = 3;  // as an image of one pixel has channels

// A classifier whose scores are its input, but for what `noise` adds to the weights.
Graph classifier(float noise) {
  zoo::Builder b("classifier", 1);
  const zoo::Value scores = b.fully_connected("scores", b.input(1), classes);
  b.output("prob", b.softmax("prob", scores.tensor, 1));
  Graph graph = b.finish();
  Node& node = *std::find_if(graph.nodes.begin(), graph.nodes.end(),
                             [](const Node& n) { return n.kind == OpKind::fully_connected; });
  std::mt19937 random(3);
  Vector<float> weights(classes * classes), bias(classes, 0.0f);
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = (i % (classes + 1) == 0 ? 1.0f : 0.0f) + noise * std::uniform_real_distribution<float>(-1, 1)(random);
  }
  node.inputs[1] = add_constant(graph, String(), QN_F32, {classes, classes}, weights.data());
  node.inputs.resize(3);
  node.inputs[2] = add_constant(graph, String(), QN_F32, {classes}, bias.data());
  check(infer_shapes(graph));
  return graph;
}

std::vector<float> scores_of(size_t i) {
  std::mt19937 random(static_cast<uint32_t>(i));
  std::vector<float> scores(classes);
  for (float& x : scores) x = std::normal_distribution<float>(0, 2)(random);
  return scores;
}

std::vector<InputData> sample(const qn_model* model, const qn_session*, size_t i) {
  return {{input_ports(model)[0].tensor, floats_as(scores_of(i), QN_F32)}};
}

std::vector<size_t> first(size_t count) {
  std::vector<size_t> list(count);
  std::iota(list.begin(), list.end(), size_t{0});
  return list;
}

// What the graph loses if the probabilities of scores are true, over many samples.
double true_points(float noise, size_t count) {
  const Graph changed = classifier(noise);
  Part before(classifier(0), {}), after(changed, {});
  double lost = 0;
  for (size_t i = 0; i < count; ++i) {
    before.run(sample, i), after.run(sample, i);
    const auto* const p = static_cast<const float*>(before.output());
    const auto* const q = static_cast<const float*>(after.output());
    lost += double{*std::max_element(p, p + classes)} - double{p[std::max_element(q, q + classes) - q]};
  }
  return 100 * lost / static_cast<double>(count);
}

TEST(Drop, IsNothingForTheSameModel) {
  const DropMeter meter(classifier(0), 40, 40, sample, {});
  const Drop drop = meter.measure(classifier(0), first(40));
  EXPECT_EQ(drop.points, 0);
  EXPECT_EQ(drop.high, 0);
}

TEST(Drop, IntervalsHoldWhatIsTrue) {
  for (const float noise : {0.1f, 0.3f, 0.6f}) {
    SCOPED_TRACE(noise);
    const double expected = true_points(noise, 5000);
    for (const size_t count : {200, 1000}) {
      const Drop drop = DropMeter(classifier(0), count, count, sample, {}).measure(classifier(noise), first(count / 5));
      EXPECT_LE(drop.low, drop.points);
      EXPECT_LE(drop.points, drop.high);
      EXPECT_GE(drop.high, expected);
      EXPECT_LT(drop.points, 3 * expected + 0.5);
    }
  }
}

// Labels that the scores' own probabilities draw: the points lost are the same, on average.
TEST(Drop, CountsByLabels) {
  constexpr size_t count = 2000;
  std::vector<size_t> labels;
  std::mt19937 random(7);
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> weights;
    for (const float score : scores_of(i)) weights.push_back(std::exp(double{score}));
    labels.push_back(std::discrete_distribution<size_t>(weights.begin(), weights.end())(random));
  }
  const DropMeter meter(classifier(0), count, count, sample, {}, labels);
  EXPECT_EQ(meter.measure(classifier(0), first(count)).points, 0);
  EXPECT_NEAR(meter.accuracy(), DropMeter(classifier(0), count, count, sample, {}).accuracy(), 4);
  const double expected = true_points(0.6f, 5000);
  const Drop drop = meter.measure(classifier(0.6f), first(count));
  EXPECT_LE(drop.low, expected);
  EXPECT_GE(drop.high, expected);
  EXPECT_THROW(DropMeter(classifier(0), 1, 1, sample, {}, {classes}), Error);
}

TEST(Drop, ViewsOfAnImageCountAsOne) {
  const auto same = [](const qn_model* model, const qn_session* session, size_t i) {
    return sample(model, session, i % 50);
  };
  const Drop one = DropMeter(classifier(0), 50, 50, same, {}).measure(classifier(0.3f), first(50));
  const Drop two = DropMeter(classifier(0), 100, 50, same, {}).measure(classifier(0.3f), first(100));
  EXPECT_GT(one.points, 0);
  EXPECT_NEAR(one.high - one.low, two.high - two.low, 0.25 * (one.high - one.low));
}

TEST(Drop, RefusesScoresThatAreNotFinite) {
  const auto endless = [](const qn_model* model, const qn_session*, size_t) {
    const std::vector<float> scores(classes, INFINITY);
    return std::vector<InputData>{{input_ports(model)[0].tensor, floats_as(scores, QN_F32)}};
  };
  try {
    DropMeter(classifier(0.3f), 1, 1, endless, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("output prob holds scores that are not finite"), std::string::npos);
  }
}

TEST(Drop, NeedsScores) {
  zoo::Builder b("image", 1);
  b.output("out", b.conv("conv", b.input(4), {2, 1, 1, zoo::Activation::none}).tensor);
  const auto image = [](const qn_model* model, const qn_session*, size_t) {
    const qn_tensor tensor = input_ports(model)[0].tensor;
    return std::vector<InputData>{{tensor, std::vector<unsigned char>(qn_tensor_bytes(&tensor))}};
  };
  Graph graph = b.finish();
  check(infer_shapes(graph));
  try {
    DropMeter(graph, 1, 1, image, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("output out holds no scores of one item"), std::string::npos);
  }
}

}  // namespace drop_test
}  // namespace quern
