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
  uint64_t description_size;  // bytes of the description, which begins where the header ends
  uint64_t segments_offset;   // where the first segment may begin: a multiple of 64
  // Of version 2 only; 0 in version 1:
  uint32_t description_bytes;     // of the FlatBuffer; as many as description_size if it is not coded
  uint32_t description_checksum;  // of the FlatBuffer (checksum() of coded.h)
  uint32_t numbers_bytes;         // of its end, which holds numbers; 0 if these are not coded apart
  uint32_t numbers_size;          // of the same as it is stored, which is the end of the description as it is stored
  uint64_t reserved;              // 0
};
static_assert(sizeof(FileHeader) == 64);
static_assert(std::endian::native == std::endian::little, "the file is read in place");

// The file is no text. A transfer that changes line ends or strips the eighth bit damages these bytes, so a reader
// notices.
constexpr unsigned char file_magic[8] = {0x91, 'Q', 'N', 'M', '\r', '\n', 0x1a, '\n'};
constexpr uint32_t plain_version = 1, coded_version = 2;
constexpr uint64_t segment_alignment = 64;  // of segments that are read where they lie: those that are not coded

// A coded description is small data (coder/small_coder.h) of this stride, except the numbers at its end: lists of scales,
// which the coder of weights decodes in a hundredth of the time. A longer one is not coded, because it would take a
// second.
constexpr size_t description_stride = 4;
constexpr uint64_t most_coded_description = uint64_t{1} << 20;

}  // namespace quern
