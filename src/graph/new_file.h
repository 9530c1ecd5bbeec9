// A file under construction.
#pragma once

#include "graph/ir.h"

namespace quern {

// It gets its name when it is complete, and leaves nothing behind otherwise. Only regular files are replaced: renaming
// over a device or a pipe would remove it. Where `path` is a link, what it points to is replaced.
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
  qn_status find_target();

  String path_, target_, temporary_;
  int descriptor_ = -1;
};

}  // namespace quern
