// Keras' layers that need libquern-extra, but for recurrent ones, against plain computations.
#include <algorithm>
#include <cmath>

#include "convert/keras/keras.h"
#include "keras_model.h"

namespace quern::test {
namespace keras_extra_test {

class KerasExtra : public KerasWithExtra {};

// ---- functions --------------------------------------------------------------------------------

TEST_F(KerasExtra, Activations) {
  const Array x = map(random({2, 3, 4}, 1), [](float v) { return 3 * v; });
  const auto softplus = [](float v) { return std::log1p(std::exp(v)); };
  const auto shrink = [](float v, float left) { return v > 0.5f ? v - left : v < -0.5f ? v + left : 0; };
  const std::map<std::string, std::function<float(float)>> functions = {
      {"celu", [](float v) { return v < 0 ? std::expm1(v) : v; }},
      {"gelu", [](float v) { return v * (1 + std::erf(v / std::sqrt(2.0f))) / 2; }},
      {"hard_shrink", [&](float v) { return shrink(v, 0); }},
      {"log_sigmoid", [](float v) { return std::log(sigmoid(v)); }},
      {"mish", [&](float v) { return v * std::tanh(softplus(v)); }},
      {"soft_shrink", [&](float v) { return shrink(v, 0.5f); }},
      {"softplus", softplus},
      {"sparse_plus", [](float v) { return v <= -1 ? 0
                                           : v < 1 ? (v + 1) * (v + 1) / 4
                                                   : v; }},
      {"sparse_sigmoid", [](float v) { return std::clamp((v + 1) / 2, 0.0f, 1.0f); }},
      {"squareplus", [](float v) { return (v + std::sqrt(v * v + 4)) / 2; }},
      {"tanh_shrink", [](float v) { return v - std::tanh(v); }},
  };
  for (const auto& [name, function] : functions) {
    expect_layer("Activation", "'activation': '" + name + "'", x, {}, map(x, function), "3.1.0");
  }
  const Array weight = softmax(x, 2);
  expect_layer("Activation", "'activation': 'log_softmax'", x, {}, map(weight, logf));
  const Array first = slice(x, {0, 0, 0}, {2, 3, 2}), second = slice(x, {0, 0, 2}, {2, 3, 4});
  expect_layer("Activation", "'activation': 'glu'", x, {}, combine(first, map(second, sigmoid), times));
  expect_in(refusal("Activation", "'activation': 'glu'", {1, 3}), "odd number of channels");
}

TEST_F(KerasExtra, Thresholds) {
  const Array x = map(random({2, 3, 4}, 1), [](float v) { return 3 * v; });
  const auto above = [](float v) { return v > 0.5f ? v : 0; };
  const auto below = [](float v) { return v > 0.5f ? 0 : 0.25f * (v - 0.5f); };
  expect_layer("ThresholdedReLU", "'theta': 0.5", x, {}, map(x, above));
  expect_layer("ReLU", "'threshold': 0.5", x, {}, map(x, above));
  expect_layer("ReLU", "'threshold': 0.5, 'max_value': 2.0", x, {},
               map(x, [&](float v) { return std::min(above(v), 2.0f); }));
  expect_layer("ReLU", "'threshold': 0.5, 'max_value': 2.0, 'negative_slope': 0.25", x, {},
               map(x, [&](float v) { return std::min(above(v), 2.0f) + below(v); }));
}

TEST_F(KerasExtra, RescalingOfChannels) {
  const Array x = random({2, 3, 2}, 1), scale = make({2}, {2, 3}), offset = make({2}, {1, -1});
  const Array want = combine(combine(x, scale, times), offset, plus);
  expect_layer("Rescaling", "'scale': [2, 3], 'offset': [1, -1]", x, {}, want);
  expect_layer("Rescaling", "'scale': [2], 'offset': [1, -1]", x, {},
               combine(map(x, [](float v) { return 2 * v; }), offset, plus));
  expect_in(refusal("Rescaling", "'scale': [2, 3, 4]", x.dims), "'scale' does not fit the input");
}

// ---- transposed convolution -------------------------------------------------------------------

// What each pixel adds to the pixels of its window; the result begins `before` pixels behind the first window. Kernel:
// h, w, out, in.
Array spread(const Array& x, const Array& kernel, const Array& bias, const Dims& size, size_t stride,
             const Dims& before) {
  Array y = generate({x.dims[0], size[0], size[1], kernel.dims[2]}, [&](const Dims& at) { return bias.data[at[3]]; });
  for_each_index(kernel.dims, [&](const Dims& k) {
    for_each_index({x.dims[0], x.dims[1], x.dims[2]}, [&](const Dims& p) {
      const size_t row = p[1] * stride + k[0], column = p[2] * stride + k[1];
      if (row < before[0] || column < before[1] || row - before[0] >= size[0] || column - before[1] >= size[1]) return;
      y.at({p[0], row - before[0], column - before[1], k[2]}) += x.at({p[0], p[1], p[2], k[3]}) * kernel.at(k);
    });
  });
  return y;
}

TEST_F(KerasExtra, TransposedConvolution) {
  const Array x = random({2, 4, 3, 3}, 1), bias = random({2}, 2), kernel = random({3, 4, 2, 3}, 3);
  const KerasWeights weights = {{"kernel", kernel}, {"bias", bias}};
  const std::string sizes = "'filters': 2, 'kernel_size': [3, 4], 'strides': 2";
  expect_layer("Conv2DTranspose", sizes, x, weights, spread(x, kernel, bias, {9, 8}, 2, {0, 0}));
  expect_layer("Conv2DTranspose", sizes + ", 'padding': 'same'", x, weights,
               spread(x, kernel, bias, {8, 6}, 2, {0, 1}));
  expect_layer("Conv2DTranspose", sizes + ", 'padding': 'valid', 'output_padding': 1", x, weights,
               spread(x, kernel, bias, {10, 9}, 2, {0, 0}));
  const Array small = random({1, 1, 2, 3}, 4);  // windows that leave pixels between them, and behind the last one
  expect_layer("Conv2DTranspose", "'filters': 2, 'kernel_size': 1, 'strides': 3, 'activation': 'sigmoid'", x,
               {{"kernel", reshape(random({1, 1, 2, 3}, 4), {1, 1, 2, 3})}, {"bias", bias}},
               map(spread(x, small, bias, {12, 9}, 3, {0, 0}), sigmoid));
  const Array row = random({2, 5, 3}, 5), taps = random({3, 2, 3}, 6);
  const Array wide = spread(reshape(row, {2, 1, 5, 3}), reshape(taps, {1, 3, 2, 3}), bias, {1, 11}, 2, {0, 0});
  expect_layer("Conv1DTranspose", "'filters': 2, 'kernel_size': [3], 'strides': [2]", row,
               {{"kernel", taps}, {"bias", bias}}, reshape(wide, {2, 11, 2}));
  expect_in(refusal("Conv2DTranspose", sizes + ", 'output_padding': 2", x.dims, weights), "not below the strides");
  expect_in(refusal("Conv2DTranspose", sizes + ", 'dilation_rate': 1000000000", x.dims, weights),
            "window is too large");
  expect_in(refusal("Conv2DTranspose", sizes + ", 'padding': 'causal'", x.dims, weights), "padding 'causal'");
}

// ---- normalization ----------------------------------------------------------------------------

// Divides each part of x, which begins at begin(index) and has `size` elements of neighbouring indices, by its
// deviation.
Array standardized(const Array& rows, float epsilon) {
  Array y = rows;
  const size_t size = rows.dims[1];
  for (size_t r = 0; r < rows.dims[0]; ++r) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < size; ++i) mean += rows.data[r * size + i] / static_cast<double>(size);
    for (size_t i = 0; i < size; ++i)
      variance += std::pow(rows.data[r * size + i] - mean, 2) / static_cast<double>(size);
    for (size_t i = 0; i < size; ++i) {
      y.data[r * size + i] = static_cast<float>((rows.data[r * size + i] - mean) / std::sqrt(variance + epsilon));
    }
  }
  return y;
}

TEST_F(KerasExtra, LayerNormalization) {
  const Array x = random({2, 3, 4}, 1), gamma = random({4}, 2), beta = random({4}, 3);
  const KerasWeights weights = {{"gamma", gamma}, {"beta", beta}};
  const Array y = reshape(standardized(reshape(x, {6, 4}), 0.1f), x.dims);
  expect_layer("LayerNormalization", "'axis': [2], 'epsilon': 0.1", x, weights,
               combine(combine(y, gamma, times), beta, plus));
  expect_layer("LayerNormalization", "'axis': -1, 'epsilon': 0.1, 'center': false, 'scale': false", x, {}, y);
  const Array turned = transpose(x, {0, 2, 1});
  expect_layer("LayerNormalization", "'axis': 1, 'epsilon': 0.1, 'center': false", turned, {{"gamma", gamma}},
               transpose(combine(y, gamma, times), {0, 2, 1}));
  expect_in(refusal("LayerNormalization", "'rms_scaling': true", x.dims), "rms_scaling");
  expect_in(refusal("LayerNormalization", "'axis': [2, 1]", x.dims), "axes in another order");
  expect_in(refusal("LayerNormalization", "'axis': []", x.dims), "'axis' is empty");
  expect_in(refusal("LayerNormalization", "'axis': 0", x.dims), "over the first dimension");
}

TEST_F(KerasExtra, OtherNormalizations) {
  const Array x = random({2, 2, 3, 4}, 1), gamma = random({4}, 2), beta = random({4}, 3);
  const Array groups = reshape(transpose(x, {0, 3, 1, 2}), {4, 12});  // of two channels each
  const Array y = transpose(reshape(standardized(groups, 0.1f), {2, 4, 2, 3}), {0, 2, 3, 1});
  const std::string config = "'groups': 2, 'epsilon': 0.1";
  expect_layer("GroupNormalization", config, x, {{"gamma", gamma}, {"beta", beta}},
               combine(combine(y, gamma, times), beta, plus));
  expect_layer("GroupNormalization", config + ", 'axis': 1, 'center': false, 'scale': false",
               transpose(x, {0, 3, 1, 2}), {}, transpose(y, {0, 3, 1, 2}));
  expect_in(refusal("GroupNormalization", "'groups': 3", x.dims), "'groups' does not divide the 4 channels");

  const auto squares = [&](size_t first) {
    float sum = 0;
    for (size_t i = 0; i < 4; ++i) sum += x.data[first + i] * x.data[first + i];
    return sum;
  };
  Array unit = x, rms = x;
  for (size_t i = 0; i < x.data.size(); ++i) {
    unit.data[i] /= std::sqrt(squares(i / 4 * 4));
    rms.data[i] *= gamma.data[i % 4] / std::sqrt(squares(i / 4 * 4) / 4 + 0.1f);
  }
  expect_layer("UnitNormalization", "", x, {}, unit);
  // Lengths below 1e-6 count as that before version 3.
  const Array tiny = make({1, 4}, {1e-8f, 1e-8f, 1e-8f, 1e-8f});
  expect_layer("UnitNormalization", "", tiny, {}, make({1, 4}, {0.5f, 0.5f, 0.5f, 0.5f}), "3.1.0");
  expect_layer("UnitNormalization", "", tiny, {}, make({1, 4}, {0.01f, 0.01f, 0.01f, 0.01f}));
  expect_layer("UnitNormalization", "'axis': [3]", make({1, 1, 1, 2}, {0, 0}), {}, make({1, 1, 1, 2}, {0, 0}));
  expect_layer("RMSNormalization", "'epsilon': 0.1", x, {{"scale", gamma}}, rms);
  expect_in(refusal("RMSNormalization", "'axis': [1]", x.dims), "axes that are not the last");
}

// ---- attention and lookups --------------------------------------------------------------------

// softmax(scale * q * k^T) * v of matrices; with `causal` no key behind the query.
Array attended(const Array& q, const Array& k, const Array& v, float scale, bool causal) {
  Array scores = matmul(q, transpose(k, {1, 0}));
  for_each_index(scores.dims,
                 [&](const Dims& at) { scores.at(at) = causal && at[1] > at[0] ? -1e30f : scores.at(at) * scale; });
  return matmul(softmax(scores, 1), v);
}

Array matrix(const Array& x, size_t number) {
  return reshape(slice(x, {number, 0, 0}, {number + 1, x.dims[1], x.dims[2]}), {x.dims[1], x.dims[2]});
}

// A model of one layer called on inputs a, b, c; `call` is a call of Keras 2.
std::vector<Array> called(const std::string& type, const std::string& config, const std::string& call,
                          const KerasWeights& weights, const std::vector<Array>& inputs) {
  std::vector<std::string> layers;
  std::string names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    layers.push_back(keras_input(name, inputs[i].dims));
    names += std::string(i == 0 ? "" : ", ") + "['" + name + "', 0, 0]";
  }
  layers.push_back(keras_layer(type, "y", config, call));
  const std::string net = keras_functional("net", layers, "[" + names + "]", "[['y', 0, 0]]");
  return run(keras::import_contents(keras_contents(net, weights), {}), inputs);
}

TEST_F(KerasExtra, Attention) {
  const Array q = random({2, 3, 4}, 1), v = random({2, 3, 2}, 2), k = random({2, 3, 4}, 3);
  const std::string call = "[[['a', 0, 0, {}], ['b', 0, 0, {}], ['c', 0, 0, {}]]]";
  const auto want = [&](float scale, bool causal) {
    std::vector<Array> images;
    for (size_t i = 0; i < 2; ++i) {
      const Array y = attended(matrix(q, i), matrix(k, i), matrix(v, i), scale, causal);
      images.push_back(reshape(y, {1, 3, 2}));
    }
    return concat(images, 0);
  };
  expect_near(called("Attention", "'dropout': 0.5", call, {}, {q, v, k}).at(0), want(1, false));
  expect_near(called("Attention", "'use_scale': true", call, {{"y/y/scale:0", make({}, {0.5f})}}, {q, v, k}).at(0),
              want(0.5f, false));
  const std::string causal = "[[['a', 0, 0, {'use_causal_mask': true}], ['b', 0, 0, {}], ['c', 0, 0, {}]]]";
  expect_near(called("Attention", "", causal, {}, {q, v, k}).at(0), want(1, true));
  const auto refused = [&](const std::string& config, const std::string& how) {
    return error_of([&] { called("Attention", config, how, {}, {q, v, k}); });
  };
  expect_in(refused("'score_mode': 'concat'", call), "score_mode 'concat'");
  expect_in(refused("", "[[['a', 0, 0, {'return_attention_scores': true}], ['b', 0, 0, {}]]]"),
            "the argument 'return_attention_scores'");
}

TEST_F(KerasExtra, MultiHeadAttention) {
  const Array q = random({1, 3, 4}, 1), v = random({1, 5, 6}, 2);
  const Array wq = random({4, 2, 3}, 3), bq = random({2, 3}, 4), wk = random({6, 2, 3}, 5), bk = random({2, 3}, 6);
  const Array wv = random({6, 2, 3}, 7), bv = random({2, 3}, 8), wo = random({2, 3, 4}, 9), bo = random({4}, 10);
  const KerasWeights weights = {{"y/y/query/kernel:0", wq},
                                {"y/y/query/bias:0", bq},
                                {"y/y/key/kernel:0", wk},
                                {"y/y/key/bias:0", bk},
                                {"y/y/value/kernel:0", wv},
                                {"y/y/value/bias:0", bv},
                                {"y/y/attention_output/kernel:0", wo},
                                {"y/y/attention_output/bias:0", bo}};
  const auto head = [](const Array& x, const Array& w, const Array& b, size_t h) {
    const Array own = reshape(slice(w, {0, h, 0}, {w.dims[0], h + 1, 3}), {w.dims[0], 3});
    return combine(matmul(matrix(x, 0), own), slice(b, {h, 0}, {h + 1, 3}), plus);
  };
  std::vector<Array> heads;
  for (size_t h = 0; h < 2; ++h) {
    heads.push_back(attended(head(q, wq, bq, h), head(v, wk, bk, h), head(v, wv, bv, h), 1 / std::sqrt(3.0f), false));
  }
  const Array sum = matmul(concat(heads, 1), reshape(wo, {6, 4}));
  const Array want = reshape(combine(sum, bo, plus), {1, 3, 4});
  const std::string config =
      "'num_heads': 2, 'key_dim': 3, 'value_dim': 3, 'attention_axes': [1], 'output_shape': null";
  const std::string call = "[[['a', 0, 0, {'value': ['b', 0, 0], 'use_causal_mask': false}]]]";
  expect_near(called("MultiHeadAttention", config, call, weights, {q, v}).at(0), want);
  const auto refused = [&](const std::string& more) {
    return error_of([&] { called("MultiHeadAttention", config + more, call, weights, {q, v}); });
  };
  expect_in(refused(", 'use_gate': true"), "use_gate");
  expect_in(refused(", 'sliding_window': 3"), "'sliding_window'");
}

TEST_F(KerasExtra, Dot) {
  const Array a = random({1, 3, 4}, 1), b = random({1, 5, 4}, 2), c = random({2, 4}, 3), d = random({2, 4}, 4);
  const std::string call = "[[['a', 0, 0, {}], ['b', 0, 0, {}]]]";
  const Array want = reshape(matmul(matrix(a, 0), transpose(matrix(b, 0), {1, 0})), {1, 3, 5});
  expect_near(called("Dot", "'axes': [2, 2], 'normalize': false", call, {}, {a, b}).at(0), want);
  Array rows = make({2, 1}, {0, 0}), cosines = rows;
  for (size_t r = 0; r < 2; ++r) {
    float products = 0, left = 0, right = 0;
    for (size_t i = 0; i < 4; ++i) {
      products += c.at({r, i}) * d.at({r, i});
      left += c.at({r, i}) * c.at({r, i}), right += d.at({r, i}) * d.at({r, i});
    }
    rows.data[r] = products;
    cosines.data[r] = products / std::sqrt(left * right);
  }
  expect_near(called("Dot", "'axes': 1", call, {}, {c, d}).at(0), rows);
  expect_near(called("Dot", "'axes': -1, 'normalize': true", call, {}, {c, d}).at(0), cosines);
  expect_in(error_of([&] { called("Dot", "'axes': 0", call, {}, {c, d}); }), "along the first dimension");
}

TEST_F(KerasExtra, Embedding) {
  const Array table = random({5, 3}, 1), x = make({2, 2}, {0, 4, 2.7f, 1});
  const Array want = generate({2, 2, 3}, [&](const Dims& at) {
    return table.at({static_cast<size_t>(x.at({at[0], at[1]})), at[2]});
  });
  const std::string config = "'input_dim': 5, 'output_dim': 3, 'input_length': 2, 'mask_zero': ";
  expect_layer("Embedding", config + "false", x, {{"embeddings", table}}, want);
}

// Sums of products with weights. What the optimizer sees of a product of matrices is what it sees of Dense.
TEST_F(KerasExtra, EinsumDense) {
  const Array x = random({2, 3, 4}, 1), kernel = random({4, 5}, 2), bias = random({5}, 3);
  const Array product = reshape(matmul(reshape(x, {6, 4}), kernel), {2, 3, 5});
  const KerasWeights weights = {{"kernel", kernel}, {"bias", bias}};
  const auto config = [](const std::string& equation, const std::string& shape, const std::string& axes) {
    return "'equation': '" + equation + "', 'output_shape': " + shape + ", 'bias_axes': " + axes;
  };
  for (const std::string equation : {"abc,cd->abd", "...x,xy->...y"}) {
    const std::string axes = equation[0] == '.' ? "'y'" : "'d'", shape = equation[0] == '.' ? "5" : "[null, 5]";
    expect_layer("EinsumDense", config(equation, shape, axes) + ", 'activation': 'linear'", x, weights,
                 combine(product, bias, plus));
    const Graph graph =
        keras::import_contents(one_layer("EinsumDense", config(equation, shape, axes), x.dims, weights), {});
    ASSERT_EQ(graph.nodes.size(), 1u);
    EXPECT_EQ(graph.nodes[0].kind, OpKind::fully_connected);
  }
  // Two dimensions for one, and one for two.
  const Array heads = random({3, 2, 5}, 4), flat = random({4, 2, 3}, 5), rows = random({2, 3}, 6);
  const Array split = reshape(matmul(reshape(x, {6, 4}), reshape(flat, {4, 6})), {2, 3, 2, 3});
  expect_layer("EinsumDense", config("abc,cde->abde", "[3, 2, 3]", "'de'"), x, {{"kernel", flat}, {"bias", rows}},
               combine(split, rows, plus));
  const Array four = random({2, 4, 3, 2}, 7);
  expect_layer("EinsumDense", config("abcd,cde->abe", "[4, 5]", "null"), four, {{"kernel", heads}},
               reshape(matmul(reshape(four, {8, 6}), reshape(heads, {6, 5})), {2, 4, 5}));
  // In another order, with a bias for another dimension, and with dots behind.
  const Array column = random({5, 1}, 8), wide = random({3, 5}, 9);
  const Array turned = transpose(product, {0, 2, 1});
  expect_layer("EinsumDense", config("abc,cd->adb", "[5, 3]", "'d'"), x, {{"kernel", kernel}, {"bias", column}},
               combine(turned, column, plus));
  expect_layer("EinsumDense", config("ab...,bd->ad...", "[5]", "'d'"), x, {{"kernel", wide}, {"bias", column}},
               combine(transpose(reshape(matmul(reshape(transpose(x, {0, 2, 1}), {8, 3}), wide), {2, 4, 5}), {0, 2, 1}),
                       column, plus));
}

TEST_F(KerasExtra, EinsumDenseRefused) {
  const Array kernel = random({4, 5}, 2);
  const auto refused = [&](const std::string& equation, const std::string& shape, const std::string& axes = "null") {
    const std::string config = "'equation': '" + equation + "', 'output_shape': " + shape + ", 'bias_axes': " + axes;
    return refusal("EinsumDense", config, {2, 3, 4}, {{"kernel", kernel}});
  };
  expect_in(refused("abc,cd", "[3, 5]"), "expected an equation of the form");
  expect_in(refused("abc->abd", "[3, 5]"), "expected an equation of the form");
  expect_in(refused("a1c,cd->abd", "[3, 5]"), "equation: expected letters and one ellipsis at most, got 'a1c'");
  expect_in(refused("a...c,cd->a...d", "5"), "equation: expected letters and one ellipsis at most, got 'a...c'");
  expect_in(refused("...c,cd->d...", "5"), "the same end");
  expect_in(refused("...c,cd->d", "5"), "the same end");
  expect_in(refused("ab,bc->ac", "[5]"), "'ab' for 3 dimensions");
  expect_in(refused("abc,cd->abd", "[3, null]"), "does not say the size of 'd'");
  expect_in(refused("abc,cd->abd", "[9, 5]"), "'output_shape' does not fit the input");
  expect_in(refused("abc,cd->abd", "[3, 5, 7]"), "'output_shape' has too many numbers");
  expect_in(refused("abc,cd->abd", "[3, 5]", "'x'"), "'bias_axes' has 'x'");
  expect_in(refused("abc,cd->abd", "[3, 6]"), "its kernel is 4 x 5, the layer needs 4 x 6");
}

TEST_F(KerasExtra, CenterCrop) {
  const Array x = random({1, 6, 5, 2}, 1);
  expect_layer("CenterCrop", "'height': 3, 'width': 4", x, {}, slice(x, {0, 1, 0, 0}, {1, 4, 4, 2}));
  expect_in(refusal("CenterCrop", "'height': 7, 'width': 4", x.dims), "an image that is smaller");
}

}  // namespace keras_extra_test
}  // namespace quern::test
