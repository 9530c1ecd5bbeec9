// The quern command as a process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace quern {

struct Result {
  int status;  // 128 when a signal ended it
  std::string out, err;
};

// Runs the command in `folder`, standard error going to a file, or to `terminal` where that is given.
Result run_quern(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                 const std::string& terminal = "");

std::string read_whole(const std::filesystem::path& path);

}  // namespace quern
