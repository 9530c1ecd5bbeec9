#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "convert/common/file.h"
#include "graph/file/format.h"
#include "tool/command/command.h"
#include "tool/input/classes.h"
#include "tool/input/named_files.h"
#include "tool/input/npy.h"
#include "tool/input/preprocess.h"
#include "tool/input/rounds.h"
#include "tool/model.h"
#include "tool/output/detections.h"
#include "tool/output/draw.h"
#include "tool/output/labels.h"
#include "tool/output/outputs.h"
#include "tool/standard_output.h"

namespace quern {
namespace {

using nlohmann::ordered_json;

struct RunArguments {
  ModelFiles files;
  std::vector<std::string> inputs, expect;
  std::string output, labels, draw;
  double tolerance = 1e-4;
  size_t top = 0, threads = 1;
  bool json = false;
  InputFlags reading;
  DetectionFlags detections;
  TuningFlags tuning;
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
};

// What the flags and the model together say about outputs.
struct Reading {
  std::vector<std::string> labels;
  size_t top = 0;
  Postprocessing objects;

  bool detects() const { return !objects.detections.empty(); }
};

Reading make_reading(const RunArguments& arguments, const qn_model& model, const std::vector<qn_port>& outputs) {
  Reading reading;
  reading.objects = model_graph(model).postprocessing;
  for (const String& label : reading.objects.labels) reading.labels.emplace_back(label.c_str());
  if (!arguments.labels.empty()) reading.labels = read_labels(arguments.labels);
  std::vector<std::string> names;
  for (const qn_port& port : outputs) names.emplace_back(port.name);
  arguments.detections.apply(&reading.objects, names);
  reading.top = arguments.top == 0 && !reading.labels.empty() && !reading.detects() ? 1 : arguments.top;
  if (!arguments.draw.empty() && !reading.detects())
    throw Error("--draw: the model does not describe detections; pass --detections");
  return reading;
}

// ---- one run as JSON, from which the text is made

ordered_json outputs_json(const std::vector<Output>& outputs) {
  ordered_json list = ordered_json::array();
  for (const Output& output : outputs)
    list.push_back({{"name", output.name}, {"type", qn_type_string(output.tensor.type)}, {"shape", output.shape()}});
  return list;
}

// The best classes of the first output, for each item of a batch.
ordered_json classes_json(const Output& output, const Reading& reading) {
  const std::vector<double> all = tensor_doubles(output.tensor, output.data);
  const size_t batch = output.tensor.rank > 1 ? output.tensor.shape[0] : 1;
  ordered_json items = ordered_json::array();
  for (size_t b = 0; b < batch; ++b) {
    const size_t classes = all.size() / batch;
    const double* const first = all.data() + b * classes;
    const std::vector<double> scores = probabilities({first, first + classes});
    ordered_json item = ordered_json::array();
    for (const size_t c : best_classes(scores, reading.top))
      item.push_back({{"class", c}, {"label", label_of(reading.labels, c)}, {"score", scores[c]}});
    items.push_back(item);
  }
  return items;
}

ordered_json detections_json(const std::vector<Detection>& detections, const Reading& reading) {
  ordered_json list = ordered_json::array();
  for (const Detection& d : detections)
    list.push_back({{"image", d.image},
                    {"class", d.label},
                    {"label", label_of(reading.labels, d.label)},
                    {"score", d.score},
                    {"box", {d.box.left, d.box.top, d.box.right, d.box.bottom}}});
  return list;
}

void print_classes(const ordered_json& items) {
  for (size_t b = 0; b < items.size(); ++b) {
    if (items.size() > 1) fmt::print("  item {}\n", b);
    for (const auto& c : items[b])
      fmt::print("  {:>8.4f}  {}\n", c["score"].get<double>(), c["label"].get<std::string>());
  }
}

void print_detections(const ordered_json& detections) {
  fmt::print("  {} objects\n", detections.size());
  if (!detections.empty())
    fmt::print("  {:>8}{:>10}{:>10}{:>10}{:>10}  {}\n", "score", "left", "top", "right", "bottom", "class");
  for (const auto& d : detections) {
    const auto box = d["box"].get<std::vector<double>>();
    fmt::print("  {:>8.4f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}  {}\n", d["score"].get<double>(), box[0], box[1], box[2],
               box[3], d["label"].get<std::string>());
  }
}

void print_run(const ordered_json& run) {
  fmt::print("{}  {:.3f} ms\n", fmt::join(run["inputs"].get<std::vector<std::string>>(), " "), run["ms"].get<double>());
  if (run.contains("detections")) print_detections(run["detections"]);
  if (run.contains("classes")) print_classes(run["classes"]);
  if (!run.contains("classes") && !run.contains("detections")) {
    for (const auto& output : run["outputs"]) {
      const auto shape = output["shape"].get<std::vector<size_t>>();
      fmt::print("  {}  {} {}\n", output["name"].get<std::string>(), output["type"].get<std::string>(),
                 shape_text(shape.data(), shape.size()));
    }
  }
  for (const auto& compared : run.value("expected", ordered_json::array()))
    fmt::print("  {}: largest difference {:.3g} absolute, {:.3g} relative: {}\n", compared["name"].get<std::string>(),
               compared["absolute"].get<double>(), compared["relative"].get<double>(),
               compared["within"].get<bool>() ? "within the tolerance" : "beyond the tolerance");
}

// Compares an output with an array.
ordered_json compare(const Output& output, const std::string& path, double tolerance) {
  const NpyArray expected = read_npy(path);
  if (!are_alike(output.shape(), expected.shape))
    throw Error(fmt::format("{}: shape {}, but output \"{}\" has {}", path,
                            shape_text(expected.shape.data(), expected.shape.size()), output.name,
                            shape_text(output.tensor.shape, output.tensor.rank)));
  const Difference d = difference_of(tensor_doubles(output.tensor, output.data), npy_doubles(expected), tolerance);
  return {{"name", output.name}, {"absolute", d.absolute}, {"relative", d.relative}, {"within", d.within}};
}

// ---- detections

// The picture among the files of a round, and the input for which it is. Without one the path is empty.
struct Picture {
  std::string path;
  size_t input = 0;
};
Picture picture_of(const Round& round) {
  for (size_t i = 0; i < round.size(); ++i)
    if (is_image_name(round[i])) return {round[i], i};
  return {};
}

// Puts boxes into the picture: from parts of what the model sees, or from pixels of its input, to pixels of the picture.
void place_boxes(const qn_preprocessing& how, const ImagePort& port, bool pixels, const Image& picture,
                 std::vector<Detection>* detections) {
  const Frame seen = seen_frame(picture.width, picture.height, how);
  const double across = seen.width / (pixels ? static_cast<double>(port.width) : 1);
  const double down = seen.height / (pixels ? static_cast<double>(port.height) : 1);
  for (Detection& d : *detections)
    d.box = {seen.left + d.box.left * across, seen.top + d.box.top * down, seen.left + d.box.right * across,
             seen.top + d.box.bottom * down};
}

std::vector<Detection> detect(const RunArguments& arguments, const qn_model* model, const qn_session* session,
                              const Round& round, const std::vector<Output>& outputs, const Reading& reading) {
  std::vector<Detection> found = find_detections(reading.objects, outputs);
  const Picture of = picture_of(round);
  if (of.path.empty()) {
    if (!arguments.draw.empty()) throw Error("--draw: no input is a picture");
    return found;
  }
  Image picture = read_image(of.path);
  qn_tensor tensor;
  check(qn_session_input_tensor(session, of.input, &tensor));
  ImagePort image = *image_port(tensor.shape, tensor.rank, model_graph(*model).inputs[of.input].open);
  if (image.height == 0) image.height = tensor.shape[image.channels_first ? 2 : 1];
  if (image.width == 0) image.width = tensor.shape[image.channels_first ? 3 : 2];
  const qn_preprocessing how = arguments.reading.images.over(input_preprocessing(model, of.input), image.channels);
  place_boxes(how, image, reading.objects.pixels, picture, &found);
  if (arguments.draw.empty()) return found;
  draw_detections(&picture, found, reading.labels);
  write_file(arguments.draw, encode_png(picture));
  return found;
}

// ---- rounds

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

class Runner {
 public:
  explicit Runner(const RunArguments& arguments)
      : arguments_(arguments),
        model_(load_model(arguments.files, arguments.reading.sizes)),
        inputs_(input_ports(model_.get())),
        outputs_(output_ports(model_.get())),
        tuning_(arguments.tuning) {
    if (!inputs_.empty() && arguments.inputs.empty()) throw CLI::RequiredError("--input");
    rounds_ = plan_rounds("--input", name_files("--input", "input", arguments.inputs, inputs_), model_.get());
    expected_ = name_files("--expect", "output", arguments.expect, outputs_);
    if (!arguments.output.empty()) check_folders(rounds_);
    for (const auto& [flag, given] :
         {std::pair{"--expect", !arguments.expect.empty()}, {"--draw", !arguments.draw.empty()}})
      if (rounds_.size() > 1 && given) throw CLI::ValidationError(flag, "goes with one file per input");
    reading_ = make_reading(arguments, *model_, outputs_);
    warn_of_open_sizes(model_graph(*model_), rounds_[0]);
    session_ = make_session(model_.get(), {.threads = arguments.threads,
                                           .tuning = &tuning_,
                                           .algorithm = arguments.algorithm,
                                           .any_size = !arguments.reading.sizes.empty()});
    tuning_.save();
  }

  size_t rounds() const { return rounds_.size(); }
  // Runs a round and describes it.
  ordered_json run(size_t r);

 private:
  const RunArguments& arguments_;
  const ModelPtr model_;
  const std::vector<qn_port> inputs_, outputs_;
  TuningFile tuning_;
  std::vector<Round> rounds_;
  std::vector<std::vector<std::string>> expected_;  // files for each output
  Reading reading_;
  SessionPtr session_;
};

ordered_json Runner::run(size_t r) {
  const Round& round = rounds_[r];
  std::vector<InputData> data;
  for (size_t i = 0; i < inputs_.size(); ++i) data.push_back(read_input(round[i], model_.get(), i, arguments_.reading));
  const double ms = run_session(session_.get(), data);
  tuning_.save();  // every round may have inputs of another shape, and so new choices
  const std::vector<Output> results = session_outputs(session_.get(), outputs_);
  if (!arguments_.output.empty()) write_outputs(round_folder(arguments_.output, rounds_, r), results);
  ordered_json json = {{"inputs", round}, {"ms", ms}, {"outputs", outputs_json(results)}};
  if (reading_.top > 0) json["classes"] = classes_json(results.at(0), reading_);
  if (reading_.detects())
    json["detections"] =
        detections_json(detect(arguments_, model_.get(), session_.get(), round, results, reading_), reading_);
  for (size_t o = 0; o < results.size(); ++o)
    for (const std::string& path : expected_[o])
      json["expected"].push_back(compare(results[o], path, arguments_.tolerance));
  return json;
}

int run(const RunArguments& arguments) {
  Runner runner(arguments);
  double total = 0;
  bool within = true;
  ordered_json runs = ordered_json::array();
  for (size_t r = 0; r < runner.rounds(); ++r) {
    const ordered_json json = runner.run(r);
    total += json["ms"].get<double>();
    for (const auto& compared : json.value("expected", ordered_json::array()))
      within = within && compared["within"].get<bool>();
    if (arguments.json) runs.push_back(json);
    if (!arguments.json) print_run(json);
    flush_output();
  }
  if (arguments.json) {
    const ordered_json all = {{"runs", runs}};
    fmt::print("{}\n", all.dump(2, ' ', false, ordered_json::error_handler_t::replace));
  } else if (runner.rounds() > 1) {
    fmt::print("{} runs, {:.3f} ms each on average\n", runner.rounds(), total / static_cast<double>(runner.rounds()));
  }
  if (!within) throw Error("outputs differ from the expected ones by more than the tolerance");
  return 0;
}

void add_result_flags(CLI::App& app, RunArguments* arguments) {
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
  app.add_option(
         "--top", arguments->top,
         "Print the K best classes of the first output with their confidence; scores that are not probabilities "
         "go through a softmax")
      ->check(CLI::Range(1, 1000000).description(""))
      ->type_name("K");
  app.add_option("--labels", arguments->labels, "Names of the classes, one per line; by default the model's")
      ->type_name("FILE");
  app.add_option("--draw", arguments->draw, "Write the picture with a box for each detected object")
      ->type_name("OUT.png");
  app.add_flag("--json", arguments->json, "One JSON object on standard output");
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
         "first run alone")
      ->type_name("[NAME=]FILE");
  add_result_flags(app, arguments.get());
  add_threads(app, &arguments->threads);
  add_tuning(app, &arguments->tuning);
  add_algorithm(app, &arguments->algorithm);
  add_input_flags(app, &arguments->reading);
  add_detection_flags(app, &arguments->detections);
  app.footer(
      "What the model says about pictures, labels and detections holds unless flags say otherwise. Boxes are in pixels "
      "of the picture; of an array, as the model gives them.");
  return [arguments] { return run(*arguments); };
}

}  // namespace quern
