// Runs single nodes of libquern-extra's kinds, as a model from a file.
#pragma once

#include <gtest/gtest.h>
#include <quern/extra.h>
#include <quern/quern.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "extra/node.h"
#include "graph/file/format.h"
#include "graph/ir/ir.h"

namespace quern::test {

// A tensor with its elements as numbers. Type 0: an absent operand.
struct Elements {
  qn_type type = QN_F32;
  std::vector<size_t> shape;
  std::vector<double> values;

  bool operator==(const Elements&) const = default;
};
inline Elements list(std::vector<double> values, qn_type type = QN_S64) { return {type, {values.size()}, values}; }
inline Elements scalar(double value, qn_type type = QN_S64) { return {type, {}, {value}}; }
const inline Elements absent = {static_cast<qn_type>(0), {}, {}};

inline std::ostream& operator<<(std::ostream& out, const Elements& elements) {
  out << qn_type_string(elements.type) << " [";
  for (const size_t d : elements.shape) out << " " << d;
  out << " ]:";
  for (const double value : elements.values) out << " " << value;
  return out;
}

// `truth`: the byte of booleans that are true.
inline std::vector<unsigned char> bytes_of(const Elements& elements, unsigned char truth = 1) {
  std::vector<unsigned char> bytes(elements.values.size() * qn_type_size(elements.type) + 1);
  if (elements.type == QN_BOOL) {
    for (size_t i = 0; i < elements.values.size(); ++i) bytes[i] = elements.values[i] != 0 ? truth : 0;
    return bytes;
  }
  extra::with_type(elements.type, [&]<class T>(extra::Tag<T>) {
    for (size_t i = 0; i < elements.values.size(); ++i) {
      const T value = static_cast<T>(elements.values[i]);
      std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
    }
  });
  return bytes;
}

inline Elements elements_of(const qn_tensor& tensor, const void* data) {
  Elements elements = {tensor.type, {tensor.shape, tensor.shape + tensor.rank}, {}};
  size_t n = 1;
  for (const size_t d : elements.shape) n *= d;
  const qn_type read = tensor.type == QN_BOOL ? QN_U8 : tensor.type;  // bytes other than 0 and 1 are to be seen
  extra::with_type(read, [&]<class T>(extra::Tag<T>) {
    const T* const values = static_cast<const T*>(data);
    for (size_t i = 0; i < n; ++i) elements.values.push_back(static_cast<double>(values[i]));
  });
  return elements;
}

// A node: its kind, parameters and operands. Outputs are expected ones.
struct NodeCase {
  const char* kind;
  std::vector<Elements> inputs;
  std::vector<Elements> outputs;
  std::vector<Parameter> parameters = {};
};
inline Parameter integers(const char* name, Vector<int64_t> values) { return {name, std::move(values), {}}; }

class NodeModel {
 public:
  // The first `computed` of the node's inputs are the model's, the others are constants. `parallel`: of the session.
  NodeModel(const NodeCase& node, size_t computed, unsigned char truth = 1, const qn_parallel* parallel = nullptr)
      : truth_(truth), parallel_(parallel) {
    Vector<int> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(add_input(node.inputs[i], i < computed));
    const auto first =
        static_cast<size_t>(add_node(graph_, OpKind::custom, "node", std::move(inputs), {}, node.outputs.size()));
    graph_.nodes[0].type = node.kind;
    for (const Parameter& parameter : node.parameters) graph_.nodes[0].parameters.push_back(parameter);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      Tensor& tensor = graph_.tensors[first + i];
      tensor.name = ("y" + std::to_string(i)).c_str();
      tensor.type = node.outputs[i].type;
      graph_.outputs.push_back({.tensor = static_cast<int>(first + i), .type = tensor.type});
    }
  }

  // Loads and runs the model. Returns "", or what is wrong.
  std::string run(std::vector<Elements>* outputs) {
    Vector<unsigned char> file;
    qn_model* model = nullptr;
    qn_session* session = nullptr;
    qn_session_options options;
    qn_session_options_init(&options);
    options.parallel = parallel_;
    const bool done = qn_extra_register() == QN_OK && write_model(graph_, &file) == QN_OK &&
                      qn_model_load_memory(file.data(), file.size(), nullptr, &model) == QN_OK &&
                      qn_session_create(model, &options, &session) == QN_OK && run(session) == QN_OK &&
                      read(session, outputs) == QN_OK;
    const std::string message = done ? "" : qn_last_message();
    qn_session_release(session);
    qn_model_release(model);
    return message;
  }

 private:
  int add_input(const Elements& from, bool computed) {
    if (from.type == 0) return no_tensor;
    const Vector<size_t> shape(from.shape.begin(), from.shape.end());
    if (!computed) return add_constant(graph_, "", from.type, shape, bytes_of(from).data());
    const std::string name = "x" + std::to_string(data_.size());
    const int tensor = add_tensor(graph_, name.c_str(), from.type, shape);
    graph_.inputs.push_back({.tensor = tensor, .type = from.type});
    data_.push_back(bytes_of(from, data_.size() % 2 == 0 ? truth_ : static_cast<unsigned char>((truth_ + 1) / 2)));
    return tensor;
  }

  qn_status run(qn_session* session) const {
    std::vector<const void*> inputs;
    for (const auto& bytes : data_) inputs.push_back(bytes.data());
    return qn_session_run(session, inputs.data());
  }

  qn_status read(qn_session* session, std::vector<Elements>* outputs) const {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      qn_tensor tensor;
      const void* data;
      qn_status status = qn_session_output_tensor(session, i, &tensor);
      if (status == QN_OK) status = qn_session_output(session, i, &data);
      if (status != QN_OK) return status;
      outputs->push_back(elements_of(tensor, data));
    }
    return QN_OK;
  }

  unsigned char truth_;
  const qn_parallel* parallel_;
  Graph graph_;
  std::vector<std::vector<unsigned char>> data_;  // of the model's inputs
};

// Runs the node with inputs that are all computed, also with booleans that are true by other bytes than 1, of which two
// have no bit in common; then with all but the first constant, and compares.
inline void expect_node(const NodeCase& node) {
  const std::pair<size_t, unsigned char> ways[] = {{node.inputs.size(), 1}, {node.inputs.size(), 0x82}, {1, 1}};
  for (const auto& [computed, truth] : ways) {
    SCOPED_TRACE(std::string(node.kind) + ", " + std::to_string(computed) + " inputs are computed");
    std::vector<Elements> outputs;
    EXPECT_EQ(NodeModel(node, computed, truth).run(&outputs), "");
    EXPECT_EQ(outputs, node.outputs);
  }
}

// Runs the node in the same ways, and expects messages with `text`.
inline void expect_refused(const NodeCase& node, const std::string& text) {
  for (const size_t computed : {node.inputs.size(), size_t{1}}) {
    std::vector<Elements> outputs;
    const std::string message = NodeModel(node, computed).run(&outputs);
    EXPECT_NE(message.find(text), std::string::npos) << node.kind << ": " << message;
  }
}

}  // namespace quern::test
