#include "tool/input/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <utility>

#include "convert/common/error.h"

namespace quern {
namespace {

constexpr size_t max_ratio = 1032;                                     // bytes that deflate can make of one
constexpr uint64_t in_zip64 = 0xffffffff;                              // a value that only the records of zip64 have
constexpr size_t end_size = 22, directory_size = 46, local_size = 30;  // records without their variable parts
constexpr size_t max_comment = 0xffff;

// A record of an archive: little-endian numbers behind a signature.
class Record {
 public:
  Record(std::string_view file, size_t at, std::string_view signature, size_t size, const std::string& who) {
    if (at > file.size() || size > file.size() - at || file.substr(at, signature.size()) != signature)
      throw Error(fmt::format("{}: damaged archive: a record is missing at byte {}", who, at));
    bytes_ = file.substr(at, size);
  }
  uint16_t u16(size_t at) const { return static_cast<uint16_t>(number(at, 2)); }
  uint32_t u32(size_t at) const { return static_cast<uint32_t>(number(at, 4)); }

 private:
  uint64_t number(size_t at, size_t count) const {
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes_[at + i]);
    return value;
  }
  std::string_view bytes_;
};

// Returns the record at the end of the archive, behind which only a comment may follow.
Record end_record(std::string_view file, const std::string& who) {
  const size_t first = file.size() - std::min(file.size(), end_size + max_comment);
  const size_t at = file.substr(first).rfind("PK\5\6");
  if (at == std::string_view::npos) throw Error(fmt::format("{}: the archive ends early: it has no directory", who));
  return {file, first + at, "PK\5\6", end_size, who};
}

std::string inflate_all(std::string_view packed, size_t size, const std::string& who) {
  if (size / max_ratio > packed.size())
    throw Error(fmt::format("{}: damaged archive: {} bytes cannot inflate to {}", who, packed.size(), size));
  std::string out(size, '\0');
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw Error(fmt::format("{}: zlib cannot start", who));
  Bytef nothing = 0;  // zlib wants an address even for no bytes
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = size == 0 ? &nothing : reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(size);
  const int status = inflate(&stream, Z_FINISH);
  const bool whole = status == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  if (!whole) throw Error(fmt::format("{}: damaged archive: the data do not inflate to {} bytes", who, size));
  return out;
}

}  // namespace

ZipArchive::ZipArchive(std::string_view file, std::string who) : file_(file), who_(std::move(who)) {
  const auto check_zip64 = [&](uint32_t value) {
    if (value == in_zip64)
      throw Error(fmt::format("{}: archives of 2 GiB and more (zip64) are not supported; use .npy files", who_));
  };
  const Record end = end_record(file_, who_);
  if (end.u16(4) != 0 || end.u16(6) != 0) throw Error(fmt::format("{}: a part of an archive on several disks", who_));
  size_t at = end.u32(16);
  check_zip64(end.u32(16));
  for (size_t left = end.u16(10); left > 0; --left) {
    const Record entry(file_, at, "PK\1\2", directory_size, who_);
    const size_t name = entry.u16(28);
    if (name > file_.size() - at - directory_size)
      throw Error(fmt::format("{}: damaged archive: a name is longer than the file", who_));
    for (const size_t field : {20, 24, 42}) check_zip64(entry.u32(field));
    entries_.push_back({std::string(file_.substr(at + directory_size, name)), entry.u16(10), entry.u16(8),
                        entry.u32(16), entry.u32(20), entry.u32(24), entry.u32(42)});
    at += directory_size + name + entry.u16(30) + entry.u16(32);
  }
}

std::string ZipArchive::read(const ZipEntry& entry) const {
  constexpr unsigned stored = 0, deflated = 8;
  const std::string who = fmt::format("{}: {}", who_, entry.name);
  if ((entry.flags & 1) != 0) throw Error(fmt::format("{}: encrypted", who));
  if (entry.method != stored && entry.method != deflated)
    throw Error(fmt::format("{}: expected stored or deflated data, got compression method {}", who, entry.method));
  const Record local(file_, entry.header, "PK\3\4", local_size, who);
  const size_t begin = entry.header + local_size + local.u16(26) + local.u16(28);
  if (begin > file_.size() || entry.packed > file_.size() - begin)
    throw Error(fmt::format("{}: the archive ends early", who));
  const std::string_view packed = file_.substr(begin, entry.packed);
  if (entry.method == stored && entry.packed != entry.size)
    throw Error(fmt::format("{}: damaged archive: {} bytes stored as {}", who, entry.size, entry.packed));
  std::string content = entry.method == stored ? std::string(packed) : inflate_all(packed, entry.size, who);
  if (crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()) != entry.crc)
    throw Error(fmt::format("{}: damaged archive: the checksum differs", who));
  return content;
}

}  // namespace quern
