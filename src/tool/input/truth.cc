#include "tool/input/truth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>

#include "convert/common/error.h"
#include "convert/common/file.h"
#include "tool/input/arrays.h"
#include "tool/model.h"

namespace quern {
namespace {

constexpr double max_label = 0x7fffffff;

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

// Where a table has its values. A header takes the first line.
struct TruthColumns {
  size_t file, label;  // without files both are the same column
  bool header;
};

TruthColumns find_columns(const Row& first, bool files, const std::string& who) {
  const size_t label = files || first.size() > 1 ? 1 : 0;
  if (label < first.size() && as_label(first[label])) return {files ? 0 : label, label, false};
  const size_t named = find_column(first, {"label_index", "label", "index", "class"}, who);
  return {files ? find_column(first, {"file", "image", "filename"}, who) : named, named, true};
}

std::vector<LabelledImage> parse_table(std::string_view text, bool files, const std::string& who) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  std::string_view rest = text;
  const TruthColumns columns = find_columns(take_row(&rest), files, who);
  size_t line = 0;
  if (columns.header) {
    text = rest;
    line = 1;
  }
  std::vector<LabelledImage> images;
  while (!text.empty()) {
    const Row row = take_row(&text);
    ++line;
    if (row.size() == 1 && row[0].empty()) continue;
    const std::optional<size_t> value =
        row.size() > std::max(columns.file, columns.label) ? as_label(row[columns.label]) : std::nullopt;
    if (!value || row[columns.file].empty())
      throw Error(fmt::format("{}: row {} has no {}label", who, line, files ? "file and " : ""));
    images.push_back({files ? row[columns.file] : "", *value});
  }
  if (images.empty()) throw Error(fmt::format("{}: no {}", who, files ? "images" : "labels"));
  return images;
}

std::vector<size_t> labels_by_name(const std::vector<LabelledImage>& table, const std::vector<std::string>& files,
                                   const std::string& who) {
  const auto base = [](const std::string& file) { return std::filesystem::path(file).filename().string(); };
  std::map<std::string, size_t> label_of;
  for (const LabelledImage& image : table) {
    const auto [place, is_new] = label_of.emplace(base(image.file), image.label);
    if (!is_new && place->second != image.label)
      throw Error(fmt::format("{} has several labels for files named {}", who, base(image.file)));
  }
  std::vector<size_t> labels;
  for (const std::string& file : files) {
    const auto found = label_of.find(base(file));
    if (found == label_of.end()) throw Error(fmt::format("{} has no label for {}", who, base(file)));
    labels.push_back(found->second);
  }
  return labels;
}

}  // namespace

std::vector<LabelledImage> parse_truth(std::string_view text, const std::string& who) {
  return parse_table(text, true, who);
}

std::vector<size_t> parse_labels(std::string_view text, const std::string& who) {
  std::vector<size_t> labels;
  for (const LabelledImage& row : parse_table(text, false, who)) labels.push_back(row.label);
  return labels;
}

std::vector<size_t> labels_of_samples(const std::string& path, const std::vector<std::string>& files) {
  const bool array = is_array_file(path), several = std::adjacent_find(files.begin(), files.end()) != files.end();
  std::vector<size_t> labels;
  if (array) {
    labels = array_labels(read_array(path, {"labels", "label", "y"}), path);
  } else if (several) {
    labels = parse_labels(read_file(path, max_truth_bytes), path);
  } else {
    labels = labels_by_name(parse_truth(read_file(path, max_truth_bytes), path), files, path);
  }
  if (labels.size() == files.size()) return labels;
  throw Error(fmt::format("{}: expected {} labels, one for each sample, got {}", path, files.size(), labels.size()));
}

std::vector<size_t> array_labels(const NpyArray& array, const std::string& who) {
  const std::vector<size_t>& shape = array.shape;
  if (array.bytes.empty() || shape.empty() || shape[0] != array.count())
    throw Error(fmt::format("{}: expected labels, a 1-D array of integers, got shape {}", who,
                            shape.empty() ? "()" : shape_text(shape.data(), shape.size())));
  std::vector<size_t> labels;
  for (const double value : npy_doubles(array)) {
    if (!(value >= 0 && value <= max_label && std::trunc(value) == value))
      throw Error(fmt::format("{}: expected integers from 0 on as labels, got {}", who, value));
    labels.push_back(static_cast<size_t>(value));
  }
  return labels;
}

}  // namespace quern
