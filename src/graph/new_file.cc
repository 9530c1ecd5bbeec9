#include "graph/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/status.h"

namespace quern {

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

qn_status NewFile::failed(const char* why) const {
  return fail(QN_IO_ERROR, "%s: cannot write: %s", path_.c_str(), why);
}

qn_status NewFile::find_target() {
  char resolved[PATH_MAX];
  struct stat status;
  if (realpath(path_.c_str(), resolved) == nullptr) {
    const int reason = errno;
    if (lstat(path_.c_str(), &status) == 0) return failed(std::strerror(reason));  // a link to nowhere
    target_ = path_;
    return QN_OK;
  }
  target_ = resolved;
  if (stat(resolved, &status) != 0) return failed(std::strerror(errno));
  return S_ISREG(status.st_mode) ? QN_OK : failed("not a regular file");
}

qn_status NewFile::create(const char* path) {
  path_ = path;
  QN_TRY(find_target());
  temporary_ = target_;
  temporary_ += ".part";
  temporary_ += std::to_string(getpid()).c_str();
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  return descriptor_ < 0 ? failed(std::strerror(errno)) : QN_OK;
}

qn_status NewFile::put(const void* data, size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(descriptor_, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failed(std::strerror(errno));
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return QN_OK;
}

qn_status NewFile::finish() {
  if (fsync(descriptor_) != 0 || std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    return failed(std::strerror(errno));
  }
  close(std::exchange(descriptor_, -1));
  return QN_OK;
}

}  // namespace quern
