// Writes a file that appears under its name only when it is complete.
#pragma once

#include <sys/stat.h>

#include "base/string.h"
#include "graph/ir/ir.h"

namespace quern {

// The bytes go to a temporary file, which finish() renames. An incomplete file leaves nothing behind. If several
// writers write one name, the last one wins. The new file replaces only regular files, because renaming over a device
// or a pipe would remove that. If `path` is a link, the new file replaces the file that the link points to. It takes
// over the permissions of the replaced file, and its owner and group if the process may give files away.
class NewFile {
 public:
  NewFile() = default;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  qn_status create(const char* path);
  qn_status put(const void* data, size_t size);
  qn_status finish();

 private:
  qn_status failed(const char* why) const;
  qn_status find_target(struct stat* replaced);
  qn_status open_temporary(mode_t mode);
  void take_permissions(const struct stat& replaced) const;

  String path_, target_, temporary_;
  int descriptor_ = -1;
};

}  // namespace quern
