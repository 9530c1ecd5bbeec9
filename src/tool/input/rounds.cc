#include "tool/input/rounds.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "tool/input/npy.h"

namespace quern {

std::vector<Round> plan_rounds(const char* flag, const std::vector<std::vector<std::string>>& files,
                               const qn_model* model) {
  const auto is_state = [model](size_t input) { return qn_model_state_output(model, input) != QN_NO_STATE; };
  size_t rounds = 1;
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i].empty() && !is_state(i))
      throw CLI::ValidationError(flag, fmt::format("nothing for input \"{}\"", input_port(model, i).name));
    if (files[i].size() <= 1) continue;
    if (rounds != 1 && rounds != files[i].size())
      throw CLI::ValidationError(flag, fmt::format("{} files for one input, {} for another", rounds, files[i].size()));
    rounds = files[i].size();
  }
  std::vector<Round> plan(rounds);
  for (size_t r = 0; r < rounds; ++r)
    for (size_t i = 0; i < files.size(); ++i) {
      const bool carried = is_state(i) && (files[i].empty() || (files[i].size() == 1 && r > 0));
      plan[r].push_back(carried ? "" : files[i][files[i].size() == 1 ? 0 : r]);
    }
  return plan;
}

InputData read_input(const std::string& path, const qn_model* model, size_t index, const ImageFlags& flags) {
  const qn_port port = input_port(model, index);
  if (path.empty()) return {port.tensor, {}};
  if (is_image_name(path)) return image_input(path, port, input_preprocessing(model, index), flags);
  const NpyArray array = read_npy(path);
  InputData data;
  if (qn_tensor_init(&data.tensor, port.tensor.type, static_cast<uint32_t>(array.shape.size()), array.shape.data()))
    throw Error(fmt::format("{}: {}", path, qn_last_message()));
  data.bytes = npy_as(array, port.tensor.type, path);
  return data;
}

std::vector<std::string> inputs_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    if (is_image_name(path) || path.ends_with(".npy")) files.push_back(path);
  }
  if (error) throw Error(fmt::format("cannot read the folder {}: {}", folder, error.message()));
  if (files.empty()) throw Error(fmt::format("{}: no .npy arrays or pictures in it", folder));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace quern
