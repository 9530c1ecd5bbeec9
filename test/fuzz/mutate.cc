#include "mutate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <zlib.h>

#include "base/math.h"
#include "graph/coder/small_coder.h"
#include "graph/file/coded.h"
#include "graph/file/description.h"
#include "graph/file/file_header.h"
#include "graph/file/model_generated.h"

namespace quern {
namespace {

// `n` of nothing is 0, so that callers need not care about empty files.
size_t below(Random& random, size_t n) { return n == 0 ? 0 : static_cast<size_t>(random() % n); }

// Numbers at the edges of the types that files hold.
uint64_t extreme(Random& random) {
  static constexpr uint64_t values[] = {0,          1,
                                        2,          3,
                                        6,          7,
                                        8,          15,
                                        16,         127,
                                        128,        255,
                                        256,        1000,
                                        32767,      32768,
                                        65535,      65536,
                                        1000003,    0x00ffffff,
                                        0x3fffffff, 0x40000000,
                                        0x7fffffff, 0x80000000,
                                        0xffffffff, 0x100000000,
                                        0x7f800000, 0x7fc00000,
                                        1ull << 40, 1ull << 62,
                                        INT64_MAX,  1ull << 63,
                                        UINT64_MAX, UINT64_MAX - 1};
  return values[below(random, std::size(values))];
}

// ---- any bytes ------------------------------------------------------------------------------------------------------

std::string truncate(std::string s, Random& random) {
  s.resize(below(random, s.size()));
  return s;
}

std::string flip_bits(std::string s, Random& random) {
  const size_t count = size_t{1} << below(random, 5);
  for (size_t i = 0; i < count && !s.empty(); ++i)
    s[below(random, s.size())] ^= static_cast<char>(1u << below(random, 8));
  return s;
}

std::string set_word(std::string s, Random& random) {
  const size_t width = size_t{1} << below(random, 4);
  if (s.size() < width) return s;
  const uint64_t value = extreme(random);
  std::memcpy(&s[below(random, s.size() / width) * width], &value, width);
  return s;
}

// Keeps the size.
std::string damage(const std::string& s, Random& random) {
  return random() % 2 ? set_word(s, random) : flip_bits(s, random);
}

std::string erase_range(std::string s, Random& random) {
  const size_t at = below(random, s.size());
  return s.erase(at, 1 + below(random, std::min<size_t>(s.size(), 256)));
}

std::string repeat_range(std::string s, Random& random) {
  const size_t at = below(random, s.size());
  const std::string part = s.substr(at, 1 + below(random, 256));
  return s.insert(at, part);
}

std::string fill_range(std::string s, Random& random) {
  const size_t at = below(random, s.size()), size = std::min(s.size() - at, 1 + below(random, 512));
  std::fill_n(s.begin() + static_cast<std::ptrdiff_t>(at), size, random() % 2 ? '\0' : '\xff');
  return s;
}

// Oversized: the content and then a great deal more.
std::string append_junk(std::string s, Random& random) {
  const size_t size = size_t{1} << below(random, 21);
  const char fill = static_cast<char>(random());
  for (size_t i = 0; i < size; ++i) s += random() % 2 ? fill : static_cast<char>(random());
  return s;
}

// ---- protobuf -------------------------------------------------------------------------------------------------------

bool read_varint(const std::string& s, size_t* at, uint64_t* value) {
  *value = 0;
  for (unsigned shift = 0; shift < 64 && *at < s.size(); shift += 7) {
    const unsigned char byte = static_cast<unsigned char>(s[(*at)++]);
    *value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

std::string varint(uint64_t value) {
  std::string s;
  for (; value >= 128; value >>= 7) s += static_cast<char>(value | 128);
  return s + static_cast<char>(value);
}

struct Field {
  uint64_t tag;
  uint64_t number;    // wire type 0
  std::string bytes;  // any other
};

// Splits a message into its fields; false if it is none.
bool split(const std::string& s, std::vector<Field>* fields) {
  fields->clear();
  for (size_t at = 0; at < s.size();) {
    Field f{};
    if (!read_varint(s, &at, &f.tag) || f.tag >> 3 == 0) return false;
    uint64_t size = 0;
    switch (f.tag & 7) {
      case 0:
        if (!read_varint(s, &at, &f.number)) return false;
        break;
      case 1: size = 8; break;
      case 5: size = 4; break;
      case 2:
        if (!read_varint(s, &at, &size)) return false;
        break;
      default: return false;
    }
    if (size > s.size() - at) return false;
    f.bytes = s.substr(at, size);
    at += size;
    fields->push_back(std::move(f));
  }
  return true;
}

std::string join(const std::vector<Field>& fields) {
  std::string s;
  for (const Field& f : fields) {
    s += varint(f.tag);
    if ((f.tag & 7) == 0) s += varint(f.number);
    if ((f.tag & 7) == 2) s += varint(f.bytes.size());
    s += f.bytes;
  }
  return s;
}

// Goes down a random path of the message and damages one field there; all lengths above stay right.
std::string mutate_message(const std::string& s, Random& random) {
  std::vector<Field> fields, inner;
  if (!split(s, &fields) || fields.empty()) return flip_bits(s, random);
  const size_t i = below(random, fields.size());
  Field& f = fields[i];
  const bool message = (f.tag & 7) == 2 && split(f.bytes, &inner) && !inner.empty();
  if (message && below(random, 8) != 0) {
    f.bytes = mutate_message(f.bytes, random);
    return join(fields);
  }
  const auto here = fields.begin() + static_cast<std::ptrdiff_t>(i);
  switch (below(random, 8)) {
    case 0: fields.erase(here); break;
    case 1: fields.insert(here, 1 + below(random, 3), Field(f)); break;
    case 2: std::swap(f, fields[below(random, fields.size())]); break;
    case 3: f.tag = (f.tag & 7) | (1 + below(random, 30)) << 3; break;
    default:
      f.number = extreme(random);
      f.bytes = (f.tag & 7) == 2 && random() % 2 ? truncate(f.bytes, random) : set_word(f.bytes, random);
  }
  return join(fields);
}

// ---- text -----------------------------------------------------------------------------------------------------------

std::string mutate_number(std::string s, Random& random) {
  static const std::array<const char*, 12> words = {"0",
                                                    "-1",
                                                    "1e38",
                                                    "99999999999999999999",
                                                    "2147483647",
                                                    "4294967295",
                                                    "-9223372036854775808",
                                                    "0x7fffffff",
                                                    "1e400",
                                                    "18446744073709551615",
                                                    "nan",
                                                    "\"\""};
  const size_t start = below(random, s.size());
  for (size_t at = start; at < s.size(); ++at) {
    if (!std::isdigit(static_cast<unsigned char>(s[at]))) continue;
    size_t end = at;
    while (end < s.size() && std::isdigit(static_cast<unsigned char>(s[end]))) ++end;
    return s.replace(at, end - at, words[below(random, words.size())]);
  }
  return s;
}

std::string mutate_line(const std::string& s, Random& random) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < s.size();) {
    const size_t end = std::min(s.find('\n', at), s.size() - 1) + 1;
    lines.push_back(s.substr(at, end - at));
    at = end;
  }
  if (lines.empty()) return s;
  const size_t i = below(random, lines.size());
  const auto here = lines.begin() + static_cast<std::ptrdiff_t>(i);
  switch (below(random, 4)) {
    case 0: lines.erase(here); break;
    case 1: lines.insert(here, 1 + below(random, 40), std::string(lines[i])); break;
    case 2: std::swap(lines[i], lines[below(random, lines.size())]); break;
    default: {  // a very deep or very long place
      static const char* const tokens[] = {"{ ", "} ", "layer { ",       "name: \"",
                                           "\\", "[",  "bottom: \"x\" ", "dim: 65536 "};
      std::string deep;
      const char* token = tokens[below(random, std::size(tokens))];
      for (size_t n = size_t{1} << below(random, 16); n > 0; --n) deep += token;
      lines.insert(here, deep + "\n");
    }
  }
  std::string joined;
  for (const std::string& line : lines) joined += line;
  return joined;
}

// ---- png ------------------------------------------------------------------------------------------------------------

uint32_t big_endian(const std::string& s, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(s[at + i]);
  return value;
}

void put_big_endian(std::string* s, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) (*s)[at + i] = static_cast<char>(value >> (24 - 8 * i));
}

// Damages the content of one chunk and makes its checksum right, or repeats or drops a whole chunk.
std::string mutate_chunk(std::string s, Random& random) {
  struct Chunk {
    size_t at, size;
  };
  std::vector<Chunk> chunks;
  for (size_t at = 8; at + 12 <= s.size();) {
    const size_t size = big_endian(s, at);
    if (size > s.size() - at - 12) break;
    chunks.push_back({at, size});
    at += size + 12;
  }
  if (chunks.empty()) return flip_bits(s, random);
  const Chunk c = chunks[below(random, chunks.size())];
  const std::string whole = s.substr(c.at, c.size + 12);
  switch (below(random, 6)) {
    case 0: return s.erase(c.at, whole.size());
    case 1: return s.insert(c.at, whole);
    default: break;
  }
  std::string data = s.substr(c.at + 8, c.size);
  if (whole.substr(4, 4) == "IHDR" && random() % 2) {
    put_big_endian(&data, 4 * below(random, 2), static_cast<uint32_t>(extreme(random)));
  } else if (!data.empty()) {
    data = damage(data, random);
  }
  s.replace(c.at + 8, c.size, data);
  const auto* begin = reinterpret_cast<const unsigned char*>(s.data()) + c.at + 4;
  put_big_endian(&s, c.at + 8 + c.size, static_cast<uint32_t>(crc32(0, begin, static_cast<uInt>(c.size + 4))));
  return s;
}

// ---- quern ----------------------------------------------------------------------------------------------------------

// Header and description, without the weights that follow.
std::string mutate_head(const std::string& s, Random& random) {
  uint64_t size = 0;
  if (s.size() >= sizeof(FileHeader)) std::memcpy(&size, &s[offsetof(FileHeader, description_size)], sizeof size);
  const size_t end = static_cast<size_t>(std::min<uint64_t>(sizeof(FileHeader) + size, s.size()));
  return damage(s.substr(0, end), random) + s.substr(end);
}

std::span<const unsigned char> bytes_of(const std::string& s) {
  return {reinterpret_cast<const unsigned char*>(s.data()), s.size()};
}

// A file of version 2 whose description is decoded. The checksums of such a file hide from plain damage what is behind
// them.
struct CodedFile {
  FileHeader header;
  std::string description, segments;
};

// Returns false if `s` is no such file, or a damaged one.
bool decode(const std::string& s, CodedFile* to) {
  FileHeader& h = to->header;
  if (s.size() < sizeof h) return false;
  std::memcpy(&h, s.data(), sizeof h);
  constexpr size_t most = 1 << 16;  // of a description: decoding more takes long
  if (h.version != coded_version || h.description_bytes > most || h.description_size > s.size() - sizeof h ||
      h.segments_offset > s.size() || h.numbers_bytes > h.description_bytes || h.numbers_size > h.description_size) {
    return false;
  }
  to->segments = s.substr(h.segments_offset);
  to->description = s.substr(sizeof h, h.description_size);
  if (h.description_bytes == h.description_size) return true;
  const std::span<const unsigned char> words = bytes_of(s).subspan(sizeof h, h.description_size - h.numbers_size);
  const std::span<const unsigned char> numbers = bytes_of(s).subspan(sizeof h + words.size(), h.numbers_size);
  to->description.resize(h.description_bytes);
  auto* const bytes = reinterpret_cast<unsigned char*>(to->description.data());
  const size_t coded = h.description_bytes - h.numbers_bytes;
  return decode_small(words, description_stride, bytes, coded) &&
         (h.numbers_bytes == 0 || decode_whole(numbers, h.numbers_bytes, sizeof(float), bytes + coded) == QN_OK);
}

struct Part {
  size_t begin, size;
};

// Finds the segments, without the checksums at their ends. There are none if the description is damaged.
std::vector<Part> segments_of(const CodedFile& file) {
  std::vector<Part> parts;
  const std::span<const unsigned char> description = bytes_of(file.description);
  if (!verify_description(description.data(), description.size())) return parts;
  const auto* const segments = format::GetModel(description.data())->segments();
  if (segments == nullptr) return parts;
  uint64_t end = 0;
  for (const format::Segment* const segment : *segments) {
    const uint64_t begin = segment->encoding() == format::Encoding::coded ? end : segment->offset();
    const uint64_t size = segment->stored();
    if (begin < end || begin > file.segments.size()) break;
    if (size < checksum_bytes || size > file.segments.size() - begin) break;
    parts.push_back({static_cast<size_t>(begin), static_cast<size_t>(size - checksum_bytes)});
    end = begin + size;
  }
  return parts;
}

// Makes a file whose checksums are right. Its description is not coded.
std::string encode(CodedFile file) {
  for (const Part& part : segments_of(file)) {
    const uint32_t sum = checksum(bytes_of(file.segments).subspan(part.begin, part.size));
    std::memcpy(&file.segments[part.begin + part.size], &sum, sizeof sum);
  }
  FileHeader& h = file.header;
  h.description_size = h.description_bytes = static_cast<uint32_t>(file.description.size());
  h.description_checksum = checksum(bytes_of(file.description));
  h.numbers_bytes = h.numbers_size = 0;
  h.segments_offset = round_up<uint64_t>(sizeof h + h.description_size, segment_alignment);
  h.file_size = h.segments_offset + file.segments.size();
  std::string s(reinterpret_cast<const char*>(&h), sizeof h);
  s += file.description;
  s.resize(h.segments_offset);
  return s + file.segments;
}

// Damages the description or, in files of version 2, a segment; files of version 1 are mostly weights of floats, where
// damage does nothing.
std::string mutate_quern(const std::string& s, Random& random) {
  CodedFile file;
  if (random() % 4 == 0 || !decode(s, &file)) return mutate_head(s, random);
  const std::vector<Part> parts = segments_of(file);
  if (parts.empty() || random() % 2 == 0) {
    file.description = damage(file.description, random);
  } else {
    const Part& part = parts[below(random, parts.size())];
    file.segments.replace(part.begin, part.size, damage(file.segments.substr(part.begin, part.size), random));
  }
  return encode(std::move(file));
}

// ---- choice ---------------------------------------------------------------------------------------------------------

struct Mutation {
  const char* name;
  std::string (*apply)(std::string, Random&);
};

constexpr Mutation general[] = {{"truncated", truncate},          {"bits flipped", flip_bits},
                                {"word replaced", set_word},      {"range erased", erase_range},
                                {"range repeated", repeat_range}, {"range filled", fill_range},
                                {"junk appended", append_junk}};

std::string special(const std::string& s, Format format, Random& random) {
  switch (format) {
    case Format::protobuf: return mutate_message(s, random);
    case Format::text: return random() % 2 ? mutate_number(s, random) : mutate_line(s, random);
    case Format::png: return mutate_chunk(s, random);
    case Format::quern: return mutate_quern(s, random);
    default: return set_word(s, random);
  }
}

std::string mutate_whole(const std::string& valid, Format format, Random& random, std::string* what) {
  if (random() % 2 != 0) {
    const Mutation& mutation = general[below(random, std::size(general))];
    *what = mutation.name;
    return mutation.apply(valid, random);
  }
  *what = "content changed";
  std::string s = special(valid, format, random);
  while (random() % 4 == 0) s = special(s, format, random);
  return s;
}

}  // namespace

std::string mutate(const std::string& valid, Format format, Random& random, std::string* what) {
  if (format != Format::text_and_protobuf && format != Format::text_and_bytes) {
    return mutate_whole(valid, format, random, what);
  }
  const size_t text = std::min(valid.find('\0'), valid.size());
  if (random() % 2 != 0) return mutate_whole(valid.substr(0, text), Format::text, random, what) + valid.substr(text);
  const Format second = format == Format::text_and_protobuf ? Format::protobuf : Format::bytes;
  const size_t begin = std::min(text + 1, valid.size());
  return valid.substr(0, begin) + mutate_whole(valid.substr(begin), second, random, what);
}

}  // namespace quern
