// Zip archives that nobody vouches for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

struct ZipEntry {
  std::string name;
  uint16_t method;      // 0: stored, 8: deflated
  uint16_t flags;       // bit 0: encrypted
  uint32_t crc;         // of the content
  size_t packed, size;  // bytes in the archive, and of the content
  size_t header;        // offset of the entry's own header in the archive
};

// An archive of less than 2 GiB: larger ones have another form (zip64). Methods throw Error.
class ZipArchive {
 public:
  // Reads the directory. `file` must outlive the archive; `who` names it in messages.
  ZipArchive(std::string_view file, std::string who);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  // Returns the content of an entry that is stored or deflated, after a check of its size and CRC.
  std::string read(const ZipEntry& entry) const;

 private:
  std::string_view file_;
  std::string who_;
  std::vector<ZipEntry> entries_;
};

}  // namespace quern
