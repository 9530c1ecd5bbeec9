// Imports Keras' attention, products of two inputs, and Embedding.
#include <cmath>

#include "base/math.h"
#include "convert/common/kinds.h"
#include "convert/keras/masks.h"

namespace quern::keras {
namespace {

// ---- attention: inputs are queries, values and, where they are not the values, keys

const View& keys_of(const KerasNode& node) { return node.view(node.input_count() > 2 ? 2 : 1); }

void expect_sequences(const KerasNode& node) {
  for (size_t i = 0; i < node.input_count(); ++i) {
    if (node.view(i).rank() != 3) throw Unsupported{"on a tensor of rank " + std::to_string(node.view(i).rank())};
  }
}

bool is_causal(const KerasNode& node) { return node.call.is_causal || node.flag("causal", false); }

// Which keys a query sees, as bools [batch or 1, 1, queries or 1, keys]: those of `rest` and, in causal attention, none
// behind the query. Empty if there are no masks: the node of the attention knows what `causal` says.
Value seen_keys(const KerasNode& node, Value rest) {
  if (!rest || !is_causal(node)) return rest;
  const size_t queries = node.builder.shape(node.view(0))[1], keys = node.builder.shape(node.view(1))[1];
  node.fix(node.dimension(0, 1).symbol), node.fix(node.dimension(1, 1).symbol);
  size_t count, bytes;
  if (!checked_mul(queries, keys, &count) || !checked_mul(count, 2 * sizeof(int64_t), &bytes))
    node.fail("too many keys");
  node.builder.charge(bytes);
  Integers triangle;
  triangle.shape = {1, 1, queries, keys};
  for (size_t i = 0; i < count; ++i) triangle.add({i % keys <= i / keys, no_symbol});
  return both(node, rest, integer_value(std::move(triangle), ElementType::boolean));
}

// A mask [batch, rows] for each query, or for each key.
Value of_queries(const KerasNode& node, const Value& mask) {
  return with_axis(node, with_axis(node, as_bools(node, mask), 1), 3);
}
Value of_keys(const KerasNode& node, const Value& mask) {
  return with_axis(node, with_axis(node, as_bools(node, mask), 1), 1);
}

const Value* expect_rows(const Value* mask) {
  if (mask != nullptr && mask->view.rank() != 2) {
    throw Unsupported{"a mask of rank " + std::to_string(mask->view.rank())};
  }
  return mask;
}

// `seen`: see seen_keys(). `lowered_by` is added to the scores of other keys; without it, no query sees them.
View attend(const KerasNode& node, const std::vector<View>& qkv, size_t heads, size_t kv_heads, float scale,
            const Value& seen, std::optional<float> lowered_by) {
  std::vector<View> inputs = qkv;
  if (seen && lowered_by) {
    const auto number = [&](float value) { return number_of(node, value, ElementType::f32); };
    inputs.push_back(make(node, "where", {seen, number(0), number(*lowered_by)}, {}, ElementType::f32).view);
  } else if (seen) {
    inputs.push_back(node.operand(seen, node.name + "/mask"));
  }
  Parameters parameters = Parameters()
                              .integer("causal", !seen && is_causal(node))
                              .integer("q_heads", static_cast<int64_t>(heads))
                              .integer("kv_heads", static_cast<int64_t>(kv_heads))
                              .number("scale", scale);
  return node.custom("attention", inputs, std::move(parameters), std::vector<ElementType>(4, ElementType::f32))[0].view;
}

// Keys that are left out lose 1e9; queries that are left out give 0.
Values attention(const KerasNode& node) {
  node.ignore({"dropout", "seed"});
  expect_sequences(node);
  const std::string mode = node.text("score_mode", "dot");
  if (mode != "dot") throw Unsupported{"score_mode '" + mode + "'"};
  const float scale = node.flag("use_scale", false) ? node.finite(node.numbers("scale", {})[0], "scale") : 1;
  const Value *const queries = expect_rows(node.mask(0)), *const keys = expect_rows(node.mask(1));
  const Value seen = seen_keys(node, keys == nullptr ? Value() : of_keys(node, *keys));
  View y = attend(node, {node.view(0), keys_of(node), node.view(1)}, 1, 1, scale, seen, -1e9f);
  if (queries == nullptr) return {y};
  node.set_mask(0, *queries);
  return {kept_rows(node, *queries, y, 0)};
}

// Heads of queries, of keys and values, and how many numbers a head has of queries and keys, and of values.
struct Heads {
  size_t queries, keys, size, value_size;
};

// The product with the weights `role`, of which the last two dimensions are heads.
View into_heads(const KerasNode& node, const std::string& role, const View& x, size_t heads, size_t size) {
  Builder& builder = node.builder;
  const size_t depth = builder.shape(x)[2];
  const std::string name = node.name + "/" + role;
  const View kernel = builder.reshape(name + "/kernel", node.weight(role + "/kernel", {depth, heads, size}), {0, -1});
  View bias;
  if (node.flag("use_bias", true)) {
    bias = builder.reshape(name + "/bias", node.weight(role + "/bias", {heads, size}), {-1});
  }
  return builder.fully_connected(name, x, builder.permute(kernel, {1, 0}), bias);
}

// Without `output_shape`, the result has the length of the queries that the layer got.
size_t output_depth(const KerasNode& node) {
  if (node.find("output_shape") == nullptr) return node.builder.shape(node.view(0))[2];
  if (node.list("output_shape").size() != 1) throw Unsupported{"'output_shape' of several dimensions"};
  return node.size("output_shape");
}

View out_of_heads(const KerasNode& node, const View& x, const Heads& heads) {
  Builder& builder = node.builder;
  const std::string role = "attention_output", name = node.name + "/" + role;
  const size_t out = output_depth(node);
  const View stored = node.weight(role + "/kernel", {heads.queries, heads.value_size, out});
  const View kernel = builder.reshape(name + "/kernel", stored, {-1, copy_dimension(2, 1)});
  const View bias = node.flag("use_bias", true) ? node.weight(role + "/bias", {out}) : View{};
  return builder.fully_connected(name, x, builder.permute(kernel, {1, 0}), bias);
}

// The masks of all inputs and that of the call together.
Value seen_by_heads(const KerasNode& node, const Value* query_mask) {
  Value seen;
  const auto limit = [&](const Value& mask) { seen = seen ? both(node, seen, mask) : mask; };
  for (size_t i = 1; i < node.input_count(); ++i) {
    const Value* mask = node.mask(i) != nullptr ? node.mask(i) : node.own_mask(i);
    if (mask != nullptr) limit(of_keys(node, *expect_rows(mask)));
  }
  if (const Value* const given = node.operands().attention_mask) {
    const size_t rank = given->view.rank();
    if (rank != 3) throw Unsupported{"'attention_mask' of rank " + std::to_string(rank)};
    limit(with_axis(node, as_bools(node, *given), 1));
  }
  if (query_mask != nullptr) {
    // The node needs a bool for each key.
    if (!seen) limit(of_keys(node, any_of_last(node, all_true(node, node.value(1)))));
    limit(of_queries(node, *query_mask));
  }
  return seen_keys(node, seen);
}

// Without dropout, Keras 3 lowers the scores of keys that are left out to about the lowest number: a query that sees no
// key gives the mean of all. With dropout it gives 0. Keras 2 lowers scores by 1e9.
Values attention_of_heads(const KerasNode& node, const Heads& heads, const Value* query_mask) {
  const bool drops = node.number("dropout", 0.0f) > 0;
  node.ignore({"seed", "flash_attention", "query_shape", "key_shape", "value_shape", "softmax_robust_masking"});
  expect_sequences(node);
  if (node.flag("use_gate", false)) throw Unsupported{"use_gate"};
  const View q = into_heads(node, "query", node.view(0), heads.queries, heads.size);
  const View k = into_heads(node, "key", keys_of(node), heads.keys, heads.size);
  const View v = into_heads(node, "value", node.view(1), heads.keys, heads.value_size);
  const float scale = 1 / std::sqrt(static_cast<float>(heads.size));
  std::optional<float> lowered_by = -1e9f;
  if (node.is_keras_3) lowered_by = drops ? std::nullopt : std::optional(-2.37e38f);
  const Value seen = seen_by_heads(node, query_mask);
  if (query_mask != nullptr) node.set_mask(0, *query_mask);
  return {out_of_heads(node, attend(node, {q, k, v}, heads.queries, heads.keys, scale, seen, lowered_by), heads)};
}

Values multi_head_attention(const KerasNode& node) {
  if (node.find("attention_axes") != nullptr && node.list("attention_axes") != std::vector<int64_t>{1}) {
    throw Unsupported{"'attention_axes'"};
  }
  const size_t heads = node.size("num_heads"), size = node.size("key_dim");
  // Keras takes the query's own mask, whatever the call names, and the masks of all inputs end there.
  if (node.is_keras_3) node.take_masks();
  return attention_of_heads(node, {heads, heads, size, node.size("value_dim", size)}, expect_rows(node.own_mask(0)));
}

Values group_query_attention(const KerasNode& node) {
  const size_t size = node.size("head_dim");
  const Value* const mask = expect_rows(node.mask(0) != nullptr ? node.mask(0) : node.own_mask(0));
  return attention_of_heads(node, {node.size("num_query_heads"), node.size("num_key_value_heads"), size, size}, mask);
}

// ---- products of two inputs

// Sums of products along one axis of each input: the rest of the second input follows that of the first one. Dimensions
// get letters, of which the first dimension, the summed one and all others are different ones.
Values dot(const KerasNode& node) {
  std::vector<int64_t> axes = node.list("axes");
  if (axes.size() == 1) axes.push_back(axes[0]);
  if (axes.size() != 2) node.fail("'axes' are not two");
  std::string terms[2], rest = "a";
  char next = 'c';
  View inputs[2];
  for (size_t i = 0; i < 2; ++i) {
    const size_t rank = node.view(i).rank(), axis = node.axis(axes[i], rank);
    if (rank > 8) throw Unsupported{"on a tensor of rank " + std::to_string(rank)};
    if (axis == 0) throw Unsupported{"along the first dimension"};
    for (size_t d = 0; d < rank; ++d) {
      terms[i] += d == 0 ? 'a' : d == axis ? 'b' : next;
      if (d != 0 && d != axis) rest += next++;
    }
    const bool normalizes = node.flag("normalize", false);
    inputs[i] =
        normalizes ? unit_length(node, node.name + "/" + std::to_string(i), node.view(i), {axis}, 1e-7f) : node.view(i);
  }
  const std::string equation = terms[0] + "," + terms[1] + "->" + rest;
  const Values y =
      node.custom("einsum", {inputs[0], inputs[1]},
                  Parameters().integers("equation", {equation.begin(), equation.end()}), {ElementType::f32});
  return {rest.size() > 1 ? y[0].view : node.builder.reshape(node.name + "/column", y[0].view, {0, 1})};
}

// ---- lookups

// Indices that are real numbers lose what is behind the point.
Values embedding(const KerasNode& node) {
  node.ignore({"input_length", "sparse"});
  if (node.flag("mask_zero", false)) node.set_mask(0, as_bools(node, node.value(0)));
  const Value table = node.weight("embeddings", {node.size("input_dim"), node.size("output_dim")});
  Value indices = node.value(0);
  if (is_float(indices.type)) indices = cast_to(node, indices, ElementType::s32);
  return {gathered(node, table, indices, 0, 0)};
}

}  // namespace

const KerasRow* find_product(const std::string& type) {
  static const KerasTable kinds = {
      {"Attention", {attention, 2, 3}},
      {"Dot", {dot, 2, 2}},
      {"Embedding", {embedding, 1, 1}},
      {"GroupedQueryAttention", {group_query_attention, 2, 3}},
      {"MultiHeadAttention", {multi_head_attention, 2, 3}},
  };
  return find_in(kinds, type);
}

}  // namespace quern::keras
