#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "convert/common/error.h"
#include "convert/common/file.h"
#include "graph/file/encoded.h"
#include "graph/file/format.h"
#include "tool/command/command.h"
#include "tool/compression.h"
#include "tool/input/named_files.h"
#include "tool/input/preprocess.h"
#include "tool/input/samples.h"
#include "tool/input/truth.h"
#include "tool/model.h"
#include "tool/output/compression_chart.h"
#include "tool/plan.h"

namespace quern {
namespace {

struct CompressArguments {
  std::string in, out;
  std::vector<std::string> samples;
  InputFlags reading;
  std::optional<double> ratio, most_drop, seconds;
  bool relative_drop = false;
  bool dry_run = false;
  std::optional<uint64_t> size;
  std::optional<size_t> subset;
  uint32_t seed = 0;
  std::string truth, plot;
  PlanFlags plans;
  std::string activations = "f32";
  std::optional<double> least_snr;
  bool mirror = false;
  size_t threads = 1;
  bool json = false;
};

// Mirrors an image.
void mirror_image(InputData* image) {
  const auto port = image_port(image->tensor.shape, image->tensor.rank);
  if (!port || image->tensor.type != QN_F32) throw CLI::ValidationError("--mirror", "the input takes no images of f32");
  auto* const x = reinterpret_cast<float*>(image->bytes.data());
  const size_t items = port->channels_first ? 1 : port->channels, row = port->width * items;
  for (size_t begin = 0; begin + row <= image->bytes.size() / sizeof(float); begin += row) {
    for (size_t left = 0, right = port->width - 1; left < right; ++left, --right) {
      std::swap_ranges(x + begin + left * items, x + begin + (left + 1) * items, x + begin + right * items);
    }
  }
}

// Simplifies a model of which no layer is to stay as it is, if `is_same` says that it remains the same. Plans follow their
// layers, by name.
template <class Same>
Vector<Transform> simplify_if_same(Graph* graph, LayerPlans* plans, const Same& is_same) {
  if (std::any_of(plans->begin(), plans->end(), [](const LayerPlan& plan) { return plan.keep; })) return {};
  Graph simple = *graph;
  Vector<Transform> done;
  check(simplify(simple, &done));
  if (done.empty() || !is_same(simple)) return {};
  LayerPlans moved(simple.nodes.size());
  for (size_t i = 0; i < moved.size(); ++i) {
    const auto same = [&](const Node& node) { return node.name == simple.nodes[i].name; };
    const auto found = std::find_if(graph->nodes.begin(), graph->nodes.end(), same);
    if (found != graph->nodes.end()) moved[i] = (*plans)[static_cast<size_t>(found - graph->nodes.begin())];
  }
  *plans = std::move(moved);
  *graph = std::move(simple);
  return done;
}

Compression squeeze(const CompressArguments& arguments, const ModelFiles& files, Graph graph,
                    CompressionOptions options) {
  check(make_dense(graph));
  options.plans = arguments.plans.plan_for(graph);
  const std::string checksum = arguments.plans.saved.empty() ? "" : plan_checksum(graph);
  const ModelPtr model = load_model(files, arguments.reading.sizes);
  const SampleSet samples("--calibrate",
                          name_files("--calibrate", "input", arguments.samples, input_ports(model.get())), model.get(),
                          arguments.reading);
  const size_t images = std::min<size_t>(arguments.subset.value_or(samples.size()), samples.size());
  const auto place = [&](size_t i) { return i % images * samples.size() / images; };
  const auto sample = [&](const qn_model* observed, const qn_session*, size_t i) {
    std::vector<InputData> inputs = samples.read(place(i), observed);
    if (i >= images) std::for_each(inputs.begin(), inputs.end(), [](InputData& input) { mirror_image(&input); });
    return inputs;
  };
  const SessionSettings settings = {.threads = arguments.threads, .any_size = !arguments.reading.sizes.empty()};
  const size_t views = images * (arguments.mirror ? 2 : 1);
  const Vector<Transform> transforms = simplify_if_same(&graph, &options.plans, [&](const Graph& simple) {
    return has_same_outputs(graph, simple, views, sample, settings);
  });
  options.images = images;
  options.seed = arguments.seed;
  options.curve = !arguments.plot.empty();
  if (!arguments.truth.empty()) {
    const std::vector<size_t> labels = labels_of_samples(arguments.truth, samples.files());
    for (size_t i = 0; i < images; ++i) options.labels.push_back(labels[place(i)]);
  }
  options.int8_activations = arguments.activations == "int8";
  options.least_snr_db = arguments.least_snr;
  Compression compression = compress_model(graph, views, sample, settings, options);
  compression.transforms = transforms;
  arguments.plans.save(compression.plans, graph, checksum);
  return compression;
}

nlohmann::ordered_json compressed_layer_json(const CompressedLayer& layer) {
  const auto weights = static_cast<double>(layer.weights);
  return {{"name", layer.name},
          {"weights", layer.weights},
          {"bits_per_weight", layer.bits / weights},
          {"sparsity", static_cast<double>(layer.zeros) / weights},
          {"sensitivity", layer.sensitivity ? nlohmann::ordered_json(*layer.sensitivity) : nullptr}};
}

nlohmann::ordered_json transform_json(const Transform& transform) {
  return {{"name", transform.node.c_str()},
          {"what", name_of(transform.kind)},
          {"channels", transform.channels},
          {"weights_before", transform.weights_before},
          {"weights_after", transform.weights_after}};
}

nlohmann::ordered_json drop_json(const Drop& drop) {
  return {{"points", drop.points}, {"low", drop.low}, {"high", drop.high}};
}

nlohmann::ordered_json curve_point_json(const CurvePoint& point, uint64_t before) {
  nlohmann::ordered_json json = {
      {"file_bytes", point.file_bytes},
      {"ratio", static_cast<double>(before) / static_cast<double>(point.file_bytes)},
      {"loss", point.loss},
      {"saved_bytes", {{"zeros", point.zeros}, {"integers", point.integers}, {"coding", point.coding}}}};
  if (point.drop) json["drop"] = drop_json(*point.drop);
  return json;
}

nlohmann::ordered_json compression_json(const Compression& compression, uint64_t before, uint64_t after) {
  nlohmann::ordered_json json = {{"input_bytes", before},
                                 {"file_bytes", after},
                                 {"ratio", static_cast<double>(before) / static_cast<double>(after)}};
  if (compression.layers.empty()) return json;
  json["loss"] = compression.loss;
  if (compression.drop) {
    json["drop"] = drop_json(*compression.drop);
    json["drop"]["most"] = compression.most_drop;
  }
  json["transforms"] = nlohmann::ordered_json::array();
  for (const Transform& transform : compression.transforms) json["transforms"].push_back(transform_json(transform));
  json["layers"] = nlohmann::ordered_json::array();
  for (const CompressedLayer& layer : compression.layers) json["layers"].push_back(compressed_layer_json(layer));
  for (const CurvePoint& point : compression.curve) json["curve"].push_back(curve_point_json(point, before));
  return json;
}

void print_drop(const nlohmann::ordered_json& drop) {
  const double most = drop["most"];
  fmt::print("accuracy drops by {:.2f} points, with 95% between {:.2f} and {:.2f}, as estimated on held-out samples\n",
             drop["points"].get<double>(), drop["low"].get<double>(), drop["high"].get<double>());
  if (drop["high"].get<double>() > most)
    fmt::print("these are too few samples to be sure of {:.3g} points: more would tell\n", most);
}

void print_compression(const nlohmann::ordered_json& report) {
  if (report.contains("layers")) {
    for (const auto& transform : report["transforms"]) {
      fmt::print("{}: {}, {} weights became {}\n", transform["name"].get<std::string>(),
                 transform["what"] == "merged" ? "merged with the layer before"
                 : transform["channels"] == 0
                     ? "reads fewer channels"
                     : fmt::format("{} channels without effect are gone", transform["channels"].get<size_t>()),
                 transform["weights_before"].get<uint64_t>(), transform["weights_after"].get<uint64_t>());
    }
    fmt::print("  weights    bits   zeros  sensitivity  layer\n");
    for (const auto& layer : report["layers"]) {
      const auto& sensitivity = layer["sensitivity"];
      fmt::print("{:>9}  {:6.2f}  {:5.1f}%  {:>11}  {}\n", layer["weights"].get<uint64_t>(),
                 layer["bits_per_weight"].get<double>(), 100 * layer["sparsity"].get<double>(),
                 sensitivity.is_null() ? "planned" : fmt::format("{:.3g}", sensitivity.get<double>()),
                 layer["name"].get<std::string>());
    }
    fmt::print("outputs lose {:.4g} on the samples (KL divergence, or half the relative square error)\n",
               report["loss"].get<double>());
    if (report.contains("drop")) print_drop(report["drop"]);
  }
  fmt::print("{} -> {} bytes, {:.2f} times smaller\n", report["input_bytes"].get<uint64_t>(),
             report["file_bytes"].get<uint64_t>(), report["ratio"].get<double>());
}

// Returns the size of the file, which a dry run does not write.
uint64_t write_coded(const Graph& graph, const CompressArguments& arguments) {
  if (!arguments.dry_run) {
    check(write_model_file(graph, arguments.out.c_str(), FileForm::coded));
    return std::filesystem::file_size(arguments.out);
  }
  Vector<unsigned char> file;
  check(write_model(graph, &file, FileForm::coded));
  return file.size();
}

int run_compress(const CompressArguments& arguments) {
  if (!arguments.plot.empty()) expect_charts();
  for (const std::string& written : {arguments.plot, arguments.plans.saved}) keep_source(arguments.in, written);
  if (arguments.least_snr && arguments.activations != "int8")
    throw CLI::ValidationError("--min-snr", "needs --activations int8");
  const bool lossy = arguments.ratio || arguments.size || arguments.most_drop || !arguments.plans.file.empty();
  if (lossy && arguments.samples.empty()) throw CLI::ValidationError("--calibrate", "a target or a plan needs samples");
  if (!lossy && !arguments.samples.empty())
    throw CLI::ValidationError("--calibrate", "samples need a target or a plan");
  if (!lossy && !arguments.plot.empty()) throw CLI::ValidationError("--plot", "a curve needs a target or a plan");
  if (!lossy && arguments.plans.any()) throw CLI::ValidationError("--exclude, --save-plan", "they need a target");
  const ModelFiles files = {arguments.in, ""};
  ImportOptions options;
  if (!files.is_quern()) options.target = arguments.out;  // a .qn file may be rewritten in place
  options.sizes = arguments.reading.sizes;
  Compression compression;
  compression.graph = load_graph(files, options);
  const uint64_t before = std::filesystem::file_size(arguments.in);
  if (lossy) {
    CompressionOptions wanted = {.target = arguments.size,
                                 .most_drop = arguments.most_drop,
                                 .relative_drop = arguments.relative_drop,
                                 .seconds = arguments.seconds};
    if (arguments.ratio) wanted.target = static_cast<uint64_t>(static_cast<double>(before) / *arguments.ratio);
    compression = squeeze(arguments, files, std::move(compression.graph), wanted);
  }
  const uint64_t after = write_coded(compression.graph, arguments);
  if (!arguments.plot.empty()) {
    const std::string name = std::filesystem::path(arguments.in).filename().string();
    write_file(arguments.plot, draw_charts(compression_charts(name, before, compression)));
  }
  const nlohmann::ordered_json json = compression_json(compression, before, after);
  if (arguments.json) {
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    print_compression(json);
  }
  return 0;
}

}  // namespace

Action compress_command(CLI::App& app) {
  auto arguments = std::make_shared<CompressArguments>();
  app.add_option("IN", arguments->in, "A .qn file")->required()->type_name("IN.qn");
  app.add_option("-o,--out", arguments->out, "The .qn file to write")->required()->type_name("OUT.qn");
  auto* const ratio =
      app.add_option("--target-ratio", arguments->ratio, "How many times smaller than IN the file is to be");
  ratio->check(CLI::Range(1.0, 1e4).description(""))->type_name("R");
  auto* const size =
      app.add_option("--target-size", arguments->size, "How many bytes the file is to have at most")->excludes(ratio);
  size->type_name("BYTES");
  app.add_option_function<std::string>(
         "--max-drop",
         [arguments](std::string text) {
           arguments->relative_drop = text.ends_with('%');
           if (arguments->relative_drop) text.pop_back();
           double most;
           if (!CLI::detail::lexical_cast(text, most) || !(most >= 0 && most <= 100))
             throw CLI::ValidationError("--max-drop", "expected a number from 0 to 100, or with a % behind it");
           arguments->most_drop = most;
         },
         "How many percentage points of accuracy a classifier may lose, or, with a % behind it, which part of its "
         "accuracy; estimated on every fifth sample, which does not calibrate")
      ->excludes(ratio)
      ->excludes(size)
      ->type_name("POINTS[%]");
  app.add_option(
         "--truth", arguments->truth,
         "Labels of the samples, as for eval: --max-drop counts by them, instead of by the model's probabilities")
      ->needs(app.get_option("--max-drop"))
      ->type_name("FILE");
  app.add_option("--calibrate", arguments->samples,
                 "Samples of the input, as for quantize: they tell which weights matter")
      ->type_name("[NAME=]FILE|DIR");
  app.add_option("--activations", arguments->activations,
                 "int8: compute in int8 where layers can, as after quantize, which is faster")
      ->check(CLI::IsMember({"int8", "f32"}).description(""))
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option(
         "--min-snr", arguments->least_snr,
         "With --activations int8: activations of nodes that harm the outputs most remain f32, until each output "
         "has so many dB on the samples, before weights have fewer bits")
      ->check(CLI::Range(0.0, 150.0).description(""))
      ->type_name("DB");
  app.add_option_function<std::string>(
         "--preset",
         [arguments](const std::string& preset) {
           if (preset != "size") arguments->activations = "int8";
           if (preset == "balanced") arguments->least_snr = 25;
         },
         "size: --activations f32, the least loss; balanced: --activations int8 --min-snr 25; speed: --activations "
         "int8")
      ->check(CLI::IsMember({"size", "balanced", "speed"}).description(""))
      ->excludes(app.get_option("--activations"))
      ->excludes(app.get_option("--min-snr"))
      ->type_name("NAME");
  app.add_option("--timeout", arguments->seconds,
                 "After so many seconds the search ends with the best so far, as soon as one keeps the limit")
      ->check(CLI::NonNegativeNumber.description(""))
      ->type_name("SECONDS");
  app.add_flag("--dry-run", arguments->dry_run, "Only report, and write the plan: write no model");
  app.add_option("--subset", arguments->subset, "Only so many samples, evenly from all")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N");
  app.add_option("--seed", arguments->seed, "Of the noise, and of the pixels that are looked at")
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--mirror", arguments->mirror, "Mirrored images are samples, too");
  app.add_option("--plot", arguments->plot,
                 "Draw what smaller and larger files lose, and which step saves how much, as a PNG file")
      ->type_name("FILE");
  add_plan_flags(app, &arguments->plans);
  add_input_flags(app, &arguments->reading);
  add_threads(app, &arguments->threads);
  app.add_flag("--json", arguments->json, "One JSON object on standard output");
  app.footer(
      "Without a target the model stays the same, coded in fewer bytes. With one, weights lose what the outputs miss "
      "least: each becomes an integer, chosen by the error that it causes and the bits that it takes.");
  return [arguments] { return run_compress(*arguments); };
}

}  // namespace quern
