// Codes int8 matrices of .npy files and prints a line of JSON for each: its bytes, and how fast it decodes.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "convert/common/error.h"
#include "graph/coder/encode_rans.h"
#include "graph/coder/rans.h"
#include "tool/input/npy.h"

namespace quern {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Decodes the matrix in strips of as many rows as kernels read at a time. Returns the seconds.
double decode(const Vector<unsigned char>& stream, size_t rows, size_t depth, std::vector<int8_t>* matrix) {
  constexpr size_t strip = 32;
  const double begin = now();
  RansRows cursor;
  expect_ok(RansRows::open({stream.data(), stream.size()}, rows, depth, &cursor));
  for (size_t row = 0; row < rows; row += strip)
    expect_ok(cursor.read(std::min(strip, rows - row), &(*matrix)[row * depth]));
  expect_ok(cursor.finish());
  return now() - begin;
}

void measure(const std::string& path) {
  constexpr int rounds = 30;
  const NpyArray array = read_npy(path);
  if (array.kind != 'i' || array.item != 1 || array.shape.size() != 2 || array.bytes.empty())
    throw Error(path + ": expected a matrix of int8");
  const size_t rows = array.shape[0], depth = array.shape[1];
  const auto* const data = reinterpret_cast<const int8_t*>(array.bytes.data());
  const double begin = now();
  const Vector<unsigned char> stream = encode_rans({data, array.count()}, rows, depth);
  const double encoded = now() - begin;
  std::vector<int8_t> matrix(array.count());
  double fastest = decode(stream, rows, depth, &matrix);
  for (int i = 1; i < rounds; ++i) fastest = std::min(fastest, decode(stream, rows, depth, &matrix));
  if (!std::equal(matrix.begin(), matrix.end(), data)) throw Error(path + ": decodes to another matrix");
  const nlohmann::ordered_json line = {{"file", path},
                                       {"weights", array.count()},
                                       {"bytes", stream.size()},
                                       {"encode_seconds", encoded},
                                       {"weights_per_second", static_cast<double>(array.count()) / fastest}};
  fmt::print("{}\n", line.dump());
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) quern::measure(argv[i]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "quern-coder: {}\n", error.what());
    return 1;
  }
}
