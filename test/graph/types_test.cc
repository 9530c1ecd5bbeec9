// Integers and their quantization in graphs, at the border and in files, and files of earlier versions.
#include <cmath>
#include <fstream>
#include <functional>
#include <memory>

#include "small_graphs.h"
#include "source_dir.h"

namespace quern::test {
namespace types_test {

struct Release {
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
};
using ModelHandle = std::unique_ptr<qn_model, Release>;
using SessionHandle = std::unique_ptr<qn_session, Release>;

using Bytes = std::vector<unsigned char>;

// Byte `k` of input `i`: they count up, from another beginning for each input. Booleans are 0 or 1.
unsigned char byte_of(qn_type type, size_t i, size_t k) {
  return static_cast<unsigned char>((k + 31 * i) & (type == QN_BOOL ? 1 : 255));
}

// What a session makes of these inputs.
std::vector<Bytes> outputs_of(const Graph& graph) {
  qn_model* made = nullptr;
  expect_ok(make_model(graph, nullptr, &made));
  const ModelHandle model(made);
  qn_session* created = nullptr;
  expect_ok(qn_session_create(model.get(), nullptr, &created));
  const SessionHandle session(created);
  std::vector<Bytes> inputs;
  std::vector<const void*> addresses;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    qn_tensor tensor;
    expect_ok(qn_session_input_tensor(session.get(), i, &tensor));
    Bytes& bytes = inputs.emplace_back(qn_tensor_bytes(&tensor));
    for (size_t k = 0; k < bytes.size(); ++k) bytes[k] = byte_of(tensor.type, i, k);
  }
  for (const Bytes& bytes : inputs) addresses.push_back(bytes.data());
  expect_ok(qn_session_run(session.get(), addresses.data()));
  std::vector<Bytes> outputs;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    qn_tensor tensor;
    const void* data = nullptr;
    expect_ok(qn_session_output_tensor(session.get(), i, &tensor));
    EXPECT_EQ(tensor.type, graph.outputs[i].type);
    expect_ok(qn_session_output(session.get(), i, &data));
    const auto* bytes = static_cast<const unsigned char*>(data);
    outputs.emplace_back(bytes, bytes + qn_tensor_bytes(&tensor));
  }
  return outputs;
}

// Output "y" of integer_graph(), element by element.
Bytes expected_y() {
  constexpr size_t height = 6;  // of x
  Bytes y;
  const auto element = [&](size_t row, size_t column, size_t channel) -> size_t {
    if (row == 0 || column >= height) return 7;
    const size_t pixel = column * 5 + row - 1;  // of x, whose rows and columns are exchanged
    if (channel < 2) return pixel * 4 + channel + 1;
    if (channel < 5) return 100 + ((row - 1) * height + column) * 3 + channel - 2;
    return pixel * 4 + channel - 4;
  };
  for (size_t row = 0; row < 6; ++row) {
    for (size_t column = 0; column < height + 2; ++column) {
      for (size_t channel = 0; channel < 7; ++channel) {
        y.push_back(static_cast<unsigned char>(element(row, column, channel)));
      }
    }
  }
  return y;
}

void expect_right(const Graph& graph) {
  const std::vector<Bytes> outputs = outputs_of(graph);
  EXPECT_EQ(outputs[0], expected_y());
  for (size_t i = 1; i < 5; ++i) {
    const size_t item = qn_type_size(graph.inputs[i].type);
    Bytes same(6 * item), turned;
    for (size_t k = 0; k < same.size(); ++k) same[k] = byte_of(graph.inputs[i].type, i, k);
    for (const size_t at : {0, 3, 1, 4, 2, 5}) turned.insert(turned.end(), &same[at * item], &same[at * item] + item);
    EXPECT_EQ(outputs[2 * i - 1], turned);
    EXPECT_EQ(outputs[2 * i], same);
  }
  EXPECT_EQ(outputs[9], Bytes(6, 255));
}

TEST(Types, IntegersAreMoved) { expect_right(integer_graph()); }

TEST(Types, AfterThePasses) {
  Graph graph = integer_graph();
  expect_ok(optimize(graph));
  expect_right(graph);
}

TEST(Types, InAFile) {
  const Graph graph = integer_graph();
  Shared<Buffer> image;
  const Graph again = read_back(graph, &image);
  expect_same(graph, again);
  expect_right(again);
}

// Descriptions outlive the shapes that a session had when they were asked for.
TEST(Types, PortsSayHowTheyAreQuantized) {
  qn_model* made = nullptr;
  expect_ok(make_model(integer_graph(), nullptr, &made));
  const ModelHandle model(made);
  qn_port port;
  qn_port_init(&port);
  expect_ok(qn_model_input(model.get(), 0, &port));
  EXPECT_EQ(port.tensor.quantization.scale, 0.25f);
  EXPECT_EQ(port.tensor.quantization.zero_point, 128);
  qn_session* created = nullptr;
  expect_ok(qn_session_create(model.get(), nullptr, &created));
  const SessionHandle session(created);
  qn_tensor y, weights;
  expect_ok(qn_session_output_tensor(session.get(), 0, &y));
  expect_ok(qn_session_output_tensor(session.get(), 9, &weights));
  EXPECT_EQ(y.quantization.scale, 0.25f);
  const size_t shape[] = {3, 2};
  expect_ok(qn_session_resize(session.get(), 1, 2, shape));
  ASSERT_EQ(weights.quantization.count, 3u);
  EXPECT_EQ(weights.quantization.axis, 1u);
  EXPECT_EQ(weights.quantization.scales[2], 3);
  EXPECT_EQ(weights.quantization.zero_points[2], -1);
}

TEST(Types, ResizingKeepsTheQuantization) {
  qn_model* made = nullptr;
  expect_ok(make_model(integer_graph(), nullptr, &made));
  const ModelHandle model(made);
  qn_session* created = nullptr;
  expect_ok(qn_session_create(model.get(), nullptr, &created));
  const SessionHandle session(created);
  qn_tensor tensors[5];
  for (size_t i = 0; i < 5; ++i) expect_ok(qn_session_input_tensor(session.get(), i, &tensors[i]));
  expect_ok(qn_session_resize_all(session.get(), tensors));
  tensors[0].quantization.scale = 0.5f;
  EXPECT_EQ(qn_session_resize_all(session.get(), tensors), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "input 'x': expected the model's scale and zero point");
  tensors[0].quantization = {};  // does not say
  expect_ok(qn_session_resize_all(session.get(), tensors));
}

TEST(Types, Faults) {
  const Graph good = integer_graph();
  const auto find = [](Graph& g, const char* name) -> Tensor& {
    for (Tensor& tensor : g.tensors) {
      if (tensor.name == String(name)) return tensor;
    }
    return g.tensors[0];
  };
  const auto weights = [&](Graph& g) -> Quantization& { return find(g, "weights").quantization; };
  const struct {
    const char* message;
    std::function<void(Graph&)> make;
  } faults[] = {
      {"('weights'): it has a zero point or an axis, but no scale", [&](Graph& g) { weights(g).scales.clear(); }},
      {"('weights'): it has 3 scales, but 2 zero points", [&](Graph& g) { weights(g).zero_points.pop_back(); }},
      {"('weights'): it has 3 scales, but no axis", [&](Graph& g) { weights(g).axis = -1; }},
      {"('weights'): quantized along axis -2", [&](Graph& g) { weights(g).axis = -2; }},
      {"('weights'): quantized along axis 2 of a tensor of rank 2", [&](Graph& g) { weights(g).axis = 2; }},
      {"('weights'): 3 scales for the 2 channels of axis 0", [&](Graph& g) { weights(g).axis = 0; }},
      {"('weights'): the scale is 0, not finite and above 0", [&](Graph& g) { weights(g).scales[1] = 0; }},
      {"('weights'): the scale is nan, not finite", [&](Graph& g) { weights(g).scales[1] = std::nanf(""); }},
      {"('weights'): zero point -129 is outside s8", [&](Graph& g) { weights(g).zero_points[0] = -129; }},
      {"('x'): the scale is 0", [&](Graph& g) { find(g, "x").quantization.scales[0] = 0; }},
      {"('x'): zero point 256 is outside u8", [&](Graph& g) { find(g, "x").quantization.zero_points[0] = 256; }},
      {"('s64'): it has a scale, but s64 is not quantized",
       [&](Graph& g) { find(g, "s64").quantization.scales = {1}; }},
      {"input 1 has another type or quantization than the first",
       [&](Graph& g) { find(g, "more").quantization.scales[0] = 0.5f; }},
      {"input 1 has another type or quantization than the first",
       [&](Graph& g) {
         find(g, "more").type = QN_S8;
         find(g, "more").quantization.zero_points[0] = 0;
       }},
      {"its type is s8, that of its tensor u8", [&](Graph& g) { g.outputs[0].type = QN_S8; }}};
  for (const auto& fault : faults) {
    Graph graph = good;
    fault.make(graph);
    const qn_status status = check_graph(graph);
    EXPECT_EQ(status == QN_OK ? infer_shapes(graph) : status, QN_BAD_MODEL) << fault.message;
    EXPECT_NE(std::string(qn_last_message()).find(fault.message), std::string::npos) << qn_last_message();
  }
  Graph wrong = good;
  Tensor& y = find(wrong, "y");
  y.type = wrong.outputs[0].type = QN_S8;
  EXPECT_EQ(check_graph(wrong), QN_OK);
  EXPECT_EQ(infer_shapes(wrong), QN_BAD_MODEL);
  EXPECT_NE(std::string(qn_last_message()).find("the output is s8, not u8"), std::string::npos) << qn_last_message();
}

// Version 0.1.0 wrote this file: it is read as it was meant, so that it is written with the same bytes.
TEST(Types, AFileOfTheFirstVersion) {
  const std::string path = QUERN_SOURCE_DIR "/examples/digits/digits.qn";
  Graph graph;
  ASSERT_EQ(read_model_file(path.c_str(), &graph), QN_OK) << qn_last_message();
  Vector<unsigned char> bytes;
  expect_ok(write_model(graph, &bytes));
  std::ifstream file(path, std::ios::binary);
  const std::string old{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(old == std::string(bytes.begin(), bytes.end()));
}

}  // namespace types_test
}  // namespace quern::test
