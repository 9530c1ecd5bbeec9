#include "process.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace quern {
namespace {

std::string quote(const std::string& argument) {
  std::string text(1, '\'');
  for (const char c : argument) {
    if (c == '\'') text.append("'\\'");
    text.push_back(c);
  }
  text.push_back('\'');
  return text;
}

}  // namespace

std::string read_whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Result run_quern(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                 const Streams& streams) {
  std::string command = fmt::format("cd {} && {} {}", quote(folder.string()), QUERN_EMULATOR, quote(QUERN_COMMAND));
  for (const std::string& a : arguments) command += fmt::format(" {}", quote(a));
  command += fmt::format(" >{} 2>{} </dev/null", streams.out, streams.err);
  const int raw = std::system(command.c_str());
  const auto text = [&](const std::string& stream) { return stream[0] == '.' ? read_whole(folder / stream) : ""; };
  return {WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw), text(streams.out), text(streams.err)};
}

}  // namespace quern
