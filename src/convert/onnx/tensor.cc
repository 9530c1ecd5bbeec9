#include "convert/onnx/tensor.h"

#include <fp16.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/math.h"
#include "convert/common/file.h"

namespace quern {
namespace {

using onnx::TensorProto;

constexpr int max_rank = 16;  // the graph's own limit is lower, but what is only worked with at import may have more

[[noreturn]] void fail(const TensorProto& tensor, const std::string& what) {
  throw Error("tensor '" + tensor.name() + "': " + what);
}

size_t element_size(int32_t type) {
  switch (type) {
    case TensorProto::DOUBLE:
    case TensorProto::INT64: return 8;
    case TensorProto::FLOAT:
    case TensorProto::INT32: return 4;
    case TensorProto::FLOAT16: return 2;
    case TensorProto::UINT8:
    case TensorProto::INT8:
    case TensorProto::BOOL: return 1;
    default: return 0;
  }
}

Shape shape_of(const TensorProto& tensor, size_t* count) {
  if (tensor.dims_size() > max_rank) fail(tensor, "has too many dimensions");
  Shape shape;
  *count = 1;
  bool fits = true;
  for (const int64_t d : tensor.dims()) {
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

template <class Stored, class To>
void convert_raw(const std::string& raw, std::vector<To>* out) {
  out->resize(raw.size() / sizeof(Stored));
  for (size_t i = 0; i < out->size(); ++i) {
    Stored value;
    std::memcpy(&value, raw.data() + i * sizeof value, sizeof value);
    (*out)[i] = static_cast<To>(value);
  }
}

void read_raw(const TensorProto& tensor, const std::string& raw, Numbers* numbers) {
  switch (numbers->type) {
    case TensorProto::FLOAT: return convert_raw<float>(raw, &numbers->floats);
    case TensorProto::DOUBLE: return convert_raw<double>(raw, &numbers->floats);
    case TensorProto::INT64: return convert_raw<int64_t>(raw, &numbers->integers);
    case TensorProto::INT32: return convert_raw<int32_t>(raw, &numbers->integers);
    case TensorProto::INT8: return convert_raw<int8_t>(raw, &numbers->integers);
    case TensorProto::UINT8:
    case TensorProto::BOOL: return convert_raw<uint8_t>(raw, &numbers->integers);
    case TensorProto::FLOAT16: {
      std::vector<uint16_t> bits;
      convert_raw<uint16_t>(raw, &bits);
      for (const uint16_t b : bits) numbers->floats.push_back(fp16_ieee_to_fp32_value(b));
      return;
    }
    default: fail(tensor, "has an unknown type");
  }
}

void read_typed_fields(const TensorProto& tensor, Numbers* numbers) {
  switch (numbers->type) {
    case TensorProto::FLOAT: numbers->floats.assign(tensor.float_data().begin(), tensor.float_data().end()); return;
    case TensorProto::DOUBLE: numbers->floats.assign(tensor.double_data().begin(), tensor.double_data().end()); return;
    case TensorProto::FLOAT16:
      for (const int32_t bits : tensor.int32_data()) {
        numbers->floats.push_back(fp16_ieee_to_fp32_value(static_cast<uint16_t>(bits)));
      }
      return;
    case TensorProto::INT64: numbers->integers.assign(tensor.int64_data().begin(), tensor.int64_data().end()); return;
    default: numbers->integers.assign(tensor.int32_data().begin(), tensor.int32_data().end());
  }
}

}  // namespace

bool is_float_type(int32_t type) {
  return type == TensorProto::FLOAT || type == TensorProto::FLOAT16 || type == TensorProto::DOUBLE;
}

bool is_integer_type(int32_t type) { return element_size(type) != 0 && !is_float_type(type); }

std::filesystem::path external_file(const TensorProto& tensor, const std::string& folder) {
  return path_inside(tensor, folder, location_of(tensor));
}

void keep_external_file(const TensorProto& tensor, const std::string& folder, const std::string& target) {
  if (tensor.data_location() != TensorProto::EXTERNAL) return;
  keep_source((std::filesystem::path(folder) / location_of(tensor)).string(), target);
}

Numbers read_tensor(const TensorProto& tensor, const std::string& folder) {
  Numbers numbers;
  numbers.type = tensor.data_type();
  const size_t size = element_size(numbers.type);
  if (size == 0) throw Unsupported{"tensor '" + tensor.name() + "' of type " + std::to_string(numbers.type)};
  size_t count;
  numbers.shape = shape_of(tensor, &count);
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    read_raw(tensor, external_bytes(tensor, folder, count * size), &numbers);
  } else if (tensor.has_raw_data()) {
    if (tensor.raw_data().size() != count * size) {
      fail(tensor,
           "holds " + std::to_string(tensor.raw_data().size()) + " bytes instead of " + std::to_string(count * size));
    }
    read_raw(tensor, tensor.raw_data(), &numbers);
  } else {
    read_typed_fields(tensor, &numbers);
  }
  const size_t found = is_float_type(numbers.type) ? numbers.floats.size() : numbers.integers.size();
  if (found != count) fail(tensor, "holds " + std::to_string(found) + " numbers instead of " + std::to_string(count));
  return numbers;
}

}  // namespace quern
