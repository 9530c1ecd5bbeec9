// What the ONNX importer takes from a model beside operators: inputs, outputs, files; and what it refuses.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "graph/file/format.h"
#include "graph/pass/passes.h"
#include "onnx_fixture.h"

namespace quern {
namespace onnx_test {

using test::Array;
using test::Dims;
using test::error_of;
using test::expect_near;
using test::Onnx;
using test::OnnxModel;
using test::plus;
using test::random;
using test::times;

// ---- border -----------------------------------------------------------------------------------

TEST_F(Onnx, HalfPrecisionStaysAtTheBorder) {
  OnnxModel model(13);
  model.input("x", {1, 4}, onnx::schema::TensorProto::FLOAT16).output("y").output("z").node("Relu", {"x"}, {"y"});
  model.node("Cast", {"y"}, {"z"}, "to=1");
  const Graph graph = import(model);
  EXPECT_EQ(graph.inputs[0].type, QN_F16);
  EXPECT_EQ(graph.outputs[0].type, QN_F16);
  EXPECT_EQ(graph.outputs[1].type, QN_F32);
  const std::vector<Array> got = run(model, {test::make({1, 4}, {-1, 0.5f, 2, -3})});
  EXPECT_EQ(got.at(0).data, (std::vector<float>{0, 0.5f, 2, 0}));
}

TEST_F(Onnx, AnyTensorCanBeAnOutput) {
  OnnxModel model(13);
  model.input("x", {1, 2, 4, 4}).output("y").floats("w", random({2, 2, 1, 1}, 2));
  model.node("Conv", {"x", "w"}, {"c"}).node("Relu", {"c"}, {"r"}).node("Optional", {"r"}, {"y"});
  const Array x = random({1, 2, 4, 4}, 1);
  const std::vector<Array> got = test::run(import(model, {"r", "c"}), {x});
  const Array c = test::conv(x, random({2, 2, 1, 1}, 2), {}, {}, 1);
  expect_near(got.at(1), c);
  expect_near(got.at(0), test::map(c, [](float v) { return std::max(v, 0.0f); }));
  EXPECT_NE(refusal(model).find("1 operator is not supported: Optional (1 node: y)"), std::string::npos);
  EXPECT_NE(error_of([&] { import(model, {"nothing"}); }).find("no tensor 'nothing'"), std::string::npos);
  expect_near(test::run(import(model, {"x"}), {x}).at(0), x);
}

TEST_F(Onnx, SizesMayBeOpen) {
  OnnxModel model(13);
  model.input("x", {0, 3}).output("y").node("Relu", {"x"}, {"y"});
  EXPECT_EQ(run(model, {random({5, 3}, 1)}).at(0).dims, (Dims{5, 3}));
  const auto open = [](OnnxModel& of, int d) {
    auto* shape = of.model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->mutable_dim(d)->clear_dim_value();
  };
  OnnxModel wide(13);
  wide.input("x", {1, 0}).output("y").node("Relu", {"x"}, {"y"});
  open(wide, 1);
  EXPECT_EQ(run(wide, {random({1, 5}, 1)}).at(0).dims, (Dims{1, 5}));
  // The first of some example sizes that suits the model, which a session then changes.
  OnnxModel image(13);
  image.input("x", {1, 2, 0, 0}).output("y").floats("w", random({3, 2, 5, 5}, 2)).node("Conv", {"x", "w"}, {"y"});
  open(image, 2);
  open(image, 3);
  EXPECT_EQ(import(image).tensors[0].shape, (Vector<size_t>{1, 2, 24, 24}));
  const Array x = random({1, 2, 6, 9}, 1);
  expect_near(run(image, {x}).at(0), test::conv(x, random({3, 2, 5, 5}, 2), {}, {}, 1));
  // With the first sizes, three rows would be all rows, and the size could not change.
  OnnxModel rows(13);
  rows.input("x", {1, 0, 2}).output("y").integers("0", {0}).integers("3", {3}).integers("1", {1});
  rows.node("Slice", {"x", "0", "3", "1"}, {"y"});
  open(rows, 1);
  EXPECT_EQ(run(rows, {random({1, 5, 2}, 1)}).at(0).dims, (Dims{1, 3, 2}));
  // One slope for all elements does not depend on their number.
  OnnxModel signal(13);
  signal.input("x", {0, 0}).output("y").node("Abs", {"x"}, {"y"});
  open(signal, 1);
  EXPECT_EQ(run(signal, {test::make({2, 3}, {-1, 2, -3, 4, -5, 6})}).at(0).data,
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

// Among the sizes that are tried for an open dimension is one that has three equal parts.
TEST_F(Onnx, OpenSizesHaveThirds) {
  OnnxModel model(13);
  model.input("x", {1, 0}).output("c").node("Split", {"x"}, {"a", "b", "c"}, "axis=1");
  auto* type = model.model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  type->mutable_shape()->mutable_dim(1)->clear_dim_value();
  const Array x = random({1, 9}, 1);
  expect_near(run(model, {x}).at(0), test::slice(x, {0, 6}, {1, 9}));
}

// ---- refusals ---------------------------------------------------------------------------------

// Before opset 7, the second input is moved to an axis by attributes, and shapes and types are attributes.
TEST_F(Onnx, OldOpsets) {
  const Array x = random({2, 3, 4, 5}, 1), c = random({3}, 2), row = random({5}, 3), inner = random({3, 4}, 4);
  expect_node(6, "Add", "broadcast=1 axis=1", x, {c}, test::combine(x, test::reshape(c, {3, 1, 1}), plus));
  expect_node(1, "Add", "broadcast=1 axis=1", x, {inner}, test::combine(x, test::reshape(inner, {3, 4, 1}), plus));
  expect_node(6, "Mul", "broadcast=1", x, {row}, test::combine(x, row, std::multiplies<float>()));
  expect_node(1, "Add", "consumed_inputs=[0,1]", x, {x}, test::map(x, [](float v) { return 2 * v; }));
  expect_node(6, "PRelu", "", x, {c},
              test::combine(x, test::reshape(c, {3, 1, 1}), [](float a, float b) { return a < 0 ? a * b : a; }));
  expect_node(1, "Reshape", "shape=[6,-1]", x, {}, test::reshape(x, {6, 20}));
  expect_node(1, "Pad", "paddings=[0,0,1,0,0,0,0,2]", x, {}, test::pad(x, {0, 0, 1, 0}, {0, 0, 0, 2}, 0));
  expect_node(1, "Cast", "to='FLOAT'", x, {}, x);
  expect_node(1, "Dropout", "is_test=1 ratio=0.5f", x, {}, x);
  EXPECT_NE(refusal(one_node(6, "Add", "", x.dims, {c})).find("the inputs differ in shape"), std::string::npos);
  EXPECT_NE(refusal(one_node(6, "Add", "broadcast=1 axis=3", x.dims, {inner})).find("axis 3 does not fit"),
            std::string::npos);
  EXPECT_NE(refusal(one_node(6, "BatchNormalization", "", x.dims, {c, c, c, c})).find("is_test is 0"),
            std::string::npos);
}

TEST_F(Onnx, UnsupportedNodesAreListedTogether) {
  OnnxModel model(13);
  model.input("x", {1, 2, 4, 4}).output("y").node("Optional", {"x"}, {"a"}).node("Relu", {"a"}, {"b"});
  model.node("StringSplit", {"b"}, {"c"}).node("BatchNormalization", {"x", "x", "x", "x", "x"}, {"d"}, "spatial=0");
  model.node("Sum", {"c", "d"}, {"y"});
  const std::string message = refusal(model);
  EXPECT_NE(message.find(
                "3 operators are not supported: Optional (1 node: a), StringSplit (1 node: c), BatchNormalization: "),
            std::string::npos)
      << message;
  OnnxModel foreign(13);
  foreign.input("x", {1, 2}).output("y").node("Relu", {"x"}, {"y"});
  foreign.model.mutable_graph()->mutable_node(0)->set_domain("com.example");
  EXPECT_NE(refusal(foreign).find("Relu: of domain com.example (1 node: y)"), std::string::npos);
  EXPECT_NE(refusal(one_node(13, "Relu", "spin=1", {1, 2})).find("Relu: attribute spin (1 node: y)"),
            std::string::npos);
  OnnxModel outputs(13);
  outputs.input("x", {1, 2, 4, 4}).output("y").output("i").node("Relu", {"x"}, {"y", "i"});
  EXPECT_NE(refusal(outputs).find("Relu: output 1 (1 node: y)"), std::string::npos);
}

TEST_F(Onnx, ErrorsNameTheNode) {
  struct Case {
    const char *type, *attributes;
    std::vector<Array> constants;
    const char* message;
  };
  const Array w = random({4, 3, 3, 3}, 1);
  const Case cases[] = {
      {"Conv", "", {random({4, 2, 3, 3}, 1)}, "3 channels, weights for 2"},
      {"Conv", "group=0", {w}, "group 0"},
      {"Conv", "strides=[0,1]", {w}, "strides is out of range"},
      {"Conv", "pads=[-1,0,0,0]", {w}, "pads are out of range"},
      {"Conv", "kernel_shape=[2,2]", {w}, "kernel_shape differs"},
      {"Conv", "auto_pad='SOME'", {w}, "auto_pad is 'SOME'"},
      {"Conv", "", {w, random({5}, 1)}, "bias does not fit"},
      {"Conv", "", {random({4, 3, 9, 9}, 1)}, "y"},
      {"MaxPool", "", {}, "kernel_shape is missing"},
      {"MaxPool", "kernel_shape=[2,2] pads=[2,2,2,2]", {}, "y"},
      {"LeakyRelu", "alpha=nanf", {}, "alpha is not a finite number"},
      {"LRN", "", {}, "size is missing"},
      {"Clip", "max=nanf", {}, "a bound is not a number"},
      {"Transpose", "perm=[0,0,1,2]", {}, "perm must be a permutation"},
      {"Transpose", "perm=[0,1]", {}, "perm does not fit"},
      {"Flatten", "axis=9", {}, "axis 9 is out of range"},
      {"Softmax", "axis=-7", {}, "axis -7 of a tensor of rank 4"},
      {"Slice", "starts=[1] ends=[1,2]", {}, "differ in length"},
      {"Squeeze", "axes=[1]", {}, "dimension 1 is not 1"},
      {"Unsqueeze", "axes=[0,0]", {}, "an axis is given twice"},
      {"Unsqueeze", "axes=[0,1,2,3,4]", {}, "y"},
      {"Pad", "pads=[1]", {}, "pads do not fit"},
      {"BatchNormalization", "", {w, w, w, w}, "do not fit the 3 channels"},
      {"DepthToSpace", "blocksize=2", {}, "blocksize does not fit"},
      {"Relu", "", {w}, "has 2 inputs"},
  };
  for (const Case& c : cases) {
    const std::string message = refusal(one_node(8, c.type, c.attributes, {1, 3, 6, 6}, c.constants));
    EXPECT_NE(message.find(c.message), std::string::npos) << c.type << " " << c.attributes << " -> " << message;
    EXPECT_NE(message.find("net.onnx"), std::string::npos) << message;
  }
}

TEST_F(Onnx, NamesBecomePlainText) {
  const std::string long_name(1023, 'n'), latin = "caf\xe9";
  OnnxModel model(13);
  model.input(latin, {1}).input("caf?", {1}).input("caf\xe8", {1}).output(long_name + "\xc3\xa9");
  model.node("Sum", {latin, "caf?", "caf\xe8"}, {"a\nb"}).node("Neg", {"a\nb"}, {long_name + "\xc3\xa9"});
  model.model.mutable_graph()->set_name("\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xc2\x9b \xe2\x82\xac \xe2\x82");
  const Graph graph = import(model);
  const auto name = [&](const Port& port) { return graph.tensors[static_cast<size_t>(port.tensor)].name; };
  EXPECT_STREQ(graph.name.c_str(), "?? ??? ???? ?? \xe2\x82\xac ??");
  EXPECT_STREQ(name(graph.inputs[0]).c_str(), "caf?");
  EXPECT_STREQ(name(graph.inputs[1]).c_str(), "caf?_1");
  EXPECT_STREQ(name(graph.inputs[2]).c_str(), "caf?_2");
  EXPECT_STREQ(name(graph.outputs[0]).c_str(), long_name.c_str());
  EXPECT_STREQ(graph.nodes[1].name.c_str(), "a?b");
  EXPECT_NO_THROW(import(model, {"a\nb"}));
  const std::vector<Array> got = test::run(graph, {{{1}, {1}}, {{1}, {2}}, {{1}, {4}}});
  EXPECT_EQ(got.at(0).data, std::vector<float>{-7});
}

// The format demands that a node comes after those whose outputs it reads. Some exporters do not keep to it.
TEST_F(Onnx, NodesInAnyOrder) {
  OnnxModel model(13);
  model.input("x", {2, 3}).output("y");
  model.node("Mul", {"c", "b"}, {"y"}).node("Exp", {"b"}, {"c"}).node("Tanh", {"a"}, {"b"}).node("Neg", {"x"}, {"a"});
  const Array x = random({2, 3}, 1);
  Array want = x;
  for (float& v : want.data) v = std::exp(std::tanh(-v)) * std::tanh(-v);
  test::expect_near(test::run(import(model), {x}).at(0), want);
  model.node("Neg", {"e"}, {"d"}).node("Neg", {"d"}, {"e"}).output("e");
  EXPECT_NE(refusal(model).find("node 'd' reads 'e', which nothing before it writes"), std::string::npos)
      << "each of the two reads the other's output";
}

// A branch reads the graph around it, which orders the node of the branch, too.
TEST_F(Onnx, NodesOfBranchesInAnyOrder) {
  OnnxModel branch(13);
  branch.node("Exp", {"t"}, {"r"}).node("Tanh", {"outer"}, {"t"}).output("r");
  OnnxModel model(13);
  model.input("x", {2, 3}).input("choose", {}, onnx::schema::TensorProto::BOOL).output("y");
  model.node("If", {"choose"}, {"y"}).node("Neg", {"x"}, {"outer"});
  onnx::schema::NodeProto* const node = model.model.mutable_graph()->mutable_node(0);
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::schema::AttributeProto* const attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::schema::AttributeProto::GRAPH);
    *attribute->mutable_g() = branch.model.graph();
  }
  const Array x = random({2, 3}, 1);
  Array want = x;
  for (float& v : want.data) v = std::exp(std::tanh(-v));
  test::expect_near(test::run(import(model), {x, {{}, {1}}}).at(0), want);
}

// Rows that a Scan makes may be stacked along any axis of its output.
TEST_F(Onnx, ScanOutputsStackAlongAnyAxis) {
  OnnxModel body(13);
  body.input("row", {3}).node("Neg", {"row"}, {"negative"}).output("negative");
  const Array x = random({2, 3}, 1);
  for (const int axis : {0, 1, -1, -2}) {
    OnnxModel model(13);
    model.input("x", {2, 3}).output("y");
    model.node("Scan", {"x"}, {"y"}, "num_scan_inputs=1 scan_output_axes=[" + std::to_string(axis) + "]");
    onnx::schema::AttributeProto* const graph = model.model.mutable_graph()->mutable_node(0)->add_attribute();
    graph->set_name("body");
    graph->set_type(onnx::schema::AttributeProto::GRAPH);
    *graph->mutable_g() = body.model.graph();
    const bool first = axis == 0 || axis == -2;
    Array want = {first ? Dims{2, 3} : Dims{3, 2}, std::vector<float>(6)};
    for (size_t i = 0; i < 6; ++i) want.data[first ? i : i % 3 * 2 + i / 3] = -x.data[i];
    test::expect_near(test::run(import(model), {x}).at(0), want);
  }
}

// Random numbers are the same in each run; nodes without a seed differ by their names.
TEST_F(Onnx, RandomNumbers) {
  const auto numbers = [&](const std::string& type, const std::string& output, const std::string& attributes) {
    const bool like = type.find("Like") != std::string::npos;
    OnnxModel model(13);
    model.input("x", {50, 40})
        .output("y")
        .node(type, like ? std::vector<std::string>{"x"} : std::vector<std::string>(), {output},
              attributes + (like ? "" : " shape=[50,40]"));
    model.node("Add", {"x", output}, {"y"});
    return test::run(import(model), {{{50, 40}, std::vector<float>(2000)}}).at(0).data;
  };
  const auto mean = [](const std::vector<float>& list) {
    return std::accumulate(list.begin(), list.end(), 0.f) / static_cast<float>(list.size());
  };
  for (const std::string form : {"", "Like"}) {
    const std::vector<float> uniform = numbers("RandomUniform" + form, "a", "low=2f high=6f");
    EXPECT_NEAR(mean(uniform), 4, 0.11);
    EXPECT_GE(*std::min_element(uniform.begin(), uniform.end()), 2);
    EXPECT_LE(*std::max_element(uniform.begin(), uniform.end()), 6);
    EXPECT_NEAR(mean(numbers("RandomNormal" + form, "a", "mean=5f scale=2f seed=3f")), 5, 0.18);
    EXPECT_EQ(uniform, numbers("RandomUniform" + form, "a", "low=2f high=6f"));
    EXPECT_NE(uniform, numbers("RandomUniform" + form, "b", "low=2f high=6f"));
    const std::string seeded = "seed=1.5f";
    EXPECT_EQ(numbers("RandomNormal" + form, "a", seeded), numbers("RandomNormal" + form, "b", seeded));
  }
}

// x + w, where w is sparse.
class SparseInitializer {
 public:
  SparseInitializer() {
    model_.input("x", {2, 3}).output("y").node("Add", {"x", "w"}, {"y"});
    onnx::schema::SparseTensorProto* const sparse = model_.model.mutable_graph()->add_sparse_initializer();
    sparse->mutable_values()->set_name("w");
    sparse->mutable_values()->set_data_type(onnx::schema::TensorProto::FLOAT);
    sparse->mutable_indices()->set_data_type(onnx::schema::TensorProto::INT64);
    sparse->add_dims(2);
    sparse->add_dims(3);
  }
  onnx::schema::SparseTensorProto& tensor() { return *model_.model.mutable_graph()->mutable_sparse_initializer(0); }
  const OnnxModel& with(const std::vector<float>& values, const std::vector<int64_t>& indices, const Dims& shape) {
    onnx::schema::TensorProto &elements = *tensor().mutable_values(), &at = *tensor().mutable_indices();
    elements.mutable_float_data()->Assign(values.begin(), values.end());
    elements.mutable_dims()->Clear();
    elements.add_dims(static_cast<int64_t>(values.size()));
    at.mutable_int64_data()->Assign(indices.begin(), indices.end());
    at.mutable_dims()->Assign(shape.begin(), shape.end());
    return model_;
  }

 private:
  OnnxModel model_{13};
};

TEST_F(Onnx, SparseInitializers) {
  SparseInitializer w;
  const Array zeros = {{2, 3}, std::vector<float>(6)};
  const auto sum = [&](const OnnxModel& model) { return test::run(import(model), {zeros}).at(0).data; };
  EXPECT_EQ(sum(w.with({5, 7}, {1, 3}, {2})), (std::vector<float>{0, 5, 0, 7, 0, 0}));
  EXPECT_EQ(sum(w.with({5, 7}, {0, 1, 1, 2}, {2, 2})), (std::vector<float>{0, 5, 0, 0, 0, 7}));
  EXPECT_EQ(sum(w.with({}, {}, {0})), zeros.data);
}

TEST_F(Onnx, DamagedSparseInitializers) {
  SparseInitializer w;
  const auto refused = [&](const OnnxModel& model, const std::string& words) {
    EXPECT_NE(refusal(model).find("tensor 'w': " + words), std::string::npos) << refusal(model);
  };
  refused(w.with({5, 7}, {1, 6}, {2}), "sparse index 1 is outside the tensor");
  refused(w.with({5, 7}, {-1, 3}, {2}), "sparse index 0 is outside the tensor");
  refused(w.with({5, 7}, {0, 0, 0, 3}, {2, 2}), "sparse index 1 is outside the tensor");
  refused(w.with({5, 7}, {3, 1}, {2}), "expected ascending sparse indices; index 1 is not");
  refused(w.with({5, 7}, {3, 3}, {2}), "expected ascending sparse indices; index 1 is not");
  refused(w.with({5, 7}, {1, 2, 3}, {3}), "expected 2 sparse indices, linear or with an index per dimension");
  refused(w.with({5, 7}, {1, 2, 3, 4, 5, 6}, {2, 3}),
          "expected 2 sparse indices, linear or with an index per dimension");
  w.tensor().set_dims(0, int64_t{1} << 40);
  EXPECT_NE(refusal(w.with({5}, {1}, {1})).find("constants grow far beyond the size of the file"), std::string::npos);
  w.tensor().set_dims(0, INT64_MAX);
  refused(w.with({5}, {1}, {1}), "is too large");
  w.tensor().set_dims(0, -1);
  refused(w.with({5}, {1}, {1}), "has a negative dimension");
}

// Two in each byte, the first one in the lower half.
TEST_F(Onnx, InitializersOfFourBits) {
  for (const bool is_signed : {false, true}) {
    for (const bool raw : {false, true}) {
      OnnxModel model(21);
      model.input("x", {3}).output("y");
      model.node("DequantizeLinear", {"w", "scale", "zero"}, {"d"})
          .node("Add", {"x", "d"}, {"y"})
          .scalar("scale", 0.5f);
      for (const auto& [name, bytes, count] :
           {std::tuple("w", std::vector<int32_t>{0x2f, 0x08}, 3), std::tuple("zero", std::vector<int32_t>{0x03}, 1)}) {
        onnx::schema::TensorProto* const tensor = model.model.mutable_graph()->add_initializer();
        tensor->set_name(name);
        tensor->set_data_type(is_signed ? onnx::schema::TensorProto::INT4 : onnx::schema::TensorProto::UINT4);
        if (count > 1) tensor->add_dims(count);
        if (raw) tensor->set_raw_data(std::string(bytes.begin(), bytes.end()));
        if (!raw) tensor->mutable_int32_data()->Assign(bytes.begin(), bytes.end());
      }
      const std::vector<float> want =
          is_signed ? std::vector<float>{-2, -0.5f, -5.5f} : std::vector<float>{6, -0.5f, 2.5f};
      EXPECT_EQ(test::run(import(model), {{{3}, {0, 0, 0}}}).at(0).data, want) << is_signed << raw;
    }
  }
}

// Whatever is not 0 is true, as in ONNX Runtime.
TEST_F(Onnx, BooleansOfAnyByte) {
  for (const bool raw : {false, true}) {
    OnnxModel model(13);
    model.input("x", {4}).output("y").floats("z", {{4}, {-1, -1, -1, -1}});
    model.node("Where", {"c", "x", "z"}, {"w"}).node("Cast", {"c"}, {"f"}, "to=1").node("Add", {"w", "f"}, {"y"});
    onnx::schema::TensorProto* const tensor = model.model.mutable_graph()->add_initializer();
    tensor->set_name("c");
    tensor->set_data_type(onnx::schema::TensorProto::BOOL);
    tensor->add_dims(4);
    const std::vector<int32_t> values = {0, 1, 2, raw ? 128 : 256};
    if (raw) tensor->set_raw_data(std::string(values.begin(), values.end()));
    if (!raw) tensor->mutable_int32_data()->Assign(values.begin(), values.end());
    EXPECT_EQ(test::run(import(model), {{{4}, {1, 1, 1, 1}}}).at(0).data, (std::vector<float>{-1, 2, 2, 2})) << raw;
  }
}

TEST_F(Onnx, DamagedModels) {
  const auto with = [&](const std::function<void(OnnxModel&)>& change) {
    OnnxModel model = one_node(13, "Add", "", {1, 2}, {random({2}, 1)});
    change(model);
    return refusal(model);
  };
  const auto tensor = [](OnnxModel& m) { return m.model.mutable_graph()->mutable_initializer(0); };
  EXPECT_NE(with([&](OnnxModel& m) { tensor(m)->set_dims(0, -2); }).find("negative dimension"), std::string::npos);
  EXPECT_NE(with([&](OnnxModel& m) { tensor(m)->set_dims(0, 3); }).find("expected 12 bytes, got 8"), std::string::npos);
  EXPECT_NE(with([&](OnnxModel& m) { tensor(m)->set_dims(0, INT64_MAX); }).find("too large"), std::string::npos);
  EXPECT_NE(with([&](OnnxModel& m) { tensor(m)->set_data_type(8); }).find("of type 8"), std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.model.mutable_opset_import(0)->set_version(0); }).find("operator set 0"),
            std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.model.mutable_opset_import(0)->set_version(99); }).find("operator set 99"),
            std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.model.mutable_graph()->clear_output(); }).find("no outputs"), std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.node("Relu", {"x"}, {"y"}); }).find("'y' is written twice"), std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.node("Relu", {"w"}, {"v"}).output("v"); }).find("reads 'w'"), std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.node("Relu", {"v"}, {"v"}).output("v"); }).find("reads 'v'"), std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.input("x", {1, 2}); }).find("'x' is named twice"), std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) {
              m.model.mutable_graph()
                  ->mutable_input(0)
                  ->mutable_type()
                  ->mutable_tensor_type()
                  ->mutable_shape()
                  ->mutable_dim(1)
                  ->set_dim_value(INT64_MAX);
            }).find("net.onnx"),
            std::string::npos);
  EXPECT_NE(error_of([&] { import_onnx(folder_.write("n.onnx", "\x08")); }).find("not an ONNX model"),
            std::string::npos);
  EXPECT_NE(error_of([&] { import_onnx(folder_.path("absent.onnx")); }).find("cannot open"), std::string::npos);
}

// Integers that are known at import are outputs, too. They follow the sizes of inputs, also products, sums and
// quotients.
TEST_F(Onnx, IntegersMayBeOutputs) {
  OnnxModel model(13), sum(13);
  model.input("x", {2, 3}).output("shape").output("times").output("four").integers("four", {4});
  model.node("Shape", {"x"}, {"shape"}).node("Size", {"x"}, {"size"}).node("Mul", {"size", "four"}, {"times"});
  for (const Dims& dims : {Dims{2, 3}, Dims{5, 7}}) {
    const std::vector<Array> outputs = run(model, {random(dims, 1)});
    const auto a = static_cast<float>(dims[0]), b = static_cast<float>(dims[1]);
    expect_near(outputs.at(0), {{2}, {a, b}});
    expect_near(outputs.at(1), {{1}, {4 * a * b}});
    expect_near(outputs.at(2), {{1}, {4}});
  }
  sum.input("x", {2}).output("y").node("Shape", {"x"}, {"s"}).integers("7", {7}).integers("2", {2});
  sum.node("Sub", {"s", "7"}, {"less"}).node("Div", {"s", "2"}, {"half"}).node("Sub", {"less", "half"}, {"y"});
  expect_near(run(sum, {random({2}, 1)}).at(0), {{1}, {-6}});
  expect_near(run(sum, {random({5}, 1)}).at(0), {{1}, {-4}});
}

TEST_F(Onnx, WorkAtImportIsBounded) {
  OnnxModel zeros(13);
  zeros.input("x", {1}).output("y").integers("n", {1 << 20, 1 << 20}).node("ConstantOfShape", {"n"}, {"c"});
  zeros.node("Add", {"x", "c"}, {"y"});
  EXPECT_LT(import(zeros).constants.size(), 3u);  // left for the session
  OnnxModel range(13);
  range.input("x", {1})
      .output("y")
      .integers("none", {})
      .integers("a", {0})
      .integers("b", {INT64_MAX})
      .integers("c", {1});
  for (const char* name : {"a", "b", "c"}) range.node("Reshape", {name, "none"}, {std::string(name) + "s"});
  range.node("Range", {"as", "bs", "cs"}, {"r"}).node("Reshape", {"x", "r"}, {"y"});
  EXPECT_NE(refusal(range).find("node 'r' (Range): the size of output 0 overflows"), std::string::npos);
  OnnxModel outer(13);
  outer.input("x", {1}).output("y").floats("a", random({4000, 1}, 1)).floats("b", random({1, 4000}, 1));
  outer.node("Mul", {"a", "b"}, {"m"}).node("Add", {"m", "x"}, {"y"});
  const Graph graph = import(outer);
  EXPECT_LT(graph.constants.size(), 4u);
  OnnxModel copies(13);
  copies.input("x", {1, 1}).floats("w", random({1, 4000}, 1)).node("Identity", {"x"}, {"y"}).output("y");
  for (int i = 0; i < 10000; ++i) {
    const std::string name = std::string("g").append(std::to_string(i));
    copies.node("Gemm", {"x", "w"}, {name}, "alpha=2.0f").output(name);
  }
  EXPECT_NE(refusal(copies).find("constants grow far beyond the size of the file"), std::string::npos);
  OnnxModel doubled(13);
  doubled.input("x", {1}).output("y").integers("d0", {1, 1, 1, 1});
  for (int i = 0; i < 40; ++i) {
    const std::string from = std::string("d").append(std::to_string(i)),
                      to = std::string("d").append(std::to_string(i + 1));
    doubled.node("Concat", {from, from}, {to}, "axis=0");
  }
  doubled.node("Reshape", {"x", "d40"}, {"y"});
  EXPECT_NE(refusal(doubled).find("constants grow far beyond the size of the file"), std::string::npos);
  OnnxModel squares(13);
  squares.input("x", {1}).output("s40").node("Shape", {"x"}, {"s0"});
  for (int i = 0; i < 40; ++i) {
    const std::string from = std::string("s").append(std::to_string(i));
    squares.node("Mul", {from, from}, {std::string("s").append(std::to_string(i + 1))});
  }
  import(squares);  // whose symbols have not 2^40 factors
  OnnxModel division(13);
  division.input("x", {4}).output("y").integers("a", {INT64_MIN}).integers("b", {-1}).node("Div", {"a", "b"}, {"d"});
  division.node("Reshape", {"x", "d"}, {"y"});
  EXPECT_NE(refusal(division).find("node 'y' (Reshape): a negative dimension"), std::string::npos);
}

// ---- ports that share a tensor ----------------------------------------------------------------

// An input that is an output, by its own name and by others, in both types, and an output that is named twice.
TEST_F(Onnx, InputsMayBeOutputs) {
  const Array x = random({2, 3, 4, 5}, 1), more = random({4, 3, 2, 5}, 2);
  const auto names = [](const Graph& graph) {
    std::vector<std::string> list;
    for (const Port& port : graph.outputs) {
      list.push_back(graph.tensors[static_cast<size_t>(port.tensor)].name.c_str());
    }
    return list;
  };
  for (const auto type : {onnx::schema::TensorProto::FLOAT, onnx::schema::TensorProto::FLOAT16}) {
    OnnxModel only(13), all(13);
    only.input("x", x.dims, type).output("x");
    all.input("x", x.dims, type).node("Relu", {"x"}, {"y"}).node("Identity", {"x"}, {"i"});
    all.node("Identity", {"y"}, {"j"}).node("MaxPool", {"x"}, {"m"}, "kernel_shape=[1,1]");
    for (const char* name : {"y", "x", "i", "y", "m", "x", "j", "i"}) all.output(name);
    for (const OnnxModel& model : {only, all}) {
      const Graph graph = import(model);
      const size_t count = graph.outputs.size();
      Graph optimised = graph, again;
      ASSERT_EQ(optimize(optimised), QN_OK) << qn_last_message();
      const std::string file = folder_.path("ports.qn");
      ASSERT_EQ(write_model_file(optimised, file.c_str()), QN_OK) << qn_last_message();
      ASSERT_EQ(read_model_file(file.c_str(), &again), QN_OK) << qn_last_message();
      export_onnx(optimised, folder_.path("ports.onnx"));
      const Graph back = import_onnx(folder_.path("ports.onnx"));
      for (const Graph& way : {graph, optimised, again, back}) {
        EXPECT_EQ(names(way), count == 1 ? std::vector<std::string>{"x"}
                                         : (std::vector<std::string>{"y", "x", "i", "y", "m", "x", "j", "i"}));
        for (const Array& input : {x, more}) {
          const std::vector<Array> got = test::run(way, {input});
          const Array relu = test::map(input, [](float v) { return std::max(v, 0.0f); });
          ASSERT_EQ(got.size(), count);
          for (size_t i = 0; i < count; ++i) {
            const std::string name = names(way)[i];
            expect_near(got[i], name == "y" || name == "j" ? relu : input, 1e-3f);
          }
        }
      }
    }
  }
}

// Names alone do not make ports the same.
TEST_F(Onnx, PortsOfOneNameAreOneTensor) {
  Graph graph = import(OnnxModel(13).input("x", {2}).output("x"));
  graph.outputs[0].type = QN_F16;
  EXPECT_NE(error_of([&] { export_onnx(graph, folder_.path("x.onnx")); }).find("in two types"), std::string::npos);
}

// ---- external data ----------------------------------------------------------------------------

void make_external(onnx::schema::TensorProto* tensor, const std::string& location, const std::string& offset,
                   const std::string& length) {
  tensor->clear_raw_data();
  tensor->set_data_location(onnx::schema::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair{"location", location}, std::pair{"offset", offset}, std::pair{"length", length}}) {
    onnx::schema::StringStringEntryProto* entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
}

TEST_F(Onnx, ExternalDataStaysInTheFolder) {
  const Array x = random({1, 2}, 1), c = random({2}, 2);
  const std::string bytes(reinterpret_cast<const char*>(c.data.data()), 8);
  const auto model = [&](const std::string& location, const std::string& offset, const std::string& length) {
    OnnxModel m = one_node(13, "Add", "", {1, 2}, {c});
    make_external(m.model.mutable_graph()->mutable_initializer(0), location, offset, length);
    return m;
  };
  folder_.write("data.bin", "....." + bytes);
  expect_near(run(model("data.bin", "5", "8"), {x}).at(0), test::combine(x, c, plus));
  const std::string outside = test::Folder().path("");
  const test::Folder other;
  other.write("secret.bin", "....." + bytes);
  std::filesystem::create_symlink(other.path("secret.bin"), folder_.path("link.bin"));
  std::filesystem::create_directory_symlink(other.path(""), folder_.path("dir"));
  const std::string up =
      "../" + std::filesystem::path(other.path("")).parent_path().filename().string() + "/secret.bin";
  for (const std::string& location :
       {up, other.path("secret.bin"), std::string("link.bin"), std::string("dir/secret.bin")}) {
    EXPECT_NE(refusal(model(location, "5", "8")).find("outside the model's folder"), std::string::npos) << location;
  }
  EXPECT_NE(refusal(model("data.bin", "6", "8")).find("does not hold 8 bytes"), std::string::npos);
  EXPECT_NE(refusal(model("data.bin", "18446744073709551615", "8")).find("does not hold"), std::string::npos);
  EXPECT_NE(refusal(model("data.bin", "5", "9")).find("does not hold"), std::string::npos);
  EXPECT_NE(refusal(model("data.bin", "-5", "8")).find("bad offset"), std::string::npos);
  EXPECT_NE(refusal(model("absent.bin", "5", "8")).find("cannot be read"), std::string::npos);
  EXPECT_NE(refusal(model("", "5", "8")).find("outside"), std::string::npos);
  EXPECT_NE(refusal(model(".", "5", "8")).find("is not a file"), std::string::npos);
}

// Whatever a model is read from, and that nothing needs, too.
TEST_F(Onnx, SourcesAreNotToBeReplaced) {
  OnnxModel model = one_node(13, "Add", "", {1, 2}, {random({2}, 1)});
  model.floats("unused", random({2}, 2)).node("Constant", {}, {"neither"});
  onnx::schema::GraphProto* graph = model.model.mutable_graph();
  make_external(graph->mutable_initializer(0), "first.bin", "0", "8");
  make_external(graph->mutable_initializer(1), "second.bin", "0", "8");
  onnx::schema::AttributeProto* value = graph->mutable_node(graph->node_size() - 1)->add_attribute();
  value->set_name("value");
  make_external(value->mutable_t(), "third.bin", "0", "8");
  for (const char* name : {"first.bin", "second.bin", "third.bin", "unrelated.bin"}) {
    folder_.write(name, std::string(8, '\0'));
  }
  const std::string path = folder_.write("model.onnx", model.bytes());
  std::filesystem::create_symlink("third.bin", folder_.path("link.qn"));
  for (const char* name : {"model.onnx", "first.bin", "second.bin", "third.bin", "link.qn"}) {
    const std::string message = error_of([&] { import_model({path}, {.outputs = {}, .target = folder_.path(name)}); });
    EXPECT_NE(message.find(std::string(name) + ": the model is read from this file"), std::string::npos) << message;
  }
  for (const char* name : {"new.qn", "unrelated.bin"}) {
    import_model({path}, {.outputs = {}, .target = folder_.path(name)});
  }
}

}  // namespace onnx_test
}  // namespace quern
