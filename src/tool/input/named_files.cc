#include "tool/input/named_files.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

namespace quern {
namespace {

// May the argument be a file without a name before it?
bool may_be_file(const std::string& argument) {
  std::error_code error;
  return argument.find('=') == std::string::npos || std::filesystem::exists(argument, error);
}

[[noreturn]] void fail_without_name(const char* flag, const char* what, const std::string& argument,
                                    const std::vector<qn_port>& ports) {
  std::vector<std::string> names;
  for (const qn_port& port : ports) names.push_back(port.name);
  const std::string all = fmt::format("{}", fmt::join(names, ", "));
  if (may_be_file(argument)) {
    throw CLI::ValidationError(flag, fmt::format("\"{}\" must begin with one of the names {}, and '='", argument, all));
  }
  const std::string name = argument.substr(0, argument.find('='));
  throw CLI::ValidationError(flag,
                             fmt::format("\"{}\": the model has no {} \"{}\", but {}", argument, what, name, all));
}

}  // namespace

std::vector<std::vector<std::string>> name_files(const char* flag, const char* what,
                                                 const std::vector<std::string>& arguments,
                                                 const std::vector<qn_port>& ports) {
  std::vector<std::vector<std::string>> files(ports.size());
  for (const std::string& argument : arguments) {
    size_t port = ports.size(), length = 0;
    for (size_t i = 0; i < ports.size(); ++i) {
      const std::string prefix = std::string(ports[i].name) + "=";
      if (argument.starts_with(prefix) && prefix.size() > length) {
        port = i;
        length = prefix.size();
      }
    }
    if (port == ports.size()) {
      if (ports.size() != 1 || !may_be_file(argument)) fail_without_name(flag, what, argument, ports);
      port = 0;
    }
    files[port].push_back(argument.substr(length));
  }
  return files;
}

}  // namespace quern
