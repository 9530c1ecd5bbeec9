#include "graph/session/states.h"

#include <algorithm>
#include <cstring>

#include "base/search.h"
#include "base/status.h"
#include "base/tensor.h"

#ifndef QN_SMALL  // has_subgraphs
namespace quern {

States::States(const Model& model, const Graph& graph) {
  for (const auto [input, output] : model.states) {
    const Port& port = graph.inputs[input];
    const Tensor& tensor = tensor_of(graph, port.tensor);
    size_t bytes = 0;
    (void)tensor_size(port.type, tensor.shape, &bytes);  // the graph is planned, so it does not overflow
    const Vector<int32_t>& zeros = tensor.quantization.zero_points;
    states_.push_back({input, output, model.output_at[output],
                       zeros.size() == 1 ? static_cast<uint8_t>(zeros[0]) : uint8_t{0}, tensor.shape,
                       Buffer(std::max(bytes, size_t{1})), Buffer(std::max(bytes, size_t{1}))});
  }
  reset();
}

void States::keep(States& before) {
  for (size_t i = 0; i < before.states_.size(); ++i) {
    if (states_[i].shape == before.states_[i].shape) std::swap(states_[i].content, before.states_[i].content);
  }
}

void States::reset() {
  for (State& state : states_) std::memset(state.content.data(), state.zero, state.content.size());
}

const void* States::content(size_t input) const {
  for (const State& state : states_) {
    if (state.input == input) return state.content.data();
  }
  return nullptr;
}

bool States::holds(const void* data) const {
  return any_of(states_, [data](const State& state) { return state.content.data() == data; });
}

void States::lend(Vector<Bound>& outputs) {
  for (State& state : states_) {
    if (state.planned == Model::nowhere) continue;
    Bound& bound = outputs[state.planned];
    if (bound.data == nullptr || bound.lent) bound = {state.next.data(), state.next.size(), true};
  }
}

qn_status States::State::take(const qn_tensor& tensor, const void* data) {
  if (!std::equal(shape.begin(), shape.end(), tensor.shape, tensor.shape + tensor.rank)) {
    return fail(QN_INVALID_ARGUMENT, "output %zu has another shape than input %zu, which reads it in the next run",
                output, input);
  }
  if (const size_t bytes = qn_tensor_bytes(&tensor); bytes != 0) std::memcpy(next.data(), data, bytes);
  return QN_OK;
}

}  // namespace quern
#endif
