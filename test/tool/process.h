// The quern command as a process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace quern {

struct Result {
  int status;  // as shells report it: 128 + its number when a signal ended it
  std::string out, err;
};

// Where the shell sends what the command prints, such as "/dev/full", "&3" or "&-".
struct Streams {
  std::string out = ".out", err = ".err";
};

// Runs the command in `folder`. The result has the text of streams that go to the usual files.
Result run_quern(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                 const Streams& streams = {});

std::string read_whole(const std::filesystem::path& path);

}  // namespace quern
