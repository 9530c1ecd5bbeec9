// Pass recognize-attention: softmax(scale * q * k^T + mask) * v, of several nodes, becomes one. Where the mask forbids a
// query all keys by infinities, softmax has no answer, and attention gives zeros.
#include <algorithm>

#include "base/status.h"
#include "graph/pass/match.h"
#include "graph/pass/order.h"

namespace quern {
namespace {

struct Parts {
  int q = no_tensor, k = no_tensor, v = no_tensor, mask = no_tensor;
  double scale = 1;
  Node* transpose = nullptr;  // writes k with its last two dimensions exchanged
};

// Goes on to what a tensor is a multiple of.
int without_scale(Rewriter& r, int tensor, double* scale) {
  Power power;
  int x;
  const Node* const node = r.writer(tensor);
  if (node == nullptr || !read_power(r, *node, &power, &x)) return tensor;
  if (power.exponent != 1 || power.bias != 0) return tensor;
  *scale *= power.scale;
  return x;
}

const Node* product_at(Rewriter& r, int tensor) {
  const Node* const node = r.writer(tensor);
  return node != nullptr && is_kind(*node, "matmul") && r.is_float(tensor) ? node : nullptr;
}

// Whether attention takes the mask for these scores: it has a column for each key, for all numbers of keys.
bool is_mask(Rewriter& r, int mask, const Shape& scores) {
  const Shape& shape = r.shape(mask);
  const bool fits =
      !shape.empty() && shape.size() <= scores.size() && shape.back() == scores.back() && shape.back() > 1;
  return fits && r.is_float(mask) && (scores.size() == 4 || shape.size() < 3 || shape[0] == 1);
}

// Finds the product q * k^T below softmax's input, what it is multiplied by, and what is added to it.
const Node* read_scores(Rewriter& r, int scores, Parts* parts) {
  if (const Node* product = product_at(r, without_scale(r, scores, &parts->scale))) return product;
  const Node* const sum = r.writer(scores);
  if (sum == nullptr || arithmetic_of(r, *sum) != Arithmetic::add) return nullptr;
  for (const size_t i : {0, 1}) {
    parts->scale = 1;
    const Node* const product = product_at(r, without_scale(r, sum->inputs[i], &parts->scale));
    parts->mask = sum->inputs[1 - i];
    if (product != nullptr && r.shape(product->outputs[0]) == r.shape(scores) &&
        is_mask(r, parts->mask, r.shape(scores)))
      return product;
  }
  return nullptr;
}

bool is_softmax_of_rows(Rewriter& r, const Node* node) {
  if (node == nullptr || !r.is_float(node->outputs[0])) return false;
  return node->kind == OpKind::softmax &&
         static_cast<size_t>(node->attributes.axis) + 1 == r.shape(node->inputs[0]).size();
}

Order exchanged(Order order) {
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return order;
}

// Whether shapes are those of attention, of [batch, heads, rows, size] or [batch, rows, size].
bool fit(const Shape& q, const Shape& transposed_k, const Shape& v) {
  const size_t rank = q.size();
  if ((rank != 3 && rank != 4) || transposed_k.size() != rank || v.size() != rank) return false;
  for (size_t d = 0; d + 2 < rank; ++d) {
    if (q[d] != transposed_k[d] || q[d] != v[d]) return false;
  }
  return q[rank - 1] == transposed_k[rank - 2] && transposed_k[rank - 1] == v[rank - 2];
}

bool read_parts(Rewriter& r, const Node& last, Parts* parts) {
  if (!is_kind(last, "matmul") || !r.is_float(last.outputs[0])) return false;
  const Node* const softmax = r.writer(last.inputs[0]);
  if (!is_softmax_of_rows(r, softmax)) return false;
  const Node* const product = read_scores(r, softmax->inputs[0], parts);
  if (product == nullptr) return false;
  parts->q = without_scale(r, product->inputs[0], &parts->scale);
  parts->v = last.inputs[1];
  const int transposed = without_scale(r, product->inputs[1], &parts->scale);
  parts->transpose = r.writer(transposed);
  if (parts->transpose == nullptr || order_of(*parts->transpose).size() < 2) return false;
  if (!fit(r.shape(parts->q), r.shape(transposed), r.shape(parts->v))) return false;
  // Where another batch comes to the rest, a product repeats a constant for it, but attention refuses that. (So learned
  // queries stay products.)
  if (r.is_constant(parts->q) || r.is_constant(parts->v)) return false;
  const bool only_exchanges = is_identity(exchanged(order_of(*parts->transpose)));
  parts->k = only_exchanges ? parts->transpose->inputs[0] : transposed;
  return only_exchanges || r.read_once(transposed);
}

// Makes the transpose before k leave the last two dimensions as they are. The tensor is another one then.
void exchange_last(Rewriter& r, Parts* parts) {
  if (parts->transpose->outputs[0] != parts->k) return;
  set_order(*parts->transpose, exchanged(order_of(*parts->transpose)));
  parts->k = r.add_tensor(QN_F32, {});
  r.set_output(*parts->transpose, parts->k);
}

}  // namespace

qn_status recognize_attention(Rewriter& r) {
  if (!may_make(r, "attention")) return QN_OK;
  for (size_t i = 0; i < r.size(); ++i) {
    Parts parts;
    Vector<Node*> nodes;
    if (r.removed(i) || !read_parts(r, r.node(i), &parts)) continue;
    if (!find_between(r, {parts.q, parts.k, parts.v, parts.mask}, r.node(i).outputs[0], &nodes)) continue;
    Vector<Parameter> parameters = {{"scale", {}, {static_cast<float>(parts.scale)}}};
    if (r.shape(parts.q).size() == 3) {
      parameters.push_back({"q_heads", {1}, {}});
      parameters.push_back({"kv_heads", {1}, {}});
    }
    exchange_last(r, &parts);
    Vector<int> inputs = {parts.q, parts.k, parts.v};
    if (parts.mask != no_tensor) inputs.push_back(parts.mask);
    replace(r, nodes, "attention", std::move(inputs), std::move(parameters));
  }
  return QN_OK;
}

}  // namespace quern
