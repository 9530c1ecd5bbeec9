// A node of a source model as the functions that import it see it, whatever the format.
#pragma once

#include <string>
#include <vector>

#include "convert/common/values.h"

namespace quern::convert {

// Its inputs are values. What nodes have besides, attributes or weights, is added by each importer's own class.
class SourceNode {
 public:
  // `what` begins its messages: "node 'x' (Conv)".
  SourceNode(Builder& to, const std::string& its_name, std::string what, std::vector<const Value*> inputs)
      : builder(to), name(its_name), what_(std::move(what)), inputs_(std::move(inputs)) {}

  Builder& builder;
  const std::string& name;

  [[noreturn]] void fail(const std::string& what) const;
  // A number of the file that must be finite.
  float finite(float value, const std::string& what) const;
  // `axis` may count from the end. `tensor`: what messages call it.
  size_t axis(int64_t axis, size_t rank, const char* tensor = "tensor") const;

  size_t input_count() const { return inputs_.size(); }
  void expect_inputs(size_t min, size_t max) const;
  bool has(size_t index) const { return index < inputs_.size() && inputs_[index] != nullptr; }
  const Value& value(size_t index) const;
  bool is_integer(size_t index) const { return has(index) && inputs_[index]->integers != nullptr; }
  bool is_constant(size_t index) const;

  // Tensors of our graph, computed or constant.
  const View& view(size_t index) const;
  const View& constant(size_t index) const;
  std::vector<float> floats(size_t index) const;  // a copy of a constant; `{}` when it is empty
  size_t elements(size_t index) const;            // of a constant, as many as floats() has
  float scalar(size_t index) const;

  // Integers as they are at import: sizes that they come from cannot change any more. And as symbols, for who follows.
  const Integers& integers(size_t index) const;
  const Integers& symbolic(size_t index) const;
  // The node is imported for the present value alone.
  void fix(Symbol symbol) const { builder.fix(symbol, name); }

  // The shape of either kind of value, and one of its sizes.
  Shape dims(size_t index) const;
  Symbols::Number dimension(size_t index, size_t d) const;

  // The result of a node that computes floats, of the first such input's type.
  Value result(View view) const;

 private:
  const std::string what_;
  std::vector<const Value*> inputs_;
};

}  // namespace quern::convert
