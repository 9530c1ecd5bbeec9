#include "tool/input/arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "convert/common/file.h"
#include "tool/input/idx.h"
#include "tool/input/zip.h"

namespace quern {
namespace {

constexpr std::string_view array_ending = ".npy";  // of an archive's entries

bool is_zip(std::string_view file) { return file.starts_with("PK\3\4") || file.starts_with("PK\5\6"); }
bool is_gzip(std::string_view file) { return file.starts_with("\x1f\x8b"); }

std::string array_name(const ZipEntry& entry) {
  return entry.name.ends_with(array_ending) ? entry.name.substr(0, entry.name.size() - array_ending.size()) : "";
}

// Returns the names of an archive's arrays for a message: the first few.
std::string names_in(const std::vector<ZipEntry>& entries) {
  constexpr size_t most = 12;
  std::vector<std::string> names;
  for (const ZipEntry& entry : entries)
    if (const std::string name = array_name(entry); !name.empty()) names.push_back(name);
  const bool more = names.size() > most;
  if (names.empty()) return "none";
  names.resize(std::min(names.size(), most));
  return fmt::format("{}{}", fmt::join(names, ", "), more ? ", ..." : "");
}

const ZipEntry* find_array(const std::vector<ZipEntry>& entries, const std::string& name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const ZipEntry& entry) { return !name.empty() && array_name(entry) == name; });
  return found == entries.end() ? nullptr : &*found;
}

const ZipEntry& choose_array(const ZipArchive& archive, const std::string& who, const std::string& name,
                             const std::vector<std::string>& preferred) {
  const std::vector<ZipEntry>& entries = archive.entries();
  if (!name.empty()) {
    if (const ZipEntry* entry = find_array(entries, name)) return *entry;
    throw Error(fmt::format("{}: no array \"{}\"; the archive has {}", who, name, names_in(entries)));
  }
  for (const std::string& likely : preferred)
    if (const ZipEntry* entry = find_array(entries, likely)) return *entry;
  const auto is_array = [](const ZipEntry& entry) { return !array_name(entry).empty(); };
  const auto only = std::find_if(entries.begin(), entries.end(), is_array);
  if (std::count_if(entries.begin(), entries.end(), is_array) != 1)
    throw Error(fmt::format("{}: expected an array {}, or only one, got {}; choose one with {}:ARRAY", who,
                            fmt::join(preferred, " or "), names_in(entries), who));
  return *only;
}

}  // namespace

ArrayPath parse_array_path(const std::string& path) {
  constexpr std::string_view ending = ".npz:";
  const size_t at = path.rfind(ending);
  std::error_code error;
  if (at == std::string::npos || std::filesystem::exists(path, error)) return {path, ""};
  return {path.substr(0, at + ending.size() - 1), path.substr(at + ending.size())};
}

bool is_array_file(const std::string& path) {
  std::error_code error;
  const std::string file = parse_array_path(path).file;
  if (!std::filesystem::is_regular_file(file, error)) return false;  // opening a pipe would block
  std::string start(8, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(stream.gcount()));
  return is_npy(start) || is_idx(start) || is_zip(start) || is_gzip(start);
}

NpyArray decode_array(std::string_view content, const std::string& who, const std::string& name,
                      const std::vector<std::string>& preferred) {
  if (is_gzip(content)) throw Error(fmt::format("{}: compressed with gzip; decompress it first: gunzip", who));
  if (is_zip(content)) {
    const ZipArchive archive(content, who);
    const ZipEntry& entry = choose_array(archive, who, name, preferred);
    return decode_npy(archive.read(entry), fmt::format("{}:{}", who, array_name(entry)));
  }
  if (!name.empty()) throw Error(fmt::format("{}: expected a .npz archive with an array \"{}\"", who, name));
  if (is_idx(content)) return decode_idx(content, who);
  if (!is_npy(content)) throw Error(fmt::format("{}: expected a .npy array, a .npz archive or an idx file", who));
  return decode_npy(content, who);
}

NpyArray read_array(const std::string& path, const std::vector<std::string>& preferred) {
  const ArrayPath parts = parse_array_path(path);
  return decode_array(read_file(parts.file, max_array_bytes), parts.file, parts.name, preferred);
}

}  // namespace quern
