#include "convert/tensorflow/tensor.h"

#include "base/math.h"

namespace quern::tensorflow {
namespace {

using namespace convert;
using schema::TensorProto;

constexpr int max_rank = 16;  // graphs allow fewer dimensions, but some tensors are needed at import only

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw Error("constant '" + name + "': " + what);
}

Shape shape_of(const TensorProto& tensor, const std::string& name) {
  if (tensor.tensor_shape().unknown_rank()) fail(name, "has no shape");
  if (tensor.tensor_shape().dim_size() > max_rank) fail(name, "has too many dimensions");
  Shape shape;
  for (const auto& dim : tensor.tensor_shape().dim()) {
    if (dim.size() < 0) fail(name, "has a negative dimension");
    shape.push_back(static_cast<size_t>(dim.size()));
  }
  return shape;
}

size_t bytes_of(const Shape& shape, ElementType type, const std::string& name) {
  size_t bytes = element_size(type);
  for (const size_t d : shape) {
    if (!checked_mul(bytes, d, &bytes)) fail(name, "is too large");
  }
  return bytes;
}

// Makes an array from a list of numbers, which may have a wider type in the file than in the tensor.
template <class T, class List>
Array from_list(ElementType type, const Shape& shape, size_t count, const List& list, const std::string& name) {
  std::vector<T> values(list.begin(), list.end());
  if (values.size() > count) {
    fail(name, "holds " + std::to_string(values.size()) + " numbers instead of " + std::to_string(count));
  }
  values.resize(count, values.empty() ? T{} : values.back());
  return make_array<T>(type, shape, values);
}

Array from_lists(const TensorProto& t, ElementType type, const Shape& shape, size_t count, const std::string& name) {
  switch (type) {
    case ElementType::f32: return from_list<float>(type, shape, count, t.float_val(), name);
    case ElementType::f64: return from_list<double>(type, shape, count, t.double_val(), name);
    case ElementType::f16: return from_list<uint16_t>(type, shape, count, t.half_val(), name);
    case ElementType::i64: return from_list<int64_t>(type, shape, count, t.int64_val(), name);
    case ElementType::s32: return from_list<int32_t>(type, shape, count, t.int_val(), name);
    case ElementType::s8: return from_list<int8_t>(type, shape, count, t.int_val(), name);
    case ElementType::u8: return from_list<uint8_t>(type, shape, count, t.int_val(), name);
    case ElementType::boolean: break;
  }
  return from_list<uint8_t>(type, shape, count, t.bool_val(), name);
}

}  // namespace

std::optional<ElementType> element_type(schema::DataType type) {
  switch (type) {
    case schema::DT_FLOAT: return ElementType::f32;
    case schema::DT_HALF: return ElementType::f16;
    case schema::DT_DOUBLE: return ElementType::f64;
    case schema::DT_INT64: return ElementType::i64;
    case schema::DT_INT32:
    case schema::DT_QINT32: return ElementType::s32;
    case schema::DT_INT8:
    case schema::DT_QINT8: return ElementType::s8;
    case schema::DT_UINT8:
    case schema::DT_QUINT8: return ElementType::u8;
    case schema::DT_BOOL: return ElementType::boolean;
    default: return std::nullopt;
  }
}

Array read_tensor(Builder& builder, const TensorProto& tensor, const std::string& name) {
  const std::optional<ElementType> type = element_type(tensor.dtype());
  if (!type) throw Unsupported{"type " + schema::DataType_Name(tensor.dtype())};
  const Shape shape = shape_of(tensor, name);
  const size_t bytes = bytes_of(shape, *type, name);
  builder.charge(bytes);  // a few bytes of the file can ask for much
  const std::string& content = tensor.tensor_content();
  if (content.empty()) return from_lists(tensor, *type, shape, bytes / element_size(*type), name);
  if (content.size() != bytes) {
    fail(name, "holds " + std::to_string(content.size()) + " bytes instead of " + std::to_string(bytes));
  }
  return {*type, shape, {content.begin(), content.end()}};
}

}  // namespace quern::tensorflow
