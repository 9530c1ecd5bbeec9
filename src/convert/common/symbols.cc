#include "convert/common/symbols.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <utility>

#include "base/math.h"
#include "convert/common/kind_symbols.h"
#include "graph/ir/rules.h"

namespace quern::convert {

// ---- symbols ----------------------------------------------------------------------------------

// Returns the symbol of this recipe, and makes it at the first use. If `product` has no factors, the new symbol is its
// own only factor.
Symbol Symbols::add(const std::vector<int64_t>& recipe, Sources sources, Product product) {
  const auto [at, fresh] = known_.try_emplace(recipe, static_cast<Symbol>(entries_.size()));
  if (fresh) {
    if (product.symbols.empty()) product = {1, 1, {at->second}};
    entries_.push_back({.sources = std::move(sources), .product = std::move(product)});
  }
  return at->second;
}

Symbol Symbols::result(char operation, const std::vector<int64_t>& arguments, const std::vector<Number>& numbers) {
  std::vector<int64_t> recipe = {operation, static_cast<int64_t>(arguments.size())};
  recipe.insert(recipe.end(), arguments.begin(), arguments.end());
  Sources all;
  for (const Number& number : numbers) {
    recipe.push_back(number.symbol);
    if (number.symbol == no_symbol) recipe.push_back(number.value);
    const Sources& some = sources(number.symbol);
    all.insert(some.begin(), some.end());
  }
  if (all.empty()) return no_symbol;
  const Symbol symbol = add(recipe, std::move(all), {});
  Entry& entry = entries_[static_cast<size_t>(symbol)];
  if (numbers.size() == 2) entry.operation = operation, entry.numbers = numbers;
  return symbol;
}

// Returns false if the product is too large, or has too many factors: each of a chain of squares has twice as many.
bool Symbols::multiply(Product* product, const Number& by) const {
  constexpr size_t most = 16;
  if (by.symbol == no_symbol) return checked_mul(product->numerator, by.value, &product->numerator);
  const Product& other = entries_[static_cast<size_t>(by.symbol)].product;
  if (product->symbols.size() + other.symbols.size() > most) return false;
  product->symbols.insert(product->symbols.end(), other.symbols.begin(), other.symbols.end());
  return checked_mul(product->numerator, other.numerator, &product->numerator) &&
         checked_mul(product->denominator, other.denominator, &product->denominator);
}

// Divides the product by a number. Returns false if the result is not a product of symbols.
bool Symbols::divide(Product* product, const Number& by) const {
  if (by.symbol == no_symbol)
    return by.value != 0 && checked_mul(product->denominator, by.value, &product->denominator);
  const Product& other = entries_[static_cast<size_t>(by.symbol)].product;
  if (other.numerator == 0) return false;
  for (const Symbol symbol : other.symbols) {
    const auto at = std::find(product->symbols.begin(), product->symbols.end(), symbol);
    if (at == product->symbols.end()) return false;
    product->symbols.erase(at);
  }
  return checked_mul(product->numerator, other.denominator, &product->numerator) &&
         checked_mul(product->denominator, other.numerator, &product->denominator);
}

Symbols::Product Symbols::in_lowest_terms(Product product) {
  if (const int64_t common = std::gcd(product.numerator, product.denominator); common > 1) {
    product.numerator /= common;
    product.denominator /= common;
  }
  std::sort(product.symbols.begin(), product.symbols.end());
  return product;
}

Symbol Symbols::symbol_of(const Product& product) {
  if (product.symbols.empty()) return no_symbol;
  Product lowest = in_lowest_terms(product);
  if (lowest.numerator == 1 && lowest.denominator == 1 && lowest.symbols.size() == 1) return lowest.symbols[0];
  const std::vector<int64_t> recipe = recipe_of(lowest);
  Sources all;
  for (const Symbol symbol : lowest.symbols) all.insert(sources(symbol).begin(), sources(symbol).end());
  return add(recipe, std::move(all), std::move(lowest));
}

std::vector<int64_t> Symbols::recipe_of(const Product& lowest) {
  std::vector<int64_t> recipe = {'*', lowest.numerator, lowest.denominator};
  recipe.insert(recipe.end(), lowest.symbols.begin(), lowest.symbols.end());
  return recipe;
}

bool Symbols::is_size(const Number& number, size_t depth) const {
  if (number.symbol == no_symbol) return number.value >= 0;
  const Entry& entry = entries_[static_cast<size_t>(number.symbol)];
  const auto is_size_alone = [&](Symbol symbol) {
    if (find(symbol).first != no_tensor) return true;
    const Entry& factor = entries_[static_cast<size_t>(symbol)];
    const bool adds = factor.operation == 'A';
    const bool divides =
        factor.operation == 'D' && factor.numbers[1].symbol == no_symbol && factor.numbers[1].value > 0;
    return (adds || divides) && depth > 0 &&
           std::all_of(factor.numbers.begin(), factor.numbers.end(),
                       [&](const Number& part) { return is_size(part, depth - 1); });
  };
  return entry.product.numerator > 0 &&
         std::all_of(entry.product.symbols.begin(), entry.product.symbols.end(), is_size_alone);
}

// Adds the terms of a number, each with this sign. Quotients of integers round towards 0, whatever their sign.
bool Symbols::add_terms(const Number& number, int64_t sign, size_t depth, std::vector<Product>* terms) const {
  constexpr size_t most = 32;
  if (depth > most || terms->size() > most) return false;
  if (number.symbol == no_symbol) {
    terms->push_back({number.value, 1, {}});
    return checked_mul(sign, number.value, &terms->back().numerator);
  }
  const Entry& entry = entries_[static_cast<size_t>(number.symbol)];
  const auto has_tensor = [this](Symbol symbol) { return find(symbol).first != no_tensor; };
  if (std::all_of(entry.product.symbols.begin(), entry.product.symbols.end(), has_tensor)) {
    terms->push_back(entry.product);
    return checked_mul(sign, entry.product.numerator, &terms->back().numerator);
  }
  if (entry.product.symbols.size() > 1 || entry.product.numerator != 1) {
    return add_multiple(entry.product, sign, depth, terms);
  }
  if (entry.operation == 'A' || entry.operation == 'S') {
    return add_terms(entry.numbers[0], sign, depth + 1, terms) &&
           add_terms(entry.numbers[1], entry.operation == 'A' ? sign : -sign, depth + 1, terms);
  }
  if (entry.operation != 'D' || entry.numbers[1].symbol != no_symbol || entry.numbers[1].value <= 0) return false;
  std::vector<Product> divided;
  if (!add_terms(entry.numbers[0], sign, depth + 1, &divided)) return false;
  int64_t& denominator = divided.back().denominator;
  if (divided.size() == 1 && denominator > 0) {
    terms->push_back(divided[0]);
    return checked_mul(denominator, entry.numbers[1].value, &terms->back().denominator);
  }
  if (denominator != 1) return false;
  denominator = -entry.numbers[1].value;
  return put_first(divided, terms);
}

// A denominator below 0 divides the sum so far, and one of 0 multiplies it, so that sum comes first.
bool Symbols::put_first(const std::vector<Product>& sum, std::vector<Product>* terms) {
  const auto changes_sum = [](const Product& term) { return term.denominator <= 0; };
  if (std::any_of(terms->begin(), terms->end(), changes_sum)) return false;
  terms->insert(terms->begin(), sum.begin(), sum.end());
  return true;
}

// The same for a product of dimensions that tensors have and one other symbol, such as a quotient that was rounded.
bool Symbols::add_multiple(const Product& product, int64_t sign, size_t depth, std::vector<Product>* terms) const {
  std::optional<Symbol> other;
  Product factor{product.numerator, 0, {}};
  for (const Symbol symbol : product.symbols) {
    if (find(symbol).first != no_tensor) {
      factor.symbols.push_back(symbol);
    } else if (std::exchange(other, symbol)) {
      return false;
    }
  }
  std::vector<Product> sum;
  if (product.denominator != 1 || !checked_mul(sign, factor.numerator, &factor.numerator)) return false;
  if (!add_terms({0, *other}, 1, depth + 1, &sum)) return false;
  sum.push_back(std::move(factor));
  return put_first(sum, terms);
}

std::vector<Symbols::Product> Symbols::sum_of(const Number& number) const {
  std::vector<Product> terms;
  return add_terms(number, 1, 0, &terms) ? terms : std::vector<Product>();
}

Symbol Symbols::product(const Number& a, const Number& b) {
  if (a.symbol == no_symbol && b.symbol == no_symbol) return no_symbol;
  Product product;
  const bool fits = multiply(&product, a) && multiply(&product, b);
  return fits ? symbol_of(product) : result('x', {}, {a, b});
}

// ---- tensors ----------------------------------------------------------------------------------

void Symbols::add_input(size_t input, int tensor, size_t rank) {
  std::vector<Symbol>& symbols = symbols_of_[tensor];
  for (size_t d = 0; d < rank; ++d) {
    symbols.push_back(add({'i', static_cast<int64_t>(input), static_cast<int64_t>(d)}, {{input, d}}, {}));
  }
}

void Symbols::add_node(const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    std::optional<std::vector<Symbol>> known;
    if (node.kind == OpKind::custom) known = symbols_of_kind(*this, graph, node, i);
    const bool sized = !graph.tensors[static_cast<size_t>(node.outputs[i])].sized_by_run;
    if (node.kind != OpKind::custom && i == 0 && sized) known = infer(graph, node);
    symbols_of_[node.outputs[i]] = known ? *std::move(known) : unknown(graph, node, i);
  }
}

Symbol Symbols::of(int tensor, size_t dimension) const {
  const auto at = symbols_of_.find(tensor);
  return at == symbols_of_.end() ? no_symbol : at->second.at(dimension);  // constants have no symbols
}

std::pair<int, size_t> Symbols::find(Symbol symbol) const {
  for (const auto& [tensor, symbols] : symbols_of_) {
    const auto at = std::find(symbols.begin(), symbols.end(), symbol);
    if (at != symbols.end()) return {tensor, static_cast<size_t>(at - symbols.begin())};
  }
  return {no_tensor, 0};
}

Symbols::Dimensions Symbols::dimensions(const Graph& graph, int tensor) const {
  Dimensions dimensions;
  for (const size_t size : graph.tensors[static_cast<size_t>(tensor)].shape) {
    dimensions.push_back({static_cast<int64_t>(size), of(tensor, dimensions.size())});
  }
  return dimensions;
}

namespace {
std::vector<Symbol> symbols(const std::vector<Symbols::Number>& dimensions) {
  std::vector<Symbol> symbols;
  for (const Symbols::Number& dimension : dimensions) symbols.push_back(dimension.symbol);
  return symbols;
}
}  // namespace

// ---- nodes ------------------------------------------------------------------------------------

Symbol Symbols::window(const Number& in, size_t kernel, size_t stride, size_t dilation, size_t padding, bool ceil) {
  const size_t shrinks = (kernel - 1) * dilation;
  if (stride == 1 && padding == shrinks) return in.symbol;
  return result('w', {static_cast<int64_t>(shrinks), static_cast<int64_t>(stride), static_cast<int64_t>(padding), ceil},
                {in});
}

Symbol Symbols::broadcast(const Number& a, const Number& b) {
  if (a.symbol == b.symbol) return a.symbol;
  // If one size is fixed and not 1, the other must be 1 or equal to it: the result is the fixed size.
  if (a.symbol == no_symbol) return a.value == 1 ? b.symbol : no_symbol;
  if (b.symbol == no_symbol) return b.value == 1 ? a.symbol : no_symbol;
  return result('b', {}, {a, b});
}

std::optional<Symbols::Number> Symbols::quotient(const Dimensions& from, const Dimensions& by) {
  Product rest;
  bool fits = true;
  for (const Number& number : from) fits = fits && multiply(&rest, number);
  for (const Number& number : by) fits = fits && divide(&rest, number);
  return fits ? std::optional(Number{rest.numerator / rest.denominator, symbol_of(rest)}) : std::nullopt;
}

// Returns the symbol of the dimension that a reshape infers (-1).
Symbol Symbols::inferred(const Dimensions& from, const Vector<int64_t>& values) {
  Dimensions others;
  for (size_t d = 0; d < values.size(); ++d) {
    const int64_t copied = copied_dimension(values[d], d);
    if (copied >= 0) others.push_back(from[static_cast<size_t>(copied)]);
    if (values[d] > 0) others.push_back({values[d]});
  }
  const std::optional<Number> exact = quotient(from, others);
  return exact ? exact->symbol : result('r', {values.begin(), values.end()}, from);
}

// If both bounds count from the same end, the number of elements between them does not change.
Symbol Symbols::sliced(const Number& in, int64_t begin, int64_t end) {
  if (begin == 0 && end == -1) return in.symbol;
  return (begin < 0) == (end < 0) ? no_symbol : result('s', {begin, end}, {in});
}

std::vector<Symbol> Symbols::windows(const Dimensions& x, qn_hw kernel, const Attributes& a, Symbol channels) {
  const qn_padding& p = a.padding;
  return {x[0].symbol, window(x[1], kernel.h, a.stride.h, a.dilation.h, p.top + p.bottom, a.ceil_mode),
          window(x[2], kernel.w, a.stride.w, a.dilation.w, p.left + p.right, a.ceil_mode), channels};
}

std::vector<Symbol> Symbols::broadcast(Dimensions a, Dimensions b) {
  const size_t rank = std::max(a.size(), b.size());
  for (Dimensions* shape : {&a, &b}) shape->insert(shape->begin(), rank - shape->size(), Number{1});
  std::vector<Symbol> out;
  for (size_t d = 0; d < rank; ++d) out.push_back(broadcast(a[d], b[d]));
  return out;
}

std::vector<Symbol> Symbols::joined(const Graph& graph, const Node& node) {
  const auto axis = static_cast<size_t>(node.attributes.axis);
  Dimensions parts;
  std::vector<Symbol> out = symbols(dimensions(graph, node.inputs[0]));
  for (const int input : node.inputs) {
    const Dimensions part = dimensions(graph, input);
    parts.push_back(part[axis]);
    for (size_t d = 0; d < part.size(); ++d) {
      if (part[d].symbol == no_symbol) out[d] = no_symbol;  // all inputs have this size
    }
  }
  out[axis] = parts.size() == 1 ? parts[0].symbol : result('c', {}, parts);
  return out;
}

std::vector<Symbol> Symbols::reshaped(const Dimensions& from, const Vector<int64_t>& values) {
  std::vector<Symbol> out;
  for (size_t d = 0; d < values.size(); ++d) {
    const int64_t copied = copied_dimension(values[d], d);
    out.push_back(values[d] > 0 ? no_symbol
                  : copied < 0  ? inferred(from, values)
                                : from[static_cast<size_t>(copied)].symbol);
  }
  return out;
}

Symbol Symbols::padded(const Number& in, int64_t more) { return more == 0 ? in.symbol : result('p', {more}, {in}); }

// A scale of 0 means that the node resizes to a given size.
Symbol Symbols::scaled(const Number& in, float scale) {
  if (scale == 0) return no_symbol;
  return scale == 1 ? in.symbol : result('z', {std::bit_cast<int32_t>(scale)}, {in});
}

// Returns new symbols for an output. The sizes depend on all sizes of the node's inputs, and equal no other size.
std::vector<Symbol> Symbols::unknown(const Graph& graph, const Node& node, size_t index) {
  Dimensions all;
  for (const int input : node.inputs) {
    if (input == no_tensor) continue;
    const Dimensions some = dimensions(graph, input);
    all.insert(all.end(), some.begin(), some.end());
  }
  const int output = node.outputs[index];
  std::vector<Symbol> out;
  for (size_t d = 0; d < graph.tensors[static_cast<size_t>(output)].shape.size(); ++d) {
    out.push_back(result('u', {output, static_cast<int64_t>(d)}, all));
  }
  return out;
}

// One of the numbers below, whose factors begin at *next. A sum that is divided or multiplied is made of its dimensions.
std::optional<Symbols::Number> Symbols::counted_number(const Graph& graph, const Node& node,
                                                       const Vector<int64_t>& factors, size_t* next) {
  std::vector<int64_t> all;
  std::optional<Number> sum;
  Dimensions from;
  bool is_sum = true, goes_on = true;
  while (goes_on && *next + 2 < factors.size()) {
    const int64_t denominator = factors[*next + 1];
    Product product{factors[*next], 1, {}};
    goes_on = factors[*next + 2] < 0;
    int64_t left = goes_on ? ~factors[*next + 2] : factors[*next + 2];
    all.insert(all.end(), {product.numerator, denominator, left});
    is_sum = is_sum && denominator > 0;
    for (*next += 3; left > 0 && *next + 1 < factors.size(); --left, *next += 2) {
      const Dimensions of = dimensions(graph, node.inputs[static_cast<size_t>(factors[*next])]);
      from.push_back(of[static_cast<size_t>(factors[*next + 1])]);
      if (is_sum && !multiply(&product, from.back())) return std::nullopt;
    }
    if (!is_sum) continue;
    const std::optional<Number> term = rounded(product, denominator);
    if (!term) return std::nullopt;
    sum = sum ? added(*sum, *term) : term;
  }
  if (is_sum) return sum;
  const Symbol symbol = result('q', all, from);
  return symbol == no_symbol ? std::nullopt : std::optional(Number{0, symbol});
}

// The quotient as integers have it. It is a fraction only if some size is known to be the same one, without a remainder.
std::optional<Symbols::Number> Symbols::rounded(const Product& product, int64_t denominator) {
  if (product.symbols.empty()) return Number{product.numerator / denominator};
  Product fraction = product;
  if (!checked_mul(product.denominator, denominator, &fraction.denominator)) return std::nullopt;
  fraction = in_lowest_terms(std::move(fraction));
  const bool is_exact = fraction.denominator == 1 || known_.count(recipe_of(fraction)) != 0;
  if (is_exact) return Number{0, symbol_of(fraction)};
  return Number{0, result('D', {}, {{0, symbol_of(product)}, {denominator}})};
}

std::optional<Symbols::Number> Symbols::added(const Number& a, const Number& b) {
  Number sum = {0, result('A', {}, {a, b})};
  const bool fits = sum.symbol != no_symbol || checked_add(a.value, b.value, &sum.value);
  return fits ? std::optional(sum) : std::nullopt;
}

// The numbers that a parameter of a node makes of dimensions (src/extra/sized.h).
Symbols::Dimensions Symbols::counted(const Graph& graph, const Node& node, const char* parameter) {
  Dimensions numbers;
  for (const Parameter& list : node.parameters) {
    if (list.name != parameter) continue;
    for (size_t next = 0; next + 2 < list.integers.size();) {
      const std::optional<Number> number = counted_number(graph, node, list.integers, &next);
      if (!number) return {};
      numbers.push_back(*number);
    }
  }
  return numbers;
}

std::vector<Symbol> Symbols::infer(const Graph& graph, const Node& node) {
  const Attributes& a = node.attributes;
  const Vector<int64_t>& v = a.values;
  const Dimensions x = dimensions(graph, node.inputs[0]);
  const size_t rank = x.size();
  std::vector<Symbol> out = symbols(x);
  const Kind& kind = kind_of(node.kind);
  if (kind.has(Kind::keeps_shape)) return out;
  if (kind.has(Kind::elementwise)) return broadcast(x, dimensions(graph, node.inputs[1]));
  switch (node.kind) {
    case OpKind::conv2d: {
      const Shape& weights = graph.tensors[static_cast<size_t>(node.inputs[1])].shape;
      return windows(x, {weights[1], weights[2]}, a, no_symbol);
    }
    case OpKind::max_pool:
    case OpKind::average_pool: return windows(x, a.kernel, a, out[3]);
    case OpKind::global_max_pool:
    case OpKind::global_average_pool: out[1] = out[2] = no_symbol; break;
    case OpKind::fully_connected: out.back() = no_symbol; break;
    case OpKind::concat: return joined(graph, node);
    case OpKind::reshape: return reshaped(x, v);
    case OpKind::pad:
      for (size_t d = 0; d < rank; ++d) out[d] = padded(x[d], v[d] + v[rank + d]);
      break;
    case OpKind::resize:
      out[1] = scaled(x[1], v.empty() ? a.alpha : 0);
      out[2] = scaled(x[2], v.empty() ? a.beta : 0);
      break;
    case OpKind::transpose:
      for (size_t d = 0; d < rank; ++d) out[d] = x[static_cast<size_t>(v[d])].symbol;
      break;
    case OpKind::slice:
      for (size_t d = 0; d < rank; ++d) out[d] = sliced(x[d], v[d], v[rank + d]);
      break;
    default: return unknown(graph, node, 0);
  }
  return out;
}

}  // namespace quern::convert
