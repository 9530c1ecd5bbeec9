// Damaged files: every variant of a small model is imported or refused with one line, and nothing worse happens.
#include <gtest/gtest.h>

#include <random>

#include "arrays.h"
#include "convert/caffe/caffe.pb.h"
#include "convert/convert.h"
#include "graph/file/format.h"
#include "onnx_model.h"
#include "tensorflow_graph.h"
#include "tflite_model.h"

namespace quern {
namespace hostile_test {

using test::OnnxModel;

constexpr size_t variants = 800;

// Flips a bit, overwrites, cuts, repeats or drops a part.
std::string damaged(std::string bytes, std::mt19937& engine) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : engine() % n; };
  for (size_t changes = 1 + below(3); changes > 0 && !bytes.empty(); --changes) {
    const size_t at = below(bytes.size()), length = 1 + below(8);
    switch (below(6)) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
      case 1: bytes[at] = static_cast<char>(engine()); break;
      case 2: bytes.resize(at); break;
      case 3: bytes.insert(at, bytes.substr(below(bytes.size()), length * 4)); break;
      case 4: bytes.erase(at, length); break;
      default: bytes.replace(at, std::min(length, bytes.size() - at), length, '\xff');
    }
  }
  return bytes;
}

// Replaces a number of a text by a bad one, now and then.
std::string damaged_text(const std::string& text, std::mt19937& engine) {
  static const char* const numbers[] = {"0", "-1", "4294967295", "1099511627776", "nan", "inf", "1e39", "\"x\""};
  std::vector<size_t> digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(text[i]))) digits.push_back(i);
  }
  if (engine() % 2 == 0) return damaged(text, engine);
  std::string result = text;
  return result.replace(digits[engine() % digits.size()], 1, numbers[engine() % std::size(numbers)]);
}

struct Outcome {
  size_t imported = 0, refused = 0;
};

template <class Import>
void count(Import&& import, Outcome* outcome) {
  try {
    import();
    ++outcome->imported;
  } catch (const Error& error) {
    ++outcome->refused;
    const std::string message = error.what();
    EXPECT_FALSE(message.empty());
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

OnnxModel onnx_model() {
  OnnxModel model(11);
  model.input("x", {1, 3, 8, 8}).output("y").output("z");
  model.floats("w", test::random({4, 3, 3, 3}, 1))
      .floats("b", test::random({4}, 2))
      .floats("m", test::random({16, 5}, 3));
  model.integers("zero", {0})
      .integers("rest", {-1})
      .floats("v", test::random({5}, 4))
      .floats("scales", {{4}, {1, 1, 2, 2}});
  model.node("Conv", {"x", "w", "b"}, {"c"}, "pads=[1,1,1,1] strides=[2,2]");
  model.node("Relu", {"c"}, {"r"}).node("MaxPool", {"r"}, {"p"}, "kernel_shape=[3,3] strides=[2,2] ceil_mode=1");
  model.node("Shape", {"p"}, {"s"}).node("Gather", {"s", "zero"}, {"n"}, "axis=0");
  model.node("Concat", {"n", "rest"}, {"to"}, "axis=0").node("Reshape", {"p", "to"}, {"f"});
  model.node("MatMul", {"f", "m"}, {"g"}).node("Add", {"g", "v"}, {"h"}).node("Softmax", {"h"}, {"y"}, "axis=1");
  model.node("Resize", {"c", "", "scales"}, {"u"}, "mode='linear'");
  model.node("Slice", {"u", "zero", "rest", "zero"}, {"z0"}).node("Transpose", {"u"}, {"z"}, "perm=[0,2,3,1]");
  return model;
}

test::TfliteModel tflite_model() {
  using Builder = test::TfliteModel::Builder;
  namespace schema = tflite::schema;
  test::TfliteModel model;
  const int x = model.input({1, 8, 8, 3}), c = model.computed({1, 4, 4, 4}), y = model.computed({1, 5});
  model.node(3, {x, model.floats(test::random({4, 3, 3, 3}, 1)), model.floats(test::random({4}, 2))}, {c},
             [](Builder& b) { return schema::CreateConv2DOptions(b, schema::Padding::same, 2, 2); });
  const int flat = model.node(22, {c, model.integers({1, -1})}, {model.computed({1, 64})});
  model.node(9, {flat, model.floats(test::random({5, 64}, 3))}, {y},
             [](Builder& b) { return schema::CreateFullyConnectedOptions(b, schema::Activation::relu); });
  model.output(y);
  return model;
}

TEST(Hostile, OnnxVariants) {
  const test::Folder folder;
  const std::string whole = onnx_model().bytes();
  Outcome outcome;
  count([&] { import_onnx(folder.write("net.onnx", whole)); }, &outcome);
  ASSERT_EQ(outcome.imported, 1u);
  std::mt19937 engine(1);
  for (size_t i = 0; i < variants; ++i) {
    const std::string path = folder.write("net.onnx", damaged(whole, engine));
    count([&] { import_onnx(path); }, &outcome);
  }
  EXPECT_GT(outcome.imported, variants / 20);  // flips in weights load
  EXPECT_GT(outcome.refused, variants / 20);
}

TEST(Hostile, TfliteVariants) {
  const test::Folder folder;
  const std::string whole = tflite_model().bytes();
  Outcome outcome;
  count([&] { import_tflite(folder.write("net.tflite", whole)); }, &outcome);
  ASSERT_EQ(outcome.imported, 1u);
  std::mt19937 engine(1);
  for (size_t i = 0; i < variants; ++i) {
    const std::string path = folder.write("net.tflite", damaged(whole, engine));
    count([&] { import_tflite(path); }, &outcome);
  }
  EXPECT_GT(outcome.imported, variants / 20);
  EXPECT_GT(outcome.refused, variants / 20);
}

const char* const caffe_net =
    "name: \"n\"\ninput: \"x\" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }\n"
    "layer { name: \"c\" type: \"Convolution\" bottom: \"x\" top: \"c\" convolution_param { num_output: 4 "
    "kernel_size: 3 pad: 1 stride: 2 group: 1 dilation: 1 } }\n"
    "layer { name: \"r\" type: \"ReLU\" bottom: \"c\" top: \"c\" relu_param { negative_slope: 0.1 } }\n"
    "layer { name: \"p\" type: \"Pooling\" bottom: \"c\" top: \"p\" pooling_param { kernel_size: 3 stride: 2 } }\n"
    "layer { name: \"s\" type: \"Slice\" bottom: \"p\" top: \"s1\" top: \"s2\" slice_param { slice_point: 1 } }\n"
    "layer { name: \"k\" type: \"Concat\" bottom: \"s2\" bottom: \"s1\" top: \"k\" concat_param { axis: 1 } }\n"
    "layer { name: \"v\" type: \"Reshape\" bottom: \"k\" top: \"v\" reshape_param { shape { dim: 0 dim: -1 } } }\n"
    "layer { name: \"f\" type: \"InnerProduct\" bottom: \"v\" top: \"f\" inner_product_param { num_output: 5 } }\n"
    "layer { name: \"o\" type: \"Softmax\" bottom: \"f\" top: \"o\" }\n";

std::string caffe_weights() {
  caffe::schema::NetWeights net;
  const auto add = [&](const char* layer, const std::vector<test::Array>& blobs) {
    caffe::schema::LayerWeights* weights = net.add_layer();
    weights->set_name(layer);
    for (const test::Array& array : blobs) {
      caffe::schema::BlobProto* blob = weights->add_blobs();
      for (const size_t d : array.dims) blob->mutable_shape()->add_dim(static_cast<int64_t>(d));
      for (const float value : array.data) blob->add_data(value);
    }
  };
  add("c", {test::random({4, 3, 3, 3}, 1), test::random({4}, 2)});
  add("f", {test::random({5, 16}, 3), test::random({5}, 4)});
  return net.SerializeAsString();
}

// y = x while n > 0: n -= 1, x = n is odd ? -x : concat(x, x)
test::TfGraph tensorflow_graph() {
  namespace schema = tensorflow::schema;
  using test::TfFunction;
  using test::TfGraph;
  TfGraph graph, body, more;
  graph.placeholder("n", {}, schema::DT_INT32).placeholder("x", {1, 2});
  graph.node("While", "y", {"n", "x"}, {{"cond", TfFunction{"goes_on"}}, {"body", TfFunction{"body"}}});
  graph.function("goes_on", {"n", "x"}, TfGraph().integer("zero", 0).node("Greater", "more", {"n", "zero:output:0"}),
                 {"more:z:0"});
  body.integer("one", 1).integer("two", 2).node("Sub", "next", {"n", "one:output:0"});
  body.node("FloorMod", "odd", {"n", "two:output:0"});
  body.node("If", "z", {"odd:z:0", "x"}, {{"then_branch", TfFunction{"neg"}}, {"else_branch", TfFunction{"more"}}});
  graph.function("body", {"n", "x"}, body, {"next:z:0", "z:output:0"});
  graph.function("neg", {"x"}, TfGraph().node("Neg", "z", {"x"}), {"z:y:0"});
  more.integer("axis", 0).node("ConcatV2", "z", {"x", "x", "axis:output:0"});
  more.node("PartitionedCall", "w", {"z:output:0"}, {{"f", TfFunction{"neg"}}});
  graph.function("more", {"x"}, more, {"w:output:0"});
  return graph;
}

TEST(Hostile, TensorFlowVariants) {
  const test::Folder folder;
  const std::string whole = tensorflow_graph().bytes();
  Outcome outcome;
  count([&] { import_tensorflow(folder.write("net.pb", whole), {{"y:1"}, {}, {}}); }, &outcome);
  ASSERT_EQ(outcome.imported, 1u);
  std::mt19937 engine(1);
  for (size_t i = 0; i < variants; ++i) {
    const std::string path = folder.write("net.pb", damaged(whole, engine));
    count([&] { import_tensorflow(path, {{"y:1"}, {}, {}}); }, &outcome);
  }
  EXPECT_GT(outcome.imported, 1u);
  EXPECT_GT(outcome.refused, variants / 20);
}

TEST(Hostile, CaffeNetVariants) {
  const test::Folder folder;
  const std::string weights = folder.write("net.caffemodel", caffe_weights());
  Outcome outcome;
  count([&] { import_caffe(folder.write("net.prototxt", caffe_net), weights); }, &outcome);
  ASSERT_EQ(outcome.imported, 1u);
  std::mt19937 engine(2);
  for (size_t i = 0; i < variants; ++i) {
    const std::string path = folder.write("net.prototxt", damaged_text(caffe_net, engine));
    count([&] { import_caffe(path, weights); }, &outcome);
  }
  EXPECT_GT(outcome.refused, variants / 4);
}

TEST(Hostile, CaffeWeightsVariants) {
  const test::Folder folder;
  const std::string net = folder.write("net.prototxt", caffe_net), whole = caffe_weights();
  Outcome outcome;
  std::mt19937 engine(3);
  for (size_t i = 0; i < variants; ++i) {
    const std::string path = folder.write("net.caffemodel", damaged(whole, engine));
    count([&] { import_caffe(net, path); }, &outcome);
  }
  EXPECT_GT(outcome.imported, variants / 20);
  EXPECT_GT(outcome.refused, variants / 20);
}

TEST(Hostile, NamesCannotBreakTheLine) {
  const test::Folder folder;
  const std::string net =
      folder.write("net.prototxt",
                   "input: \"x\" input_shape { dim: 1 }\n"
                   "layer { name: \"a\\n\\033[31m\" type: \"No\\nthing\" bottom: \"x\" top: \"y\" }");
  const std::string message = test::error_of([&] { import_caffe(net, ""); });
  EXPECT_EQ(message.find('\033'), std::string::npos);
  EXPECT_NE(message.find("No?thing (1 node: a??[31m)"), std::string::npos) << message;
}

TEST(Hostile, ManyLayersTakeLittleTime) {
  const test::Folder folder;
  std::string text =
      "input: \"a\" input_shape { dim: 1 dim: 8 }\n"
      "layer { name: \"s\" type: \"Split\" bottom: \"a\" top: \"x\" }\n";
  for (int i = 0; i < 20000; ++i)
    text += "layer { name: \"r\" type: \"Power\" bottom: \"x\" top: \"x\" power_param { scale: 2 } }\n";
  EXPECT_EQ(import_caffe(folder.write("long.prototxt", text), "").nodes.size(), 20000u);
}

TEST(Hostile, FilesAreToldApart) {
  const test::Folder folder;
  const std::string net = folder.write("net.prototxt", caffe_net),
                    weights = folder.write("w.caffemodel", caffe_weights());
  EXPECT_EQ(import_model({weights, net}).outputs.size(), 1u);
  EXPECT_EQ(import_model({net, weights}).outputs.size(), 1u);
  EXPECT_EQ(import_model({folder.write("net.txt", caffe_net), folder.write("w.bin", caffe_weights())}).outputs.size(),
            1u);
  EXPECT_EQ(import_model({folder.write("net.onnx", onnx_model().bytes())}).outputs.size(), 2u);
  EXPECT_EQ(import_model({folder.write("net.tflite", tflite_model().bytes())}).outputs.size(), 1u);
  const auto refusal = [](const std::vector<std::string>& paths) {
    return test::error_of([&] { import_model(paths); });
  };
  EXPECT_NE(refusal({weights}).find("needs its .prototxt"), std::string::npos);
  EXPECT_NE(refusal({net, net}).find("two files are"), std::string::npos);
  EXPECT_NE(refusal({}).find("one file"), std::string::npos);
  EXPECT_NE(refusal({folder.path("absent")}).find("cannot open"), std::string::npos);
  EXPECT_NE(refusal({folder.write("noise", "\x01\x02\x03")}).find("not a .prototxt"), std::string::npos);
  EXPECT_NE(refusal({folder.path("")}).find("got a folder"), std::string::npos);
  EXPECT_NE(refusal({folder.write("empty.onnx", "")}).find("not an ONNX model"), std::string::npos);
  EXPECT_NE(refusal({folder.write("empty.tflite", "")}).find("not a TensorFlow Lite model"), std::string::npos);
}

// A state follows its output when outputs are chosen.
TEST(Hostile, StatesOfFiles) {
  const test::Folder folder;
  Graph graph = import_model({folder.write("net.onnx", onnx_model().bytes())});
  graph.inputs.push_back({.tensor = add_tensor(graph, "state", QN_F32, {2})});
  graph.outputs.push_back({.tensor = graph.inputs.back().tensor});
  const std::string path = folder.path("net.qn");
  expect_ok(write_model_file(graph, path.c_str()));
  const auto output = [&](size_t i) { return std::string(tensor_of(graph, graph.outputs[i].tensor).name); };
  EXPECT_EQ(import_model({path}).states.size(), 0u);
  const auto with_state = [&](const std::string& to, const std::string& from) {
    ImportOptions options;
    options.states = {{to, from}};
    return import_model({path}, options);
  };
  EXPECT_EQ(with_state("state", "state").states.size(), 1u);
  EXPECT_EQ(test::error_of([&] { with_state("absent", "state"); }), path + ": the model has no input 'absent'");
  EXPECT_EQ(test::error_of([&] { with_state("state", "absent"); }), path + ": the model has no output 'absent'");
  EXPECT_EQ(test::error_of([&] { with_state("state", output(0)); }),
            path + ": state 0: input and output differ in type, shape or quantization");
  graph.states = {{static_cast<uint32_t>(graph.inputs.size() - 1), static_cast<uint32_t>(graph.outputs.size() - 1)}};
  expect_ok(write_model_file(graph, path.c_str()));
  ImportOptions chosen;
  chosen.outputs = {"state", output(0)};
  const Graph again = import_model({path}, chosen);
  ASSERT_EQ(again.states.size(), 1u);
  EXPECT_EQ(again.states[0].output, 0u);
  EXPECT_EQ(test::error_of([&] { with_state("state", "state"); }),
            path + ": state 1: its input or output belongs to another state");
  chosen.outputs = {output(0)};
  EXPECT_EQ(test::error_of([&] { import_model({path}, chosen); }),
            path + ": the model has no output of a state 'state'");
}

}  // namespace hostile_test
}  // namespace quern
