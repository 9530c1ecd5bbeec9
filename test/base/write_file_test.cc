// The helper of tests that writes files.
#include "../write_file.h"

#include <gtest/gtest.h>

#include <iterator>

namespace quern::test {
namespace write_file_test {

TEST(WriteFile, ReplacesWhatWasThere) {
  const std::string path = ::testing::TempDir() + "file";
  for (const std::string text : {"longer text", "text"}) {
    write_file(path, text);
    std::ifstream file(path, std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
  }
}

TEST(WriteFile, AFullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  try {
    write_file("/dev/full", "text");
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "expected to write 4 bytes, found No space left on device: /dev/full");
  }
}

}  // namespace write_file_test
}  // namespace quern::test
