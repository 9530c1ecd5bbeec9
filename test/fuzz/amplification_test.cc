// Small files that ask for much: refused with a clear error in little time and memory.
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>

#include "../convert/onnx_model.h"
#include "../convert/tensorflow_graph.h"
#include "../convert/tflite_model.h"
#include "convert/convert.h"
#include "guard.h"
#include "seeds.h"

namespace quern {
namespace amplification_test {

using test::OnnxModel;

constexpr size_t many = 20000;

struct Case {
  std::string what;
  std::string bytes;
  std::string message;  // a part of it
};

std::string numbered(const char* name, size_t i) { return std::string(name).append(std::to_string(i)); }

OnnxModel base() {
  OnnxModel model(13);
  model.input("x", {1, 4}).output("y").node("Relu", {"x"}, {"y"});
  return model;
}

void add_integers(OnnxModel& model, const std::string& name, const std::vector<int64_t>& dims) {
  onnx::schema::TensorProto* tensor = model.model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::schema::TensorProto::INT64);
  for (const int64_t d : dims) tensor->add_dims(d);
  tensor->set_raw_data("");
}

// `size` ones under the name "big", as a file of a few bytes can have them.
OnnxModel with_big(bool integers, int64_t size = 1 << 20) {
  OnnxModel model = base();
  model.integers("size", {size}).integers("zero", {0}).integers("one", {1});
  model.node("ConstantOfShape", {"size"}, {"big"});
  onnx::schema::AttributeProto* value = model.model.mutable_graph()->mutable_node()->rbegin()->add_attribute();
  value->set_name("value");
  value->set_type(onnx::schema::AttributeProto::TENSOR);
  value->mutable_t()->add_dims(1);
  value->mutable_t()->set_data_type(integers ? onnx::schema::TensorProto::INT64 : onnx::schema::TensorProto::FLOAT);
  integers ? value->mutable_t()->add_int64_data(1) : value->mutable_t()->add_float_data(1);
  return model;
}

// Many nodes of one type, whose results the model has as outputs.
std::string repeated(OnnxModel model, const std::string& type, const std::vector<std::string>& inputs,
                     const std::string& attributes = "", size_t count = many) {
  for (size_t i = 0; i < count; ++i) model.node(type, inputs, {numbered("r", i)}, attributes).output(numbered("r", i));
  return model.bytes();
}

// The processor time that a case may take: 20 times that of a model with half as many nodes and no tricks. So the limit
// holds on any machine and with sanitizers.
unsigned time_limit() {
  static const unsigned seconds = [] {
    const TemporaryFile file(".onnx");
    file.write(repeated(base(), "Relu", {"x"}, "", many / 2));
    const std::clock_t begin = std::clock();
    import_onnx(file.path());
    return 1 + static_cast<unsigned>(20 * (std::clock() - begin) / CLOCKS_PER_SEC);
  }();
  return seconds;
}

std::vector<Case> cases_of_work() {
  const std::string grows = "constants grow far beyond";
  OnnxModel empty = base();
  std::vector<int64_t> wide(16, 1 << 20);
  wide[0] = 0;
  add_integers(empty, "big", wide);
  add_integers(empty, "none", {0});
  empty.integers("zero", {0}).integers("one", {1});
  OnnxModel late = base();  // its first dimensions are large, its last one makes it empty
  add_integers(late, "big", {1 << 20, 1, 0});
  add_integers(late, "none", {0});
  OnnxModel bounds = base();
  for (const auto& [name, value] : {std::pair{"0", int64_t{0}}, std::pair{"2^40", int64_t{1} << 40}}) {
    bounds.integers(name, {value});
    bounds.model.mutable_graph()->mutable_initializer()->rbegin()->clear_dims();
  }
  bounds.integers("one", {1});
  std::vector<Case> cases = {
      {"Slice of nothing", repeated(empty, "Slice", {"big", "none", "none"}, "", 300), grows},
      {"Slice of less", repeated(late, "Slice", {"big", "none", "none"}), grows},
      {"Gather of nothing", repeated(empty, "Gather", {"big", "zero"}, "axis=15"), grows},
      {"Range", repeated(bounds, "Range", {"0", "2^40", "one"}), "nodes are more than 20000"},
      {"ReduceProd", repeated(with_big(true), "ReduceProd", {"big"}), grows},
      {"Reshape", repeated(with_big(true), "Reshape", {"x", "big"}), "too many"},
      {"Gather with many indices", repeated(with_big(true), "Gather", {"x", "big"}, "axis=1"), grows},
      {"Slice with many axes", repeated(with_big(true), "Slice", {"x", "big", "big", "big"}), "given twice"},
      {"ConstantOfShape of rank 2^20", repeated(with_big(true), "ConstantOfShape", {"big"}), "more than 24 dimensions"},
      {"Expand to rank 2^20", repeated(with_big(true), "Expand", {"one", "big"}), "more than 24 dimensions"},
      {"Size", repeated(with_big(true), "Size", {"big"}), grows},
      {"Concat of integers", repeated(with_big(true), "Concat", {"big", "big"}, "axis=0"), grows},
      {"Concat of floats", repeated(with_big(false), "Concat", {"big", "big"}, "axis=0"), grows},
      {"Add of integers", repeated(with_big(true), "Add", {"big", "one"}), grows},
      {"Add of floats", repeated(with_big(false), "Add", {"big", "big"}), grows},
      {"Equal", repeated(with_big(true), "Equal", {"big", "one"}), grows},
  };
  // What reads no element, or few, may do so often.
  for (const char* type : {"Max", "Min"}) {
    cases.push_back({type, repeated(with_big(false), type, {"x", "big"}), "do not broadcast"});
  }
  return cases;
}

// A model that reads one initializer after the other, all of which name the whole of a file of 1 MiB.
OnnxModel reads_external(const std::string& location, onnx::schema::TensorProto::DataType type, size_t element) {
  constexpr int64_t bytes = 1 << 20;
  OnnxModel model = base();
  for (size_t i = 0; i < 4000; ++i) {
    onnx::schema::TensorProto* tensor = model.model.mutable_graph()->add_initializer();
    tensor->set_name(numbered("w", i));
    tensor->set_data_type(type);
    tensor->add_dims(bytes / static_cast<int64_t>(element));
    tensor->set_data_location(onnx::schema::TensorProto::EXTERNAL);
    onnx::schema::StringStringEntryProto* entry = tensor->add_external_data();
    entry->set_key("location");
    entry->set_value(location);
    model.node("Identity", {numbered("w", i)}, {numbered("r", i)}).output(numbered("r", i));
  }
  return model;
}

void expect_outcomes(
    const std::vector<Case>& cases, const TemporaryFile& file,
    const std::function<void(const std::string&)>& import = [](const std::string& path) { import_onnx(path); }) {
  const std::vector<Outcome> outcomes = run_guarded(
      cases.size(),
      [&](size_t i) {
        file.write(cases[i].bytes);
        import(file.path());
      },
      time_limit());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(outcomes[i].ending, cases[i].message.empty() ? Ending::loaded : Ending::refused)
        << cases[i].what << " (" << cases[i].bytes.size() << " bytes): " << ending_name(outcomes[i].ending);
    EXPECT_NE(outcomes[i].message.find(cases[i].message), std::string::npos)
        << cases[i].what << ": " << outcomes[i].message;
  }
}

TEST(Amplification, WorkAtImport) {
  const TemporaryFile file(".onnx");
  expect_outcomes(cases_of_work(), file);
}

// Tables of FlatBuffers may share what they refer to: here `many` operators refer to the same lists and names.
std::string sharing_tflite(const std::vector<int32_t>& inputs, const std::string& name, const std::string& custom,
                           const std::vector<float>& scales) {
  namespace schema = tflite::schema;
  flatbuffers::FlatBufferBuilder b;
  const std::vector<int64_t> zero_points(scales.size(), 0);
  const std::vector<int32_t> dims = {1, 4};
  const auto quantization = schema::CreateQuantizationDirect(b, nullptr, nullptr, scales.empty() ? nullptr : &scales,
                                                             scales.empty() ? nullptr : &zero_points);
  const auto shape = b.CreateVector(dims), from = b.CreateVector(inputs);
  const auto text = b.CreateString(name);
  const auto type = scales.empty() ? schema::TensorType::float32 : schema::TensorType::int8;
  std::vector<flatbuffers::Offset<schema::Tensor>> tensors;
  std::vector<flatbuffers::Offset<schema::Operator>> operators;
  std::vector<int32_t> outputs;
  tensors.push_back(schema::CreateTensor(b, shape));
  for (size_t i = 1; i <= many; ++i) tensors.push_back(schema::CreateTensor(b, shape, type, 0, text, quantization));
  for (size_t i = 1; i <= many; ++i) {
    outputs.push_back(static_cast<int32_t>(i));
    const std::vector<int32_t> to = {outputs.back()};
    operators.push_back(schema::CreateOperator(b, 0, from, b.CreateVector(to)));
  }
  const std::vector<int32_t> graph_inputs = {0};
  const std::vector<flatbuffers::Offset<schema::SubGraph>> graphs = {
      schema::CreateSubGraphDirect(b, &tensors, &graph_inputs, &outputs, &operators)};
  const std::vector<flatbuffers::Offset<schema::OperatorCode>> codes = {
      schema::CreateOperatorCodeDirect(b, 19, custom.empty() ? nullptr : custom.c_str())};
  schema::FinishModelBuffer(b, schema::CreateModelDirect(b, 3, &codes, &graphs));
  return std::string(reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize());
}

TEST(Amplification, TablesThatShare) {
  const TemporaryFile file(".tflite");
  const std::string grows = "constants grow far beyond", big(1 << 20, 'n');
  const std::vector<Case> cases = {
      {"lists of inputs", sharing_tflite(std::vector<int32_t>(1 << 18, 0), "", "", {}), grows},
      {"names", sharing_tflite({0}, big, "", {}), grows},
      {"names of operators", sharing_tflite({0}, "", big, {}), grows},
      {"scales", sharing_tflite({0}, "", "", std::vector<float>(1 << 18, 1)), grows},
  };
  expect_outcomes(cases, file, [](const std::string& path) { import_tflite(path); });
}

TEST(Amplification, TextOfManyLayers) {
  const TemporaryFile file(".prototxt");
  std::vector<std::string> texts;
  for (const std::string layer : {"layer{}", "layers{}", "layer{type:''}", "layer{convolution_param{}}", "input:'' "}) {
    texts.emplace_back();
    while (texts.back().size() + layer.size() <= size_t{4} << 20) texts.back() += layer;
  }
  const std::vector<Outcome> outcomes = run_guarded(
      texts.size(),
      [&](size_t i) {
        file.write(texts[i]);
        import_caffe(file.path(), "");
      },
      time_limit());
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(outcomes[i].ending, Ending::refused) << texts[i].substr(0, 30) << ": " << ending_name(outcomes[i].ending);
    EXPECT_NE(outcomes[i].message.find("more than 40000 layers"), std::string::npos) << outcomes[i].message;
  }
}

TEST(Amplification, ManyTensorsInOneFile) {
  const TemporaryFile file(".onnx"), data(".data");
  data.write(std::string(1 << 20, '\0'));
  const auto name_of = [](const TemporaryFile& of) { return std::filesystem::path(of.path()).filename().string(); };
  OnnxModel itself = reads_external(name_of(file), onnx::schema::TensorProto::FLOAT, 4);
  itself.floats("unused", {{1 << 18}, std::vector<float>(1 << 18)});
  const std::string grows = "constants grow far beyond";
  expect_outcomes(
      {
          {"floats", reads_external(name_of(data), onnx::schema::TensorProto::FLOAT, 4).bytes(), grows},
          {"float16", reads_external(name_of(data), onnx::schema::TensorProto::FLOAT16, 2).bytes(), grows},
          {"integers", reads_external(name_of(data), onnx::schema::TensorProto::INT64, 8).bytes(), grows},
          {"bytes", reads_external(name_of(data), onnx::schema::TensorProto::INT8, 1).bytes(), grows},
          {"the model itself", itself.bytes(), grows},
      },
      file);
}

// ---- TensorFlow's graphs ------------------------------------------------------------------------

// Many nodes of one type, each with a name of its own.
std::string many_nodes(test::TfGraph graph, const std::string& op, const std::vector<std::string>& inputs,
                       const test::TfAttributes& attributes = {}) {
  for (size_t i = 0; i < many; ++i) graph.node(op, numbered("r", i), inputs, attributes);
  std::vector<std::string> results;
  for (size_t i = 0; i < many; ++i) results.push_back(numbered("r", i));
  return graph.node("NoOp", "all", {}).node("AddN", "y", results).bytes();
}

std::vector<Case> tensorflow_cases() {
  const std::string grows = "constants grow far beyond";
  const int64_t wide = int64_t{1} << 28;
  test::TfGraph base;
  base.placeholder("x", {1, 256}).placeholder("wide", {1, wide}).integer("1", 1).integer("2^20", 1 << 20);
  base.integers("multiples", {1, 256}).integers("pads", {2, 2}, {0, 0, 1, 1}).integers("size", {1 << 20});
  test::TfGraph huge = base;
  huge.constant("c", tensorflow::schema::DT_INT32, {1 << 24});
  test::TfGraph outputs = base;
  for (size_t i = 0; i < many; ++i) outputs.node("Split", numbered("s", i), {"1", "x"}, {{"num_split", 256}});
  test::TfGraph far = base;
  for (size_t i = 0; i < many; ++i) far.node("Relu", numbered("r", i), {i == 0 ? "x" : numbered("r", i - 1) + ":255"});
  return {
      {"Unpack", many_nodes(base, "Unpack", {"x"}, {{"axis", 1}, {"num", 256}}), grows},
      {"Split", many_nodes(base, "Split", {"1", "x"}, {{"num_split", 256}}), grows},
      {"Split into many", many_nodes(base, "Split", {"1", "wide"}, {{"num_split", 1 << 28}}), "into so many parts"},
      {"Tile", many_nodes(base, "Tile", {"x", "multiples"}), grows},
      {"MirrorPad", many_nodes(base, "MirrorPad", {"wide", "pads"}, {{"mode", "REFLECT"}}), grows},
      {"Fill", many_nodes(base, "Fill", {"size", "1"}), grows},
      {"constant", many_nodes(huge, "Identity", {"c"}), grows},
      {"unnamed outputs", outputs.bytes(), "too many outputs"},
      {"outputs that nodes do not have", far.bytes(), "Relu: output 255"},
  };
}

TEST(Amplification, TensorFlow) {
  const std::vector<Case> cases = tensorflow_cases();
  const TemporaryFile file(".pb");
  const std::vector<Outcome> outcomes = run_guarded(
      cases.size(),
      [&](size_t i) {
        file.write(cases[i].bytes);
        import_tensorflow(file.path());
      },
      time_limit());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(outcomes[i].ending, Ending::refused) << cases[i].what << ": " << ending_name(outcomes[i].ending);
    EXPECT_NE(outcomes[i].message.find(cases[i].message), std::string::npos)
        << cases[i].what << ": " << outcomes[i].message.substr(0, 300);
  }
}

}  // namespace amplification_test
}  // namespace quern
