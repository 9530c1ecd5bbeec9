#include "tflite_model.h"

#include <fp16.h>

#include <algorithm>
#include <utility>

namespace quern::test {

namespace schema = tflite::schema;

// ---- tensors and operators --------------------------------------------------------------------

int TfliteModel::computed(const Dims& dims, Type type, const std::string& name) {
  const std::string number = std::to_string(tensors.size());
  tensors.push_back({name.empty() ? "t" + number : name, {dims.begin(), dims.end()}, type});
  return static_cast<int>(tensors.size() - 1);
}

int TfliteModel::input(const Dims& dims, Type type, const std::string& name) {
  inputs.push_back(computed(dims, type, name));
  return inputs.back();
}

int TfliteModel::constant(Type type, const Dims& dims, const void* data, size_t size) {
  const int tensor = computed(dims, type);
  tensors.back().constant.assign(static_cast<const char*>(data), size);
  return tensor;
}

int TfliteModel::floats(const Array& array) {
  return constant(Type::float32, array.dims, array.data.data(), 4 * array.data.size());
}

int TfliteModel::halves(const Array& array) {
  std::vector<uint16_t> halves;
  for (const float x : array.data) halves.push_back(fp16_ieee_from_fp32_value(x));
  return constant(Type::float16, array.dims, halves.data(), 2 * halves.size());
}

int TfliteModel::integers(const std::vector<int32_t>& values) { return steps(Type::int32, {values.size()}, values); }

int TfliteModel::integer(int32_t value) { return steps(Type::int32, {}, {value}); }

int TfliteModel::steps(Type type, const Dims& dims, const std::vector<int32_t>& values) {
  if (type == Type::int32) return constant(type, dims, values.data(), 4 * values.size());
  std::string bytes;
  for (const int32_t value : values) bytes += static_cast<char>(value);
  return constant(type, dims, bytes.data(), bytes.size());
}

int TfliteModel::scaled(int tensor, std::vector<float> scales, std::vector<int64_t> zero_points, int axis) {
  Tensor& t = tensors.at(static_cast<size_t>(tensor));
  t.scales = std::move(scales);
  t.zero_points = std::move(zero_points);
  t.axis = axis;
  return tensor;
}

int TfliteModel::node(int32_t code, const std::vector<int32_t>& from, const std::vector<int32_t>& to, Options options) {
  operators.push_back({code, from, to, std::move(options)});
  return to.at(0);
}

// ---- the file ---------------------------------------------------------------------------------

namespace {

using Builder = TfliteModel::Builder;

// The parts of a file while it is made. Elements of constants may lie behind the tables, which have `size` bytes.
struct File {
  Builder& b;
  bool outside;
  size_t size;
  std::string behind = {};
  std::vector<flatbuffers::Offset<schema::Buffer>> buffers = {schema::CreateBuffer(b)};
  std::vector<flatbuffers::Offset<schema::OperatorCode>> codes = {};
};

// Makes the buffer of a constant; returns its number.
uint32_t add_buffer(File& file, const std::string& constant) {
  if (constant.empty()) return 0;
  const std::vector<uint8_t> data(constant.begin(), constant.end());
  if (file.outside) {
    const size_t at = std::max<size_t>(file.size + file.behind.size(), 2);
    file.buffers.push_back(schema::CreateBuffer(file.b, 0, at, data.size()));
    file.behind += constant;
  } else {
    file.buffers.push_back(schema::CreateBufferDirect(file.b, &data));
  }
  return static_cast<uint32_t>(file.buffers.size() - 1);
}

flatbuffers::Offset<flatbuffers::Vector<int64_t>> add_zero_points(Builder& b, const TfliteModel::Tensor& t) {
  if (!t.misaligned) return b.CreateVector(t.zero_points);
  b.CreateVector<int64_t>({0});  // now the file's size is a multiple of 8, and so is the distance of what lies aligned
  const size_t words = 2 * t.zero_points.size();
  if ((b.GetSize() + words * sizeof(int32_t)) % sizeof(int64_t) == 0) b.PushElement(int32_t{0});
  b.StartVector(words, sizeof(int32_t));
  for (size_t i = t.zero_points.size(); i-- > 0;) {
    const auto bits = static_cast<uint64_t>(t.zero_points[i]);
    b.PushElement(static_cast<uint32_t>(bits >> 32));
    b.PushElement(static_cast<uint32_t>(bits));
  }
  return {b.EndVector(t.zero_points.size())};
}

flatbuffers::Offset<schema::Sparsity> add_sparsity(Builder& b, const TfliteModel::Sparsity& from) {
  const auto indices = [&](const std::vector<uint8_t>& list) {
    return schema::CreateUint8VectorDirect(b, &list).Union();
  };
  std::vector<flatbuffers::Offset<schema::Level>> levels;
  for (const TfliteModel::Level& level : from.levels) {
    const auto type = level.sparse ? schema::Indices::Uint8Vector : schema::Indices::NONE;
    const auto segments = level.sparse ? indices(level.segments) : 0, places = level.sparse ? indices(level.places) : 0;
    levels.push_back(schema::CreateLevel(b, level.sparse, level.size, type, segments, type, places));
  }
  return schema::CreateSparsityDirect(b, &from.order, from.blocks.empty() ? nullptr : &from.blocks, &levels);
}

flatbuffers::Offset<schema::Tensor> add_tensor(File& file, const TfliteModel::Tensor& t) {
  Builder& b = file.b;
  const uint32_t own = add_buffer(file, t.constant);
  flatbuffers::Offset<schema::Quantization> quantization;
  if (t.details) {
    quantization = schema::CreateQuantization(b, 0, 0, 0, 0, schema::Details::QuantizationDetails,
                                              schema::CreateQuantizationDetails(b).Union());
  } else if (!t.scales.empty()) {
    const auto scales = b.CreateVector(t.scales);
    quantization = schema::CreateQuantization(b, 0, 0, scales, add_zero_points(b, t), schema::Details::NONE, 0, t.axis);
  }
  flatbuffers::Offset<schema::Sparsity> sparsity;
  if (t.sparsity) sparsity = add_sparsity(b, *t.sparsity);
  return schema::CreateTensorDirect(b, &t.shape, t.type, t.buffer < 0 ? own : static_cast<uint32_t>(t.buffer),
                                    t.name.c_str(), quantization, t.variable, sparsity,
                                    t.signature.empty() ? nullptr : &t.signature);
}

}  // namespace

flatbuffers::Offset<schema::Operator> TfliteModel::add_operator(
    Builder& b, const Operator& op, std::vector<flatbuffers::Offset<schema::OperatorCode>>* codes) {
  const auto old = static_cast<int8_t>(std::min(op.code, 127));
  codes->push_back(
      schema::CreateOperatorCodeDirect(b, old, op.custom.empty() ? nullptr : op.custom.c_str(), 1, op.code));
  flatbuffers::Offset<void> options;
  if (op.options.make_) options = op.options.make_(b);
  const std::vector<uint8_t> custom(op.custom_options.begin(), op.custom_options.end());
  return schema::CreateOperatorDirect(b, static_cast<uint32_t>(codes->size() - 1), &op.inputs, &op.outputs,
                                      op.options.type_, options, custom.empty() ? nullptr : &custom);
}

std::string TfliteModel::bytes() const {
  Builder b;
  std::string behind;
  // The tables are made twice if elements lie behind them, as only then their size is known.
  size_t size = 0;
  for (const size_t pass : {size_t{0}, size_t{1}}) {
    if (pass == 1 && !outside) break;
    b.Clear();
    File file{b, outside, size};
    const auto add_graph = [&](const Graph& graph) {
      std::vector<flatbuffers::Offset<schema::Tensor>> table;
      std::vector<flatbuffers::Offset<schema::Operator>> nodes;
      for (const Tensor& t : graph.tensors) table.push_back(add_tensor(file, t));
      for (const Operator& op : graph.operators) nodes.push_back(add_operator(b, op, &file.codes));
      return schema::CreateSubGraphDirect(b, &table, &graph.inputs, &graph.outputs, &nodes, "net");
    };
    const auto graph = add_graph({tensors, operators, inputs, outputs});
    std::vector<flatbuffers::Offset<schema::SubGraph>> all(graphs, graph);
    for (const Graph& inner : called) all.push_back(add_graph(inner));
    if (!once.empty()) all.push_back(add_graph({tensors, once, {}, {}}));
    schema::FinishModelBuffer(b, schema::CreateModelDirect(b, version, &file.codes, &all, nullptr, &file.buffers));
    size = b.GetSize();
    behind = file.behind;
  }
  return std::string(reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()) + behind;
}

}  // namespace quern::test
