#include "tool/input/rounds.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <utility>

#include "convert/sizes.h"
#include "graph/file/format.h"
#include "tool/input/named_files.h"
#include "tool/input/npy.h"

namespace quern {

bool is_state(const qn_model* model, size_t input) { return qn_model_state_output(model, input) != QN_NO_STATE; }

size_t count_rounds(const char* flag, const std::vector<size_t>& counts, const qn_model* model) {
  size_t rounds = 1;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0 && !is_state(model, i))
      throw CLI::ValidationError(flag, fmt::format("nothing for input \"{}\"", input_port(model, i).name));
    if (counts[i] <= 1) continue;
    if (rounds != 1 && rounds != counts[i])
      throw CLI::ValidationError(
          flag,
          fmt::format("expected the same number of files or samples for each input, got {} and {}", rounds, counts[i]));
    rounds = counts[i];
  }
  return rounds;
}

std::optional<size_t> taken_in(size_t round, size_t count, bool state) {
  if (state && (count == 0 || (count == 1 && round > 0))) return std::nullopt;
  return count == 1 ? 0 : round;
}

std::vector<Round> plan_rounds(const char* flag, const std::vector<std::vector<std::string>>& files,
                               const qn_model* model) {
  std::vector<size_t> counts;
  for (const auto& list : files) counts.push_back(list.size());
  std::vector<Round> plan(count_rounds(flag, counts, model));
  for (size_t r = 0; r < plan.size(); ++r)
    for (size_t i = 0; i < files.size(); ++i) {
      const std::optional<size_t> taken = taken_in(r, counts[i], is_state(model, i));
      plan[r].push_back(taken ? files[i][*taken] : "");
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

// Refuses data that contradict --shape.
static void check_asked(const qn_tensor& tensor, const std::string& who, const qn_model* model, size_t index,
                        const Sizes& sizes) {
  const Graph& graph = model_graph(*model);
  const uint8_t asked = asked_dimensions(sizes, graph, graph.inputs[index]);
  const qn_port port = input_port(model, index);
  for (uint32_t d = 0; d < port.tensor.rank; ++d) {
    if ((asked >> d & 1) == 0 || (d < tensor.rank && tensor.shape[d] == port.tensor.shape[d])) continue;
    throw Error(fmt::format("{}: expected shape {} for input \"{}\" (--shape), got {}", who,
                            shape_text(port.tensor.shape, port.tensor.rank), port.name,
                            shape_text(tensor.shape, tensor.rank)));
  }
}

InputData make_input(Image image, const std::string& who, const qn_model* model, size_t index,
                     const InputFlags& flags) {
  InputData data = image_input(std::move(image), who, input_port(model, index), model_graph(*model).inputs[index].open,
                               input_preprocessing(model, index), flags.images);
  check_asked(data.tensor, who, model, index, flags.sizes);
  return data;
}

InputData make_input(const NpyArray& array, const std::string& who, const qn_model* model, size_t index,
                     const InputFlags& flags) {
  const qn_type type = input_port(model, index).tensor.type;
  InputData data;
  if (qn_tensor_init(&data.tensor, type, static_cast<uint32_t>(array.shape.size()), array.shape.data()))
    throw Error(fmt::format("{}: {}", who, qn_last_message()));
  data.bytes = npy_as(array, type, who);
  check_asked(data.tensor, who, model, index, flags.sizes);
  return data;
}

InputData read_input(const std::string& path, const qn_model* model, size_t index, const InputFlags& flags) {
  if (path.empty()) return {input_port(model, index).tensor, {}};
  if (is_image_name(path)) return make_input(read_image(path), path, model, index, flags);
  return make_input(read_npy(path), path, model, index, flags);
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
