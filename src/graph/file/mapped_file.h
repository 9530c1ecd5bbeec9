// Maps files into memory, for reading only.
#pragma once

#include <quern/graph.h>

#include <cstddef>
#include <cstdint>

#include "base/shared.h"

namespace quern {

class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  // Maps `size` bytes from `offset` on; false if the system refuses.
  bool map(int descriptor, uint64_t offset, size_t size);
  const void* data() const { return static_cast<const char*>(pages_) + skipped_; }
  size_t size() const { return size_; }

 private:
  void* pages_ = nullptr;
  size_t skipped_ = 0, size_ = 0;  // bytes of the first page before the data; bytes of the data
};

// Gives the memory of a part of a mapped file back to the system until somebody reads the part again. The page in which
// the part begins is given back, too, because the caller has already read everything before the part. The page in which
// the part ends is kept.
void forget_pages(const void* data, size_t bytes);

// Maps a regular file; an empty one is an error.
qn_status map_file(const char* path, Shared<const MappedFile>* file);

// Maps a part of an open regular file: `length` bytes from `offset` on, or everything (QN_TO_END). `name` stands for
// the file in messages. An empty part is an error.
qn_status map_part(int descriptor, uint64_t offset, uint64_t length, const char* name, Shared<const MappedFile>* file);

}  // namespace quern
