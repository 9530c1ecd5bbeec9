// A node of a source model, as the functions that import nodes see it, in any format.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "convert/common/values.h"

namespace quern::convert {

// The node's inputs are values. Each importer derives a class that adds what else its nodes have: attributes or
// weights.
class SourceNode {
 public:
  // Error messages about the node begin with `what`, for example "node 'x' (Conv)". So do the builder's, as long as the
  // object lives.
  SourceNode(Builder& to, const std::string& its_name, std::string what, std::vector<const Value*> inputs)
      : builder(to),
        name(its_name),
        what_(std::move(what)),
        inputs_(std::move(inputs)),
        outer_(to.name_source(what_)) {}
  SourceNode(const SourceNode&) = delete;
  SourceNode& operator=(const SourceNode&) = delete;
  ~SourceNode() { builder.name_source(outer_); }

  Builder& builder;
  const std::string& name;

  [[noreturn]] void fail(const std::string& what) const;
  // Returns a number of the file. Fails unless the number is finite; the message calls it `what`.
  float finite(float value, const std::string& what) const;
  // The same for operators that exist in two forms: throws Unsupported, so that the general one is taken.
  static float finite_or_general(float value, const char* what) {
    if (!std::isfinite(value)) throw Unsupported{std::string(what) + " is not a finite number"};
    return value;
  }
  // Returns the axis as a number from 0 on; `axis` may count from the end. Messages call the tensor `tensor`.
  size_t axis(int64_t axis, size_t rank, const char* tensor = "tensor") const;

  size_t input_count() const { return inputs_.size(); }
  void expect_inputs(size_t min, size_t max) const;
  bool has(size_t index) const { return index < inputs_.size() && inputs_[index] != nullptr; }
  const Value& value(size_t index) const;
  bool is_integer(size_t index) const { return has(index) && inputs_[index]->integers != nullptr; }
  bool is_constant(size_t index) const;

  // The input as a tensor of our graph. view() returns floats, computed or constant, and constant() only constants.
  // any_view() also returns bytes, for operators that only move elements.
  const View& view(size_t index) const;
  const View& any_view(size_t index) const;
  const View& constant(size_t index) const;
  // The input for a node of a registered kind: a tensor of any type, of which the shape may be unknown; known integers
  // become a constant. An empty view if the node does not have the input.
  View operand(size_t index) const;
  // The same of any value; `at` names what is made for it. Sizes of inputs from which known integers come are not
  // fixed.
  View operand(const Value& value, const std::string& at) const;
  std::vector<float> floats(size_t index) const;  // a copy of a constant's elements; `{}` if it has none
  size_t elements(size_t index) const;            // number of elements that floats() returns
  float scalar(size_t index) const;

  // The input's integers. integers() is for callers that use the values: sizes from which these come may not change any
  // more. symbolic() is for callers that use the symbols, so that the result can follow the sizes.
  const Integers& integers(size_t index) const;
  const Integers& symbolic(size_t index) const;
  // Throws Unsupported if integers follow open sizes, which a node of a registered kind may follow.
  void expect_closed(size_t index) const;
  // Says that the node was converted for the symbol's present value only, see Builder::fix().
  void fix(Symbol symbol) const { builder.fix(symbol, name); }

  // The shape of an input, a tensor or integers, and one size of that shape with its symbol.
  Shape dims(size_t index) const;
  Symbols::Number dimension(size_t index, size_t d) const;

  // The same node with other inputs, for a part of what it does. `part` names this part, and must live as long.
  SourceNode with(std::vector<const Value*> inputs, const std::string& part) const {
    return SourceNode(builder, part, what_, std::move(inputs));
  }

  // Adds a node of a registered kind; see Builder::custom. Types are those of the source.
  Values custom(const char* kind, const std::vector<View>& inputs, Parameters parameters,
                const std::vector<ElementType>& types) const;

  // Makes the result of a node that computes floats. Its type in the source is that of the first input of floats.
  Value result(View view) const;

 private:
  const std::string what_;
  std::vector<const Value*> inputs_;
  const std::string outer_;  // what the builder's messages began with before
};

}  // namespace quern::convert
