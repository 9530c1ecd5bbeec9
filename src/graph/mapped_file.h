// A file as memory, read only.
#pragma once

#include <quern/base.h>

#include <cstddef>
#include <memory>

namespace quern {

class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  bool map(int descriptor, size_t size);
  const void* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Lets go of the memory of part of a mapped file until it is read again. What lies before it was read, too: the page it
// begins in goes, the one it ends in stays.
void forget_pages(const void* data, size_t bytes);

// Maps a regular file; an empty one is an error.
qn_status map_file(const char* path, std::shared_ptr<const MappedFile>* file);

}  // namespace quern
