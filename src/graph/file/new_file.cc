#include "graph/file/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

// Finds the file to write, behind links. Sets `replaced` to the description of the existing file, or its mode to 0 if
// there is no such file.
qn_status NewFile::find_target(struct stat* replaced) {
  char resolved[PATH_MAX];
  while (realpath(path_.c_str(), resolved) == nullptr) {
    const int reason = errno;
    if (lstat(path_.c_str(), replaced) != 0) {
      target_ = path_;
      replaced->st_mode = 0;
      return QN_OK;
    }
    // A link to nowhere, for example. But if there was no file, another thread has made one since: try again.
    if (reason != ENOENT || S_ISLNK(replaced->st_mode)) return failed(std::strerror(reason));
  }
  target_ = resolved;
  if (stat(resolved, replaced) != 0) return failed(std::strerror(errno));
  return S_ISREG(replaced->st_mode) ? QN_OK : failed("not a regular file");
}

// Opens a file beside the target under a name that is free. A name may be taken by another thread, by a process in
// another container with the same process number, or by the file that a killed process left behind.
qn_status NewFile::open_temporary(mode_t mode) {
  static std::atomic<unsigned> files{0};
  constexpr int attempts = 10000;
  for (int i = 0; i < attempts; ++i) {
    char suffix[64];
    std::snprintf(suffix, sizeof suffix, ".part%ld_%u", static_cast<long>(getpid()), files++);
    temporary_ = target_;
    temporary_ += suffix;
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor_ >= 0) return QN_OK;
    if (errno != EEXIST) break;
  }
  return failed(std::strerror(errno));
}

// Lets those users read the new file who may read the replaced file, and nobody else. If the group cannot be kept, the
// new group gets no more permissions than all other users have.
void NewFile::take_permissions(const struct stat& replaced) const {
  mode_t mode = replaced.st_mode & 0777;
  const bool has_group = fchown(descriptor_, replaced.st_uid, replaced.st_gid) == 0 ||
                         fchown(descriptor_, static_cast<uid_t>(-1), replaced.st_gid) == 0;
  if (!has_group) mode = static_cast<mode_t>(mode & (0707 | (mode & 07) << 3));
  fchmod(descriptor_, mode);  // file systems without modes refuse
}

qn_status NewFile::create(const char* path) {
  path_ = path;
  struct stat replaced;
  QN_TRY(find_target(&replaced));
  const bool replaces = replaced.st_mode != 0;
  QN_TRY(open_temporary(replaces ? 0600 : 0666));
  if (replaces) take_permissions(replaced);
  return QN_OK;
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
