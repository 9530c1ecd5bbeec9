// Symbolic sizes: how the sizes of a graph's tensors follow from those of its inputs, which sessions may change.
//
// A symbol stands for a size that depends on the inputs' sizes. Two dimensions with the same symbol are equal for all
// sizes of the inputs. (Two dimensions with different symbols may be equal, too.) Each dimension of an input has a
// symbol; nodes make further symbols from the symbols of their inputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/ir/ir.h"

namespace quern::convert {

using Symbol = int;
constexpr Symbol no_symbol = 0;  // the size never changes

class Symbols {
 public:
  // (input of the graph, dimension)
  using Sources = std::set<std::pair<size_t, size_t>>;

  // Gives each dimension of an input a symbol.
  void add_input(size_t input, int tensor, size_t rank);
  // Gives the dimensions of a node's outputs their symbols. The shapes of the node's tensors must be known.
  void add_node(const Graph& graph, const Node& node);

  Symbol of(int tensor, size_t dimension) const;
  // Returns the dimensions of inputs on which the size depends.
  const Sources& sources(Symbol symbol) const { return entries_[static_cast<size_t>(symbol)].sources; }

  // A size or another integer known at import. `value` is its value at the present sizes of the inputs.
  struct Number {
    int64_t value;
    Symbol symbol = no_symbol;
  };
  // Returns the symbol for the result of an operation on numbers. The same operation with the same arguments and
  // numbers always gives the same symbol.
  Symbol result(char operation, const std::vector<int64_t>& arguments, const std::vector<Number>& numbers);
  Symbol product(const Number& a, const Number& b);

  using Dimensions = std::vector<Number>;
  Dimensions dimensions(const Graph& graph, int tensor) const;
  // Returns the numbers that a parameter of a node makes of dimensions (src/extra/sized.h); none if they are too large.
  Dimensions counted(const Graph& graph, const Node& node, const char* parameter);
  // Returns what is left of the product of some sizes if it is divided by others, without a remainder. Nothing if that
  // is no product of sizes.
  std::optional<Number> quotient(const Dimensions& from, const Dimensions& by);
  // Whether a number is known to be 0 or more, whatever the sizes of inputs are.
  bool is_size(const Number& number, size_t depth = 4) const;
  // Returns the symbols of what two tensors are broadcast to.
  std::vector<Symbol> broadcast(Dimensions a, Dimensions b);

  // The product of numerator / denominator and the symbols, which are in ascending order.
  struct Product {
    int64_t numerator = 1, denominator = 1;
    std::vector<Symbol> symbols;
  };
  // The symbol as a product of symbols that are none.
  const Product& product_of(Symbol symbol) const { return entries_[static_cast<size_t>(symbol)].product; }
  // The number as a sum of products of dimensions that tensors have. Empty if it is none, or one of very many.
  std::vector<Product> sum_of(const Number& number) const;
  // Returns a tensor and its dimension that has the symbol; no_tensor if none has.
  std::pair<int, size_t> find(Symbol symbol) const;

 private:
  struct Entry {
    Sources sources;
    Product product;     // the symbol as a product; if it is not one, the symbol itself is the only factor
    char operation = 0;  // that result() was called with, and its numbers
    std::vector<Number> numbers = {};
  };
  Symbol add(const std::vector<int64_t>& recipe, Sources sources, Product product);
  bool multiply(Product* product, const Number& by) const;
  bool divide(Product* product, const Number& by) const;
  Symbol symbol_of(const Product& product);
  static Product in_lowest_terms(Product product);
  static std::vector<int64_t> recipe_of(const Product& lowest);
  std::optional<Number> rounded(const Product& product, int64_t denominator);
  std::optional<Number> added(const Number& a, const Number& b);
  bool add_terms(const Number& number, int64_t sign, size_t depth, std::vector<Product>* terms) const;
  bool add_multiple(const Product& product, int64_t sign, size_t depth, std::vector<Product>* terms) const;
  static bool put_first(const std::vector<Product>& sum, std::vector<Product>* terms);
  std::optional<Number> counted_number(const Graph& graph, const Node& node, const Vector<int64_t>& factors,
                                       size_t* next);

  Symbol window(const Number& in, size_t kernel, size_t stride, size_t dilation, size_t padding, bool ceil);
  Symbol broadcast(const Number& a, const Number& b);
  Symbol inferred(const Dimensions& from, const Vector<int64_t>& values);
  Symbol padded(const Number& in, int64_t more);
  Symbol scaled(const Number& in, float scale);
  Symbol sliced(const Number& in, int64_t begin, int64_t end);
  std::vector<Symbol> windows(const Dimensions& x, qn_hw kernel, const Attributes& a, Symbol channels);
  std::vector<Symbol> joined(const Graph& graph, const Node& node);
  std::vector<Symbol> reshaped(const Dimensions& from, const Vector<int64_t>& values);
  std::vector<Symbol> unknown(const Graph& graph, const Node& node, size_t output);
  std::vector<Symbol> infer(const Graph& graph, const Node& node);

  std::vector<Entry> entries_ = {{}};              // [no_symbol] depends on nothing
  std::map<std::vector<int64_t>, Symbol> known_;   // the symbol of each recipe, see add()
  std::map<int, std::vector<Symbol>> symbols_of_;  // of each tensor that is not constant: one per dimension
};

}  // namespace quern::convert
