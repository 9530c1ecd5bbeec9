#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "convert/common/file.h"
#include "tool/command/command.h"
#include "tool/input/classes.h"
#include "tool/input/npy.h"
#include "tool/input/rounds.h"
#include "tool/input/truth.h"
#include "tool/model.h"
#include "tool/progress.h"

namespace quern {
namespace {

struct EvalArguments {
  ModelFiles files;
  std::string images, truth;
  InputFlags flags;
  size_t threads = 1;
  bool json = false;
};

constexpr size_t max_truth_bytes = size_t{256} << 20;

std::vector<double> scores(const qn_session* session) {
  qn_tensor tensor;
  const void* data = nullptr;
  check(qn_session_output_tensor(session, 0, &tensor));
  check(qn_session_output(session, 0, &data));
  return tensor_doubles(tensor, data);
}

struct Hits {
  size_t top1 = 0, top5 = 0;
};

Hits count_hits(const EvalArguments& arguments, const std::vector<LabelledImage>& images) {
  const ModelPtr model = load_model(arguments.files, arguments.flags.sizes);
  const size_t inputs = qn_model_input_count(model.get());
  if (inputs != 1 || qn_model_output_count(model.get()) == 0)
    throw Error(fmt::format("a classifier has one input and an output; this model has {} inputs", inputs));
  const SessionPtr session =
      make_session(model.get(), {.threads = arguments.threads, .any_size = !arguments.flags.sizes.empty()});
  Progress progress("images", images.size());
  Hits hits;
  for (const LabelledImage& image : images) {
    const std::string path = (std::filesystem::path(arguments.images) / image.file).string();
    run_session(session.get(), {read_input(path, model.get(), 0, arguments.flags)});
    const std::vector<double> classes = scores(session.get());
    if (image.label >= classes.size())
      throw Error(fmt::format("{}: label {}, but the model has {} classes", path, image.label, classes.size()));
    const std::vector<size_t> best = best_classes(classes, 5);
    hits.top1 += best[0] == image.label;
    hits.top5 += std::find(best.begin(), best.end(), image.label) != best.end();
    progress.step();
  }
  return hits;
}

int eval(const EvalArguments& arguments) {
  const std::vector<LabelledImage> images = parse_truth(read_file(arguments.truth, max_truth_bytes), arguments.truth);
  const Hits hits = count_hits(arguments, images);
  const double count = static_cast<double>(images.size());
  const double top1 = static_cast<double>(hits.top1) / count, top5 = static_cast<double>(hits.top5) / count;
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"images", images.size()}, {"top1", top1}, {"top5", top5}};
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{} images: top-1 {:.1f}% ({}), top-5 {:.1f}% ({})\n", images.size(), 100 * top1, hits.top1, 100 * top5,
               hits.top5);
  }
  return 0;
}

}  // namespace

Action eval_command(CLI::App& app) {
  auto arguments = std::make_shared<EvalArguments>();
  add_model_files(app, &arguments->files);
  app.add_option("--images", arguments->images, "The folder of the images")->required()->type_name("DIR");
  app.add_option("--truth", arguments->truth,
                 "A table of file,label; with a header the columns \"file\" and \"label_index\" (or \"label\") count. "
                 "Labels count classes from 0")
      ->required()
      ->type_name("FILE.csv");
  app.add_flag("--json", arguments->json, "One JSON object on standard output");
  add_threads(app, &arguments->threads);
  add_input_flags(app, &arguments->flags);
  app.footer(
      "The first output holds the scores, as probabilities or not; of equal scores the lower class comes first.");
  return [arguments] { return eval(*arguments); };
}

}  // namespace quern
