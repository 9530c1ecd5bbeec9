#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>

#include "convert/common/error.h"
#include "tool/command/command.h"
#include "tool/input/classes.h"
#include "tool/input/named_files.h"
#include "tool/input/npy.h"
#include "tool/input/preprocess.h"
#include "tool/input/rounds.h"
#include "tool/model.h"

namespace quern {
namespace {

struct RunArguments {
  ModelFiles files;
  std::vector<std::string> inputs, expect;
  std::string output, labels;
  double tolerance = 1e-4;
  size_t top = 0, threads = 1;
  ImageFlags images;
  TuningFlags tuning;
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
};

// A session's output, with the port's name.
struct Output {
  std::string name;
  qn_tensor tensor;
  const void* data;
};

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

std::string file_name(std::string name) {
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
    const std::string name = file_name(output.name);
    const auto [at, fresh] = written.emplace(name, output.name);
    if (!fresh && at->second != output.name) throw Error(fmt::format("two outputs would be written to {}", name));
    if (fresh) write_npy((folder / name).string(), output.tensor, output.data);  // one name, one tensor
  }
}

// Are these shapes the same but for dimensions of 1?
bool alike(const qn_tensor& tensor, std::vector<size_t> shape) {
  std::vector<size_t> ours(tensor.shape, tensor.shape + tensor.rank);
  std::erase(ours, 1);
  std::erase(shape, 1);
  return ours == shape;
}

// Returns the larger of two differences. If one of two values compared is NaN, their difference is NaN, and no later
// difference may hide that.
double larger(double a, double b) { return std::isnan(a) || b <= a ? a : b; }

// Prints the largest differences. Returns false if an element is further off than the tolerance times max(1,
// |expected|).
bool compare(const Output& output, const std::string& path, double tolerance) {
  const NpyArray expected = read_npy(path);
  if (!alike(output.tensor, expected.shape))
    throw Error(fmt::format("{}: shape {}, but output \"{}\" has {}", path,
                            shape_text(expected.shape.data(), expected.shape.size()), output.name,
                            shape_text(output.tensor.shape, output.tensor.rank)));
  const std::vector<double> want = npy_doubles(expected), got = tensor_doubles(output.tensor, output.data);
  double absolute = 0, relative = 0;
  bool within = true;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    const double difference = want[i] == got[i] ? 0 : std::fabs(got[i] - want[i]);
    absolute = larger(absolute, difference);
    if (want[i] != 0) relative = larger(relative, difference / std::fabs(want[i]));
    within = within && difference <= tolerance * std::max(1.0, std::fabs(want[i]));
  }
  fmt::print("  {}: largest difference {:.3g} absolute, {:.3g} relative: {}\n", output.name, absolute, relative,
             within ? "within the tolerance" : "beyond the tolerance");
  return within;
}

std::vector<std::string> read_labels(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(fmt::format("cannot open {}", path));
  std::vector<std::string> labels;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    labels.push_back(line);
  }
  if (file.bad()) throw Error(fmt::format("cannot read {}", path));  // a folder, for example
  if (labels.empty()) throw Error(fmt::format("{}: no labels in it", path));
  return labels;
}

void print_top(const Output& output, size_t top, const std::vector<std::string>& labels) {
  const std::vector<double> all = tensor_doubles(output.tensor, output.data);
  const size_t batch = output.tensor.rank > 1 ? output.tensor.shape[0] : 1;
  for (size_t b = 0; b < batch; ++b) {
    const size_t classes = all.size() / batch;
    const std::vector<double> scores = probabilities({&all[b * classes], &all[b * classes] + classes});
    if (batch > 1) fmt::print("  item {}\n", b);
    for (const size_t c : best_classes(scores, top))
      fmt::print("  {:>8.4f}  {}\n", scores[c], c < labels.size() ? labels[c] : fmt::format("class {}", c));
  }
}

void print_outputs(const std::vector<Output>& outputs) {
  for (const Output& output : outputs)
    fmt::print("  {}  {} {}\n", output.name, qn_type_string(output.tensor.type),
               shape_text(output.tensor.shape, output.tensor.rank));
}

// Returns the folder for a round's outputs. Each of several rounds has a folder of its own, named after its file for the
// first input that has one in every round: states may have one in the first round alone.
std::filesystem::path round_folder(const std::filesystem::path& folder, const std::vector<Round>& rounds, size_t r) {
  if (rounds.size() == 1) return folder;
  size_t input = 0;
  while (input + 1 < rounds.back().size() && rounds.back()[input].empty()) ++input;
  return folder / std::filesystem::path(rounds[r][input]).stem();
}

void check_folders(const std::vector<Round>& rounds) {
  std::set<std::filesystem::path> folders;
  for (size_t r = 0; r < rounds.size(); ++r) {
    const auto folder = round_folder("", rounds, r);
    if (!folders.insert(folder).second)
      throw CLI::ValidationError("--output",
                                 fmt::format("two files would write to the folder \"{}\"", folder.string()));
  }
}

int run(const RunArguments& arguments) {
  const ModelPtr model = load_model(arguments.files);
  const std::vector<qn_port> inputs = input_ports(model.get()), outputs = output_ports(model.get());
  if (!inputs.empty() && arguments.inputs.empty()) throw CLI::RequiredError("--input");
  const std::vector<Round> rounds =
      plan_rounds("--input", name_files("--input", "input", arguments.inputs, inputs), model.get());
  const auto expected = name_files("--expect", "output", arguments.expect, outputs);
  if (!arguments.output.empty()) check_folders(rounds);
  if (rounds.size() > 1 && !arguments.expect.empty())
    throw CLI::ValidationError("--expect", "goes with one file per input");
  const std::vector<std::string> labels =
      arguments.labels.empty() ? std::vector<std::string>() : read_labels(arguments.labels);
  const size_t top = arguments.top == 0 && !labels.empty() ? 1 : arguments.top;

  TuningFile tuning(arguments.tuning);
  const SessionPtr session = make_session(model.get(), {arguments.threads, false, &tuning, arguments.algorithm});
  tuning.save();
  double total = 0;
  bool within = true;
  for (size_t r = 0; r < rounds.size(); ++r) {
    const Round& round = rounds[r];
    std::vector<InputData> data;
    for (size_t i = 0; i < inputs.size(); ++i) data.push_back(read_input(round[i], model.get(), i, arguments.images));
    const double ms = run_session(session.get(), data);
    tuning.save();  // every round may have inputs of another shape, and so new choices
    total += ms;
    fmt::print("{}  {:.3f} ms\n", fmt::join(round, " "), ms);
    const std::vector<Output> results = session_outputs(session.get(), outputs);
    if (!arguments.output.empty()) write_outputs(round_folder(arguments.output, rounds, r), results);
    if (top > 0) {
      print_top(results.at(0), top, labels);
    } else {
      print_outputs(results);
    }
    for (size_t o = 0; o < results.size(); ++o)
      for (const std::string& path : expected[o]) within = compare(results[o], path, arguments.tolerance) && within;
    std::fflush(stdout);
  }
  if (rounds.size() > 1)
    fmt::print("{} runs, {:.3f} ms each on average\n", rounds.size(), total / static_cast<double>(rounds.size()));
  if (!within) throw Error("outputs differ from the expected ones by more than the tolerance");
  return 0;
}

}  // namespace

Action run_command(CLI::App& app) {
  auto arguments = std::make_shared<RunArguments>();
  add_model_files(app, &arguments->files);
  app.add_option(
         "--input", arguments->inputs,
         "A .npy array (the model is resized to its shape; padding of mode SAME stays that of the size in the "
         "source model) or a .png or .jpg image for input NAME, which may be left out where there is only one; several "
         "files for one input are run one after another; an input that is a state needs none, and takes one in the "
         "first "
         "run alone")
      ->type_name("[NAME=]FILE");
  app.add_option("--output", arguments->output,
                 "Write DIR/NAME.npy for each output ('/' and ':' in a name become '_'); after several files, "
                 "DIR/FILE/NAME.npy")
      ->type_name("DIR");
  app.add_option("--expect", arguments->expect,
                 "Compare output NAME with an array and fail if an element is further off than the tolerance times "
                 "max(1, |expected|)")
      ->allow_extra_args(false)
      ->type_name("[NAME=]FILE.npy");
  app.add_option("--tolerance", arguments->tolerance, "For --expect")
      ->check(CLI::Range(0.0, 1e30).description(""))
      ->type_name("T")
      ->capture_default_str();
  app.add_option("--top", arguments->top,
                 "Print the K best classes of the first output with their confidence; scores that are no probabilities "
                 "go through a softmax")
      ->check(CLI::Range(1, 1000000).description(""))
      ->type_name("K");
  app.add_option("--labels", arguments->labels, "Names of the classes, one per line")->type_name("FILE");
  add_threads(app, &arguments->threads);
  add_tuning(app, &arguments->tuning);
  add_algorithm(app, &arguments->algorithm);
  add_image_flags(app, &arguments->images);
  return [arguments] { return run(*arguments); };
}

}  // namespace quern
