#include "graph/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/memory.h"
#include "base/needs.h"
#include "base/status.h"

namespace quern {
namespace {

struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) close(value);
  }
};

qn_status fail_system(const char* path) {
  return fail(QN_IO_ERROR, "%s: %s", path, trimmed ? "" : std::strerror(errno));
}

}  // namespace

bool MappedFile::map(int descriptor, size_t size) {
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) return false;
  data_ = data, size_ = size;
  return true;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

void forget_pages(const void* data, size_t bytes) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = address / page * page, end = (address + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // private, never written
}

qn_status map_file(const char* path, std::shared_ptr<const MappedFile>* file) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const Descriptor descriptor = {open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (descriptor.value < 0) return fail_system(path);
  struct stat status;
  if (fstat(descriptor.value, &status) != 0) return fail_system(path);
  if (!S_ISREG(status.st_mode)) return fail(QN_IO_ERROR, "%s: not a regular file", path);
  if (status.st_size == 0) return fail(QN_BAD_MODEL, "%s: the file is empty", path);
  if (static_cast<uint64_t>(status.st_size) > PTRDIFF_MAX) {
    return fail(QN_IO_ERROR, "%s: the file is larger than the address space", path);
  }
  auto mapped = make_shared<MappedFile>();
  if (!mapped->map(descriptor.value, static_cast<size_t>(status.st_size))) {
    return fail_system(path);
  }
  *file = std::move(mapped);
  return QN_OK;
}

}  // namespace quern
