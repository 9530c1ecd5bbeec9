#include "tool/named_files.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstring>

namespace quern {

std::vector<std::vector<std::string>> name_files(const char* flag, const std::vector<std::string>& arguments,
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
      if (ports.size() != 1) {
        std::vector<std::string> names;
        for (const qn_port& p : ports) names.push_back(p.name);
        throw CLI::ValidationError(
            flag, fmt::format("\"{}\" must begin with one of the names {}, and '='", argument, fmt::join(names, ", ")));
      }
      port = 0;
    }
    files[port].push_back(argument.substr(length));
  }
  return files;
}

}  // namespace quern
