#include "convert/node_macs.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "graph/ir/kinds.h"
#include "graph/ir/rules.h"

namespace quern {
namespace {

uint64_t elements_in(const Shape& shape) {
  uint64_t count = 1;
  for (const size_t d : shape) count *= d;
  return count;
}

// The shapes of a node's tensors, without sizes where a tensor is absent.
struct Shapes {
  const Graph& graph;
  const Node& node;

  bool has(size_t i) const { return i < node.inputs.size() && node.inputs[i] != no_tensor; }
  const Shape& input(size_t i) const {
    static const Shape none;
    return has(i) ? tensor_of(graph, node.inputs[i]).shape : none;
  }
  const Shape& output() const { return tensor_of(graph, node.outputs[0]).shape; }
};

uint64_t last(const Shape& shape) { return shape.empty() ? 1 : shape.back(); }

// [..., m, k] by [..., k, n]
uint64_t matmul(const Shapes& s) { return elements_in(s.output()) * last(s.input(0)); }

// [m, k] by [k, n]; either may be transposed.
uint64_t gemm(const Shapes& s) {
  const uint64_t m = s.output().empty() ? 0 : s.output()[0];
  return m == 0 ? 0 : elements_in(s.output()) * (elements_in(s.input(0)) / m);
}

// Weights [output channels, ...].
template <size_t weights>
uint64_t convolution(const Shapes& s) {
  const Shape& w = s.input(weights);
  return w.empty() || w[0] == 0 ? 0 : elements_in(s.output()) * (elements_in(w) / w[0]);
}

// Weights [input channels, ...].
uint64_t transposed(const Shapes& s) {
  const Shape& w = s.input(1);
  return w.empty() || w[0] == 0 ? 0 : elements_in(s.input(0)) * (elements_in(w) / w[0]);
}

// x [steps, batch, inputs] or [batch, steps, inputs]; weights of the inputs and of the state, for each direction.
uint64_t recurrent(const Shapes& s) {
  const uint64_t inputs = last(s.input(0));
  return inputs == 0 ? 0 : elements_in(s.input(0)) / inputs * (elements_in(s.input(1)) + elements_in(s.input(2)));
}

// Queries by keys, then weights by values; the heads of a row lie together or apart.
uint64_t attention(const Shapes& s) {
  const Shape &q = s.input(0), &k = s.input(1), &past = s.input(4);
  if (q.size() < 3 || k.size() < 3 || q.back() == 0) return 0;
  const uint64_t keys = k[k.size() - 2] + (past.size() == 4 ? past[2] : 0);
  return elements_in(q) / q.back() * keys * (q.back() + last(s.output()));
}

// The product of the sizes of all labels: each is an index of the sum or of the result.
uint64_t einsum(const Shapes& s) {
  std::string equation;
  for (const Parameter& parameter : s.node.parameters) {
    if (std::strcmp(parameter.name.c_str(), "equation") != 0) continue;
    for (const int64_t code : parameter.integers) equation += static_cast<char>(code);
  }
  std::map<int, uint64_t> sizes;
  size_t operand = 0, d = 0;
  for (size_t i = 0; i < equation.size() && equation[i] != '-'; ++i) {
    const char c = equation[i];
    const Shape& shape = s.input(operand);
    if (c == ',') {
      ++operand;
      d = 0;
    } else if (equation.compare(i, 3, "...") == 0) {
      const std::string term = equation.substr(i + 3, equation.find_first_of(",-", i) - i - 3);
      const size_t behind =
          static_cast<size_t>(std::count_if(term.begin(), term.end(), [](char l) { return l > '.'; }));
      for (; d + behind < shape.size(); ++d) {  // numbered from the innermost, and below 0: no letter
        uint64_t& size = sizes[static_cast<int>(d + behind) - static_cast<int>(shape.size())];
        size = std::max<uint64_t>(size, shape[d]);
      }
      i += 2;
    } else if (c > '.' && d < shape.size()) {
      uint64_t& size = sizes[c];
      size = std::max<uint64_t>(size, shape[d++]);
    }
  }
  if (operand == 0) return 0;
  uint64_t count = 1;
  for (const auto& [label, size] : sizes) count *= size;
  return count;
}

struct Row {
  const char* kind;
  uint64_t (*count)(const Shapes& shapes);
};
constexpr Row rows[] = {
    {"attention", attention},
    {"conv", convolution<1>},
    {"conv_integer", convolution<1>},
    {"conv_quantized", convolution<3>},
    {"conv_transposed", transposed},
    {"deform_conv", convolution<1>},
    {"einsum", einsum},
    {"gemm", gemm},
    {"gru", recurrent},
    {"lstm", recurrent},
    {"mat_mul_integer", matmul},
    {"mat_mul_quantized", matmul},
    {"matmul", matmul},
    {"rnn", recurrent},
};

const Row* row_of(const Node& node) {
  if (node.kind != OpKind::custom) return nullptr;
  const auto* const found = std::find_if(std::begin(rows), std::end(rows),
                                         [&](const Row& row) { return std::strcmp(row.kind, node.type.c_str()) == 0; });
  return found == std::end(rows) ? nullptr : found;
}

}  // namespace

bool multiplies(const Node& node) { return row_of(node) != nullptr || kind_of(node.kind).has_weights(); }

std::optional<uint64_t> macs_of(const Graph& graph, const Node& node) {
  if (!multiplies(node)) return 0;
  for (const Vector<int>* tensors : {&node.inputs, &node.outputs}) {
    for (const int t : *tensors) {
      if (t != no_tensor && tensor_of(graph, t).sized_by_run) return std::nullopt;
    }
  }
  const Row* const row = row_of(node);
  if (row != nullptr) return row->count({graph, node});
  return elements_in(tensor_of(graph, node.outputs[0]).shape) * terms_of(graph, node);
}

}  // namespace quern
