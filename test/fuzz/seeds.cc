#include "seeds.h"

#include <google/protobuf/text_format.h>
#include <png.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "../convert/keras_model.h"
#include "../convert/tensorflow_graph.h"
#include "../convert/tflite_model.h"
#include "../graph/small_graphs.h"
#include "../tool/data_sets.h"
#include "../tool/pictures.h"
#include "compress/prune.h"
#include "compress/quantize.h"
#include "convert/caffe/caffe.pb.h"
#include "convert/convert.h"
#include "convert/onnx/onnx.pb.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"
#include "source_dir.h"

namespace quern {
namespace {

std::string read_file_of_source(const std::string& path) {
  std::ifstream file(std::string(QUERN_SOURCE_DIR) + "/" + path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file || bytes.str().empty()) throw Error("cannot read " + path);
  return bytes.str();
}

// Weights that keep activations small; any numbers would do.
float weight(size_t i) { return 0.25f * std::sin(static_cast<float>(i) + 1); }

// ---- onnx -----------------------------------------------------------------------------------------------------------

using Ints = std::vector<int64_t>;

class OnnxModel {
 public:
  explicit OnnxModel(int64_t opset) {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(opset);
    model_.mutable_graph()->set_name("seed");
  }

  void input(const std::string& name, const Ints& shape) { port(model_.mutable_graph()->add_input(), name, shape); }
  void output(const std::string& name, const Ints& shape) { port(model_.mutable_graph()->add_output(), name, shape); }

  std::string floats(const std::string& name, const Ints& shape) {
    onnx::schema::TensorProto* t = initializer(name, shape, onnx::schema::TensorProto::FLOAT);
    for (size_t i = 0, n = count(shape); i < n; ++i) t->add_float_data(0.5f + weight(i));
    return name;
  }
  // The same as raw bytes of half precision: all 1.
  std::string halves(const std::string& name, const Ints& shape) {
    std::string raw;
    for (size_t i = 0, n = count(shape); i < n; ++i) raw += std::string("\x00\x3c", 2);
    initializer(name, shape, onnx::schema::TensorProto::FLOAT16)->set_raw_data(raw);
    return name;
  }
  std::string ints(const std::string& name, const Ints& values) {
    onnx::schema::TensorProto* t =
        initializer(name, {static_cast<int64_t>(values.size())}, onnx::schema::TensorProto::INT64);
    for (const int64_t v : values) t->add_int64_data(v);
    return name;
  }

  std::string scale(const std::string& name, float scale) {
    initializer(name, {}, onnx::schema::TensorProto::FLOAT)->add_float_data(scale);
    return name;
  }
  std::string zero_point(const std::string& name) {
    initializer(name, {}, onnx::schema::TensorProto::INT8)->add_int32_data(0);
    return name;
  }
  std::string weights_of_bytes(const std::string& name, const Ints& shape) {
    onnx::schema::TensorProto* t = initializer(name, shape, onnx::schema::TensorProto::INT8);
    for (size_t i = 0, n = count(shape); i < n; ++i) t->add_int32_data(static_cast<int32_t>(i * 37 % 255) - 127);
    return name;
  }

  // Appends a node with one output, which is named like it; returns that name.
  std::string node(const std::string& type, const std::string& name, const std::vector<std::string>& inputs) {
    last_ = model_.mutable_graph()->add_node();
    last_->set_op_type(type);
    last_->set_name("node_" + name);
    for (const std::string& i : inputs) last_->add_input(i);
    last_->add_output(name);
    return name;
  }
  // Attributes of the node added last.
  OnnxModel& set(const std::string& name, const Ints& values) {
    onnx::schema::AttributeProto* a = attribute(name, onnx::schema::AttributeProto::INTS);
    for (const int64_t v : values) a->add_ints(v);
    return *this;
  }
  OnnxModel& set(const std::string& name, int64_t value) {
    attribute(name, onnx::schema::AttributeProto::INT)->set_i(value);
    return *this;
  }
  OnnxModel& set(const std::string& name, float value) {
    attribute(name, onnx::schema::AttributeProto::FLOAT)->set_f(value);
    return *this;
  }

  std::string bytes() const { return model_.SerializeAsString(); }

 private:
  static size_t count(const Ints& shape) {
    size_t n = 1;
    for (const int64_t d : shape) n *= static_cast<size_t>(d);
    return n;
  }
  static void port(onnx::schema::ValueInfoProto* info, const std::string& name, const Ints& shape) {
    info->set_name(name);
    info->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::schema::TensorProto::FLOAT);
    for (const int64_t d : shape)
      info->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(d);
  }
  onnx::schema::TensorProto* initializer(const std::string& name, const Ints& shape,
                                         onnx::schema::TensorProto::DataType type) {
    onnx::schema::TensorProto* t = model_.mutable_graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(type);
    for (const int64_t d : shape) t->add_dims(d);
    return t;
  }
  onnx::schema::AttributeProto* attribute(const std::string& name, onnx::schema::AttributeProto::AttributeType type) {
    onnx::schema::AttributeProto* a = last_->add_attribute();
    a->set_name(name);
    a->set_type(type);
    return a;
  }

  onnx::schema::ModelProto model_;
  onnx::schema::NodeProto* last_ = nullptr;
};

// Convolutions, pools and what stands between them.
std::string vision_onnx() {
  OnnxModel m(13);
  m.input("x", {1, 3, 12, 12});
  std::string t = m.node("Conv", "conv", {"x", m.floats("w1", {8, 3, 3, 3}), m.floats("b1", {8})});
  m.set("strides", Ints{2, 2}).set("pads", Ints{0, 0, 1, 1}).set("kernel_shape", Ints{3, 3}).set("group", int64_t{1});
  t = m.node("BatchNormalization", "norm",
             {t, m.floats("gamma", {8}), m.floats("beta", {8}), m.floats("mean", {8}), m.floats("var", {8})});
  m.set("epsilon", 1e-3f);
  t = m.node("Relu", "relu", {t});
  t = m.node("Conv", "depthwise", {t, m.floats("w2", {8, 1, 3, 3})});
  m.set("group", int64_t{8}).set("pads", Ints{1, 1, 1, 1});
  const std::string left = m.node("MaxPool", "max", {t});
  m.set("kernel_shape", Ints{3, 3}).set("strides", Ints{2, 2}).set("ceil_mode", int64_t{1});
  const std::string right = m.node("AveragePool", "average", {t});
  m.set("kernel_shape", Ints{2, 2}).set("strides", Ints{2, 2}).set("count_include_pad", int64_t{1});
  t = m.node("Concat", "joined", {left, right});
  m.set("axis", int64_t{1});
  t = m.node("LRN", "lrn", {t});
  m.set("size", int64_t{5}).set("alpha", 1e-4f);
  t = m.node("PRelu", "prelu", {t, m.floats("slope", {16, 1, 1})});
  t = m.node("Add", "sum", {t, m.node("Sigmoid", "sigmoid", {t})});
  t = m.node("GlobalAveragePool", "global", {t});
  t = m.node("Flatten", "flat", {t});
  m.set("axis", int64_t{1});
  t = m.node("Gemm", "gemm", {t, m.floats("w3", {5, 16}), m.floats("b3", {5})});
  m.set("transB", int64_t{1});
  t = m.node("Softmax", "y", {t});
  m.set("axis", int64_t{1});
  m.output(t, {1, 5});
  return m.bytes();
}

// Shapes that are computed, halves, and the operators that only move elements.
std::string shapes_onnx() {
  OnnxModel m(11);
  m.input("x", {2, 4, 6, 6});
  const std::string shape = m.node("Shape", "shape", {"x"});
  const std::string batch = m.node("Gather", "batch", {shape, m.ints("zero", {0})});
  m.set("axis", int64_t{0});
  const std::string target = m.node("Concat", "target", {batch, m.ints("rest", {2, 2, 36})});
  m.set("axis", int64_t{0});
  std::string t = m.node("Reshape", "reshaped", {"x", target});
  t = m.node("Transpose", "transposed", {t});
  m.set("perm", Ints{0, 2, 1, 3});
  t = m.node("Reshape", "back", {t, m.ints("shape4", {0, 4, 6, -1})});
  t = m.node("Pad", "padded", {t, m.ints("pads", {0, 0, 1, 0, 0, 0, 1, 2})});
  t = m.node("Slice", "sliced", {t, m.ints("starts", {1}), m.ints("ends", {7}), m.ints("axes", {2})});
  const std::string ones = m.node("Cast", "cast", {m.halves("h", {4, 1, 1})});
  m.set("to", int64_t{1});
  t = m.node("Mul", "scaled", {t, ones});
  t = m.node("Clip", "y", {t});
  m.output(t, {2, 4, 6, 8});
  return m.bytes();
}

// ---- tensorflow -----------------------------------------------------------------------------------------------------

test::Array positive_numbers(const test::Dims& dims) {
  test::Array array{dims, std::vector<float>(test::count(dims))};
  for (size_t i = 0; i < array.data.size(); ++i) array.data[i] = 0.5f + weight(i);
  return array;
}

// Convolutions, pools and what stands between them.
test::TfGraph vision_tensorflow() {
  test::TfGraph g;
  const Ints ones = {1, 1, 1, 1}, twos = {1, 2, 2, 1};
  g.placeholder("x", {-1, 12, 12, 3}).floats("w1", positive_numbers({3, 3, 3, 8})).floats("b", positive_numbers({8}));
  g.node("Conv2D", "conv", {"x", "w1"}, {{"strides", twos}, {"padding", "SAME"}});
  g.node("BiasAdd", "biased", {"conv", "b"})
      .floats("mean", positive_numbers({8}))
      .floats("variance", positive_numbers({8}));
  g.node("FusedBatchNormV3", "norm", {"biased", "b", "b", "mean", "variance"}, {{"is_training", false}});
  g.floats("zero", positive_numbers({})).last("value").mutable_tensor()->set_float_val(0, 0);
  g.floats("slope", positive_numbers({8}))
      .node("Greater", "above", {"norm", "zero"})
      .node("Mul", "below", {"norm", "slope"});
  g.node("Select", "prelu", {"above", "norm", "below"}).floats("w2", positive_numbers({3, 3, 8, 1}));
  g.integers("block", {2, 2}).integers("pads", {2, 2}, {2, 2, 2, 2}).integers("crops", {2, 2}, {0, 0, 0, 0});
  g.node("SpaceToBatchND", "blocks", {"prelu", "block", "pads"});
  g.node("DepthwiseConv2dNative", "depthwise", {"blocks", "w2"}, {{"strides", ones}, {"padding", "VALID"}});
  g.node("BatchToSpaceND", "dilated", {"depthwise", "block", "crops"});
  g.node("MaxPool", "max", {"dilated"}, {{"ksize", twos}, {"strides", twos}, {"padding", "SAME"}});
  g.node("AvgPool", "average", {"dilated"}, {{"ksize", twos}, {"strides", twos}, {"padding", "VALID"}});
  g.integer("three", 3).node("ConcatV2", "joined", {"max", "average", "three"}, {{"N", 2}});
  g.node("LRN", "lrn", {"joined"}, {{"depth_radius", 2}}).integers("axes", {1, 2});
  g.node("Mean", "global", {"lrn", "axes"}).floats("w3", positive_numbers({16, 5}));
  g.node("MatMul", "product", {"global", "w3"}).node("Softmax", "y", {"product"});
  return g;
}

// Shapes that are computed, a part of a loop, and the operators that only move elements.
test::TfGraph shapes_tensorflow() {
  test::TfGraph g;
  g.placeholder("x", {2, 4, 6, 6}).node("Shape", "shape", {"x"}).integers("0", {0}).integers("1", {1});
  g.node("StridedSlice", "batch", {"shape", "0", "1", "1"}, {{"shrink_axis_mask", 1}}).integer("rest", -1);
  g.node("Pack", "target", {"batch", "rest"}, {{"N", 2}}).node("Reshape", "flat", {"x", "target"});
  g.integers("four", {2, 4, 6, 6}).node("Reshape", "back", {"flat", "four"}).integers("perm", {0, 2, 1, 3});
  g.node("Transpose", "transposed", {"back", "perm"}).integers("pads", {4, 2}, {0, 0, 1, 0, 0, 2, 0, 0});
  g.node("Pad", "padded", {"transposed", "pads"})
      .node("MirrorPad", "mirrored", {"padded", "pads"}, {{"mode", "REFLECT"}});
  g.integer("axis", 3).node("Split", "split", {"axis", "mirrored"}, {{"num_split", 3}}).integers("size", {5, 9});
  g.node("ResizeBilinear", "resized", {"split:1", "size"}, {{"align_corners", true}});
  g.floats("c", positive_numbers({2})).node("Enter", "entered", {"c"}, {{"is_constant", true}, {"frame_name", "loop"}});
  g.node("Rsqrt", "scale", {"entered"}).node("Mul", "y", {"resized", "scale", "^split"});
  return g;
}

// A loop that reads one list and stores in another.
test::TfGraph lists_tensorflow() {
  test::TfGraph g;
  const test::TfAttributes of_floats = {{"element_dtype", tensorflow::schema::DT_FLOAT}};
  g.placeholder("x", {3, 2}).integers("shape", {-1}).integer("0", 0).integer("3", 3);
  g.node("TensorListFromTensor", "from", {"x", "shape"}, of_floats);
  g.node("TensorListReserve", "to", {"shape", "3"}, of_floats);
  g.node("While", "loop", {"0", "to", "from"},
         {{"cond", test::TfFunction{"goes_on"}}, {"body", test::TfFunction{"body"}}});
  g.node("TensorListStack", "y", {"loop:1", "shape"}, of_floats).node("TensorListLength", "n", {"to"});
  g.function("goes_on", {"i", "to", "from"}, test::TfGraph().integer("3", 3).node("Less", "z", {"i", "3:output:0"}),
             {"z:z:0"});
  test::TfGraph body;
  body.integer("1", 1).node("AddV2", "next", {"i", "1:output:0"}).integers("shape", {-1});
  body.node("TensorListGetItem", "row", {"from", "i", "shape:output:0"}, of_floats).node("Neg", "item", {"row:item:0"});
  body.node("TensorListSetItem", "set", {"to", "i", "item:y:0"}, of_floats);
  g.function("body", {"i", "to", "from"}, body, {"next:z:0", "set:output_handle:0", "from"});
  return g;
}

// A loop, an array and a condition of version 1.
test::TfGraph old_loops_tensorflow() {
  test::TfGraph g;
  const test::TfAttributes frame = {{"frame_name", "f"}}, same = {{"frame_name", "f"}, {"is_constant", true}};
  g.placeholder("x", {2}).integer("0", 0).integer("1", 1).integer("3", 3);
  g.node("TensorArrayV3", "array", {"3"}, {{"dtype", tensorflow::schema::DT_FLOAT}});
  g.node("Enter", "i", {"0"}, frame).node("Merge", "i/merge", {"i", "i/next"}).node("Enter", "n", {"3"}, same);
  g.node("Less", "less", {"i/merge", "n"})
      .node("LoopCond", "go", {"less"})
      .node("Switch", "i/switch", {"i/merge", "go"});
  g.node("AddV2", "i/more", {"i/switch:1", "1"}).node("NextIteration", "i/next", {"i/more"});
  g.node("Enter", "flow", {"array:1"}, frame).node("Merge", "flow/merge", {"flow", "flow/next"});
  g.node("Switch", "flow/switch", {"flow/merge", "go"}).node("Exit", "exit", {"flow/switch"});
  g.node("Enter", "x/in", {"x"}, same).node("Enter", "handle", {"array"}, same);
  g.node("Greater", "late", {"i/switch:1", "1"}).node("Switch", "x/switch", {"x/in", "late"});
  g.node("Neg", "yes", {"x/switch:1"}).node("Relu", "no", {"x/switch"}).node("Merge", "chosen", {"no", "yes"});
  g.node("TensorArrayWriteV3", "write", {"handle", "i/switch:1", "chosen", "flow/switch:1"});
  g.node("NextIteration", "flow/next", {"write"}).integers("all", {0, 2});
  g.node("TensorArrayGatherV3", "y", {"array", "all", "exit"}, {{"dtype", tensorflow::schema::DT_FLOAT}});
  return g;
}

// ---- caffe ----------------------------------------------------------------------------------------------------------

const char* const caffe_net = R"(name: "seed"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 11 dim: 11 } } }
layer {
  name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 }
}
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "conv1" batch_norm_param { eps: 0.001 } }
layer { name: "scale1" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer {
  name: "dw" type: "Convolution" bottom: "conv1" top: "dw"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 group: 4 bias_term: false }
}
layer { name: "prelu" type: "PReLU" bottom: "dw" top: "dw" }
layer { name: "sum" type: "Eltwise" bottom: "conv1" bottom: "dw" top: "sum" eltwise_param { operation: SUM coeff: 1 coeff: -0.5 } }
layer { name: "pool" type: "Pooling" bottom: "sum" top: "pool" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "norm" type: "LRN" bottom: "pool" top: "norm" lrn_param { local_size: 3 alpha: 0.0001 beta: 0.75 } }
layer { name: "power" type: "Power" bottom: "norm" top: "power" power_param { power: 2 scale: 0.5 shift: 1 } }
layer { name: "join" type: "Concat" bottom: "power" bottom: "pool" top: "join" concat_param { axis: 1 } }
layer { name: "drop" type: "Dropout" bottom: "join" top: "join" dropout_param { dropout_ratio: 0.5 } }
layer { name: "fc" type: "InnerProduct" bottom: "join" top: "fc" inner_product_param { num_output: 5 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
)";

const char* const caffe_v1_net = R"(name: "seed of 2014"
input: "data"
input_dim: 1
input_dim: 1
input_dim: 8
input_dim: 8
layers { name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1" convolution_param { num_output: 2 kernel_size: 3 } }
layers { name: "pool1" type: POOLING bottom: "conv1" top: "pool1" pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layers { name: "fc" type: INNER_PRODUCT bottom: "pool1" top: "fc" inner_product_param { num_output: 3 } }
layers { name: "relu" type: RELU bottom: "fc" top: "fc" }
layers { name: "prob" type: SOFTMAX bottom: "fc" top: "prob" }
)";

void add_blob(caffe::schema::BlobProto* blob, const Ints& shape, bool old) {
  size_t n = 1;
  for (const int64_t d : shape) n *= static_cast<size_t>(d);
  for (size_t i = 0; i < n; ++i) blob->add_data(0.5f + weight(i));
  if (old) {
    Ints four(4 - shape.size(), 1);
    four.insert(four.end(), shape.begin(), shape.end());
    blob->set_num(four[0]);
    blob->set_channels(four[1]);
    blob->set_height(four[2]);
    blob->set_width(four[3]);
  } else {
    for (const int64_t d : shape) blob->mutable_shape()->add_dim(d);
  }
}

std::string caffe_weights() {
  caffe::schema::NetWeights net;
  const auto layer = [&net](const char* name, const std::vector<Ints>& blobs) {
    caffe::schema::LayerWeights* l = net.add_layer();
    l->set_name(name);
    for (const Ints& shape : blobs) add_blob(l->add_blobs(), shape, false);
  };
  layer("conv1", {{4, 3, 3, 3}, {4}});
  layer("bn1", {{4}, {4}, {1}});
  layer("scale1", {{4}, {4}});
  layer("dw", {{4, 1, 3, 3}});
  layer("prelu", {{4}});
  layer("fc", {{5, 72}, {5}});
  return net.SerializeAsString();
}

std::string caffe_v1_weights() {
  caffe::schema::NetWeights net;
  const auto layer = [&net](const char* name, const std::vector<Ints>& blobs) {
    caffe::schema::V1LayerWeights* l = net.add_layers();
    l->set_name(name);
    for (const Ints& shape : blobs) add_blob(l->add_blobs(), shape, true);
  };
  layer("conv1", {{2, 1, 3, 3}, {2}});
  layer("fc", {{3, 18}, {3}});
  return net.SerializeAsString();
}

// ---- tensorflow lite ------------------------------------------------------------------------------------------------

namespace lite = tflite::schema;
using TfliteBuilder = test::TfliteModel::Builder;

test::Array numbers(const test::Dims& dims) {
  test::Array array{dims, std::vector<float>(test::count(dims))};
  for (size_t i = 0; i < array.data.size(); ++i) array.data[i] = weight(i);
  return array;
}

// A network of floats, part of whose elements lie behind the tables.
std::string vision_tflite(bool outside) {
  test::TfliteModel m;
  m.outside = outside;
  const int x = m.input({1, 8, 8, 3}), conv = m.computed({1, 4, 4, 4}), pool = m.computed({1, 2, 2, 4});
  m.node(3, {x, m.floats(numbers({4, 3, 3, 3})), m.floats(numbers({4}))}, {conv}, [](TfliteBuilder& b) {
    return lite::CreateConv2DOptions(b, lite::Padding::same, 2, 2, lite::Activation::relu6);
  });
  m.node(17, {conv}, {pool},
         [](TfliteBuilder& b) { return lite::CreatePool2DOptions(b, lite::Padding::valid, 2, 2, 2, 2); });
  const int flat = m.node(22, {pool, m.integers({1, -1})}, {m.computed({1, 16})});
  const int half = m.halves(numbers({5, 16})), real = m.computed({5, 16}), sums = m.computed({1, 5});
  m.node(6, {half}, {real});
  m.node(9, {flat, real}, {sums}, [](TfliteBuilder& b) { return lite::CreateFullyConnectedOptions(b); });
  m.output(m.node(25, {sums}, {m.computed({1, 5})}, [](TfliteBuilder& b) { return lite::CreateSoftmaxOptions(b, 1); }));
  return m.bytes();
}

std::string quantized_tflite(test::TfliteModel::Type type) {
  test::TfliteModel m;
  const int64_t zero = type == test::TfliteModel::Type::uint8 ? 128 : 0;
  const auto bytes = [&](const test::Dims& dims) { return m.scaled(m.computed(dims, type), {0.05f}, {zero}); };
  const int x = m.scaled(m.input({1, 8, 8, 3}, type), {0.05f}, {zero});
  std::vector<int32_t> steps(4 * 3 * 3 * 3);
  for (size_t i = 0; i < steps.size(); ++i)
    steps[i] = static_cast<int32_t>(i * 37 % 255) + static_cast<int32_t>(zero) - 127;
  const int w = m.scaled(m.steps(type, {4, 3, 3, 3}, steps), {0.01f}, {zero});
  const int bias = m.scaled(m.steps(test::TfliteModel::Type::int32, {4}, {100, -100, 5, 0}), {0.0005f}, {0});
  const int conv = m.node(3, {x, w, bias}, {bytes({1, 8, 8, 4})}, [](TfliteBuilder& b) {
    return lite::CreateConv2DOptions(b, lite::Padding::same, 1, 1, lite::Activation::relu);
  });
  const int sum =
      m.node(0, {conv, conv}, {bytes({1, 8, 8, 4})}, [](TfliteBuilder& b) { return lite::CreateAddOptions(b); });
  const int mean = m.node(1, {sum}, {bytes({1, 4, 4, 4})}, [](TfliteBuilder& b) {
    return lite::CreatePool2DOptions(b, lite::Padding::same, 2, 2, 3, 3);
  });
  m.output(m.node(6, {mean}, {m.computed({1, 4, 4, 4})}));
  m.output(sum);
  return m.bytes();
}

// Shapes that are computed at import, and parts of tensors.
std::string shapes_tflite() {
  test::TfliteModel m;
  const auto integers = [&m](const test::Dims& dims) { return m.computed(dims, test::TfliteModel::Type::int32); };
  const int x = m.input({2, 3, 4, 2}), shape = m.node(77, {x}, {integers({4})});
  m.tensors[0].signature = {-1, 3, 4, 2};
  const int zero = m.integers({0}), one = m.integers({1});
  const int rows = m.node(45, {shape, zero, one, one}, {integers({})},
                          [](TfliteBuilder& b) { return lite::CreateStridedSliceOptions(b, 0, 0, 0, 0, 1); });
  const int to = m.node(83, {rows, m.integer(-1)}, {integers({2})},
                        [](TfliteBuilder& b) { return lite::CreatePackOptions(b, 2, 0); });
  const int flat = m.node(22, {x, to}, {m.computed({2, 24})});
  const std::vector<int32_t> parts = {m.computed({2, 8}), m.computed({2, 16})};
  m.node(102, {flat, m.integers({8, -1}), m.integer(1)}, parts);
  const int joined = m.node(2, {parts[1], parts[0]}, {m.computed({2, 24})},
                            [](TfliteBuilder& b) { return lite::CreateConcatenationOptions(b, 1); });
  m.output(m.node(34, {joined, m.integers({0, 0, 1, 2})}, {m.computed({2, 27})}));
  const int image = m.node(97, {x, m.integers({6, 8})}, {m.computed({2, 6, 8, 2})},
                           [](TfliteBuilder& b) { return lite::CreateResizeNearestNeighborOptions(b, false, true); });
  m.output(m.node(39, {image, m.integers({0, 3, 1, 2})}, {m.computed({2, 2, 6, 8})}));
  return m.bytes();
}

// ---- quern ----------------------------------------------------------------------------------------------------------

std::string quern_bytes(const Graph& graph, FileForm form = FileForm::plain) {
  Vector<unsigned char> bytes;
  if (write_model(graph, &bytes, form) != QN_OK) throw Error(qn_last_message());
  return {bytes.begin(), bytes.end()};
}

// What the other models lack: int8 weights with so many scales that a file of version 2 codes these apart from the
// description; floats that it stores as nonzeros, because these lie together; a constant of booleans; names of classes.
Graph two_layers() {
  constexpr size_t channels = 300, inputs = 16, outputs = 16;
  std::mt19937 random(1);
  std::vector<int8_t> bytes(channels * inputs);
  for (int8_t& x : bytes) x = static_cast<int8_t>(random() % 7 - 3);
  std::vector<float> floats(outputs * channels);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = i % channels % 20 == 0 ? weight(random()) : 0;
  test::GraphBuilder b;
  const int x = b.input("x", {1, inputs});
  const int w = add_constant(b.graph, "w", QN_S8, {channels, inputs}, bytes.data());
  Quantization& q = b.graph.tensors[at(w)].quantization;
  q.axis = 0;
  for (size_t i = 0; i < channels; ++i) q.scales.push_back(0.5f + weight(i));
  const int middle = b.node(OpKind::fully_connected, {x, w});
  b.output(b.node(OpKind::fully_connected, {middle, b.constant_of({outputs, channels}, floats)}), "y");
  const unsigned char booleans[] = {0, 1, 1};
  b.graph.outputs.push_back({.tensor = add_constant(b.graph, "b", QN_BOOL, {3}, booleans), .type = QN_BOOL});
  b.graph.postprocessing = {{String("cat"), String("dog")}, String("rows"), {0}, true, 2, 0.25f, 0.75f};
  return b.done();
}

// ---- pictures and arrays --------------------------------------------------------------------------------------------

unsigned sample(size_t x, size_t y, size_t channel) { return static_cast<unsigned>(x * 7 + y * 13 + channel * 31); }

std::string npy(const std::string& descr, const std::string& shape, size_t bytes, bool fortran = false) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
  header.resize((header.size() + 11) / 64 * 64 + 53, ' ');
  header += '\n';
  std::string s = std::string("\x93NUMPY\x01\x00", 8);
  s += static_cast<char>(header.size() & 255);
  s += static_cast<char>(header.size() >> 8);
  return s + header + std::string(bytes, '\x3e');
}

Graph imported(const std::string& bytes) {
  const TemporaryFile file(".onnx");
  file.write(bytes);
  return import_onnx(file.path());
}

// A model as `quern quantize` makes it, had all tensors numbers of -3 to 4.
Graph quantized(Graph graph) {
  if (optimize(graph) != QN_OK) throw Error(qn_last_message());
  const Vector<Range> ranges(tensors_to_observe(graph).size(), {-3, 4});
  if (quantize(graph, ranges) != QN_OK) throw Error(qn_last_message());
  return graph;
}

Graph pruned(Graph graph) {
  if (prune(graph, {0.9, 2}) != QN_OK) throw Error(qn_last_message());
  return graph;
}

std::string quantized_onnx(const std::string& bytes) {
  const TemporaryFile file(".onnx");
  export_onnx(quantized(imported(bytes)), file.path());
  return file.read();
}

// Operators that compute with bytes themselves.
std::string qlinear_onnx() {
  OnnxModel m(13);
  m.input("x", {1, 3, 8, 8});
  const std::string scale = m.scale("scale", 0.05f), zero = m.zero_point("zero");
  const std::string w = m.weights_of_bytes("w", {4, 3, 3, 3}), w_zero = m.zero_point("w_zero");
  const std::string x = m.node("QuantizeLinear", "q", {"x", scale, zero});
  const std::string conv = m.node("QLinearConv", "conv", {x, scale, zero, w, scale, w_zero, scale, zero});
  const std::string sum = m.node("QLinearAdd", "sum", {conv, scale, zero, conv, scale, zero, scale, zero});
  const std::string joined = m.node("QLinearConcat", "joined", {scale, zero, sum, scale, zero, conv, scale, zero});
  m.set("axis", int64_t{1});
  const std::string mean = m.node("QLinearGlobalAveragePool", "mean", {joined, scale, zero, scale, zero});
  m.node("DequantizeLinear", "y", {mean, scale, zero});
  m.output("y", {1, 8, 1, 1});
  return m.bytes();
}

// A function that the model defines, called twice, with and without an attribute.
std::string functions_onnx() {
  OnnxModel m(13);
  m.input("x", {1, 6});
  m.node("Slope", "a", {"x"});
  m.node("Slope", "y", {"a"});
  m.set("slope", 0.25f).output("y", {1, 6});
  onnx::schema::ModelProto model;
  model.ParseFromString(m.bytes());
  for (onnx::schema::NodeProto& node : *model.mutable_graph()->mutable_node()) node.set_domain("mine");
  onnx::schema::FunctionProto* const function = model.add_functions();
  function->set_name("Slope");
  function->set_domain("mine");
  function->add_opset_import()->set_version(13);
  function->add_input("in");
  function->add_output("out");
  onnx::schema::NodeProto* const node = function->add_node();
  node->set_op_type("LeakyRelu");
  node->add_input("in");
  node->add_output("out");
  onnx::schema::AttributeProto* const alpha = node->add_attribute();
  alpha->set_name("alpha");
  alpha->set_ref_attr_name("slope");
  return model.SerializeAsString();
}

}  // namespace

std::vector<Seed> onnx_seeds() {
  const std::string digits = read_file_of_source("examples/digits/digits.onnx");
  return {{"vision.onnx", vision_onnx()},   {"shapes.onnx", shapes_onnx()},
          {"digits.onnx", digits},          {"quantized.onnx", quantized_onnx(digits)},
          {"qlinear.onnx", qlinear_onnx()}, {"functions.onnx", functions_onnx()}};
}

std::vector<Seed> tflite_seeds() {
  return {{"vision.tflite", vision_tflite(false)},
          {"outside.tflite", vision_tflite(true)},
          {"int8.tflite", quantized_tflite(test::TfliteModel::Type::int8)},
          {"uint8.tflite", quantized_tflite(test::TfliteModel::Type::uint8)},
          {"shapes.tflite", shapes_tflite()}};
}

Seed external_onnx_seed(const std::string& location, std::string* data) {
  onnx::schema::ModelProto model;
  model.ParseFromString(vision_onnx());
  for (onnx::schema::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    std::string bytes = tensor.raw_data();
    const auto append = [&bytes](const auto& values) {
      bytes.append(reinterpret_cast<const char*>(values.data()), static_cast<size_t>(values.size()) * sizeof values[0]);
    };
    append(tensor.float_data());
    append(tensor.int64_data());
    const auto add = [&tensor](const char* key, const std::string& value) {
      onnx::schema::StringStringEntryProto* entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    add("location", location);
    add("offset", std::to_string(data->size()));
    add("length", std::to_string(bytes.size()));
    tensor.clear_raw_data();
    tensor.clear_float_data();
    tensor.clear_int64_data();
    tensor.set_data_location(onnx::schema::TensorProto::EXTERNAL);
    *data += bytes;
  }
  return {"external.onnx", model.SerializeAsString()};
}

std::vector<Seed> tensorflow_seeds() {
  return {{"vision.pb", vision_tensorflow().bytes()},
          {"shapes.pb", shapes_tensorflow().bytes()},
          {"lists.pb", lists_tensorflow().bytes()},
          {"old_loops.pb", old_loops_tensorflow().bytes()}};
}

std::vector<Seed> tensorflow_text_seeds() {
  const auto text = [](const test::TfGraph& graph) {
    std::string printed;
    google::protobuf::TextFormat::PrintToString(graph.graph, &printed);
    return printed;
  };
  return {{"shapes.pbtxt", text(shapes_tensorflow())},
          {"vision.pbtxt", text(vision_tensorflow())},
          {"lists.pbtxt", text(lists_tensorflow())},
          {"old_loops.pbtxt", text(old_loops_tensorflow())}};
}

std::pair<std::string, std::string> two_parts(const std::string& bytes) {
  const size_t end = bytes.find('\0');
  if (end == std::string::npos) return {bytes, ""};
  return {bytes.substr(0, end), bytes.substr(end + 1)};
}

std::vector<Seed> caffe_seeds() {
  return {{"caffe", caffe_net + std::string(1, '\0') + caffe_weights()},
          {"caffe v1", caffe_v1_net + std::string(1, '\0') + caffe_v1_weights()}};
}

std::vector<Seed> quern_seeds() {
  std::vector<Seed> seeds;
  const auto add = [&seeds](const std::string& name, Graph graph) {
    seeds.push_back({name + ".qn", quern_bytes(graph)});
    if (optimize(graph) != QN_OK) throw Error(qn_last_message());
    seeds.push_back({name + " optimised.qn", quern_bytes(graph)});
    const bool is_quantized =
        std::any_of(graph.tensors.begin(), graph.tensors.end(), [](const Tensor& t) { return t.type == QN_S8; });
    if (!is_quantized) seeds.push_back({name + " pruned.qn", quern_bytes(pruned(graph))});  // prune() takes floats only
  };
  for (const Seed& seed : onnx_seeds()) add(seed.name, imported(seed.bytes));
  for (const Seed& seed : onnx_operator_seeds())
    seeds.push_back({seed.name + ".qn", quern_bytes(imported(seed.bytes))});
  for (const Seed& seed : tflite_seeds()) {
    const TemporaryFile file(".tflite");
    file.write(seed.bytes);
    add(seed.name, import_tflite(file.path()));
  }
  const Graph vision = imported(vision_onnx()), quantized_vision = quantized(vision);
  seeds.push_back({"quantized vision.qn", quern_bytes(quantized_vision)});
  for (const Seed& seed : caffe_seeds()) {
    const TemporaryFile net(".prototxt"), weights(".caffemodel");
    const auto [text, content] = two_parts(seed.bytes);
    net.write(text);
    weights.write(content);
    add(seed.name, import_caffe(net.path(), weights.path()));
  }
  seeds.push_back({"integers.qn", quern_bytes(test::integer_graph())});

  const auto add_coded = [&seeds](const std::string& name, const Graph& graph) {
    seeds.push_back({name + " coded.qn", quern_bytes(graph, FileForm::coded)});
  };
  add_coded("vision", vision);
  add_coded("pruned vision", pruned(vision));
  add_coded("quantized vision", quantized_vision);
  add_coded("qlinear", imported(qlinear_onnx()));
  add_coded("integers", test::integer_graph());
  add_coded("nested", test::nested_graph());
  add_coded("two layers", two_layers());
  return seeds;
}

// ---- keras ----------------------------------------------------------------------------------------------------------

namespace {

using test::keras_layer;

// Layers of most kinds, a model within the model, a layer that is used twice.
std::string functional_config() {
  const auto call = [](const std::string& layer, const std::string& number = "0") {
    return "[[['" + layer + "', " + number + ", 0, {}]]]";
  };
  const std::string inner =
      test::keras_sequential("inner",
                             {test::keras_input("i", {1, 8, 8, 4}),
                              keras_layer("DepthwiseConv2D", "dw", "'kernel_size': [3, 3], 'strides': [1, 1]"),
                              keras_layer("BatchNormalization", "bn", "'axis': [3], 'epsilon': 0.001"),
                              keras_layer("ZeroPadding2D", "pad", "'padding': [[1, 1], [1, 1]]")},
                             call("conv"));
  return test::keras_functional(
      "net",
      {test::keras_input("x", {1, 8, 8, 3}),
       keras_layer("Conv2D", "conv", "'filters': 4, 'kernel_size': [3, 3], 'padding': 'same', 'activation': 'relu'",
                   call("x")),
       inner, keras_layer("Add", "add", "", "[[['conv', 0, 0, {}], ['inner', 1, 0, {}]]]"),
       keras_layer("MaxPooling2D", "pool", "'pool_size': [2, 2], 'strides': [2, 2], 'padding': 'valid'", call("add")),
       keras_layer("Concatenate", "cat", "'axis': -1", "[[['pool', 0, 0, {}], ['pool', 0, 0, {}]]]"),
       keras_layer("UpSampling2D", "up", "'size': [2, 2], 'interpolation': 'bilinear'", call("cat")),
       keras_layer("GlobalAveragePooling2D", "gap", "'keepdims': false", call("up")),
       keras_layer("Dense", "fc", "'units': 8, 'activation': 'tanh'", "[[['gap', 0, 0, {}]], [['fc', 0, 0, {}]]]")},
      "[['x', 0, 0]]", "[['fc', 1, 0]]");
}

std::string sequential_config() {
  return test::keras_sequential(
      "net", {test::keras_input("x", {1, 8, 3}),
              keras_layer("Conv1D", "conv", "'filters': 4, 'kernel_size': [3], 'padding': 'causal'"),
              keras_layer("PReLU", "prelu", "'shared_axes': [1]"), keras_layer("Permute", "turn", "'dims': [2, 1]"),
              keras_layer("Reshape", "shape", "'target_shape': [4, -1, 2]"), keras_layer("Flatten", "flat", ""),
              keras_layer("Rescaling", "rescale", "'scale': 0.5, 'offset': -1.0"),
              keras_layer("Softmax", "soft", "'axis': -1")});
}

// Masks, wrapped layers, sequences, arrays among inputs, as Keras 3 writes calls.
std::string masked_config() {
  const auto tensor = [](const std::string& layer) {
    return "{'class_name': '__keras_tensor__', 'config': {'keras_history': ['" + layer + "', 0, 0]}}";
  };
  const auto call = [&](const std::string& arguments, const std::string& keywords = "") {
    return "[{'args': [" + arguments + "], 'kwargs': {" + keywords + "}}]";
  };
  const std::string array = "{'class_name': '__numpy__', 'config': {'value': [[[1.0, 2.0, 3.0]]], 'dtype': 'float32'}}";
  const std::string lstm = "'units': 2, 'return_sequences': true, 'activation': 'tanh', 'trainable': true";
  const std::string inner = "'layer': {'class_name': 'Sequential', 'config': {'name': 's', 'layers': [" +
                            keras_layer("Dense", "d", "'units': 2") + ", " +
                            keras_layer("GRU", "g", "'units': 1, 'reset_after': false") + "]}}";
  return test::keras_functional(
      "net",
      {test::keras_input("x", {1, 4, 3}), test::keras_input("images", {1, 2, 4, 3}),
       keras_layer("Masking", "m", "'mask_value': 0.0, 'trainable': true", call(tensor("x"))),
       keras_layer("NotEqual", "n", "", call(tensor("x") + ", 0.0")),
       keras_layer("Any", "a", "'axis': -1, 'keepdims': false", call(tensor("n"))),
       keras_layer("Multiply", "times", "'trainable': true", call("[" + tensor("m") + ", " + array + "]")),
       keras_layer("LSTM", "l", lstm, call(tensor("m"), "'mask': " + tensor("a"))),
       keras_layer("EinsumDense", "e", "'equation': '...x,xy->...y', 'output_shape': [3], 'bias_axes': 'y'",
                   call(tensor("l"))),
       keras_layer("Add", "sum", "'trainable': true", call("[" + tensor("times") + ", " + tensor("e") + "]")),
       keras_layer("GlobalAveragePooling1D", "p", "'keepdims': false", call(tensor("sum"))),
       keras_layer("TimeDistributed", "t", inner, call(tensor("images"))),
       keras_layer("ConvLSTM1D", "c", "'filters': 1, 'kernel_size': [2], 'padding': 'same'", call(tensor("images")))},
      "[['x', 0, 0], ['images', 0, 0]]", "[['p', 0, 0], ['t', 0, 0], ['c', 0, 0]]");
}

test::KerasWeights weights_of(const std::string& config) {
  std::map<std::string, test::Dims> shapes = {
      {"conv/conv/kernel:0", {3, 3, 4}}, {"conv/conv/bias:0", {4}}, {"prelu/prelu/alpha:0", {1, 4}}};
  if (config.find("Functional") != std::string::npos) {
    shapes = {{"conv/conv/kernel:0", {3, 3, 3, 4}},
              {"conv/conv/bias:0", {4}},
              {"inner/dw/kernel:0", {3, 3, 4, 1}},
              {"inner/dw/bias:0", {4}},
              {"inner/bn/gamma:0", {4}},
              {"inner/bn/beta:0", {4}},
              {"inner/bn/moving_mean:0", {4}},
              {"fc/fc/kernel:0", {8, 8}},
              {"fc/fc/bias:0", {8}},
              {"inner/bn/moving_variance:0", {4}}};
  }
  if (config.find("Masking") != std::string::npos) {
    shapes = {{"l/cell/kernel:0", {3, 8}},
              {"l/cell/recurrent_kernel:0", {2, 8}},
              {"l/cell/bias:0", {8}},
              {"e/kernel:0", {2, 3}},
              {"e/bias:0", {3}},
              {"t/s/d/kernel:0", {3, 2}},
              {"t/s/d/bias:0", {2}},
              {"t/s/g/cell/kernel:0", {2, 3}},
              {"t/s/g/cell/recurrent_kernel:0", {1, 3}},
              {"t/s/g/cell/bias:0", {3}},
              {"c/kernel:0", {2, 3, 4}},
              {"c/recurrent_kernel:0", {2, 1, 4}},
              {"c/bias:0", {4}}};
  }
  test::KerasWeights weights;
  for (const auto& [path, dims] : shapes) {
    test::Array& array = weights[path];
    array.dims = dims;
    size_t count = 1;
    for (const size_t d : dims) count *= d;
    for (size_t i = 0; i < count; ++i) array.data.push_back(0.5f + weight(i));
  }
  return weights;
}

std::vector<Seed> keras_configs() {
  return {{"functional", functional_config()}, {"sequential", sequential_config()}, {"masked", masked_config()}};
}

keras::Contents contents_of(const Seed& config) { return test::keras_contents(config.bytes, weights_of(config.bytes)); }

}  // namespace

std::vector<Seed> keras_seeds() {
  std::vector<Seed> seeds;
  for (const Seed& config : keras_configs()) seeds.push_back({config.name, test::keras_parts(contents_of(config))});
  return seeds;
}

std::vector<Seed> keras_streams() {
  std::vector<Seed> seeds;
  for (const Seed& config : keras_configs()) seeds.push_back({config.name, test::keras_stream(contents_of(config))});
  return seeds;
}

keras::Contents contents_of_stream(const std::string& bytes) {
  size_t at = 0;
  const keras::Read read = [&](void* data, size_t size) {
    if (size > bytes.size() - at) throw Error("the end");
    std::copy_n(bytes.data() + at, size, static_cast<char*>(data));  // no bytes may have no address
    at += size;
  };
  return keras::read_contents(read, 8 * bytes.size() + 1024);
}

#ifdef QUERN_HDF5
std::vector<Seed> keras_files() {
  std::vector<Seed> seeds;
  for (const Seed& config : keras_configs()) {
    seeds.push_back({config.name + ".h5", test::keras_bytes(config.bytes, weights_of(config.bytes))});
  }
  return seeds;
}
#endif

std::vector<Seed> png_seeds() {
  return {{"gray.png", make_png(13, 9, {8, PNG_COLOR_TYPE_GRAY}, sample)},
          {"bits.png", make_png(17, 5, {1, PNG_COLOR_TYPE_GRAY}, sample)},
          {"colour.png", make_png(9, 13, {8, PNG_COLOR_TYPE_RGB}, sample)},
          {"alpha16.png", make_png(7, 6, {16, PNG_COLOR_TYPE_RGB_ALPHA, true}, sample)},
          {"palette.png", make_png(11, 6, {2, PNG_COLOR_TYPE_PALETTE}, sample)},
          {"digit_3.png", read_file_of_source("examples/digits/digit_3.png")}};
}

std::vector<Seed> jpeg_seeds() {
  return {{"gray.jpg", make_jpeg(17, 11, {1}, sample)},
          {"colour.jpg", make_jpeg(24, 16, {3}, sample)},
          {"progressive.jpg", make_jpeg(24, 16, {3, true}, sample)}};
}

std::vector<Seed> npy_seeds() {
  return {{"f4.npy", npy("<f4", "(2, 3, 5)", 120)},
          {"f2.npy", npy("<f2", "(4, 4)", 32, true)},
          {"i8.npy", npy(">i8", "(3,)", 24)},
          {"scalar.npy", npy("|u1", "()", 1)}};
}

std::vector<Seed> npy_sample_seeds() {
  return {{"batch.npy", npy("<f4", "(3, 3, 8, 8)", 3 * 192 * 4)},
          {"columns.npy", npy(">f2", "(2, 3, 8, 8)", 2 * 192 * 2, true)},
          {"flat.npy", npy("<f8", "(4, 192)", 4 * 192 * 8)},
          {"gray.npy", npy("|u1", "(4, 7, 9)", 4 * 63)},
          {"rgb.npy", npy("|u1", "(2, 3, 9, 7)", 2 * 189)}};
}

std::vector<Seed> npz_sample_seeds() {
  const std::string gray = npy("|u1", "(4, 7, 9)", 4 * 63), batch = npy("<f4", "(3, 3, 8, 8)", 3 * 192 * 4);
  return {{"stored.npz", make_zip({{"labels.npy", npy("|u1", "(4,)", 4)}, {"images.npy", gray}}, false)},
          {"deflated.npz", make_zip({{"x.npy", batch}, {"notes.txt", "text"}}, true)},
          {"one.npz", make_zip({{"arr_0.npy", gray}}, true)}};
}

std::vector<Seed> idx_sample_seeds() {
  return {{"images.idx", make_idx(0x08, {5, 9, 7}, std::string(5 * 63, '\x3e'))},
          {"colours.idx", make_idx(0x08, {2, 9, 7, 3}, std::string(2 * 189, '\x3e'))},
          {"floats.idx", make_idx(0x0d, {2, 3, 8, 8}, std::string(2 * 192 * 4, '\x3e'))}};
}

TemporaryFile::TemporaryFile(const std::string& extension) {
  static int number = 0;
  path_ = (std::getenv("TMPDIR") ? std::string(std::getenv("TMPDIR")) : "/tmp") + "/quern_fuzz_" +
          std::to_string(getpid()) + "_" + std::to_string(number++) + extension;
}

TemporaryFile::~TemporaryFile() { std::remove(path_.c_str()); }

void TemporaryFile::write(const std::string& bytes) const {
  std::ofstream file(path_, std::ios::binary | std::ios::trunc);
  file << bytes;
  if (!file.flush()) throw Error("cannot write " + path_);
}

std::string TemporaryFile::read() const {
  const std::ifstream file(path_, std::ios::binary);
  return (std::ostringstream() << file.rdbuf()).str();
}

}  // namespace quern
