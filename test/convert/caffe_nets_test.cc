// Nets of several Caffe layers, in forms of all ages, and what the importer refuses.
#include <algorithm>
#include <cmath>

#include "caffe_model.h"

namespace quern::test {
namespace caffe_nets_test {

using Weights = test::CaffeWeights;

const char* const input_2x3x7x6 = "input: \"x\" input_dim: 2 input_dim: 3 input_dim: 7 input_dim: 6\n";

// ---- nets -------------------------------------------------------------------------------------

TEST_F(Caffe, InPlaceLayersLeaveTheLastVersionUnderTheName) {
  const std::string text = std::string(input_2x3x7x6) +
                           "layer { name: \"p\" type: \"Power\" bottom: \"x\" top: \"y\" power_param { scale: -1 } }\n"
                           "layer { name: \"r\" type: \"ReLU\" bottom: \"y\" top: \"y\" }\n"
                           "layer { name: \"t\" type: \"TanH\" bottom: \"y\" top: \"z\" }";
  const Array x = random({2, 3, 7, 6}, 1);
  const Array y = test::map(x, [](float v) { return std::max(-v, 0.0f); });
  const std::vector<Array> got = test::run(import(text, {}, {"z", "y"}), {x});
  ASSERT_EQ(got.size(), 2u);
  expect_near(got[1], y);
  expect_near(got[0], test::map(y, [](float v) { return std::tanh(v); }));
}

TEST_F(Caffe, InputsMayBeOutputs) {
  const std::string net = std::string(input_2x3x7x6) + "layer { name: \"r\" type: \"ReLU\" bottom: \"x\" top: \"y\" }";
  const Array x = random({2, 3, 7, 6}, 1);
  const std::vector<Array> got = test::run(import(net, {}, {"x", "y"}), {x});
  expect_near(got.at(0), x, 0);
  expect_near(got.at(1), test::map(x, [](float v) { return std::max(v, 0.0f); }), 0);
  // A layer that writes over its input gives the name another meaning.
  EXPECT_NE(refusal(std::string(input_2x3x7x6) + "layer { name: \"r\" type: \"ReLU\" bottom: \"x\" top: \"x\" }")
                .find("output 'x' is also the name of another input"),
            std::string::npos);
}

TEST_F(Caffe, OutputsMayShareOneTensor) {
  const std::string text = std::string(input_2x3x7x6) +
                           "layer { name: \"r\" type: \"ReLU\" bottom: \"x\" top: \"y\" }\n"
                           "layer { name: \"d\" type: \"Dropout\" bottom: \"y\" top: \"z\" }";
  const Array x = random({2, 3, 7, 6}, 1);
  const std::vector<Array> got = test::run(import(text, {}, {"y", "z"}), {x});
  ASSERT_EQ(got.size(), 2u);
  expect_near(got[0], got[1]);
  EXPECT_NE(refusal("").find("no layers"), std::string::npos);
  const std::vector<Array> twice = test::run(import(text, {}, {"y", "y"}), {x});
  ASSERT_EQ(twice.size(), 2u);
  expect_near(twice[0], got[0]);
  expect_near(twice[1], got[0]);
  EXPECT_NE(error_of([&] { import(text, {}, {"nothing"}); }).find("no blob 'nothing'"), std::string::npos);
}

TEST_F(Caffe, BatchAndSizeMayChange) {
  const Array w = random({4, 3, 3, 3}, 2), b = random({4}, 3), fc = random({5, 4}, 4);
  const std::string text = std::string(input_2x3x7x6) +
                           "layer { name: \"c\" type: \"Convolution\" bottom: \"x\" top: \"c\" convolution_param { "
                           "num_output: 4 kernel_size: 3 } }\n"
                           "layer { name: \"g\" type: \"Pooling\" bottom: \"c\" top: \"g\" pooling_param { pool: AVE "
                           "global_pooling: true } }\n"
                           "layer { name: \"f\" type: \"InnerProduct\" bottom: \"g\" top: \"f\" inner_product_param { "
                           "num_output: 5 bias_term: false } }";
  const Array x = random({3, 3, 10, 12}, 1);
  const Array c = test::conv(x, w, b.data, {}, 1);
  test::Window whole;
  whole.kernel[0] = 8;
  whole.kernel[1] = 10;
  const Array pooled = test::reshape(test::average_pool(c, whole, false), {3, 4});
  const std::vector<Array> got = test::run(import(text, {{"c", {w, b}}, {"f", {fc}}}), {x});
  expect_near(got.at(0), test::matmul(pooled, test::transpose(fc, {1, 0})));
}

TEST_F(Caffe, OldLayersGiveTheSameNet) {
  const Array w = random({4, 3, 3, 3}, 2), b = random({4}, 3), fc = random({5, 80}, 4), fb = random({5}, 5);
  const std::string now = std::string(input_2x3x7x6) +
                          "layer { name: \"c\" type: \"Convolution\" bottom: \"x\" top: \"c\" convolution_param { "
                          "num_output: 4 kernel_size: 3 } }\n"
                          "layer { name: \"r\" type: \"ReLU\" bottom: \"c\" top: \"c\" }\n"
                          "layer { name: \"f\" type: \"InnerProduct\" bottom: \"c\" top: \"f\" inner_product_param { "
                          "num_output: 5 } }\n"
                          "layer { name: \"s\" type: \"Softmax\" bottom: \"f\" top: \"s\" }";
  const std::string then = std::string(input_2x3x7x6) +
                           "layers { name: \"c\" type: CONVOLUTION bottom: \"x\" top: \"c\" blobs_lr: 1 blobs_lr: 2 "
                           "weight_decay: 1 convolution_param { num_output: 4 kernel_size: 3 } }\n"
                           "layers { name: \"r\" type: RELU bottom: \"c\" top: \"c\" }\n"
                           "layers { name: \"f\" type: INNER_PRODUCT bottom: \"c\" top: \"f\" inner_product_param { "
                           "num_output: 5 } }\n"
                           "layers { name: \"s\" type: SOFTMAX bottom: \"f\" top: \"s\" }";
  caffe::schema::NetWeights old;
  for (const auto& [name, blobs] : Weights{{"c", {w, b}}, {"f", {fc, fb}}}) {
    caffe::schema::V1LayerWeights* layer = old.add_layers();
    layer->set_name(name);
    for (const Array& array : blobs) {  // four dimensions, as they were then
      caffe::schema::BlobProto* blob = layer->add_blobs();
      Dims dims(4 - array.dims.size(), 1);
      dims.insert(dims.end(), array.dims.begin(), array.dims.end());
      blob->set_num(static_cast<int64_t>(dims[0]));
      blob->set_channels(static_cast<int64_t>(dims[1]));
      blob->set_height(static_cast<int64_t>(dims[2]));
      blob->set_width(static_cast<int64_t>(dims[3]));
      for (const float value : array.data) blob->add_data(value);
    }
  }
  const Array x = random({2, 3, 7, 6}, 1);
  const std::vector<Array> want = test::run(import(now, {{"c", {w, b}}, {"f", {fc, fb}}}), {x});
  const std::string model = folder_.write("old.caffemodel", old.SerializeAsString());
  const std::vector<Array> got = test::run(import_caffe(folder_.write("old.prototxt", then), model), {x});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].data, want.at(0).data);
}

TEST_F(Caffe, ATrainingNetIsImportedAsItsDeployedForm) {
  const Array w = random({5, 3, 8, 8}, 2), b = random({5}, 3);
  const std::string text =
      "name: \"train\"\n"
      "layer { name: \"d\" type: \"Data\" top: \"data\" top: \"label\" include { phase: TRAIN } }\n"
      "layer { name: \"d\" type: \"Data\" top: \"data\" top: \"label\" include { phase: TEST } transform_param { "
      "crop_size: 8 mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.5 mirror: false } data_param { "
      "batch_size: 50 backend: LMDB source: \"somewhere\" } }\n"
      "layer { name: \"c\" type: \"Convolution\" bottom: \"data\" top: \"c\" param { lr_mult: 1 } convolution_param { "
      "num_output: 5 kernel_size: 8 } }\n"
      "layer { name: \"o\" type: \"Dropout\" bottom: \"c\" top: \"c\" exclude { phase: TEST } }\n"
      "layer { name: \"a\" type: \"Accuracy\" bottom: \"c\" bottom: \"label\" top: \"accuracy\" include { phase: TEST "
      "} }\n"
      "layer { name: \"l\" type: \"SoftmaxWithLoss\" bottom: \"c\" bottom: \"label\" top: \"loss\" }\n"
      "layer { name: \"q\" type: \"Silence\" bottom: \"label\" }";
  Graph graph = import(text, {{"c", {w, b}}});
  ASSERT_EQ(graph.inputs.size(), 1u);
  const Port port = graph.inputs[0];
  EXPECT_STREQ(graph.tensors[static_cast<size_t>(port.tensor)].name.c_str(), "data");
  EXPECT_EQ(graph.tensors[static_cast<size_t>(port.tensor)].shape, (Vector<size_t>{1, 3, 8, 8}));
  EXPECT_EQ(port.preprocessing.present, 1);
  EXPECT_EQ(port.preprocessing.bgr, 1);
  EXPECT_EQ(port.preprocessing.mean[1], 117);
  EXPECT_EQ(port.preprocessing.scale[2], 0.5f);
  EXPECT_EQ(port.preprocessing.crop[0], 8u);
  const Array x = random({1, 3, 8, 8}, 1);
  const std::vector<Array> got = test::run(std::move(graph), {x});
  ASSERT_EQ(got.size(), 1u);
  expect_near(got[0], test::softmax(test::conv(x, w, b.data, {}, 1), 1));
}

TEST_F(Caffe, ALossMayBeNameless) {
  const Array x = random({2, 3, 7, 6}, 1);
  const Graph graph = import(std::string(input_2x3x7x6) +
                             "layer { name: \"label\" type: \"DummyData\" top: \"label\" }\n"
                             "layer { name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"x\" bottom: \"label\" }");
  ASSERT_EQ(graph.outputs.size(), 1u);
  EXPECT_STREQ(graph.tensors[static_cast<size_t>(graph.outputs[0].tensor)].name.c_str(), "loss");
  expect_near(test::run(graph, {x}).at(0), test::softmax(x, 1));
}

TEST_F(Caffe, RulesOfPhaseLevelAndStage) {
  const auto has = [&](const std::string& rule) {
    const Graph graph = import(std::string(input_2x3x7x6) +
                               "layer { name: \"a\" type: \"ReLU\" bottom: \"x\" top: \"y\" }\n"
                               "layer { name: \"b\" type: \"TanH\" bottom: \"y\" top: \"y\" " +
                               rule + " }");
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.kind == OpKind::tanh; });
  };
  EXPECT_TRUE(has(""));
  EXPECT_TRUE(has("include { phase: TEST }"));
  EXPECT_FALSE(has("include { phase: TRAIN }"));
  EXPECT_TRUE(has("include { phase: TRAIN } include { phase: TEST }"));
  EXPECT_FALSE(has("exclude { phase: TEST }"));
  EXPECT_TRUE(has("exclude { phase: TRAIN }"));
  EXPECT_FALSE(has("include { min_level: 1 }"));
  EXPECT_TRUE(has("include { max_level: 1 }"));
  EXPECT_FALSE(has("include { stage: \"deep\" }"));
  EXPECT_TRUE(has("include { not_stage: \"deep\" }"));
}

// ---- refusals ---------------------------------------------------------------------------------

TEST_F(Caffe, UnsupportedLayersAreListedTogether) {
  const std::string text = std::string(input_2x3x7x6) +
                           "layer { name: \"n\" type: \"Im2col\" bottom: \"x\" top: \"n\" }\n"
                           "layer { name: \"after\" type: \"ReLU\" bottom: \"n\" top: \"after\" }\n"
                           "layer { name: \"p\" type: \"Python\" bottom: \"after\" bottom: \"x\" top: \"p\" }\n"
                           "layer { name: \"s\" type: \"Pooling\" bottom: \"x\" top: \"s\" pooling_param { pool: "
                           "STOCHASTIC kernel_size: 2 } }";
  const std::string message = refusal(text);
  EXPECT_NE(
      message.find(
          "3 operators are not supported: Im2col (1 node: n), Python (1 node: p), Pooling: stochastic (1 node: s)"),
      std::string::npos)
      << message;
  // What the outputs asked for do not need is no obstacle.
  EXPECT_NO_THROW(import(text + "layer { name: \"fine\" type: \"ReLU\" bottom: \"x\" top: \"fine\" }", {}, {"fine"}));
}

TEST_F(Caffe, ErrorsNameLayerAndField) {
  struct Case {
    const char* layer;
    const char* message;
  };
  const std::string fc_weights = "weights";
  const Case cases[] = {
      {"type: \"Convolution\" convolution_param { kernel_size: 3 }", "num_output is missing"},
      {"type: \"Convolution\" convolution_param { num_output: 4 }", "kernel_size is missing"},
      {"type: \"Convolution\" convolution_param { num_output: 4 kernel_size: 3 stride: 0 }", "stride is zero"},
      {"type: \"Convolution\" convolution_param { num_output: 4 kernel_size: 3 group: 2 }", "group 2 does not divide"},
      {"type: \"Convolution\" convolution_param { num_output: 4 kernel_size: 3 kernel_h: 2 }", "in two forms"},
      {"type: \"Convolution\" convolution_param { num_output: 4 kernel_size: 3 }", "a .caffemodel, none is given"},
      {"type: \"Convolution\" convolution_param { num_output: 4000000000 kernel_size: 4000000000 }", "layer 'l'"},
      {"type: \"Convolution\" convolution_param { num_output: 4 kernle_size: 3 }", "unknown field 'kernle_size'"},
      {"type: \"ReLU\" relu_param { negative_slope: nan }", "negative_slope is not a finite number"},
      {"type: \"Power\" power_param { shift: inf }", "shift is not a finite number"},
      {"type: \"LRN\" lrn_param { local_size: 4 }", "local_size is even"},
      {"type: \"Softmax\" softmax_param { axis: 4 }", "axis 4 of a blob of rank 4"},
      {"type: \"Permute\" permute_param { order: 1 order: 1 }", "order is not a permutation"},
      {"type: \"Reshape\" reshape_param { shape { dim: 5 dim: 5 } }", "l"},
      {"type: \"Reshape\" reshape_param { shape { dim: -3 } }", "negative dimension"},
      {"type: \"Slice\" slice_param { slice_point: 2 slice_point: 1 }", "slice_point"},
      {"type: \"Clip\" clip_param { min: 2 max: 1 }", "not a range"},
      {"type: \"ReLU\" bottom: \"x\"", "has 2 inputs"},
      {"", "layer 'l' has no type"},
      {"type: \"Eltwise\"", "has 1 inputs"},
      {"type: \"ReLU\" bottom: \"z\"", "reads 'z', which no layer before it writes"},
      {"type: \"ReLU\" top: \"x\"", "writes 'x', which an earlier layer writes too"},
      {"type: \"ReLU\" include { phase: TEST } exclude { phase: TRAIN }", "both include and exclude"},
      {"type: \"ReLU\" }}", "net.prototxt:"},
  };
  for (const Case& c : cases) {
    const std::string message =
        refusal(std::string(input_2x3x7x6) + "layer { name: \"l\" bottom: \"x\" top: \"y\" " + c.layer + " }");
    EXPECT_NE(message.find(c.message), std::string::npos) << c.layer << " -> " << message;
    EXPECT_NE(message.find("net.prototxt"), std::string::npos) << message;
  }
}

TEST_F(Caffe, WeightsMustFit) {
  const std::string net =
      one_layer({{1, 3, 7, 6}}, "Convolution", "convolution_param { num_output: 4 kernel_size: 3 }");
  const Array w = random({4, 3, 3, 3}, 1), b = random({4}, 2);
  EXPECT_NO_THROW(import(net, {{"l", {w, b}}}));
  EXPECT_NE(refusal(net, {{"other", {w, b}}}).find("no weights for it"), std::string::npos);
  EXPECT_NE(refusal(net, {{"l", {w}}}).find("has 1 blobs"), std::string::npos);
  EXPECT_NE(refusal(net, {{"l", {random({4, 3, 3, 2}, 1), b}}}).find("blob 0 is 4 x 3 x 3 x 2"), std::string::npos);
  Array short_of_data = w;
  short_of_data.data.pop_back();
  EXPECT_NE(refusal(net, {{"l", {short_of_data, b}}}).find("holds 107 numbers instead of 108"), std::string::npos);
  const std::string path = folder_.write("bad.caffemodel", "\x0a\xff\xff");
  EXPECT_NE(error_of([&] { import_caffe(folder_.write("n.prototxt", net), path); }).find("bad.caffemodel"),
            std::string::npos);
  EXPECT_NE(error_of([&] { import_caffe(folder_.path("absent"), ""); }).find("cannot open"), std::string::npos);
}

TEST_F(Caffe, InputsMustHaveSizes) {
  EXPECT_NE(refusal("input: \"x\" input_dim: 1 input_dim: 3").find("input_dim"), std::string::npos);
  EXPECT_NE(refusal("input: \"x\" input_dim: 1 input_dim: -3 input_dim: 3 input_dim: 3 layer { name: \"l\" type: "
                    "\"ReLU\" bottom: \"x\" top: \"y\" }")
                .find("dimension -3"),
            std::string::npos);
  EXPECT_NE(refusal("layer { name: \"d\" type: \"Input\" top: \"x\" } layer { name: \"l\" type: \"ReLU\" bottom: \"x\" "
                    "top: \"y\" }")
                .find("size of 'x'"),
            std::string::npos);
  EXPECT_NE(refusal("input: \"x\" input_shape { dim: 4611686018427387904 dim: 16 } layer { name: \"l\" type: "
                    "\"ReLU\" bottom: \"x\" top: \"y\" }")
                .find("net.prototxt"),
            std::string::npos);
}

TEST_F(Caffe, DeepNestingIsRefused) {
  for (const char* opening : {"layer { ", "layer { include ", "a { ", "a < "}) {
    std::string text;
    for (int i = 0; i < 200000; ++i) text += opening;
    EXPECT_NE(refusal(text).find("net.prototxt"), std::string::npos);
  }
}

}  // namespace caffe_nets_test
}  // namespace quern::test
