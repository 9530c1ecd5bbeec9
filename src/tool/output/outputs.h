// What a session has computed: written as files, compared with other numbers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tool/model.h"

namespace quern {

// A session's output, with the port's name.
struct Output {
  std::string name;
  qn_tensor tensor;
  const void* data;

  std::vector<size_t> shape() const { return {tensor.shape, tensor.shape + tensor.rank}; }
};

// The data stay valid until the session runs again.
std::vector<Output> session_outputs(const qn_session* session, const std::vector<qn_port>& ports);

// Returns the elements, or the real numbers for which they stand if the tensor is quantized with one scale.
std::vector<double> real_numbers(const Output& output);

// Returns the name of the .npy file for a tensor: characters that do not belong into a file's name become '_'.
std::string array_file_name(std::string name);
// Writes a file for each output. Throws Error if two outputs would be written to the same file.
void write_outputs(const std::filesystem::path& folder, const std::vector<Output>& outputs);

// How far numbers are from the expected ones. Each may be off by the tolerance times max(1, |expected|). Two NaN are equal.
struct Difference {
  double absolute = 0, relative = 0;  // the largest ones; NaN if one of two numbers is NaN
  bool within = true;
  size_t first = 0;  // the place of the first element that is too far off; without one 0
};
Difference difference_of(const std::vector<double>& got, const std::vector<double>& expected, double tolerance);

// Are these shapes the same but for dimensions of 1?
bool are_alike(std::vector<size_t> a, std::vector<size_t> b);

}  // namespace quern
