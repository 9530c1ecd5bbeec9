// The first 64 bytes of a .qn file. model.fbs describes the whole file.
#pragma once

#include <bit>
#include <cstdint>

namespace quern {

struct FileHeader {
  unsigned char magic[8];
  uint32_t version;
  uint32_t header_size;
  uint64_t file_size;
  uint64_t description_size;  // bytes of the FlatBuffer, which begins where the header ends
  uint64_t segments_offset;   // where the first segment may begin: a multiple of 64
  uint64_t reserved[3];       // 0
};
static_assert(sizeof(FileHeader) == 64);
static_assert(std::endian::native == std::endian::little, "the file is read in place");

// The file is no text. A transfer that changes line ends or strips the eighth bit damages these bytes, so a reader
// notices.
constexpr unsigned char file_magic[8] = {0x91, 'Q', 'N', 'M', '\r', '\n', 0x1a, '\n'};
constexpr uint32_t file_version = 1;
constexpr uint64_t segment_alignment = 64;

}  // namespace quern
