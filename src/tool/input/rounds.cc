#include "tool/input/rounds.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "convert/sizes.h"
#include "graph/file/format.h"
#include "tool/input/named_files.h"
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

void add_input_flags(CLI::App& app, InputFlags* flags) {
  add_shapes(app, &flags->sizes);
  add_image_flags(app, &flags->images);
}

void add_measured_inputs(CLI::App& app, std::vector<std::string>* files, InputFlags* flags) {
  app.add_option("--input", *files,
                 "A .npy array or an image for each input, as for quern run; every run gets the same. Without: random "
                 "values")
      ->allow_extra_args(false)
      ->type_name("[NAME=]FILE");
  add_input_flags(app, flags);
}

// Refuses a file that contradicts --shape. Bit d of `asked` says that dimension d is asked for.
static void check_asked(const qn_tensor& tensor, const std::string& path, const qn_port& port, uint8_t asked) {
  for (uint32_t d = 0; d < port.tensor.rank; ++d) {
    if ((asked >> d & 1) == 0 || (d < tensor.rank && tensor.shape[d] == port.tensor.shape[d])) continue;
    throw Error(fmt::format("{}: expected shape {} for input \"{}\" (--shape), got {}", path,
                            shape_text(port.tensor.shape, port.tensor.rank), port.name,
                            shape_text(tensor.shape, tensor.rank)));
  }
}

InputData read_input(const std::string& path, const qn_model* model, size_t index, const InputFlags& flags) {
  const qn_port port = input_port(model, index);
  if (path.empty()) return {port.tensor, {}};
  const Graph& graph = model_graph(*model);
  const Port& input = graph.inputs[index];
  InputData data;
  if (is_image_name(path)) {
    data = image_input(path, port, input.open, input_preprocessing(model, index), flags.images);
  } else {
    const NpyArray array = read_npy(path);
    if (qn_tensor_init(&data.tensor, port.tensor.type, static_cast<uint32_t>(array.shape.size()), array.shape.data()))
      throw Error(fmt::format("{}: {}", path, qn_last_message()));
    data.bytes = npy_as(array, port.tensor.type, path);
  }
  check_asked(data.tensor, path, port, asked_dimensions(flags.sizes, graph, input));
  return data;
}

Round plan_round(const char* flag, const std::vector<std::string>& files, const qn_model* model) {
  std::vector<Round> rounds = plan_rounds(flag, name_files(flag, "input", files, input_ports(model)), model);
  if (rounds.size() > 1) throw CLI::ValidationError(flag, "expected one file per input");
  return rounds[0];
}

std::vector<InputData> read_or_make_inputs(const char* flag, const std::vector<std::string>& files,
                                           const qn_model* model, const qn_session* session, const InputFlags& flags) {
  const size_t count = qn_model_input_count(model);
  const Round round = files.empty() ? Round() : plan_round(flag, files, model);
  warn_of_open_sizes(model_graph(*model), round);
  if (files.empty()) return random_inputs(session, count);
  std::vector<InputData> inputs;
  for (size_t i = 0; i < count; ++i) inputs.push_back(read_input(round[i], model, i, flags));
  return inputs;
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
