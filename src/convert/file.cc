#include "convert/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

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

std::string read_file(const std::string& path, size_t limit) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) fail_with_errno(path, "cannot open");
  if (!S_ISREG(status.st_mode)) throw Error(path + ": not a regular file");  // opening a pipe would wait
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail_with_errno(path, "cannot open");
  const auto size = static_cast<size_t>(status.st_size);
  if (size > limit) throw Error(path + ": larger than " + std::to_string(limit >> 20) + " MiB");
  std::string content(size, '\0');
  if (std::fread(content.data(), 1, size, file.get()) != size) fail_with_errno(path, "cannot read");
  return content;
}

void write_file(const std::string& path, const std::string& content) {
  const std::string temporary = path + ".tmp" + std::to_string(getpid());
  File file(std::fopen(temporary.c_str(), "wb"));
  if (!file) fail_with_errno(path, "cannot write");
  const bool written = std::fwrite(content.data(), 1, content.size(), file.get()) == content.size();
  const bool closed = std::fclose(file.release()) == 0;
  if (written && closed && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  const int reason = errno;
  std::remove(temporary.c_str());
  errno = reason;
  fail_with_errno(path, "cannot write");
}

}  // namespace quern
