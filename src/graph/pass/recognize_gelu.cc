// Pass recognize-gelu: x * (1 + erf(x / sqrt(2))) / 2, or its approximation with tanh, of several nodes, becomes one.
//
// Exporters write the product in many ways. So the nodes are read as a polynomial of x and of f, the value of erf or tanh,
// whatever the order in which they multiply and add.
#include <array>
#include <cmath>
#include <optional>

#include "base/status.h"
#include "graph/pass/match.h"

namespace quern {
namespace {

// plain(x) + gated(x) * f: coefficients of 1, x, x^2, x^3.
using Coefficients = std::array<double, 4>;
struct Polynomial {
  Coefficients plain = {}, gated = {};
};

Polynomial plus(Polynomial a, const Polynomial& b, double factor) {
  for (size_t i = 0; i < 4; ++i) {
    a.plain[i] += factor * b.plain[i];
    a.gated[i] += factor * b.gated[i];
  }
  return a;
}

// Nothing if the product has other terms.
std::optional<Polynomial> times(const Polynomial& a, const Polynomial& b) {
  Polynomial product;
  for (size_t i = 0; i < 4; ++i) {
    for (size_t k = 0; k < 4; ++k) {
      const double plain = a.plain[i] * b.plain[k];
      const double gated = a.plain[i] * b.gated[k] + a.gated[i] * b.plain[k], square = a.gated[i] * b.gated[k];
      if (square != 0 || (i + k > 3 && (plain != 0 || gated != 0))) return std::nullopt;
      if (i + k > 3) continue;
      product.plain[i + k] += plain;
      product.gated[i + k] += gated;
    }
  }
  return product;
}

// Reads tensors as polynomials of x and f.
class PolynomialReader {
 public:
  PolynomialReader(Rewriter& r, int x, int f) : r_(r), x_(x), f_(f) {}

  std::optional<Polynomial> read(int tensor) {
    if (tensor == x_) return Polynomial{{0, 1}, {}};
    if (tensor == f_) return Polynomial{{}, {1}};
    if (const Vector<float> number = channels_of(r_, tensor, 1); !number.empty())
      return Polynomial{{double{number[0]}}, {}};
    const Node* const node = r_.writer(tensor);
    if (node == nullptr || left_-- == 0) return std::nullopt;
    Power power;
    int base;
    if (read_power(r_, *node, &power, &base)) return read_power_of(base, power);
    const Arithmetic arithmetic = arithmetic_of(r_, *node);
    if (arithmetic == Arithmetic::none) return std::nullopt;
    const std::optional<Polynomial> a = read(node->inputs[0]), b = a ? read(node->inputs[1]) : std::nullopt;
    if (!b) return std::nullopt;
    switch (arithmetic) {
      case Arithmetic::add: return plus(*a, *b, 1);
      case Arithmetic::sub: return plus(*a, *b, -1);
      case Arithmetic::mul: return times(*a, *b);
      default: return std::nullopt;  // a division by a number has been read as a power
    }
  }

 private:
  std::optional<Polynomial> read_power_of(int base, const Power& power) {
    if (power.exponent != 1 && power.exponent != 2 && power.exponent != 3) return std::nullopt;
    const std::optional<Polynomial> x = read(base);
    if (!x) return std::nullopt;
    const Polynomial sum = plus(Polynomial{{power.bias}, {}}, *x, power.scale);
    std::optional<Polynomial> result = sum;
    for (int i = 1; i < static_cast<int>(power.exponent) && result; ++i) result = times(*result, sum);
    return result;
  }

  Rewriter& r_;
  int x_, f_;
  int left_ = 32;  // nodes that may still be read: more than any form has
};

bool are_close(const Coefficients& a, const Coefficients& b) {
  for (size_t i = 0; i < 4; ++i) {
    if (!is_close(a[i], b[i])) return false;
  }
  return true;
}

// The form of gelu that has this node within it.
struct Form {
  const char* kind;
  Coefficients argument;  // of the node
};
const Form* form_of(const Node& node) {
  static constexpr double root = 0.70710678118654752, tanh_scale = 0.79788456080286536;  // sqrt(1/2), sqrt(2/pi)
  static constexpr Form with_erf = {"gelu", {0, root}};
  static constexpr Form with_tanh = {"gelu_tanh", {0, tanh_scale, 0, tanh_scale * 0.044715}};
  if (is_kind(node, "erf")) return &with_erf;
  return node.kind == OpKind::tanh || is_kind(node, "any_tanh") ? &with_tanh : nullptr;
}

// The tensor x of which the argument is the polynomial of the form; no_tensor if there is none.
int find_x(Rewriter& r, int argument, const Coefficients& wanted) {
  constexpr size_t most = 16;
  Vector<int> candidates = {argument};
  for (size_t i = 0; i < candidates.size() && candidates.size() < most; ++i) {
    const auto polynomial = PolynomialReader(r, candidates[i], no_tensor).read(argument);
    if (polynomial && are_close(polynomial->plain, wanted)) return candidates[i];
    const Node* const node = r.writer(candidates[i]);
    if (node == nullptr) continue;
    for (const int input : node->inputs) {
      if (input != no_tensor && !r.is_constant(input)) candidates.push_back(input);
    }
  }
  return no_tensor;
}

// The tensor that is gelu of x, some nodes behind f.
int find_y(Rewriter& r, const Readers& readers, int x, int f) {
  constexpr int most = 6;
  for (int y = f, i = 0; i < most && r.read_once(y); ++i) {
    const std::span<const size_t> next = readers.of(y);
    if (next.empty() || r.removed(next[0]) || r.node(next[0]).outputs.size() != 1) return no_tensor;
    y = r.node(next[0]).outputs[0];
    const auto polynomial = PolynomialReader(r, x, f).read(y);
    if (!polynomial) return no_tensor;
    const Coefficients half_x = {0, 0.5};
    if (are_close(polynomial->plain, half_x) && are_close(polynomial->gated, half_x)) return y;
  }
  return no_tensor;
}

}  // namespace

qn_status recognize_gelu(Rewriter& r) {
  if (!may_make(r, "gelu") || !may_make(r, "gelu_tanh")) return QN_OK;
  const Readers readers(r);
  for (size_t i = 0; i < r.size(); ++i) {
    if (r.removed(i)) continue;
    const Form* const form = form_of(r.node(i));
    if (form == nullptr) continue;
    const int x = find_x(r, r.node(i).inputs[0], form->argument);
    const int y = x == no_tensor ? no_tensor : find_y(r, readers, x, r.node(i).outputs[0]);
    Vector<Node*> nodes;
    if (y == no_tensor || r.shape(x) != r.shape(y) || !find_between(r, {x}, y, &nodes)) continue;
    replace(r, nodes, form->kind, {x}, {});
  }
  return QN_OK;
}

}  // namespace quern
