// Runs parts of models on samples.
#pragma once

#include <functional>
#include <vector>

#include "graph/file/format.h"
#include "tool/model.h"

namespace quern {

// Reads samples: the inputs of sample i, for a model and a session that have the graph's inputs.
using Sample = std::function<std::vector<InputData>(const qn_model* model, const qn_session* session, size_t i)>;

// A graph, loaded and planned.
class Part {
 public:
  Part(const Graph& graph, const SessionSettings& settings) {
    qn_model* made = nullptr;
    check(make_model(graph, nullptr, &made));
    model_.reset(made);
    session_ = make_session(made, settings);
  }
  void run(const Sample& sample, size_t i) { run_session(session_.get(), sample(model_.get(), session_.get(), i)); }
  // The output of the last run.
  const void* output(size_t index = 0) const {
    const void* data = nullptr;
    check(qn_session_output(session_.get(), index, &data));
    return data;
  }
  Vector<size_t> shape(size_t index = 0) const {
    const qn_tensor described = tensor(index);
    return Vector<size_t>(described.shape, described.shape + described.rank);
  }
  size_t bytes(size_t index = 0) const {
    const qn_tensor described = tensor(index);
    return qn_tensor_bytes(&described);
  }
  qn_model* model() const { return model_.get(); }
  const qn_session* session() const { return session_.get(); }

 private:
  qn_tensor tensor(size_t index) const {
    qn_tensor tensor;
    check(qn_session_output_tensor(session_.get(), index, &tensor));
    return tensor;
  }

  ModelPtr model_;
  SessionPtr session_;
};

}  // namespace quern
