#include "convert/onnx/tensor.h"

#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/math.h"
#include "convert/common/file.h"

namespace quern::onnx {
namespace {

using namespace convert;
using schema::TensorProto;

constexpr int max_rank = 16;  // graphs allow fewer dimensions, but some tensors are needed at import only

[[noreturn]] void fail(const TensorProto& tensor, const std::string& what) {
  throw Error("tensor '" + tensor.name() + "': " + what);
}

Shape shape_of(const TensorProto& tensor, const google::protobuf::RepeatedField<int64_t>& dims, size_t* count) {
  if (dims.size() > max_rank) fail(tensor, "has too many dimensions");
  Shape shape;
  *count = 1;
  bool fits = true;
  for (const int64_t d : dims) {
    if (d < 0) fail(tensor, "has a negative dimension");
    shape.push_back(static_cast<size_t>(d));
    fits &= checked_mul(*count, shape.back(), count);
  }
  size_t bytes;
  if (!fits || !checked_mul(*count, size_t{8}, &bytes)) fail(tensor, "is too large");
  return shape;
}

// ---- external data ----------------------------------------------------------------------------

uint64_t number_of(const TensorProto& tensor, const std::string& key, const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) fail(tensor, "external data with a bad " + key);
  return value;
}

// Resolves links first, so that neither ".." nor a link leads out of the model's folder.
std::filesystem::path path_inside(const TensorProto& tensor, const std::string& folder, const std::string& location) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path root = fs::canonical(folder.empty() ? "." : folder, error);
  if (error) fail(tensor, "external data in a folder that cannot be read");
  const fs::path relative(location);
  if (location.empty() || relative.is_absolute()) fail(tensor, "external data outside the model's folder");
  const fs::path path = fs::canonical(root / relative, error);
  if (error) fail(tensor, "external data '" + location + "' cannot be read");
  const auto [stop, unused] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  if (stop != root.end()) fail(tensor, "external data outside the model's folder");
  if (!fs::is_regular_file(path, error)) fail(tensor, "external data '" + location + "' is not a file");
  return path;
}

std::string location_of(const TensorProto& tensor) {
  std::string location;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
  }
  return location;
}

std::string external_bytes(const TensorProto& tensor, const std::string& folder, size_t bytes) {
  uint64_t offset = 0, length = bytes;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "offset") offset = number_of(tensor, entry.key(), entry.value());
    if (entry.key() == "length") length = number_of(tensor, entry.key(), entry.value());
  }
  const std::filesystem::path path = external_file(tensor, folder);
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error || length != bytes || offset > size || bytes > size - offset) {
    fail(tensor, "external data '" + location_of(tensor) + "' does not hold " + std::to_string(bytes) + " bytes there");
  }
  std::string content(bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  if (!file.read(content.data(), static_cast<std::streamsize>(bytes))) fail(tensor, "external data cannot be read");
  return content;
}

// ---- numbers ----------------------------------------------------------------------------------

// Makes an array from a list whose elements have a wider type in the file than in the tensor.
template <class T, class List>
Array narrowed(ElementType type, const Shape& shape, const List& list) {
  return make_array<T>(type, shape, std::vector<T>(list.begin(), list.end()));
}

Array typed_fields(const TensorProto& tensor, ElementType type, const Shape& shape) {
  switch (type) {
    case ElementType::f32: return narrowed<float>(type, shape, tensor.float_data());
    case ElementType::f64: return narrowed<double>(type, shape, tensor.double_data());
    case ElementType::i64: return narrowed<int64_t>(type, shape, tensor.int64_data());
    case ElementType::s32: return narrowed<int32_t>(type, shape, tensor.int32_data());
    case ElementType::f16: return narrowed<uint16_t>(type, shape, tensor.int32_data());
    case ElementType::s8: return narrowed<int8_t>(type, shape, tensor.int32_data());
    case ElementType::u8: return narrowed<uint8_t>(type, shape, tensor.int32_data());
    case ElementType::boolean: break;
  }
  std::vector<uint8_t> truths;
  for (const int32_t value : tensor.int32_data()) truths.push_back(value != 0);
  return make_array<uint8_t>(type, shape, truths);
}

Array raw_bytes(ElementType type, const Shape& shape, const std::string& bytes) {
  return {type, shape, {bytes.begin(), bytes.end()}};
}

// Reads elements of a type that the file holds as it is.
Array read_elements(const TensorProto& tensor, const std::string& folder, ElementType type, const Shape& shape,
                    size_t count) {
  const size_t bytes = count * element_size(type);
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    return raw_bytes(type, shape, external_bytes(tensor, folder, bytes));
  }
  if (tensor.has_raw_data()) {
    const std::string& raw = tensor.raw_data();
    if (raw.size() != bytes) {
      fail(tensor, "expected " + std::to_string(bytes) + " bytes, got " + std::to_string(raw.size()));
    }
    return raw_bytes(type, shape, raw);
  }
  Array array = typed_fields(tensor, type, shape);
  if (array.elements() != count) {
    fail(tensor, "expected " + std::to_string(count) + " elements, got " + std::to_string(array.elements()));
  }
  return array;
}

}  // namespace

std::optional<ElementType> element_type(int32_t type) {
  switch (type) {
    case TensorProto::FLOAT: return ElementType::f32;
    case TensorProto::FLOAT16: return ElementType::f16;
    case TensorProto::DOUBLE: return ElementType::f64;
    case TensorProto::INT64: return ElementType::i64;
    case TensorProto::INT32: return ElementType::s32;
    case TensorProto::INT8: return ElementType::s8;
    case TensorProto::UINT8: return ElementType::u8;
    case TensorProto::BOOL: return ElementType::boolean;
    default: return std::nullopt;
  }
}

std::string type_name(int64_t type) {
  const bool is_known =
      type >= 0 && type <= TensorProto::DataType_MAX && TensorProto::DataType_IsValid(static_cast<int>(type));
  return is_known ? TensorProto::DataType_Name(static_cast<TensorProto::DataType>(type)) : std::to_string(type);
}

std::filesystem::path external_file(const TensorProto& tensor, const std::string& folder) {
  return path_inside(tensor, folder, location_of(tensor));
}

void keep_external_file(const TensorProto& tensor, const std::string& folder, const std::string& target) {
  if (tensor.data_location() != TensorProto::EXTERNAL) return;
  keep_source((std::filesystem::path(folder) / location_of(tensor)).string(), target);
}

void keep_external_file(const schema::SparseTensorProto& sparse, const std::string& folder, const std::string& target) {
  keep_external_file(sparse.values(), folder, target);
  keep_external_file(sparse.indices(), folder, target);
}

Array read_tensor(const TensorProto& tensor, const std::string& folder) {
  const bool halves = tensor.data_type() == TensorProto::INT4 || tensor.data_type() == TensorProto::UINT4;
  const std::optional<ElementType> type = halves ? ElementType::u8 : element_type(tensor.data_type());
  if (!type) throw Unsupported{"tensor '" + tensor.name() + "' of type " + type_name(tensor.data_type())};
  size_t count;
  const Shape shape = shape_of(tensor, tensor.dims(), &count);
  if (!halves) return read_elements(tensor, folder, *type, shape, count);
  const size_t bytes = divide_up(count, 2);
  return unpacked_int4(read_elements(tensor, folder, *type, {bytes}, bytes).bytes, shape, count,
                       tensor.data_type() == TensorProto::INT4);
}

Array read_tensor(const schema::SparseTensorProto& sparse, const std::string& folder,
                  const std::function<void(size_t)>& charge) {
  const TensorProto& named = sparse.values();
  const Array values = read_tensor(named, folder), indices = read_tensor(sparse.indices(), folder);
  size_t count;
  Shape shape = shape_of(named, sparse.dims(), &count);
  const size_t listed = values.elements(), rank = shape.size();
  const bool linear = indices.shape == Shape{listed};
  if (values.shape.size() != 1)
    fail(named, "expected sparse values of rank 1, got " + std::to_string(values.shape.size()));
  if (indices.type != ElementType::i64) fail(named, "expected sparse indices of type int64");
  if (!linear && indices.shape != Shape{listed, rank}) {
    fail(named, "expected " + std::to_string(listed) + " sparse indices, linear or with an index per dimension");
  }
  charge(count * element_size(values.type));
  Array dense = {values.type, shape, std::vector<uint8_t>(count * element_size(values.type))};
  const size_t size = element_size(values.type);
  const auto* index = reinterpret_cast<const int64_t*>(indices.bytes.data());
  for (size_t i = 0, next = 0; i < listed; ++i) {
    size_t at = 0;
    bool inside = true;
    for (size_t d = linear ? rank : 0; d < rank; ++d) {
      const int64_t in_dimension = index[i * rank + d];
      inside &= in_dimension >= 0 && static_cast<uint64_t>(in_dimension) < shape[d];
      at = inside ? at * shape[d] + static_cast<size_t>(in_dimension) : 0;
    }
    if (linear) {
      inside = index[i] >= 0 && static_cast<uint64_t>(index[i]) < count;
      at = inside ? static_cast<size_t>(index[i]) : 0;
    }
    if (!inside) fail(named, "sparse index " + std::to_string(i) + " is outside the tensor");
    if (at < next) fail(named, "expected ascending sparse indices; index " + std::to_string(i) + " is not");
    std::memcpy(&dense.bytes[at * size], &values.bytes[i * size], size);
    next = at + 1;
  }
  return dense;
}

}  // namespace quern::onnx
