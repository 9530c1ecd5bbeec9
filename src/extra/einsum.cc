// Sums of products by Einstein's notation: "bij,bjk->bik".
//
// Every dimension has a label. Operands are contracted two by two: labels that neither the output nor a later operand
// needs are summed over. A contraction is a stack of matrix products, for which both operands are copied into the order
// [labels of both, own labels, summed labels].
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "extra/library.h"
#include "extra/node.h"

namespace quern::extra {
namespace einsum {
namespace {

// Labels are numbers: letters' codes, and above those the dimensions of "...", counted from the innermost.
using Labels = std::vector<int>;
constexpr int ellipsis = 256;

struct Equation {
  std::vector<Labels> operands;
  Labels output;
  std::vector<size_t> sizes = std::vector<size_t>(ellipsis + QN_MAX_RANK, 1);  // of each label
};

bool contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Reads the labels of one operand of `rank` dimensions. "..." stands for those that have no letters.
Labels labels_of(const Node& node, const std::string& term, size_t rank) {
  const size_t dots = term.find("...");
  const size_t letters = dots == std::string::npos ? term.size() : term.size() - 3;
  if (letters > rank || (dots == std::string::npos && letters != rank)) {
    node.fail("'" + term + "' for " + std::to_string(rank) + " dimensions");
  }
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (i == dots) {
      for (size_t d = rank - letters; d-- > 0;) labels.push_back(ellipsis + static_cast<int>(d));
      i += 2;
    } else if (is_letter(term[i])) {
      labels.push_back(term[i]);
    } else {
      node.fail("expected letters and one ellipsis at most, got term '" + term + "'");
    }
  }
  return labels;
}

void set_sizes(const Node& node, Equation* equation) {
  for (size_t i = 0; i < equation->operands.size(); ++i) {
    const Labels& labels = equation->operands[i];
    for (size_t d = 0; d < labels.size(); ++d) {
      size_t& size = equation->sizes[static_cast<size_t>(labels[d])];
      const size_t own = node.shape(i)[d];
      if (size != 1 && own != 1 && size != own)
        node.fail("a label has the sizes " + std::to_string(size) + " and " + std::to_string(own));
      if (own != 1) size = own;
    }
  }
}

// Without "->": dimensions of "...", then letters that occur once, in alphabetical order.
Labels implicit_output(const std::vector<Labels>& operands) {
  Labels all;
  for (const Labels& labels : operands) all.insert(all.end(), labels.begin(), labels.end());
  std::sort(all.begin(), all.end());
  Labels output;
  for (size_t d = QN_MAX_RANK; d-- > 0;) {
    if (contains(all, ellipsis + static_cast<int>(d))) output.push_back(ellipsis + static_cast<int>(d));
  }
  for (const int label : all) {
    if (label < ellipsis && std::count(all.begin(), all.end(), label) == 1) output.push_back(label);
  }
  return output;
}

std::string text_of(const Node& node) {
  std::string text;
  for (const int64_t code : node.integers("equation")) {
    if (code <= 0 || code > 127) node.fail("the equation is not ASCII");
    if (code != ' ') text.push_back(static_cast<char>(code));
  }
  return text;
}

Equation equation_of(const Node& node) {
  const std::string text = text_of(node);
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation equation;
  size_t most = 0;  // dimensions of "..."
  for (size_t begin = 0; begin <= left.size();) {
    const size_t end = std::min(left.find(',', begin), left.size());
    const size_t i = equation.operands.size();
    if (i >= node.input_count() || !node.has(i)) node.fail("the equation has more terms than there are inputs");
    node.expect(i, node.type(0));
    equation.operands.push_back(labels_of(node, left.substr(begin, end - begin), node.rank(i)));
    for (const int label : equation.operands.back())
      most = std::max(most, static_cast<size_t>(std::max(0, label - ellipsis + 1)));
    begin = end + 1;
  }
  if (equation.operands.size() != node.input_count()) node.fail("the equation has fewer terms than there are inputs");
  set_sizes(node, &equation);
  if (arrow == std::string::npos) {
    equation.output = implicit_output(equation.operands);
  } else {
    const std::string right = text.substr(arrow + 2);
    const bool dots = right.find("...") != std::string::npos;
    equation.output = labels_of(node, right, right.size() - (dots ? 3 : 0) + (dots ? most : 0));
  }
  for (const int label : equation.output) {
    const bool known = std::any_of(equation.operands.begin(), equation.operands.end(),
                                   [&](const Labels& labels) { return contains(labels, label); });
    if (!known) node.fail("a label of the output is in no term");
    if (std::count(equation.output.begin(), equation.output.end(), label) != 1)
      node.fail("a label is twice in the output");
  }
  return equation;
}

Shape shape_of(const Equation& equation, const Labels& labels) {
  Shape shape;
  for (const int label : labels) shape.push_back(equation.sizes[static_cast<size_t>(label)]);
  return shape;
}

void infer_einsum(Inference& node) {
  const Equation equation = equation_of(node);
  node.set(0, node.type(0), shape_of(equation, equation.output));
}

// ---- runs

// A tensor with labels. Labels may repeat, and a dimension of 1 stands for any size of its label.
template <class T>
struct Term {
  Labels labels;
  Shape shape;
  const T* data;
  std::vector<T> own;  // what `data` points to, if it is no input
};

// The distances of elements along `labels`.
template <class T>
Shape strides_along(const Term<T>& term, const Labels& labels) {
  const Shape own = strides_of(term.shape);
  Shape strides(labels.size(), 0);
  for (size_t d = 0; d < term.labels.size(); ++d) {
    const auto at = std::find(labels.begin(), labels.end(), term.labels[d]);
    if (at != labels.end() && term.shape[d] != 1) strides[static_cast<size_t>(at - labels.begin())] += own[d];
  }
  return strides;
}

size_t checked_count(const Shape& shape) {
  size_t n = 1;
  for (const size_t d : shape) n = Layout::product(n, d);
  return n;
}

// Copies the term into the order of `labels`, which has all labels of the term. Others repeat.
template <class T>
std::vector<T> ordered(const Equation& equation, const Term<T>& term, const Labels& labels) {
  const Shape shape = shape_of(equation, labels);
  std::vector<T> out(checked_count(shape));
  walk(shape, {strides_along(term, labels)}, [&](size_t i, const size_t* at) { out[i] = term.data[at[0]]; });
  return out;
}

// Writes the term in the order of `labels`, and sums over its other labels.
template <class T>
void write(const Equation& equation, const Term<T>& term, const Labels& labels, T* out) {
  Labels summed;
  for (const int label : term.labels) {
    if (!contains(labels, label) && !contains(summed, label)) summed.push_back(label);
  }
  const Shape inner = shape_of(equation, summed), inner_strides = strides_along(term, summed);
  walk(shape_of(equation, labels), {strides_along(term, labels)}, [&](size_t i, const size_t* at) {
    T sum = 0;
    walk(inner, {inner_strides}, [&](size_t, const size_t* more) {
      const T x = term.data[at[0] + more[0]];
      if constexpr (std::is_same_v<T, float>)
        sum += x;
      else
        sum = static_cast<T>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(x));
    });
    out[i] = sum;
  });
}

// Sums over the labels of a term that nothing else needs, so that they do not multiply the size of a product.
template <class T>
Term<T> without_own_labels(const Equation& equation, Term<T> term, const Labels& needed) {
  Term<T> result;
  for (const int label : term.labels) {
    if (contains(needed, label) && !contains(result.labels, label)) result.labels.push_back(label);
  }
  if (std::all_of(term.labels.begin(), term.labels.end(), [&](int label) { return contains(needed, label); }))
    return term;
  result.shape = shape_of(equation, result.labels);
  result.own.resize(checked_count(result.shape));
  write(equation, term, result.labels, result.own.data());
  result.data = result.own.data();
  return result;
}

Labels joined(const Labels& a, const Labels& b) {
  Labels all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// The labels of two terms by what becomes of them.
struct Contraction {
  Labels both, first, second, summed;
};
Contraction contraction_of(const Labels& a, const Labels& b, const Labels& needed) {
  Contraction c;
  const Labels all = joined(a, b);
  for (size_t i = 0; i < all.size(); ++i) {
    const int label = all[i];
    if (std::find(all.begin(), all.begin() + static_cast<ptrdiff_t>(i), label) - all.begin() <
        static_cast<ptrdiff_t>(i))
      continue;
    const bool in_a = contains(a, label), in_b = contains(b, label);
    (!contains(needed, label) ? c.summed : in_a && in_b ? c.both : in_a ? c.first : c.second).push_back(label);
  }
  return c;
}

template <class T>
Term<T> contracted(const Equation& equation, const Term<T>& a, const Term<T>& b, const Labels& needed,
                   const qn_parallel* parallel) {
  const Contraction c = contraction_of(a.labels, b.labels, needed);
  const std::vector<T> left = ordered(equation, a, joined(joined(c.both, c.first), c.summed));
  const std::vector<T> right = ordered(equation, b, joined(joined(c.both, c.second), c.summed));
  const size_t m = count(shape_of(equation, c.first)), n = count(shape_of(equation, c.second));
  const size_t k = count(shape_of(equation, c.summed)), stack = count(shape_of(equation, c.both));
  Term<T> result;
  result.labels = joined(joined(c.both, c.first), c.second);
  result.shape = shape_of(equation, result.labels);
  result.own.resize(checked_count(result.shape));
  for (size_t i = 0; i < stack; ++i) {
    matrix_product(m, n, k, Factor<T>{left.data() + i * m * k, k}, Factor<T>{right.data() + i * n * k, k, true},
                   result.own.data() + i * m * n, parallel);
  }
  result.data = result.own.data();
  return result;
}

template <class T>
void einsum(const Run& node) {
  const Equation equation = equation_of(node);
  if (std::count(equation.sizes.begin(), equation.sizes.end(), 0u) > 0) {  // sums of nothing: others may be of any size
    std::fill_n(node.output<T>(0), count(node.output_shape(0)), T{0});
    return;
  }
  Term<T> result{equation.operands[0], node.shape(0), node.data<T>(0), {}};
  for (size_t i = 1; i < equation.operands.size(); ++i) {
    Labels needed = equation.output;
    for (size_t later = i + 1; later < equation.operands.size(); ++later)
      needed = joined(needed, equation.operands[later]);
    Term<T> next{equation.operands[i], node.shape(i), node.data<T>(i), {}};
    result = without_own_labels(equation, std::move(result), joined(needed, next.labels));
    next = without_own_labels(equation, std::move(next), joined(needed, result.labels));
    result = contracted(equation, result, next, needed, node.parallel());
  }
  write(equation, result, equation.output, node.output<T>(0));
}

void run_einsum(const Run& node) {
  switch (node.type(0)) {
    case QN_F32: return einsum<float>(node);
    case QN_S32: return einsum<int32_t>(node);
    case QN_S64: return einsum<int64_t>(node);
    default: node.fail("sums of products of " + std::string(qn_type_string(node.type(0))));
  }
}

constexpr qn_kind kinds[] = {
    kind<infer_einsum, unless_empty<run_einsum>>("einsum", {1, 64}, 1),
};

}  // namespace
}  // namespace einsum

Kinds einsum_kinds() { return needed<einsum::kinds>(); }

}  // namespace quern::extra
