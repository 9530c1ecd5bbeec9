// Operators of TensorFlow Lite that the importer makes nodes of libquern-extra's kinds of, on integers too; recurrent
// layers, detectors, and graphs that operators run. tflite_models.py beside this file compares more with the engine.
#include <flatbuffers/flexbuffers.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "graph/pass/passes.h"
#include "tflite_fixture.h"

namespace quern {
namespace tflite_general_test {

namespace schema = tflite::schema;
using test::Array;
using test::Dims;
using test::expect_near;
using test::make;
using test::random;
using test::sigmoid;
using test::TfliteModel;
using Builder = TfliteModel::Builder;
using Options = TfliteModel::Options;
using Type = TfliteModel::Type;

class TfliteGeneral : public test::Tflite {};

const auto adds = Options([](Builder& to) { return schema::CreateAddOptions(to); });

// A tensor that the model is given, or a constant.
struct In {
  Array array;
  Type type = Type::float32;
  bool constant = false;
};
In ints(const Dims& dims, const std::vector<float>& data) { return {make(dims, data), Type::int32}; }
In known(const std::vector<float>& data) { return {make({data.size()}, data), Type::int32, true}; }
In number(float value) { return {make({}, {value}), Type::int32, true}; }

struct Out {
  Array array;
  Type type = Type::float32;
};
struct Case {
  int32_t code;
  std::vector<In> inputs;
  std::vector<Out> outputs;
  Options options = {};
};

TfliteModel model_of(const Case& c) {
  TfliteModel model;
  std::vector<int32_t> inputs, outputs;
  for (const In& in : c.inputs) {
    const auto& [dims, data] = in.array;
    inputs.push_back(!in.constant               ? model.input(dims, in.type)
                     : in.type == Type::float32 ? model.floats(in.array)
                                                : model.steps(in.type, dims, {data.begin(), data.end()}));
  }
  for (const Out& out : c.outputs) {
    outputs.push_back(model.computed(out.array.dims, out.type));
    model.output(outputs.back());
  }
  model.node(c.code, inputs, outputs, c.options);
  return model;
}

std::vector<Case> arithmetic_cases() {
  const In a = ints({2, 3}, {7, -7, 5, -5, 9, 0}), b = ints({3}, {2, 3, -4});
  const Type i = Type::int32, t = Type::boolean;
  const auto keep = Options([](Builder& to) { return schema::CreateReducerOptions(to, true); });
  const In flags = {make({2, 2}, {1, 0, 1, 1}), t};
  return {
      {0, {a, b}, {{make({2, 3}, {9, -4, 1, -3, 12, -4}), i}}, Options([](Builder& to) {
         return schema::CreateAddOptions(to);
       })},
      {90, {a, b}, {{make({2, 3}, {3, -3, -2, -3, 3, 0}), i}}},  // FLOOR_DIV
      // The quotient is right where the dividend minus the remainder would overflow.
      {90, {ints({2}, {-2147483648.f, -7}), ints({2}, {3, 2})}, {{make({2}, {-715827883.f, -4}), i}}},
      {95, {a, b}, {{make({2, 3}, {1, 2, -3, 1, 0, 0}), i}}},                                           // FLOOR_MOD
      {55, {a, b}, {{make({2, 3}, {7, 3, 5, 2, 9, 0}), i}}},                                            // MAXIMUM
      {61, {a, b}, {{make({2, 3}, {1, 0, 1, 0, 1, 1}), t}}},                                            // GREATER
      {72, {a, b}, {{make({2, 3}, {1, 1, 1, 1, 1, 1}), t}}},                                            // NOT_EQUAL
      {84, {flags, flags}, {{make({2, 2}, {1, 0, 1, 1}), t}}},                                          // LOGICAL_OR
      {91, {flags, known({0})}, {{make({1, 2}, {1, 1}), t}}, keep},                                     // REDUCE_ANY
      {74, {a, known({1})}, {{make({2, 1}, {5, 4}), i}}, keep},                                         // SUM
      {79, {a, number(1)}, {{make({2}, {1, 0}), i}}},                                                   // ARG_MIN
      {123, {flags, In{make({2}, {1, 2})}, In{make({2, 1}, {8, 9})}}, {{make({2, 2}, {1, 8, 1, 2})}}},  // SELECT_V2
      {11,
       {In{make({1, 2}, {3, 4})}},
       {{make({1, 2}, {0.6f, 0.8f})}},  // L2_NORMALIZATION
       Options([](Builder& to) { return schema::CreateL2NormOptions(to); })},
      {11, {In{make({1, 2}, {3e-5f, 4e-5f})}}, {{make({1, 2}, {0.6f, 0.8f})}}, Options([](Builder& to) {
         return schema::CreateL2NormOptions(to);
       })},
      {53, {In{make({3}, {-1.5f, 2.5f, 0})}}, {{make({3}, {-1, 2, 0}), i}}},  // CAST
  };
}

constexpr float pi = std::numbers::pi_v<float>;

std::vector<Case> further_cases() {
  const Type i = Type::int32;
  const In m = {make({2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})};
  const float far = std::numeric_limits<float>::infinity();
  return {
      {156,  // ATAN2
       {In{make({9}, {1, 1, -1, -1, 0, -0.0f, 0, 2, far})}, In{make({9}, {1, -1, -1, 1, 0, -1, -0.0f, 0, far})}},
       {{make({9}, {pi / 4, 3 * pi / 4, -3 * pi / 4, -pi / 4, 0, -pi, pi, pi / 2, pi / 4})}}},
      {161, {ints({5}, {9, -9, 7, -1, 5}), ints({5}, {1, 1, 0, 40, -3})}, {{make({5}, {4, -5, 7, -1, 5}), i}}},
      {147,  // BUCKETIZE
       {In{make({2, 3}, {-1, 0, 1, 9.5f, 10, 11})}},
       {{make({2, 3}, {0, 1, 1, 1, 2, 2}), i}},
       Options([](Builder& to) {
         return schema::CreateBucketizeOptions(to, to.CreateVector<float>({0, 10}));
       })},
      {113, {In{make({1, 2}, {3, 4})}}, {{make({1, 2, 2}, {3, 0, 0, 4})}}},  // MATRIX_DIAG
      {115,                                                                  // MATRIX_SET_DIAG
       {m, In{make({2, 2}, {0, -1, -2, -3})}},
       {{make({2, 2, 3}, {0, 2, 3, 4, -1, 6, -2, 8, 9, 10, -3, 12})}}},
      {115, {In{make({3, 1}, {1, 2, 3})}, In{make({1}, {9})}}, {{make({3, 1}, {9, 2, 3})}}},
      {68,  // SPARSE_TO_DENSE
       {{make({2, 2}, {0, 1, 1, 0}), i, true}, known({2, 3}), In{make({2}, {5, 6})}, In{make({}, {-1})}},
       {{make({2, 3}, {-1, 5, -1, 6, -1, -1})}}},
      {68, {ints({2}, {3, 0}), known({4}), In{make({}, {5})}, In{make({}, {0})}}, {{make({4}, {5, 0, 0, 5})}}},
      {151,  // DYNAMIC_UPDATE_SLICE
       {m, In{make({2, 1, 2}, {-1, -2, -3, -4})}, ints({3}, {1, 1, 9})},
       {{make({2, 2, 3}, {1, 2, 3, 4, -1, -2, 7, 8, 9, 10, -3, -4})}}},
      {151,
       {m, In{make({1, 2, 3}, {0, 0, 0, 0, 0, 0})}, ints({3}, {-5, 0, 0})},
       {{make({2, 2, 3}, {0, 0, 0, 0, 0, 0, 7, 8, 9, 10, 11, 12})}}},
      {12,  // L2_POOL_2D
       {In{make({1, 2, 2, 1}, {3, 4, 0, 5})}},
       {{make({1, 1, 2, 1}, {std::sqrt(4.5f), std::sqrt(20.5f)})}},
       Options([](Builder& to) { return schema::CreatePool2DOptions(to, schema::Padding::same, 1, 2, 1, 2); })},
  };
}

std::vector<Case> moving_cases() {
  const In x = {make({2, 3}, {1, 2, 3, 4, 5, 6})}, n = ints({2, 3}, {1, 2, 3, 4, 5, 6});
  const Type i = Type::int32;
  const auto gather = [](int axis, int batch) {
    return Options([=](Builder& to) { return schema::CreateGatherOptions(to, axis, batch); });
  };
  const auto one_hot = Options([](Builder& to) { return schema::CreateOneHotOptions(to, -1); });
  const auto mirror =
      Options([](Builder& to) { return schema::CreateMirrorPadOptions(to, schema::MirrorPadMode::symmetric); });
  const In pads = {make({2, 2}, {0, 1, 2, 1}), i, true};
  return {
      {36, {x, ints({2, 1}, {2, 0})}, {{make({2, 1}, {3, 4})}}, gather(1, 1)},
      {107, {x, ints({2, 2}, {1, 2, 0, 1})}, {{make({2}, {6, 2})}}},  // GATHER_ND
      {122,
       {{make({3, 1}, {1, 3, 1}), i, true}, In{make({3, 2}, {1, 2, 3, 4, 5, 6})}, known({4, 2})},
       {{make({4, 2}, {0, 0, 6, 8, 0, 0, 3, 4})}}},                                                       // SCATTER_ND
      {48, {x, number(2)}, {{make({2, 2}, {3, 2, 6, 5})}, {make({2, 2}, {2, 1, 2, 1}), i}}},              // TOPK_V2
      {109, {{make({2, 2}, {0, 1, 1, 0}), Type::boolean}}, {{make({2, 2}, {0, 1, 1, 0}), Type::int64}}},  // WHERE
      {85,
       {ints({3}, {1, -1, 5}), number(2), {make({}, {9}), Type::float32, true}, {make({}, {4}), Type::float32, true}},
       {{make({3, 2}, {4, 9, 4, 4, 4, 4})}},
       one_hot},
      {85,  // whose depth is no number of the indices' type
       {{make({1}, {-100}), Type::int8},
        number(200),
        {make({}, {9}), Type::float32, true},
        {make({}, {4}), Type::float32, true}},
       {{make({1, 200}, std::vector<float>(200, 4))}},
       one_hot},
      {128,
       {x, number(1)},
       {{make({2, 3}, {1, 3, 6, 4, 9, 15})}},  // CUMSUM
       Options([](Builder& to) { return schema::CreateCumsumOptions(to); })},
      {105, {n, known({1})}, {{make({2, 3}, {3, 2, 1, 6, 5, 4}), i}}},                      // REVERSE_V2
      {69, {n, known({1, 2})}, {{make({2, 6}, {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}), i}}},  // TILE
      {100, {x, pads}, {{make({3, 6}, {2, 1, 1, 2, 3, 3, 5, 4, 4, 5, 6, 6, 5, 4, 4, 5, 6, 6})}}, mirror},
      {103, {ints({5}, {7, 3, 7, 1, 3})}, {{make({3}, {7, 3, 1}), i}, {make({5}, {0, 1, 0, 2, 1}), i}}},  // UNIQUE
      {45,
       {x, known({0, -1}), known({2, -9}), known({1, -2})},
       {{make({2, 2}, {3, 1, 6, 4})}},
       Options([](Builder& to) { return schema::CreateStridedSliceOptions(to); })},
      {38,
       {{make({1, 2, 2, 1}, {1, 2, 3, 4})}, known({2, 2}), {make({2, 2}, {0, 0, 0, 0}), i, true}},
       {{make({4, 1, 1, 1}, {1, 2, 3, 4})}}},  // SPACE_TO_BATCH_ND
      {126,
       {x, {make({2, 3}, {1, 0, 1, 0, 1, 0})}},
       {{make({2, 2}, {4, 2, 10, 5})}},  // BATCH_MATMUL
       Options([](Builder& to) { return schema::CreateBatchMatMulOptions(to, false, true); })},
  };
}

TEST_F(TfliteGeneral, Operators) {
  for (const std::vector<Case>& list : {arithmetic_cases(), further_cases(), moving_cases()}) {
    for (const Case& c : list) {
      SCOPED_TRACE("operator " + std::to_string(c.code));
      std::vector<Array> inputs, outputs;
      for (const In& in : c.inputs) {
        if (!in.constant) inputs.push_back(in.array);
      }
      for (const Out& out : c.outputs) outputs.push_back(out.array);
      expect(model_of(c), inputs, outputs);
    }
  }
}

// Outputs that an operator makes and the file does not have: an error, whichever is missing.
TEST_F(TfliteGeneral, OutputsThatAreMissing) {
  size_t tried = 0;
  for (Case c : moving_cases()) {
    if (c.outputs.size() < 2) continue;
    SCOPED_TRACE("operator " + std::to_string(c.code));
    c.outputs.pop_back();
    const std::string message = refusal(model_of(c));
    EXPECT_NE(message.find("output 1 is missing"), std::string::npos) << message;
    ++tried;
  }
  EXPECT_EQ(tried, 2);  // TOPK_V2, UNIQUE
}

TEST_F(TfliteGeneral, OtherRanks) {
  for (const std::vector<Case>& list : {arithmetic_cases(), further_cases(), moving_cases()}) {
    for (const Case& c : list) {
      SCOPED_TRACE("operator " + std::to_string(c.code));
      expect_imported_or_refused(model_of(c));
    }
  }
}

TEST_F(TfliteGeneral, TransposedConvolution) {
  // Every pixel adds the kernel, at twice its place; SAME takes away the last row and column.
  Case c = {67,
            {known({1, 4, 4, 1}),
             {make({1, 3, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), Type::float32, true},
             {make({1, 2, 2, 1}, {1, 0, 0, 10})}},
            {{make({1, 4, 4, 1}, {1, 2, 3, 0, 4, 5, 6, 0, 7, 8, 19, 20, 0, 0, 40, 50})}},
            Options([](Builder& to) { return schema::CreateTransposeConvOptions(to, schema::Padding::same, 2, 2); })};
  expect(model_of(c), {c.inputs[2].array}, {c.outputs[0].array});
}

// The shape of a scalar has no elements, and no buffer then.
TEST_F(TfliteGeneral, ConstantWithoutElements) {
  TfliteModel model;
  const int x = model.input({1}), shape = model.computed({0}, Type::int32);
  model.output(model.node(22, {x, shape}, {model.computed({})}));
  expect(model, {make({1}, {3})}, {make({}, {3})});
}

// Operators that compute with bytes as they are, whatever their scale.
TEST_F(TfliteGeneral, BytesThatAreNotNumbers) {
  for (const int code : {90, 95, 109, 113}) {  // FLOOR_DIV, FLOOR_MOD, WHERE, MATRIX_DIAG
    TfliteModel model;
    std::vector<int32_t> inputs;
    for (int i = 0; i < (code < 100 ? 2 : 1); ++i) {
      inputs.push_back(model.scaled(model.input({4}, Type::int8), {0.5f}, {3}));
    }
    const int y = code == 109 ? model.computed({4, 1}, Type::int64) : model.computed({4}, Type::int8);
    model.output(model.node(code, inputs, {y}));
    EXPECT_NE(refusal(model).find("of a quantized tensor"), std::string::npos) << code << refusal(model);
  }
}

// The transform of 1, 2, 3, 4 is 10, -2 + 2i, -2. Operators that do not know complex numbers do not see pairs of floats.
TEST_F(TfliteGeneral, Spectra) {
  TfliteModel model;
  const Type complex = Type::complex64;
  const int x = model.input({1, 4}), y = model.computed({1, 3}, complex), column = model.computed({3, 1}, complex);
  const int row = model.computed({3}, complex);
  model.node(131, {x, model.integers({1, 4})}, {y});  // RFFT2D
  model.node(22, {y, model.integers({3, 1})}, {column});
  model.node(43, {y}, {row},
             Options([](Builder& to) { return schema::CreateSqueezeOptions(to, to.CreateVector<int32_t>({-2})); }));
  model.output(model.node(135, {column}, {model.computed({3, 1})}));  // COMPLEX_ABS
  model.output(model.node(134, {y}, {model.computed({1, 3})}));       // REAL
  model.output(model.node(133, {row}, {model.computed({3})}));        // IMAG
  expect(model, {make({1, 4}, {1, 2, 3, 4})},
         {make({3, 1}, {10, std::sqrt(8.0f), 2}), make({1, 3}, {10, -2, -2}), make({3}, {0, 2, 0})});
  model.outputs = {y};
  EXPECT_NE(refusal(model).find("(complex numbers)"), std::string::npos) << refusal(model);
  model.outputs = {model.node(0, {y, y}, {model.computed({1, 3}, complex)}, adds)};
  EXPECT_NE(refusal(model).find("ADD: of complex numbers (1 node: "), std::string::npos) << refusal(model);
  model.outputs = {model.node(134, {x}, {model.computed({1, 4})})};
  EXPECT_NE(refusal(model).find("REAL: of real numbers (1 node: "), std::string::npos) << refusal(model);
}

// ---- recurrent layers -------------------------------------------------------------------------

// One unit, one input, two steps. Gates in the order of the file: input, forget, cell, output.
TEST_F(TfliteGeneral, Lstm) {
  const float w[] = {0.5f, -0.3f, 0.8f, 0.2f}, r[] = {0.1f, 0.4f, -0.6f, 0.7f}, b[] = {0.1f, 1, -0.2f, 0.3f};
  for (const float clip : {0.0f, 0.4f}) {
    for (const bool coupled : {false, true}) {
      SCOPED_TRACE(std::to_string(clip) + (coupled ? " coupled" : ""));
      TfliteModel model;
      std::vector<int32_t> inputs = {model.input({1, 2, 1})};
      for (const auto* list : {w, r}) {
        for (size_t g = 0; g < 4; ++g) inputs.push_back(coupled && g == 0 ? -1 : model.floats(make({1, 1}, {list[g]})));
      }
      inputs.insert(inputs.end(), 3, -1);
      for (size_t g = 0; g < 4; ++g) inputs.push_back(coupled && g == 0 ? -1 : model.floats(make({1}, {b[g]})));
      inputs.insert(inputs.end(), 2, -1);
      for (size_t state = 0; state < 2; ++state) {
        inputs.push_back(model.computed({1, 1}));
        model.tensors.back().variable = true;
      }
      const int y = model.computed({1, 2, 1});
      model.output(model.node(44, inputs, {y}, [=](Builder& to) {
        return schema::CreateUnidirectionalSequenceLSTMOptions(to, schema::Activation::tanh, clip);
      }));
      float h = 0, c = 0;
      std::vector<float> want;
      for (const float x : {1.5f, -2.0f}) {
        const auto gate = [&](size_t g) { return w[g] * x + r[g] * h + b[g]; };
        const float f = sigmoid(gate(1)), i = coupled ? 1 - f : sigmoid(gate(0));
        c = f * c + i * std::tanh(gate(2));
        if (clip > 0) c = std::min(std::max(c, -clip), clip);
        h = sigmoid(gate(3)) * std::tanh(c);
        want.push_back(h);
      }
      expect(model, {make({1, 2, 1}, {1.5f, -2})}, {make({1, 2, 1}, want)});
      model.operators[0].inputs[16] = model.floats(make({1, 1}, {1}));
      EXPECT_NE(refusal(model).find("UNIDIRECTIONAL_SEQUENCE_LSTM: a projection (1 node: "), std::string::npos);
    }
  }
}

// Two filters of three steps make one unit. What the filters made in the last steps is a state of the model.
TEST_F(TfliteGeneral, Svdf) {
  TfliteModel model;
  const int x = model.input({1, 2}), state = model.computed({1, 6}, Type::float32, "state");
  model.tensors[static_cast<size_t>(state)].variable = true;
  model.output(model.node(27,
                          {x, model.floats(make({2, 2}, {1, 2, -1, 1})),
                           model.floats(make({2, 3}, {1, 10, 100, 2, 3, 4})), model.floats(make({1}, {0.5f})), state},
                          {model.computed({1, 1})}, [](Builder& to) { return schema::CreateSVDFOptions(to, 2); }));
  // The filters make 1 + 2 * 3 = 7 and -1 + 3 = 2 of the input.
  const std::vector<float> before = {1, 2, 3, 4, 5, 6}, after = {2, 3, 7, 5, 6, 2};
  const float y = 2 + 30 + 700 + 10 + 18 + 8 + 0.5f;
  expect(model, {make({1, 2}, {1, 3}), make({1, 6}, before)}, {make({1, 1}, {y}), make({1, 6}, after)});
  const Graph graph = import(model);
  ASSERT_EQ(graph.states.size(), 1u);
  model.inputs.push_back(state);
  EXPECT_NE(refusal(model), "") << "a state that is an input, too";
  model.inputs.pop_back();
  model.operators[0].inputs[4] = model.input({1, 6});
  EXPECT_NE(refusal(model).find("SVDF: a state that is not the model's (1 node: "), std::string::npos)
      << refusal(model);
}

// Weights that the model is given may have any size; a bias that is missing takes as much memory.
TEST_F(TfliteGeneral, RecurrentLayerOfAnySize) {
  TfliteModel model;
  const size_t units = std::numeric_limits<int32_t>::max();
  const int x = model.input({1, 2, 1}), w = model.input({units, 1}), r = model.input({units, 1});
  model.output(model.node(35, {x, w, r, -1, model.input({1, units})}, {model.computed({1, 2, units})},
                          [](Builder& to) { return schema::CreateSequenceRNNOptions(to); }));
  EXPECT_NE(refusal(model).find("far beyond the size of the file"), std::string::npos) << refusal(model);
}

// ---- detectors --------------------------------------------------------------------------------

std::string detector_options(bool by_class, int classes_of_each = 1) {
  flexbuffers::Builder to;
  to.Map([&] {
    to.Int("max_detections", 3);
    to.Int("max_classes_per_detection", classes_of_each);
    to.Int("detections_per_class", 2);
    to.Bool("use_regular_nms", by_class);
    to.Float("nms_score_threshold", 0.2f);
    to.Float("nms_iou_threshold", 0.5f);
    to.Int("num_classes", 2);
    for (const char* scale : {"y_scale", "x_scale", "h_scale", "w_scale"}) to.Float(scale, 1);
  });
  to.Finish();
  return {to.GetBuffer().begin(), to.GetBuffer().end()};
}

// Three anchors, of which the first two lie on each other; scores of the background and two classes.
TEST_F(TfliteGeneral, DetectionPostProcess) {
  const std::vector<float> anchors = {0.5f, 0.5f, 1, 1, 0.5f, 0.5f, 1, 1, 2, 2, 1, 1};
  const Array offsets = make({1, 3, 4}, {0, 0, 0, 0, 0.1f, 0, 0, 0, 0, 0, 0, 0});
  const Array scores = make({1, 3, 3}, {0, 0.9f, 0.1f, 0, 0.3f, 0.8f, 0, 0.1f, 0.7f});
  for (const bool by_class : {false, true}) {
    TfliteModel model;
    const int a = model.input({1, 3, 4}), b = model.input({1, 3, 3}), c = model.floats(make({3, 4}, anchors));
    const std::vector<int32_t> outputs = {model.computed({1, 3, 4}), model.computed({1, 3}), model.computed({1, 3}),
                                          model.computed({1})};
    model.node(32, {a, b, c}, outputs);
    model.operators[0].custom = "TFLite_Detection_PostProcess";
    model.operators[0].custom_options = detector_options(by_class);
    for (const int output : outputs) model.output(output);
    std::vector<Array> want = {make({1, 3, 4}, {0, 0, 1, 1, 1.5f, 1.5f, 2.5f, 2.5f, 0, 0, 0, 0}),
                               make({1, 3}, {0, 1, 0}), make({1, 3}, {0.9f, 0.7f, 0}), make({1}, {2})};
    if (by_class) {
      want = {make({1, 3, 4}, {0, 0, 1, 1, 0.1f, 0, 1.1f, 1, 1.5f, 1.5f, 2.5f, 2.5f}), make({1, 3}, {0, 1, 1}),
              make({1, 3}, {0.9f, 0.8f, 0.7f}), make({1}, {3})};
    }
    expect(model, {offsets, scores}, want);
    model.operators[0].custom_options = detector_options(by_class, 3);
    if (!by_class) {  // the engine leaves places for the third class of each box
      EXPECT_NE(refusal(model).find("more classes of each box than there are"), std::string::npos) << refusal(model);
    }
    model.operators[0].custom_options.resize(5);
    EXPECT_NE(refusal(model).find("the options are missing or damaged"), std::string::npos);
  }
}

// ---- MediaPipe's operators --------------------------------------------------------------------

// Options as the struct of integers that the operators have in their files.
std::string struct_of(const std::vector<int32_t>& integers) {
  return {reinterpret_cast<const char*>(integers.data()), integers.size() * sizeof(int32_t)};
}

// Two pixels spread over five by a kernel of three and a stride of two.
TfliteModel transposed_with_bias(const std::string& options) {
  TfliteModel model;
  const int x = model.input({1, 1, 2, 1}), w = model.floats(make({1, 1, 3, 1}, {1, 2, 3})),
            b = model.floats(make({1}, {10}));
  model.output(model.node(32, {x, w, b}, {model.computed({1, 1, 5, 1})}));
  model.operators[0].custom = "Convolution2DTransposeBias";
  model.operators[0].custom_options = options;
  return model;
}

TEST_F(TfliteGeneral, TransposedConvolutionWithABias) {
  expect(transposed_with_bias(struct_of({2, 2, 1})), {make({1, 1, 2, 1}, {1, 10})},
         {make({1, 1, 5, 1}, {11, 12, 23, 30, 40})});
}

TEST_F(TfliteGeneral, DamagedOptionsOfMediaPipe) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"expected 12 bytes of options or more, got 0", ""},
      {"expected 12 bytes of options or more, got 8", struct_of({2, 2})},
      {"expected padding 1 (SAME) or 2 (VALID), got 0", struct_of({0, 2, 1})},
      {"expected stride_w of 1..65536, got -1", struct_of({1, -1, 1})},
      {"expected stride_h of 1..65536, got 0", struct_of({1, 1, 0})},
      {"expected stride_w of 1..65536, got 2147483647", struct_of({2, std::numeric_limits<int32_t>::max(), 1})},
  };
  for (const auto& [message, options] : cases) {
    const std::string refused = refusal(transposed_with_bias(options));
    EXPECT_NE(refused.find("(custom Convolution2DTransposeBias): " + message), std::string::npos) << refused;
  }
}

// ---- graphs that operators run ----------------------------------------------------------------

// A graph of the model whose tensors are given by their shapes and types.
TfliteModel::Graph graph_of(std::vector<TfliteModel::Tensor> tensors, std::vector<TfliteModel::Operator> operators,
                            std::vector<int32_t> inputs, std::vector<int32_t> outputs) {
  return {std::move(tensors), std::move(operators), std::move(inputs), std::move(outputs)};
}

// y = x + x, `count` times.
TfliteModel doubling() {
  TfliteModel model;
  const int x = model.input({2}), count = model.input({}, Type::int32), zero = model.integer(0);
  const int y = model.computed({2}), n = model.computed({}, Type::int32), limit = model.computed({}, Type::int32);
  model.output(model.node(119, {x, zero, count}, {y, n, limit},
                          [](Builder& to) { return schema::CreateWhileOptions(to, 1, 2); }));
  const TfliteModel::Tensor floats = {"x", {2}}, whole = {"n", {}, Type::int32}, flag = {"b", {}, Type::boolean};
  TfliteModel::Tensor one = {"one", {}, Type::int32};
  one.constant = std::string("\1\0\0\0", 4);
  model.called.push_back(graph_of({floats, whole, whole, flag}, {{58, {1, 2}, {3}}}, {0, 1, 2}, {3}));
  model.called.push_back(graph_of({floats, whole, whole, floats, whole, one},
                                  {{0, {0, 0}, {3}, adds}, {0, {1, 5}, {4}, adds}}, {0, 1, 2}, {3, 4, 2}));
  return model;
}

TEST_F(TfliteGeneral, While) {
  for (const float count : {0.f, 1.f, 5.f}) {
    const float factor = std::pow(2.f, count);
    expect(doubling(), {make({2}, {3, -1}), make({}, {count})}, {make({2}, {3 * factor, -factor})});
  }
  TfliteModel model = doubling();
  model.called[1].outputs.pop_back();
  EXPECT_NE(refusal(model).find("the body has another number of outputs"), std::string::npos);
  model.called.pop_back();
  EXPECT_NE(refusal(model).find("graph 2 is out of range: the file has 2"), std::string::npos);
  TfliteModel endless = doubling();  // a graph that runs itself
  TfliteModel::Graph& body = endless.called[1];
  body.tensors.push_back({"more", {}, Type::int32});
  body.operators = {{119, {0, 1, 2}, {3, 4, 6}, [](Builder& to) { return schema::CreateWhileOptions(to, 1, 2); }}};
  EXPECT_NE(refusal(endless).find("more than six graphs within each other"), std::string::npos) << refusal(endless);
}

// Each round replaces a row by its double, as lists of recurrent layers do: what is before it, it, what is behind it.
// The file knows that the loop keeps the shape, so the mean over the last dimension finds it.
TEST_F(TfliteGeneral, WhileThatReplacesRows) {
  TfliteModel model;
  const int x = model.input({3, 2}), zero = model.integer(0), limit = model.input({}, Type::int32);
  const int y = model.computed({3, 2}), n = model.computed({}, Type::int32), end = model.computed({}, Type::int32);
  model.node(119, {x, zero, limit}, {y, n, end}, [](Builder& to) { return schema::CreateWhileOptions(to, 1, 2); });
  model.output(model.node(57, {y, y}, {model.computed({3, 2})}));
  model.output(model.node(40, {y, model.integer(-1)}, {model.computed({3})},
                          [](Builder& to) { return schema::CreateReducerOptions(to, false); }));
  const TfliteModel::Tensor whole = {"x", {3, 2}}, rows = {"rows", {1, 1}, Type::float32, {}, {}, {}, 0, {-1, -1}},
                            row = {"row", {1, 2}}, count = {"n", {}, Type::int32}, flag = {"b", {}, Type::boolean},
                            place = {"place", {2}, Type::int32}, part = {"part", {1}, Type::int32};
  const auto known = [](const Dims& dims, const std::vector<int32_t>& values) {
    TfliteModel::Tensor tensor = {"known", {}, Type::int32};
    tensor.shape.assign(dims.begin(), dims.end());
    tensor.constant.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t));
    return tensor;
  };
  const auto join = Options([](Builder& to) { return schema::CreateConcatenationOptions(to, 0); });
  const auto reshape = Options([](Builder& to) { return schema::CreateReshapeOptions(to); });
  model.called.push_back(graph_of({whole, count, count, flag}, {{58, {1, 2}, {3}}}, {0, 1, 2}, {3}));
  model.called.push_back(
      graph_of({whole,
                count,
                count,
                count,
                part,
                part,
                place,
                place,
                rows,
                rows,
                rows,
                row,
                whole,
                known({}, {1}),
                known({1}, {1}),
                known({1}, {-1}),
                known({1}, {0}),
                known({2}, {0, 0}),
                known({2}, {-1, -1}),
                known({2}, {1, 2})},
               {{0, {1, 13}, {3}, adds},
                {22, {1, 14}, {4}, reshape},
                {22, {3, 14}, {5}, reshape},
                {2, {4, 15}, {6}, join},  // n, -1
                {2, {5, 16}, {7}, join},  // n + 1, 0
                {65, {0, 17, 6}, {8}},    // the rows before
                {65, {0, 7, 18}, {9}},    // the rows behind
                {36, {0, 4}, {11}, [](Builder& to) { return schema::CreateGatherOptions(to, 0, 0); }},
                {0, {11, 11}, {10}, adds},
                {2, {8, 10, 9}, {12}, join}},
               {0, 1, 2}, {12, 3, 2}));
  const std::vector<float> from = {1, 2, 3, 4, 5, 6};
  for (size_t rounds = 0; rounds <= 3; ++rounds) {
    std::vector<float> want = from, means;
    for (size_t i = 0; i < 2 * rounds; ++i) want[i] *= 2;
    for (size_t i = 0; i < 3; ++i) means.push_back((want[2 * i] + want[2 * i + 1]) / 2);
    expect(model, {make({3, 2}, from), make({}, {static_cast<float>(rounds)})}, {make({3, 2}, want), make({3}, means)});
  }
}

// A tensor is twice as long after each round.
TEST_F(TfliteGeneral, WhileThatGrows) {
  TfliteModel model = doubling();
  model.called[1].operators[0] = {
      2, {0, 0}, {3}, [](Builder& to) { return schema::CreateConcatenationOptions(to, 0, schema::Activation::none); }};
  model.called[1].tensors[3].shape = {4};
  expect(model, {make({2}, {3, -1}), make({}, {0})}, {make({2}, {3, -1})});
  expect(model, {make({2}, {3, -1}), make({}, {2})}, {make({8}, {3, -1, 3, -1, 3, -1, 3, -1})});
}

TEST_F(TfliteGeneral, If) {
  TfliteModel model;
  const int flag = model.input({}, Type::boolean), x = model.input({2});
  model.output(
      model.node(118, {flag, x}, {model.computed({2})}, [](Builder& to) { return schema::CreateIfOptions(to, 1, 2); }));
  const TfliteModel::Tensor floats = {"x", {2}};
  model.called.push_back(graph_of({floats, floats}, {{0, {0, 0}, {1}, adds}}, {0}, {1}));
  model.called.push_back(graph_of({floats, floats}, {{59, {0}, {1}}}, {0}, {1}));
  expect(model, {make({}, {1}), make({2}, {3, -1})}, {make({2}, {6, -2})});
  expect(model, {make({}, {0}), make({2}, {3, -1})}, {make({2}, {-3, 1})});
}

// All tensors and operators of a graph are looked at wherever it runs, needed or not.
TEST_F(TfliteGeneral, LargeGraphsThatRunOften) {
  const auto choosing = [](size_t count) {
    TfliteModel model;
    const int flag = model.input({}, Type::boolean);
    int y = model.input({2});
    for (size_t i = 0; i < count; ++i) {
      y = model.node(118, {flag, y}, {model.computed({2})},
                     [](Builder& to) { return schema::CreateIfOptions(to, 1, 1); });
    }
    model.output(y);
    const TfliteModel::Tensor floats = {"x", {2}};
    model.called.push_back(graph_of(std::vector(10000, floats), {{59, {0}, {1}}}, {0}, {1}));
    return model;
  };
  expect(choosing(4), {make({}, {1}), make({2}, {3, -1})}, {make({2}, {3, -1})});
  EXPECT_NE(refusal(choosing(100)).find("graphs run too often"), std::string::npos) << refusal(choosing(100));
  TfliteModel model = choosing(100);
  model.called[0].tensors.resize(2);
  model.called[0].operators.resize(10000, {59, {}, {}});
  EXPECT_NE(refusal(model).find("graphs run too often"), std::string::npos) << refusal(model);
}

}  // namespace tflite_general_test
}  // namespace quern
