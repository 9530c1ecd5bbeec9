#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "convert/common/file.h"
#include "tool/command/command.h"
#include "tool/input/arrays.h"
#include "tool/input/classes.h"
#include "tool/input/npy.h"
#include "tool/input/rounds.h"
#include "tool/input/samples.h"
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

// Files of samples, and the labels of these in the same order.
struct Truth {
  std::vector<std::string> files;
  std::vector<size_t> labels;
  std::string source;  // of the labels, for messages
};

// Reads --truth, or else the labels in the archive of --images: y_test for FILE.npz:x_test, if there is such an array.
Truth read_truth(const EvalArguments& arguments) {
  const ArrayPath images = parse_array_path(arguments.images);
  if (arguments.truth.empty() && !images.file.ends_with(".npz")) throw CLI::RequiredError("--truth");
  Truth truth = {{arguments.images}, {}, arguments.truth.empty() ? images.file : arguments.truth};
  if (is_array_file(truth.source)) {
    std::vector<std::string> likely = {"labels", "label", "y"};
    if (images.name.starts_with('x')) likely.insert(likely.begin(), "y" + images.name.substr(1));
    truth.labels = array_labels(read_array(truth.source, likely), truth.source);
    return truth;
  }
  const std::string table = read_file(truth.source, max_truth_bytes);
  std::error_code error;
  if (!std::filesystem::is_directory(arguments.images, error)) {
    truth.labels = parse_labels(table, truth.source);
    return truth;
  }
  truth.files.clear();
  for (const LabelledImage& image : parse_truth(table, truth.source)) {
    truth.files.push_back((std::filesystem::path(arguments.images) / image.file).string());
    truth.labels.push_back(image.label);
  }
  return truth;
}

// Returns how many labels a sample has: one, or one for each item of its batch.
size_t items_of(const Truth& truth, const SampleSet& samples, const qn_model* model) {
  if (truth.labels.size() == samples.size()) return 1;
  const qn_tensor first = samples.read(0, model)[0].tensor;
  const size_t batch = first.rank == 0 ? 1 : first.shape[0];
  if (truth.labels.size() == samples.size() * batch) return batch;
  throw Error(fmt::format("{}: expected {} labels, one for each sample, got {}", truth.source, samples.size(),
                          truth.labels.size()));
}

// Counts in the scores of a sample's items. `labels`: of the first item and those after it.
void count_sample(const std::vector<double>& all, size_t items, const size_t* labels, const std::string& who,
                  Hits* hits) {
  const size_t count = all.size() / items;
  if (count * items != all.size() || count == 0)
    throw Error(fmt::format("expected scores for {} items as the first output, got {} values", items, all.size()));
  for (size_t i = 0; i < items; ++i) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * count);
    if (labels[i] >= count)
      throw Error(fmt::format("{}: expected a label below {}, the number of classes, got {}", who, count, labels[i]));
    const std::vector<size_t> best = best_classes({first, first + static_cast<std::ptrdiff_t>(count)}, 5);
    hits->top1 += best[0] == labels[i];
    hits->top5 += std::find(best.begin(), best.end(), labels[i]) != best.end();
  }
}

Hits count_hits(const EvalArguments& arguments, const Truth& truth) {
  const ModelPtr model = load_model(arguments.files, arguments.flags.sizes);
  const size_t inputs = qn_model_input_count(model.get());
  if (inputs != 1 || qn_model_output_count(model.get()) == 0)
    throw Error(fmt::format("a classifier has one input and an output; this model has {} inputs", inputs));
  const SampleSet samples("--images", {truth.files}, model.get(), arguments.flags);
  const size_t items = items_of(truth, samples, model.get());
  const SessionPtr session =
      make_session(model.get(), {.threads = arguments.threads, .any_size = !arguments.flags.sizes.empty()});
  Progress progress("images", samples.size());
  Hits hits;
  for (size_t i = 0; i < samples.size(); ++i) {
    run_session(session.get(), samples.read(i, model.get()));
    const std::string who =
        truth.files.size() == samples.size() ? truth.files[i] : fmt::format("{}: sample {}", truth.source, i);
    count_sample(scores(session.get()), items, &truth.labels[i * items], who, &hits);
    progress.step();
  }
  return hits;
}

int eval(const EvalArguments& arguments) {
  const Truth truth = read_truth(arguments);
  const size_t images = truth.labels.size();
  const Hits hits = count_hits(arguments, truth);
  const double count = static_cast<double>(images);
  const double top1 = static_cast<double>(hits.top1) / count, top5 = static_cast<double>(hits.top5) / count;
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"images", images}, {"top1", top1}, {"top5", top5}};
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{} images: top-1 {:.1f}% ({}), top-5 {:.1f}% ({})\n", images, 100 * top1, hits.top1, 100 * top5,
               hits.top5);
  }
  return 0;
}

}  // namespace

Action eval_command(CLI::App& app) {
  auto arguments = std::make_shared<EvalArguments>();
  add_model_files(app, &arguments->files);
  app.add_option(
         "--images", arguments->images,
         "A folder of images, or a file of many samples: a .npy array, an array of a .npz archive, or an idx file "
         "as MNIST has. Arrays of uint8 are images: N x H x W, or with 1 or 3 channels, red first")
      ->required()
      ->type_name("DIR|FILE[:ARRAY]");
  app.add_option(
         "--truth", arguments->truth,
         "Labels, which count classes from 0. For a folder, a table of file,label; with a header the columns "
         "\"file\" and \"label_index\" (or \"label\") count. In the order of the samples, an array as above, or a "
         "table of labels. Default: the labels in the archive of the samples")
      ->type_name("FILE[:ARRAY]");
  app.add_flag("--json", arguments->json, "One JSON object on standard output");
  add_threads(app, &arguments->threads);
  add_input_flags(app, &arguments->flags);
  app.footer(
      "The first output holds the scores, as probabilities or not; of equal scores the lower class comes first.\n"
      "FILE.npz:ARRAY chooses an array of an archive. By default, samples are the array named like the input, images,\n"
      "x or data, and labels the array labels, label or y (y_test for x_test); or each is the only array.");
  return [arguments] { return eval(*arguments); };
}

}  // namespace quern
