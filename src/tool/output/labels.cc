#include "tool/output/labels.h"

#include <fmt/format.h>

#include <fstream>

#include "convert/common/layout.h"

namespace quern {

std::vector<std::string> read_labels(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(fmt::format("cannot open {}", path));
  std::vector<std::string> labels;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    labels.push_back(line);
  }
  if (file.bad()) throw Error(fmt::format("cannot read {}", path));  // a folder, for example
  if (labels.empty()) throw Error(fmt::format("{}: no labels in it", path));
  return labels;
}

Vector<String> stored_labels(const std::vector<std::string>& labels, const std::string& who) {
  Vector<String> stored;
  for (const std::string& label : labels) {
    if (convert::plain_name(label) != label)
      throw Error(fmt::format("{}: line {} is longer than {} bytes, or no plain UTF-8", who, stored.size() + 1,
                              convert::name_limit));
    stored.push_back(String(label.c_str()));
  }
  return stored;
}

std::string label_of(const std::vector<std::string>& labels, size_t label) {
  return label < labels.size() && !labels[label].empty() ? labels[label] : fmt::format("class {}", label);
}

}  // namespace quern
