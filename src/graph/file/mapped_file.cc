#include "graph/file/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/cpu.h"
#include "base/journal.h"
#include "base/needs.h"
#include "base/status.h"

namespace quern {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : value(descriptor) {
    if (value >= 0) note(this, static_cast<size_t>(value), [](void*, size_t open) { close(static_cast<int>(open)); });
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value < 0) return;
    forget(this);
    close(value);
  }

  const int value;
};

qn_status fail_system(const char* path) {
  return fail(QN_IO_ERROR, "%s: %s", path, has_messages ? std::strerror(errno) : "");
}

}  // namespace

bool MappedFile::map(int descriptor, uint64_t offset, size_t size) {
  const auto skipped = static_cast<size_t>(offset % cpu().page_bytes);
  void* pages = mmap(nullptr, skipped + size, PROT_READ, MAP_PRIVATE, descriptor, static_cast<off_t>(offset - skipped));
  if (pages == MAP_FAILED) return false;
  note(pages, skipped + size, [](void* mapped, size_t bytes) { munmap(mapped, bytes); });
  pages_ = pages, skipped_ = skipped, size_ = size;
  return true;
}

MappedFile::~MappedFile() {
  if (pages_ == nullptr) return;
  forget(pages_);
  munmap(pages_, skipped_ + size_);
}

void forget_pages(const void* data, size_t bytes) {
  const size_t page = cpu().page_bytes;
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = address / page * page, end = (address + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // no page has changed
}

qn_status map_part(int descriptor, uint64_t offset, uint64_t length, const char* name, Shared<const MappedFile>* file) {
  auto mapped = make_shared<MappedFile>();
  struct stat status;
  if (fstat(descriptor, &status) != 0) return fail_system(name);
  if (!S_ISREG(status.st_mode)) return fail(QN_IO_ERROR, "%s: not a regular file", name);
  const auto bytes = static_cast<uint64_t>(status.st_size);
  const uint64_t rest = offset > bytes ? 0 : bytes - offset;
  if (length == QN_TO_END) length = rest;
  if (offset > bytes || length > rest) {
    return fail(QN_INVALID_ARGUMENT, "%s: %llu bytes from byte %llu on, in a file of %llu", name,
                static_cast<unsigned long long>(length), static_cast<unsigned long long>(offset),
                static_cast<unsigned long long>(bytes));
  }
  if (length == 0) return fail(QN_BAD_MODEL, "%s: the file is empty", name);
  if (length > PTRDIFF_MAX - cpu().page_bytes)
    return fail(QN_IO_ERROR, "%s: the file is larger than the address space", name);
  if (!mapped->map(descriptor, offset, static_cast<size_t>(length))) return fail_system(name);
  *file = std::move(mapped);
  return QN_OK;
}

qn_status map_file(const char* path, Shared<const MappedFile>* file) {
  // O_NONBLOCK, because opening a named pipe must not wait for a writer.
  const Descriptor descriptor(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.value < 0) return fail_system(path);
  return map_part(descriptor.value, 0, QN_TO_END, path, file);
}

}  // namespace quern
