#include "tool/input/truth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <initializer_list>
#include <optional>

#include "convert/common/error.h"

namespace quern {
namespace {

using Row = std::vector<std::string>;

// Takes one row off the front of `text`. Quotes surround values that hold commas; two quotes inside mean one.
Row take_row(std::string_view* text) {
  Row row(1);
  bool quoted = false;
  while (!text->empty()) {
    const char c = text->front();
    text->remove_prefix(1);
    if (c == '"') {
      if (quoted && !text->empty() && text->front() == '"') {
        row.back() += '"';
        text->remove_prefix(1);
      } else {
        quoted = !quoted;
      }
    } else if (c == ',' && !quoted) {
      row.emplace_back();
    } else if (c == '\n' && !quoted) {
      break;
    } else if (c != '\r' || quoted) {
      row.back() += c;
    }
  }
  return row;
}

std::optional<size_t> as_label(const std::string& text) {
  size_t label = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return label;
}

std::string as_key(std::string name) {
  for (char& c : name) c = c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

// Returns the column of the first of `names` that stands in the header.
size_t find_column(const Row& header, std::initializer_list<const char*> names, const std::string& who) {
  for (const char* name : names)
    for (size_t i = 0; i < header.size(); ++i)
      if (as_key(header[i]) == name) return i;
  throw Error(fmt::format("{}: no column \"{}\" in the header", who, *names.begin()));
}

}  // namespace

std::vector<LabelledImage> parse_truth(std::string_view text, const std::string& who) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  std::string_view rest = text;
  const Row first = take_row(&rest);
  size_t file = 0, label = 1, line = 0;
  if (first.size() < 2 || !as_label(first[1])) {
    file = find_column(first, {"file", "image", "filename"}, who);
    label = find_column(first, {"label_index", "label", "index", "class"}, who);
    text = rest;
    line = 1;
  }
  std::vector<LabelledImage> images;
  while (!text.empty()) {
    const Row row = take_row(&text);
    ++line;
    if (row.size() == 1 && row[0].empty()) continue;
    const std::optional<size_t> value = row.size() > std::max(file, label) ? as_label(row[label]) : std::nullopt;
    if (!value || row[file].empty()) throw Error(fmt::format("{}: row {} has no file and label", who, line));
    images.push_back({row[file], *value});
  }
  if (images.empty()) throw Error(fmt::format("{}: no images", who));
  return images;
}

}  // namespace quern
