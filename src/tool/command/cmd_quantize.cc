#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "convert/common/error.h"
#include "convert/common/file.h"
#include "graph/file/format.h"
#include "tool/command/command.h"
#include "tool/equalization.h"
#include "tool/input/named_files.h"
#include "tool/input/samples.h"
#include "tool/model.h"
#include "tool/plan.h"
#include "tool/quantization.h"
#include "tool/sparsity.h"

namespace quern {
namespace {

struct QuantizeArguments {
  std::string in, out, method = "mse", rounding = "reconstruct";
  std::vector<std::string> samples;
  InputFlags reading;
  std::optional<double> least_snr;
  WeightFormat weights;
  PlanFlags plans;
  const CLI::Option *bits = nullptr, *block = nullptr, *algorithm = nullptr;  // go before plans
  std::string activations = "int8";
  size_t threads = 1;
  bool equalize = false, json = false;
};

nlohmann::ordered_json numbers_json(const Quantization& q, double saturation) {
  const Range range = range_of(q);
  return {{"scale", q.scales[0]},
          {"zero_point", q.zero_points[0]},
          {"low", range.low},
          {"high", range.high},
          {"saturation", saturation}};
}

nlohmann::ordered_json layer_json(const QuantizedLayer& layer, uint64_t file_bytes) {
  nlohmann::ordered_json json = {
      {"name", layer.name.c_str()},       {"kind", op_name(layer.kind)}, {"type", layer.bytes ? "qs8c" : "f32"},
      {"weight_bits", layer.weight_bits}, {"weights", layer.weights},    {"file_bytes", file_bytes}};
  if (std::isfinite(layer.noise_db)) json["weights_sqnr_db"] = layer.noise_db;
  if (!layer.bytes) return json;
  json["input"] = numbers_json(layer.input, layer.input_saturation);
  json["output"] = numbers_json(layer.output, layer.output_saturation);
  return json;
}

// Finite numbers for JSON: null without noise.
nlohmann::ordered_json output_json(const OutputQuality& output) {
  constexpr double lowest = -200;
  nlohmann::ordered_json json = {{"name", output.name}, {"snr_db", nullptr}, {"top1_agreement", nullptr}};
  if (output.snr_db < std::numeric_limits<double>::infinity()) json["snr_db"] = std::max(output.snr_db, lowest);
  if (output.top1) json["top1_agreement"] = *output.top1;
  json["usable"] = output.usable();
  return json;
}

// Adds what was measured on samples.
void report_quality(const SampleSplit& split, const std::vector<OutputQuality>& outputs, nlohmann::ordered_json* json) {
  bool usable = true;
  (*json)["calibration_samples"] = split.calibration.size();
  (*json)["measured_samples"] = split.measured.size();
  (*json)["held_out"] = split.held_out;
  (*json)["outputs"] = nlohmann::ordered_json::array();
  for (const OutputQuality& output : outputs) {
    (*json)["outputs"].push_back(output_json(output));
    usable = usable && output.usable();
  }
  (*json)["usable"] = usable;
}

nlohmann::ordered_json report(const QuantizeArguments& arguments, size_t samples, uint64_t source_bytes,
                              const Vector<QuantizedLayer>& layers) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  size_t bytes = 0;
  const std::vector<LayerStats> stored = layers_of_file(arguments.out);  // in the same order
  for (size_t i = 0; i < layers.size(); ++i) {
    list.push_back(layer_json(layers[i], stored.at(i).stored));
    bytes += layers[i].weight_bits != f32_bits;
  }
  return {{"method", arguments.method},
          {"rounding", arguments.rounding},
          {"activations", arguments.activations},
          {"equalized", arguments.equalize},
          {"samples", samples},
          {"layers", list},
          {"quantized_layers", bytes},
          {"source_bytes", source_bytes},
          {"file_bytes", std::filesystem::file_size(arguments.out)}};
}

void print_layer(const nlohmann::ordered_json& layer) {
  const bool quantized = layer["weight_bits"] != f32_bits;
  const std::string noise = layer.contains("weights_sqnr_db")
                                ? fmt::format("{:.1f} dB", layer["weights_sqnr_db"].get<double>())
                                : std::string(quantized ? "exact" : "");
  std::string range, saturated;
  if (layer.contains("output")) {
    const auto& output = layer["output"];
    range = fmt::format("{:.4g} to {:.4g}", output["low"].get<double>(), output["high"].get<double>());
    saturated = fmt::format("{:.3f}%", 100 * output["saturation"].get<double>());
  }
  fmt::print("{:<5}{:>10}{:>6}{:>10}{:>11}{:>22}{:>11}  {}\n", layer["type"].get<std::string>(),
             layer["weights"].get<uint64_t>(), layer["weight_bits"].get<int>(), noise,
             layer["file_bytes"].get<uint64_t>(), range, saturated, layer["name"].get<std::string>());
}

void print_layers(const nlohmann::ordered_json& report) {
  fmt::print("{:<5}{:>10}{:>6}{:>10}{:>11}{:>22}{:>11}  {}\n", "type", "weights", "bits", "SNR", "file bytes",
             "output range", "saturated", "layer");
  for (const auto& layer : report["layers"]) print_layer(layer);
  fmt::print("{} of {} layers are quantized; {} samples; {} bytes became {}\n",
             report["quantized_layers"].get<size_t>(), report["layers"].size(), report["samples"].get<size_t>(),
             report["source_bytes"].get<uint64_t>(), report["file_bytes"].get<uint64_t>());
}

void print_quality(const nlohmann::ordered_json& report) {
  const size_t calibration = report["calibration_samples"], measured = report["measured_samples"];
  if (report["held_out"].get<bool>()) {
    fmt::print("measured on {} held-out samples; the other {} calibrated\n", measured, calibration);
  } else {
    fmt::print("measured on the {} samples that also calibrated; with 5 or more, a fifth is held out\n", measured);
  }
  for (const auto& output : report["outputs"]) {
    const std::string snr =
        output["snr_db"].is_null() ? "exact" : fmt::format("SNR {:.1f} dB", output["snr_db"].get<double>());
    std::string agreement;
    if (!output["top1_agreement"].is_null())
      agreement = fmt::format(", top-1 agreement {:.1f}%", 100 * output["top1_agreement"].get<double>());
    fmt::print("output {}: {}{}{}\n", output["name"].get<std::string>(), snr, agreement,
               output["usable"].get<bool>()
                   ? ""
                   : fmt::format(": below {} dB, the quantized model is not usable", OutputQuality::least_db));
  }
}

RangeMethod method_named(const std::string& name) {
  return static_cast<RangeMethod>(std::find(std::begin(range_methods), std::end(range_methods), name) - range_methods);
}

// Of each node what plans say and flags do not.
LayerPlans plans_for(const QuantizeArguments& arguments, const Graph& graph) {
  LayerPlans plans = arguments.plans.plan_for(graph);
  for (size_t i = 0; i < plans.size(); ++i) {
    LayerPlan& plan = plans[i];
    if (!arguments.bits->empty()) plan.bits.reset();
    if (!arguments.block->empty()) plan.block.reset();
    if (!arguments.algorithm->empty()) plan.reconstructs.reset();
    const char* const name = graph.nodes[i].name.c_str();
    if (plan.bits && *plan.bits != 8 && *plan.bits != 4)
      throw Error(fmt::format("the plan has {} bits for \"{}\"; quantize takes 8 and 4", *plan.bits, name));
    if (plan.block.value_or(0) != 0 && arguments.activations != "f32" && !plan.f32_activations)
      throw Error(fmt::format("the plan has blocks for \"{}\", which need f32 activations", name));
  }
  return plans;
}

int run_quantize(const QuantizeArguments& arguments) {
  const bool f32 = arguments.activations == "f32";
  if (arguments.weights.block != 0 && !f32) throw CLI::ValidationError("--block", "needs --activations f32");
  if (arguments.least_snr && f32) throw CLI::ValidationError("--min-snr", "needs --activations int8");
  if (arguments.equalize && f32) throw CLI::ValidationError("--equalize", "needs --activations int8");
  keep_source(arguments.in, arguments.plans.saved);
  const ModelFiles files = {arguments.in, ""};
  ImportOptions options;
  if (!files.is_quern()) options.target = arguments.out;  // a .qn file may be rewritten in place
  options.sizes = arguments.reading.sizes;
  Graph graph = load_graph(files, options);
  const uint64_t source_bytes = std::filesystem::file_size(arguments.in);
  const ModelPtr model = load_model(files, arguments.reading.sizes);
  const SampleSet samples("--calibrate",
                          name_files("--calibrate", "input", arguments.samples, input_ports(model.get())), model.get(),
                          arguments.reading);
  const auto sample = [&](const qn_model* observed, const qn_session*, size_t i) { return samples.read(i, observed); };
  const SampleSplit split = split_samples(samples.size());
  const SessionSettings settings = {.threads = arguments.threads, .any_size = !arguments.reading.sizes.empty()};
  const LayerPlans plans = plans_for(arguments, graph);
  const std::string checksum = arguments.plans.saved.empty() ? "" : plan_checksum(graph);
  if (arguments.equalize) equalize_model(graph, split.calibration, sample, settings);
  const Graph before = graph;
  LayerPlans decided;
  const Vector<QuantizedLayer> layers = quantize_model(graph, split.calibration, sample, settings,
                                                       {.plans = plans,
                                                        .weights = arguments.weights,
                                                        .reconstructs = arguments.rounding == "reconstruct",
                                                        .f32_activations = f32,
                                                        .ranges = method_named(arguments.method),
                                                        .least_snr_db = arguments.least_snr},
                                                       &decided);
  qn_model* made = nullptr;
  check(make_model(graph, nullptr, &made));
  const ModelPtr quantized(made);
  const std::vector<OutputQuality> outputs =
      compare_outputs(model.get(), quantized.get(), split.measured, sample, settings);
  arguments.plans.save(decided, before, checksum);
  check(write_model_file(graph, arguments.out.c_str()));
  nlohmann::ordered_json json = report(arguments, samples.size(), source_bytes, layers);
  report_quality(split, outputs, &json);
  if (arguments.json) {
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    print_layers(json);
    print_quality(json);
  }
  return 0;
}

}  // namespace

Action quantize_command(CLI::App& app) {
  auto arguments = std::make_shared<QuantizeArguments>();
  app.add_option("IN", arguments->in, "A .qn file, an ONNX or a TensorFlow Lite model")->required()->type_name("IN.qn");
  app.add_option("-o,--out", arguments->out, "The .qn file to write")->required()->type_name("OUT.qn");
  app.add_option("--calibrate", arguments->samples,
                 "Samples of the input: .npy arrays, images, or folders of them; for input NAME, which may be left "
                 "out where there is only one. A .npy array whose first dimension is larger than the input's has many "
                 "samples, as have an array of a .npz archive (FILE.npz:ARRAY) and an idx file. Arrays of uint8 are "
                 "images: N x H x W, or with 1 or 3 channels, red first. A hundred images are usually enough")
      ->required()
      ->type_name("[NAME=]FILE|DIR");
  app.add_option(
         "--method", arguments->method,
         "How the range of a tensor is chosen from its values on the samples. minmax: from the smallest to the "
         "largest; percentile: all but one of 100,000 that are not 0; mse: least mean square error; kl: least KL "
         "divergence between the histograms before and after; admm: alternating least squares")
      ->check(
          CLI::IsMember(std::vector<std::string>(std::begin(range_methods), std::end(range_methods))).description(""))
      ->type_name("NAME")
      ->capture_default_str();
  arguments->algorithm =
      app.add_option(
             "--rounding", arguments->rounding,
             "nearest: each weight becomes the nearest byte; reconstruct: layer by layer, weights and biases are "
             "chosen so that sums on the samples come closest to those before, which takes longer")
          ->check(CLI::IsMember({"nearest", "reconstruct"}).description(""))
          ->type_name("NAME")
          ->capture_default_str();
  arguments->bits = app.add_option("--weight-bits", arguments->weights.bits,
                                   "Bits of weights. Layers of fewer than 3,000 weights have 8 in any case")
                        ->check(CLI::IsMember({8, 4}).description(""))
                        ->type_name("N")
                        ->capture_default_str();
  arguments->block = app.add_option("--block", arguments->weights.block,
                                    "Weights of an output channel that share a scale; 0: all. Needs --activations f32")
                         ->check(CLI::IsMember({0, 32}).description(""))
                         ->type_name("N")
                         ->capture_default_str();
  app.add_option("--activations", arguments->activations, "f32: quantize weights only")
      ->check(CLI::IsMember({"int8", "f32"}).description(""))
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--min-snr", arguments->least_snr,
                 "Nodes whose quantization harms the outputs most remain f32, until each output has so many dB on the "
                 "calibration samples. Takes several times as long")
      ->check(CLI::Range(0.0, 150.0).description(""))
      ->type_name("DB");
  app.add_flag("--equalize", arguments->equalize,
               "Scale channels between layers first, so that their ranges differ less. Some networks with ReLU lose "
               "less then, others more. Channels near the limit of a ReLU6 remain");
  add_plan_flags(app, &arguments->plans);
  app.add_flag("--json", arguments->json, "One JSON object on standard output");
  add_threads(app, &arguments->threads);
  add_input_flags(app, &arguments->reading);
  app.footer(
      "Weights get a scale for each output channel. Layers without an int8 form keep computing in f32. Of 5 samples "
      "or\n"
      "more, every fifth is held out: the others calibrate, and these compare the outputs before and after. SNR is "
      "the\n"
      "power of an output to the power of the difference. Top-1 agreement is the part of items whose largest value is\n"
      "the same, of outputs of shape [N, C] or [N, C, 1, 1]. Below 6 dB the quantized model is not usable; it is "
      "written\n"
      "nevertheless, and the exit status is 0.");
  return [arguments] { return run_quantize(*arguments); };
}

}  // namespace quern
