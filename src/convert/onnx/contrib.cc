// Converts each operator to a graph of standard operators of opset 23, which is imported in its place. Semantics: the
// documentation of ONNX Runtime's contrib operators (ContribOperators.md).
#include "convert/onnx/contrib.h"

#include <algorithm>

#include "convert/common/dimensions.h"
#include "convert/common/table.h"

namespace quern::onnx {
namespace {

using schema::AttributeProto;
using schema::TensorProto;
using Names = std::vector<std::string>;

constexpr size_t absent = SIZE_MAX;

// A graph that grows in place of a node. It reads the node's inputs by the names that in() returns.
class Expansion {
 public:
  explicit Expansion(const OnnxNode& from) : node(from) {}

  const OnnxNode& node;

  bool has(size_t i) const { return node.has(i); }
  // The shape of an input that has at least this rank.
  Shape shape(size_t i, size_t rank = 1) const {
    Shape shape = node.dims(i);
    if (shape.size() >= rank) return shape;
    node.fail("expected input " + std::to_string(i) + " of rank " + std::to_string(rank) + " or more, got rank " +
              std::to_string(shape.size()));
  }
  std::string in(size_t i) const { return has(i) ? input_of_expanded(i) : ""; }
  bool wants(int output) const { return node.proto.output_size() > output && !node.proto.output(output).empty(); }

  // Adds a node with `outputs` outputs, and returns the name of the first; others are named by of(name, i).
  std::string add(const std::string& type, const Names& inputs, int outputs = 1) {
    schema::NodeProto* const added = graph_.add_node();
    const std::string name = node.name + "/" + type + "_" + std::to_string(graph_.node_size());
    added->set_op_type(type);
    added->set_name(name);
    for (const std::string& input : inputs) added->add_input(input);
    for (int i = 0; i < outputs; ++i) added->add_output(of(name, i));
    return of(name, 0);
  }
  static std::string of(const std::string& name, int output) {
    return output == 0 ? name : name + ":" + std::to_string(output);
  }

  // Attributes of the last node.
  Expansion& integer(const char* name, int64_t value) {
    AttributeProto& a = attribute(name, AttributeProto::INT);
    a.set_i(value);
    return *this;
  }
  Expansion& number(const char* name, float value) {
    AttributeProto& a = attribute(name, AttributeProto::FLOAT);
    a.set_f(value);
    return *this;
  }
  Expansion& text(const char* name, const char* value) {
    AttributeProto& a = attribute(name, AttributeProto::STRING);
    a.set_s(value);
    return *this;
  }
  Expansion& integers(const char* name, const std::vector<int64_t>& values) {
    AttributeProto& a = attribute(name, AttributeProto::INTS);
    a.mutable_ints()->Assign(values.begin(), values.end());
    return *this;
  }
  // Passes the node's own attributes on to the last node.
  void pass(const std::vector<const char*>& names) {
    for (const char* name : names) {
      node.ignore(name);
      for (const AttributeProto& attribute : node.proto.attribute()) {
        if (attribute.name() == name) *last().add_attribute() = attribute;
      }
    }
  }

  // Constants.
  std::string scalar(float value) {
    TensorProto& tensor = constant(TensorProto::FLOAT);
    tensor.add_float_data(value);
    return tensor.name();
  }
  std::string scalar_integer(int64_t value) {
    TensorProto& tensor = constant(TensorProto::INT64);
    tensor.add_int64_data(value);
    return tensor.name();
  }
  std::string list(const std::vector<int64_t>& values) {
    TensorProto& tensor = constant(TensorProto::INT64);
    tensor.add_dims(static_cast<int64_t>(values.size()));
    tensor.mutable_int64_data()->Assign(values.begin(), values.end());
    return tensor.name();
  }

  // Adds an output. They come in order; the value of an output that the node does not have does not matter.
  void output(const std::string& name) { graph_.add_output()->set_name(name); }
  Values import() const { return node.expand(graph_); }

  // ---- parts that several operators have

  std::string sum(const Names& terms) {
    std::string total;
    for (const std::string& term : terms) {
      if (!term.empty()) total = total.empty() ? term : add("Add", {total, term});
    }
    return total;
  }
  std::string scaled(const std::string& x, float factor) { return factor == 1 ? x : add("Mul", {x, scalar(factor)}); }
  std::string cast(const std::string& x, TensorProto::DataType to) {
    const std::string y = add("Cast", {x});
    integer("to", to);
    return y;
  }
  std::string transposed(const std::string& x, const std::vector<int64_t>& order) {
    const std::string y = add("Transpose", {x});
    integers("perm", order);
    return y;
  }
  std::string reshaped(const std::string& x, const std::vector<int64_t>& shape) {
    return add("Reshape", {x, list(shape)});
  }
  std::string unsqueezed(const std::string& x, const std::vector<int64_t>& axes) {
    return add("Unsqueeze", {x, list(axes)});
  }
  // A slice of one dimension.
  std::string part(const std::string& x, int64_t axis, int64_t begin, int64_t end) {
    return add("Slice", {x, list({begin}), list({end}), list({axis})});
  }
  // One index of a dimension, which is removed.
  std::string at(const std::string& x, int64_t axis, int64_t index) {
    const std::string y = add("Gather", {x, scalar_integer(index)});
    integer("axis", axis);
    return y;
  }
  std::string size(const std::string& x, int64_t dimension) { return at(add("Shape", {x}), 0, dimension); }
  std::string range(const std::string& end) { return add("Range", {scalar_integer(0), end, scalar_integer(1)}); }

  // An activation that another operator contains; `parameters` are its own, in the order of the documentation.
  std::string activated(const std::string& x, const std::string& type, const std::vector<float>& parameters) {
    const auto parameter = [&](size_t i, float otherwise) { return i < parameters.size() ? parameters[i] : otherwise; };
    if (type.empty()) return x;
    if (type == "Clip") return add("Clip", {x, scalar(parameter(0, 0)), scalar(parameter(1, 0))});
    if (type != "Relu" && type != "Tanh" && type != "Sigmoid" && type != "LeakyRelu" && type != "HardSigmoid" &&
        type != "Elu" && type != "HardSwish" && type != "Softplus") {
      throw Unsupported{"activation " + type};
    }
    const std::string y = add(type, {x});
    if (type == "LeakyRelu") number("alpha", parameter(0, 0.01f));
    if (type == "Elu") number("alpha", parameter(0, 1));
    if (type == "HardSigmoid") number("alpha", parameter(0, 0.2f)).number("beta", parameter(1, 0.5f));
    return y;
  }

 private:
  schema::NodeProto& last() { return *graph_.mutable_node(graph_.node_size() - 1); }
  AttributeProto& attribute(const char* name, AttributeProto::AttributeType type) {
    AttributeProto* const added = last().add_attribute();
    added->set_name(name);
    added->set_type(type);
    return *added;
  }
  TensorProto& constant(TensorProto::DataType type) {
    TensorProto* const tensor = graph_.add_initializer();
    tensor->set_name("constant " + std::to_string(graph_.initializer_size()));
    tensor->set_data_type(type);
    return *tensor;
  }

  schema::GraphProto graph_;
};

Values only(Expansion& e, const std::string& y) {
  e.output(y);
  return e.import();
}

// ---- activations

Values gelu(const OnnxNode& node) {
  Expansion e(node);
  return only(e, e.add("Gelu", {e.sum({e.in(0), e.in(1)})}));
}

Values fast_gelu(const OnnxNode& node) {
  Expansion e(node);
  const std::string y = e.add("Gelu", {e.sum({e.in(0), e.in(1)})});
  e.text("approximate", "tanh");
  return only(e, y);
}

Values quick_gelu(const OnnxNode& node) {
  Expansion e(node);
  return only(e, e.add("Mul", {e.in(0), e.add("Sigmoid", {e.scaled(e.in(0), node.number("alpha", 1.702f))})}));
}

// ---- normalizations

// Normalizes the sum of input, skip and bias, which is the last output.
Values skip_normalization(const OnnxNode& node, bool simplified, size_t beta, size_t bias) {
  Expansion e(node);
  const std::string sum = e.sum({e.in(0), e.in(1), bias == absent ? "" : e.in(bias)});
  const std::string y = simplified ? e.add("RMSNormalization", {sum, e.in(2)})
                                   : e.add("LayerNormalization", {sum, e.in(2), e.in(beta)}, 3);
  e.integer("axis", -1).number("epsilon", node.number("epsilon", 1e-12f));
  if (simplified && (e.wants(1) || e.wants(2))) throw Unsupported{"statistics"};
  for (int i = 0; i < 3; ++i) e.output(simplified ? y : Expansion::of(y, i));
  e.output(sum);
  return e.import();
}

Values skip_layer_normalization(const OnnxNode& node) { return skip_normalization(node, false, 3, 4); }
Values skip_simplified(const OnnxNode& node) { return skip_normalization(node, true, absent, 3); }

Values simplified(const OnnxNode& node) {
  Expansion e(node);
  const std::string y = e.add("RMSNormalization", {e.in(0), e.in(1)});
  e.pass({"axis", "epsilon"});
  node.ignore("stash_type");
  return only(e, y);
}

// Inputs: ids, segments, embeddings of words, positions and segments, gamma, beta, mask, positions.
Values embed_layer_normalization(const OnnxNode& node) {
  Expansion e(node);
  const std::string positions =
      e.has(8) ? e.add("Gather", {e.in(3), e.in(8)}) : e.add("Gather", {e.in(3), e.range(e.size(e.in(0), 1))});
  const std::string segments = e.has(1) && e.has(4) ? e.add("Gather", {e.in(4), e.in(1)}) : "";
  const std::string sum = e.sum({e.add("Gather", {e.in(2), e.in(0)}), positions, segments});
  const std::string y = e.add("LayerNormalization", {sum, e.in(5), e.in(6)});
  e.integer("axis", -1).number("epsilon", node.number("epsilon", 1e-12f));
  node.ignore("mask_index_type");
  e.output(y);
  std::string lengths = y;
  if (e.wants(1)) {
    const std::string counted =
        e.has(7) ? e.in(7) : e.add("Mul", {e.in(0), e.cast(e.scalar_integer(0), TensorProto::INT32)});
    lengths = e.add("ReduceSum", {counted, e.list({1})});
    e.integer("keepdims", 0);
  }
  e.output(lengths);
  e.output(sum);
  return e.import();
}

// ---- products

// Moves the first dimension before the last (`batch`), then swaps the last two.
std::string transposed_factor(Expansion& e, size_t input, bool batch, bool swap) {
  const auto rank = static_cast<int64_t>(e.shape(input).size());
  std::vector<int64_t> order;
  for (int64_t d = 0; d < rank; ++d) order.push_back(d);
  if (batch && rank > 2) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (swap && rank > 1) std::swap(order[order.size() - 1], order[order.size() - 2]);
  return std::is_sorted(order.begin(), order.end()) ? e.in(input) : e.transposed(e.in(input), order);
}

Values fused_mat_mul(const OnnxNode& node) {
  Expansion e(node);
  const std::string a = transposed_factor(e, 0, node.integer("transBatchA", 0) != 0, node.integer("transA", 0) != 0);
  const std::string b = transposed_factor(e, 1, node.integer("transBatchB", 0) != 0, node.integer("transB", 0) != 0);
  return only(e, e.scaled(e.add("MatMul", {a, b}), node.number("alpha", 1)));
}

Values fused_conv(const OnnxNode& node) {
  Expansion e(node);
  const std::string y = e.add("Conv", {e.in(0), e.in(1), e.in(2)});
  e.pass({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
  return only(e, e.activated(e.sum({y, e.in(3)}), node.text("activation", ""), node.number_list("activation_params")));
}

Values fused_gemm(const OnnxNode& node) {
  Expansion e(node);
  const std::string y = e.add("Gemm", {e.in(0), e.in(1), e.in(2)});
  e.pass({"alpha", "beta", "transA", "transB"});
  const std::string type = node.text("activation", "");
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (node.has_attribute(name)) parameters.push_back(node.number(name, 0));
  }
  return only(e, e.activated(y, type, parameters));
}

// The product of integers as real numbers. Each argument is a name, or "" for what is absent.
std::string integer_product(Expansion& e, const Names& factors, const Names& scales, const std::string& bias) {
  const std::string y = e.cast(e.add("MatMulInteger", factors), TensorProto::FLOAT);
  return e.sum({e.add("Mul", {y, e.add("Mul", scales)}), bias});
}

Values dynamic_quantize_mat_mul(const OnnxNode& node) {
  Expansion e(node);
  const std::string a = e.add("DynamicQuantizeLinear", {e.in(0)}, 3);
  return only(e,
              integer_product(e, {a, e.in(1), Expansion::of(a, 2), e.in(3)}, {Expansion::of(a, 1), e.in(2)}, e.in(4)));
}

Values mat_mul_integer_to_float(const OnnxNode& node) {
  Expansion e(node);
  return only(e, integer_product(e, {e.in(0), e.in(1), e.in(4), e.in(5)}, {e.in(2), e.in(3)}, e.in(6)));
}

// ---- attention

// Inputs of the standard operator: queries, keys and values are [batch, rows, heads * size].
struct Heads {
  std::string q, k, v;
  int64_t heads = 0, kv_heads = 0;
  std::string mask, past_k, past_v;
};

// Adds a mask: ones and zeros, or how many keys each item of the batch has. `mask` is an input of the node. Keys and past
// keys have been set.
void add_mask(Expansion& e, size_t mask, Heads* h) {
  const float filter = e.node.number("mask_filter_value", -10000);
  if (!e.has(mask)) return;
  const Shape shape = e.node.dims(mask);
  std::string seen = e.in(mask);
  if (shape == Shape{e.shape(0)[0]}) {
    std::string keys = e.size(h->k, 1);
    if (!h->past_k.empty()) keys = e.add("Add", {keys, e.size(h->past_k, 2)});
    seen = e.add("Less", {e.range(keys), e.unsqueezed(e.cast(e.in(mask), TensorProto::INT64), {1})});
  } else if (shape.size() == 2 || shape.size() == 3) {
    seen = e.cast(seen, TensorProto::BOOL);
  } else {
    throw Unsupported{"a mask of shape " + text_of(shape)};
  }
  seen = e.cast(seen, TensorProto::FLOAT);
  const std::string added = e.add("Mul", {e.add("Sub", {e.scalar(1), seen}), e.scalar(filter)});
  h->mask = e.unsqueezed(added, shape.size() == 3 ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 2});
}

// The standard operator. Outputs are the result, then keys and values of all calls.
std::string attended(Expansion& e, const Heads& h) {
  const OnnxNode& node = e.node;
  const std::string y = e.add("Attention", {h.q, h.k, h.v, h.mask, h.past_k, h.past_v}, 3);
  e.integer("q_num_heads", h.heads).integer("kv_num_heads", h.kv_heads);
  if (node.number("scale", 0) != 0) e.number("scale", node.number("scale", 0));
  return y;
}

void refuse(const OnnxNode& node, const std::vector<const char*>& attributes) {
  for (const char* attribute : attributes) {
    if (node.integer(attribute, 0) != 0) throw Unsupported{attribute};
  }
}

// Splits the last dimension of `x` after a product of all three. Output 1 has keys and values of all calls.
Values self_attention(Expansion& e, const std::string& product, size_t width, size_t mask, size_t past, size_t added) {
  const OnnxNode& node = e.node;
  Heads h;
  h.heads = h.kv_heads = node.integer("num_heads", 0);
  std::vector<int64_t> sizes = node.integer_list("qkv_hidden_sizes");
  if (sizes.empty()) sizes.assign(3, static_cast<int64_t>(width / 3));
  if (sizes.size() != 3) node.fail("expected 3 qkv_hidden_sizes, got " + std::to_string(sizes.size()));
  for (const int64_t size : sizes) {
    if (size < 0 || static_cast<uint64_t>(size) > width) {
      node.fail("expected qkv_hidden_sizes from 0 to " + std::to_string(width) + ", got " + std::to_string(size));
    }
  }
  h.q = e.part(product, -1, 0, sizes[0]);
  h.k = e.part(product, -1, sizes[0], sizes[0] + sizes[1]);
  h.v = e.part(product, -1, sizes[0] + sizes[1], sizes[0] + sizes[1] + sizes[2]);
  if (e.has(past)) h.past_k = e.at(e.in(past), 0, 0), h.past_v = e.at(e.in(past), 0, 1);
  add_mask(e, mask, &h);
  if (added != absent) h.mask = e.sum({h.mask, e.in(added)});
  refuse(node, {"do_rotary", "past_present_share_buffer"});
  node.ignore("rotary_embedding_dim");
  const std::string y = attended(e, h);
  if (node.integer("unidirectional", 0) != 0) e.integer("is_causal", 1);
  e.output(y);
  if (e.wants(1)) {
    const std::string present =
        e.add("Concat", {e.unsqueezed(Expansion::of(y, 1), {0}), e.unsqueezed(Expansion::of(y, 2), {0})});
    e.integer("axis", 0);
    e.output(present);
  }
  return e.import();
}

// Inputs: x, weights, bias, mask, past, attention bias, length of the past.
Values attention(const OnnxNode& node) {
  Expansion e(node);
  if (e.has(6)) throw Unsupported{"past_sequence_length"};
  const std::string product = e.sum({e.add("MatMul", {e.in(0), e.in(1)}), e.in(2)});
  return self_attention(e, product, e.shape(1).back(), 3, 4, 5);
}

// Inputs: x, weights, bias, scales of x and weights, mask, zero points of x and weights, past.
Values q_attention(const OnnxNode& node) {
  Expansion e(node);
  const std::string product = integer_product(e, {e.in(0), e.in(1), e.in(6), e.in(7)}, {e.in(3), e.in(4)}, e.in(2));
  return self_attention(e, product, e.shape(1).back(), 5, 8, absent);
}

// Inputs: queries, keys, values, bias, mask, attention bias, past keys, past values; then those of beam search.
Values multi_head_attention(const OnnxNode& node) {
  Expansion e(node);
  for (const size_t i : {8, 9}) {
    if (e.has(i)) throw Unsupported{i == 8 ? "past_sequence_length" : "cache_indirection"};
  }
  if (e.wants(3)) throw Unsupported{"output qk"};
  Heads h;
  h.heads = h.kv_heads = node.integer("num_heads", 0);
  // One of several tensors that lie within each head of [batch, rows, heads, tensors, size].
  const auto unpacked = [&](size_t input, int64_t index) {
    return e.reshaped(e.at(e.in(input), 3, index), {0, 0, -1});
  };
  const auto joined = [&](size_t input) {
    return e.shape(input).size() == 4 ? e.reshaped(e.transposed(e.in(input), {0, 2, 1, 3}), {0, 0, -1}) : e.in(input);
  };
  const size_t q_rank = node.dims(0).size();
  const bool cross = e.has(1) && node.dims(1).size() == 4;  // keys and values as the cache has them: no bias
  h.q = q_rank == 5 ? unpacked(0, 0) : e.in(0);
  if (!e.has(1)) {
    if (q_rank != 5) throw Unsupported{"queries without keys"};
    h.k = unpacked(0, 1), h.v = unpacked(0, 2);
  } else if (node.dims(1).size() == 5) {
    h.k = unpacked(1, 0), h.v = unpacked(1, 1);
  } else {
    h.k = joined(1), h.v = joined(2);
  }
  if (e.has(3)) {
    const auto width = [&](size_t input) {
      const Shape shape = e.shape(input);
      return static_cast<int64_t>(shape.size() == 5 ? shape[2] * shape[4] : shape.back());
    };
    const int64_t all = static_cast<int64_t>(e.shape(3)[0]), q = width(0);
    h.q = e.sum({h.q, e.part(e.in(3), 0, 0, q)});
    if (!cross) {
      h.k = e.sum({h.k, e.part(e.in(3), 0, q, 2 * q)});
      h.v = e.sum({h.v, e.part(e.in(3), 0, 2 * q, all)});
    }
  }
  h.past_k = e.in(6), h.past_v = e.in(7);
  add_mask(e, 4, &h);
  h.mask = e.sum({h.mask, e.in(5)});
  const std::string y = attended(e, h);
  if (node.integer("unidirectional", 0) != 0) e.integer("is_causal", 1);
  for (int i = 0; i < 3; ++i) e.output(Expansion::of(y, i));
  return e.import();
}

// The positions of rows: those that are given, or `before` and the following.
std::string row_positions(Expansion& e, const std::string& before, const std::string& batch, const std::string& rows) {
  const std::string counted = e.add("Add", {before, e.unsqueezed(e.range(rows), {0})});
  const auto vector = [&](const std::string& x) { return e.unsqueezed(x, {0}); };
  const std::string shape = e.add("Concat", {vector(batch), vector(rows)});
  e.integer("axis", 0);
  return e.add("Expand", {counted, shape});
}

// Inputs: x, positions, cosines, sines.
Values rotary_embedding(const OnnxNode& node) {
  Expansion e(node);
  refuse(node, {"is_packed_batching"});
  if (node.number("scale", 1) != 1) throw Unsupported{"scale of other than 1"};
  const Shape shape = node.dims(0);
  const bool joined = shape.size() == 3;
  std::string positions = e.in(1);
  if (node.dims(1).size() < 2) {
    positions = row_positions(e, e.in(1), e.size(e.in(0), 0), e.size(e.in(0), joined ? 1 : 2));
  }
  int64_t heads = node.integer("num_heads", 0);
  if (joined && heads == 0) heads = static_cast<int64_t>(shape[2] / std::max<size_t>(2 * e.shape(2).back(), 1));
  const std::string y = e.add("RotaryEmbedding", {e.in(0), e.in(2), e.in(3), positions});
  if (joined) e.integer("num_heads", heads);
  e.pass({"interleaved", "rotary_embedding_dim"});
  return only(e, y);
}

// Inputs: queries, keys, values, past keys and values, lengths less 1, the longest length, cosines, sines, positions,
// attention bias, head sink. Rows of all items begin together: padding comes last, and its results are undefined.
Values group_query_attention(const OnnxNode& node) {
  Expansion e(node);
  if (e.has(11)) throw Unsupported{"head_sink"};
  for (size_t i = 12; i < node.input_count(); ++i) {
    if (e.has(i)) throw Unsupported{"a quantized KV cache"};
  }
  refuse(node, {"smooth_softmax"});
  Heads h;
  h.heads = node.integer("num_heads", 0);
  h.kv_heads = node.integer("kv_num_heads", 0);
  h.q = e.in(0), h.k = e.in(1), h.v = e.in(2);
  if (!e.has(1)) {
    const auto width = static_cast<int64_t>(e.shape(0).back());
    for (const int64_t heads : {h.heads, h.kv_heads}) {
      if (heads < 1 || heads > width)
        node.fail("expected num_heads and kv_num_heads from 1 to " + std::to_string(width));
    }
    const int64_t size = width / (h.heads + 2 * h.kv_heads), k = h.heads * size, v = k + h.kv_heads * size;
    h.q = e.part(e.in(0), -1, 0, k), h.k = e.part(e.in(0), -1, k, v), h.v = e.part(e.in(0), -1, v, width);
  }
  if (node.integer("do_rotary", 0) != 0) {
    std::string positions = e.in(9);
    if (!e.has(9)) {
      const std::string rows = e.size(e.in(0), 1);
      const std::string first =
          e.add("Sub", {e.cast(e.in(5), TensorProto::INT64), e.add("Sub", {rows, e.scalar_integer(1)})});
      positions =
          row_positions(e, e.unsqueezed(e.add("Max", {first, e.scalar_integer(0)}), {1}), e.size(e.in(0), 0), rows);
    }
    const auto rotated = [&](const std::string& x, int64_t heads) {
      const std::string y = e.add("RotaryEmbedding", {x, e.in(7), e.in(8), positions});
      e.integer("num_heads", heads).integer("interleaved", node.integer("rotary_interleaved", 0));
      return y;
    };
    h.q = rotated(h.q, h.heads), h.k = rotated(h.k, h.kv_heads);
  }
  h.mask = e.in(10), h.past_k = e.in(3), h.past_v = e.in(4);
  const std::string y = attended(e, h);
  e.integer("is_causal", 1);
  if (const int64_t window = node.integer("local_window_size", -1); window > 0)
    e.integer("left_window_size", window - 1);
  if (const float softcap = node.number("softcap", 0); softcap != 0) e.number("softcap", softcap);
  node.ignore("rotary_interleaved");
  for (const char* type : {"k_quant_type", "v_quant_type"}) {
    if (const std::string value = node.text(type, "NONE"); value != "NONE") throw Unsupported{"a quantized KV cache"};
  }
  node.ignore("kv_cache_bit_width");
  node.ignore("qk_output");
  for (int i = 0; i < 3; ++i) e.output(Expansion::of(y, i));
  return e.import();
}

}  // namespace

std::string input_of_expanded(size_t input) { return "input " + std::to_string(input); }

const OnnxRow* find_contrib(const std::string& op_type) {
  static const OnnxTable table = {
      {"Attention", {attention, 2, 7}},
      {"BiasGelu", {gelu, 2, 2}},
      {"DynamicQuantizeMatMul", {dynamic_quantize_mat_mul, 3, 5}},
      {"EmbedLayerNormalization", {embed_layer_normalization, 7, 9}},
      {"FastGelu", {fast_gelu, 1, 2}},
      {"FusedConv", {fused_conv, 2, 4}},
      {"FusedGemm", {fused_gemm, 2, 3}},
      {"FusedMatMul", {fused_mat_mul, 2, 2}},
      {"Gelu", {gelu, 1, 1}},
      {"GroupQueryAttention", {group_query_attention, 7, 14}},
      {"MatMulIntegerToFloat", {mat_mul_integer_to_float, 4, 7}},
      {"MultiHeadAttention", {multi_head_attention, 1, 10}},
      {"QAttention", {q_attention, 5, 9}},
      {"QuickGelu", {quick_gelu, 1, 1}},
      {"RotaryEmbedding", {rotary_embedding, 4, 4}},
      {"SimplifiedLayerNormalization", {simplified, 2, 2}},
      {"SkipLayerNormalization", {skip_layer_normalization, 3, 5}},
      {"SkipSimplifiedLayerNormalization", {skip_simplified, 3, 4}},
  };
  return find_in(table, op_type);
}

}  // namespace quern::onnx
