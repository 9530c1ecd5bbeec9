// How a file of TensorFlow Lite is read: its names, variables and constants; and what is refused.
#include <cmath>

#include "graph/pass/passes.h"
#include "tflite_fixture.h"

namespace quern::test {
namespace tflite_files_test {

namespace schema = tflite::schema;
using schema::Activation;
using schema::Padding;
using Builder = TfliteModel::Builder;
using Case = test::TfliteCase;
using In = test::TfliteOperand;
using Options = TfliteModel::Options;
using Type = TfliteModel::Type;

// A sum and a relu.
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

// z is what the run before got as x. The variable begins with `first`, which stands for 0 if it is the zero point, -7.
TfliteModel with_bytes(int32_t first) {
  TfliteModel m;
  m.scaled(m.input({1, 2}, Type::int8, "x"), {0.5f}, {-7});
  m.computed({}, Type::resource);
  m.scaled(m.computed({1, 2}, Type::int8, "v"), {0.5f}, {-7});
  m.computed({1, 2}, Type::float32, "z");
  m.scaled(m.steps(Type::int8, {1, 2}, {first, first}), {0.5f}, {-7});
  m.node(var_handle, {}, {1}, variable_named("v"));
  m.once = m.operators;
  m.once.push_back({assign_variable, {1, 4}, {}});
  m.operators.push_back({call_once, {}, {}, [](Builder& b) { return schema::CreateCallOnceOptions(b, 1); }});
  m.node(read_variable, {1}, {2});
  m.node(6, {2}, {3});  // DEQUANTIZE
  m.operators.push_back({assign_variable, {1, 0}, {}});
  m.outputs = {3};
  return m;
}

TEST_F(Tflite, VariablesOfBytesBeginWithTheirZeroPoint) {
  Graph graph = import(with_bytes(-7));
  ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
  test::Runs runs(graph);
  const Array x = test::make({1, 2}, {-5, 3});
  expect_near(runs.run({&x, nullptr})[0], test::make({1, 2}, {0, 0}), 0);
  expect_near(runs.run({&x, nullptr})[0], test::make({1, 2}, {1, 5}), 0);
  EXPECT_EQ(refusal(with_bytes(0)), "not supported: variable 'v' (it is not zero at the beginning)");
}

TEST_F(Tflite, VariablesThatAreRefused) {
  const auto refused = [&](auto&& spoil) {
    TfliteModel model = with_variables();
    spoil(model);
    return refusal(model);
  };
  EXPECT_EQ(refused([](TfliteModel& m) { m.once[2].inputs[1] = 9; }),
            "not supported: variable 'v' (it is not zero at the beginning)");
  EXPECT_EQ(refused([](TfliteModel& m) { m.once[2].inputs[1] = 0; }),
            "not supported: variable 'v' (its content at the beginning)");
  EXPECT_EQ(refused([](TfliteModel& m) { m.once.pop_back(); }), "not supported: variable 'w' (nothing assigns it)");
  EXPECT_EQ(refused([](TfliteModel& m) { m.once[3].code = 0; }),
            "1 operator is not supported: CALL_ONCE: its graph computes: ADD (1 node: operator 2), "
            "variable 'w' (nothing assigns it)");
  EXPECT_EQ(refused([](TfliteModel& m) { m.operators[3].inputs = {3}; }), "expected a variable, got tensor 3");
  EXPECT_EQ(refused([](TfliteModel& m) { m.operators[3].inputs = {}; }), "an operator on a variable lacks an operand");
  EXPECT_EQ(refused([](TfliteModel& m) {
              m.operators[5].inputs = {1, 77};
            }),
            "tensor 77 is out of range: the file has 10");
  EXPECT_EQ(refused([](TfliteModel& m) { m.operators[0].options = {}; }), "a variable has no options");
  EXPECT_EQ(refused([](TfliteModel& m) { m.operators[2].options = {}; }), "CALL_ONCE names no graph");
  EXPECT_EQ(refused([](TfliteModel& m) { m.once.clear(); }), "CALL_ONCE names a graph that does not exist");
}

TEST_F(Tflite, UnsupportedOperatorsAreListedAtOnce) {
  TfliteModel model = small();
  const int a = model.computed({1, 4}, Type::float32, "a"), b = model.computed({1, 4}, Type::float32, "b"),
            c = model.computed({1, 4}, Type::float32, "c"), d = model.computed({1, 4}, Type::float32, "d"),
            e = model.computed({1, 4}, Type::float32, "e");
  model.node(15, {0}, {a});
  model.node(32, {0}, {b});
  model.operators.back().custom = "Mine";
  model.node(4000, {0}, {c});
  model.node(19, {a}, {d});  // not listed: what it reads is
  model.node(0, {0, 1}, {e}, [](Builder& to) { return schema::CreateAddOptions(to, Activation::sign_bit); });
  for (const int tensor : {b, c, d, e}) model.output(tensor);
  EXPECT_EQ(refusal(model),
            "4 operators are not supported: LSH_PROJECTION (1 node: a), custom Mine (1 node: b), operator code 4000 (1 "
            "node: c), ADD: activation 5 (1 node: e)");
  model.outputs = {2};
  EXPECT_EQ(import(model).nodes.size(), 2u) << "what no output needs is not imported";
  model.graphs = 2;
  EXPECT_EQ(refusal(model), "not supported: the model (several graphs)");
}

TEST_F(Tflite, DamagedModels) {
  const std::pair<const char*, void (*)(TfliteModel&)> faults[] = {
      {"schema version 2, not 3", [](auto& m) { m.version = 2; }},
      {"the model has no graph", [](auto& m) { m.graphs = 0; }},
      {"the model has no outputs", [](auto& m) { m.outputs = {}; }},
      {"tensor 4 is out of range: the file has 4", [](auto& m) { m.outputs = {4}; }},
      {"tensor -1 is out of range: the file has 4", [](auto& m) { m.inputs = {-1}; }},
      {"tensor 99 is out of range: the file has 4", [](auto& m) { m.operators[0].inputs[1] = 99; }},
      {"tensor -2 is out of range: the file has 4", [](auto& m) { m.operators[0].inputs[1] = -2; }},
      {"tensor -1 is out of range: the file has 4", [](auto& m) { m.operators[1].outputs[0] = -1; }},
      {"buffer 77 is out of range: the file has 2", [](auto& m) { m.tensors[3].buffer = 77; }},
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
      {"not supported: input 'x' (dimension 1 has no fixed size)",
       [](auto& m) {
         m.tensors[0].shape = {1, 0};
       }},
      {"not supported: input 'x' (a tensor of rank 9)", [](auto& m) { m.tensors[0].shape.assign(9, 1); }},
      {"not supported: input 'x' (type complex64)", [](auto& m) { m.tensors[0].type = Type::complex64; }},
      {"1 operator is not supported: ADD: constants of type int16 (16-bit activations) (1 node: y)",
       [](auto& m) { m.tensors[3].type = Type::int16; }},
      {"a buffer does not have its tensor's size", [](auto& m) { m.tensors[3].type = Type::int4; }},
      {"1 operator is not supported: RELU: a result of integers (1 node: z)",
       [](auto& m) { m.tensors[2].type = Type::int8; }},
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
      {"1 operator is not supported: RELU: several scales of a computed tensor (1 node: z)",
       [](auto& m) {
         m.tensors[2].type = Type::int8, m.scaled(2, {1, 1}, {0, 0});
       }},
      {"1 operator is not supported: RELU: quantization of another form (1 node: z)",
       [](auto& m) { m.tensors[2].type = Type::int8, m.tensors[2].details = true; }},
      {"1 operator is not supported: ADD: activation 5 (1 node: y)",
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
      {"1 operator is not supported: CONV_2D: weights that are not constant (1 node: t2)", {3, {x, w}, {y}, conv(1)}},
      {"1 operator is not supported: CONV_2D: on a tensor of rank 2 (1 node: t2)",
       {3, {random({4, 5}, 1), In::constant(w)}, {y}, conv(1)}},
      {"1 operator is not supported: FULLY_CONNECTED: shuffled weights (1 node: t2)",
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
      {"1 operator is not supported: GATHER: batch_dims with another axis (1 node: t2)",
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
      {"operator 't2' (SPLIT): does not have as many outputs as parts",
       {49, {3, x}, {y}, Options([](Builder& b) { return schema::CreateSplitOptions(b, 3); })}},
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
            "1 operator is not supported: DEQUANTIZE: an input whose elements have got another scale, or none, where "
            "they are computed (1 node: t4)");
}

}  // namespace tflite_files_test
}  // namespace quern::test
