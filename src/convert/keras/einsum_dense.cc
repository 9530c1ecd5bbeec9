// Imports Keras' EinsumDense: a product with weights, as an equation says.
#include <algorithm>

#include "convert/keras/node.h"

namespace quern::keras {
namespace {

// The terms of an equation: input, weights and result. Dots are at the same end of the first and the last, or nowhere.
struct Terms {
  std::string input, weights, result;
};

bool has_dots(const std::string& term) { return term.find("...") != std::string::npos; }

Terms terms_of(const KerasNode& node) {
  const std::string equation = node.text("equation", "");
  const size_t comma = equation.find(','), arrow = equation.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || arrow < comma) {
    node.fail("expected an equation of the form \"ab,bc->ac\", got \"" + equation + "\"");
  }
  const Terms terms = {equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1),
                       equation.substr(arrow + 2)};
  for (const std::string* term : {&terms.input, &terms.weights, &terms.result}) {
    const size_t dots = term->find("...");
    std::string letters = *term;
    if (dots != std::string::npos) letters.erase(dots, 3);
    const bool at_end = dots == std::string::npos || (term != &terms.weights && (dots == 0 || dots == letters.size()));
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    if (letters.empty() || !at_end || !std::all_of(letters.begin(), letters.end(), is_letter)) {
      node.fail("equation: expected letters and one ellipsis at most, got '" + *term + "'");
    }
  }
  const bool both_ends = has_dots(terms.input) == has_dots(terms.result);
  if (!both_ends || (has_dots(terms.input) && (terms.input[0] == '.') != (terms.result[0] == '.'))) {
    node.fail("expected the dots at the same end of both terms, got \"" + equation + "\"");
  }
  return terms;
}

// The term for a tensor of this rank: letters that the equation does not have in the place of dots.
std::string without_dots(const KerasNode& node, const Terms& terms, const std::string& term, size_t rank) {
  const size_t dots = term.find("...");
  if (dots == std::string::npos) {
    if (term.size() != rank) node.fail("'" + term + "' for " + std::to_string(rank) + " dimensions");
    return term;
  }
  if (rank > QN_MAX_RANK || term.size() - 3 > rank) {
    node.fail("'" + term + "' for " + std::to_string(rank) + " dimensions");
  }
  const std::string used = terms.input + terms.weights + terms.result;
  std::string more;
  for (char c = 'A'; more.size() < rank + 3 - term.size(); ++c) {
    if (c > 'Z') throw Unsupported{"an equation of so many letters"};
    if (used.find(c) == std::string::npos) more += c;
  }
  std::string all = term;
  return all.replace(dots, 3, more);
}

// The sizes of the letters: those of the input, and those that the field `output_shape` gives the result.
std::map<char, size_t> sizes_of_letters(const KerasNode& node, const std::string& input, const std::string& result,
                                        bool dots_last) {
  std::map<char, size_t> sizes;
  const Shape x = node.builder.shape(node.view(0));
  for (size_t d = 0; d < x.size(); ++d) sizes[input[d]] = x[d];
  const Json* given = node.find("output_shape");
  if (given == nullptr) node.fail("'output_shape' is missing");
  const Json list = given->is_array() ? *given : Json::array({*given});
  // The first dimension is not among them, nor are those of the dots.
  const size_t first = dots_last ? 1 : result.size() - std::min(result.size(), list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    if (first + i >= result.size()) node.fail("'output_shape' has too many numbers");
    if (list[i].is_null()) continue;
    const size_t size = node.size(integer_of(list[i], "layer '" + node.name + "': 'output_shape'"), "output_shape");
    const auto [at, fresh] = sizes.emplace(result[first + i], size);
    if (!fresh && at->second != size) node.fail("'output_shape' does not fit the input");
  }
  return sizes;
}

size_t size_of_letter(const KerasNode& node, const std::map<char, size_t>& sizes, char letter) {
  const size_t* const size = find_in(sizes, letter);
  if (size == nullptr) node.fail(std::string("the equation does not say the size of '") + letter + "'");
  return *size;
}

// The bias with the dimensions of the result from its first one on.
View einsum_bias(const KerasNode& node, const std::string& result, const std::map<char, size_t>& sizes) {
  const std::string axes = node.text("bias_axes", "");
  if (axes.empty()) return {};
  size_t first = result.size();
  for (const char axis : axes) {
    const size_t at = result.find(axis);
    if (at == std::string::npos) node.fail("'bias_axes' has '" + std::string(1, axis) + "', the result has not");
    first = std::min(first, at);
  }
  Shape shape;
  for (size_t d = first; d < result.size(); ++d) {
    const bool has = axes.find(result[d]) != std::string::npos;
    shape.push_back(has ? size_of_letter(node, sizes, result[d]) : 1);
  }
  return node.weight("bias", shape);
}

// Whether the last letters of the input are those of the weights' first dimensions, and the result has the others in
// their place: a product of matrices.
bool is_matrix_product(const std::string& input, const std::string& weights, const std::string& result,
                       size_t* summed) {
  for (size_t n = 1; n < std::min(input.size(), weights.size()); ++n) {
    if (input.substr(input.size() - n) != weights.substr(0, n)) continue;
    if (result != input.substr(0, input.size() - n) + weights.substr(n)) continue;
    *summed = n;
    return true;
  }
  return false;
}

// Dimensions that are summed, and those that are new, become one each.
View matrix_product(const KerasNode& node, const View& kernel, size_t summed, const View& bias) {
  Builder& builder = node.builder;
  const Shape shape = builder.shape(kernel);
  size_t in = 1;
  for (size_t d = 0; d < summed; ++d) in *= shape[d];
  const View matrix = builder.reshape(node.name + "/matrix", kernel, {static_cast<int64_t>(in), -1});
  View x = node.view(0);
  const size_t outer = x.rank() - summed;
  std::vector<int64_t> merged(outer, 0), back(outer, 0);
  merged.push_back(static_cast<int64_t>(in));
  if (summed > 1) x = builder.reshape(node.name + "/rows", x, merged);
  const Shape split(shape.begin() + summed, shape.end());
  const bool has_row = bias && builder.shape(bias) == split;
  View row;
  if (has_row) row = builder.reshape(node.name + "/bias", bias, {-1});
  View y = builder.fully_connected(node.name, x, builder.permute(matrix, {1, 0}), row);
  for (size_t d = summed; d < shape.size(); ++d) back.push_back(static_cast<int64_t>(shape[d]));
  if (shape.size() - summed > 1) y = builder.reshape(node.name + "/split", y, back);
  return bias && !has_row ? builder.binary(OpKind::add, node.name + "/sum", y, bias) : y;
}

Values einsum_dense(const KerasNode& node) {
  const Terms terms = terms_of(node);
  const size_t rank = node.view(0).rank(), dots = has_dots(terms.input) ? rank + 3 - terms.input.size() : 0;
  const std::string input = without_dots(node, terms, terms.input, rank);
  const std::string result = without_dots(
      node, terms, terms.result, has_dots(terms.result) ? terms.result.size() - 3 + dots : terms.result.size());
  const bool dots_last = !has_dots(terms.input) || terms.input[0] != '.';
  const std::map<char, size_t> sizes = sizes_of_letters(node, input, result, dots_last);
  Shape shape;
  for (const char letter : terms.weights) shape.push_back(size_of_letter(node, sizes, letter));
  for (size_t d = 0; d < rank; ++d) {
    if (terms.weights.find(input[d]) != std::string::npos) node.fix(node.dimension(0, d).symbol);
  }
  const View kernel = node.weight("kernel", shape), bias = einsum_bias(node, result, sizes);
  size_t summed;
  if (is_matrix_product(input, terms.weights, result, &summed)) {
    return {with_activation(node, matrix_product(node, kernel, summed, bias))};
  }
  const std::string equation = input + "," + terms.weights + "->" + result;
  View y = node.custom("einsum", {node.view(0), kernel},
                       Parameters().integers("equation", {equation.begin(), equation.end()}), {ElementType::f32})[0]
               .view;
  if (bias) y = node.builder.binary(OpKind::add, node.name + "/sum", y, bias);
  return {with_activation(node, y)};
}

}  // namespace

const KerasRow* find_einsum_dense(const std::string& type) {
  static const KerasTable kinds = {{"EinsumDense", {einsum_dense, 1, 1}}};
  return find_in(kinds, type);
}

}  // namespace quern::keras
