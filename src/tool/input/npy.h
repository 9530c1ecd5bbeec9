// NumPy's .npy files, format versions 1 to 3.
#pragma once

#include <quern/base.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

// Numbers as a file holds them: little-endian, row-major.
struct NpyArray {
  char kind = 'f';  // f: float, i: signed, u: unsigned, b: bool
  size_t item = 4;  // bytes per element
  std::vector<size_t> shape;
  std::vector<unsigned char> bytes;

  size_t count() const { return bytes.size() / item; }
};

constexpr uint64_t max_array_bytes = uint64_t{4} << 30;  // of a file

// Does the file begin like a .npy file?
bool is_npy(std::string_view file);
// Reads floats of 2, 4 and 8 bytes, integers of 1 to 8, and bool, in either byte order and either memory order. Throws
// Error.
NpyArray read_npy(const std::string& path);
// Reads a file's content from memory; `who` names it in messages.
NpyArray decode_npy(std::string_view file, const std::string& who);

// Reverses the bytes of each element.
void swap_bytes(NpyArray* array);

// Writes a temporary file beside `path`, then renames it.
void write_npy(const std::string& path, const qn_tensor& tensor, const void* data);

// Returns the elements as `type`. Elements of other types are converted; to integers only if no element loses anything.
std::vector<unsigned char> npy_as(const NpyArray& array, qn_type type, const std::string& who);
// Returns the elements as doubles.
std::vector<double> npy_doubles(const NpyArray& array);
// Returns the elements of a tensor as doubles.
std::vector<double> tensor_doubles(const qn_tensor& tensor, const void* data);

}  // namespace quern
