#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "tool/command/command.h"
#include "tool/compare/tensors.h"
#include "tool/input/npy.h"
#include "tool/input/rounds.h"
#include "tool/model.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

struct DiffArguments {
  std::vector<std::string> models, inputs;
  std::string reference;
  double tolerance = 1e-3;
  bool json = false;
  InputFlags reading;
};

// Returns the models that the files are: a .caffemodel belongs to the file before it.
std::vector<ModelFiles> models_of(const std::vector<std::string>& files) {
  std::vector<ModelFiles> models;
  for (const std::string& file : files) {
    const bool weights = file.ends_with(".caffemodel") && !models.empty() && models.back().weights.empty();
    if (weights) models.back().weights = file;
    if (!weights) models.push_back({file, ""});
  }
  return models;
}

// Computes all tensors of a model. A .qn file was optimized, so that a model that is compared with one is, too: nodes of
// one name then compute the same.
std::vector<Computed> tensors_of(const ModelFiles& files, bool optimized, const DiffArguments& arguments) {
  ImportOptions options;
  options.sizes = arguments.reading.sizes;
  Graph graph = optimized ? load_graph(files, options) : import_model(files.paths(), options);
  name_tensors(&graph);
  expose_tensors(&graph);
  return compute(std::move(graph), "--input", arguments.inputs, arguments.reading);
}

// ---- a folder of arrays

// The arrays in a folder and the folders within, by the names of their tensors: the path without ".npy".
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = fs::path(at->path()).lexically_relative(folder).generic_string();
    if (name.ends_with(".npy")) names.push_back(name.substr(0, name.size() - 4));
  }
  if (error) throw Error(fmt::format("cannot read the folder {}: {}", folder, error.message()));
  if (names.empty()) throw Error(fmt::format("{}: no .npy arrays in it", folder));
  std::sort(names.begin(), names.end());
  return names;
}

// Imports a model with those of the names as outputs that it has.
Graph import_with_outputs(const ModelFiles& files, std::vector<std::string> names, const Sizes& sizes) {
  ImportOptions options;
  options.sizes = sizes;
  const auto imports = [&](std::vector<std::string> outputs) {
    options.outputs = std::move(outputs);
    try {
      import_model(files.paths(), options);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  if (!imports(names)) std::erase_if(names, [&](const std::string& name) { return !imports({name}); });
  if (names.empty()) throw Error(fmt::format("{}: no tensor has the name of an array", files.model));
  options.outputs = names;
  return import_model(files.paths(), options);
}

// Computes the tensors for which there are arrays.
std::vector<Computed> tensors_of_names(const ModelFiles& files, const std::vector<std::string>& names,
                                       const DiffArguments& arguments) {
  if (files.is_quern()) return tensors_of(files, true, arguments);
  Graph graph = import_with_outputs(files, names, arguments.reading.sizes);
  expose_tensors(&graph);
  return compute(std::move(graph), "--input", arguments.inputs, arguments.reading);
}

// Returns the arrays that have a tensor's name, in the order of these tensors.
std::vector<Computed> arrays_of(const std::string& folder, const std::vector<std::string>& names,
                                const std::vector<Computed>& tensors) {
  std::vector<Computed> arrays;
  for (const Computed& tensor : tensors) {
    if (!std::binary_search(names.begin(), names.end(), tensor.name)) continue;
    const NpyArray array = read_npy((fs::path(folder) / (tensor.name + ".npy")).string());
    arrays.push_back({tensor.name, array.shape, npy_doubles(array)});
  }
  return arrays;
}

// ---- the command

void print(const Comparison& result) {
  if (result.first.empty()) {
    fmt::print("{} tensors compared, none differs; the largest difference is {:.3g}, in {}\n", result.compared,
               result.largest, result.largest_name);
  } else {
    fmt::print("{} tensors compared; the first that differs is {}: {}\n", result.compared, result.first, result.why);
  }
}

int run_diff(const DiffArguments& arguments) {
  const std::vector<ModelFiles> models = models_of(arguments.models);
  const size_t wanted = arguments.reference.empty() ? 2 : 1;
  if (models.size() != wanted)
    throw CLI::ValidationError("MODEL", fmt::format("{} models are given, but {}", models.size(),
                                                    wanted == 2 ? "two are compared, or one with a --reference"
                                                                : "one is compared with a --reference"));
  std::vector<Computed> expected, got;
  if (wanted == 1) {
    const std::vector<std::string> names = names_in(arguments.reference);
    got = tensors_of_names(models[0], names, arguments);
    expected = arrays_of(arguments.reference, names, got);
  } else {
    const bool optimized = models[0].is_quern() || models[1].is_quern();
    expected = tensors_of(models[0], optimized, arguments);
    got = tensors_of(models[1], optimized, arguments);
  }
  const Comparison result = compare(expected, got, arguments.tolerance);
  if (result.compared == 0) throw Error("no tensors of the same name: there is nothing to compare");
  if (arguments.json) {
    const nlohmann::ordered_json json = {
        {"compared", result.compared}, {"differs", !result.first.empty()},     {"first", result.first},
        {"why", result.why},           {"largest_difference", result.largest}, {"largest_in", result.largest_name}};
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    print(result);
  }
  return result.first.empty() ? 0 : 1;
}

}  // namespace

Action diff_command(CLI::App& app) {
  auto arguments = std::make_shared<DiffArguments>();
  app.add_option("MODEL", arguments->models,
                 "Two models, or one and a --reference; a .caffemodel belongs to the .prototxt before it")
      ->required()
      ->expected(1, 4)
      ->type_name("MODEL [MODEL2]");
  app.add_option("--input", arguments->inputs, "A .npy array or a picture for each input, as for quern run")
      ->allow_extra_args(false)
      ->type_name("[NAME=]FILE");
  app.add_option("--reference", arguments->reference,
                 "Compare with DIR/NAME.npy of another engine instead: NAME is that of a tensor of the source model; a "
                 "'/' in it is a folder")
      ->type_name("DIR");
  app.add_option("--tolerance", arguments->tolerance,
                 "A number may be off by T times max(1, |expected|); the first model or the reference has what is "
                 "expected")
      ->check(CLI::Range(0.0, 1e30).description(""))
      ->type_name("T")
      ->capture_default_str();
  app.add_flag("--json", arguments->json, "One JSON object on standard output");
  add_input_flags(app, &arguments->reading);
  app.footer(
      "Finds the first tensor, in the order of execution, that differs. Tensors of two models are the same if nodes of "
      "the same name compute them. The exit status is 1 if a tensor differs.");
  return [arguments] { return run_diff(*arguments); };
}

}  // namespace quern
