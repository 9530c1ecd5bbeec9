// A file as memory, read only.
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
  // `size` bytes from `offset` on.
  bool map(int descriptor, uint64_t offset, size_t size);
  const void* data() const { return static_cast<const char*>(pages_) + skipped_; }
  size_t size() const { return size_; }

 private:
  void* pages_ = nullptr;
  size_t skipped_ = 0, size_ = 0;  // of the first page, what lies before the data; bytes of the data
};

// Lets go of the memory of part of a mapped file until it is read again. What lies before it was read, too: the page it
// begins in goes, the one it ends in stays.
void forget_pages(const void* data, size_t bytes);

// Maps a regular file; an empty one is an error.
qn_status map_file(const char* path, Shared<const MappedFile>* file);

// Maps a part of a regular file that is open: `length` bytes, or QN_TO_END, from `offset` on. `name` stands for the
// file in messages. An empty part is an error.
qn_status map_part(int descriptor, uint64_t offset, uint64_t length, const char* name, Shared<const MappedFile>* file);

}  // namespace quern
