// Runs graphs for the tests of this folder.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "convert/common/error.h"
#include "graph/file/format.h"

namespace quern::compress_test {

using Floats = std::vector<float>;

inline Floats random(size_t count, unsigned seed, float low = -1, float high = 1) {
  std::mt19937 generator(seed);
  Floats values(count);
  for (float& x : values) x = std::uniform_real_distribution<float>(low, high)(generator);
  return values;
}

struct Output {
  Vector<size_t> shape;
  Floats floats;              // or
  std::vector<int8_t> bytes;  // of QN_S8
};

struct Release {
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
};

// Returns all outputs of a graph with one input.
inline std::vector<Output> run(const Graph& graph, const Floats& x, qn_algorithm algorithm = QN_ALGORITHM_AUTO) {
  qn_model* made = nullptr;
  expect_ok(make_model(graph, nullptr, &made));
  const std::unique_ptr<qn_model, Release> model(made);
  qn_session_options options;
  qn_session_options_init(&options);
  options.algorithm = algorithm;
  qn_session* created = nullptr;
  expect_ok(qn_session_create(made, &options, &created));
  const std::unique_ptr<qn_session, Release> session(created);
  const void* const inputs[] = {x.data()};
  expect_ok(qn_session_run(created, inputs));
  std::vector<Output> outputs(graph.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    qn_tensor tensor;
    const void* data = nullptr;
    expect_ok(qn_session_output_tensor(created, i, &tensor));
    expect_ok(qn_session_output(created, i, &data));
    outputs[i].shape = Vector<size_t>(tensor.shape, tensor.shape + tensor.rank);
    const size_t size = qn_tensor_bytes(&tensor);
    const auto* const bytes = static_cast<const int8_t*>(data);
    const auto* const floats = static_cast<const float*>(data);
    if (tensor.type == QN_S8) {
      outputs[i].bytes.assign(bytes, bytes + size);
    } else {
      outputs[i].floats.assign(floats, floats + size / sizeof(float));
    }
  }
  return outputs;
}

}  // namespace quern::compress_test
