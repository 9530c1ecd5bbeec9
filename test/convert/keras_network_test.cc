// Models of several layers, in all forms that Keras writes, and what the importer refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "convert/convert.h"
#include "convert/keras/keras.h"
#include "keras_model.h"

namespace quern::test {
namespace keras_network_test {

constexpr const char* call_on_x = "[[['x', 0, 0, {}]]]";
float relu(float v) { return std::max(v, 0.0f); }

// ---- models -----------------------------------------------------------------------------------

// Two inputs a, b of these dimensions, which a layer "y" reads.
std::string two_inputs(const std::string& type, const std::string& config, const Dims& a, const Dims& b,
                       const std::string& calls = "[[['a', 0, 0, {}], ['b', 0, 0, {}]]]") {
  return keras_functional("net", {keras_input("a", a), keras_input("b", b), keras_layer(type, "y", config, calls)},
                          "[['a', 0, 0], ['b', 0, 0]]", "[['y', 0, 0]]");
}

class KerasFunctions : public KerasWithExtra {};

TEST(Keras, Merging) {
  const Array a = random({2, 3, 4, 5}, 1), b = random({2, 3, 4, 5}, 2), row = random({2, 1, 1, 5}, 3);
  const auto expect_merged = [&](const std::string& type, const Array& second, float (*f)(float, float)) {
    SCOPED_TRACE(type);
    const Graph graph = keras::import_contents(keras_contents(two_inputs(type, "", a.dims, second.dims), {}), {});
    expect_near(run(graph, {a, second}).at(0), combine(a, second, f));
  };
  expect_merged("Add", b, [](float u, float v) { return u + v; });
  expect_merged("Add", row, [](float u, float v) { return u + v; });
  expect_merged("Subtract", b, [](float u, float v) { return u - v; });
  expect_merged("Multiply", row, [](float u, float v) { return u * v; });
  expect_merged("Average", b, [](float u, float v) { return (u + v) / 2; });
  expect_merged("Maximum", b, [](float u, float v) { return std::max(u, v); });
  expect_merged("Minimum", b, [](float u, float v) { return std::min(u, v); });
  const Graph joined =
      keras::import_contents(keras_contents(two_inputs("Concatenate", "'axis': 2", a.dims, b.dims), {}), {});
  expect_near(run(joined, {a, b}).at(0), concat({a, b}, 2));
  // Tensors of lower rank get dimensions behind the batch.
  const Array low = random({2, 5}, 4);
  const Graph aligned = keras::import_contents(keras_contents(two_inputs("Add", "", a.dims, low.dims), {}), {});
  expect_near(run(aligned, {a, low}).at(0), combine(a, reshape(low, {2, 1, 1, 5}), plus));
}

// Extremes of tensors of different shapes.
TEST_F(KerasFunctions, Extremes) {
  const Array a = random({2, 3, 4, 5}, 1), row = random({2, 1, 1, 5}, 2);
  const Graph graph = keras::import_contents(keras_contents(two_inputs("Maximum", "", a.dims, row.dims), {}), {});
  expect_near(run(graph, {a, row}).at(0), combine(a, row, [](float u, float v) { return std::max(u, v); }));
}

// One tensor may be several outputs, and an input may be one.
TEST(Keras, TensorsAsSeveralOutputs) {
  const Array x = random({2, 3}, 1), y = map(x, relu);
  const std::string net =
      keras_functional("net",
                       {keras_input("x", x.dims), keras_layer("ReLU", "y", "", call_on_x),
                        keras_layer("Dropout", "z", "", "[[['y', 0, 0, {}]]]")},
                       "[['x', 0, 0]]", "[['y', 0, 0], ['x', 0, 0], ['y', 0, 0], ['z', 0, 0], ['x', 0, 0]]");
  const std::vector<Array> got = run(keras::import_contents(keras_contents(net, {}), {}), {x});
  ASSERT_EQ(got.size(), 5u);
  for (const size_t i : {0, 2, 3}) expect_near(got[i], y);
  for (const size_t i : {1, 4}) expect_near(got[i], x);
}

// Operators between layers: Keras 2 has TFOpLambda, Keras 3 layers with numbers among their arguments.
// Of the networks that come with Keras.
TEST(Keras, LayersOfApplications) {
  const Array x = random({2, 3, 4}, 1), gamma = random({4}, 2), y = random({2, 3, 4}, 3);
  expect_layer("LayerScale", "'init_values': 0.1, 'projection_dim': 4", x, {{"gamma", gamma}},
               combine(x, gamma, times));
  expect_layer("LayerScale", "'projection_dim': 4", x, {{"variable_7", gamma}}, combine(x, gamma, times));
  expect_in(refusal("LayerScale", "'projection_dim': 4", x.dims), "has 0 weights for it instead of one");
  expect_in(refusal("LayerScale", "'projection_dim': 3", x.dims, {{"gamma", gamma}}), "does not fit the input");
  expect_layer("StochasticDepth", "'drop_path_rate': 0.5", x, {}, x);
  const Array want = combine(x, y, [](float a, float b) { return a + 0.25f * b; });
  for (const char* type : {"CustomScaleLayer", "Custom>CustomScaleLayer"}) {
    const std::string net =
        keras_functional("net",
                         {keras_input("x", x.dims), keras_input("y", x.dims),
                          keras_layer(type, "s", "'scale': 0.25", "[[['x', 0, 0, {}], ['y', 0, 0, {}]]]")},
                         "[['x', 0, 0], ['y', 0, 0]]", "[['s', 0, 0]]");
    expect_near(run(keras::import_contents(keras_contents(net, {}), {}), {x, y}).at(0), want);
  }
}

TEST(Keras, Operators) {
  const Array x = random({2, 3}, 1), want = map(x, [](float v) { return 2 - v; });
  const std::string ends = "[['x', 0, 0]]", input = keras_input("x", x.dims);
  const std::string lambda = keras_layer("TFOpLambda", "y", "'function': 'math.subtract'",
                                         "[['_CONSTANT_VALUE', -1, 2, {'y': ['x', 0, 0], 'name': null}]]");
  const std::string tensor = "{'class_name': '__keras_tensor__', 'config': {'keras_history': ['x', 0, 0]}}";
  const std::string layer = keras_layer("Subtract", "y", "", "[{'args': [2.0, " + tensor + "], 'kwargs': {}}]");
  for (const std::string& each : {lambda, layer}) {
    const std::string net = keras_functional("net", {input, each}, ends, "[['y', 0, 0]]");
    expect_near(run(keras::import_contents(keras_contents(net, {}), {}), {x}).at(0), want);
  }
  const std::string argument = keras_layer("Add", "y", "", "[[['x', 0, 0, {'mask': 3}]]]");
  const std::string training = keras_layer("Dropout", "y", "", "[[['x', 0, 0, {'training': true}]]]");
  for (const auto& [each, part] : {std::pair(argument, "'mask'"), std::pair(training, "'training'")}) {
    const std::string net = keras_functional("net", {input, each}, ends, "[['y', 0, 0]]");
    expect_in(refusal(keras_contents(net, {})), std::string("the argument ") + part);
  }
}

// Arrays among the inputs, in the forms of both versions. Layers and functions align ranks in different ways.
TEST(Keras, Constants) {
  const Array x = random({2, 3, 3}, 1), row = make({3}, {1, 2.5f, -3}), column = make({1, 3, 1}, {4, -5, 6});
  const std::string tensor = "{'class_name': '__keras_tensor__', 'config': {'keras_history': ['x', 0, 0]}}";
  const auto new_call = [&](const std::string& type, const std::string& value, const std::string& config) {
    const std::string array = "{'class_name': '" + type + "', 'config': {'value': " + value + ", 'dtype': 'float32'}}";
    return keras_layer("Multiply", "y", config, "[{'args': [[" + tensor + ", " + array + "]], 'kwargs': {}}]");
  };
  const auto result = [&](const std::string& layer) {
    const std::string net =
        keras_functional("net", {keras_input("x", x.dims), layer}, "[['x', 0, 0]]", "[['y', 0, 0]]");
    return run(keras::import_contents(keras_contents(net, {}), {}), {x}).at(0);
  };
  const std::string list = "[1, 2.5, -3]", lists = "[[[4], [-5], [6]]]", layer = "'trainable': true";
  expect_near(result(new_call("__numpy__", list, "")), combine(x, row, times));
  expect_near(result(new_call("__tensor__", lists, "")), combine(x, column, times));
  expect_near(result(new_call("__numpy__", lists, layer)), combine(x, column, times));
  expect_near(result(new_call("__numpy__", "[[1, 2.5, -3]]", layer)), combine(x, row, times));
  const auto lambda = [](const std::string& value) {
    return keras_layer("TFOpLambda", "y", "'function': 'math.subtract'",
                       "[['_CONSTANT_VALUE', -1, " + value + ", {'y': ['x', 0, 0]}]]");
  };
  expect_near(result(lambda(list)), combine(row, x, minus));
  const std::string keyword = keras_layer("TFOpLambda", "y", "'function': 'math.subtract'",
                                          "[['x', 0, 0, {'y': [[[4], [-5], [6]]], 'name': null}]]");
  expect_near(result(keyword), combine(x, column, minus));
  const auto refused = [&](const std::string& value) {
    const std::string net =
        keras_functional("net", {keras_input("x", x.dims), lambda(value)}, "[['x', 0, 0]]", "[['y', 0, 0]]");
    return refusal(keras_contents(net, {}));
  };
  expect_in(refused("[[1, 2], [3]]"), "layer 'y': the lists of a constant differ in length");
  expect_in(refused("[[1, 2], 3]"), "differ in length");
  expect_in(refused("[1, 'two']"), "layer 'y': expected numbers in a constant");
  expect_in(refused("[1, 1e300]"), "a constant");
  expect_in(refused("[]"), "a constant without elements");
  expect_in(refused("[[[[[[[[[1]]]]]]]]]"), "a constant of rank above 8");
  expect_in(refused("'text'"), "a constant that is not a number");
}

// A layer that is called twice; the file lists it before the layer whose result it reads.
TEST(Keras, SharedLayers) {
  const Array x = random({2, 3}, 1), kernel = random({3, 3}, 2);
  const std::string net = keras_functional(
      "net",
      {keras_input("x", x.dims),
       keras_layer("Dense", "y", "'units': 3, 'use_bias': false", "[[['x', 0, 0, {}]], [['z', 0, 0, {}]]]"),
       keras_layer("ReLU", "z", "", "[[['y', 0, 0, {}]]]")},
      "[['x', 0, 0]]", "[['y', 1, 0], ['z', 0, 0]]");
  const keras::Contents contents = keras_contents(net, {{"y/y/kernel:0", kernel}});
  const Array z = map(matmul(x, kernel), relu);
  const std::vector<Array> got = run(keras::import_contents(contents, {}), {x});
  expect_near(got.at(0), matmul(z, kernel));
  expect_near(got.at(1), z);
  EXPECT_EQ(keras::import_contents(contents, {}).outputs.size(), 2u);
  expect_near(run(keras::import_contents(contents, {"y"}), {x}).at(0), matmul(x, kernel));
  expect_in(error_of([&] { keras::import_contents(contents, {"w"}); }), "the model has no layer 'w'");
}

// A model within the model, called twice, as Keras 2 (which counts its calls from 1 on) and Keras 3 write it. Its layer
// has the name of one outside.
TEST(Keras, NestedModels) {
  const Array x = random({2, 3}, 1), kernel = random({3, 3}, 2), outer = random({3, 3}, 3);
  const std::string dense = "'units': 3, 'use_bias': false";
  const std::string own_input = keras_input("i", x.dims);
  const Array once = map(matmul(matmul(x, outer), kernel), relu);
  const Array want = map(matmul(once, kernel), relu);
  const std::string old_calls = "[[['fc', 0, 0, {}]], [['inner', 1, 0, {}]]]";
  const auto tensor = [](const std::string& layer) {
    return "{'args': [{'class_name': '__keras_tensor__', 'config': {'keras_history': ['" + layer +
           "', 0, 0]}}], 'kwargs': {'mask': [null]}}";
  };
  const std::string new_calls = "[" + tensor("fc") + ", " + tensor("inner") + "]";
  for (const bool is_new : {false, true}) {
    const std::string calls = is_new ? new_calls : old_calls, first = is_new ? "[" + tensor("x") + "]" : call_on_x;
    const std::vector<std::string> layers = {own_input, keras_layer("Dense", "fc", dense, "[[['i', 0, 0, {}]]]"),
                                             keras_layer("ReLU", "r", "", "[[['fc', 0, 0, {}]]]")};
    const std::string functional = keras_functional("inner", layers, "[['i', 0, 0]]", "[['r', 0, 0]]", calls);
    const std::string sequential =
        keras_sequential("inner", {own_input, keras_layer("Dense", "fc", dense), keras_layer("ReLU", "r", "")}, calls);
    for (const std::string& inner : {functional, sequential}) {
      const bool counts_from_1 = !is_new || inner == functional;  // where the model names its outputs
      const std::string net =
          keras_functional("net", {keras_input("x", x.dims), keras_layer("Dense", "fc", dense, first), inner},
                           "['x', 0, 0]", "['inner', " + std::string(counts_from_1 ? "2" : "1") + ", 0]");
      const std::string folder = is_new ? "inner/inner/" : "inner/";
      const keras::Contents contents = keras_contents(
          net, {{"fc/fc/kernel:0", outer}, {folder + "fc/kernel:0", kernel}}, is_new ? "3.1.0" : "2.4.0");
      expect_near(run(keras::import_contents(contents, {}), {x}).at(0), want);
      expect_near(run(keras::import_contents(contents, {"inner/r"}), {x}).at(0), once);
    }
  }
}

TEST(Keras, SequentialWithoutInputLayer) {
  const Array x = random({2, 3}, 1), kernel = random({3, 2}, 2);
  const std::string dense = keras_layer("Dense", "fc", "'batch_input_shape': [null, 3], 'units': 2, 'use_bias': false");
  const std::string inner = keras_sequential("inner", {dense});
  for (const std::string& net : {inner, keras_sequential("net", {inner})}) {
    const std::string path = net == inner ? "fc/fc/kernel:0" : "inner/fc/kernel:0";
    const Graph graph = keras::import_contents(keras_contents(net, {{path, kernel}}), {});
    expect_near(run(graph, {x}).at(0), matmul(x, kernel));
  }
  // Old files have nothing but a list of layers.
  const std::string list = R"({"class_name": "Sequential", "config": [)" + dense + "]}";
  const Graph graph = keras::import_contents(keras_contents(list, {{"fc/kernel:0", kernel}}), {});
  expect_near(run(graph, {x}).at(0), matmul(x, kernel));
  expect_in(refusal(keras_contents(keras_sequential("net", {keras_layer("ReLU", "r", "")}), {})),
            "does not say which shape its input has");
}

// Names of layers may have slashes, and one may begin with another's.
TEST(Keras, NamesWithSlashes) {
  const Array x = random({2, 3}, 1), first = random({3, 3}, 2), second = random({3, 3}, 3);
  const std::string config = "'units': 3, 'use_bias': false";
  const std::string net = keras_sequential(
      "net", {keras_input("x", x.dims), keras_layer("Dense", "a", config), keras_layer("Dense", "a/b", config)});
  const keras::Contents contents = keras_contents(net, {{"a/a/kernel:0", first}, {"a/b/a/b/kernel:0", second}});
  expect_near(run(keras::import_contents(contents, {}), {x}).at(0), matmul(matmul(x, first), second));
}

// ---- what is refused --------------------------------------------------------------------------

TEST(Keras, ListsAllUnsupportedLayers) {
  const std::string net = keras_sequential(
      "net", {keras_input("x", {1, 8, 8, 2}), keras_layer("LocallyConnected2D", "up", "'filters': 2"),
              keras_layer("ReLU", "r", ""), keras_sequential("inner", {keras_layer("Lambda", "f", "")})});
  EXPECT_EQ(refusal(keras_contents(net, {})),
            "2 operators are not supported: LocallyConnected2D (1 node: up), Lambda (1 node: inner/f)");
  const std::string two =
      keras_functional("net",
                       {keras_input("x", {1, 8, 8, 2}), keras_layer("LocallyConnected2D", "up", "", call_on_x),
                        keras_layer("Softmax", "r", "'axis': [1, 2]", call_on_x),
                        keras_layer("Softmax", "s", "'temperature': 2.0", call_on_x),
                        keras_layer("ReLU", "q", "'dtype': 'int8'", call_on_x)},
                       "[['x', 0, 0]]", "[['up', 0, 0], ['r', 0, 0], ['s', 0, 0], ['q', 0, 0]]");
  EXPECT_EQ(refusal(keras_contents(two, {})),
            "4 operators are not supported: LocallyConnected2D (1 node: up), Softmax: over several axes (1 node: r), "
            "Softmax: "
            "'temperature' (1 node: s), "
            "ReLU: type 'int8' (1 node: q)");
}

TEST(Keras, Refuses) {
  const Dims x = {1, 8, 8, 2};
  const KerasWeights kernel = {{"kernel", random({3, 3, 2, 4}, 1)}};
  const std::string conv = "'filters': 4, 'kernel_size': [3, 3], 'use_bias': false";
  expect_in(refusal("Conv2D", conv, x), "layer 'y' (Conv2D): the file has no weights 'kernel' for it");
  expect_in(refusal("Conv2D", "'filters': 5, 'kernel_size': 3, 'use_bias': false", x, kernel),
            "its kernel is 3 x 3 x 2 x 4, the layer needs 3 x 3 x 2 x 5");
  expect_in(refusal("Conv2D", "'filters': 4, 'kernel_size': [3, 3]", x, kernel), "no weights 'bias'");
  expect_in(refusal("Conv2D", "'kernel_size': [3, 3]", x, kernel), "'filters' is missing");
  expect_in(refusal("Conv2D", conv + ", 'groups': 3", x, kernel), "does not divide");
  expect_in(refusal("Conv2D", conv + ", 'strides': [1, 0]", x, kernel), "'strides' is out of range");
  expect_in(refusal("Conv2D", conv + ", 'strides': [1, 1, 1]", x, kernel), "'strides' has too many numbers");
  expect_in(refusal("Conv2D", conv + ", 'strides': 1.5", x, kernel), "'strides' must be an integer");
  expect_in(refusal("Conv2D", conv + ", 'padding': 'causal'", x, kernel), "padding 'causal'");
  expect_in(refusal("Conv2D", conv + ", 'data_format': 'nhwc'", x, kernel), "'data_format' is unknown");
  expect_in(refusal("Conv2D", conv + ", 'lora_rank': 4", x, kernel), "Conv2D: 'lora_rank' (1 node: y)");
  expect_in(refusal("MaxPooling2D", "'pool_size': 99999999999999999999", x), "must be an integer");
  expect_in(refusal("LeakyReLU", "'alpha': 1e39", x), "is not a finite number");
  expect_in(refusal("LeakyReLU", "'alpha': NaN", x), "model_config is damaged");
  expect_in(refusal("LeakyReLU", "'alpha': 'big'", x), "'alpha' must be a number");
  expect_in(refusal("Dense", "'units': 2", {1}), "rank 1");
  expect_in(refusal("Conv2D", conv, {1, 8, 8}, kernel), "rank 3");
}

TEST(Keras, RefusesDamagedModels) {
  const auto refused = [&](const std::string& config) { return refusal(keras::Contents{config, "2.4.0", {}}); };
  expect_in(refused(""), "model_config is damaged");
  expect_in(refused("{"), "model_config is damaged");
  expect_in(refused("[]"), "'class_name' is missing");
  expect_in(refused(R"({"class_name": "MyModel", "config": {}})"), "a model of the class 'MyModel'");
  expect_in(refused(R"({"class_name": "Sequential", "config": {"layers": []}})"), "has no layers");
  expect_in(refused(R"({"class_name": "Sequential", "config": {"layers": [3]}})"), "layer 0: 'class_name' is missing");
  const std::string x = keras_input("x", {1, 3}), ends = "[['x', 0, 0]]";
  const auto net = [&](const std::vector<std::string>& layers, const std::string& outputs) {
    return refused(keras_functional("net", layers, ends, outputs));
  };
  const auto call = [](const std::string& source) { return "[[['" + source + "', 0, 0, {}]]]"; };
  expect_in(net({x, keras_layer("ReLU", "a", "", call("b")), keras_layer("ReLU", "b", "", call("a"))}, "[['b', 0, 0]]"),
            "layer 'a' depends on its own result");
  expect_in(net({x, keras_layer("ReLU", "a", "", call("c"))}, "[['a', 0, 0]]"), "unknown layer 'c'");
  expect_in(net({x, x}, ends), "layer 'x' is there twice");
  expect_in(net({x}, "[['x', 1, 0]]"), "layer 'x' has no call 1");
  expect_in(net({x}, "[['x', -1, 0]]"), "layer 'x' has no call -1");
  const std::string inner = keras_sequential("inner", {keras_input("i", {1, 3})}, call("x"));  // calls count from 1
  for (const std::string number : {"-9223372036854775808", "2", "9223372036854775807"}) {
    expect_in(net({x, inner}, "[['inner', " + number + ", 0]]"), "layer 'inner' has no call " + number);
  }
  expect_in(net({x}, "[['x', 0, 99999]]"), "layer 'x' has no result 99999");
  expect_in(net({x, keras_layer("ReLU", "a", "", "[[['x', 0]]]")}, "[['a', 0, 0]]"), "'inbound_nodes' is damaged");
  expect_in(net({x}, "[]"), "the model has no outputs");
  expect_in(refused(keras_sequential("net", {keras_layer("InputLayer", "x", "'batch_input_shape': [1, -3]")})),
            "out of range");
  expect_in(refused(keras_sequential("net", {keras_layer("InputLayer", "x", "'batch_shape': [1, null, 3]")})),
            "dimension 1 has no fixed size");
  expect_in(
      refused(keras_sequential("net", {keras_layer("InputLayer", "x", "'batch_shape': [1, 3], 'dtype': 'uint8'")})),
      "type 'uint8'");
}

// Each model calls the one within it ten times: 10^16 layers.
TEST(Keras, RefusesModelsThatExplode) {
  std::string model = keras_layer("ReLU", "r", "");
  for (int depth = 0; depth < 16; ++depth) {
    model = keras_sequential("m" + std::to_string(depth), std::vector<std::string>(depth < 4 ? 10 : 1, model));
  }
  expect_in(refusal(keras_contents(keras_sequential("net", {keras_input("x", {1, 3}), model, model, model}), {})),
            "more than 20000 layers");
  std::string deep = keras_layer("ReLU", "r", "");
  for (int depth = 0; depth < 20; ++depth) deep = keras_sequential("m", {deep});
  expect_in(refusal(keras_contents(keras_sequential("net", {keras_input("x", {1, 3}), deep}), {})), "too deep");
}

}  // namespace keras_network_test
}  // namespace quern::test
