#include "tool/input/idx.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "convert/common/error.h"

namespace quern {
namespace {

constexpr size_t idx_magic_size = 4, idx_dimension_size = 4;

struct IdxType {
  unsigned char code;
  char kind;  // as NpyArray's
  size_t item;
};
constexpr IdxType idx_types[] = {{0x08, 'u', 1}, {0x09, 'i', 1}, {0x0b, 'i', 2},
                                 {0x0c, 'i', 4}, {0x0d, 'f', 4}, {0x0e, 'f', 8}};

// Returns NULL unless `file` begins like an idx file.
const IdxType* idx_type(std::string_view file) {
  if (file.size() < idx_magic_size || file[0] != 0 || file[1] != 0 || file[3] == 0) return nullptr;
  const auto* const type = std::find_if(std::begin(idx_types), std::end(idx_types), [&](const IdxType& t) {
    return t.code == static_cast<unsigned char>(file[2]);
  });
  return type == std::end(idx_types) ? nullptr : type;
}

}  // namespace

bool is_idx(std::string_view file) { return idx_type(file) != nullptr; }

NpyArray decode_idx(std::string_view file, const std::string& who) {
  const IdxType* const type = idx_type(file);
  if (type == nullptr) throw Error(fmt::format("{}: not an idx file", who));
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(file[i]); };
  const size_t rank = byte(3), begin = idx_magic_size + rank * idx_dimension_size;
  if (begin > file.size()) throw Error(fmt::format("{}: the file ends early", who));
  NpyArray array = {type->kind, type->item, {}, {}};
  size_t bytes = type->item;
  for (size_t at = idx_magic_size; at < begin; at += idx_dimension_size) {
    size_t n = 0;
    for (size_t i = 0; i < idx_dimension_size; ++i) n = n << 8 | byte(at + i);
    array.shape.push_back(n);
    if (!checked_mul(bytes, n, &bytes)) throw Error(fmt::format("{}: the shape is too large", who));
  }
  if (bytes != file.size() - begin)
    throw Error(fmt::format("{}: expected {} bytes of elements for shape {}, got {}", who, bytes,
                            fmt::join(array.shape, "x"), file.size() - begin));
  array.bytes.assign(file.begin() + static_cast<std::ptrdiff_t>(begin), file.end());
  swap_bytes(&array);
  return array;
}

}  // namespace quern
