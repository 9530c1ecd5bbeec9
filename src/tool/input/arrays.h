// Arrays in files: .npy, one of those in a .npz archive, and idx.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tool/input/npy.h"

namespace quern {

// A path, which may choose an array of an archive: FILE.npz:ARRAY. Without that, or if a file is called so, `name` is
// empty.
struct ArrayPath {
  std::string file, name;
};
ArrayPath parse_array_path(const std::string& path);

// Does the file hold an array, or is it at least compressed, by its first bytes? False also if it cannot be read.
bool is_array_file(const std::string& path);

// Reads an array from the file of `path`; the file's first bytes tell its format. Without a name, an archive's array is
// the first of `preferred` that it has, or its only one. Throws Error.
NpyArray read_array(const std::string& path, const std::vector<std::string>& preferred);
// Reads an array from a file's content. `who` names it in messages, `name` chooses an array of an archive if not empty.
NpyArray decode_array(std::string_view content, const std::string& who, const std::string& name,
                      const std::vector<std::string>& preferred);

}  // namespace quern
