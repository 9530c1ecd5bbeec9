#include "convert/common/file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "graph/file/new_file.h"

namespace quern {
namespace {

[[noreturn]] void fail_with_errno(const std::string& path, const char* what) {
  throw Error(path + ": " + what + ": " + std::strerror(errno));
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

}  // namespace

std::string read_file(const std::string& path, uint64_t limit) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) fail_with_errno(path, "cannot open");
  if (!S_ISREG(status.st_mode)) throw Error(path + ": not a regular file");  // opening a pipe would block
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail_with_errno(path, "cannot open");
  std::string content;
  limit = std::min<uint64_t>(limit, content.max_size());
  if (static_cast<uint64_t>(status.st_size) > limit) {
    throw Error(path + ": larger than " + std::to_string(limit >> 20) + " MiB");
  }
  const auto size = static_cast<size_t>(status.st_size);
  content.resize(size);
  if (std::fread(content.data(), 1, size, file.get()) != size) fail_with_errno(path, "cannot read");
  return content;
}

void write_file(const std::string& path, const std::string& content) {
  NewFile file;
  expect_ok(file.create(path.c_str()));
  expect_ok(file.put(content.data(), content.size()));
  expect_ok(file.finish());
}

void keep_source(const std::string& source, const std::string& target) {
  std::error_code error;  // set if one of the files does not exist
  if (target.empty() || !std::filesystem::equivalent(source, target, error)) return;
  throw Error(target + ": the model is read from this file, which would be lost");
}

}  // namespace quern
