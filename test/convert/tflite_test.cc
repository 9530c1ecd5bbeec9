// Every operator that the TensorFlow Lite importer knows, against plain computations; and what it refuses. Quantized
// models have scales that are powers of two, so that plain computations with floats are exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "convert/convert.h"
#include "convert/tflite/node.h"
#include "graph/pass/passes.h"
#include "tflite_model.h"

namespace quern {
namespace {

namespace schema = tflite::schema;
using schema::Activation;
using schema::Padding;
using test::Array;
using test::combine;
using test::Dims;
using test::error_of;
using test::expect_near;
using test::map;
using test::random;
using test::TfliteModel;
using Builder = TfliteModel::Builder;
using Options = TfliteModel::Options;
using Type = TfliteModel::Type;

class Tflite : public testing::Test {
 protected:
  Graph import(const std::string& bytes, const std::vector<std::string>& outputs = {}) {
    return import_tflite(folder_.write("net.tflite", bytes), {outputs});
  }
  Graph import(const TfliteModel& model) { return import(model.bytes()); }
  // What is wrong, without the file's name.
  std::string refusal(const std::string& bytes) {
    const std::string message = error_of([&] { import(bytes); }), path = folder_.path("net.tflite") + ": ";
    EXPECT_EQ(message.find(path), 0u) << message;
    return message.substr(std::min(path.size(), message.size()));
  }
  std::string refusal(const TfliteModel& model) { return refusal(model.bytes()); }

  // As imported and after the optimiser.
  void expect(const TfliteModel& model, const std::vector<Array>& inputs, const std::vector<Array>& want,
              float tolerance = 1e-5f) {
    test::expect_outputs(import(model), inputs, want, tolerance);
  }

  test::Folder folder_;
};

// ---- one operator of floats -------------------------------------------------------------------

// An input of an operator: a tensor that the model is given, or a constant of floats or of integers.
struct In {
  In(Array x) : array(std::move(x)) {}  // NOLINT(google-explicit-constructor): the table is easier to read
  In(std::vector<int32_t> list) : integers(std::move(list)), kind(Kind::integers) {}  // NOLINT
  In(int32_t number) : integers{number}, kind(Kind::integer) {}                       // NOLINT
  static In constant(Array x) {
    In in(std::move(x));
    in.kind = Kind::constant;
    return in;
  }

  Array array;
  std::vector<int32_t> integers;
  enum class Kind { computed, constant, integers, integer } kind = Kind::computed;
};

struct Case {
  int32_t code;  // the number of the operator
  std::vector<In> inputs;
  std::vector<Array> want;
  Options options = {};
};

TfliteModel model_of(const Case& c) {
  TfliteModel model;
  std::vector<int32_t> inputs, outputs;
  for (const In& in : c.inputs) {
    switch (in.kind) {
      case In::Kind::computed: inputs.push_back(model.input(in.array.dims)); break;
      case In::Kind::constant: inputs.push_back(model.floats(in.array)); break;
      case In::Kind::integers: inputs.push_back(model.integers(in.integers)); break;
      case In::Kind::integer: inputs.push_back(model.integer(in.integers[0])); break;
    }
  }
  for (const Array& array : c.want) {
    outputs.push_back(model.computed(array.dims));
    model.output(outputs.back());
  }
  model.node(c.code, inputs, outputs, c.options);
  return model;
}

Array nhwc(const Array& nchw) { return test::transpose(nchw, {0, 2, 3, 1}); }
Array nchw(const Array& nhwc) { return test::transpose(nhwc, {0, 3, 1, 2}); }
Array scalar(float value) { return {{}, {value}}; }
Array relu6(const Array& x) {
  return map(x, [](float v) { return std::clamp(v, 0.f, 6.f); });
}
Array positive(const Dims& dims) {
  return map(random(dims, 1), [](float v) { return 1.5f + v; });
}

const auto plus = std::plus<float>();
const auto minus = std::minus<float>();
const auto times = std::multiplies<float>();
const auto over = std::divides<float>();

// What an activation does to numbers.
float activated(Activation activation, float v) {
  switch (activation) {
    case Activation::relu: return std::max(v, 0.f);
    case Activation::relu_n1_to_1: return std::clamp(v, -1.f, 1.f);
    case Activation::relu6: return std::clamp(v, 0.f, 6.f);
    case Activation::tanh: return std::tanh(v);
    default: return v;
  }
}

void add_functions(std::vector<Case>& cases) {
  const Array x = map(random({2, 3, 5}, 1), [](float v) { return 8 * v; }), small = random({2, 3, 5}, 2);
  const Array above = positive({2, 3, 5});
  const auto add = [&](int32_t code, const Array& in, float (*f)(float)) {
    cases.push_back({code, {in}, {map(in, f)}});
  };
  add(101, x, [](float v) { return std::fabs(v); });
  add(47, small, [](float v) { return std::exp(v); });
  add(117, x, [](float v) { return v * std::clamp(v + 3, 0.f, 6.f) / 6; });
  add(14, x, [](float v) { return 1 / (1 + std::exp(-v)); });
  add(59, x, [](float v) { return -v; });
  add(19, x, [](float v) { return std::max(v, 0.f); });
  add(21, x, [](float v) { return std::clamp(v, 0.f, 6.f); });
  add(20, x, [](float v) { return std::clamp(v, -1.f, 1.f); });
  add(152, x, [](float v) { return std::clamp(v, 0.f, 1.f); });
  add(75, above, [](float v) { return std::sqrt(v); });
  add(76, above, [](float v) { return 1 / std::sqrt(v); });
  add(92, x, [](float v) { return v * v; });
  add(28, x, [](float v) { return std::tanh(v); });
  cases.push_back({98, {x}, {map(x, [](float v) { return v < 0 ? 0.1f * v : v; })}, Options([](Builder& b) {
                     return schema::CreateLeakyReluOptions(b, 0.1f);
                   })});
  cases.push_back({78, {above, In::constant(scalar(2.5f))}, {map(above, [](float v) { return std::pow(v, 2.5f); })}});
  for (const bool below : {false, true}) {  // MAXIMUM, MINIMUM; the constant on either side
    const auto f = [&](float a, float b) { return below ? std::max(a, b) : std::min(a, b); };
    const Array limit = scalar(0.5f), want = combine(x, limit, f);
    cases.push_back({below ? 55 : 57, {x, In::constant(limit)}, {want}});
    cases.push_back({below ? 55 : 57, {In::constant(limit), x}, {want}});
  }
  const Array slope = random({5}, 3);
  const Array negative = combine(map(x, [](float v) { return std::min(v, 0.f); }), slope, times);
  const Array rest = map(x, [](float v) { return std::max(v, 0.f); });
  cases.push_back({54, {x, In::constant(slope)}, {combine(rest, negative, plus)}});
  for (const float beta : {1.f, 0.5f}) {
    cases.push_back({25, {x}, {test::softmax(map(x, [=](float v) { return beta * v; }), 2)}, Options([=](Builder& b) {
                       return schema::CreateSoftmaxOptions(b, beta);
                     })});
  }
  const Array image = random({1, 9, 4, 3}, 4);
  cases.push_back({13, {nhwc(image)}, {nhwc(test::lrn(image, 5, 5 * 0.1f, 0.75f, 2))}, Options([](Builder& b) {
                     return schema::CreateLocalResponseNormalizationOptions(b, 2, 2, 0.1f, 0.75f);
                   })});
}

template <class Make>
Options with_activation(Make make, Activation activation) {
  return Options([=](Builder& b) { return make(b, activation); });
}

void add_arithmetic(std::vector<Case>& cases) {
  const Array a = map(random({2, 4, 3}, 1), [](float v) { return 8 * v; }), b = positive({4, 3});
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::relu_n1_to_1, Activation::relu6, Activation::tanh}) {
    const auto add = [&](int32_t code, const std::function<float(float, float)>& f, auto make) {
      const Array want = map(combine(a, b, f), [&](float v) { return activated(activation, v); });
      cases.push_back({code, {a, b}, {want}, with_activation(make, activation)});
      cases.push_back({code, {a, In::constant(b)}, {want}, with_activation(make, activation)});
    };
    add(0, plus, schema::CreateAddOptions);
    add(41, minus, schema::CreateSubOptions);
    add(18, times, schema::CreateMulOptions);
    add(42, over, schema::CreateDivOptions);
  }
  cases.push_back({99, {a, b}, {map(combine(a, b, minus), [](float v) { return v * v; })}});
  cases.push_back({106, {a}, {a}});
  cases.push_back({106, {a, a, a}, {map(a, [](float v) { return 3 * v; })}});
}

// SAME padding of one direction: the odd pixel comes last.
void pad_same(test::Window& w, size_t d, size_t size) {
  const size_t out = (size + w.stride[d] - 1) / w.stride[d];
  const size_t span = (out - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1;
  const size_t total = span > size ? span - size : 0;
  w.begin[d] = total / 2, w.end[d] = total - total / 2;
}

void add_windows(std::vector<Case>& cases) {
  const Array x = random({2, 6, 11, 8}, 1), filter = random({4, 6, 3, 2}, 2), bias = random({4}, 3);
  const Array depthwise = random({12, 1, 3, 3}, 4), depth_bias = random({12}, 5);
  const auto in_order = [](const Array& w, const std::vector<size_t>& order) {
    return In::constant(test::transpose(w, order));
  };
  for (const Padding padding : {Padding::same, Padding::valid}) {
    for (const Activation activation : {Activation::none, Activation::relu6}) {
      test::Window w;
      w.stride[0] = 2, w.stride[1] = 1, w.dilation[1] = 2;
      w.kernel[0] = 3, w.kernel[1] = 2;
      if (padding == Padding::same) pad_same(w, 0, 11), pad_same(w, 1, 8);
      const Array y =
          nhwc(map(test::conv(x, filter, bias.data, w, 1), [&](float v) { return activated(activation, v); }));
      cases.push_back({3, {nhwc(x), in_order(filter, {0, 2, 3, 1}), In::constant(bias)}, {y}, Options([=](Builder& b) {
                         return schema::CreateConv2DOptions(b, padding, 1, 2, activation, 2, 1);
                       })});
      test::Window d;
      d.stride[0] = d.stride[1] = 2, d.kernel[0] = d.kernel[1] = 3;
      if (padding == Padding::same) pad_same(d, 0, 11), pad_same(d, 1, 8);
      const Array z = nhwc(map(test::conv(x, depthwise, depth_bias.data, d, 6),  //
                               [&](float v) { return activated(activation, v); }));
      cases.push_back(
          {4, {nhwc(x), in_order(depthwise, {1, 2, 3, 0}), In::constant(depth_bias)}, {z}, Options([=](Builder& b) {
             return schema::CreateDepthwiseConv2DOptions(b, padding, 2, 2, 2, activation);
           })});
      const auto pooling = [=](Builder& b) { return schema::CreatePool2DOptions(b, padding, 2, 2, 3, 3, activation); };
      const auto act = [&](const Array& p) { return nhwc(map(p, [&](float v) { return activated(activation, v); })); };
      cases.push_back({1, {nhwc(x)}, {act(test::average_pool(x, d, false))}, Options(pooling)});
      cases.push_back({17, {nhwc(x)}, {act(test::max_pool(x, d))}, Options(pooling)});
    }
  }
  // Without a bias; and two groups.
  const Array grouped = random({4, 3, 3, 2}, 6);
  const auto plain = [](Builder& b) { return schema::CreateConv2DOptions(b, Padding::valid, 1, 1); };
  cases.push_back({3, {nhwc(x), in_order(filter, {0, 2, 3, 1})}, {nhwc(test::conv(x, filter, {}, {}, 1))}, plain});
  cases.push_back({3, {nhwc(x), in_order(grouped, {0, 2, 3, 1})}, {nhwc(test::conv(x, grouped, {}, {}, 2))}, plain});
}

Array mean_of_image(const Array& x, bool largest) {  // N, C, H, W -> N, C, 1, 1
  test::Window w;
  w.kernel[0] = x.dims[2], w.kernel[1] = x.dims[3];
  return largest ? test::max_pool(x, w) : test::average_pool(x, w, false);
}

void add_products_and_reductions(std::vector<Case>& cases) {
  const Array x = random({2, 3, 8}, 1), w = random({5, 8}, 2), bias = random({5}, 3);
  const Array rows = test::reshape(x, {6, 8}), sums = test::matmul(rows, test::transpose(w, {1, 0}));
  const Array y = relu6(combine(sums, bias, plus));
  for (const bool keep : {false, true}) {
    cases.push_back(
        {9,
         {x, In::constant(w), In::constant(bias)},
         {keep ? test::reshape(y, {2, 3, 5}) : y},
         Options([=](Builder& b) { return schema::CreateFullyConnectedOptions(b, Activation::relu6, 0, keep); })});
  }
  const auto plain = [](Builder& b) { return schema::CreateFullyConnectedOptions(b); };
  cases.push_back({9, {rows, In::constant(w)}, {sums}, Options(plain)});
  cases.push_back({9, {test::reshape(x, {2, 2, 12}), In::constant(w)}, {sums}, Options(plain)});
  const Array image = random({2, 3, 4, 5}, 4);
  for (const bool keep : {false, true}) {
    const auto options = Options([=](Builder& b) { return schema::CreateReducerOptions(b, keep); });
    for (const bool largest : {false, true}) {
      const Array reduced = mean_of_image(image, largest);
      const int32_t code = largest ? 82 : 40;
      cases.push_back({code,
                       {nhwc(image), std::vector<int32_t>{1, 2}},
                       {keep ? nhwc(reduced) : test::reshape(reduced, {2, 3})},
                       options});
      cases.push_back(
          {code, {image, std::vector<int32_t>{-1, -2}}, {keep ? reduced : test::reshape(reduced, {2, 3})}, options});
    }
  }
}

// ---- resizing: of each coordinate of the output, the one of the input

double source(size_t at, size_t in, size_t out, bool align, bool half) {
  const auto i = static_cast<double>(in), o = static_cast<double>(out), x = static_cast<double>(at);
  if (align && out > 1) return x * (i - 1) / (o - 1);
  return half ? (x + 0.5) * i / o - 0.5 : x * i / o;
}

Array resized(const Array& x, size_t height, size_t width, bool align, bool half, bool linear) {  // N, H, W, C
  return test::generate({x.dims[0], height, width, x.dims[3]}, [&](const Dims& o) {
    const auto pixel = [&](double r, double c) {
      const auto edge = [](double v, size_t n) { return static_cast<size_t>(std::clamp<double>(v, 0, double(n - 1))); };
      return x.at({o[0], edge(r, x.dims[1]), edge(c, x.dims[2]), o[3]});
    };
    double r = source(o[1], x.dims[1], height, align, half), c = source(o[2], x.dims[2], width, align, half);
    if (!linear) {
      const auto nearest = [&](double v, size_t at, size_t in, size_t out) {
        // Nearest neighbours of half-pixel centers are those at the center itself, without the half that linear has.
        if (half)
          return std::floor((static_cast<double>(at) + 0.5) * static_cast<double>(in) / static_cast<double>(out));
        return align ? std::floor(v + 0.5) : std::floor(v);
      };
      return pixel(nearest(r, o[1], x.dims[1], height), nearest(c, o[2], x.dims[2], width));
    }
    r = std::clamp<double>(r, 0, double(x.dims[1] - 1)), c = std::clamp<double>(c, 0, double(x.dims[2] - 1));
    const double dr = r - std::floor(r), dc = c - std::floor(c);
    return static_cast<float>((1 - dr) * ((1 - dc) * pixel(r, c) + dc * pixel(r, c + 1)) +
                              dr * ((1 - dc) * pixel(r + 1, c) + dc * pixel(r + 1, c + 1)));
  });
}

void add_resizing(std::vector<Case>& cases) {
  const Array x = random({2, 4, 5, 3}, 1);
  for (const auto& [aligned, halves] : {std::pair{false, false}, {true, false}, {false, true}}) {
    const bool align = aligned, half = halves;
    for (const auto& [height, width] : {std::pair{7, 10}, {3, 2}, {8, 15}, {1, 5}}) {
      const std::vector<int32_t> size = {height, width};
      const auto want = [&](bool linear) {
        return resized(x, static_cast<size_t>(size[0]), static_cast<size_t>(size[1]), align, half, linear);
      };
      cases.push_back({23, {x, size}, {want(true)}, Options([=](Builder& b) {
                         return schema::CreateResizeBilinearOptions(b, 0, 0, align, half);
                       })});
      cases.push_back({97, {x, size}, {want(false)}, Options([=](Builder& b) {
                         return schema::CreateResizeNearestNeighborOptions(b, align, half);
                       })});
    }
  }
}

// ---- elements that move

void add_shapes(std::vector<Case>& cases) {
  using List = std::vector<int32_t>;
  const Array x = random({2, 3, 4, 5}, 1);
  const auto new_shape = [](List shape) {
    return Options([=](Builder& b) { return schema::CreateReshapeOptionsDirect(b, &shape); });
  };
  cases.push_back({22, {x, List{2, -1}}, {test::reshape(x, {2, 60})}});
  cases.push_back({22, {x}, {test::reshape(x, {6, 20})}, new_shape({6, 20})});
  cases.push_back({70, {x, -2}, {test::reshape(x, {2, 3, 4, 1, 5})}});
  cases.push_back({70, {x, 0}, {test::reshape(x, {1, 2, 3, 4, 5})}});
  const Array ones = random({1, 3, 1, 5}, 2);
  const auto dims = [](List list) {
    return Options([=](Builder& b) { return schema::CreateSqueezeOptionsDirect(b, &list); });
  };
  cases.push_back({43, {ones}, {test::reshape(ones, {3, 5})}, dims({})});
  cases.push_back({43, {ones}, {test::reshape(ones, {1, 3, 5})}, dims({-2})});
  cases.push_back({39, {x, List{2, 0, 3, 1}}, {test::transpose(x, {2, 0, 3, 1})}});
  cases.push_back({65, {x, List{0, 1, 2, 0}, List{-1, 2, -1, 4}}, {test::slice(x, {0, 1, 2, 0}, {2, 3, 4, 4})}});
  cases.push_back({65, {x, List{0, 0, 0, 0}, List{2, -1, 4, 5}}, {x}});
  const auto pack = [](int count, int axis) {
    return Options([=](Builder& b) { return schema::CreatePackOptions(b, count, axis); });
  };
  const auto unpack = [](int count, int axis) {
    return Options([=](Builder& b) { return schema::CreateUnpackOptions(b, count, axis); });
  };
  const Array a = random({2, 3}, 3), c = random({2, 3}, 4);
  cases.push_back(
      {83, {a, c}, {test::concat({test::reshape(a, {2, 1, 3}), test::reshape(c, {2, 1, 3})}, 1)}, pack(2, 1)});
  cases.push_back(
      {83, {a, c}, {test::concat({test::reshape(a, {2, 3, 1}), test::reshape(c, {2, 3, 1})}, 2)}, pack(2, -1)});
  cases.push_back(
      {88,
       {a},
       {test::reshape(test::slice(a, {0, 0}, {1, 3}), {3}), test::reshape(test::slice(a, {1, 0}, {2, 3}), {3})},
       unpack(2, 0)});
  const auto split = [](int count) {
    return Options([=](Builder& b) { return schema::CreateSplitOptions(b, count); });
  };
  cases.push_back(
      {49, {2, x}, {test::slice(x, {0, 0, 0, 0}, {2, 3, 2, 5}), test::slice(x, {0, 0, 2, 0}, {2, 3, 4, 5})}, split(2)});
  cases.push_back({102,
                   {x, List{1, -1}, -1},
                   {test::slice(x, {0, 0, 0, 0}, {2, 3, 4, 1}), test::slice(x, {0, 0, 0, 1}, {2, 3, 4, 5})}});
  const auto along = [](int axis, int batch = 0) {
    return Options([=](Builder& b) { return schema::CreateGatherOptions(b, axis, batch); });
  };
  cases.push_back(
      {36,
       {x, List{2, 0}},
       {test::concat({test::slice(x, {0, 2, 0, 0}, {2, 3, 4, 5}), test::slice(x, {0, 0, 0, 0}, {2, 1, 4, 5})}, 1)},
       along(1)});
  cases.push_back({2, {a, In::constant(c), a}, {relu6(test::concat({a, c, a}, 1))}, Options([](Builder& b) {
                     return schema::CreateConcatenationOptions(b, -1, Activation::relu6);
                   })});
  const List pads = {0, 0, 1, 2, 0, 1, 3, 0};
  cases.push_back({34, {x, pads}, {test::pad(x, {0, 1, 0, 3}, {0, 2, 1, 0}, 0)}});
  cases.push_back({34, {x, List(8, 0)}, {x}});
  cases.push_back({60, {x, pads, In::constant(scalar(-2))}, {test::pad(x, {0, 1, 0, 3}, {0, 2, 1, 0}, -2)}});
}

// begin, end, strides and masks: begin, end, shrink.
void add_strided_slices(std::vector<Case>& cases) {
  using List = std::vector<int32_t>;
  const Array x = random({2, 3, 4}, 1);
  const auto masks = [](int begin, int end, int shrink) {
    return Options([=](Builder& b) { return schema::CreateStridedSliceOptions(b, begin, end, 0, 0, shrink); });
  };
  const auto add = [&](const List& begin, const List& end, const List& steps, const Options& options,
                       const Array& want) {
    cases.push_back({45, {x, begin, end, steps}, {want}, options});
  };
  add({0, 1, -3}, {2, 3, -1}, {1, 1, 1}, masks(0, 0, 0), test::slice(x, {0, 1, 1}, {2, 3, 3}));
  add({1, 1, 1}, {1, 1, 1}, {1, 1, 1}, masks(5, 7, 0), test::slice(x, {0, 1, 0}, {2, 3, 4}));
  add({0, -1}, {1, 0}, {1, 1}, masks(0, 0, 2), test::reshape(test::slice(x, {0, 2, 0}, {1, 3, 4}), {1, 4}));
  add({1}, {2}, {1}, masks(1, 0, 1), test::reshape(test::slice(x, {0, 0, 0}, {1, 3, 4}), {3, 4}));
  add({0, 0, 0}, {0, 0, 0}, {1, 1, 1}, masks(7, 7, 0), x);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> list;
    add_functions(list);
    add_arithmetic(list);
    add_windows(list);
    add_products_and_reductions(list);
    add_resizing(list);
    add_shapes(list);
    add_strided_slices(list);
    return list;
  }();
  return all;
}

bool is_known(int32_t code) {
  const char* name = tflite::operator_name(code);
  return name != nullptr && (tflite::find_layer(name) != nullptr || tflite::find_shape(name) != nullptr);
}

TEST_F(Tflite, OperatorsOfFloats) {
  size_t index = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE("case " + std::to_string(index++) + ", " + tflite::operator_name(c.code));
    std::vector<Array> inputs;
    for (const In& in : c.inputs) {
      if (in.kind == In::Kind::computed) inputs.push_back(in.array);
    }
    expect(model_of(c), inputs, c.want);
  }
}

// The rest has tests of its own: DENSIFY, DEQUANTIZE, QUANTIZE, and SHAPE, REDUCE_PROD and RANGE, whose results are integers.
TEST_F(Tflite, EveryOperatorHasACase) {
  std::set<int32_t> seen = {6, 77, 81, 96, 114, 124};
  for (const Case& c : cases()) seen.insert(c.code);
  size_t known = 0;
  for (int32_t code = 0; tflite::operator_name(code) != nullptr; ++code) {
    known += is_known(code);
    EXPECT_EQ(is_known(code), seen.count(code) > 0) << tflite::operator_name(code);
  }
  EXPECT_EQ(known, seen.size());
}

// ---- integers that are known at import

TEST_F(Tflite, ShapesAreComputedAtImport) {
  const auto pack = [](Builder& b) { return schema::CreatePackOptions(b, 2, 0); };
  const auto shrink = [](Builder& b) { return schema::CreateStridedSliceOptions(b, 0, 0, 0, 0, 1); };
  TfliteModel model;
  const int x = model.input({2, 3, 4}), shape = model.computed({3}, Type::int32),
            rows = model.computed({}, Type::int32);
  const int to = model.computed({2}, Type::int32), y = model.computed({2, 12});
  model.node(77, {x}, {shape});
  model.node(45, {shape, model.integers({0}), model.integers({1}), model.integers({1})}, {rows}, shrink);
  model.node(83, {rows, model.integer(-1)}, {to}, pack);
  model.output(model.node(22, {x, to}, {y}));
  const Array image = random({2, 3, 4}, 1);
  expect(model, {image}, {test::reshape(image, {2, 12})});
  const Array more = random({5, 3, 4}, 1);  // the session resizes
  expect_near(test::run(import(model), {more}).at(0), test::reshape(more, {5, 12}));

  TfliteModel gather;
  const int in = gather.input({4, 2}), indices = gather.computed({2}, Type::int32), out = gather.computed({2, 2});
  gather.node(96, {gather.integer(0), gather.integer(4), gather.integer(2)}, {indices});
  gather.output(gather.node(36, {in, indices}, {out}, [](Builder& b) { return schema::CreateGatherOptions(b, 0); }));
  const Array table = random({4, 2}, 2);
  expect(gather, {table}, {test::concat({test::slice(table, {0, 0}, {1, 2}), test::slice(table, {2, 0}, {3, 2})}, 0)});
}

TEST_F(Tflite, OpenBatch) {
  TfliteModel model;
  const int x = model.input({1, 4});
  model.tensors[0].signature = {-1, 4};
  model.output(model.node(19, {x}, {model.computed({1, 4})}));
  const Graph graph = import(model);
  EXPECT_EQ(graph.inputs[0].open, 1);
  const Array many = random({7, 4}, 1);
  expect_near(test::run(graph, {many}).at(0), map(many, [](float v) { return std::max(v, 0.f); }));
  model.tensors[0].signature = {1, -1};
  const Array longer = random({1, 9}, 2);
  expect_near(test::run(import(model), {longer}).at(0), map(longer, [](float v) { return std::max(v, 0.f); }));
}

// ---- numbers of fewer bits --------------------------------------------------------------------

TEST_F(Tflite, WeightsOfHalfPrecision) {
  TfliteModel model;
  const Array x = random({3, 8}, 1), w = map(random({5, 8}, 2), [](float v) { return std::round(v * 64) / 64; });
  const int in = model.input(x.dims), half = model.halves(w), real = model.computed(w.dims), y = model.computed({3, 5});
  model.node(6, {half}, {real});
  model.output(model.node(9, {in, real}, {y}, [](Builder& b) { return schema::CreateFullyConnectedOptions(b); }));
  expect(model, {x}, {test::matmul(x, test::transpose(w, {1, 0}))});
}

// Weights of bytes beside activations of floats, with one scale or one for each output.
TEST_F(Tflite, WeightsOfBytesBesideFloats) {
  for (const bool per_channel : {false, true}) {
    std::vector<int32_t> steps;
    for (int i = 0; i < 40; ++i) steps.push_back(i * 37 % 255 - 127);
    std::vector<float> scales(per_channel ? 5 : 1);
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.01f * static_cast<float>(i + 1);
    size_t at = 0;
    const Array w = test::generate(
        {5, 8}, [&](const Dims& i) { return static_cast<float>(steps[at++]) * scales[per_channel ? i[0] : 0]; });
    TfliteModel model;
    const Array x = random({3, 8}, 1), bias = random({5}, 2);
    const int in = model.input(x.dims), y = model.computed({3, 5});
    const int weights =
        model.scaled(model.steps(Type::int8, {5, 8}, steps), scales, std::vector<int64_t>(scales.size(), 0), 0);
    model.output(model.node(9, {in, weights, model.floats(bias)}, {y},
                            [](Builder& b) { return schema::CreateFullyConnectedOptions(b, Activation::relu); }));
    const Array sums = combine(test::matmul(x, test::transpose(w, {1, 0})), bias, plus);
    expect(model, {x}, {map(sums, [](float v) { return std::max(v, 0.f); })});
  }
}

// How bytes stand for real numbers.
struct Steps {
  float scale;
  int zero;
};

class QuantizedTflite : public Tflite, public testing::WithParamInterface<bool> {  // are the bytes unsigned?
 protected:
  Type type() const { return GetParam() ? Type::uint8 : Type::int8; }
  int low() const { return GetParam() ? 0 : -128; }
  int zero(const Steps& s) const { return s.zero + low() + 128; }

  int scaled(TfliteModel& model, int tensor, const Steps& s) const {
    return model.scaled(tensor, {s.scale}, {zero(s)});
  }
  int input(TfliteModel& model, const Dims& dims, const Steps& s) const {
    return scaled(model, model.input(dims, type()), s);
  }
  int computed(TfliteModel& model, const Dims& dims, const Steps& s) const {
    return scaled(model, model.computed(dims, type()), s);
  }
  // Bytes as the model is given them, and as numbers.
  Array bytes(const Dims& dims, uint32_t seed) const {
    return map(random(dims, seed), [&](float v) { return std::floor((v + 1) * 128) + static_cast<float>(low()); });
  }
  Array real(const Array& bytes, const Steps& s) const {
    return map(bytes, [&](float v) { return (v - static_cast<float>(zero(s))) * s.scale; });
  }
  Array quantized(const Array& x, const Steps& s) const {
    return map(x, [&](float v) {
      const float step = std::nearbyint(v / s.scale) + static_cast<float>(zero(s));
      return std::clamp(step, static_cast<float>(low()), static_cast<float>(low() + 255));
    });
  }
  // Weights: of uint8 with a zero point, or of int8 with a scale for each index of an axis. `values` receives what they
  // stand for, `scales` their scales.
  int weights(TfliteModel& model, const Dims& dims, size_t axis, Array* values, std::vector<float>* scales) const {
    const size_t channels = GetParam() ? 1 : dims[axis];
    const int offset = GetParam() ? 120 : 0;
    std::vector<int32_t> steps(test::count(dims));
    for (size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<int32_t>(i * 37 % 240) - (GetParam() ? 0 : 120);
    scales->clear();
    for (size_t i = 0; i < channels; ++i) scales->push_back(std::ldexp(1.f, -6 - static_cast<int>(i % 2)));
    size_t at = 0;
    *values = test::generate(dims, [&](const Dims& i) {
      return static_cast<float>(steps[at++] - offset) * (*scales)[channels == 1 ? 0 : i[axis]];
    });
    return model.scaled(model.steps(type(), dims, steps), *scales, std::vector<int64_t>(channels, offset),
                        static_cast<int>(axis));
  }
  // A bias, whose scales are those of the sums.
  int bias(TfliteModel& model, size_t channels, float x_scale, const std::vector<float>& scales,
           std::vector<float>* values) const {
    std::vector<int32_t> steps;
    std::vector<float> products;
    values->clear();
    for (size_t c = 0; c < channels; ++c) {
      steps.push_back(static_cast<int32_t>(c * 31 % 200) - 100);
      products.push_back(x_scale * scales[scales.size() == 1 ? 0 : c]);
      values->push_back(static_cast<float>(steps[c]) * products[c]);
    }
    products.resize(scales.size());
    const size_t count = products.size();
    return model.scaled(model.steps(Type::int32, {channels}, steps), products, std::vector<int64_t>(count, 0), 0);
  }
  // Checks results and that the layers between bytes compute with bytes: without quantize and dequantize.
  void expect_bytes(const TfliteModel& model, const std::vector<Array>& inputs, const Array& want) {
    expect(model, inputs, {want}, 0);
    Graph graph = import(model);
    ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
    for (const Node& node : graph.nodes) {
      EXPECT_NE(node.kind, OpKind::quantize);
      EXPECT_NE(node.kind, OpKind::dequantize);
    }
  }

  const Steps x_ = {0.0625f, 3}, y_ = {0.25f, 7};
};

INSTANTIATE_TEST_SUITE_P(Signs, QuantizedTflite, testing::Bool(),
                         [](const auto& test) { return test.param ? "uint8" : "int8"; });

TEST_P(QuantizedTflite, Convolution) {
  for (const bool depthwise : {false, true}) {
    SCOPED_TRACE(depthwise);
    TfliteModel model;
    const Array x = bytes({1, 7, 6, 3}, 1);
    const int in = input(model, x.dims, x_);
    Array w;
    std::vector<float> scales, b;
    const int weights_ =
        depthwise ? weights(model, {1, 3, 3, 6}, 3, &w, &scales) : weights(model, {6, 3, 3, 3}, 0, &w, &scales);
    const int bias_ = bias(model, 6, x_.scale, scales, &b);
    test::Window window;
    window.stride[0] = window.stride[1] = 2, window.kernel[0] = window.kernel[1] = 3;
    pad_same(window, 0, 7), pad_same(window, 1, 6);
    const Array filter =
        test::transpose(w, depthwise ? std::vector<size_t>{3, 0, 1, 2} : std::vector<size_t>{0, 3, 1, 2});
    const Array sums = nhwc(test::conv(nchw(real(x, x_)), filter, b, window, depthwise ? 3 : 1));
    const int y = computed(model, sums.dims, y_);
    if (depthwise) {
      model.node(4, {in, weights_, bias_}, {y}, [](Builder& fb) {
        return schema::CreateDepthwiseConv2DOptions(fb, Padding::same, 2, 2, 2, Activation::relu6);
      });
    } else {
      model.node(3, {in, weights_, bias_}, {y},
                 [](Builder& fb) { return schema::CreateConv2DOptions(fb, Padding::same, 2, 2, Activation::relu6); });
    }
    model.output(y);
    expect_bytes(model, {x}, quantized(relu6(sums), y_));
  }
}

TEST_P(QuantizedTflite, FullyConnected) {
  TfliteModel model;
  const Array x = bytes({5, 9}, 1);
  const int in = input(model, x.dims, x_);
  Array w;
  std::vector<float> scales, b;
  const int weights_ = weights(model, {4, 9}, 0, &w, &scales), bias_ = bias(model, 4, x_.scale, scales, &b);
  const Array sums = combine(test::matmul(real(x, x_), test::transpose(w, {1, 0})), {{4}, b}, plus);
  const int y = computed(model, sums.dims, y_);
  model.output(
      model.node(9, {in, weights_, bias_}, {y}, [](Builder& fb) { return schema::CreateFullyConnectedOptions(fb); }));
  expect_bytes(model, {x}, quantized(sums, y_));
}

TEST_P(QuantizedTflite, ArithmeticAndConcatenation) {
  const Steps z_ = {0.125f, -20};
  const Array x = bytes({2, 3, 5}, 1), z = bytes({2, 3, 5}, 2), a = real(x, x_), b = real(z, z_);
  for (const int32_t code : {0, 18, 2}) {
    SCOPED_TRACE(code);
    TfliteModel model;
    const int in = input(model, x.dims, x_), second = input(model, z.dims, z_);
    const Array want = code == 0 ? combine(a, b, plus) : code == 18 ? combine(a, b, times) : test::concat({a, b}, 2);
    Options options = [](Builder& fb) { return schema::CreateAddOptions(fb); };
    if (code == 18) options = [](Builder& fb) { return schema::CreateMulOptions(fb); };
    if (code == 2) options = [](Builder& fb) { return schema::CreateConcatenationOptions(fb, 2); };
    model.output(model.node(code, {in, second}, {computed(model, want.dims, y_)}, options));
    expect_bytes(model, {x, z}, quantized(want, y_));
  }
}

// The bytes themselves are averaged, halves away from 0.
TEST_P(QuantizedTflite, AveragePool) {
  TfliteModel model;
  const Array x = bytes({1, 6, 8, 5}, 1);
  const int in = input(model, x.dims, x_);
  test::Window window;
  for (const size_t d : {0, 1}) window.kernel[d] = window.stride[d] = 2;
  const Array averages = nhwc(test::average_pool(nchw(x), window, false));
  model.output(model.node(1, {in}, {computed(model, averages.dims, x_)},
                          [](Builder& fb) { return schema::CreatePool2DOptions(fb, Padding::valid, 2, 2, 2, 2); }));
  Graph graph = import(model);
  ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
  expect_near(test::run(graph, {x}).at(0), map(averages, [](float v) { return std::round(v); }), 0);
}

// ONNX has no such rounding: there, halves are rounded to even.
TEST_P(QuantizedTflite, AveragePoolAsOnnx) {
  TfliteModel model;
  const Array x = bytes({1, 2, 64, 5}, 1), real_x = real(x, x_);
  const int in = model.node(114, {model.input(x.dims)}, {computed(model, x.dims, x_)});
  test::Window window;
  for (const size_t d : {0, 1}) window.kernel[d] = window.stride[d] = 2;
  const Array averages = nhwc(test::average_pool(nchw(real_x), window, false));
  const int mean = model.node(1, {in}, {computed(model, averages.dims, x_)},
                              [](Builder& fb) { return schema::CreatePool2DOptions(fb, Padding::valid, 2, 2, 2, 2); });
  model.output(model.node(6, {mean}, {model.computed(averages.dims)}));
  Graph graph = import(model);
  ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
  const std::string path = folder_.path("net.onnx");
  export_onnx(graph, path);
  Graph again = import_onnx(path);
  ASSERT_EQ(optimize(again), QN_OK) << qn_last_message();
  const Array to_even = real(quantized(averages, x_), x_), ours = test::run(graph, {real_x}).at(0);
  expect_near(test::run(again, {real_x}).at(0), ours, 0);
  EXPECT_NE(ours.data, to_even.data);  // as an average of ONNX would round
}

TEST_P(QuantizedTflite, MaxPoolPadAndReshape) {
  TfliteModel model;
  const Array x = bytes({1, 5, 7, 3}, 1);
  const int in = input(model, x.dims, x_);
  test::Window window;
  for (const size_t d : {0, 1}) window.kernel[d] = window.stride[d] = 2;
  const Array padded = test::pad(x, {0, 1, 0, 0}, {0, 0, 1, 0}, static_cast<float>(zero(x_)));
  const Array largest = nhwc(test::max_pool(nchw(padded), window));
  const int pad = model.node(34, {in, model.integers({0, 0, 1, 0, 0, 1, 0, 0})}, {computed(model, padded.dims, x_)});
  const int pool = model.node(17, {pad}, {computed(model, largest.dims, x_)},
                              [](Builder& fb) { return schema::CreatePool2DOptions(fb, Padding::valid, 2, 2, 2, 2); });
  model.output(model.node(22, {pool, model.integers({1, -1})}, {computed(model, {1, 36}, x_)}));
  expect(model, {x}, {test::reshape(largest, {1, 36})}, 0);
}

TEST_P(QuantizedTflite, QuantizeAndDequantize) {
  TfliteModel model;
  const Array x = map(random({2, 9}, 1), [](float v) { return 8 * v; });
  const int bytes_ = model.node(114, {model.input(x.dims)}, {computed(model, x.dims, x_)});
  const int other = model.node(114, {bytes_}, {computed(model, x.dims, y_)});
  model.output(other);
  model.output(model.node(6, {bytes_}, {model.computed(x.dims)}));
  const Array first = quantized(x, x_);
  expect(model, {x}, {quantized(real(first, x_), y_), real(first, x_)}, 0);
}

// ---- files --------------------------------------------------------------------------------------

TfliteModel small() {
  TfliteModel model;
  const int x = model.input({1, 4}, Type::float32, "x"), y = model.computed({1, 4}, Type::float32, "y");
  const int z = model.computed({1, 4}, Type::float32, "z");
  model.node(0, {x, model.floats({{4}, {1, 2, 3, 4}})}, {y}, [](Builder& b) { return schema::CreateAddOptions(b); });
  model.node(19, {y}, {z});
  model.output(z);
  return model;
}

TEST_F(Tflite, ElementsBehindTheTables) {
  TfliteModel model = small();
  model.outside = true;
  expect(model, {test::make({1, 4}, {-9, 0, 0, 9})}, {test::make({1, 4}, {0, 2, 3, 13})});
  const std::string whole = model.bytes();
  EXPECT_EQ(refusal(whole.substr(0, whole.size() - 4)), "a buffer ends behind the file");
}

TEST_F(Tflite, NamesAndChosenOutputs) {
  const TfliteModel model = small();
  const Graph graph = import(model);
  EXPECT_STREQ(graph.name.c_str(), "net");
  EXPECT_STREQ(graph.source.c_str(), "tflite");
  EXPECT_STREQ(graph.tensors[static_cast<size_t>(graph.inputs[0].tensor)].name.c_str(), "x");
  const Array x = test::make({1, 4}, {-9, 0, 0, 9});
  expect_near(test::run(import(model.bytes(), {"y"}), {x}).at(0), test::make({1, 4}, {-8, 2, 3, 13}));
  EXPECT_NE(error_of([&] { import(model.bytes(), {"w"}); }).find("the model has no tensor 'w'"), std::string::npos);
  EXPECT_EQ(import_model({folder_.write("other.tflite", model.bytes())}).outputs.size(), 1u);
}

// ---- variables

constexpr int call_once = 129, var_handle = 142, read_variable = 143, assign_variable = 144;

Options variable_named(const char* name) {
  return [name](Builder& b) { return schema::CreateVarHandleOptionsDirect(b, "", name); };
}

// y = x + v, which v becomes; z = v, as it is then. Another variable, w, is 5 and 6, and is only read. The tensors of the
// model are 0: x, 1: v's handle, 2: v, 3: y, 4: z, 5: w's handle, 6: w, 7: z + w, 8: zeros, 9: 5 and 6.
TfliteModel with_variables() {
  TfliteModel m;
  m.input({1, 2}, Type::float32, "x");
  m.computed({}, Type::resource);
  for (const char* name : {"v", "y", "z"}) m.computed({1, 2}, Type::float32, name);
  m.computed({}, Type::resource);
  for (const char* name : {"w", "sum"}) m.computed({1, 2}, Type::float32, name);
  m.floats(test::make({1, 2}, {0, 0}));
  m.floats(test::make({1, 2}, {5, 6}));
  const auto add = [](Builder& b) { return schema::CreateAddOptions(b); };
  m.node(var_handle, {}, {1}, variable_named("v"));
  m.node(var_handle, {}, {5}, variable_named("w"));
  m.once = m.operators;
  m.once.push_back({assign_variable, {1, 8}, {}});
  m.once.push_back({assign_variable, {5, 9}, {}});
  m.operators.push_back({call_once, {}, {}, [](Builder& b) { return schema::CreateCallOnceOptions(b, 1); }});
  m.node(read_variable, {1}, {2});
  m.node(0, {0, 2}, {3}, add);
  m.operators.push_back({assign_variable, {1, 3}, {}});
  m.node(read_variable, {1}, {4});
  m.node(read_variable, {5}, {6});
  m.node(0, {4, 6}, {7}, add);
  m.outputs = {3, 7};
  return m;
}

TEST_F(Tflite, VariablesBecomeStates) {
  Graph graph = import(with_variables());
  ASSERT_EQ(graph.states.size(), 1u);
  EXPECT_EQ(tensor_of(graph, graph.inputs[graph.states[0].input].tensor).name, "v");
  ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
  test::Runs runs(graph);
  for (float run = 1; run < 4; ++run) {
    const Array x = test::make({1, 2}, {1, 10});
    const std::vector<Array> got = runs.run({&x, nullptr});
    ASSERT_GE(got.size(), 2u);
    expect_near(got[0], test::make({1, 2}, {run, 10 * run}), 0);
    expect_near(got[1], test::make({1, 2}, {run + 5, 10 * run + 6}), 0);
  }
}

TEST_F(Tflite, VariablesThatAreRefused) {
  const auto refused = [&](auto&& spoil) {
    TfliteModel model = with_variables();
    spoil(model);
    return refusal(model);
  };
  EXPECT_EQ(refused([](TfliteModel& m) { m.once[2].inputs[1] = 9; }),
            "1 layer is not supported: v (variable: it is not zero at the beginning)");
  EXPECT_EQ(refused([](TfliteModel& m) { m.once[2].inputs[1] = 0; }),
            "1 layer is not supported: v (variable: its content at the beginning)");
  EXPECT_EQ(refused([](TfliteModel& m) { m.once.pop_back(); }),
            "1 layer is not supported: w (variable: nothing assigns it)");
  EXPECT_EQ(refused([](TfliteModel& m) { m.once[3].code = 0; }),
            "2 layers are not supported: operator 2 (CALL_ONCE: its graph computes: ADD), "
            "w (variable: nothing assigns it)");
  EXPECT_EQ(refused([](TfliteModel& m) { m.operators[3].inputs = {3}; }), "tensor 3 is no variable");
  EXPECT_EQ(refused([](TfliteModel& m) { m.operators[3].inputs = {}; }), "an operator on a variable lacks an operand");
  EXPECT_EQ(refused([](TfliteModel& m) { m.operators[5].inputs = {1, 77}; }), "there is no tensor 77");
  EXPECT_EQ(refused([](TfliteModel& m) { m.operators[0].options = {}; }), "a variable has no options");
  EXPECT_EQ(refused([](TfliteModel& m) { m.operators[2].options = {}; }), "CALL_ONCE names no graph");
  EXPECT_EQ(refused([](TfliteModel& m) { m.once.clear(); }), "CALL_ONCE names a graph that does not exist");
}

TEST_F(Tflite, UnsupportedOperatorsAreListedAtOnce) {
  TfliteModel model = small();
  const int a = model.computed({1, 4}, Type::float32, "a"), b = model.computed({1, 4}, Type::float32, "b"),
            c = model.computed({1, 4}, Type::float32, "c"), d = model.computed({1, 4}, Type::float32, "d"),
            e = model.computed({1, 4}, Type::float32, "e");
  model.node(27, {0}, {a});
  model.node(32, {0}, {b});
  model.operators.back().custom = "Mine";
  model.node(4000, {0}, {c});
  model.node(19, {a}, {d});  // not listed: what it reads is
  model.node(0, {0, 1}, {e}, [](Builder& to) { return schema::CreateAddOptions(to, Activation::sign_bit); });
  for (const int tensor : {b, c, d, e}) model.output(tensor);
  EXPECT_EQ(refusal(model),
            "4 layers are not supported: a (SVDF), b (custom Mine), c (operator code 4000), e (ADD: activation 5)");
  model.outputs = {2};
  EXPECT_EQ(import(model).nodes.size(), 2u) << "what no output needs is not imported";
  model.graphs = 2;
  EXPECT_EQ(refusal(model), "1 layer is not supported: model (several graphs)");
}

TEST_F(Tflite, DamagedModels) {
  const std::pair<const char*, void (*)(TfliteModel&)> faults[] = {
      {"schema version 2, not 3", [](auto& m) { m.version = 2; }},
      {"the model has no graph", [](auto& m) { m.graphs = 0; }},
      {"the model has no outputs", [](auto& m) { m.outputs = {}; }},
      {"there is no tensor 4", [](auto& m) { m.outputs = {4}; }},
      {"there is no tensor -1", [](auto& m) { m.inputs = {-1}; }},
      {"there is no tensor 99", [](auto& m) { m.operators[0].inputs[1] = 99; }},
      {"there is no tensor -2", [](auto& m) { m.operators[0].inputs[1] = -2; }},
      {"there is no tensor -1", [](auto& m) { m.operators[1].outputs[0] = -1; }},
      {"there is no buffer 77", [](auto& m) { m.tensors[3].buffer = 77; }},
      {"operator 'y' (ADD): input 1 is missing", [](auto& m) { m.operators[0].inputs[1] = -1; }},
      {"operator 'y' (ADD): has 1 inputs", [](auto& m) { m.operators[0].inputs.resize(1); }},
      {"operator 'y' (ADD): the options are missing, or another operator's",
       [](auto& m) { m.operators[0].options = {}; }},
      {"operator 'y' (ADD): the options are missing, or another operator's",
       [](auto& m) { m.operators[0].options = [](Builder& b) { return schema::CreateSubOptions(b); }; }},
      {"a buffer does not have its tensor's size", [](auto& m) { m.tensors[3].shape = {3}; }},
      {"a buffer does not have its tensor's size", [](auto& m) { m.tensors[3].type = Type::float16; }},
      {"a constant is larger than the file",
       [](auto& m) {
         m.tensors[3].shape = {1 << 20, 1 << 20};
       }},
      {"a dimension is negative", [](auto& m) { m.tensors[3].shape = {-4}; }},
      // A cycle; operators in another order.
      {"operator 'y' reads '2', which nothing before it writes", [](auto& m) { m.operators[0].inputs[0] = 2; }},
      {"operator 'z' reads '1', which nothing before it writes",
       [](auto& m) { std::swap(m.operators[0], m.operators[1]); }},
      {"tensor '2' is written twice", [](auto& m) { m.operators.push_back(m.operators[1]); }},
      {"nothing computes the tensor 'z'", [](auto& m) { m.operators.resize(1); }},
      {"1 layer is not supported: x (input: dimension 1 has no fixed size)",
       [](auto& m) {
         m.tensors[0].shape = {1, 0};
       }},
      {"1 layer is not supported: x (input: a tensor of rank 9)", [](auto& m) { m.tensors[0].shape.assign(9, 1); }},
      {"1 layer is not supported: x (input: type 8)", [](auto& m) { m.tensors[0].type = Type::complex64; }},
      {"1 layer is not supported: y (ADD: constants of type 17)", [](auto& m) { m.tensors[3].type = Type::int4; }},
      {"1 layer is not supported: z (RELU: a result of integers)", [](auto& m) { m.tensors[2].type = Type::int8; }},
      {"operator 'z' (RELU): a scale is not a positive number",
       [](auto& m) { m.tensors[2].type = Type::int8, m.scaled(2, {-1}, {0}); }},
      {"operator 'z' (RELU): a scale is not a positive number",
       [](auto& m) { m.tensors[2].type = Type::int8, m.scaled(2, {NAN}, {0}); }},
      {"operator 'z' (RELU): a zero point is out of range",
       [](auto& m) { m.tensors[2].type = Type::int8, m.scaled(2, {1}, {128}); }},
      {"operator 'z' (RELU): a zero point is out of range",
       [](auto& m) { m.tensors[2].type = Type::uint8, m.scaled(2, {1}, {-1}); }},
      {"operator 'z' (RELU): a zero point is out of range",
       [](auto& m) { m.tensors[2].type = Type::int8, m.tensors[2].misaligned = true, m.scaled(2, {1}, {128}); }},
      {"operator 'z' (RELU): there are not as many zero points as scales",
       [](auto& m) {
         m.tensors[2].type = Type::int8, m.scaled(2, {1}, {0, 0});
       }},
      {"1 layer is not supported: z (RELU: several scales of a computed tensor)",
       [](auto& m) {
         m.tensors[2].type = Type::int8, m.scaled(2, {1, 1}, {0, 0});
       }},
      {"1 layer is not supported: z (RELU: quantization of another form)",
       [](auto& m) { m.tensors[2].type = Type::int8, m.tensors[2].details = true; }},
      {"1 layer is not supported: y (ADD: activation 5)",
       [](auto& m) {
         m.operators[0].options = [](Builder& b) { return schema::CreateAddOptions(b, Activation::sign_bit); };
       }},
  };
  for (const auto& [message, spoil] : faults) {
    TfliteModel model = small();
    spoil(model);
    EXPECT_EQ(refusal(model), message);
  }
}

TEST_F(Tflite, TruncatedFiles) {
  const std::string whole = small().bytes();
  for (size_t size = 0; size < whole.size(); size += 8) {
    EXPECT_EQ(refusal(whole.substr(0, size)), "not a TensorFlow Lite model, or damaged") << size;
  }
  std::string other = whole;
  other[4] = 'X';
  EXPECT_EQ(refusal(other), "not a TensorFlow Lite model, or damaged");
}

// What operators themselves refuse.
TEST_F(Tflite, OperatorsOutOfRange) {
  const Array x = random({1, 4, 5, 3}, 1), w = random({2, 3, 3, 3}, 2), y = random({1, 2, 3, 2}, 3);
  using List = std::vector<int32_t>;
  const auto conv = [](int stride, Padding padding = Padding::valid) {
    return Options([=](Builder& b) { return schema::CreateConv2DOptions(b, padding, stride, stride); });
  };
  const std::pair<const char*, Case> refused[] = {
      {"operator 't2' (CONV_2D): stride_h is out of range", {3, {x, In::constant(w)}, {y}, conv(0)}},
      {"operator 't2' (CONV_2D): padding is neither SAME nor VALID",
       {3, {x, In::constant(w)}, {y}, conv(1, static_cast<Padding>(2))}},
      {"operator 't2' (CONV_2D): 3 channels and weights for 2 do not fit",
       {3, {x, In::constant(random({2, 3, 3, 2}, 2))}, {y}, conv(1)}},
      {"operator 't2' (CONV_2D): the weights do not have four dimensions",
       {3, {x, In::constant(random({2, 27}, 2))}, {y}, conv(1)}},
      {"operator 't3' (CONV_2D): the bias does not fit the weights",
       {3, {x, In::constant(w), In::constant(random({3}, 2))}, {y}, conv(1)}},
      {"1 layer is not supported: t2 (CONV_2D: weights that are not constant)", {3, {x, w}, {y}, conv(1)}},
      {"1 layer is not supported: t2 (CONV_2D: on a tensor of rank 2)",
       {3, {random({4, 5}, 1), In::constant(w)}, {y}, conv(1)}},
      {"1 layer is not supported: t2 (FULLY_CONNECTED: shuffled weights)",
       {9, {random({1, 4}, 1), In::constant(random({2, 4}, 2))}, {y}, Options([](Builder& b) {
          return schema::CreateFullyConnectedOptions(b, Activation::none, 1);
        })}},
      {"operator 't2' (FULLY_CONNECTED): the input does not fit the weights",
       {9, {random({1, 5}, 1), In::constant(random({2, 4}, 2))}, {y}, Options([](Builder& b) {
          return schema::CreateFullyConnectedOptions(b);
        })}},
      {"operator 't2' (RESIZE_BILINEAR): both align_corners and half_pixel_centers",
       {23, {x, List{2, 2}}, {y}, Options([](Builder& b) {
          return schema::CreateResizeBilinearOptions(b, 0, 0, true, true);
        })}},
      {"operator 't2' (RESIZE_BILINEAR): the size is not two positive numbers",
       {23, {x, List{2, 0}}, {y}, Options([](Builder& b) { return schema::CreateResizeBilinearOptions(b); })}},
      {"1 layer is not supported: t2 (GATHER: batch_dims with another axis)",
       {36, {x, List{0}}, {y}, Options([](Builder& b) { return schema::CreateGatherOptions(b, 2, 1); })}},
      {"operator 't2' (GATHER): axis 4 of a tensor of rank 4",
       {36, {x, List{0}}, {y}, Options([](Builder& b) { return schema::CreateGatherOptions(b, 4); })}},
      {"operator 't4' (STRIDED_SLICE): a stride is zero",
       {45, {x, List{0}, List{1}, List{0}}, {y}, Options([](Builder& b) {
          return schema::CreateStridedSliceOptions(b);
        })}},
      {"operator 't3' (SLICE): the part does not fit", {65, {x, List{0, 0, 0, 1}, List{1, 1, 1, 3}}, {y}}},
      {"operator 't2' (PAD): pads do not fit the input", {34, {x, List{0, 1}}, {y}}},
      {"operator 't2' (PAD): pads are out of range", {34, {x, List{0, -1, 0, 0, 0, 0, 0, 0}}, {y}}},
      {"operator 't2' (SPLIT): the dimension does not divide into equal parts",
       {49, {3, x}, {y}, Options([](Builder& b) { return schema::CreateSplitOptions(b, 2); })}},
      {"operator 't3' (SPLIT_V): the sizes do not fit the dimension", {102, {x, List{-1, 6}, 2}, {y}}},
      {"operator 't3' (SPLIT_V): the sizes do not fit the dimension", {102, {x, List{-1, -1}, 2}, {y}}},
      {"operator 't1' (RESHAPE): the shape is missing",
       {22, {x}, {y}, Options([](Builder& b) { return schema::CreateReshapeOptions(b); })}},
      {"operator 't1' (SOFTMAX): beta is not a finite number",
       {25, {x}, {y}, Options([](Builder& b) { return schema::CreateSoftmaxOptions(b, INFINITY); })}},
      {"operator 't1' (LOCAL_RESPONSE_NORMALIZATION): radius is out of range",
       {13, {x}, {y}, Options([](Builder& b) { return schema::CreateLocalResponseNormalizationOptions(b, 0); })}},
  };
  for (const auto& [message, c] : refused) EXPECT_EQ(refusal(model_of(c)), message);
}

// Bytes that move keep their scale; a file that gives them another is wrong for whoever reads them.
TEST_F(Tflite, BytesWithAnotherScale) {
  TfliteModel model;
  const int x = model.scaled(model.input({1, 4}, Type::int8), {0.5f}, {3});
  const int y = model.scaled(model.computed({4}, Type::int8), {0.25f}, {3});
  model.node(22, {x, model.integers({4})}, {y});
  model.node(6, {x}, {model.computed({1, 4})});
  model.output(3);
  model.output(model.node(6, {y}, {model.computed({4})}));
  EXPECT_EQ(refusal(model),
            "1 layer is not supported: t4 (DEQUANTIZE: an input whose elements have got another scale, or none, where "
            "they are computed)");
}

}  // namespace
}  // namespace quern
