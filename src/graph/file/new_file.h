// A file under construction.
#pragma once

#include <sys/stat.h>

#include "base/string.h"
#include "graph/ir/ir.h"

namespace quern {

// It gets its name when it is complete, and leaves nothing behind otherwise; of several writers of one name the last
// one wins. Only regular files are replaced: renaming over a device or a pipe would remove it. Where `path` is a link,
// what it points to is replaced. The new file has the permissions of the one it replaces, and its owner and group if
// the process may give them away.
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
