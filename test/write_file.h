// Writes files of tests. A full disk is an error there, not a shorter file that a test then misreads.
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace quern::test {

inline void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << content).flush()) {
    throw std::runtime_error("expected to write " + std::to_string(content.size()) + " bytes, found " +
                             std::strerror(errno) + ": " + path.string());
  }
}

}  // namespace quern::test
