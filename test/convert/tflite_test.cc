// Every operator that the TensorFlow Lite importer knows, on floats, against plain computations.
#include <algorithm>
#include <cmath>
#include <set>

#include "convert/tflite/node.h"
#include "tflite_fixture.h"

namespace quern::test {
namespace tflite_test {

namespace schema = tflite::schema;
using schema::Activation;
using schema::Padding;
using Builder = TfliteModel::Builder;
using Case = test::TfliteCase;
using In = test::TfliteOperand;
using Options = TfliteModel::Options;
using Type = TfliteModel::Type;

Array scalar(float value) { return {{}, {value}}; }

Array positive(const Dims& dims) {
  return map(random(dims, 1), [](float v) { return 1.5f + v; });
}

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

TEST_F(Tflite, OtherRanks) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(tflite::operator_name(c.code));
    expect_imported_or_refused(model_of(c));
  }
}

// The rest has tests of its own: L2_POOL_2D, DEQUANTIZE, QUANTIZE, and SHAPE, REDUCE_PROD and RANGE, whose results are
// integers.
TEST_F(Tflite, EveryOperatorHasACase) {
  std::set<int32_t> seen = {6, 12, 77, 81, 96, 114};
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

}  // namespace tflite_test
}  // namespace quern::test
