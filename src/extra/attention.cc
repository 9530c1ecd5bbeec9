// Attention, and the rotation of queries and keys by their positions.
#include <algorithm>
#include <cmath>
#include <vector>

#include "extra/library.h"
#include "extra/node.h"

namespace quern::extra {
namespace attention {
namespace {

// ---- attention: softmax(softcap(scale * q * k^T) + mask) * v, for each head
//
// A query at position p sees the keys p - `left` .. p + `right` (-1: all on this side); with `causal` none behind p. Its
// position counts from the first key of all calls; where `lengths` say how many keys an item has, the queries are its
// last. A query that sees no key gives zeros. `scores` says what the last output shows: 0 products, 1 those after
// `softcap`, 2 those with the mask, 3 the weights.

enum Input : size_t { input_q, input_k, input_v, input_mask, input_past_k, input_past_v, input_lengths };
enum Output : size_t { output_y, output_k, output_v, output_scores };

// A tensor of heads: [batch, heads, rows, size], or [batch, rows, heads * size].
struct Heads {
  size_t batch, heads, rows, size;
  bool joined;  // the second form

  Shape shape() const { return joined ? Shape{batch, rows, heads * size} : Shape{batch, heads, rows, size}; }
  size_t distance() const { return joined ? heads * size : size; }  // from one row to the next
  // The place of a head's first row.
  size_t at(size_t b, size_t head) const {
    return joined ? (b * rows * heads + head) * size : (b * heads + head) * rows * size;
  }
};

Heads heads_of(const Node& node, size_t input, const char* parameter) {
  const Shape shape = node.shape(input);
  if (shape.size() == 4) return {shape[0], shape[1], shape[2], shape[3], false};
  if (shape.size() != 3) node.fail("an input of rank " + std::to_string(shape.size()));
  const int64_t heads = node.integer(parameter, 0);
  if (heads < 1 || static_cast<uint64_t>(heads) > std::max<size_t>(shape[2], 1) ||
      shape[2] % static_cast<size_t>(heads) != 0) {
    node.fail(std::to_string(heads) + " heads of " + std::to_string(shape[2]) + " numbers");
  }
  return {shape[0], static_cast<size_t>(heads), shape[1], shape[2] / static_cast<size_t>(heads), true};
}

struct Attention {
  Heads q, k, v;
  size_t past, total;  // rows of earlier calls, and all rows, of keys and values
  size_t group;        // heads of queries for each head of keys
};

void check_mask(const Node& node, const Attention& a) {
  if (!node.has(input_mask)) return;
  if (node.type(input_mask) != QN_BOOL) node.expect(input_mask, QN_F32);
  Shape mask = node.shape(input_mask);
  if (mask.empty() || mask.size() > 4) node.fail("a mask of rank " + std::to_string(mask.size()));
  if (mask.back() > a.total || (mask.back() == 1 && a.total > 1))
    node.fail("the mask has " + std::to_string(mask.back()) + " columns for " + std::to_string(a.total) + " keys");
  mask.back() = a.total;
  const Shape scores = {a.q.batch, a.q.heads, a.q.rows, a.total};
  if (!(node.broadcast(mask, scores) == scores)) node.fail("the mask does not broadcast to the scores");
}

Attention attention_of(const Node& node) {
  for (const Input input : {input_q, input_k, input_v, input_past_k, input_past_v}) {
    if (node.has(input)) node.expect(input, QN_F32);
  }
  Attention a = {heads_of(node, input_q, "q_heads"),
                 heads_of(node, input_k, "kv_heads"),
                 heads_of(node, input_v, "kv_heads"),
                 0,
                 0,
                 1};
  if (a.q.joined != a.k.joined || a.k.joined != a.v.joined) node.fail("inputs differ in rank");
  if (a.k.batch != a.q.batch || a.v.batch != a.q.batch || a.k.size != a.q.size || a.k.rows != a.v.rows ||
      a.k.heads != a.v.heads)
    node.fail("queries, keys and values do not fit");
  if (a.k.heads == 0 || a.q.heads % a.k.heads != 0)
    node.fail(std::to_string(a.q.heads) + " heads of queries, " + std::to_string(a.k.heads) + " of keys");
  a.group = a.q.heads / a.k.heads;
  if (node.has(input_past_k) != node.has(input_past_v)) node.fail("only one of past keys and values is given");
  if (node.has(input_past_k)) {
    if (node.rank(input_past_k) != 4) node.fail("past keys are not of rank 4");
    a.past = node.shape(input_past_k)[2];
    node.expect_shape(input_past_k, {a.k.batch, a.k.heads, a.past, a.k.size});
    node.expect_shape(input_past_v, {a.v.batch, a.v.heads, a.past, a.v.size});
  }
  a.total = a.past + a.k.rows;
  if (a.total < a.past) node.fail("too many keys");
  check_mask(node, a);
  if (node.has(input_lengths)) node.expect_shape(input_lengths, {a.q.batch});
  const int64_t mode = node.integer("scores", 0);
  if (mode < 0 || mode > 3) node.fail("unknown scores " + std::to_string(mode));
  for (const char* side : {"left", "right"}) {
    if (node.integer(side, -1) < -1) node.fail("a window of " + std::to_string(node.integer(side, -1)));
  }
  return a;
}

void infer_attention(Inference& node) {
  const Attention a = attention_of(node);
  Heads y = a.q, k = a.k, v = a.v;
  y.size = a.v.size;
  Layout::product(y.heads, y.size);
  k.rows = v.rows = a.total;
  k.joined = v.joined = false;
  node.set(output_y, QN_F32, y.shape());
  node.set(output_k, QN_F32, k.shape());
  node.set(output_v, QN_F32, v.shape());
  node.set(output_scores, QN_F32, {a.q.batch, a.q.heads, a.q.rows, a.total});
}

// Keys or values of all calls.
struct Cache {
  Heads heads;
  const float* data;
  std::vector<float> own;  // what `data` points to, if it is neither input nor output
};

// Joins past and new rows of each head, if there are past ones or an output needs them.
Cache cache_of(const Run& node, const Heads& fresh, size_t input, size_t past_input, size_t output) {
  const float* const from = node.data<float>(input);
  Cache cache = {fresh, from, {}};
  if (!node.has(past_input) && !node.wants(output)) return cache;
  const size_t past = node.has(past_input) ? node.shape(past_input)[2] : 0;
  cache.heads.rows += past;
  cache.heads.joined = false;
  float* to = node.wants(output) ? node.output<float>(output) : nullptr;
  if (to == nullptr) {
    cache.own.resize(Layout::product(fresh.batch * fresh.heads * fresh.size, cache.heads.rows));
    to = cache.own.data();
  }
  cache.data = to;
  for (size_t b = 0; b < fresh.batch; ++b) {
    for (size_t h = 0; h < fresh.heads; ++h) {
      float* row = to + cache.heads.at(b, h);
      if (past != 0)
        row = std::copy_n(node.data<float>(past_input) + (b * fresh.heads + h) * past * fresh.size, past * fresh.size,
                          row);
      for (size_t i = 0; i < fresh.rows; ++i) {
        row = std::copy_n(from + fresh.at(b, h) + i * fresh.distance(), fresh.size, row);
      }
    }
  }
  return cache;
}

// Adds what forbids scores to those of one head.
class Mask {
 public:
  Mask(const Run& node, const Attention& a)
      : node_(node), a_(a), left_(node.integer("left", -1)), right_(node.integer("right", -1)) {
    if (node.integer("causal", 0) != 0) right_ = 0;
    if (node.has(input_mask)) {
      Shape mask = node.shape(input_mask);
      columns_ = mask.back();
      strides_ = broadcast_strides(mask, {a.q.batch, a.q.heads, a.q.rows, columns_});
    }
    if (!node.has(input_lengths)) return;
    lengths_ = node.values(input_lengths);
    for (const int64_t length : lengths_) {
      if (length < 0 || static_cast<uint64_t>(length) > a.total) node.fail("a length of " + std::to_string(length));
    }
  }

  // `scores` are those of the queries from `first` on.
  void apply(size_t b, size_t head, size_t first, std::vector<float>* scores) const {
    const size_t end_query = first + (a_.total == 0 ? 0 : scores->size() / a_.total);
    float* row = scores->data();
    for (size_t i = first; i < end_query; ++i, row += a_.total) {
      if (node_.has(input_mask)) add(strides_[0] * b + strides_[1] * head + strides_[2] * i, row);
      const auto total = static_cast<int64_t>(a_.total), keys = lengths_.empty() ? total : lengths_[b];
      const int64_t position = first_position(b) + static_cast<int64_t>(i);
      const int64_t end = right_ < 0 || right_ >= keys - position ? keys : std::max<int64_t>(position + right_ + 1, 0);
      const int64_t begin = left_ < 0 ? 0 : std::clamp<int64_t>(position - std::min(left_, position), 0, end);
      std::fill(row, row + begin, -INFINITY);
      std::fill(row + end, row + total, -INFINITY);
    }
  }

  // The weights of queries that see no key are 0, where softmax has no answer.
  void clear_blind(const std::vector<float>& scores, std::vector<float>* weights) const {
    for (size_t at = 0; at < scores.size(); at += a_.total) {
      const auto row = scores.begin() + static_cast<ptrdiff_t>(at), end = row + static_cast<ptrdiff_t>(a_.total);
      if (std::all_of(row, end, [](float x) { return x == -INFINITY; }))
        std::fill_n(weights->begin() + static_cast<ptrdiff_t>(at), a_.total, 0.0f);
    }
  }

 private:
  void add(size_t at, float* row) const {
    if (node_.type(input_mask) == QN_BOOL) {
      const uint8_t* const allowed = node_.data<uint8_t>(input_mask) + at;
      for (size_t j = 0; j < columns_; ++j) row[j] = allowed[j] != 0 ? row[j] : -INFINITY;
    } else {
      const float* const mask = node_.data<float>(input_mask) + at;
      for (size_t j = 0; j < columns_; ++j) row[j] += mask[j];
    }
    std::fill(row + columns_, row + a_.total, -INFINITY);
  }

  // The position of an item's first query among its keys.
  int64_t first_position(size_t b) const {
    if (lengths_.empty() || a_.past != 0) return static_cast<int64_t>(a_.past);
    return lengths_[b] - static_cast<int64_t>(a_.q.rows);
  }

  const Run& node_;
  const Attention& a_;
  int64_t left_, right_;  // how many keys a query sees on each side of its position; -1: all
  size_t columns_ = 0;
  Shape strides_;
  std::vector<int64_t> lengths_;
};

// Softmax of each row, in place.
Plan plan_softmax(size_t rows, size_t columns) {
  qn_softmax_params params;
  qn_softmax_params_init(&params);
  qn_operator* op;
  check(qn_softmax_create(&params, &op));
  const Operator owner(op);
  return plan_rows(op, rows, columns, 1);
}

void run_attention(const Run& node) {
  const Attention a = attention_of(node);
  const Cache k = cache_of(node, a.k, input_k, input_past_k, output_k);
  const Cache v = cache_of(node, a.v, input_v, input_past_v, output_v);
  if (a.q.rows == 0) return;  // also where a hostile file has no end of heads without queries
  const Mask mask(node, a);
  const float softcap = node.number("softcap", 0),
              scale = node.number("scale", 1 / std::sqrt(static_cast<float>(a.q.size)));
  const int64_t wanted = node.wants(output_scores) ? node.integer("scores", 0) : -1;
  // Blocks of equally many queries, so that they have one plan: the last one may repeat queries of the one before.
  // Products pack all keys and values for each block.
  const size_t most = block_size(std::max<size_t>(a.total, 1), a.q.rows, 512), blocks = (a.q.rows + most - 1) / most;
  const size_t rows = (a.q.rows + blocks - 1) / blocks, n = Layout::product(rows, a.total);
  std::vector<float> scores(n), weights(n);
  const Plan softmax = n == 0 ? nullptr : plan_softmax(rows, a.total);
  const Buffer workspace(softmax ? qn_plan_workspace_size(softmax.get()) : 0);
  Heads y = a.q;
  y.size = a.v.size;
  const auto attend = [&](size_t b, size_t h, size_t first) {
    const auto show = [&](int64_t mode, const std::vector<float>& what) {
      if (mode != wanted) return;
      float* const to = node.output<float>(output_scores);
      std::copy(what.begin(), what.end(), to + ((b * a.q.heads + h) * a.q.rows + first) * a.total);
    };
    const float* const q = node.data<float>(input_q) + a.q.at(b, h) + first * a.q.distance();
    const Factor<float> keys = {k.data + k.heads.at(b, h / a.group), k.heads.distance(), true};
    matrix_product(rows, a.total, a.q.size, Factor<float>{q, a.q.distance()}, keys, scores.data(), node.parallel());
    for (float& score : scores) score *= scale;
    show(0, scores);
    if (softcap > 0) {
      Pace pace;
      for (float& score : scores) pace.did(16), score = softcap * std::tanh(score / softcap);
    }
    show(1, scores);
    look(n);
    mask.apply(b, h, first, &scores);
    show(2, scores);
    if (softmax) run_plan(softmax.get(), scores.data(), weights.data(), workspace.data(), node.parallel());
    mask.clear_blind(scores, &weights);
    show(3, weights);
    matrix_product(rows, a.v.size, a.total, Factor<float>{weights.data(), a.total},
                   Factor<float>{v.data + v.heads.at(b, h / a.group), v.heads.distance()},
                   node.output<float>(output_y) + y.at(b, h) + first * y.distance(), y.distance(), node.parallel());
  };
  for (size_t b = 0; b < a.q.batch; ++b) {
    for (size_t h = 0; h < a.q.heads; ++h) {
      for (size_t block = 0; block < blocks; ++block) attend(b, h, std::min(block * rows, a.q.rows - rows));
    }
  }
}

// ---- rotary_embedding: inputs are x, cosines, sines, positions

struct Rotation {
  Heads heads;
  size_t pairs;  // numbers of a row that are rotated, two by two
};

Rotation rotation_of(const Node& node) {
  for (size_t i = 0; i < 3; ++i) node.expect(i, QN_F32);
  const Heads heads = heads_of(node, 0, "heads");
  const int64_t numbers = node.integer("rotated", 0);
  if (numbers < 0 || static_cast<uint64_t>(numbers) > heads.size || numbers % 2 != 0)
    node.fail(std::to_string(numbers) + " numbers of " + std::to_string(heads.size) + " are to be rotated");
  const size_t rotated = numbers == 0 ? heads.size : static_cast<size_t>(numbers);
  if (rotated % 2 != 0) node.fail("an odd number of numbers is to be rotated");
  const Rotation rotation = {heads, rotated / 2};
  if (node.has(3)) {
    node.expect_shape(3, {heads.batch, heads.rows});
    if (node.rank(1) != 2) node.fail("the cosines are not of rank 2");
    node.expect_shape(1, {node.shape(1)[0], rotation.pairs});
  } else {
    node.expect_shape(1, {heads.batch, heads.rows, rotation.pairs});
  }
  node.expect_shape(2, node.shape(1));
  return rotation;
}

void infer_rotary(Inference& node) {
  rotation_of(node);
  node.set(0, QN_F32, node.shape(0));
}

// The row of cosines and sines for each row of the input.
std::vector<size_t> positions_of(const Run& node, const Rotation& rotation) {
  std::vector<size_t> positions;
  if (!node.has(3)) {
    for (size_t i = 0; i < rotation.heads.batch * rotation.heads.rows; ++i) positions.push_back(i);
    return positions;
  }
  for (const int64_t position : node.values(3)) {
    if (position < 0 || static_cast<uint64_t>(position) >= node.shape(1)[0])
      node.fail("no position " + std::to_string(position));
    positions.push_back(static_cast<size_t>(position));
  }
  return positions;
}

void run_rotary(const Run& node) {
  const Rotation rotation = rotation_of(node);
  const Heads& heads = rotation.heads;
  const std::vector<size_t> positions = positions_of(node, rotation);
  const bool interleaved = node.integer("interleaved", 0) != 0;
  const size_t step = interleaved ? 2 : 1, second = interleaved ? 1 : rotation.pairs;
  Pace pace;
  for (size_t b = 0; b < heads.batch; ++b) {
    for (size_t h = 0; h < heads.heads; ++h) {
      for (size_t i = 0; i < heads.rows; ++i) {
        pace.did(heads.size);
        const size_t at = heads.at(b, h) + i * heads.distance(), angle = positions[b * heads.rows + i] * rotation.pairs;
        const float *const x = node.data<float>(0) + at, *const cosines = node.data<float>(1) + angle;
        const float* const sines = node.data<float>(2) + angle;
        float* const y = node.output<float>(0) + at;
        for (size_t p = 0; p < rotation.pairs; ++p) {
          const float real = x[p * step], imaginary = x[p * step + second];
          y[p * step] = cosines[p] * real - sines[p] * imaginary;
          y[p * step + second] = sines[p] * real + cosines[p] * imaginary;
        }
        std::copy(x + 2 * rotation.pairs, x + heads.size, y + 2 * rotation.pairs);
      }
    }
  }
}

constexpr qn_kind kinds[] = {
    kind<infer_attention, unless_empty<run_attention>>("attention", {3, 7}, 4),
    kind<infer_rotary, unless_empty<run_rotary>>("rotary_embedding", {3, 4}, 1),
};

}  // namespace
}  // namespace attention

Kinds attention_kinds() { return needed<attention::kinds>(); }

}  // namespace quern::extra
