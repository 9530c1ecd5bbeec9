// Gives each run of a test program a temporary folder of its own, and removes the folder at its end. TempDir() of
// googletest, std::filesystem::temp_directory_path() and child processes use it, so tests may choose fixed names.
#include <gtest/gtest.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace quern::test {
namespace {

constexpr uint64_t needed_mib = 64;  // the largest files of one test, with room for another test beside it

class Scratch : public testing::Environment {
 public:
  void SetUp() override {
    const char* set = std::getenv("TMPDIR");
    const std::string parent = set != nullptr && *set != '\0' ? set : "/tmp";
    struct statvfs system = {};
    std::string folder = parent + "/quern_test_XXXXXX";
    if (statvfs(parent.c_str(), &system) != 0 || mkdtemp(folder.data()) == nullptr) {
      refuse(std::string("expected a folder for temporary files, found ") + std::strerror(errno), parent);
    }
    const uint64_t free_mib = uint64_t{system.f_bavail} * system.f_frsize >> 20;
    if (free_mib < needed_mib) {
      rmdir(folder.c_str());
      refuse("expected " + std::to_string(needed_mib) + " MiB of space for temporary files, found " +
                 std::to_string(free_mib) + " MiB",
             parent);
    }
    parent_ = parent;
    folder_ = folder;
    use(folder);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    use(parent_);  // for the next iteration of --gtest_repeat
  }

 private:
  // Not a failure of googletest, which would print a line for every test that it skips then.
  [[noreturn]] static void refuse(const std::string& message, const std::string& folder) {
    std::fprintf(stderr, "%s: %s; set TMPDIR\n", message.c_str(), folder.c_str());
    std::exit(1);
  }
  static void use(const std::string& folder) {
    setenv("TMPDIR", folder.c_str(), 1);
    setenv("TEST_TMPDIR", folder.c_str(), 1);  // what googletest reads
  }

  std::string parent_, folder_;
};

[[maybe_unused]] const auto* const scratch = testing::AddGlobalTestEnvironment(new Scratch);

}  // namespace
}  // namespace quern::test
