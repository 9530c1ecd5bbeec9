// Symbolic sizes: how the sizes of a graph's tensors follow from those of its inputs, which sessions may change.
//
// A symbol stands for one size, whatever the inputs' sizes: two dimensions with the same symbol are always equal. (The
// reverse does not hold: two symbols may be equal, too.) Each dimension of an input is a symbol; what nodes make of
// symbols are others.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/ir/ir.h"

namespace quern::convert {

using Symbol = int;
constexpr Symbol no_symbol = 0;  // of a size that never changes

class Symbols {
 public:
  // (input of the graph, dimension)
  using Sources = std::set<std::pair<size_t, size_t>>;

  // The dimensions of an input.
  void add_input(size_t input, int tensor, size_t rank);
  // The dimensions of the output of a node whose shapes are known.
  void add_node(const Graph& graph, const Node& node);

  Symbol of(int tensor, size_t dimension) const;
  // The dimensions of inputs that the size depends on.
  const Sources& sources(Symbol symbol) const { return entries_[static_cast<size_t>(symbol)].sources; }

  // A size or, at import, any integer, of which `value` is known.
  struct Number {
    int64_t value;
    Symbol symbol = no_symbol;
  };
  // What an operation with this name and these arguments makes of numbers: the same symbol for the same operation.
  Symbol result(char operation, const std::vector<int64_t>& arguments, const std::vector<Number>& numbers);
  Symbol product(const Number& a, const Number& b);

 private:
  // numerator / denominator times the symbols, in ascending order.
  struct Product {
    int64_t numerator = 1, denominator = 1;
    std::vector<Symbol> symbols;
  };
  struct Entry {
    Sources sources;
    Product product;  // the symbol itself, if it is none
  };
  using Dimensions = std::vector<Number>;

  Symbol add(const std::vector<int64_t>& recipe, Sources sources, Product product);
  bool multiply(Product* product, const Number& by) const;
  bool divide(Product* product, const Number& by) const;
  Symbol symbol_of(const Product& product);

  Dimensions dimensions(const Graph& graph, int tensor) const;
  Symbol window(const Number& in, size_t kernel, size_t stride, size_t dilation, size_t padding, bool ceil);
  Symbol broadcast(const Number& a, const Number& b);
  Symbol inferred(const Dimensions& from, const Vector<int64_t>& values);
  Symbol padded(const Number& in, int64_t more);
  Symbol scaled(const Number& in, float scale);
  Symbol sliced(const Number& in, int64_t begin, int64_t end);
  std::vector<Symbol> windows(const Dimensions& x, qn_hw kernel, const Attributes& a, Symbol channels);
  std::vector<Symbol> broadcast(Dimensions a, Dimensions b);
  std::vector<Symbol> joined(const Graph& graph, const Node& node);
  std::vector<Symbol> reshaped(const Dimensions& from, const Vector<int64_t>& values);
  std::vector<Symbol> infer(const Graph& graph, const Node& node);

  std::vector<Entry> entries_ = {{}};              // [no_symbol] depends on nothing
  std::map<std::vector<int64_t>, Symbol> known_;   // by how they came about
  std::map<int, std::vector<Symbol>> symbols_of_;  // tensors that have some
};

}  // namespace quern::convert
