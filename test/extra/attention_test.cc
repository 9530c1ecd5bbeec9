// Attention, against the formula for one query, and rotary embeddings.
#include <limits>

#include "near.h"

namespace quern::test {
namespace attention_test {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Heads {
  size_t batch = 2, q_heads = 4, kv_heads = 2, queries = 3, keys = 5, past = 0, size = 6, v_size = 7;
  bool joined = false;  // inputs of rank 3
  bool causal = false;
  int64_t left = -1, right = -1;
  double softcap = 0, scale = 0;
  int64_t scores = 0;
  Elements mask = absent;  // [queries, past + keys], or fewer columns
  std::vector<double> lengths = {};

  size_t total() const { return past + keys; }
};

Elements input(const Heads& a, size_t heads, size_t rows, size_t size, unsigned seed) {
  return a.joined ? random_floats({a.batch, rows, heads * size}, seed)
                  : random_floats({a.batch, heads, rows, size}, seed);
}
// Element i of a row.
double element(const Heads& a, const Elements& x, size_t heads, size_t rows, size_t size, size_t b, size_t h,
               size_t row, size_t i) {
  return x
      .values[a.joined ? (b * rows + row) * heads * size + h * size + i : ((b * heads + h) * rows + row) * size + i];
}

// All keys or values of a head: [batch, heads, past + keys, size].
Elements joined(const Heads& a, const Elements& past, const Elements& fresh, size_t size) {
  Elements all = floats({a.batch, a.kv_heads, a.total(), size}, {});
  for (size_t n = 0; n < a.batch * a.kv_heads * a.total() * size; ++n) {
    const size_t i = n % size, row = n / size % a.total(), h = n / size / a.total() % a.kv_heads,
                 b = n / size / a.total() / a.kv_heads;
    all.values.push_back(row < a.past ? past.values[((b * a.kv_heads + h) * a.past + row) * size + i]
                                      : element(a, fresh, a.kv_heads, a.keys, size, b, h, row - a.past, i));
  }
  return all;
}

double masked(const Heads& a, double score, size_t b, size_t query, size_t key) {
  if (a.mask.type != 0) {
    const size_t columns = a.mask.shape.back();
    const double mask = key < columns ? a.mask.values[query * columns + key] : a.mask.type == QN_BOOL ? 0 : -infinity;
    score = a.mask.type != QN_BOOL ? score + mask : mask != 0 ? score : -infinity;
  }
  const auto at = static_cast<int64_t>(key);
  const int64_t position =
      static_cast<int64_t>(a.past + query) +
      (a.lengths.empty() || a.past != 0 ? 0 : static_cast<int64_t>(a.lengths[b]) - static_cast<int64_t>(a.queries));
  if (a.causal && at > position) score = -infinity;
  if (a.left >= 0 && at < position - a.left) score = -infinity;
  if (a.right >= 0 && at > position + a.right) score = -infinity;
  if (!a.lengths.empty() && static_cast<double>(key) >= a.lengths[b]) score = -infinity;
  return score;
}

NodeCase attention(const Heads& a) {
  const Elements q = input(a, a.q_heads, a.queries, a.size, 1), k = input(a, a.kv_heads, a.keys, a.size, 2);
  const Elements v = input(a, a.kv_heads, a.keys, a.v_size, 3);
  const Elements past_k = a.past == 0 ? absent : random_floats({a.batch, a.kv_heads, a.past, a.size}, 4);
  const Elements past_v = a.past == 0 ? absent : random_floats({a.batch, a.kv_heads, a.past, a.v_size}, 5);
  const Elements keys = joined(a, past_k, k, a.size), values = joined(a, past_v, v, a.v_size);
  const double scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(a.size));
  Elements y = input(a, a.q_heads, a.queries, a.v_size, 6),
           shown = floats({a.batch, a.q_heads, a.queries, a.total()}, {});
  for (size_t n = 0; n < a.batch * a.q_heads * a.queries; ++n) {
    const size_t query = n % a.queries, h = n / a.queries % a.q_heads, b = n / a.queries / a.q_heads;
    const size_t kv = b * a.kv_heads + h / (a.q_heads / a.kv_heads);
    std::vector<double> stages[4];  // products, with the cap, with the mask, softmax
    double sum = 0;
    for (size_t j = 0; j < a.total(); ++j) {
      double score = 0;
      for (size_t i = 0; i < a.size; ++i)
        score += element(a, q, a.q_heads, a.queries, a.size, b, h, query, i) *
                 keys.values[(kv * a.total() + j) * a.size + i];
      stages[0].push_back(score * scale);
      stages[1].push_back(a.softcap > 0 ? a.softcap * std::tanh(stages[0][j] / a.softcap) : stages[0][j]);
      stages[2].push_back(masked(a, stages[1][j], b, query, j));
      stages[3].push_back(std::exp(stages[2][j]));
      sum += stages[3][j];
    }
    for (double& weight : stages[3]) weight /= sum == 0 ? 1 : sum;
    shown.values.insert(shown.values.end(), stages[a.scores].begin(), stages[a.scores].end());
    for (size_t i = 0; i < a.v_size; ++i) {
      double result = 0;
      for (size_t j = 0; j < a.total(); ++j)
        result += stages[3][j] * values.values[(kv * a.total() + j) * a.v_size + i];
      const size_t row = a.joined ? (b * a.queries + query) * a.q_heads + h : n;
      y.values[row * a.v_size + i] = result;
    }
  }
  NodeCase node = {"attention", {q, k, v, a.mask, past_k, past_v}, {y, keys, values, shown}};
  if (!a.lengths.empty()) node.inputs.push_back(list(a.lengths));
  node.parameters = {integers("q_heads", {static_cast<int64_t>(a.q_heads)}),
                     integers("kv_heads", {static_cast<int64_t>(a.kv_heads)}),
                     integers("causal", {a.causal}),
                     integers("scores", {a.scores}),
                     integers("left", {a.left}),
                     integers("right", {a.right}),
                     numbers("softcap", {static_cast<float>(a.softcap)})};
  if (a.scale != 0) node.parameters.push_back(numbers("scale", {static_cast<float>(a.scale)}));
  return node;
}

Elements mask(size_t rows, size_t columns) { return random_floats({rows, columns}, 9); }

TEST(ExtraAttention, Forms) {
  Heads cases[] = {
      {},
      {.q_heads = 2},
      {.past = 4},
      {.queries = 1, .keys = 1, .past = 9, .causal = true},
      {.causal = true, .scale = 0.25},
      {.softcap = 0.5, .scores = 2},
      {.scores = 3},
      {.past = 2, .causal = true, .scores = 3, .mask = mask(3, 7)},
      {.mask = mask(3, 4)},  // the last key is forbidden
      {.lengths = {2, 5}},
      {.causal = true, .softcap = 0.5},  // the cap would let forbidden keys in again
      {.left = 1, .right = 2},
      {.past = 3, .causal = true, .left = 2, .right = 1},
      {.causal = true, .scores = 3, .lengths = {4, 2}},  // the second item's first query comes before all keys
      {.left = 0, .right = 0, .lengths = {5, 1}},
      // Several blocks of queries.
      {.batch = 1, .queries = 129, .keys = 500, .past = 41, .causal = true, .scores = 3},
      {.queries = 271, .keys = 520, .left = 60, .right = 7, .scores = 1, .mask = mask(271, 510), .lengths = {300, 520}},
      {.mask = {QN_BOOL, {3, 5}, {1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0}}},
  };
  for (Heads& a : cases) {
    for (const bool joined : {false, true}) {
      a.joined = joined;
      expect_near(attention(a));
      NodeCase node = attention(a);
      node.outputs.resize(1);  // present keys and values may have no place of their own
      expect_near(node);
    }
  }
}

TEST(ExtraAttention, ShownScores) {
  expect_near(attention({.softcap = 0.5, .scores = 1, .mask = mask(3, 5)}));
  expect_near(attention({.softcap = 0.5, .scores = 2, .mask = mask(3, 5)}));
}

TEST(ExtraAttention, Refusals) {
  const auto refused = [](const Heads& a, const char* why, void (*change)(NodeCase*)) {
    NodeCase node = attention(a);
    change(&node);
    expect_refused(node, why);
  };
  refused({}, "queries, keys and values do not fit", [](NodeCase* n) { n->inputs[1] = random_floats({2, 2, 5, 7}); });
  refused({}, "4 heads of queries, 3 of keys", [](NodeCase* n) {
    n->inputs[1] = random_floats({2, 3, 5, 6});
    n->inputs[2] = random_floats({2, 3, 5, 7});
  });
  refused({}, "inputs differ in rank", [](NodeCase* n) { n->inputs[0] = random_floats({2, 3, 24}); });
  refused({.joined = true}, "5 heads of 24 numbers", [](NodeCase* n) { n->parameters[0] = integers("q_heads", {5}); });
  refused({.joined = true}, "0 heads of 24 numbers", [](NodeCase* n) { n->parameters[0] = integers("q_heads", {0}); });
  refused({}, "the mask has 6 columns for 5 keys", [](NodeCase* n) { n->inputs[3] = mask(3, 6); });
  refused({}, "do not broadcast", [](NodeCase* n) { n->inputs[3] = mask(2, 5); });
  refused({}, "input 3 is s64, not f32", [](NodeCase* n) { n->inputs[3] = list({1, 1, 1, 1, 1}); });
  refused({.left = -2}, "a window of -2", [](NodeCase*) {});
  refused({.past = 2}, "only one of past keys and values", [](NodeCase* n) { n->inputs[5] = absent; });
  refused({.past = 2}, "input 5 is [2, 2, 3, 7], not [2, 2, 2, 7]", [](NodeCase* n) {
    n->inputs[5] = random_floats({2, 2, 3, 7});
  });
  refused({.lengths = {2, 6}}, "a length of 6", [](NodeCase*) {});
  refused({.lengths = {2, -1}}, "a length of -1", [](NodeCase*) {});
  refused({}, "unknown scores 4", [](NodeCase* n) { n->parameters[3] = integers("scores", {4}); });
}

TEST(ExtraRotaryEmbedding, Rotates) {
  // A quarter of a turn, and none.
  const Elements cosines = floats({2, 1}, {0, 1}), sines = floats({2, 1}, {1, 0}), position = {QN_S64, {1, 2}, {0, 1}};
  const Elements x = floats({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}), y = floats({1, 1, 2, 3}, {-2, 1, 3, 4, 5, 6});
  expect_near({"rotary_embedding", {x, cosines, sines, position}, {y}, {integers("rotated", {2})}});
  const Elements joined = floats({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_near({"rotary_embedding",
               {joined, cosines, sines, position},
               {floats({1, 2, 4}, {-2, 1, -4, 3, 5, 6, 7, 8})},
               {integers("heads", {2})}});
  const Elements all = floats({1, 2, 2}, {0, 0, 1, 1}), more = floats({1, 2, 2}, {1, 1, 0, 0});
  expect_near({"rotary_embedding",
               {joined, all, more},
               {floats({1, 2, 4}, {-3, -4, 1, 2, 5, 6, 7, 8})},
               {integers("heads", {1})}});
  expect_near({"rotary_embedding",
               {joined, all, more},
               {floats({1, 2, 4}, {-2, 1, -4, 3, 5, 6, 7, 8})},
               {integers("heads", {1}), integers("interleaved", {1})}});
}

TEST(ExtraRotaryEmbedding, Refusals) {
  const Elements x = random_floats({1, 1, 2, 4}), table = random_floats({2, 2}), y = floats({}, {});
  const Elements position = {QN_S64, {1, 2}, {0, 1}};
  const auto refused = [&](std::vector<Elements> inputs, std::vector<Parameter> parameters, const char* why) {
    expect_refused({"rotary_embedding", std::move(inputs), {y}, std::move(parameters)}, why);
  };
  refused({x, table, table, {QN_S64, {1, 2}, {0, 2}}}, {}, "no position 2");
  refused({x, table, table, {QN_S64, {1, 2}, {-1, 0}}}, {}, "no position -1");
  refused({x, table, table, list({0, 1})}, {}, "input 3 is [2], not [1, 2]");
  refused({x, table, table, position}, {integers("rotated", {6})}, "6 numbers of 4");
  refused({x, table, table, position}, {integers("rotated", {3})}, "3 numbers of 4");
  refused({x, table, table}, {}, "input 1 is [2, 2], not [1, 2, 2]");
  refused({x, table, random_floats({2, 1}), position}, {}, "input 2 is [2, 1], not [2, 2]");
  refused({random_floats({1, 2, 4}), table, table, position}, {}, "0 heads of 4 numbers");
}

}  // namespace attention_test
}  // namespace quern::test
