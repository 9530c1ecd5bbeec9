#include "extra/sized.h"

#include <algorithm>

namespace quern::extra {

std::vector<int64_t> sizes_from(const Node& node, const char* parameter) {
  const std::span<const int64_t> factors = node.integers(parameter);
  size_t next = 0;
  const auto take = [&] {
    if (next == factors.size()) node.fail("factors are missing");
    return factors[next++];
  };
  std::vector<int64_t> numbers;
  bool adds = false;  // to the number before
  while (next < factors.size() || adds) {
    int64_t number = take();
    const int64_t denominator = take(), count = take();
    for (int64_t left = count < 0 ? ~count : count; left > 0; --left) {
      const auto input = static_cast<size_t>(take()), d = static_cast<size_t>(take());
      if (!node.has(input) || d >= node.rank(input)) node.fail("a factor must be a dimension of an input");
      if (__builtin_mul_overflow(number, node.shape(input)[d], &number)) node.fail("a number is too large");
    }
    if ((denominator == 0 && !adds) || denominator == INT64_MIN) node.fail("a denominator is 0, or too large");
    if (denominator > 0) number /= denominator;
    if (!adds) numbers.push_back(0);
    int64_t& sum = numbers.back();
    const bool too_large =
        denominator == 0 ? __builtin_mul_overflow(sum, number, &sum) : __builtin_add_overflow(sum, number, &sum);
    if (too_large) node.fail("a number is too large");
    if (denominator < 0) numbers.back() = numbers.back() / -denominator;
    adds = count < 0;
  }
  return numbers;
}

SizedInputs::SizedInputs(const qn_node* node, const qn_operand* inputs, size_t count, const qn_kind& kind)
    : inputs_(inputs, inputs + std::min<size_t>(count, kind.max_inputs)) {
  const Node all(node, inputs, count);
  inputs_.resize(kind.max_inputs);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::string name = "sizes" + std::to_string(i);
    if (all.integers(name.c_str()).empty()) continue;
    const std::vector<int64_t>& numbers = numbers_.emplace_back(sizes_from(all, name.c_str()));
    inputs_[i] = {};
    inputs_[i].tensor.type = QN_S64;
    inputs_[i].tensor.rank = 1;
    inputs_[i].tensor.shape[0] = numbers.size();
    inputs_[i].data = const_cast<int64_t*>(numbers.data());
  }
  for (size_t i = 0; i < kind.min_inputs; ++i) {
    if (inputs_[i].tensor.type == 0) all.fail("input " + std::to_string(i) + " is missing");
  }
  while (!inputs_.empty() && inputs_.back().tensor.type == 0) inputs_.pop_back();
}

}  // namespace quern::extra
