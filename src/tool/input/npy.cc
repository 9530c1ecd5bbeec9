#include "tool/input/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fp16.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/math.h"
#include "convert/common/file.h"

namespace quern {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr size_t max_rank = 32;

// Reads the header, a Python dictionary such as {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class Header {
 public:
  Header(std::string_view text, const std::string& who) : rest_(text), who_(who) {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        descr = quoted();
      } else if (key == "fortran_order") {
        fortran = boolean();
      } else if (key == "shape") {
        read_shape();
      } else {
        fail("an unknown key");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (descr.empty() || !shaped_) fail("no descr or no shape");
  }

  std::string_view descr;
  bool fortran = false;
  std::vector<size_t> shape;

 private:
  [[noreturn]] void fail(const char* what) const { throw Error(fmt::format("{}: bad .npy header: {}", who_, what)); }

  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n\t"), rest_.size())); }
  bool accept(char c) {
    skip_space();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail("not a dictionary of descr, fortran_order and shape");
  }
  std::string_view quoted() {
    skip_space();
    const char mark = rest_.empty() ? '\0' : rest_[0];
    const size_t end = rest_.find(mark, 1);
    if ((mark != '\'' && mark != '"') || end == std::string_view::npos) fail("a string is missing");
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    fail("fortran_order is neither True nor False");
  }
  void read_shape() {
    expect('(');
    while (!accept(')')) {
      skip_space();
      size_t n = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), n);
      if (error != std::errc() || shape.size() == max_rank) fail("expected a tuple of sizes as shape");
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      shape.push_back(n);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    shaped_ = true;
  }

  std::string_view rest_;
  const std::string& who_;
  bool shaped_ = false;
};

// Returns the text of the header and sets `*data` to where the elements begin.
std::string_view header_text(std::string_view file, const std::string& who, size_t* data) {
  if (!is_npy(file) || file.size() < 10) throw Error(fmt::format("{}: not a .npy file", who));
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(file[i]); };
  const unsigned version = byte(6);
  if (version < 1 || version > 3) throw Error(fmt::format("{}: .npy version {} is unknown", who, version));
  const size_t begin = version == 1 ? 10 : 12;  // version 1 has two bytes for the length of the header, later ones four
  size_t length = 0;
  if (file.size() < begin) throw Error(fmt::format("{}: the file ends early", who));
  for (size_t i = begin; i > 8; --i) length = length << 8 | byte(i - 1);
  if (length > file.size() - begin) throw Error(fmt::format("{}: the file ends early", who));
  *data = begin + length;
  return file.substr(begin, length);
}

// Turns column-major elements into row-major ones: counts through the indices, the last one fastest.
void to_row_major(NpyArray* array) {
  const size_t rank = array->shape.size(), item = array->item, count = array->count();
  std::vector<size_t> index(rank, 0), stride(rank, 1);
  for (size_t d = 1; d < rank; ++d) stride[d] = stride[d - 1] * array->shape[d - 1];
  std::vector<unsigned char> out(array->bytes.size());
  size_t from = 0;
  for (size_t to = 0; to < count; ++to) {
    std::memcpy(&out[to * item], &array->bytes[from * item], item);
    for (size_t d = rank; d-- > 0;) {
      from += stride[d];
      if (++index[d] < array->shape[d]) break;
      from -= stride[d] * array->shape[d];
      index[d] = 0;
    }
  }
  array->bytes = std::move(out);
}

template <class T>
T load(const unsigned char* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

double half(const unsigned char* p) { return fp16_ieee_to_fp32_value(load<uint16_t>(p)); }

// A reader for each type of element. The table holds the types of the format that we accept.
struct Item {
  char kind;
  size_t size;
  double (*read)(const unsigned char*);
};
template <class T>
double number(const unsigned char* p) {
  return static_cast<double>(load<T>(p));
}
constexpr Item items[] = {{'f', 2, half},
                          {'f', 4, number<float>},
                          {'f', 8, number<double>},
                          {'i', 1, number<int8_t>},
                          {'i', 2, number<int16_t>},
                          {'i', 4, number<int32_t>},
                          {'i', 8, number<int64_t>},
                          {'u', 1, number<uint8_t>},
                          {'u', 2, number<uint16_t>},
                          {'u', 4, number<uint32_t>},
                          {'u', 8, number<uint64_t>},
                          {'b', 1, number<uint8_t>}};

const Item* find_item(char kind, size_t size) {
  const Item* item =
      std::find_if(std::begin(items), std::end(items), [&](const Item& i) { return i.kind == kind && i.size == size; });
  return item == std::end(items) ? nullptr : item;
}

struct Stored {
  char kind;
  size_t size;
};
char kind_of(qn_type type) {
  switch (type) {
    case QN_S8:
    case QN_S32:
    case QN_S64: return 'i';
    case QN_U8: return 'u';
    case QN_BOOL: return 'b';
    default: return 'f';
  }
}
Stored stored(qn_type type) { return {kind_of(type), qn_type_size(type)}; }

// Beyond 2^53 a double no longer tells neighbouring integers apart.
struct Integers {
  double low, high;
};
Integers integers(qn_type type) {
  switch (type) {
    case QN_S8: return {INT8_MIN, INT8_MAX};
    case QN_U8: return {0, UINT8_MAX};
    case QN_S32: return {INT32_MIN, INT32_MAX};
    case QN_BOOL: return {0, 1};
    default: return {-0x1p53, 0x1p53};
  }
}

}  // namespace

bool is_npy(std::string_view file) { return file.starts_with(magic); }

void swap_bytes(NpyArray* array) {
  std::vector<unsigned char>& bytes = array->bytes;
  if (array->item == 1) return;
  for (size_t i = 0; i + array->item <= bytes.size(); i += array->item)
    std::reverse(&bytes[i], &bytes[i] + array->item);
}

NpyArray decode_npy(std::string_view file, const std::string& who) {
  size_t data = 0;
  const Header header(header_text(file, who, &data), who);
  NpyArray array;
  size_t item = 0;
  const std::string_view descr = header.descr;
  if (descr.size() >= 3) std::from_chars(descr.data() + 2, descr.data() + descr.size(), item);
  if (descr.size() != 3 || std::string_view("<>|").find(descr[0]) == std::string_view::npos ||
      find_item(descr[1], item) == nullptr)
    throw Error(fmt::format("{}: elements of type {} are not supported", who, descr));
  array.kind = descr[1];
  array.item = item;
  array.shape = header.shape;
  const bool swapped = descr[0] == '>', fortran = header.fortran;
  size_t bytes = item;
  for (const size_t n : array.shape)
    if (!checked_mul(bytes, n, &bytes)) throw Error(fmt::format("{}: the shape is too large", who));
  if (bytes != file.size() - data)
    throw Error(fmt::format("{}: {} bytes of elements instead of {}", who, file.size() - data, bytes));
  array.bytes.assign(file.begin() + static_cast<std::ptrdiff_t>(data), file.end());
  if (swapped) swap_bytes(&array);
  if (fortran) to_row_major(&array);
  return array;
}

NpyArray read_npy(const std::string& path) { return decode_npy(read_file(path, max_array_bytes), path); }

void write_npy(const std::string& path, const qn_tensor& tensor, const void* data) {
  const Stored type = stored(tensor.type);
  std::string shape;
  for (uint32_t d = 0; d < tensor.rank; ++d) shape += fmt::format("{}, ", tensor.shape[d]);
  if (tensor.rank > 1) shape.resize(shape.size() - 2);
  if (tensor.rank == 1) shape.resize(shape.size() - 1);
  std::string header = fmt::format("{{'descr': '{}{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   type.size == 1 ? '|' : '<', type.kind, type.size, shape);
  // The elements begin at a multiple of 64; the header ends with a line feed.
  const size_t begin = round_up<size_t>(10 + header.size() + 1, 64);
  header.resize(begin - 11, ' ');
  header += '\n';
  std::string file(magic);
  file += {1, 0, static_cast<char>(header.size()), static_cast<char>(header.size() >> 8)};
  file += header;
  file.append(static_cast<const char*>(data), qn_tensor_bytes(&tensor));
  write_file(path, file);
}

std::vector<double> npy_doubles(const NpyArray& array) {
  const Item* item = find_item(array.kind, array.item);
  std::vector<double> out(array.count());
  for (size_t i = 0; i < out.size(); ++i) out[i] = item->read(&array.bytes[i * array.item]);
  return out;
}

std::vector<double> tensor_doubles(const qn_tensor& tensor, const void* data) {
  const Stored type = stored(tensor.type);
  const Item* item = find_item(type.kind, type.size);
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::vector<double> out(qn_tensor_bytes(&tensor) / type.size);
  for (size_t i = 0; i < out.size(); ++i) out[i] = item->read(bytes + i * type.size);
  return out;
}

std::vector<unsigned char> npy_as(const NpyArray& array, qn_type type, const std::string& who) {
  const Stored wanted = stored(type);
  if (array.kind == wanted.kind && array.item == wanted.size) {
    std::vector<unsigned char> bytes = array.bytes;
    if (type == QN_BOOL)
      std::replace_if(
          bytes.begin(), bytes.end(), [](unsigned char byte) { return byte > 1; }, 1);
    return bytes;
  }
  const std::vector<double> values = npy_doubles(array);
  std::vector<unsigned char> out(values.size() * wanted.size);
  for (size_t i = 0; i < values.size(); ++i) {
    unsigned char* to = &out[i * wanted.size];
    if (type == QN_F32) {
      const float value = static_cast<float>(values[i]);
      std::memcpy(to, &value, sizeof value);
    } else if (type == QN_F16) {
      const uint16_t value = fp16_ieee_from_fp32_value(static_cast<float>(values[i]));
      std::memcpy(to, &value, sizeof value);
    } else {
      const Integers range = integers(type);
      if (std::trunc(values[i]) != values[i] || !(values[i] >= range.low && values[i] <= range.high))
        throw Error(fmt::format("{}: expected integers that fit {}, got {}", who, qn_type_string(type), values[i]));
      const int64_t value = static_cast<int64_t>(values[i]);
      std::memcpy(to, &value, wanted.size);  // little-endian
    }
  }
  return out;
}

}  // namespace quern
