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

std::string TfliteModel::bytes() const {
  Builder b;
  std::string behind;  // the tables
  std::vector<flatbuffers::Offset<schema::Buffer>> buffers = {schema::CreateBuffer(b)};
  std::vector<flatbuffers::Offset<schema::Tensor>> table;
  // The tables are made twice if elements lie behind them, as only then their size is known.
  size_t size = 0;
  for (const size_t pass : {size_t{0}, size_t{1}}) {
    if (pass == 1 && !outside) break;
    b.Clear();
    behind.clear();
    buffers = {schema::CreateBuffer(b)};
    table.clear();
    for (const Tensor& t : tensors) {
      const std::vector<uint8_t> data(t.constant.begin(), t.constant.end());
      if (!data.empty() && outside) {
        buffers.push_back(schema::CreateBuffer(b, 0, std::max<size_t>(size + behind.size(), 2), data.size()));
        behind += t.constant;
      } else if (!data.empty()) {
        buffers.push_back(schema::CreateBufferDirect(b, &data));
      }
      const auto own = static_cast<uint32_t>(data.empty() ? 0 : buffers.size() - 1);
      flatbuffers::Offset<schema::Quantization> quantization;
      if (t.details) {
        quantization = schema::CreateQuantization(b, 0, 0, 0, 0, schema::Details::QuantizationDetails,
                                                  schema::CreateQuantizationDetails(b).Union());
      } else if (!t.scales.empty()) {
        quantization = schema::CreateQuantizationDirect(b, nullptr, nullptr, &t.scales, &t.zero_points,
                                                        schema::Details::NONE, 0, t.axis);
      }
      flatbuffers::Offset<schema::Sparsity> sparsity;
      if (t.sparse) sparsity = schema::CreateSparsity(b);
      table.push_back(schema::CreateTensorDirect(
          b, &t.shape, t.type, t.buffer < 0 ? own : static_cast<uint32_t>(t.buffer), t.name.c_str(), quantization,
          false, sparsity, t.signature.empty() ? nullptr : &t.signature));
    }
    std::vector<flatbuffers::Offset<schema::OperatorCode>> codes;
    const auto add = [&](const Operator& op, auto& nodes) {
      const auto old = static_cast<int8_t>(std::min(op.code, 127));
      codes.push_back(
          schema::CreateOperatorCodeDirect(b, old, op.custom.empty() ? nullptr : op.custom.c_str(), 1, op.code));
      flatbuffers::Offset<void> options;
      if (op.options.make_) options = op.options.make_(b);
      nodes.push_back(schema::CreateOperatorDirect(b, static_cast<uint32_t>(codes.size() - 1), &op.inputs, &op.outputs,
                                                   op.options.type_, options));
    };
    std::vector<flatbuffers::Offset<schema::Operator>> nodes, first;
    for (const Operator& op : operators) add(op, nodes);
    for (const Operator& op : once) add(op, first);
    const auto graph = schema::CreateSubGraphDirect(b, &table, &inputs, &outputs, &nodes, "net");
    std::vector<flatbuffers::Offset<schema::SubGraph>> all(graphs, graph);
    if (!once.empty()) all.push_back(schema::CreateSubGraphDirect(b, &table, nullptr, nullptr, &first, "once"));
    schema::FinishModelBuffer(b, schema::CreateModelDirect(b, version, &codes, &all, nullptr, &buffers));
    size = b.GetSize();
  }
  return std::string(reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()) + behind;
}

}  // namespace quern::test
