// Tensors that a session carries from run to run (Graph::states). Small builds have none.
#pragma once

#include "base/vector.h"
#include "graph/plan/execution.h"
#include "graph/session/model.h"

namespace quern {

// The states of one session. A run reads the content of a state in the model's input, and leaves its result in a second
// buffer, which is bound to the model's output. After the run the two buffers change places.
class States {
 public:
  States() = default;
  // States of zeros, for inputs and outputs of the shapes in `graph`.
  States(const Model& model, const Graph& graph);

  // Takes the content of those states of `before` that have the same shape. Cannot fail.
  void keep(States& before);
  void reset();

  // What the next run reads in an input; NULL: the input is no state.
  const void* content(size_t input) const;
  // Whether `data` is what the last run has left in a state.
  bool holds(const void* data) const;
  // Binds the second buffers to the outputs of the planned graph that the user has bound to nothing.
  void lend(Vector<Bound>& outputs);

  // Ends a run. `given(output, &tensor, &data)` says what the run has left in an output of the model, for those that lie
  // elsewhere than in the second buffer.
  template <class Given>
  qn_status advance(const Vector<Bound>& outputs, const Given& given) {
    for (State& state : states_) {
      qn_tensor tensor;
      const void* data;
      if (is_lent(state, outputs)) continue;
      given(state.output, &tensor, &data);
      QN_TRY(state.take(tensor, data));
    }
    for (State& state : states_) std::swap(state.content, state.next);
    return QN_OK;
  }

 private:
  struct State {
    size_t input, output;  // of the model, as the user counts them
    size_t planned;        // the output of the planned graph; Model::nowhere: a later node computes it
    uint8_t zero;          // the byte that stands for 0: of int8 and uint8, their zero point
    Vector<size_t> shape;
    Buffer content, next;

    // Copies a result to the second buffer.
    qn_status take(const qn_tensor& tensor, const void* data);
  };

  static bool is_lent(const State& state, const Vector<Bound>& outputs) {
    return state.planned != Model::nowhere && outputs[state.planned].data == state.next.data();
  }

  Vector<State> states_;
};

}  // namespace quern
