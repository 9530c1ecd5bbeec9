// Files of data sets for tests: .npy, .npz and idx, written by code of its own.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace quern {

// A .npy file of elements of type `descr`, such as "<f4". `data` are their bytes.
std::string make_npy(const std::string& descr, const std::vector<size_t>& shape, const std::string& data,
                     bool fortran = false);

// An idx file. `type` is the format's code of the elements' type: 8 for uint8. `data` are their bytes, big-endian.
std::string make_idx(unsigned type, const std::vector<size_t>& shape, const std::string& data);

// A zip archive of files: their names and contents.
std::string make_zip(const std::vector<std::pair<std::string, std::string>>& files, bool deflated);

}  // namespace quern
