#include "tool/output/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tool/input/npy.h"

namespace quern {
namespace {

// Returns the larger of two differences. If one of two values compared is NaN, their difference is NaN, and no later
// difference may hide that.
double larger(double a, double b) { return std::isnan(a) || b <= a ? a : b; }

}  // namespace

std::vector<Output> session_outputs(const qn_session* session, const std::vector<qn_port>& ports) {
  std::vector<Output> outputs;
  for (size_t i = 0; i < ports.size(); ++i) {
    Output output = {ports[i].name, {}, nullptr};
    check(qn_session_output_tensor(session, i, &output.tensor));
    check(qn_session_output(session, i, &output.data));
    outputs.push_back(output);
  }
  return outputs;
}

std::vector<double> real_numbers(const Output& output) {
  std::vector<double> numbers = tensor_doubles(output.tensor, output.data);
  const qn_quantization& q = output.tensor.quantization;
  if (q.scale == 0) return numbers;
  for (double& x : numbers) x = (x - q.zero_point) * double{q.scale};
  return numbers;
}

std::string array_file_name(std::string name) {
  for (char& c : name)
    if (c == '/' || c == ':' || static_cast<unsigned char>(c) < ' ') c = '_';
  return name + ".npy";
}

void write_outputs(const std::filesystem::path& folder, const std::vector<Output>& outputs) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(fmt::format("cannot create the folder {}: {}", folder.string(), error.message()));
  std::map<std::string, std::string> written;  // by the name of the file, the name of the output
  for (const Output& output : outputs) {
    const std::string name = array_file_name(output.name);
    const auto [at, fresh] = written.emplace(name, output.name);
    if (!fresh && at->second != output.name) throw Error(fmt::format("two outputs would be written to {}", name));
    if (fresh) write_npy((folder / name).string(), output.tensor, output.data);  // one name, one tensor
  }
}

Difference difference_of(const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  Difference result;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(got[i])) continue;
    const double difference = expected[i] == got[i] ? 0 : std::fabs(got[i] - expected[i]);
    result.absolute = larger(result.absolute, difference);
    if (expected[i] != 0) result.relative = larger(result.relative, difference / std::fabs(expected[i]));
    if (difference <= tolerance * std::max(1.0, std::fabs(expected[i]))) continue;
    if (result.within) result.first = i;
    result.within = false;
  }
  return result;
}

bool are_alike(std::vector<size_t> a, std::vector<size_t> b) {
  std::erase(a, size_t{1});
  std::erase(b, size_t{1});
  return a == b;
}

}  // namespace quern
