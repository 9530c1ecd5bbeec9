// A node of one of libquern-extra's kinds, as rules that find the symbols of its outputs see it.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "convert/common/symbols.h"

namespace quern::convert {

// What a rule throws if it needs to know what only a run knows.
struct Unknown {};

// A node, and an output of it.
class Shown {
 public:
  Shown(Symbols& to, const Graph& graph, const Node& node, size_t output)
      : symbols(to), node_(node), graph_(graph), output_(node.outputs[output]) {}

  Symbols& symbols;

  size_t inputs() const { return node_.inputs.size(); }
  bool has(size_t input) const { return input < inputs() && node_.inputs[input] != no_tensor; }
  Symbols::Dimensions dimensions(size_t input = 0) const {
    return has(input) ? symbols.dimensions(graph_, node_.inputs[input]) : Symbols::Dimensions();
  }
  size_t rank() const { return graph_.tensors[static_cast<size_t>(output_)].shape.size(); }

  std::vector<int64_t> list(const char* name) const {
    const Parameter* const found = find(name);
    return found == nullptr ? std::vector<int64_t>()
                            : std::vector<int64_t>(found->integers.begin(), found->integers.end());
  }
  int64_t integer(const char* name, int64_t otherwise) const {
    const Parameter* const found = find(name);
    return found == nullptr || found->integers.empty() ? otherwise : found->integers[0];
  }
  // The numbers of an input that is constant; none if it is absent.
  std::vector<int64_t> constant(size_t input) const {
    if (!has(input)) return {};
    if (tensor(input).type == QN_S64) return elements<int64_t>(input);
    if (tensor(input).type != QN_S32) throw Unknown{};
    const std::vector<int32_t> narrow = elements<int32_t>(input);
    return {narrow.begin(), narrow.end()};
  }
  std::vector<float> floats(size_t input) const {
    if (tensor(input).type != QN_F32) throw Unknown{};
    return elements<float>(input);
  }

  // The integers of an input that is constant or, in a kind that follows dimensions, made of these (sizes0, sizes1, ...).
  Symbols::Dimensions numbers(size_t input) const {
    const std::string name = "sizes" + std::to_string(input);
    if (find(name.c_str()) == nullptr) {
      Symbols::Dimensions known;
      for (const int64_t number : constant(input)) known.push_back({number});
      return known;
    }
    Symbols::Dimensions made = symbols.counted(graph_, node_, name.c_str());
    if (made.empty()) throw Unknown{};
    return made;
  }

  // A size that the node makes of these sizes.
  Symbol made_of(size_t dimension, const Symbols::Dimensions& sizes) const {
    return symbols.result('u', {output_, static_cast<int64_t>(dimension)}, sizes);
  }

 private:
  const Parameter* find(const char* name) const {
    for (const Parameter& parameter : node_.parameters) {
      if (parameter.name == name) return &parameter;
    }
    return nullptr;
  }
  const Tensor& tensor(size_t input) const { return graph_.tensors[static_cast<size_t>(node_.inputs[input])]; }
  template <class T>
  std::vector<T> elements(size_t input) const {
    const Tensor& from = tensor(input);
    if (from.constant < 0) throw Unknown{};
    const void* const data = graph_.constants[static_cast<size_t>(from.constant)].data;
    size_t count = 1;
    for (const size_t d : from.shape) count *= d;
    if (data == nullptr && count != 0) throw Unknown{};
    std::vector<T> numbers(count);
    if (count != 0) std::memcpy(numbers.data(), data, count * sizeof(T));
    return numbers;
  }

  const Node& node_;
  const Graph& graph_;
  const int output_;
};

}  // namespace quern::convert
