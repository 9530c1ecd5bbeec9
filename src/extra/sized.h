// Kinds whose shapes follow dimensions of inputs. A kind that reads a shape from the elements of an input can be
// planned only in a run, and with it all that follows. Where these elements are computed from dimensions of tensors,
// the form of the kind made here reads the dimensions instead: its shapes are known before a run.
#pragma once

#include "extra/node.h"

namespace quern::extra {

// Numbers, each of which is numerator / denominator * a product of dimensions. The parameter has for each number
// numerator, denominator and the count of dimensions, then input and dimension of each of them. A count below 0 stands
// for its complement, and says that the next number is added.
// A denominator below 0 stands for its opposite, and divides the sum so far, not the term. Quotients round towards 0. A
// denominator of 0 says that the term multiplies the sum so far.
std::vector<int64_t> sizes_from(const Node& node, const char* parameter);

// The inputs of a node as the other form of its kind has them: those for which there is a parameter sizes<i> are lists
// of numbers. Behind them the node has inputs for their dimensions alone.
class SizedInputs {
 public:
  SizedInputs(const qn_node* node, const qn_operand* inputs, size_t count, const qn_kind& kind);
  const qn_operand* data() const { return inputs_.data(); }
  size_t count() const { return inputs_.size(); }

 private:
  std::vector<qn_operand> inputs_;
  std::vector<std::vector<int64_t>> numbers_;
};

// The form of a kind without create() and plan() that follows dimensions.
template <const qn_kind& inner>
constexpr qn_kind sized(const char* name) {
  static_assert(inner.create == nullptr && inner.plan == nullptr);
  qn_kind kind = inner;
  kind.name = name;
  kind.min_inputs = 0;
  kind.max_inputs = 255;
  kind.infer = [](const qn_node* node, const qn_operand* operands, size_t count, qn_tensor* to, size_t to_count) {
    qn_status status = QN_OK;
    const qn_status made = guarded([&] {
      const SizedInputs inputs(node, operands, count, inner);
      status = inner.infer(node, inputs.data(), inputs.count(), to, to_count);
    });
    return made == QN_OK ? status : made;
  };
  kind.run = [](const qn_node_run* of) {
    qn_status status = QN_OK;
    const qn_status made = guarded([&] {
      const SizedInputs inputs(of->node, of->inputs, of->input_count, inner);
      qn_node_run run = *of;
      run.inputs = inputs.data();
      run.input_count = inputs.count();
      status = inner.run(&run);
    });
    return made == QN_OK ? status : made;
  };
  return kind;
}

}  // namespace quern::extra
