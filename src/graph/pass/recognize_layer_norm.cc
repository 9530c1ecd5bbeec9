// Pass recognize-layer-norm: the nodes that shift rows by their mean, divide them by their deviation, and scale the result,
// become one. So do those that divide rows by the root of their mean square (rms_norm).
//
// Frameworks differ in the order: PyTorch divides x - mean by the root, TensorFlow multiplies x and mean by gamma / root.
// So what follows the root is read as a sum of products of few factors, whose coefficients are compared.
#include <algorithm>
#include <array>
#include <optional>

#include "base/status.h"
#include "graph/pass/affine.h"
#include "graph/pass/match.h"

namespace quern {
namespace {

// ---- what is normalized

// A tensor without the reshapes before it, which do not move elements.
int without_reshapes(Rewriter& r, int tensor) {
  while (const Node* node = r.writer(tensor, OpKind::reshape)) tensor = node->inputs[0];
  return tensor;
}

// Whether a tensor has the shape of x, but 1 for the last dimension.
bool is_of_rows(Rewriter& r, int tensor, int x) {
  Shape shape = r.shape(x);
  if (shape.empty()) return false;
  shape.back() = 1;
  return r.shape(tensor) == shape;
}

// The tensor that a mean over the last dimension is taken of, without reshapes before it; no_tensor if `mean` is none.
// Importers make an image of each row, whose height it is.
int averaged(Rewriter& r, int mean) {
  const Node* const last = r.writer(mean);
  if (last == nullptr) return no_tensor;
  if (is_kind(*last, "reduce_mean")) {
    const auto has = [&](const char* name, int64_t a, int64_t b) {
      return std::any_of(last->parameters.begin(), last->parameters.end(), [&](const Parameter& p) {
        return p.name == name && p.integers.size() == 1 && (p.integers[0] == a || p.integers[0] == b);
      });
    };
    const int x = last->inputs[0];
    const bool rows = last->inputs.size() == 1 && has("axes", -1, static_cast<int64_t>(r.shape(x).size()) - 1);
    return rows && r.is_float(x) && is_of_rows(r, mean, x) ? without_reshapes(r, x) : no_tensor;
  }
  const int pooled = without_reshapes(r, mean);
  const Node* const pool = r.writer(pooled, OpKind::global_average_pool);
  if (pool == nullptr || !is_unclamped(*pool) || !r.is_float(pooled)) return no_tensor;
  const Shape& image = r.shape(pool->inputs[0]);
  return image[2] == 1 && image[3] == 1 ? without_reshapes(r, pool->inputs[0]) : no_tensor;
}

// Whether `mean` holds the means of the rows of x.
bool is_mean_of(Rewriter& r, int mean, int x) {
  return is_of_rows(r, mean, x) && averaged(r, mean) == without_reshapes(r, x);
}

// A root of the mean of squares.
struct Root {
  int x = no_tensor, mean = no_tensor;  // without a mean the squares are those of x, else of x - mean
  int root = no_tensor;
  bool inverse = false;
  float epsilon = 0;
};

// The tensor of which `tensor` is the square; no_tensor if it is none.
int squared(Rewriter& r, int tensor) {
  const Node* const node = r.writer(tensor);
  Power power;
  int x;
  if (node == nullptr) return no_tensor;
  if (read_power(r, *node, &power, &x)) {
    return power.exponent == 2 && power.bias == 0 && power.scale * power.scale == 1 ? x : no_tensor;
  }
  return arithmetic_of(r, *node) == Arithmetic::mul && node->inputs[0] == node->inputs[1] ? node->inputs[0] : no_tensor;
}

// Finds the squares below the sum of their mean and epsilon.
bool read_variance(Rewriter& r, int variance, Root* root) {
  const int squares = averaged(r, variance), x = squares == no_tensor ? no_tensor : squared(r, squares);
  if (x == no_tensor || !is_of_rows(r, variance, x)) return false;
  root->x = x;
  const Node* const difference = r.writer(x);
  if (difference == nullptr || arithmetic_of(r, *difference) != Arithmetic::sub) return true;
  const int from = difference->inputs[0], mean = difference->inputs[1];
  if (!r.is_constant(from) && r.shape(from) == r.shape(x) && is_mean_of(r, mean, from)) {
    root->x = from;
    root->mean = mean;
  }
  return true;
}

// Reads a node as such a root.
bool read_root(Rewriter& r, const Node& node, Root* root) {
  Power power, inner;
  int variance, next;
  if (!read_power(r, node, &power, &variance) || (power.exponent != 0.5 && power.exponent != -0.5)) return false;
  for (int i = 0; i < 4; ++i) {  // sums with epsilon, which have not become one yet
    const Node* const sum = r.writer(variance);
    if (sum == nullptr || !read_power(r, *sum, &inner, &next) || inner.exponent != 1) break;
    power.bias += power.scale * inner.bias;
    power.scale *= inner.scale;
    variance = next;
  }
  *root = {no_tensor, no_tensor, node.outputs[0], power.exponent < 0, static_cast<float>(power.bias)};
  return power.scale == 1 && power.bias >= 0 && read_variance(r, variance, root);
}

// ---- what is made of it

// A sum of products: for each of them a coefficient, which may differ by channel. One without elements is 0.
enum Term : size_t { one, x_term, mean_term, inverse_root };  // plus inverse_root: divided by the root
constexpr size_t terms = 6;
using Sum = std::array<Vector<double>, terms>;

template <class Combine>
Vector<double> combined(const Vector<double>& a, const Vector<double>& b, const Combine& combine) {
  Vector<double> result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) result[i] = combine(element(a, i), element(b, i));
  return result;
}

Sum plus(Sum a, const Sum& b, double factor) {
  for (size_t t = 0; t < terms; ++t) a[t] = combined(a[t], b[t], [=](double u, double v) { return u + factor * v; });
  return a;
}

// Nothing if the product has other terms.
std::optional<Sum> times(const Sum& a, const Sum& b) {
  Sum product;
  for (size_t i = 0; i < terms; ++i) {
    for (size_t k = 0; k < terms; ++k) {
      if (a[i].empty() || b[k].empty()) continue;
      const bool fits =
          i == one || k == one || (i < inverse_root && k == inverse_root) || (k < inverse_root && i == inverse_root);
      if (!fits) return std::nullopt;
      const Vector<double> both = combined(a[i], b[k], [](double u, double v) { return u * v; });
      product[i + k] = combined(product[i + k], both, [](double u, double v) { return u + v; });
    }
  }
  return product;
}

// Reads tensors as such sums.
class SumReader {
 public:
  SumReader(Rewriter& r, const Root& root) : r_(r), root_(root), channels_(r.shape(root.x).back()) {}

  std::optional<Sum> read(int tensor) {
    if (tensor == root_.x) return single(x_term);
    if (tensor == root_.mean) return single(mean_term);
    if (tensor == root_.root && root_.inverse) return single(inverse_root);
    if (const Vector<float> values = channels_of(r_, tensor, channels_); !values.empty()) {
      Sum sum;
      sum[one] = {values.begin(), values.end()};
      return sum;
    }
    const Node* const node = r_.writer(tensor);
    if (node == nullptr || left_-- == 0) return std::nullopt;
    if (divides(*node)) return single(inverse_root);
    Affine f;
    int x;
    if (!node->inputs.empty() && read_affine(r_, *node, &f, &x)) return read_affine_of(x, f);
    return read_arithmetic(*node);
  }

 private:
  static Sum single(size_t term) {
    Sum sum;
    sum[term] = {1};
    return sum;
  }

  // Whether the node is 1 / root.
  bool divides(const Node& node) {
    Power power;
    int x;
    return !root_.inverse && read_power(r_, node, &power, &x) && x == root_.root && power.exponent == -1 &&
           power.scale == 1 && power.bias == 0;
  }

  std::optional<Sum> read_affine_of(int x, const Affine& f) {
    if (f.clamps()) return std::nullopt;
    const std::optional<Sum> of = read(x);
    Sum scale, bias;
    scale[one] = {f.scale.begin(), f.scale.end()};
    bias[one] = {f.bias.begin(), f.bias.end()};
    const std::optional<Sum> scaled = of ? times(*of, scale) : std::nullopt;
    return scaled ? std::optional(f.bias == Vector<double>{0} ? *scaled : plus(*scaled, bias, 1)) : std::nullopt;
  }

  std::optional<Sum> read_arithmetic(const Node& node) {
    const Arithmetic arithmetic = arithmetic_of(r_, node);
    if (arithmetic == Arithmetic::none) return std::nullopt;
    const std::optional<Sum> a = read(node.inputs[0]);
    if (!a) return std::nullopt;
    if (arithmetic == Arithmetic::div) {
      const bool by_root = node.inputs[1] == root_.root && !root_.inverse;
      return by_root ? times(*a, single(inverse_root)) : std::nullopt;
    }
    const std::optional<Sum> b = read(node.inputs[1]);
    if (!b) return std::nullopt;
    return arithmetic == Arithmetic::mul ? times(*a, *b) : plus(*a, *b, arithmetic == Arithmetic::add ? 1 : -1);
  }

  Rewriter& r_;
  const Root& root_;
  size_t channels_;
  int left_ = 32;  // nodes that may still be read: more than any form has
};

bool is_zero(const Vector<double>& v) {
  return std::all_of(v.begin(), v.end(), [](double x) { return x == 0; });
}

// Whether the sum is (x - mean) / root * scale + bias, or without a mean x / root * scale.
bool is_normalized(const Root& root, const Sum& sum) {
  const Vector<double>&scale = sum[inverse_root + x_term], &shift = sum[inverse_root + mean_term];
  if (is_zero(scale) || !is_zero(sum[x_term]) || !is_zero(sum[mean_term]) || !is_zero(sum[inverse_root])) return false;
  if (root.mean == no_tensor) return is_zero(sum[one]);
  const Vector<double> rest = combined(scale, shift, [](double a, double b) { return a + b; });
  return !shift.empty() && is_zero(rest);
}

// What is normalized, scaled and shifted last, with all nodes for it.
struct Found {
  Sum sum;
  Vector<Node*> nodes;
};
std::optional<Found> find_last(Rewriter& r, const Readers& readers, const Root& root) {
  constexpr size_t most = 12;
  std::optional<Found> found;
  Vector<size_t> behind(readers.of(root.root).begin(), readers.of(root.root).end());
  for (size_t i = 0; i < behind.size() && i < most; ++i) {
    const Node& node = r.node(behind[i]);
    if (r.removed(behind[i]) || node.outputs.size() != 1) continue;
    const int y = node.outputs[0];
    const std::optional<Sum> sum = SumReader(r, root).read(y);
    if (!sum) continue;
    Vector<Node*> nodes;
    if (r.shape(y) == r.shape(root.x) && is_normalized(root, *sum) && find_between(r, {root.x}, y, &nodes))
      found = Found{*sum, std::move(nodes)};
    const std::span<const size_t> next = readers.of(y);
    behind.insert(behind.end(), next.begin(), next.end());
  }
  return found;
}

void make_norm(Rewriter& r, const Root& root, const Found& found) {
  const size_t channels = r.shape(root.x).back();
  Vector<int> inputs = {root.x, spread(r, found.sum[inverse_root + x_term], channels)};
  if (!is_zero(found.sum[one])) inputs.push_back(spread(r, found.sum[one], channels));
  replace(r, found.nodes, root.mean == no_tensor ? "rms_norm" : "layer_norm", std::move(inputs),
          {{"axis", {-1}, {}}, {"epsilon", {}, {root.epsilon}}});
}

}  // namespace

qn_status recognize_layer_norm(Rewriter& r) {
  if (!may_make(r, "layer_norm") || !may_make(r, "rms_norm")) return QN_OK;
  const Readers readers(r);
  for (size_t i = 0; i < r.size(); ++i) {
    Root root;
    if (r.removed(i) || !read_root(r, r.node(i), &root)) continue;
    const std::optional<Found> found = find_last(r, readers, root);
    if (found) make_norm(r, root, *found);
  }
  return QN_OK;
}

}  // namespace quern
