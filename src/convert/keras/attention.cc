// Imports Keras' attention, products of two inputs, and Embedding.
#include <cmath>

#include "convert/common/kinds.h"
#include "convert/keras/node.h"

namespace quern::keras {
namespace {

// ---- attention: inputs are queries, values and, where they are not the values, keys

const View& keys_of(const KerasNode& node) { return node.view(node.input_count() > 2 ? 2 : 1); }

void expect_sequences(const KerasNode& node) {
  for (size_t i = 0; i < node.input_count(); ++i) {
    if (node.view(i).rank() != 3) throw Unsupported{"on a tensor of rank " + std::to_string(node.view(i).rank())};
  }
}

View attend(const KerasNode& node, const View& q, const View& k, const View& v, size_t heads, size_t kv_heads,
            float scale) {
  Parameters parameters = Parameters()
                              .integer("causal", node.call.is_causal || node.flag("causal", false))
                              .integer("q_heads", static_cast<int64_t>(heads))
                              .integer("kv_heads", static_cast<int64_t>(kv_heads))
                              .number("scale", scale);
  return node.custom("attention", {q, k, v}, std::move(parameters), std::vector<ElementType>(4, ElementType::f32))[0]
      .view;
}

Values attention(const KerasNode& node) {
  node.ignore({"dropout", "seed"});
  expect_sequences(node);
  const std::string mode = node.text("score_mode", "dot");
  if (mode != "dot") throw Unsupported{"score_mode '" + mode + "'"};
  const float scale = node.flag("use_scale", false) ? node.finite(node.numbers("scale", {})[0], "scale") : 1;
  return {attend(node, node.view(0), keys_of(node), node.view(1), 1, 1, scale)};
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

Values attention_of_heads(const KerasNode& node, const Heads& heads) {
  node.ignore({"dropout", "seed", "flash_attention", "query_shape", "key_shape", "value_shape",
               "softmax_robust_masking"});  // there are no masks
  expect_sequences(node);
  if (node.flag("use_gate", false)) throw Unsupported{"use_gate"};
  const View q = into_heads(node, "query", node.view(0), heads.queries, heads.size);
  const View k = into_heads(node, "key", keys_of(node), heads.keys, heads.size);
  const View v = into_heads(node, "value", node.view(1), heads.keys, heads.value_size);
  const float scale = 1 / std::sqrt(static_cast<float>(heads.size));
  return {out_of_heads(node, attend(node, q, k, v, heads.queries, heads.keys, scale), heads)};
}

Values multi_head_attention(const KerasNode& node) {
  if (node.find("attention_axes") != nullptr && node.list("attention_axes") != std::vector<int64_t>{1}) {
    throw Unsupported{"'attention_axes'"};
  }
  const size_t heads = node.size("num_heads"), size = node.size("key_dim");
  return attention_of_heads(node, {heads, heads, size, node.size("value_dim", size)});
}

Values group_query_attention(const KerasNode& node) {
  const size_t size = node.size("head_dim");
  return attention_of_heads(node, {node.size("num_query_heads"), node.size("num_key_value_heads"), size, size});
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
  if (node.flag("mask_zero", false)) throw Unsupported{"mask_zero"};
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
