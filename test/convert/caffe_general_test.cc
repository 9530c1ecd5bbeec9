// Layers that convolution networks seldom have, recurrent ones, and nets in the form of 2013, against plain
// computations.
#include <algorithm>
#include <cmath>

#include "caffe_model.h"

namespace quern {
namespace caffe_general_test {

using test::Array;
using test::Dims;
using test::expect_in;
using test::expect_near;
using test::generate;
using test::make;
using test::plus;
using test::random;
using test::sigmoid;
using test::tanh_of;
using test::times;

class CaffeGeneral : public test::CaffeNets {};

// ---- lookups and choices ----------------------------------------------------------------------

TEST_F(CaffeGeneral, Threshold) {
  const Array x = random({2, 3, 4}, 1);
  const auto above = [](float least) { return [least](float v) { return v > least ? 1.0f : 0.0f; }; };
  expect_layer("Threshold", "", {x}, {}, test::map(x, above(0)));
  expect_layer("Threshold", "threshold_param { threshold: 0.25 }", {x}, {}, test::map(x, above(0.25f)));
  expect_layer("Threshold", "", {make({1, 2}, {0, 0})}, {}, make({1, 2}, {0, 0}));
}

TEST_F(CaffeGeneral, Embed) {
  const Array table = random({5, 3}, 1), bias = random({3}, 2), x = make({2, 2}, {4, 0, 1, 4});
  const Array rows = generate({2, 2, 3}, [&](const Dims& at) {
    return table.at({static_cast<size_t>(x.at({at[0], at[1]})), at[2]});
  });
  expect_layer("Embed", "embed_param { num_output: 3 input_dim: 5 }", {x}, {table, bias},
               test::combine(rows, bias, plus));
  expect_layer("Embed", "embed_param { num_output: 3 input_dim: 5 bias_term: false }", {x}, {table}, rows);
  expect_in(refusal(one_layer({x.dims}, "Embed", "embed_param { num_output: 3 }")), "input_dim is missing");
}

TEST_F(CaffeGeneral, BatchReindex) {
  const Array x = random({3, 2, 2}, 1);
  const Array want = test::concat({test::slice(x, {2, 0, 0}, {3, 2, 2}), test::slice(x, {0, 0, 0}, {1, 2, 2}),
                                   test::slice(x, {2, 0, 0}, {3, 2, 2}), test::slice(x, {1, 0, 0}, {2, 2, 2})},
                                  0);
  expect_layer("BatchReindex", "", {x, make({4}, {2, 0, 2, 1})}, {}, want);
}

TEST_F(CaffeGeneral, Filter) {
  const Array x = random({4, 2}, 1), y = random({4, 1, 3}, 2), selector = make({4, 1, 1, 1}, {0, 1, 0, 2});
  std::string net = one_layer({x.dims, y.dims, selector.dims}, "Filter", "top: \"z\"");
  const std::vector<Array> got = test::run(import(net), {x, y, selector});
  ASSERT_EQ(got.size(), 2u);
  const auto rows = [](const Array& from) {
    const auto row = [&](size_t i) {
      Dims begin(from.dims.size(), 0), end = from.dims;
      begin[0] = i, end[0] = i + 1;
      return test::slice(from, begin, end);
    };
    return test::concat({row(1), row(3)}, 0);
  };
  expect_near(got[0], rows(x));
  expect_near(got[1], rows(y));
}

TEST_F(CaffeGeneral, Parameter) {
  const Array x = random({2, 3}, 1), w = random({2, 3}, 2);
  const std::string net =
      "input: \"x\" input_shape { dim: 2 dim: 3 }\n"
      "layer { name: \"p\" type: \"Parameter\" top: \"p\" parameter_param { shape { dim: 2 dim: 3 } } }\n"
      "layer { name: \"s\" type: \"Eltwise\" bottom: \"x\" bottom: \"p\" top: \"s\" }";
  expect_near(test::run(import(net, {{"p", {w}}}), {x}).at(0), test::combine(x, w, plus));
  expect_in(refusal(net), "its weights are in a .caffemodel");
  expect_in(refusal("layer { name: \"p\" type: \"Parameter\" top: \"p\" parameter_param { shape { dim: -2 } } }"),
            "shape is out of range");
}

TEST_F(CaffeGeneral, NormalizationOfForks) {
  const Array x = random({2, 3, 2, 2}, 1), scale = random({1, 3, 1, 1}, 2), shift = random({1, 3, 1, 1}, 3);
  const Array mean = random({1, 3, 1, 1}, 4);
  const Array variance = test::map(random({1, 3, 1, 1}, 5), [](float v) { return v * v + 0.1f; });
  const Array centred = test::combine(x, mean, std::minus<float>());
  const Array y = test::combine(centred, variance, [](float a, float b) { return a / std::sqrt(b + 0.5f); });
  const auto affine = [&](const Array& of) { return test::combine(test::combine(of, scale, times), shift, plus); };
  expect_layer("BN", "bn_param { bn_mode: INFERENCE scale_filler { } shift_filler { } }", {x}, {scale, shift},
               affine(x));
  expect_layer("BN", "bn_param { eps: 0.5 momentum: 0.9 frozen: true }", {x}, {scale, shift, mean, variance},
               affine(y));
  expect_in(refusal(one_layer({x.dims}, "BN", ""), {{"l", {scale, shift}}}), "BN: statistics of the batch (1 node: l)");
  expect_in(refusal(one_layer({x.dims}, "BN", ""), {{"l", {scale}}}), "has 1 blobs");
}

// ---- windows ----------------------------------------------------------------------------------

// Each channel is a group by itself where the type says so.
TEST_F(CaffeGeneral, DepthwiseWithoutGroups) {
  const Array x = random({1, 4, 5, 6}, 1), w = random({4, 1, 3, 3}, 2);
  expect_layer("ConvolutionDepthwise", "convolution_param { num_output: 4 kernel_size: 3 bias_term: false }", {x}, {w},
               test::conv(x, w, {}, {}, 4));
}

TEST_F(CaffeGeneral, GroupedDeconvolution) {
  const Array x = random({1, 2, 2, 3}, 1), w = random({2, 1, 2, 2}, 2);
  const Array want = generate({1, 2, 4, 6}, [&](const Dims& i) {
    return x.at({0, i[1], i[2] / 2, i[3] / 2}) * w.at({i[1], 0, i[2] % 2, i[3] % 2});
  });
  expect_layer("Deconvolution",
               "convolution_param { num_output: 2 kernel_size: 2 stride: 2 group: 2 bias_term: false }", {x}, {w},
               want);
}

// Level 1 of an image 5 x 6 has windows 3 x 3, one row of them behind a row of padding.
TEST_F(CaffeGeneral, SpatialPyramid) {
  const Array x = random({2, 3, 5, 6}, 1);
  test::Window whole, halves;
  whole.kernel[0] = 5, whole.kernel[1] = 6;
  for (const size_t d : {0, 1}) halves.kernel[d] = halves.stride[d] = 3;
  halves.begin[0] = 1;
  const auto pyramid = [](const Array& top, const Array& base) {
    return test::concat({test::reshape(top, {2, 3}), test::reshape(base, {2, 12})}, 1);
  };
  expect_layer("SPP", "spp_param { pyramid_height: 2 }", {x}, {},
               pyramid(test::max_pool(x, whole), test::max_pool(x, halves)));
  // Caffe's averages count the padding before and behind the image.
  const Array padded = test::pad(x, {0, 0, 1, 0}, {0, 0, 0, 0}, 0);
  test::Window plain = halves;
  plain.begin[0] = 0;
  expect_layer("SPP", "spp_param { pyramid_height: 2 pool: AVE }", {x}, {},
               pyramid(test::average_pool(x, whole, false), test::average_pool(padded, plain, false)));
  expect_layer("SPP", "spp_param { pyramid_height: 1 }", {x}, {}, test::max_pool(x, whole));
  expect_in(refusal(one_layer({x.dims}, "SPP", "spp_param { pyramid_height: 9 }")), "too large for the image");
  expect_in(refusal(one_layer({x.dims}, "SPP", "")), "pyramid_height is not within");
}

TEST_F(CaffeGeneral, PlacesOfThePoolingAndBack) {
  const Array x = random({2, 3, 4, 5}, 1);
  const std::string net =
      "input: \"x\" input_shape { dim: 1 dim: 3 dim: 4 dim: 5 }\n"
      "layer { name: \"p\" type: \"Pooling\" bottom: \"x\" top: \"p\" top: \"mask\" pooling_param { kernel_size: 2 "
      "stride: 2 } }\n"
      "layer { name: \"u\" type: \"Upsample\" bottom: \"p\" bottom: \"mask\" top: \"u\" upsample_param { scale: 2 "
      "upsample_h: 4 upsample_w: 5 } }";
  const std::vector<Array> got = test::run(import(net, {}, {"p", "mask", "u"}), {x});
  Array places = make({2, 3, 2, 3}, std::vector<float>(36)), largest = places;
  Array back = make(x.dims, std::vector<float>(120));
  test::for_each_index(places.dims, [&](const Dims& o) {
    float best = -2;
    for (size_t row = 2 * o[2]; row < 2 * o[2] + 2; ++row) {
      for (size_t column = 2 * o[3]; column < std::min<size_t>(2 * o[3] + 2, 5); ++column) {
        if (x.at({o[0], o[1], row, column}) <= best) continue;
        best = x.at({o[0], o[1], row, column});
        places.at(o) = static_cast<float>(row * 5 + column);
      }
    }
    largest.at(o) = best;
    const auto place = static_cast<size_t>(places.at(o));
    back.at({o[0], o[1], place / 5, place % 5}) = best;
  });
  expect_near(got.at(0), largest);
  expect_near(got.at(1), places);
  expect_near(got.at(2), back);
  expect_in(refusal(one_layer({x.dims, {2, 3, 4, 4}}, "Upsample", "")), "different shapes");
}

TEST_F(CaffeGeneral, UpsampleRepeatsPixels) {
  const Array x = random({1, 2, 2, 3}, 1);
  const Array want = generate({1, 2, 6, 6}, [&](const Dims& i) { return x.at({0, i[1], i[2] / 3, i[3] / 2}); });
  expect_layer("Upsample", "upsample_param { scale_h: 3 scale_w: 2 }", {x}, {}, want);
  expect_in(refusal(one_layer({x.dims}, "Upsample", "upsample_param { scale: 0 }")), "scale is not positive");
}

TEST_F(CaffeGeneral, InterpCuts) {
  const Array x = make({1, 1, 3, 4}, {9, 9, 9, 9, 9, 0, 2, 9, 9, 9, 9, 9});
  expect_layer("Interp", "interp_param { pad_beg: -1 pad_end: -1 zoom_factor: 2 }", {x}, {},
               make({1, 1, 1, 3}, {0, 1, 2}));
  expect_in(refusal(one_layer({x.dims}, "Interp", "interp_param { pad_beg: -2 pad_end: -1 }")), "nothing is left");
  expect_in(refusal(one_layer({x.dims}, "Interp", "interp_param { pad_end: 1 }")), "pad_end is positive");
}

// ---- recurrent layers -------------------------------------------------------------------------

// Rows of a step; states begin anew where `goes_on` is 0.
Array step_of(const Array& x, size_t t) {
  return test::reshape(test::slice(x, {t, 0, 0}, {t + 1, x.dims[1], x.dims[2]}), {x.dims[1], x.dims[2]});
}
Array affine(const Array& x, const Array& w, const Array& b) {
  return test::combine(test::matmul(x, test::transpose(w, {1, 0})), b, plus);
}

const Array goes_on = make({3, 2}, {0, 0, 1, 0, 1, 1});

TEST_F(CaffeGeneral, Lstm) {
  const Array x = random({3, 2, 4}, 1), w = random({12, 4}, 2), b = random({12}, 3), r = random({12, 3}, 4);
  Array h = make({2, 3}, std::vector<float>(6)), c = h;
  std::vector<Array> steps;
  for (size_t t = 0; t < 3; ++t) {
    const Array kept = test::reshape(test::slice(goes_on, {t, 0}, {t + 1, 2}), {2, 1});
    h = test::combine(h, kept, times);
    const Array sums = test::combine(affine(step_of(x, t), w, b), test::matmul(h, test::transpose(r, {1, 0})), plus);
    const auto gate = [&](size_t g) { return test::slice(sums, {0, 3 * g}, {2, 3 * g + 3}); };
    const Array old = test::combine(test::map(gate(1), sigmoid), test::combine(c, kept, times), times);
    c = test::combine(old, test::combine(test::map(gate(0), sigmoid), test::map(gate(3), tanh_of), times), plus);
    h = test::combine(test::map(gate(2), sigmoid), test::map(c, tanh_of), times);
    steps.push_back(test::reshape(h, {1, 2, 3}));
  }
  const std::string parameters = "recurrent_param { num_output: 3 debug_info: false weight_filler { } }";
  expect_layer("LSTM", parameters, {x, goes_on}, {w, b, r}, test::concat(steps, 0));
  const auto refused = [&](const std::vector<Dims>& inputs, const std::string& more) {
    return refusal(one_layer(inputs, "LSTM", "recurrent_param { num_output: 3 " + more + "}"), {{"l", {w, b, r}}});
  };
  expect_in(refused({x.dims, {3, 2}}, "expose_hidden: true "), "LSTM: expose_hidden (1 node: l)");
  expect_in(refused({x.dims, {3, 2}, {2, 4}}, ""), "an input that is the same in all steps");
  expect_in(refused({{300, 2, 4}, {300, 2}}, ""), "more than 256 steps");
  expect_in(refused({x.dims, {2, 3}}, ""), "the second input does not fit");
  expect_in(refused({{3, 2}, {3, 2}}, ""), "not a sequence");
}

TEST_F(CaffeGeneral, Rnn) {
  const Array x = random({3, 2, 2, 2}, 1), w = random({3, 4}, 2), b = random({3}, 3), r = random({3, 3}, 4);
  const Array out = random({3, 3}, 5), out_bias = random({3}, 6);
  Array h = make({2, 3}, std::vector<float>(6));
  std::vector<Array> steps;
  for (size_t t = 0; t < 3; ++t) {
    const Array kept = test::reshape(test::slice(goes_on, {t, 0}, {t + 1, 2}), {2, 1});
    h = test::matmul(test::combine(h, kept, times), test::transpose(r, {1, 0}));
    h = test::map(test::combine(affine(step_of(test::reshape(x, {3, 2, 4}), t), w, b), h, plus), tanh_of);
    steps.push_back(test::reshape(test::map(affine(h, out, out_bias), tanh_of), {1, 2, 3}));
  }
  expect_layer("RNN", "recurrent_param { num_output: 3 }", {x, goes_on}, {w, b, r, out, out_bias},
               test::concat(steps, 0));
}

// ---- the form of 2013 -------------------------------------------------------------------------

const char* const input = "input: \"x\" input_dim: 1 input_dim: 2 input_dim: 5 input_dim: 6\n";

std::string old_layer(const std::string& name, const std::string& type, const std::string& bottom,
                      const std::string& top, const std::string& parameters = "") {
  return "layers { layer { name: \"" + name + "\" type: \"" + type + "\" " + parameters + " } bottom: \"" + bottom +
         "\" top: \"" + top + "\" }\n";
}

TEST_F(CaffeGeneral, LayersOf2013) {
  const Array x = random({1, 2, 5, 6}, 1), w = random({4, 1, 3, 3}, 2), b = random({4}, 3), fc = random({3, 36}, 4);
  const std::string net =
      input + old_layer("pad", "padding", "x", "xp", "pad: 1") +
      old_layer("c", "conv", "xp", "c",
                "num_output: 4 kernelsize: 3 group: 2 blobs_lr: 1 blobs_lr: 2 weight_filler { type: \"xavier\" }") +
      old_layer("r", "relu", "c", "c") + old_layer("p", "pool", "c", "p", "pool: AVE kernelsize: 2 stride: 2") +
      old_layer("n", "lrn", "p", "n", "local_size: 3 alpha: 2 beta: 0.5") +
      old_layer("d", "dropout", "n", "n", "dropout_ratio: 0.5") +
      old_layer("f", "innerproduct", "n", "f", "num_output: 3 biasterm: false") + old_layer("s", "softmax", "f", "s");
  caffe::schema::NetWeights weights;
  for (const auto& [name, blobs] : test::CaffeWeights{{"c", {w, b}}, {"f", {fc}}}) {
    caffe::schema::V0LayerWeights* layer = weights.add_layers()->mutable_layer();
    layer->set_name(name);
    for (const Array& array : blobs) test::fill(array, layer->add_blobs());
  }
  test::Window padded, halves;
  for (const size_t d : {0, 1}) padded.kernel[d] = 3, padded.begin[d] = padded.end[d] = 1;
  for (const size_t d : {0, 1}) halves.kernel[d] = halves.stride[d] = 2;
  halves.ceil = true;
  const Array c = test::map(test::conv(x, w, b.data, padded, 2), [](float v) { return std::max(v, 0.0f); });
  const Array n = test::lrn(test::average_pool(c, halves, true), 3, 2, 0.5f, 1);
  const Array flat = test::reshape(n, {1, 36});
  const std::string model = folder_.write("old.caffemodel", weights.SerializeAsString());
  const Graph graph = import_caffe(folder_.write("old.prototxt", net), model);
  expect_near(test::run(graph, {x}).at(0), test::softmax(test::matmul(flat, test::transpose(fc, {1, 0})), 1));
}

TEST_F(CaffeGeneral, LayersOf2013AreRefused) {
  const std::string padding = input + old_layer("pad", "padding", "x", "xp", "pad: 1");
  expect_in(refusal(input + old_layer("a", "wild", "x", "y")),
            "layer 'a': unknown type 'wild' for a layer in the format of 2013");
  expect_in(refusal(padding + old_layer("r", "relu", "xp", "y")), "layer 'r' cannot read the padded blob 'xp'");
  expect_in(refusal(padding + old_layer("p", "pool", "xp", "y", "kernelsize: 2 pad: 1")), "layer 'p' cannot read");
  expect_in(refusal(input + std::string("layers { layer { name: \"q\" type: \"padding\" } bottom: \"x\" }")),
            "layer 'q' does not pad one blob");
  expect_in(refusal(input + old_layer("i", "im2col", "x", "y")), "Im2col (1 node: i)");
}

}  // namespace caffe_general_test
}  // namespace quern
