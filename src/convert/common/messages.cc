#include "convert/common/messages.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "convert/common/error.h"

namespace quern::convert {

void UnsupportedList::add(const std::string& name, const std::string& type, const std::string& reason) {
  const std::string what = type + (reason.empty() ? "" : ": " + reason);
  const auto [at, fresh] = index_.try_emplace(what, operators_.size());
  if (fresh) operators_.push_back({what, name.empty() ? "unnamed" : name});
  ++operators_[at->second].nodes;
}

void UnsupportedList::add_part(const std::string& part, const std::string& reason) {
  parts_ += (parts_.empty() ? "" : ", ") + part + " (" + reason + ")";
}

std::string UnsupportedList::text() const {
  std::string text;
  for (const Operator& op : operators_) {
    const std::string count = op.nodes == 1 ? "1 node: " : std::to_string(op.nodes) + " nodes, first: ";
    text += (text.empty() ? "" : ", ") + op.what + " (" + count + op.first + ")";
  }
  return text + (text.empty() || parts_.empty() ? "" : ", ") + parts_;
}

void UnsupportedList::throw_if_any() const {
  if (empty()) return;
  const size_t count = operators_.size();
  const std::string subject = count == 0   ? ""
                              : count == 1 ? "1 operator is "
                                           : std::to_string(count) + " operators are ";
  throw Error(subject + "not supported: " + text());
}

namespace {
// Returns the number of bytes of the character at the beginning of `text`; 0 if no valid character is there, or a
// control character.
size_t character_size(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f;
  const size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc0 || byte(0) >= 0xf8 || text.size() < size) return 0;
  uint32_t code = byte(0) & (0x7fu >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr uint32_t smallest[] = {0, 0, 0xa0, 0x800, 0x10000};  // below 0xa0 are controls
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code >= smallest[size] && !surrogate && code <= 0x10ffff ? size : 0;
}
}  // namespace

std::string plain_name(const std::string& name, size_t limit) {
  std::string plain;
  for (std::string_view rest = name; !rest.empty();) {
    const size_t size = character_size(rest);
    if (plain.size() + std::max<size_t>(size, 1) > limit) break;
    size > 0 ? plain.append(rest.substr(0, size)) : plain.append("?");
    rest.remove_prefix(std::max<size_t>(size, 1));
  }
  return plain;
}

float finite(float value, const std::string& where) {
  if (!std::isfinite(value)) throw Error(where + " is not a finite number");
  return value;
}

}  // namespace quern::convert
