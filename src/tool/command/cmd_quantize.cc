#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "graph/file/format.h"
#include "tool/command/command.h"
#include "tool/input/named_files.h"
#include "tool/input/rounds.h"
#include "tool/model.h"
#include "tool/quantization.h"

namespace quern {
namespace {

struct QuantizeArguments {
  std::string in, out, method = "minmax";
  std::vector<std::string> samples;
  InputFlags reading;
  size_t threads = 1;
  bool json = false;
};

nlohmann::ordered_json numbers_json(const Quantization& q) {
  return {{"scale", q.scales[0]}, {"zero_point", q.zero_points[0]}};
}

nlohmann::ordered_json layer_json(const QuantizedLayer& layer) {
  nlohmann::ordered_json json = {{"name", layer.name.c_str()},
                                 {"kind", op_name(layer.kind)},
                                 {"type", layer.bytes ? "qs8c" : "f32"},
                                 {"weights", layer.weights}};
  if (!layer.bytes) return json;
  if (std::isfinite(layer.noise_db)) json["weights_sqnr_db"] = layer.noise_db;
  json["input"] = numbers_json(layer.input);
  json["output"] = numbers_json(layer.output);
  return json;
}

nlohmann::ordered_json report(const QuantizeArguments& arguments, size_t samples, uint64_t source_bytes,
                              const Vector<QuantizedLayer>& layers) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  size_t bytes = 0;
  for (const QuantizedLayer& layer : layers) {
    list.push_back(layer_json(layer));
    bytes += layer.bytes;
  }
  return {{"method", arguments.method},
          {"samples", samples},
          {"layers", list},
          {"quantized_layers", bytes},
          {"source_bytes", source_bytes},
          {"file_bytes", std::filesystem::file_size(arguments.out)}};
}

void print_layers(const nlohmann::ordered_json& report) {
  for (const auto& layer : report["layers"]) {
    const bool quantized = layer.contains("input");
    const std::string noise = layer.contains("weights_sqnr_db")
                                  ? fmt::format("{:5.1f} dB", layer["weights_sqnr_db"].get<double>())
                                  : std::string(quantized ? "exact" : "");
    fmt::print("{:<5} {:>9} weights  {:>8}  {}\n", layer["type"].get<std::string>(), layer["weights"].get<uint64_t>(),
               noise, layer["name"].get<std::string>());
  }
  fmt::print("{} of {} layers compute with bytes; {} samples; {} bytes became {}\n",
             report["quantized_layers"].get<size_t>(), report["layers"].size(), report["samples"].get<size_t>(),
             report["source_bytes"].get<uint64_t>(), report["file_bytes"].get<uint64_t>());
}

// Replaces folders by the files in them.
std::vector<std::string> expanded(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (!std::filesystem::is_directory(argument, error)) {
      files.push_back(argument);
      continue;
    }
    for (std::string& file : inputs_in(argument)) files.push_back(std::move(file));
  }
  return files;
}

int run_quantize(const QuantizeArguments& arguments) {
  const ModelFiles files = {arguments.in, ""};
  ImportOptions options;
  if (!files.is_quern()) options.target = arguments.out;  // a .qn file may be rewritten in place
  options.sizes = arguments.reading.sizes;
  Graph graph = load_graph(files, options);
  const uint64_t source_bytes = std::filesystem::file_size(arguments.in);
  const ModelPtr model = load_model(files, arguments.reading.sizes);
  const std::vector<qn_port> ports = input_ports(model.get());
  const auto named = name_files("--calibrate", "input", expanded(arguments.samples), ports);
  const std::vector<Round> rounds = plan_rounds("--calibrate", named, model.get());
  const auto sample = [&](const qn_model* observed, const qn_session*, size_t i) {
    std::vector<InputData> inputs;
    for (size_t k = 0; k < ports.size(); ++k) {
      inputs.push_back(read_input(rounds[i][k], observed, k, arguments.reading));
    }
    return inputs;
  };
  const Vector<QuantizedLayer> layers = quantize_model(graph, rounds.size(), sample, arguments.threads);
  check(write_model_file(graph, arguments.out.c_str()));
  const nlohmann::ordered_json json = report(arguments, rounds.size(), source_bytes, layers);
  if (arguments.json) {
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    print_layers(json);
  }
  return 0;
}

}  // namespace

Action quantize_command(CLI::App& app) {
  auto arguments = std::make_shared<QuantizeArguments>();
  app.add_option("IN", arguments->in, "A .qn file, an ONNX or a TensorFlow Lite model")->required()->type_name("IN.qn");
  app.add_option("-o,--out", arguments->out, "The .qn file to write")->required()->type_name("OUT.qn");
  app.add_option("--calibrate", arguments->samples,
                 "Samples of the input: .npy arrays, pictures, or folders of them; for input NAME, which may be left "
                 "out where there is only one. A hundred pictures are usually enough")
      ->required()
      ->type_name("[NAME=]FILE|DIR");
  app.add_option("--method", arguments->method, "minmax: from the smallest to the largest number of all samples")
      ->check(CLI::IsMember({"minmax"}).description(""))
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--json", arguments->json, "One JSON object on standard output");
  add_threads(app, &arguments->threads);
  add_input_flags(app, &arguments->reading);
  app.footer(
      "Weights get a scale for each output channel. Layers without a form for bytes go on computing with floats.");
  return [arguments] { return run_quantize(*arguments); };
}

}  // namespace quern
