#include "data_sets.h"

#include <zlib.h>

#include <cstdint>

namespace quern {
namespace {

std::string little_endian(uint64_t value, size_t bytes) {
  std::string text;
  for (; text.size() < bytes; value >>= 8) text += static_cast<char>(value);
  return text;
}

std::string deflate_all(const std::string& content) {
  z_stream stream = {};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, static_cast<uLong>(content.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

std::string make_npy(const std::string& descr, const std::vector<size_t>& shape, const std::string& data,
                     bool fortran) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': (";
  for (const size_t n : shape) header += std::to_string(n) + ",";
  header += "), }";
  header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  return "\x93NUMPY\1" + std::string(1, '\0') + little_endian(header.size(), 2) + header + data;
}

std::string make_idx(unsigned type, const std::vector<size_t>& shape, const std::string& data) {
  std::string file(2, '\0');
  file += static_cast<char>(type);
  file += static_cast<char>(shape.size());
  for (const size_t n : shape)
    for (const int shift : {24, 16, 8, 0}) file += static_cast<char>(n >> shift);
  return file + data;
}

std::string make_zip(const std::vector<std::pair<std::string, std::string>>& files, bool deflated) {
  std::string archive, directory;
  for (const auto& [name, content] : files) {
    const std::string packed = deflated ? deflate_all(content) : content;
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    // Version, flags, method, time and date, checksum, sizes, length of the name, no extra field.
    const std::string common = little_endian(20, 2) + little_endian(0, 2) + little_endian(deflated ? 8 : 0, 2) +
                               little_endian(0, 4) + little_endian(sum, 4) + little_endian(packed.size(), 4) +
                               little_endian(content.size(), 4) + little_endian(name.size(), 2) + little_endian(0, 2);
    // No comment, the first disk, attributes, the offset of the entry.
    directory +=
        "PK\1\2" + little_endian(20, 2) + common + little_endian(0, 10) + little_endian(archive.size(), 4) + name;
    archive += "PK\3\4" + common + name + packed;
  }
  return archive + directory + "PK\5\6" + little_endian(0, 4) + little_endian(files.size(), 2) +
         little_endian(files.size(), 2) + little_endian(directory.size(), 4) + little_endian(archive.size(), 4) +
         little_endian(0, 2);
}

}  // namespace quern
